//! `--results`: the rows as they were, in their order, each with what became of it.
//!
//! The input is read a second time for it, so memory stays bounded. The file appears under its name
//! only when it is complete; until then its name ends in `.partial`, and it is removed on failure.
//!
//! Promises that the file can be corrected and submitted again, also in several steps, and that then
//! nothing is paid twice: each row has its transaction's id; a refused one has that of its next try,
//! which is the same each time; and an invalid one without an id has one that does not depend on
//! what it says. `shape` says how a row is written again.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use client::{ReasonCode, State};
use input::files::{Format, RESULT_COLUMNS, RESULT_ROW};
use serde::Serialize;

use super::SubmitArgs;
use super::pipeline::RowOutcome;
use super::rows::{Read, Transfers};
use super::shape::{Id, Shape};
use crate::context::Context;
use crate::exit::Error;

/// Rows that are looked up together.
const BATCH: usize = 1_000;

/// The most bytes of them, as read from the file.
const BATCH_BYTES: usize = 4 << 20;

/// The reasons for which a transaction is not sent again.
const STOPPED: [ReasonCode; 4] =
    [ReasonCode::Requested, ReasonCode::Released, ReasonCode::HoldExpired, ReasonCode::Expired];

/// What became of a row. The names are [`RESULT_COLUMNS`].
#[derive(Debug, Default, Serialize)]
struct Told {
    line: u32,
    transaction: String,
    outcome: String,
    reason: String,
    message: String,
}

/// A row of the results.
struct Line {
    told: Told,
    /// The row as it stands in the input.
    text: String,
}

/// A file that is not complete yet.
pub(super) struct ResultsFile {
    path: PathBuf,
    partial: PathBuf,
    writer: Option<Writer>,
    shape: Shape,
}

enum Writer {
    Csv(Box<csv::Writer<BufWriter<File>>>),
    Jsonl(BufWriter<File>),
}

impl ResultsFile {
    /// Creates the file first: if that fails, nothing has been done that could not be reported.
    pub fn create(
        path: &Path,
        transfers: &Transfers,
        args: &SubmitArgs,
    ) -> Result<ResultsFile, Error> {
        let is_jsonl = Format::of_name(path) == Some(Format::Jsonl);
        let shape = Shape::of(transfers.header()?, &args.columns(), is_jsonl)
            .map_err(|problem| Error::BadInput(format!("{}: {problem}", path.display())))?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let partial = path.with_file_name(name);
        let file = File::create(&partial)
            .map_err(|error| Error::BadInput(format!("{}: {error}", partial.display())))?;
        let file = BufWriter::new(file);
        let writer = match is_jsonl {
            true => Writer::Jsonl(file),
            // A row with too few cells stays as it is.
            false => {
                let writer = csv::WriterBuilder::new().flexible(true).from_writer(file);
                Writer::Csv(Box::new(writer))
            }
        };
        Ok(ResultsFile { path: path.to_owned(), partial, writer: Some(writer), shape })
    }

    /// Writes the first line, if the file has one.
    fn begin(&mut self) -> Result<(), Error> {
        let Some(Writer::Csv(writer)) = self.writer.as_mut() else { return Ok(()) };
        let columns = RESULT_COLUMNS.into_iter().chain(self.shape.columns());
        let written = writer.write_record(columns).map_err(std::io::Error::from);
        written.map_err(|error| self.failed(&error))
    }

    fn write(&mut self, line: &Line, id: &Id) -> Result<(), Error> {
        let Line { told, text } = line;
        let written = match self.writer.as_mut() {
            None => Ok(()),
            Some(Writer::Csv(writer)) => {
                let number = told.line.to_string();
                let Told { transaction, outcome, reason, message, .. } = told;
                let ours = [&number, transaction, outcome, reason, message];
                let cells = self.shape.cells(text, id);
                let all = ours.into_iter().map(String::as_str);
                let all = all.chain(cells.iter().map(String::as_str));
                writer.write_record(all).map_err(std::io::Error::from)
            }
            Some(Writer::Jsonl(writer)) => {
                let mut object = serde_json::to_value(told).expect("texts always serialize");
                object[RESULT_ROW] = self.shape.object(text, id);
                serde_json::to_writer(&mut *writer, &object)
                    .map_err(std::io::Error::from)
                    .and_then(|()| std::io::Write::write_all(writer, b"\n"))
            }
        };
        written.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::file(&self.partial.display().to_string(), error)
    }

    fn complete(mut self) -> Result<(), Error> {
        let flushed = match self.writer.take() {
            None => Ok(()),
            Some(Writer::Csv(mut writer)) => writer.flush(),
            Some(Writer::Jsonl(mut writer)) => std::io::Write::flush(&mut writer),
        };
        let renamed = flushed.and_then(|()| std::fs::rename(&self.partial, &self.path));
        renamed.map_err(|error| self.failed(&error))
    }
}

impl Drop for ResultsFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.partial)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::debug!(%error, "the partial results stay behind");
        }
    }
}

/// Writes the results; with `--wait`, how each transaction ended.
pub(super) async fn write(
    context: &Context,
    transfers: &Transfers,
    outcomes: &[RowOutcome],
    is_followed: bool,
    mut file: ResultsFile,
) -> Result<(), Error> {
    let progress = context.console.progress("results", Some(transfers.checked().rows));
    let mut orders = transfers.orders()?;
    file.begin()?;
    let mut batch = Vec::with_capacity(BATCH);
    let (mut written, mut bytes) = (0, 0);
    for outcome in outcomes {
        let Some(Read { line, text, order, .. }) = orders.next()? else { break };
        let told = match order {
            Ok(order) => Told { line, transaction: order.id.to_string(), ..local(*outcome) },
            Err(problem) => {
                Told { line, message: problem, outcome: "invalid".into(), ..Told::default() }
            }
        };
        bytes += text.len();
        batch.push(Line { told, text });
        if batch.len() == BATCH || bytes >= BATCH_BYTES {
            (written, bytes) = (written + batch.len() as u64, 0);
            write_batch(context, transfers, is_followed, &mut batch, &mut file).await?;
            progress.at(written, "");
        }
    }
    write_batch(context, transfers, is_followed, &mut batch, &mut file).await?;
    file.complete()
}

/// The result of a valid row, as far as it is known without asking the database.
fn local(outcome: RowOutcome) -> Told {
    let (outcome, message) = match outcome {
        RowOutcome::None => ("not_submitted", "an earlier row was refused, or the time was over"),
        RowOutcome::Submitted => ("submitted", ""),
        RowOutcome::Unchanged => ("unchanged", ""),
        RowOutcome::Conflict => ("conflict", "the id is taken by a transaction with other content"),
        RowOutcome::KeyInUse => {
            ("key_in_use", "another undecided transaction has the exclusive key")
        }
        RowOutcome::Refused => ("invalid", "the server refuses it"),
    };
    Told { outcome: outcome.to_owned(), message: message.to_owned(), ..Told::default() }
}

async fn write_batch(
    context: &Context,
    transfers: &Transfers,
    is_followed: bool,
    batch: &mut Vec<Line>,
    file: &mut ResultsFile,
) -> Result<(), Error> {
    if is_followed {
        let ours = |told: &&mut Told| ["submitted", "unchanged"].contains(&told.outcome.as_str());
        let ids = batch.iter().map(|line| line.told.transaction.as_str());
        let ids: Vec<&str> = ids.filter(|id| !id.is_empty()).collect();
        let standings = context.client.standings(&ids).await?;
        for told in batch.iter_mut().map(|line| &mut line.told).filter(ours) {
            let Some(standing) = standings.get(&told.transaction) else { continue };
            told.outcome = standing.state.map_or("unknown", State::as_str).to_owned();
            if let Some((code, message)) = &standing.reason {
                told.reason.clone_from(code);
                told.message.clone_from(message);
            }
        }
    }
    for line in batch.drain(..) {
        let id = next_id(transfers, &line.told);
        file.write(&line, &id)?;
    }
    Ok(())
}

/// The id with which a row is sent again: a new one if it was refused and might not be the next
/// time. What somebody has stopped, or what came too late, stays stopped.
fn next_id(transfers: &Transfers, told: &Told) -> Id {
    if told.transaction.is_empty() {
        return Id::Unless(transfers.id_of_line(told.line).unwrap_or_default());
    }
    let is_stopped = STOPPED.iter().any(|code| code.as_str() == told.reason);
    match told.outcome == State::Canceled.as_str() && !is_stopped {
        true => Id::Is(transfers.next_id(&told.transaction).unwrap_or_default()),
        false => Id::Is(told.transaction.clone()),
    }
}
