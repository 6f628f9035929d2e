//! `adopt --dry-run`: prints what of somebody's accounts and transactions fits into a ledger.
//!
//! Owns the command's flags, and how its result looks to people. Promises that nothing is written to
//! the database. The crate `adopt` looks.

use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

use ::adopt::{At, Documents, Error as LookError, Options, PLACES_MAX, Report, Seen, Verdict};
use clap::Args;
use client::Config;
use settings::shell::laid_out;

use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::init;

/// Help that stands below the options.
pub const HELP: &str = "\
This version only looks: --dry-run has to be there. The part that writes (repairs, openings) is not
there yet.

Looks at each account and transaction as it is stored, and says with counts and samples what fits as
it is, what fits after repair, and what can't; which indexes, validators and options of the
collections hurt or cost; which transactions are in flight under an old processor, and whether one
is at work now. It writes nothing to the database, needs no broker, and works before `producer init`.
A ledger that is set up is looked at with its own schema.

It reads in pieces, in the order of _id, without a snapshot, and goes on after an interruption with
--resume FILE. Where accounts are known by another field than _id and no unique index is on it, the
server groups all accounts by that field, on its disk if need be: that costs as much as a sort of the
collection, and is given up after ten minutes. A validator of yours is tried on a hundred documents.

--places N says that numbers count units with N decimal places, so that 12.5 is 1250 minor units at 2
places, and a whole 100 is 10000. What has more places is shown as it would round, halves to the even
unit. Decimals (NumberDecimal) are what they say.

Exit code 0 means that all fits and nothing else moves, 1 that something was found.

Examples:
  producer adopt --dry-run
  producer adopt --dry-run --schema ledger.toml --places 2
  producer adopt --dry-run --resume look.json     the same command goes on where it stopped
  producer adopt --dry-run --json | jq '.accounts.classes[] | {code, count}'";

/// How to look.
#[derive(Args, Clone, Debug)]
pub struct AdoptArgs {
    /// Only look, and write nothing; nothing else can be asked for yet
    #[arg(long)]
    pub dry_run: bool,
    /// Look for a ledger in collections and fields of your own, as this file says
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// How many decimal places numbers have that are no NumberDecimal; without it they are minor
    /// units
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=i64::from(PLACES_MAX)))]
    pub places: Option<u32>,
    /// Watch for so many seconds whether somebody else moves accounts and transactions; 0: don't
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(..=3_600))]
    pub watch: u64,
    /// Keep in this file how far it is, and go on from there if the file is there; removed at the
    /// end
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Read so many documents at a time
    #[arg(long, value_name = "DOCUMENTS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub piece: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl AdoptArgs {
    /// The configuration with the schema that is named.
    ///
    /// # Errors
    /// As that of `init`.
    pub fn schema_of(&self, config: Config) -> Result<Config, Error> {
        init::with_schema(self.schema.as_deref(), config)
    }

    fn options(&self) -> Options {
        let Self { places, piece, watch, resume, .. } = self.clone();
        Options { places, piece, watch_s: watch, resume }
    }
}

/// Looks, and prints what was found.
///
/// # Errors
/// When the server is away, or something on the command line is wrong.
pub async fn run(
    context: &Context,
    args: &AdoptArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    if !args.dry_run {
        let problem = "adopt can only look so far: the part that writes is not there yet; say \
                       --dry-run, which writes nothing";
        return Err(Error::BadInput(problem.to_owned()));
    }
    context.advice.set(match args.resume {
        Some(_) => {
            "nothing was written to the database; run the same command again: it goes on \
                    where it stopped"
        }
        None => "nothing was written; a look with --resume FILE goes on where it stopped",
    });
    let report = {
        let bar = OnceLock::new();
        let progress = |at: At| {
            let bar = bar.get_or_init(|| context.console.progress("looking", Some(at.of)));
            bar.at(at.read, &what(at));
        };
        ::adopt::look(&context.client, &args.options(), progress).await?
    };
    let written = match args.json {
        true => {
            let line = serde_json::to_string(&report).expect("numbers and texts always serialize");
            writeln!(out, "{line}")
        }
        false => print(&report, out),
    };
    written.map_err(Error::output)?;
    Ok(if report.ready { Exit::Ok } else { Exit::Failed })
}

impl From<LookError> for Error {
    fn from(error: LookError) -> Error {
        match error {
            LookError::Client(error) => error.into(),
            LookError::File(problem) => Error::Failed(problem),
            LookError::Refused(problem) => Error::BadInput(problem),
        }
    }
}

fn what(at: At) -> String {
    match at.remaining {
        Some(remaining) => format!("{}, {} left", at.what, humantime::format_duration(remaining)),
        None => at.what.to_owned(),
    }
}

fn print(report: &Report, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
    documents("accounts", &report.accounts, out)?;
    documents("transactions", &report.transactions, out)?;
    keys(report, out)?;
    for noted in &report.indexes {
        let word = if noted.hurts { "hurts" } else { "costs" };
        writeln!(out, "{word}: {}", laid_out(&noted.message))?;
        if let Some(command) = &noted.command {
            writeln!(out, "in mongosh:\n  {command}")?;
        }
    }
    for validator in &report.validators {
        writeln!(out, "validator: {}", validator.told())?;
    }
    moved(report, out)?;
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    let verdict = match report.ready {
        true => "All fits as it is.",
        false => "Something has to be seen to before a worker of Tandem runs.",
    };
    writeln!(out, "{verdict} ({:.1} s; nothing was written)", report.seconds)
}

fn documents(
    name: &str,
    documents: &Documents,
    out: &mut (dyn Write + Send),
) -> std::io::Result<()> {
    let Documents { collection, read, fits, needs_repair, cannot, classes } = documents;
    writeln!(
        out,
        "{name} (`{collection}`): {read} read, {fits} fit as they are, {needs_repair} after repair, \
         {cannot} can't"
    )?;
    classes.iter().try_for_each(|seen| class(seen, out))
}

fn class(seen: &Seen, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
    let verdict = match seen.verdict {
        Verdict::Fits => "fits",
        Verdict::NeedsRepair => "needs repair",
        Verdict::Cannot => "can't",
    };
    let mut ids: Vec<&str> = seen.samples.iter().map(|sample| sample.id.as_str()).collect();
    ids.dedup();
    let more = if seen.count > ids.len() as u64 { ", …" } else { "" };
    let (code, count, ids) = (seen.code.code(), seen.count, ids.join(", "));
    writeln!(out, "  {verdict:<12} {code:<20} {count:>10}  {ids}{more}")?;
    if seen.verdict == Verdict::Fits {
        return writeln!(out, "      {}", seen.remedy);
    }
    if let Some(sample) = seen.samples.first() {
        let path = if sample.path.is_empty() { "the document" } else { &sample.path };
        let becomes = sample.becomes.iter().map(|becomes| format!(", would become {becomes}"));
        let becomes: String = becomes.collect();
        writeln!(out, "      as {path} of {}: {}{becomes}", sample.id, sample.value)?;
    }
    writeln!(out, "      {}", seen.remedy)
}

fn keys(report: &Report, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
    let Some(keys) = &report.keys else { return Ok(()) };
    match (&keys.not_looked_at, keys.duplicates, keys.unique_index) {
        (Some(why), ..) => {
            writeln!(out, "ids: whether `{}` is unique was not looked at: {why}", keys.path)
        }
        (None, _, true) => writeln!(out, "ids: an index keeps `{}` unique", keys.path),
        (None, None | Some(0), false) => writeln!(
            out,
            "ids: no value of `{}` stands twice; `producer init` makes the index that keeps it so",
            keys.path
        ),
        (None, Some(duplicates), false) => writeln!(
            out,
            "ids: {duplicates} values of `{}` stand in {} accounts ({}): give each account one of \
             its own",
            keys.path,
            keys.documents.unwrap_or_default(),
            keys.samples.join(", ")
        ),
    }
}

fn moved(report: &Report, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
    let moved = &report.moved;
    match (&moved.not_looked_at, moved.accounts + moved.transactions) {
        (Some(why), _) => writeln!(out, "moves: not looked at: {why}"),
        (None, 0) => writeln!(out, "moves: nothing without a claim in {} s", moved.seconds),
        (None, _) => {
            writeln!(
                out,
                "moves: an old processor is at work: {} changes of transactions and {} of accounts \
                 without a claim of Tandem's in {} s; stop it before a worker of Tandem runs",
                moved.transactions, moved.accounts, moved.seconds
            )?;
            moved.samples.iter().try_for_each(|sample| {
                writeln!(out, "      {} of {}: {}", sample.path, sample.id, sample.value)
            })
        }
    }
}
