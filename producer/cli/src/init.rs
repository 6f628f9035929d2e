//! `init`: sets a fresh database up, says what an existing one lacks, and applies it with
//! `--apply`.
//!
//! Promises that existing collections are not changed without `--apply`, and that a user's own
//! validators and indexes are never changed: for those it prints the command that the user may run.
//! Missing queues are declared.

mod applying;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use client::{Config, Inspection, Slowing};
use flags::switch;
use layout::Layout;
use ledger::notation::Form;
use ledger::remedy::Remedy;
use ledger::shell::laid_out;
use mongo::{Choice, Finding, Foreign, Unneeded};
use serde_json::{Value, json};

use self::applying::{apply, currencies};
use crate::acting::WhyArgs;
use crate::context::Context;
use crate::exit::{Error, Exit};

pub(crate) const HELP: &str = "\
A fresh database is set up. Where collections are already there, nothing of them is changed: what is
missing is listed, and --apply creates it. A validator of your own is never changed; the command
that merges it with Tandem's is printed, and so is one that drops an index in the way of Tandem's.
Exit code 1 means that something is missing.

An index of yours that removes documents (expireAfterSeconds) stops every program of Tandem. One that
may refuse what Tandem writes (a unique one, for example) does so, too, unless you accept it:
--accept-index NAME is remembered in the ledger, at once and for all programs. What it then refuses is
refused alone, and named. Documents that Tandem has not written stay as they are, also in
collections of its own; they are counted.

A new version of Tandem may need more. Then stop all old workers (SIGTERM, and wait for exit code 0),
run `producer init --apply`, and start the new ones. Old programs refuse to work from then on. A
ledger that was set up with another version of the protocol is refused at every start.

Examples:
  producer init
  producer init --apply
  producer init --apply --no-validator     rely on what your own programs write
  producer init --apply --events off       no outcome events
  producer init --apply --history on       indexes for lists and statements
  producer init --apply --exclusive-keys off     no exclusive keys: one index less to write
  producer init --apply --replicas standby     one worker at work, the others ready
  producer init --apply --amounts decimals     before the first account: 1250 is 1250.00 EUR
  producer init --currency POINTS=0    a currency of your own, without decimal places
  producer init --accept-index reference_1     a unique index of yours stays
  producer init --print-schema > ledger.toml   collections and fields of your own
  producer init --schema ledger.toml
  producer init --json";

/// What may be changed.
#[derive(Args, Clone, Debug)]
pub struct InitArgs {
    /// Create what existing collections lack, and raise the ledger to this version
    #[arg(long)]
    pub apply: bool,
    /// Do without Tandem's validators, from now on; those that are there stay
    #[arg(long, conflicts_with = "validator")]
    pub no_validator: bool,
    /// Have Tandem's validators, where others have made the collections or --no-validator was said
    /// before [default: as it is; on where Tandem makes the collections and fields]
    #[arg(long)]
    pub validator: bool,
    /// Have workers publish an event for each transaction that ends, from now on, or not; stop all
    /// workers before [default: as it is; on for a fresh database]
    #[arg(long, env = "TANDEM_EVENTS", value_name = "on|off", value_parser = switch)]
    pub events: Option<bool>,
    /// Have indexes for lists and statements (`list --account`, `accounts statement`), from now on,
    /// or not; those that are there stay [default: as it is; on for a fresh database]
    #[arg(long, value_name = "on|off", value_parser = switch)]
    pub history: Option<bool>,
    /// Have the index that keeps exclusive keys unique, from now on, or not; stop all producers
    /// before; one that is there stays [default: as it is; on for a fresh database]
    #[arg(long, value_name = "on|off", value_parser = switch)]
    pub exclusive_keys: Option<bool>,
    /// How several workers go about it, from now on, also while they run: `share` has all of them at
    /// work, `standby` has one at work and the others ready to take its place [default: as it is;
    /// share for a fresh database]
    #[arg(long, value_name = "share|standby", value_parser = replicas)]
    pub replicas: Option<bool>,
    /// The form of all amounts, chosen before the first account: `minor-units`, where 1250 is 12.50
    /// EUR and 12.50 is refused, or `decimals`, where 1250 is 1250.00 EUR [default: as it is; for a
    /// fresh database that of its accounts, else minor-units]
    #[arg(long, value_name = "minor-units|decimals", value_parser = form)]
    pub amounts: Option<Form>,
    /// How many decimal places a currency of your own has, told before the first account has it; it
    /// is remembered at once, and never changes. Those of ISO 4217 are known
    #[arg(long, value_name = "CODE=PLACES", value_parser = currency)]
    pub currency: Vec<(String, u32)>,
    /// Set the ledger up in collections and fields of your own, as this file says; it never changes
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Print a file for --schema to begin with, and do nothing else
    #[arg(long, conflicts_with_all = ["apply", "schema"])]
    pub print_schema: bool,
    #[command(flatten)]
    pub why: WhyArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl InitArgs {
    /// The configuration with the layout of the file that is named.
    ///
    /// # Errors
    /// When the file can't be read, or is no layout.
    pub fn schema_of(&self, config: Config) -> Result<Config, Error> {
        with_schema(self.schema.as_deref(), config)
    }

    fn choice(&self) -> Choice {
        let validators = match (self.validator, self.no_validator) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        };
        let (events, history) = (self.events, self.history);
        let (exclusive_keys, standby) = (self.exclusive_keys, self.replicas);
        let amounts = self.amounts;
        Choice { validators, events, history, exclusive_keys, standby, amounts }
    }
}

/// The configuration with the schema in a file, if one is named.
///
/// # Errors
/// When the file can't be read, or is no schema.
pub fn with_schema(file: Option<&Path>, config: Config) -> Result<Config, Error> {
    let Some(file) = file else { return Ok(config) };
    let bad = |problem: String| Error::BadInput(format!("{}: {problem}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
    let layout = Layout::from_toml(&text).map_err(|error| bad(error.to_string()))?;
    Ok(config.schema(layout))
}

/// Whether workers stand by for one another.
///
/// # Errors
/// When the text is none of the two ways.
fn replicas(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "standby" => Ok(true),
        "share" => Ok(false),
        _ => Err("it must be `share` or `standby`".to_owned()),
    }
}

fn form(text: &str) -> Result<Form, String> {
    Form::of(&text.to_ascii_lowercase())
        .ok_or_else(|| "it must be `minor-units` or `decimals`".to_owned())
}

fn currency(text: &str) -> Result<(String, u32), String> {
    let told = text.rsplit_once('=');
    let told = told.and_then(|(code, places)| Some((code.to_owned(), places.parse().ok()?)));
    told.ok_or_else(|| "it must be a code and a number of places, like POINTS=0".to_owned())
}

/// The result of the command.
struct Report {
    applied: Vec<Finding>,
    missing: Vec<Finding>,
    /// Indexes that may refuse writes, and were accepted.
    accepted: Vec<Finding>,
    /// What others have put into Tandem's own collections.
    foreign: Vec<Foreign>,
    /// Indexes that the ledger does without, and still has.
    unneeded: Vec<Unneeded>,
    /// Indexes of the user's own that make each posting or each end of a transaction dearer.
    slowing: Vec<Slowing>,
    /// Whether workers stand by for one another.
    standby: bool,
    /// The form of all amounts.
    amounts: Form,
}

/// Sets up, or says what is missing.
///
/// # Errors
/// When a server stays away or refuses.
pub async fn run(
    context: &Context,
    args: &InitArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    if args.print_schema {
        out.write_all(Layout::template().as_bytes()).map_err(Error::output)?;
        return Ok(Exit::Ok);
    }
    context.advice.set("run the same command again: it creates what is still missing");
    let report = database(context, args).await?;
    // Checked before the queues: if the broker is away, the user still learns the state of the
    // database.
    let written = if args.json { report.json(out) } else { report.text(out) };
    let written = written.and_then(|()| out.flush());
    currencies(context, args, &report.missing).await?;
    queues(context, report.standby).await?;
    written.map_err(Error::output)?;
    Ok(if report.missing.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// Creates what workers consume that share the work, or stand by for one another.
async fn queues(context: &Context, standby: bool) -> Result<(), Error> {
    context.client.ensure_queue().await?;
    if standby {
        context.client.ensure_turn().await?;
    }
    Ok(())
}

async fn database(context: &Context, args: &InitArgs) -> Result<Report, Error> {
    let choice = args.choice();
    context.client.remember_accepted().await?;
    let before = context.client.inspect(choice).await?;
    let is_done = before.findings.is_empty() || !(args.apply || before.unfinished);
    let mut applied = before.findings.clone();
    let after = match is_done {
        true => before,
        false => apply(context, args, &before.findings).await?,
    };
    applied.retain(|finding| !after.findings.contains(finding));
    let Inspection { findings: missing, accepted, unneeded, slowing, standby, amounts, .. } = after;
    let foreign = context.client.foreign().await?;
    Ok(Report { applied, missing, accepted, foreign, unneeded, slowing, standby, amounts })
}

impl Report {
    fn text(&self, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
        for finding in &self.applied {
            writeln!(out, "fixed: {finding}")?;
        }
        for finding in &self.missing {
            writeln!(out, "missing: {}", laid_out(&finding.to_string()))?;
            if let Some(command) = finding.command() {
                writeln!(out, "in mongosh:\n  {command}")?;
            }
        }
        for finding in &self.accepted {
            writeln!(out, "accepted: {finding}")?;
        }
        for foreign in &self.foreign {
            writeln!(out, "not Tandem's: {foreign}")?;
            writeln!(out, "  {}", foreign.remedy())?;
        }
        for slowing in &self.slowing {
            writeln!(out, "slow: {slowing}")?;
        }
        for unneeded in &self.unneeded {
            let Unneeded { collection, index } = unneeded;
            writeln!(out, "not needed any more: the index {index} of {collection}")?;
            writeln!(out, "in mongosh:\n  {}", unneeded.command())?;
        }
        writeln!(out, "Amounts are {}.", self.amounts.name().replace('-', " "))?;
        match self.missing.iter().any(Finding::applies) {
            true => writeln!(out, "To apply it, run\n  {}", Remedy::Apply.command()),
            false if self.missing.is_empty() => writeln!(out, "Nothing is missing."),
            false => Ok(()),
        }
    }

    fn json(&self, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
        let values = |findings: &[Finding]| findings.iter().map(value).collect::<Vec<_>>();
        let report = json!({
            "ok": self.missing.is_empty(),
            "applied": values(&self.applied),
            "missing": values(&self.missing),
            "accepted": values(&self.accepted),
            "foreign": self.foreign.iter().map(foreign).collect::<Vec<_>>(),
            "unneeded": self.unneeded.iter().map(index_of).collect::<Vec<_>>(),
            "slowing": self.slowing.iter().map(slowing).collect::<Vec<_>>(),
            "amounts": self.amounts.name(),
        });
        writeln!(out, "{report}")
    }
}

fn foreign(foreign: &Foreign) -> Value {
    json!({
        "collection": foreign.collection,
        "count": foreign.count,
        "example": foreign.example,
        "message": foreign.to_string(),
    })
}

fn slowing(slowing: &Slowing) -> Value {
    json!({
        "collection": slowing.collection,
        "index": slowing.index,
        "field": slowing.field,
        "message": slowing.to_string(),
    })
}

fn index_of(unneeded: &Unneeded) -> Value {
    json!({
        "collection": unneeded.collection,
        "index": unneeded.index,
        "command": unneeded.command(),
    })
}

fn value(finding: &Finding) -> Value {
    json!({
        "collection": finding.stored,
        "kind": finding.kind(),
        "message": finding.to_string(),
        "command": finding.command(),
    })
}
