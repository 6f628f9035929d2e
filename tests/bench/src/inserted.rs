//! Transfers that a program only inserts, and says so in their documents.
//!
//! What is measured: on a quiet system, from the insert to the moment at which a worker has taken a
//! transfer up, and to `applied`; many at once, beside as many that are published, by turns; and how
//! soon single ones are taken up while a queue is being worked off. Each look reads one document by
//! its `_id`, so a figure is late by such a look. The books are audited at the end.

use std::time::{Duration, Instant};

use harness::figures::percentile;
use harness::laid_out;
use ledger::transaction::{TransactionId, UNPUBLISHED};
use mongo::TRANSACTIONS;
use mongodb::bson::{DateTime, Document, doc};
use serde::{Deserialize, Serialize};

use super::contender::Contender;
use super::field::Field;
use super::tandem::{self, Workers};
use super::workload::{Load, Transfer, Workload};
use super::{Bench, say, undated};

/// Transfers that are inserted at once.
const AT_ONCE: usize = 10_000;
/// How often that is done.
const ROUNDS: usize = 3;
/// Single ones beside a queue that is being worked off.
const BESIDE: usize = 50;
/// Ids of a message.
const PER_MESSAGE: usize = 100;
/// The longest time that a single one may take.
const LIMIT: Duration = Duration::from_secs(60);

/// How long something took, of several.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Took {
    /// The median, in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile, in milliseconds.
    pub p99_ms: f64,
}

/// What became of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Inserted {
    /// Whose workers.
    pub contender: Contender,
    /// Single transfers on a quiet system.
    pub singles: usize,
    /// Until one was taken up.
    pub taken_up: Took,
    /// Until it was applied.
    pub applied: Took,
    /// Transfers at once.
    pub at_once: usize,
    /// Until the last of those was done that were only inserted: the median of the rounds, in
    /// seconds.
    pub inserted_s: f64,
    /// The same of those that were published.
    pub published_s: f64,
    /// Until a single one was taken up beside a queue that was being worked off.
    pub beside: Took,
    /// What the audit found. If there is anything here, none of the figures count.
    pub problems: Vec<String>,
}

/// One contender after the other.
pub async fn run(bench: &mut Bench) {
    for contender in undated::contenders(bench) {
        let setup = bench.setup(contender);
        let field = bench.field_of(&setup).await;
        let ran = measure(bench, &field, contender).await;
        field.finish().await;
        match ran {
            Ok(inserted) => {
                say(line(&inserted));
                bench.report.inserted.push(inserted);
            }
            Err(problem) => bench.failed(format!("inserted {}: {problem}", contender.name())),
        }
    }
}

/// A run on one field: what is left of its load, and what was handed in so far.
struct Run<'a> {
    field: &'a Field,
    workers: Workers,
    left: std::slice::Iter<'a, Transfer>,
    handed_in: u64,
}

async fn measure(bench: &Bench, field: &Field, contender: Contender) -> Result<Inserted, String> {
    let scale = bench.args.scale();
    let (accounts, singles) = (bench.args.accounts, scale.idle);
    let total = singles + 2 * ROUNDS * AT_ONCE + scale.transfers + BESIDE;
    tandem::prepare(field, accounts).await;
    let load = Load::generate(Workload::Uniform, accounts, total, bench.args.seed);
    let workers = contender.crew(&bench.crew).start(field).await;
    field.settle_down().await;
    let mut run = Run { field, workers, left: load.transfers.iter(), handed_in: 0 };
    let (mut taken_up, mut applied) = (Vec::new(), Vec::new());
    for _ in 0..singles {
        let (taken, done) = run.single(true).await?;
        taken_up.push(taken);
        applied.push(done);
    }
    let (mut inserted, mut published) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        published.push(run.at_once(AT_ONCE, true).await?);
        inserted.push(run.at_once(AT_ONCE, false).await?);
    }
    run.publish(scale.transfers).await?;
    let mut beside = Vec::new();
    for _ in 0..BESIDE {
        beside.push(run.single(false).await?.0);
    }
    run.workers.wait_settled(run.handed_in).await?;
    run.workers.stop().await;
    let mut problems = field.problems(&load.books(total)).await;
    problems.extend(tandem::audit(field, total).await.err());
    problems.truncate(10);
    let (inserted_s, published_s) = (median_s(inserted), median_s(published));
    Ok(Inserted {
        contender,
        singles,
        taken_up: took(taken_up),
        applied: took(applied),
        at_once: AT_ONCE,
        inserted_s,
        published_s,
        beside: took(beside),
        problems,
    })
}

impl Run<'_> {
    /// The next transfers of the load, inserted.
    async fn insert(
        &mut self,
        count: usize,
        unpublished: bool,
    ) -> Result<Vec<TransactionId>, String> {
        let transfers: Vec<&Transfer> = self.left.by_ref().take(count).collect();
        let names = self.field.names;
        let document = |transfer: &&Transfer| -> Document {
            let now = DateTime::now();
            let mut own = undated::initial(names, transfer);
            own.extend(doc! { "createdAt": now, "lastModified": now });
            if unpublished {
                own.insert(UNPUBLISHED, true);
            }
            laid_out::stored(&self.field.store, TRANSACTIONS, own)
        };
        let documents: Vec<_> = transfers.iter().map(document).collect();
        let inserted = self.field.store.transactions().insert_many(documents).await;
        inserted.map_err(|error| error.to_string())?;
        self.handed_in += count as u64;
        Ok(transfers.iter().map(|transfer| transfer.id.as_str().into()).collect())
    }

    async fn publish(&mut self, count: usize) -> Result<(), String> {
        let ids = self.insert(count, false).await?;
        self.field.world.publish(&ids, PER_MESSAGE).await;
        Ok(())
    }

    /// How long it takes until so many that come at once are done.
    async fn at_once(&mut self, count: usize, published: bool) -> Result<Duration, String> {
        let begun = Instant::now();
        match published {
            true => self.publish(count).await?,
            false => drop(self.insert(count, true).await?),
        }
        self.workers.wait_settled(self.handed_in).await?;
        Ok(begun.elapsed())
    }

    /// Inserts one at some moment between two looks of the workers. How long it takes until it is
    /// taken up, and, if that is waited for, until it is applied.
    async fn single(&mut self, to_the_end: bool) -> Result<(Duration, Duration), String> {
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..100))).await;
        let begun = Instant::now();
        let id = self.insert(1, true).await?.remove(0);
        let mut taken_up = None;
        while begun.elapsed() < LIMIT {
            let found = laid_out::one(&self.field.store, TRANSACTIONS, &id).await;
            let found = found.map_err(|error| error.to_string())?.ok_or("it is gone")?;
            let elapsed = begun.elapsed();
            if !found.contains_key(UNPUBLISHED) {
                taken_up.get_or_insert(elapsed);
            }
            let is_applied = ["applied", "done"].contains(&found.get_str("state").unwrap_or(""));
            if let Some(taken_up) = taken_up.filter(|_| is_applied || !to_the_end) {
                return Ok((taken_up, elapsed));
            }
        }
        Err(format!("{id} was not settled within {LIMIT:?}"))
    }
}

pub(super) fn took(mut all: Vec<Duration>) -> Took {
    all.sort_unstable();
    let at = |percent| percentile(&all, percent).map_or(0.0, |took| took.as_secs_f64() * 1_000.0);
    Took { p50_ms: at(50), p99_ms: at(99) }
}

/// How long each of so many calls takes, one after the other.
pub(super) async fn timed<T>(
    count: usize,
    mut call: impl AsyncFnMut() -> Result<T, String>,
) -> Result<Took, String> {
    let mut all = Vec::new();
    for _ in 0..count {
        let begun = Instant::now();
        call().await?;
        all.push(begun.elapsed());
    }
    Ok(took(all))
}

fn median_s(mut all: Vec<Duration>) -> f64 {
    all.sort_unstable();
    percentile(&all, 50).map_or(0.0, |took| took.as_secs_f64())
}

fn line(one: &Inserted) -> String {
    format!(
        "{:<12} inserted only: taken up after {:.0} ms (p99 {:.0}), applied after {:.0} ms (p99 {:.0}); \
         {} at once {:.2} s, published {:.2} s; beside a queue taken up after {:.0} ms (p99 {:.0}) {}",
        one.contender.name(),
        one.taken_up.p50_ms,
        one.taken_up.p99_ms,
        one.applied.p50_ms,
        one.applied.p99_ms,
        one.at_once,
        one.inserted_s,
        one.published_s,
        one.beside.p50_ms,
        one.beside.p99_ms,
        one.problems.join("; ")
    )
}
