//! `audit`: prints whether every document keeps the rules of the ledger.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ::audit::{Options, Report, Sum, Unexplained, exposition};
use clap::Args;
use ledger::limits::echo;
use ledger::remedy::Remedy;

use crate::context::Context;
use crate::exit::{Error, Exit};

/// Help that stands below the options.
pub const HELP: &str = "\
Rules: 1 the sum of balances is what it was, per currency. 2 every transaction is done with its
whole effect, or canceled without any. 3 no account is below its floor. 4 marks and pending sums are
those of transactions in flight or on hold. 5 each balance is its opening plus what done transactions
have moved: their legs, or what was captured of a hold. 9 no two undecided transactions have the same
exclusive key. 11 each end is in one line of the journal, which says the same.

In collections that other programs write, too, a balance that they have moved breaks no rule. It is told
as unexplained by Tandem, and the exit code is 1 unless --others-write is said. To book it, run
`producer accounts absorb --reason TEXT`.

Examples:
  producer audit                 on a live database; transactions in flight are only counted
  producer audit --at-rest       when nothing runs: what is in flight is a violation, but no hold
  producer audit --json | jq .violations
  producer audit --metrics-file /var/lib/node_exporter/tandem.prom     from a timer, for the alert";

/// How to audit.
#[derive(Args, Clone, Debug)]
pub struct AuditArgs {
    /// Count unfinished transactions and marks as violations, but for what is scheduled or on hold
    #[arg(long)]
    pub at_rest: bool,
    /// Exit with 0 also when other programs have moved balances, in collections that they share
    #[arg(long)]
    pub others_write: bool,
    /// Print at most so many violations; all are counted
    #[arg(long, default_value_t = 100)]
    pub limit: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write the result to this file, too, as Prometheus's node_exporter reads it. It is replaced
    /// as a whole, and stays as it is when the audit does not come to its end
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,
}

/// Audits the ledger and prints what was found.
///
/// # Errors
/// When the server is away.
pub async fn run(
    context: &Context,
    args: &AuditArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let report = {
        let progress = context.console.progress("audit", None);
        let options =
            Options { at_rest: args.at_rest, violations_max: args.limit, ..Options::default() };
        ::audit::run(&context.client, options, |read, what| progress.at(read, what)).await?
    };
    if let Some(file) = &args.metrics_file {
        write_metrics(file, &report)?;
    }
    if args.json {
        let line = serde_json::to_string(&report).expect("strings and numbers always serialize");
        writeln!(out, "{line}").map_err(Error::output)?;
    } else {
        print(&report, out)?;
    }
    let unexplained = report.unexplained.accounts > 0 && !args.others_write;
    Ok(if report.violation_count > 0 || unexplained { Exit::Failed } else { Exit::Ok })
}

/// Replaces the file as a whole: whoever reads it sees the old page or the new one.
fn write_metrics(file: &Path, report: &Report) -> Result<(), Error> {
    let failed = |problem: &dyn std::fmt::Display| {
        Error::Refused(format!("--metrics-file {}: {problem}", file.display()))
    };
    let page = exposition::page(report, SystemTime::now()).map_err(|error| failed(&error))?;
    let mut beside = file.as_os_str().to_owned();
    // node_exporter reads `*.prom` only.
    beside.push(format!(".{}", std::process::id()));
    let written = fs::write(&beside, page).and_then(|()| fs::rename(&beside, file));
    written.map_err(|error| {
        drop(fs::remove_file(&beside));
        failed(&error)
    })
}

/// What other programs have moved, in a few words.
pub fn unexplained(moved: &Unexplained) -> String {
    let sum = |sum: &Sum| {
        let sign = if sum.amount.starts_with('-') { "" } else { "+" };
        let currency = sum.currency.as_deref().map(|name| format!(" {}", echo(name)));
        let on = if sum.accounts == 1 { "account" } else { "accounts" };
        format!("{sign}{}{} on {} {on}", sum.amount, currency.unwrap_or_default(), sum.accounts)
    };
    moved.sums.iter().map(sum).collect::<Vec<_>>().join(", ")
}

fn print(report: &Report, out: &mut (dyn Write + Send)) -> Result<(), Error> {
    for finding in &report.violations {
        writeln!(out, "{finding}").map_err(Error::output)?;
    }
    let hidden = report.violation_count - report.violations.len() as u64;
    if hidden > 0 {
        writeln!(out, "… and {hidden} more").map_err(Error::output)?;
    }
    if report.parked > 0 {
        let (named, more) = (report.parked_ids.join(", "), report.parked_ids.len() as u64);
        let more = if report.parked > more { ", …" } else { "" };
        writeln!(out, "{} parked: {named}{more}", report.parked).map_err(Error::output)?;
    }
    let moved = &report.unexplained;
    if moved.accounts > 0 {
        let first: Vec<String> = moved
            .first
            .iter()
            .map(|one| format!("{} {}", echo(&one.account), one.amount))
            .collect();
        let more = if moved.accounts > first.len() as u64 { ", …" } else { "" };
        let (sums, first) = (unexplained(moved), first.join(", "));
        writeln!(out, "unexplained by Tandem: {sums} ({first}{more})").map_err(Error::output)?;
        // Nothing is booked while a rule is broken.
        if report.violation_count == 0 {
            let book = Remedy::Absorb.command();
            writeln!(out, "To book it, run\n  {book}").map_err(Error::output)?;
        }
    }
    let verdict = match report.violation_count {
        0 if moved.accounts > 0 => "no rule is broken".to_owned(),
        0 => "the books balance".to_owned(),
        1 => "1 violation".to_owned(),
        count => format!("{count} violations"),
    };
    let resting = match report.resting {
        0 => String::new(),
        resting => format!(", {resting} scheduled or on hold"),
    };
    let moments = match report.moments {
        0 | 1 => String::new(),
        moments => format!(", accounts at {moments} moments"),
    };
    writeln!(
        out,
        "{} accounts, {} transactions, {} in flight{}: {verdict} ({:.1} s{moments})",
        report.accounts, report.transactions, report.in_flight, resting, report.seconds
    )
    .map_err(Error::output)
}
