#![doc = include_str!("../README.md")]

mod absorbing;
mod accounts;
mod bearing;
mod books;
mod changes;
mod chunks;
#[cfg(test)]
mod chunks_tests;
mod close;
mod effects;
pub mod exposition;
mod findings;
mod journal;
mod keys;
mod lines;
mod moment;
mod order;
mod progress;
mod raw;
mod scan;
mod shared;
mod sums;
mod tallies;

use std::time::Instant;

use serde::Serialize;

use close::Difference;
use scan::Scanned;

pub use absorbing::{AbsorbError, Absorbed, Differences, Moved, Sum, Unexplained, check_reason};
pub use findings::{Finding, Rule};

use client::{Client, Error};
use mongodb::bson::Timestamp;
use mongodb::error::Error as DriverError;

/// How to audit.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Count unfinished transactions and marks as violations, but for what is scheduled or held.
    pub at_rest: bool,
    /// Keep at most so many violations; all are counted.
    pub violations_max: usize,
    /// Read at most so many accounts at one moment. Fewer are read when that takes longer than a
    /// second or two.
    pub accounts_at_once: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { at_rest: false, violations_max: 100, accounts_at_once: u64::MAX }
    }
}

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Accounts looked at.
    pub accounts: u64,
    /// Transactions looked at.
    pub transactions: u64,
    /// Lines of the journal looked at.
    pub lines: u64,
    /// Those of the transactions that workers have not brought to their end yet.
    pub in_flight: u64,
    /// Those that rest: scheduled or held.
    pub resting: u64,
    /// Those in flight that are parked: they can't go on until somebody looks at them.
    pub parked: u64,
    /// The first parked ones.
    pub parked_ids: Vec<String>,
    /// The first violations.
    pub violations: Vec<Finding>,
    /// How many there are in all.
    pub violation_count: u64,
    /// What others have moved in collections that they share: no rule is broken by it.
    pub unexplained: Unexplained,
    /// Whether each account stands for one moment.
    pub snapshot: bool,
    /// At how many moments the accounts were read; 0 without snapshots.
    pub moments: usize,
    /// How long it took.
    pub seconds: f64,
}

/// Audits the ledger, also while it is in use. `progress` is told now and then how many documents
/// were read, and what they are.
///
/// # Errors
/// When the server is away, or does not keep a snapshot for as long as it takes to read some of the
/// accounts; or when the user may open no change stream on the transactions, or the server's log
/// does not reach back to the audit's beginning. Violations are in the report.
pub async fn run(
    client: &Client,
    options: Options,
    progress: impl Fn(u64, &str) + Send + Sync,
) -> Result<Report, Error> {
    Ok(find(client, options, progress).await?.report)
}

/// An audit with all differences that it has found.
struct Found {
    report: Report,
    differences: Vec<Difference>,
    /// When each piece of the accounts was read.
    moments: Vec<Timestamp>,
}

async fn find(
    client: &Client,
    options: Options,
    progress: impl Fn(u64, &str) + Send + Sync,
) -> Result<Found, Error> {
    let begun = Instant::now();
    client.insist(|| client.store().know_layout()).await?;
    let Scanned { books, moments, lines } = scan::scan(client, options, &progress).await?;
    let closed = books.close();
    let report = Report {
        accounts: closed.accounts,
        transactions: closed.transactions,
        lines,
        in_flight: closed.in_flight,
        resting: closed.resting,
        parked: closed.parked.count,
        parked_ids: closed.parked.ids,
        violation_count: closed.findings.count(),
        violations: closed.findings.into_kept(),
        unexplained: Unexplained::of(&closed.differences),
        snapshot: !moments.is_empty(),
        moments: moments.len(),
        seconds: seconds_since(begun),
    };
    Ok(Found { report, differences: closed.differences, moments })
}

fn seconds_since(begun: Instant) -> f64 {
    (begun.elapsed().as_secs_f64() * 1_000.0).round() / 1_000.0
}

/// A query that failed, and is not tried again.
fn failed(error: DriverError) -> Error {
    mongo::query_failed("audit", &error).into()
}
