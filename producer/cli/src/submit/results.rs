//! `--results`: a row for each row of the input, in its order.
//!
//! The input is read a second time for it, so memory stays bounded. The file appears under its name
//! only when it is complete; until then its name ends in `.partial`, and it is removed on failure.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use client::State;
use serde::Serialize;

use super::pipeline::RowOutcome;
use super::rows::{Read, Transfers};
use crate::context::Context;
use crate::exit::Error;

/// Rows that are looked up together.
const BATCH: usize = 1_000;

/// What became of a row.
#[derive(Debug, Default, Serialize)]
struct Line {
    line: u32,
    id: String,
    outcome: String,
    reason: String,
    message: String,
}

/// A file that is not complete yet.
pub(super) struct ResultsFile {
    path: PathBuf,
    partial: PathBuf,
    writer: Option<Writer>,
}

enum Writer {
    Csv(Box<csv::Writer<BufWriter<File>>>),
    Jsonl(BufWriter<File>),
}

impl ResultsFile {
    /// Creates the file first: if that fails, nothing has been done that could not be reported.
    pub fn create(path: &Path) -> Result<ResultsFile, Error> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let partial = path.with_file_name(name);
        let file = File::create(&partial)
            .map_err(|error| Error::BadInput(format!("{}: {error}", partial.display())))?;
        let file = BufWriter::new(file);
        let writer = if path.extension().is_some_and(|extension| extension == "jsonl") {
            Writer::Jsonl(file)
        } else {
            Writer::Csv(Box::new(csv::Writer::from_writer(file)))
        };
        Ok(ResultsFile { path: path.to_owned(), partial, writer: Some(writer) })
    }

    fn write(&mut self, line: &Line) -> Result<(), Error> {
        let written = match self.writer.as_mut() {
            None => Ok(()),
            Some(Writer::Csv(writer)) => writer.serialize(line).map_err(std::io::Error::from),
            Some(Writer::Jsonl(writer)) => serde_json::to_writer(&mut *writer, line)
                .map_err(std::io::Error::from)
                .and_then(|()| std::io::Write::write_all(writer, b"\n")),
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

/// Writes the results; `ends` says whether to ask how each transaction ended.
pub(super) async fn write(
    context: &Context,
    transfers: &Transfers,
    outcomes: &[RowOutcome],
    ends: bool,
    mut file: ResultsFile,
) -> Result<(), Error> {
    let progress = context.console.progress("results", Some(transfers.checked().rows));
    let mut orders = transfers.orders()?;
    let mut batch = Vec::with_capacity(BATCH);
    let mut written = 0;
    for outcome in outcomes {
        let Some(Read { line, order, .. }) = orders.next()? else { break };
        batch.push(match order {
            Ok(order) => local(line, &order.id, *outcome),
            Err(problem) => Line { message: problem, ..local(line, "", *outcome) },
        });
        if batch.len() == BATCH {
            written += BATCH as u64;
            write_batch(context, ends, &mut batch, &mut file).await?;
            progress.at(written, "");
        }
    }
    write_batch(context, ends, &mut batch, &mut file).await?;
    file.complete()
}

/// The result of a row, as far as it is known without asking the database.
fn local(line: u32, id: &str, outcome: RowOutcome) -> Line {
    let (outcome, message) = match outcome {
        RowOutcome::Invalid => ("invalid", ""),
        RowOutcome::Submitted => ("submitted", ""),
        RowOutcome::Unchanged => ("unchanged", ""),
        RowOutcome::Conflict => ("conflict", "the id is taken by a transaction with other content"),
        RowOutcome::KeyInUse => {
            ("key_in_use", "another undecided transaction has the exclusive key")
        }
        RowOutcome::Refused => ("invalid", "the server refuses it"),
    };
    let (id, outcome, message) = (id.to_owned(), outcome.to_owned(), message.to_owned());
    Line { line, id, outcome, message, ..Line::default() }
}

async fn write_batch(
    context: &Context,
    ends: bool,
    batch: &mut Vec<Line>,
    file: &mut ResultsFile,
) -> Result<(), Error> {
    if ends {
        let ours = |line: &&mut Line| ["submitted", "unchanged"].contains(&line.outcome.as_str());
        let ids = batch.iter().map(|line| line.id.as_str()).filter(|id| !id.is_empty());
        let standings = context.client.standings(&ids.collect::<Vec<_>>()).await?;
        for line in batch.iter_mut().filter(ours) {
            let Some(standing) = standings.get(&line.id) else { continue };
            line.outcome = standing.state.map_or("unknown", State::as_str).to_owned();
            if let Some((code, message)) = &standing.reason {
                line.reason.clone_from(code);
                line.message.clone_from(message);
            }
        }
    }
    for line in batch.drain(..) {
        file.write(&line)?;
    }
    Ok(())
}
