//! Statements when the ledger is long: a page with the balance at its beginning.
//!
//! What is measured: pages of fifty entries from a random moment on, of an account that half of all
//! transfers pay to, and of others; and the same from a moment within the last minutes, while their
//! lines are not summed up yet.

use std::time::{Duration, Instant, SystemTime};

use client::{Client, Period};
use mongo::SETTLED_MS;
use serde::{Deserialize, Serialize};

use super::field::Field;
use super::inserted::{Took, timed};

/// Entries of a page.
const PAGE: u32 = 50;
/// Pages of each kind.
const PAGES: usize = 200;
/// Pages of the kind that takes longest.
const FRESH_PAGES: usize = 20;

/// What statements cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Statements {
    /// Of the account that is in each line.
    pub hot: Took,
    /// Of any other account.
    pub cold: Took,
    /// Of the first one, from a moment on whose lines are not summed up yet.
    pub fresh: Took,
    /// How many pieces of time were summed up after the load, and how long that took.
    pub summed_up: (u32, f64),
}

/// Measures them on a ledger at rest that was at work since this moment.
pub(super) async fn measure(
    field: &Field,
    client: &Client,
    accounts: usize,
    since: SystemTime,
) -> Result<Statements, String> {
    let (begun, now) = (since, SystemTime::now());
    let hot = || field.names.account(0).to_string();
    let any = || field.names.account(rand::random_range(1..accounts)).to_string();
    let settling = Duration::from_millis(SETTLED_MS.unsigned_abs());
    let late = begun.max(now.checked_sub(settling).unwrap_or(begun));
    let fresh = pages(client, FRESH_PAGES, hot, (late, now)).await?;
    // The workers have ended, so nothing changes any more: it needs no waiting.
    let summing = Instant::now();
    let pieces = sum_up(field).await?;
    Ok(Statements {
        hot: pages(client, PAGES, hot, (begun, now)).await?,
        cold: pages(client, PAGES, any, (begun, now)).await?,
        fresh,
        summed_up: (pieces, summing.elapsed().as_secs_f64()),
    })
}

/// Sums up all lines, of a ledger in which nobody writes a line meanwhile; returns how many pieces
/// of time there were.
pub(super) async fn sum_up(field: &Field) -> Result<u32, String> {
    let mut pieces = 0;
    loop {
        let summed = field.store.sum_up(0).await;
        match summed.map_err(|error| error.to_string())?.pieces {
            0 => return Ok(pieces),
            more => pieces += more,
        }
    }
}

/// How long pages of these accounts take, from random moments of a time on.
async fn pages(
    client: &Client,
    count: usize,
    account: impl Fn() -> String,
    (begin, end): (SystemTime, SystemTime),
) -> Result<Took, String> {
    let span = end.duration_since(begin).unwrap_or_default();
    timed(count, async || {
        let from = begin + span.mul_f64(rand::random_range(0.0..1.0));
        let period = Period { from: Some(from), to: None };
        let account = account();
        let page = client.statement(&account, &period, PAGE, None).await;
        page.map_err(|error| format!("a statement of {account}: {error}"))
    })
    .await
}
