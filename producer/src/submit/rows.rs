//! The rows of a file as orders.
//!
//! Owns ids: a row's own, or one derived from the digest of the whole file and the row's line, so
//! that every reading of the same file gives the same ids.

use std::sync::Arc;

use tokio::sync::mpsc::Sender;

use super::SubmitArgs;
use crate::context::Context;
use crate::error::Error;
use crate::input::{Checked, Defaults, Input, Row, TRANSFERS, check, parse_transfer};
use crate::submission::Order;

/// The most rows of one insert.
const CHUNK_ROWS: usize = 1_000;
/// The most bytes of one insert, as read from the file.
const CHUNK_BYTES: usize = 4 << 20;

/// A file of transfers that was looked at.
pub(super) struct Transfers {
    input: Input,
    checked: Checked,
    defaults: Defaults,
}

/// An order and where it stands in the file.
#[derive(Debug)]
pub(super) struct Placed {
    /// Its line, from 1.
    pub line: u32,
    /// Its position among all rows, from 0.
    pub ordinal: usize,
    /// The order.
    pub order: Order,
}

impl Transfers {
    /// Opens and checks a file, off the runtime's threads: standard input may take its time.
    pub async fn open(
        context: &Context,
        args: &SubmitArgs,
        defaults: Defaults,
    ) -> Result<Transfers, Error> {
        let (console, file, format) = (context.console.clone(), args.file.clone(), args.format);
        let opening = tokio::task::spawn_blocking(move || {
            let input = Input::open(&file, format, TRANSFERS)?;
            let checked = check(&input, &console, |record| parse_transfer(record, &defaults))?;
            Ok(Transfers { input, checked, defaults })
        });
        opening.await.map_err(|panicked| Error::Failed(panicked.to_string()))?
    }

    pub fn checked(&self) -> &Checked {
        &self.checked
    }

    pub fn name(&self) -> &str {
        self.input.name()
    }

    /// A row as an order.
    ///
    /// # Errors
    /// Why it is invalid.
    pub fn order(&self, row: Row) -> Result<Order, String> {
        let line = row.line;
        let parsed = self.checked.parse(row, |record| parse_transfer(record, &self.defaults))?;
        let id = parsed.key.unwrap_or_else(|| derived_id(&self.checked.digest, line));
        Ok(Order { id: id.into(), body: parsed.value })
    }

    /// Goes through all rows, from the first.
    pub fn rows(&self) -> Result<crate::input::Rows, Error> {
        self.input.rows()
    }

    /// Sends all orders in chunks; stops when nobody takes them any more.
    pub fn send(self: &Arc<Self>, chunks: &Sender<Vec<Placed>>) -> Result<(), Error> {
        let mut rows = self.rows()?;
        let (mut chunk, mut bytes) = (Vec::with_capacity(CHUNK_ROWS), 0);
        let mut ordinal = 0;
        while let Some(row) = rows.next_row()? {
            let line = row.line;
            bytes += row.bytes;
            if let Ok(order) = self.order(row) {
                chunk.push(Placed { line, ordinal, order });
            }
            ordinal += 1;
            if chunk.len() == CHUNK_ROWS || bytes >= CHUNK_BYTES {
                bytes = 0;
                let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK_ROWS));
                if chunks.blocking_send(full).is_err() {
                    return Ok(());
                }
            }
        }
        let taken = chunk.is_empty() || chunks.blocking_send(chunk).is_ok();
        if taken && rows.digest() != self.checked.digest {
            return Err(Error::Failed(format!(
                "{}: was changed while it was read; what was submitted may mix both versions",
                self.name()
            )));
        }
        Ok(())
    }
}

/// Such ids sort in the order of the file, which keeps the index on `_id` small, and show the line.
fn derived_id(digest: &[u8; 32], line: u32) -> String {
    let digest: String = digest[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digest}-{line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_ids_depend_on_content_and_line_only() {
        assert_eq!(derived_id(&[1; 32], 7), "010101010101010101010101-7");
        assert_ne!(derived_id(&[1; 32], 7), derived_id(&[1; 32], 8));
        assert_ne!(derived_id(&[1; 32], 7), derived_id(&[2; 32], 7));
    }
}
