//! `adopt`: looks at accounts and transactions that others have made, adopts them, or goes back.
//!
//! Owns the command's flags, and which of them go together. The crate `adopt` does the work.

mod look;
mod undo;
mod write;

use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

use ::adopt::{Adoption, At, Counts, Error as AdoptError, Options, PLACES_MAX, Repairs, Undo};
use clap::Args;
use client::{ActEnd, ActSubject, Config};
use serde::Serialize;

use crate::acting::{Acting, WhyArgs};
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::init;

/// Help that stands below the options.
pub const HELP: &str = "\
With --dry-run it only looks: at each account and transaction as it is stored, and says with counts
and samples what fits as it is, what fits after repair, and what can't; which indexes, validators and
options of the collections hurt or cost; which transactions are in flight under an old processor, and
whether one is at work now. It writes nothing to the database, needs no broker, and works before
`producer init`. A ledger that is set up is looked at with its own schema. It goes on after an
interruption with --resume FILE.

Without --dry-run it adopts, in a ledger that `producer init --schema FILE` has set up. It watches
first, and refuses while an old processor is at work; programs that only add to balances ($inc) may go
on. Then each account gets its opening balance, together with its balance as a number that Tandem
reads; and what others had ended gets a date, so that no sweeper looks for it. Each write is one
update that compares what was read: killed at any point, the same command goes on, and a second run
changes nothing. What is not known is left and named: what is in flight without a claim, too.

--finish first ends what is in flight without a claim, one transaction after the other, as the old
processor would: its marks say which accounts were posted to. What is pending goes forward, or back if
an account is missing, not open or has too little; what is applied goes forward, what is canceling
goes back. No worker may run, and the old processor has to be off for good: it must not go on later
from where it stood. Amounts count what unadopted balances count; see --places.

--undo takes away what stands under Tandem's path, except what your schema names there, and the lines
of the journal: openings, dates, claims, reasons, metadata, and the history of what Tandem has
settled. Balances stay as they then are; repairs are not taken back. It refuses while a worker runs or
anything of Tandem's is in flight.

Both read in pieces, in the order of _id, without a snapshot. When looking, and accounts are known by
another field than _id without a unique index, the server groups all accounts by that field, on its
disk if need be: that costs as much as a sort of the collection, and is given up after ten minutes. A
validator of yours is tried on a hundred documents.

--places N says that numbers count units with N decimal places, so that 12.5 is 1250 minor units at 2
places, and a whole 100 is 10000. What has more places is left unless --round is said: then halves go
to the even unit. Decimals (NumberDecimal) are what they say. An account that has an opening is never
scaled again.

Exit code 0 means that all fits or is done, 1 that something was found or left.

Examples:
  producer adopt --dry-run
  producer adopt --dry-run --schema ledger.toml --places 2
  producer adopt --dry-run --resume look.json     the same command goes on where it stopped
  producer adopt --dry-run --json | jq '.accounts.classes[] | {code, count}'
  producer adopt --places 2
  producer adopt --places 2 --finish
  producer adopt --rate 100000     as fast as it goes, where nobody waits
  producer adopt --json | jq '.accounts.reasons[] | {code, count}'
  producer adopt --undo";

/// Whether to look, to adopt or to go back, and how.
#[derive(Args, Clone, Debug)]
pub struct AdoptArgs {
    /// Only look, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Look for a ledger in collections and fields of your own, as this file says
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// How many decimal places numbers have that are no NumberDecimal; without it they are minor
    /// units
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=i64::from(PLACES_MAX)))]
    pub places: Option<u32>,
    /// Round numbers that have more places, instead of leaving them
    #[arg(long, conflicts_with = "dry_run")]
    pub round: bool,
    /// Watch for so many seconds whether somebody else moves accounts and transactions; 0: don't
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(..=3_600))]
    pub watch: u64,
    /// Keep in this file how far a look is, and go on from there if the file is there; removed at
    /// the end
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    pub resume: Option<PathBuf>,
    /// Read so many documents at a time
    #[arg(long, value_name = "DOCUMENTS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub piece: u32,
    /// Write so many documents in a second at most; above 5000 others wait longer for it [default:
    /// one small command after the other]
    #[arg(long, value_name = "DOCUMENTS", conflicts_with = "dry_run", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
    /// End first what an old processor has left in flight, by the articles' own recovery; no worker
    /// may run
    #[arg(long, conflicts_with = "dry_run")]
    pub finish: bool,
    /// Take away what was added, and leave balances as they are
    #[arg(long, conflicts_with_all = ["dry_run", "places", "round", "finish"])]
    pub undo: bool,
    /// Do not ask before --undo
    #[arg(long, requires = "undo")]
    pub yes: bool,
    #[command(flatten)]
    pub why: WhyArgs,
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

    fn adoption(&self) -> Adoption {
        let Self { places, round, piece, rate, watch, finish, .. } = *self;
        Adoption { repairs: Repairs { places, round }, piece, rate, watch_s: watch, finish }
    }

    fn way_back(&self) -> Undo {
        Undo { piece: self.piece, rate: self.rate }
    }
}

/// Looks, adopts or goes back, and prints what was found or done.
///
/// # Errors
/// When the server is away, something on the command line is wrong, or something has to be seen to
/// first.
pub async fn run(
    context: &Context,
    args: &AdoptArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    match (args.dry_run, args.undo) {
        (true, _) => look::run(context, args, out).await,
        (false, true) => undo::run(context, args, out).await,
        (false, false) => write::run(context, args, out).await,
    }
}

/// Does something that writes, as an act. Where there is no ledger yet, that is refused, and a note
/// would be the first document that Tandem puts into somebody's database.
async fn noted<T>(
    context: &Context,
    what: &'static str,
    args: &AdoptArgs,
    work: impl Future<Output = Result<T, AdoptError>>,
    told: impl FnOnce(&T) -> String,
) -> Result<T, Error> {
    let work = async { Ok(work.await?) };
    let client = &context.client;
    if client.insist(|| client.store().check_settings()).await?.is_none() {
        return work.await;
    }
    let (on, reason) = (ActSubject::ledger(), args.why.reason.as_deref());
    let told = |done: &T| ActEnd::ok(told(done));
    context.act_in_steps(Acting { what, on, reason }, work, told).await
}

impl From<AdoptError> for Error {
    fn from(error: AdoptError) -> Error {
        match error {
            AdoptError::Client(error) => error.into(),
            AdoptError::File(problem) => Error::Failed(problem),
            AdoptError::Refused(problem) => Error::BadInput(problem),
            AdoptError::NotNow(problem) => Error::Refused(problem),
        }
    }
}

/// Does something that tells how far it is, and shows that.
async fn with_progress<T>(
    context: &Context,
    label: &'static str,
    work: impl AsyncFnOnce(&(dyn Fn(At) + Send + Sync)) -> T,
) -> T {
    let bar = OnceLock::new();
    let progress = |at: At| {
        let begin = || context.console.progress(label, Some(at.of)).from(at.read);
        let bar = bar.get_or_init(begin);
        bar.at(at.read, &what(at));
    };
    work(&progress).await
}

fn what(at: At) -> String {
    match at.remaining {
        Some(remaining) => format!("{}, {} left", at.what, humantime::format_duration(remaining)),
        None => at.what.to_owned(),
    }
}

fn json(report: &impl Serialize, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
    let line = serde_json::to_string(report).expect("numbers and texts always serialize");
    writeln!(out, "{line}")
}

/// Why documents are left, with samples and what to do.
fn reasons(counts: &Counts, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
    for reason in &counts.reasons {
        let mut ids: Vec<&str> = reason.samples.iter().map(|sample| sample.id.as_str()).collect();
        ids.dedup();
        let more = if reason.count > ids.len() as u64 { ", …" } else { "" };
        let (code, count, ids) = (reason.code, reason.count, ids.join(", "));
        writeln!(out, "  {:<12} {code:<20} {count:>10}  {ids}{more}", "left")?;
        if let Some(sample) = reason.samples.first() {
            let path = if sample.path.is_empty() { "the document" } else { &sample.path };
            writeln!(out, "      as {path} of {}: {}", sample.id, sample.value)?;
        }
        writeln!(out, "      {}", reason.remedy)?;
    }
    Ok(())
}
