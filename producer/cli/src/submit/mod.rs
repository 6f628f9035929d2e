//! `submit`: a file of transfers, from its rows to the queue, and with `--wait` to their ends.
//!
//! - `batch`: names of batches, and the ids of rows that have none.
//! - `known`: whether the same rows were submitted before, as another batch.
//! - `rows`: the file's rows as orders, with ids that are the same each time it is read.
//! - `preview`: what a file would do, with `--check`.
//! - `pipeline`: insert, then publish; the next chunk is inserted while this one is published.
//! - `in_order`, `sequence`: which rows go together where each sees those before it.
//! - `results`, `shape`: what became of each row, as a file that can be corrected and sent again.
//! - `summary`: what became of all of them.
//!
//! Promises bounded memory, that nothing is written unless every row is valid (or bad ones are to
//! be skipped), that no id is published before its document is durable, and that running the same
//! command again after whatever interruption completes it without submitting anything twice.

mod batch;
mod in_order;
mod known;
mod pipeline;
mod preview;
mod results;
mod rows;
mod sequence;
mod shape;
mod summary;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use input::files::Columns;
use ledger::message::MESSAGE_IDS_MAX;

pub use batch::Batch;
pub use summary::Summary;

use self::pipeline::Progressed;
use self::results::ResultsFile;
use self::rows::Transfers;
use crate::advice::{Todo, typed};
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::files::{Names, ReadArgs, names, require_expected, require_sound, require_valid};
use crate::follow::{self, WaitArgs};

/// Help that stands below the options.
pub const HELP: &str = "\
CSV has a header with source, destination, value, and if wanted id, currency, hold (true or false),
holdExpiresAt, notBefore, expiresAt (moments like 2026-11-01T00:00:00Z) and exclusiveKey. JSON lines
have the same names, and metadata, or legs instead of source, destination and value:
  {\"id\":\"t1\",\"source\":\"alice\",\"destination\":\"bob\",\"value\":1250}
  {\"source\":\"alice\",\"destination\":\"shop\",\"value\":4990,\"hold\":true}
  {\"legs\":[{\"account\":\"alice\",\"amount\":\"-12.50\"},{\"account\":\"bob\",\"amount\":\"12.50\"}]}

There is no order: rows are settled as they come, also at the same time, and a row that needs the
money of an earlier one can be refused. With --in-order each row sees what those before it did. Rows
without a common account still go together; where one account is in every row, each waits for the one
before it, some ten to twenty milliseconds a row. What is refused stops nothing, unless
--stop-at-refusal is given. What is scheduled for later is passed over.

A row without an id gets one from the name of the batch, its content (accounts, amounts, currency,
metadata, hold, moments, key), and its number among the rows of the same content. So rows that are
known change nothing, in whatever order they stand. Without --batch, the name is made from all bytes
of the file: running the same command again, after an interruption or by mistake, submits nothing
twice, but a corrected or longer file would be another batch and pay all its rows. The summary names
the batch: submit such a file with --batch and that name. The same rows under another name, because
the file was saved again or by mistake, are refused. A row whose content was changed counts as a new
one. To pay the same rows once more on purpose, use another name, and --allow repeated-content. A
refused transfer (canceled) is a result, not a failure; a known row that was refused stays so.

Amounts have the one form of the ledger (`producer init` tells it): whole minor units, where 1250 is
12.50 EUR and 12.50 is refused, or decimals, where 1250 is 1250.00 EUR.

A file is refused, before anything is written, if ids or accounts look like rounded numbers
(1.23457E+15), if its last line has no end, if rows with a decimal point would be left out beside rows
without one, or if its rows or sums are not those that are expected. --allow lets it through.

--results writes the rows as they were, each with what became of it and with an id. That file can be
corrected and submitted again, as often as needed: what is done is known by its id, and a refused row
has a new one there. Correct that file or the first one, not both, and read it with the same flags.

Examples:
  producer submit transfers.csv --wait
  producer submit transfers.jsonl --skip-invalid --results results.jsonl --wait
  producer submit payroll.csv --batch payroll-2024-05 --expect-rows 812 --expect-total EUR=1934500
  producer submit payroll.csv --check
  producer submit chain.csv --in-order --wait
  producer submit bank.csv --columns id=Ref,value=Amount --ignore-columns Booked
  generate | producer submit - --format csv --currency EUR --json";

/// A file of transfers.
#[derive(Args, Clone, Debug)]
pub struct SubmitArgs {
    /// The file, or - for standard input
    pub file: String,
    #[command(flatten)]
    pub reading: ReadArgs,
    /// Write nothing, and say what the file would do: its sums, what would refuse it, and what its
    /// accounts lack at this moment
    #[arg(long, conflicts_with_all = ["wait", "wait_limit", "results"])]
    pub check: bool,
    /// Submit each row when those before it that name one of its accounts are done, canceled or on
    /// hold
    #[arg(long, requires = "wait")]
    pub in_order: bool,
    /// Submit one row after the other, and nothing behind one that is refused
    #[arg(long, requires = "in_order")]
    pub stop_at_refusal: bool,
    /// Columns that are kept as metadata, under their names
    #[arg(long, value_name = "NAME,...", value_parser = names)]
    pub metadata_columns: Vec<Names>,
    /// The batch from which the ids of rows without an id are made; default: from the file's bytes
    #[arg(long, value_name = "NAME", value_parser = Batch::parse)]
    pub batch: Option<Batch>,
    /// The currency of rows that do not name one
    #[arg(long)]
    pub currency: Option<String>,
    #[command(flatten)]
    pub wait: WaitArgs,
    /// Write what became of each row to this file: JSON lines if it ends in .jsonl, else CSV
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Ids of one message
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=MESSAGE_IDS_MAX as i64))]
    pub batch_ids: u16,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
}

impl SubmitArgs {
    /// What is said of the columns.
    fn columns(&self) -> Columns {
        let metadata = self.metadata_columns.iter().flat_map(|names| names.0.clone()).collect();
        Columns { metadata, ..self.reading.columns() }
    }
}

/// Submits a file and prints the summary.
///
/// # Errors
/// As [`submit`].
pub async fn run(
    context: &Context,
    args: &SubmitArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    if args.check {
        let preview = preview::preview(context, args).await?;
        let text = if args.json { preview.to_json() } else { preview.to_string() };
        writeln!(out, "{text}").map_err(Error::output)?;
        return Ok(preview.exit());
    }
    let summary = submit(context, args).await?;
    let text = if args.json { summary.to_json() } else { summary.to_string() };
    writeln!(out, "{text}").map_err(Error::output)?;
    Ok(summary.exit())
}

/// Submits a file.
///
/// # Errors
/// When the file is bad (then nothing was written), or a server stays away (then a repeat resumes).
pub async fn submit(context: &Context, args: &SubmitArgs) -> Result<Summary, Error> {
    let begun = Instant::now();
    let transfers = Transfers::open(context, args).await?;
    require_valid(transfers.checked(), args.reading.skip_invalid, &context.console)?;
    require_sound(transfers.checked(), &args.reading, &context.console)?;
    require_expected(transfers.checked(), &args.reading, transfers.rules().notation())?;
    let results = match &args.results {
        Some(path) => Some(ResultsFile::create(path, &transfers, args)?),
        None => None,
    };

    context.advice.set(advice(transfers.batch()));
    context.client.ensure_schema().await?;
    context.require_same(transfers.rules())?;
    context.client.ensure_queue().await?;
    known::require_new(context, &transfers, args).await?;
    let transfers = Arc::new(transfers);
    let deadline = args.wait.deadline();
    let progressed = pipeline::run(context, &transfers, args, deadline).await?;
    let Progressed { counts, outcomes, pending, stopped } = progressed;
    let ends = match args.wait.wait {
        true => {
            let ends = follow::follow(context, pending, deadline).await;
            Some(ends.map_err(Error::after_a_write)?)
        }
        false => None,
    };
    if let Some(results) = results {
        let written = results::write(context, &transfers, &outcomes, args.wait.wait, results);
        written.await.map_err(Error::after_a_write)?;
    }
    Ok(Summary::new(&transfers, &counts, stopped, ends, begun.elapsed()))
}

/// How to complete a submission that failed or was interrupted. It names the batch, so that it is
/// right even if the file is corrected in between.
fn advice(batch: Option<&Batch>) -> Todo {
    match batch {
        Some(batch) => Todo::with(
            "run the same command with the following on the same input; it goes on where this one \
             stopped, and rows that are known change nothing:",
            typed("--batch", batch.as_str()),
        ),
        None => {
            "run the same command on the same input: it goes on where this one stopped, and rows \
                 that are known change nothing"
                .into()
        }
    }
}
