//! `audit`: does every document keep the rules of the ledger?
//!
//! - `books`: the rules, as pure functions over documents.
//! - `findings`: what breaks them.
//! - `scan`: reading the documents, in one snapshot.
//!
//! Promises an exact answer on a live database: all reads see the same moment, and what is in
//! flight is reckoned in. Memory grows with accounts and marks, not with transactions.

mod books;
mod findings;
mod scan;

use std::io::Write;
use std::time::Instant;

use clap::Args;
use serde::Serialize;

pub use findings::{Finding, Rule};

use crate::context::Context;
use crate::error::{Error, Exit};

/// Help that stands below the options.
pub const HELP: &str = "\
Rules: 1 the sum of balances is what it was, per currency. 2 every transaction is done with its
whole effect, or canceled without any. 3 no account is below its floor. 4 marks and pending sums are
those of transactions in flight. 5 each balance is its opening plus the legs of done transactions.

Examples:
  producer audit                 on a live database; transactions in flight are only counted
  producer audit --at-rest       when nothing runs: what is in flight is a violation
  producer audit --json | jq .violations";

/// How to audit.
#[derive(Args, Clone, Debug)]
pub struct AuditArgs {
    /// Count unfinished transactions and marks as violations
    #[arg(long)]
    pub at_rest: bool,
    /// Print at most so many violations; all are counted
    #[arg(long, default_value_t = 100)]
    pub limit: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What an audit found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Accounts looked at.
    pub accounts: u64,
    /// Transactions looked at.
    pub transactions: u64,
    /// Those of them that are not final.
    pub in_flight: u64,
    /// Those in flight that are parked: they can't go on until somebody looks at them.
    pub parked: u64,
    /// The first parked ones.
    pub parked_ids: Vec<String>,
    /// The first violations.
    pub violations: Vec<Finding>,
    /// How many there are in all.
    pub violation_count: u64,
    /// Whether all reads saw the same moment.
    pub snapshot: bool,
    /// How long it took.
    pub seconds: f64,
}

/// Audits the ledger.
///
/// # Errors
/// When the server is away. Violations are in the report.
pub async fn audit(context: &Context, args: &AuditArgs) -> Result<Report, Error> {
    let begun = Instant::now();
    let (books, snapshot) = scan::scan(context, args).await?;
    let closed = books.close();
    Ok(Report {
        accounts: closed.accounts,
        transactions: closed.transactions,
        in_flight: closed.in_flight,
        parked: closed.parked.count,
        parked_ids: closed.parked.ids,
        violation_count: closed.findings.count(),
        violations: closed.findings.into_kept(),
        snapshot,
        seconds: (begun.elapsed().as_secs_f64() * 1_000.0).round() / 1_000.0,
    })
}

/// Audits the ledger and prints what was found.
///
/// # Errors
/// As [`audit`].
pub async fn run(
    context: &Context,
    args: &AuditArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let report = audit(context, args).await?;
    if args.json {
        let line = serde_json::to_string(&report).expect("strings and numbers always serialize");
        writeln!(out, "{line}").map_err(Error::output)?;
    } else {
        print(&report, out)?;
    }
    Ok(if report.violation_count > 0 { Exit::Failed } else { Exit::Ok })
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
    let verdict = match report.violation_count {
        0 => "the books balance".to_owned(),
        1 => "1 violation".to_owned(),
        count => format!("{count} violations"),
    };
    writeln!(
        out,
        "{} accounts, {} transactions, {} in flight: {verdict} ({:.1} s)",
        report.accounts, report.transactions, report.in_flight, report.seconds
    )
    .map_err(Error::output)
}
