//! How long updates of other programs take beside workers, and after a worker was killed.
//!
//! Owns a program that adds to one random balance after the other, as a shop's old program does, and
//! the situations in which its times are taken. The ledger has a schema, because there an audit tells
//! apart what others move. At the end that is absorbed, and the audit has to find nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use harness::figures::percentile;
use harness::laid_out;
use harness::servers::Servers;
use layout::Layout;
use ledger::transaction::State;
use mongo::{ACCOUNTS, Store};
use mongodb::bson::doc;
use mongodb::options::ReadConcern;
use rand::Rng;
use serde::Serialize;
use tokio::task::JoinHandle;

use super::args::{Events, History};
use super::field::{Field, Setup};
use super::tandem::{self, Crew};
use super::usage::ServerPids;
use super::workload::{Load, Workload};

/// The collections of the old program.
const SCHEMA: &str = "[accounts]\ncollection = \"user\"\n[transactions]\ncollection = \"payment\"";
/// The pause between two updates.
const PAUSE: Duration = Duration::from_millis(2);
/// How long others are watched after a death beside another worker.
const AFTER: Duration = Duration::from_secs(10);
/// The same where nobody else is there: more than the lifetime of a transaction on the server.
const AFTER_ALONE: Duration = Duration::from_secs(75);
/// How many transactions are settled before a worker is killed.
const UNDER_WAY: u64 = 5_000;
/// Who stands still for so long is seen.
const STANDS_STILL: Duration = Duration::from_millis(200);
/// The pause between two looks at what is left.
const AGAIN: Duration = Duration::from_millis(100);

/// How much is measured.
#[derive(Args, Clone, Copy, Debug)]
pub struct Plan {
    /// Transfers in the queue of each engine
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub transfers: usize,
    /// Accounts, on which others add, too
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub accounts: usize,
    /// Seconds of the old program alone
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub seconds: u64,
    /// How often a worker is killed beside another one
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub kills: usize,
}

/// What was measured.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Each situation.
    pub situations: Vec<Situation>,
    /// What the audits found.
    pub problems: Vec<String>,
}

/// The old program's updates in one situation, in milliseconds.
#[derive(Debug, Serialize)]
pub struct Situation {
    /// Beside what.
    pub beside: String,
    /// How many updates there were.
    pub updates: usize,
    /// The median.
    pub p50_ms: f64,
    /// The slowest hundredth takes longer.
    pub p99_ms: f64,
    /// The slowest.
    pub max_ms: f64,
}

/// The old program.
struct OldProgram {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Vec<(Instant, Duration)>>,
}

impl OldProgram {
    fn start(field: &Field, accounts: usize) -> OldProgram {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, store, names) = (stop.clone(), field.store.clone(), field.names);
        let task = tokio::spawn(async move {
            let mut took = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let number = rand::rng().random_range(0..accounts);
                let begun = Instant::now();
                add(&store, &names.account(number)).await;
                took.push((begun, begun.elapsed()));
                tokio::time::sleep(PAUSE).await;
            }
            took
        });
        OldProgram { stop, task }
    }

    /// Its times, in order.
    async fn stopped(self) -> Vec<(Instant, Duration)> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("it never panics")
    }
}

async fn add(store: &Store, account: &str) {
    let path = |name: &str| laid_out::path(store, ACCOUNTS, name);
    let added = doc! { "$inc": { path("balance"): 1 } };
    let updated = store.accounts().update_one(doc! { path("_id"): account }, added).await;
    assert_eq!(updated.expect("MongoDB is there").matched_count, 1, "{account}");
}

/// Measures all of it; `said` hears of each situation as it comes.
///
/// # Errors
/// When workers don't settle what they are given.
///
/// # Panics
/// When a server is away.
pub async fn measure(plan: Plan, said: impl Fn(&Situation)) -> Result<Report, String> {
    let mut report = Report::default();
    let add = |report: &mut Report, situation| {
        said(&situation);
        report.situations.push(situation);
    };
    for engine in ["two-phase", "auto"] {
        let field = field(plan).await;
        for situation in full_queue(plan, &field, engine).await? {
            add(&mut report, situation);
        }
        end(field, plan.transfers, &mut report).await;
    }
    for (workers, times, beside) in [
        (2, plan.kills, "a worker killed in a transaction, another there"),
        (1, 1, "a worker killed in a transaction, no other"),
    ] {
        let mut took = Vec::new();
        for _ in 0..times {
            let field = field(plan).await;
            took.extend(killed(plan, &field, workers).await?);
            end(field, plan.transfers, &mut report).await;
        }
        add(&mut report, situation(beside.to_owned(), took.iter()));
    }
    Ok(report)
}

async fn field(plan: Plan) -> Field {
    let layout = Some(Layout::from_toml(SCHEMA).expect("it is good"));
    let (events, history) = (Events::Unheard, History::Default);
    let setup = Setup { events, history, no_keys: false, layout };
    let field = Field::new(&Servers::from_env(), ServerPids::default(), &setup).await;
    tandem::prepare(&field, plan.accounts).await;
    field
}

/// Books what the old program has added, and audits.
async fn end(field: Field, transactions: usize, report: &mut Report) {
    let absorb = ["accounts", "absorb", "--reason", "the old program", "--by", "bench", "--yes"];
    let absorbed = field.world.producer(&absorb).await;
    if !absorbed.is_success() {
        report.problems.push(format!("absorbing: {}{}", absorbed.stdout, absorbed.stderr));
    }
    report.problems.extend(tandem::audit(&field, transactions).await.err());
    field.finish().await;
}

/// Puts all transfers into the queue.
async fn fill(plan: Plan, field: &Field) -> Result<(), String> {
    let load = Load::generate(Workload::Uniform, plan.accounts, plan.transfers, 1);
    let file = field.write(&load)?;
    tandem::submit(field, Workload::Uniform, &file).await.map(drop)
}

fn crew(engine: &str, workers: usize) -> Crew {
    let flags = [("--engine".to_owned(), engine.to_owned())].into();
    Crew { workers, flags, servers: None }
}

/// The old program alone, and while a worker works off all transfers.
async fn full_queue(plan: Plan, field: &Field, engine: &str) -> Result<[Situation; 2], String> {
    fill(plan, field).await?;
    field.settle_down().await;
    let old = OldProgram::start(field, plan.accounts);
    tokio::time::sleep(Duration::from_secs(plan.seconds)).await;
    let begun = Instant::now();
    let mut workers = crew(engine, 1).start(field).await;
    workers.wait_settled(plan.transfers as u64).await?;
    let ended = Instant::now();
    let took = old.stopped().await;
    workers.stop().await;
    let beside = format!("{engine}, queue full");
    Ok([
        situation("nothing".to_owned(), took.iter().filter(|(at, _)| *at < begun)),
        situation(beside, took.iter().filter(|(at, _)| (begun..ended).contains(at))),
    ])
}

/// One of so many workers that settle natively is killed; what others then wait for.
async fn killed(
    plan: Plan,
    field: &Field,
    workers: usize,
) -> Result<Vec<(Instant, Duration)>, String> {
    fill(plan, field).await?;
    let old = OldProgram::start(field, plan.accounts);
    let mut there = crew("transaction", workers).start(field).await;
    there.wait_settled(UNDER_WAY).await?;
    there.kill_one_when(async || has_idle_transaction(&field.store).await).await;
    let at = Instant::now();
    tokio::time::sleep(if workers == 1 { AFTER_ALONE } else { AFTER }).await;
    let took = old.stopped().await;
    there.stop().await;
    let mut rest = crew("transaction", 1).start(field).await;
    while field.world.count(&State::UNFINISHED).await > 0 {
        rest.check()?;
        tokio::time::sleep(AGAIN).await;
    }
    rest.stop().await;
    // What was sent before waits, too.
    Ok(took.into_iter().filter(|(begun, took)| *begun + *took > at).collect())
}

/// Whether somebody stands still in the middle of a native transaction.
async fn has_idle_transaction(store: &Store) -> bool {
    tokio::time::sleep(STANDS_STILL).await;
    let idle_us = i64::try_from(STANDS_STILL.as_micros() / 2).expect("a short time");
    let pipeline = [
        doc! { "$currentOp": { "idleSessions": true } },
        doc! { "$match": { "transaction.timeInactiveMicros": { "$gt": idle_us } } },
    ];
    let admin = store.database().client().database("admin");
    // The list of running operations is no stored data, so a majority read concern makes no sense.
    let found = admin.aggregate(pipeline).read_concern(ReadConcern::local()).await;
    found.expect("MongoDB is there").advance().await.expect("MongoDB is there")
}

fn situation<'a>(beside: String, took: impl Iterator<Item = &'a (Instant, Duration)>) -> Situation {
    let mut times: Vec<f64> = took.map(|(_, took)| took.as_secs_f64() * 1_000.0).collect();
    times.sort_by(f64::total_cmp);
    let [p50_ms, p99_ms, max_ms] =
        [50, 99, 100].map(|percent| percentile(&times, percent).unwrap_or_default());
    Situation { beside, updates: times.len(), p50_ms, p99_ms, max_ms }
}
