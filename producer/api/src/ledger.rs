//! Questions about the whole ledger: counts, and the audit.
//!
//! Both read everything that is stored. So the counts are asked for once for all who want them, at
//! most every few seconds, and one audit runs at a time in each server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use audit::{Options, Report, Sum};
use axum::http::StatusCode;
use serde::Serialize;
use tokio::sync::{Mutex, Semaphore};
use utoipa::ToSchema;

use super::Api;
use super::answer::Answer;
use super::call::Call;
use super::problem::{Code, Problem};

/// So many transactions are counted one by one; of more, counts are estimated.
pub const STATS_COUNTED_MAX: u64 = 100_000;

/// How old counts may be.
const FRESH_FOR: Duration = Duration::from_secs(10);

/// What was asked for, for all who ask.
pub struct Asked {
    counts: Mutex<Option<(Instant, client::Stats)>>,
    audit: Semaphore,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked { counts: Mutex::default(), audit: Semaphore::new(1) }
    }
}

/// How many transactions there are.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// By state. Under a schema, of the final ones those that a worker has ended.
    states: BTreeMap<String, u64>,
    /// The canceled ones of these, by the code of their reason.
    reasons: BTreeMap<String, u64>,
    /// The final ones that no worker has ended, by state: they were final before Tandem came. Only
    /// under a schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    ended_by_others: Option<BTreeMap<String, u64>>,
    /// Whether the counts are estimated by a sample, as they are of a collection of more than 100,000
    /// documents. States that few are in may then be counted as 0, and reasons of few be missing.
    estimated: bool,
    /// How many seconds ago they were counted.
    age_seconds: u64,
}

/// A rule that a document breaks.
#[derive(Debug, Serialize, ToSchema)]
pub struct Violation {
    /// The number of the invariant: from 1 to 5, 8, 9 or 11.
    rule: u8,
    /// The document.
    #[schema(example = "accounts/alice")]
    document: String,
    /// What is wrong.
    message: String,
}

/// What an audit found.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Whether every rule holds, and nothing is unexplained.
    ok: bool,
    /// Accounts looked at.
    accounts: u64,
    /// Transactions looked at.
    transactions: u64,
    /// Those of them that workers have not brought to their end yet.
    in_flight: u64,
    /// Those that are scheduled or held.
    resting: u64,
    /// Those in flight that are parked.
    parked: u64,
    /// How many violations there are.
    violation_count: u64,
    /// The first hundred.
    violations: Vec<Violation>,
    /// In collections that other programs write, too: on how many accounts they have moved balances.
    /// No rule is broken by it.
    unexplained_accounts: u64,
    /// By how much, per currency.
    unexplained: Vec<Unexplained>,
    /// Whether each account stands for one moment.
    snapshot: bool,
    /// At how many moments the accounts were read; 0 without snapshots.
    moments: usize,
    /// How long it took.
    seconds: f64,
}

/// What other programs have moved in one currency.
#[derive(Debug, Serialize, ToSchema)]
pub struct Unexplained {
    /// The currency, if the accounts have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    currency: Option<String>,
    /// Whether amounts are decimals, and not minor units.
    decimal: bool,
    /// On how many accounts.
    accounts: u64,
    /// By how much their balances are more than what is explained.
    amount: String,
}

impl From<Sum> for Unexplained {
    fn from(sum: Sum) -> Unexplained {
        let Sum { currency, decimal, accounts, amount } = sum;
        Unexplained { currency, decimal, accounts, amount }
    }
}

impl From<Report> for Audit {
    fn from(report: Report) -> Audit {
        let violations = report.violations.into_iter().map(|finding| Violation {
            rule: finding.rule.number(),
            document: finding.document,
            message: finding.message,
        });
        Audit {
            ok: report.violation_count == 0 && report.unexplained.accounts == 0,
            accounts: report.accounts,
            transactions: report.transactions,
            in_flight: report.in_flight,
            resting: report.resting,
            parked: report.parked,
            violation_count: report.violation_count,
            violations: violations.collect(),
            unexplained_accounts: report.unexplained.accounts,
            unexplained: report.unexplained.sums.into_iter().map(Unexplained::from).collect(),
            snapshot: report.snapshot,
            moments: report.moments,
            seconds: report.seconds,
        }
    }
}

/// `GET /v1/stats`
pub async fn stats(call: Call) -> Result<Answer, Problem> {
    // Whoever comes while they are counted waits for the same counts.
    let mut counts = call.api.asked.counts.lock().await;
    let (at, counted) = match &*counts {
        Some((at, counted)) if at.elapsed() < FRESH_FOR => (*at, counted.clone()),
        Some(_) | None => {
            let counted = call.api.client.stats_reading(STATS_COUNTED_MAX).await?;
            counts.insert((Instant::now(), counted)).clone()
        }
    };
    let client::Stats { states, reasons, ended_by_others, estimated } = counted;
    let age_seconds = at.elapsed().as_secs();
    let stats = Stats { states, reasons, ended_by_others, estimated, age_seconds };
    Ok(Answer::json(StatusCode::OK, &stats))
}

/// `POST /v1/audit`
pub async fn audit(call: Call) -> Result<Answer, Problem> {
    let at_rest = call.flag("atRest")?;
    let Ok(_running) = call.api.asked.audit.try_acquire() else {
        let problem = Problem::new(Code::RateLimited, "an audit is running");
        return Err(Problem { retry_after: Some(FRESH_FOR), ..problem });
    };
    let options = Options { at_rest, ..Options::default() };
    let found = Audit::from(audit::run(&call.api.client, options, |_, _| {}).await?);
    Ok(Answer::json(StatusCode::OK, &found))
}

/// Audits when no other audit is running.
pub async fn audited_in_turn(
    api: &Api,
    progress: impl Fn(u64, &str) + Send + Sync,
) -> Result<Audit, Problem> {
    let _running = api.asked.audit.acquire().await.expect("it is never closed");
    Ok(audit::run(&api.client, Options::default(), progress).await?.into())
}
