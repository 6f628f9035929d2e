//! How much the HTTP API takes in, measured by a load generator that knows nothing of Tandem
//! (`wrk`), while a worker settles beside it.
//!
//! Each part waits until everything is settled, so that none pays for the one before. At the end
//! the books have to balance. `Client::submit_all` is measured beside the arrays: the API can't be
//! faster.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use client::Submission;
use harness::api::Api;
use harness::deployment::root;
use harness::wait::s;
use harness::world::World;
use ledger::account::Account;
use ledger::amount::Amount;
use mongo::Choice;
use rand::Rng;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::args::History;

/// How long settling the rest of a part may take.
const SETTLE_LIMIT: Duration = Duration::from_secs(600);

/// What is measured.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Plan {
    /// How long each of the three parts lasts, in seconds
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: u32,
    /// Connections that submit one transfer in each request
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: u32,
    /// Connections that submit arrays, and callers of `submit_all`
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub bulk_connections: u32,
    /// Transfers in an array
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub items: u32,
    /// Accounts
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(2..))]
    pub accounts: u32,
    /// Whether the database has the indexes of lists and statements
    #[arg(long, value_enum, value_name = "HOW", default_value_t = History::Default)]
    pub history: History,
}

/// What a part came to.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Part {
    /// Transfers that were accepted in a second.
    pub transfers_per_second: f64,
    /// Half of the requests were answered within so many milliseconds.
    pub p50_ms: f64,
    /// All but one of a hundred were answered within so many milliseconds.
    pub p99_ms: f64,
    /// Requests that were not answered with 2xx, or not at all.
    pub failed: u64,
}

/// What all of it came to.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Single submissions.
    pub single: Part,
    /// Arrays.
    pub arrays: Part,
    /// `Client::submit_all` with the same arrays, without HTTP.
    pub submit_all: Part,
    /// What is wrong at rest.
    pub problems: Vec<String>,
}

/// What the script prints for a run.
#[derive(Deserialize)]
struct Ran {
    requests: u64,
    seconds: f64,
    p50_ms: f64,
    p99_ms: f64,
    bad_statuses: u64,
    broken: u64,
}

/// Measures everything; `said` is told what begins.
///
/// # Panics
/// When a program does not run.
pub async fn measure(plan: Plan, wrk: &str, said: impl Fn(&str)) -> Report {
    let world = World::new().await;
    world.choose(Choice { history: plan.history.choice(), ..Choice::default() }).await;
    let ids: Vec<String> = (0..plan.accounts).map(|n| format!("load-{n}")).collect();
    let accounts: Vec<Account> =
        ids.iter().map(|id| Account::new(id, Amount::Int(1_000_000_000))).collect();
    for accounts in accounts.chunks(1_000) {
        world.open(accounts).await;
    }
    let worker = world.worker("one").only_flags(BTreeMap::new()).start().await;
    let api = world.api(&[]).await;
    said("single submissions");
    let single = load(&api, wrk, plan, 1, plan.connections).await;
    world.wait_final(SETTLE_LIMIT).await;
    said("arrays");
    let arrays = load(&api, wrk, plan, plan.items, plan.bulk_connections).await;
    world.wait_final(SETTLE_LIMIT).await;
    said("submit_all, without HTTP");
    let submit_all = submit_all(&world, plan).await;
    world.wait_final(SETTLE_LIMIT).await;
    let mut problems = world.problems().await;
    let audit = world.audit().await;
    if !audit.is_success() {
        problems.push(audit.stdout);
    }
    drop((api, worker));
    world.finish().await;
    Report { single, arrays, submit_all, problems }
}

async fn load(api: &Api, wrk: &str, plan: Plan, items: u32, connections: u32) -> Part {
    let run = uuid::Uuid::new_v4().simple().to_string();
    let threads = connections.min(2).to_string();
    let script = root().join("tests/bench/load/transfers.lua");
    let output = Command::new(wrk)
        .args(["--threads", &threads, "--connections", &connections.to_string()])
        .args(["--duration", &format!("{}s", plan.seconds), "--timeout", "60s", "--script"])
        .arg(script)
        .arg(format!("http://{}", api.address))
        .env("TANDEM_LOAD_RUN", &run[..8])
        .env("TANDEM_LOAD_ITEMS", items.to_string())
        .env("TANDEM_LOAD_ACCOUNTS", plan.accounts.to_string())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(s(u64::from(plan.seconds) + 120), output).await;
    let output = output.expect("wrk ends").expect("wrk runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let ran = said.lines().find_map(|line| serde_json::from_str::<Ran>(line).ok());
    let ran = ran.unwrap_or_else(|| panic!("{said}\n{}", String::from_utf8_lossy(&output.stderr)));
    let transfers = ran.requests.saturating_sub(ran.bad_statuses) * u64::from(items);
    Part {
        transfers_per_second: transfers as f64 / ran.seconds,
        p50_ms: ran.p50_ms,
        p99_ms: ran.p99_ms,
        failed: ran.bad_statuses + ran.broken,
    }
}

async fn submit_all(world: &World, plan: Plan) -> Part {
    let client = world.client().await;
    let begun = Instant::now();
    let until = begun + s(plan.seconds.into());
    let callers = (0..plan.bulk_connections).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut took = Vec::new();
            while Instant::now() < until {
                let submissions: Vec<Submission> =
                    (0..plan.items).map(|_| transfer(plan)).collect();
                let asked = Instant::now();
                let receipts = client.submit_all(submissions).await;
                receipts.into_iter().for_each(|receipt| drop(receipt.expect("it is taken")));
                took.push(asked.elapsed().as_secs_f64() * 1_000.0);
            }
            took
        })
    });
    let mut took = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        took.extend(caller.await.expect("no caller panics"));
    }
    let seconds = begun.elapsed().as_secs_f64();
    client.close().await;
    took.sort_by(f64::total_cmp);
    let at = |percent| harness::figures::percentile(&took, percent).unwrap_or(0.0);
    Part {
        transfers_per_second: (took.len() as f64 * f64::from(plan.items)) / seconds,
        p50_ms: at(50),
        p99_ms: at(99),
        failed: 0,
    }
}

fn transfer(plan: Plan) -> Submission {
    let mut random = rand::rng();
    let from = random.random_range(0..plan.accounts);
    let to = (from + random.random_range(1..plan.accounts)) % plan.accounts;
    Submission::transfer(&format!("load-{from}"), &format!("load-{to}"), 1)
}
