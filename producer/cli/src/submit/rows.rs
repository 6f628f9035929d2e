//! The rows of a file as orders.
//!
//! Owns ids: a row's own, or one derived from the batch, the row's content and its occurrence (see
//! `batch`), so that every reading of the same file gives the same ids.

use std::sync::Arc;

use client::{Body, Order, Rules};
use input::Defaults;
use input::content::Occurrences;
use input::files::{Checked, Header, Identity, Input, Parsed, Rows, TRANSFERS, parse_transfer};
use ledger::hex::hex;
use ledger::limits::NAME_BYTES_MAX;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc::Sender;

use super::SubmitArgs;
use super::batch::Batch;
use crate::context::Context;
use crate::exit::Error;
use crate::files::check;

/// What stands in the id of a row that is submitted again after it was refused, before its number.
const AGAIN: &str = "/again-";

/// The most rows of one insert.
const CHUNK_ROWS: usize = 1_000;
/// The most bytes of one insert, as read from the file.
const CHUNK_BYTES: usize = 4 << 20;

/// A file of transfers that was looked at.
pub(super) struct Transfers {
    input: Input,
    checked: Checked,
    defaults: Defaults,
    /// What the ledger asks for.
    rules: Rules,
    batch: Batch,
}

/// A row as it was read.
pub(super) struct Read {
    /// Its line, from 1.
    pub line: u32,
    /// Its length in bytes.
    pub bytes: usize,
    /// As it stands in the file.
    pub text: String,
    /// The order, or why the row is invalid.
    pub order: Result<Order, String>,
}

/// One reading of all rows, from the first.
pub(super) struct Orders<'a> {
    transfers: &'a Transfers,
    rows: Rows,
    occurrences: Occurrences<'a>,
    /// The position of the next row, from 0.
    next: usize,
}

/// An order and where it stands in the file.
#[derive(Debug)]
pub(super) struct Placed {
    /// Its line, from 1.
    pub line: u32,
    /// Its position among all rows, from 0.
    pub ordinal: usize,
    /// Its length in bytes.
    pub bytes: usize,
    /// The order.
    pub order: Order,
}

impl Transfers {
    /// Opens and checks a file, in a thread of its own: reading standard input may block for long.
    pub async fn open(context: &Context, args: &SubmitArgs) -> Result<Transfers, Error> {
        let rules = context.client.known_rules().await?;
        let defaults =
            Defaults { currency: args.currency.clone(), notation: rules.notation().clone() };
        let (console, file) = (context.console.clone(), args.file.clone());
        let (format, batch) = (args.reading.format, args.batch.clone());
        let columns = args.columns();
        let opening = tokio::task::spawn_blocking(move || {
            let input = Input::open(&file, format, TRANSFERS, columns)?;
            let of = |record| in_ledger(parse_transfer(record, &defaults)?, &rules);
            let checked = check(&input, &console, of)?;
            let batch = batch.unwrap_or_else(|| Batch::of_file(&checked.digest));
            Ok(Transfers { input, checked, defaults, rules, batch })
        });
        opening.await.map_err(|panicked| Error::Failed(panicked.to_string()))?
    }

    /// What the ledger asked for when the file was looked at.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    pub fn checked(&self) -> &Checked {
        &self.checked
    }

    pub fn name(&self) -> &str {
        self.input.name()
    }

    /// The id of an invalid row that has none of its own, for the time when it is corrected: it does
    /// not depend on what the row says then. None where Tandem makes no ids.
    pub fn id_of_line(&self, line: u32) -> Option<String> {
        self.rules.made(self.batch.id_of_line(&self.checked.digest, line)).ok()
    }

    /// The first line, if it is a CSV file.
    pub fn header(&self) -> Result<Option<Header>, Error> {
        Ok(self.input.rows()?.header().cloned())
    }

    /// The id of a row that is submitted once more after it was refused. None where Tandem makes no
    /// ids.
    pub fn next_id(&self, id: &str) -> Option<String> {
        self.rules.made(numbered_on(id)).ok()
    }

    /// The batch, if ids were derived from it: if a valid row has no id of its own.
    pub fn batch(&self) -> Option<&Batch> {
        (self.checked.without_key > 0).then_some(&self.batch)
    }

    /// Goes through all rows, from the first.
    pub fn orders(&self) -> Result<Orders<'_>, Error> {
        let (rows, occurrences) = (self.input.rows()?, self.checked.occurrences());
        Ok(Orders { transfers: self, rows, occurrences, next: 0 })
    }

    /// Sends all orders in chunks; stops when the receiver is gone.
    pub fn send(self: &Arc<Self>, chunks: &Sender<Vec<Placed>>) -> Result<(), Error> {
        let mut orders = self.orders()?;
        while let Some(chunk) = orders.chunk()? {
            if chunks.blocking_send(chunk).is_err() {
                return Ok(());
            }
        }
        if orders.rows.digest() != self.checked.digest {
            return Err(Error::Failed(format!(
                "{}: was changed while it was read; what was submitted may mix both versions",
                self.name()
            )));
        }
        Ok(())
    }
}

/// The same id with the next number at its end: `a`, `a/again-2`, `a/again-3`.
fn numbered_on(id: &str) -> String {
    let numbered = id.rsplit_once(AGAIN).and_then(|(first, number)| {
        let number: u32 = number.parse().ok()?;
        Some((first, number.checked_add(1)?))
    });
    let (first, number) = numbered.unwrap_or((id, 2));
    let next = format!("{first}{AGAIN}{number}");
    if next.len() <= NAME_BYTES_MAX {
        return next;
    }
    format!("sha256:{}{AGAIN}{number}", hex(&Sha256::digest(first.as_bytes())))
}

/// A row that fits the ledger's schema.
fn in_ledger(row: Parsed<Body>, ids: &Rules) -> Result<Parsed<Body>, String> {
    let told = |error: client::Error| error.to_string();
    let id = match &row.identity {
        Identity::Key(id) => id.clone(),
        Identity::Content(_) => ids.made("row".to_owned()).map_err(told)?,
    };
    let order = Order { id: id.into(), body: row.value, origin: None };
    let fit = ids.fit(order).map_err(told)?;
    Ok(Parsed { identity: row.identity, value: fit.body })
}

impl Orders<'_> {
    /// The next row.
    ///
    /// # Errors
    /// When the file can't be read. A bad row is a row.
    pub fn next(&mut self) -> Result<Option<Read>, Error> {
        let Some(mut row) = self.rows.next_row()? else { return Ok(None) };
        self.next += 1;
        let Transfers { checked, defaults, rules, batch, .. } = self.transfers;
        let (line, bytes, text) = (row.line, row.bytes, std::mem::take(&mut row.text));
        let parse = |record| in_ledger(parse_transfer(record, defaults)?, rules);
        let order = checked.parse(row, parse).and_then(|parsed| {
            let id = match parsed.identity {
                Identity::Key(id) => id,
                Identity::Content(content) => {
                    let id = batch.id(content, self.occurrences.next(content));
                    rules.made(id).map_err(|error| error.to_string())?
                }
            };
            Ok(Order { id: id.into(), body: parsed.value, origin: None })
        });
        Ok(Some(Read { line, bytes, text, order }))
    }

    /// The next valid rows, as many as are inserted together.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn chunk(&mut self) -> Result<Option<Vec<Placed>>, Error> {
        let (mut chunk, mut size) = (Vec::with_capacity(CHUNK_ROWS), 0);
        while chunk.len() < CHUNK_ROWS && (size < CHUNK_BYTES || chunk.is_empty()) {
            let Some(Read { line, bytes, order, .. }) = self.next()? else { break };
            size += bytes;
            if let Ok(order) = order {
                chunk.push(Placed { line, ordinal: self.next - 1, bytes, order });
            }
        }
        Ok(Some(chunk).filter(|chunk| !chunk.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_sent_again_has_the_next_number() {
        for (id, expected) in [
            ("invoice/7", "invoice/7/again-2"),
            ("invoice/7/again-2", "invoice/7/again-3"),
            ("a/again-x", "a/again-x/again-2"),
            ("a/again-4294967295", "a/again-4294967295/again-2"),
        ] {
            assert_eq!(numbered_on(id), expected);
        }
        let long = numbered_on(&"x".repeat(NAME_BYTES_MAX));
        assert!(long.starts_with("sha256:") && long.ends_with("/again-2"), "{long}");
        assert_eq!(numbered_on(&long), long.replace("again-2", "again-3"));
    }
}
