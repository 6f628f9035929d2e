//! Workers that stand by for one another: how soon the next one settles what is fresh when the one
//! at work dies or hangs, and what those cost that stand by.
//!
//! Before each death the worker at work has got much ahead and settled some of it. The clock runs
//! from the signal until a transfer is done that is submitted right after it. What the dead one had
//! begun waits for the end of its lease, and is no part of the figure; the next death comes when
//! that is done, too.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use harness::wait::wait_until;
use harness::worker::{Worker, active};
use harness::world::transfer;
use ledger::transaction::{Body, State, TransactionId};
use serde::{Deserialize, Serialize};

use super::contender::Contender;
use super::field::Field;
use super::scale::Way;
use super::tandem;
use super::{Bench, say};

const WORKERS: usize = 4;
const DEATHS: usize = 20;
const DEATHS_QUICK: usize = 2;
const HANGS: usize = 2;
/// What is submitted at once before each death.
const AHEAD: usize = 10_000;
/// So many of these are settled when it comes.
const BEGUN: u64 = 1_000;
const ACCOUNTS: usize = 10_000;
/// The longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long is counted what idle workers ask.
const IDLE: Duration = Duration::from_secs(120);
const IDLE_QUICK: Duration = Duration::from_secs(6);

/// What comes of standing by.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Standby {
    /// Whose workers.
    pub contender: Contender,
    /// From each kill until a fresh transfer was done, in milliseconds, sorted.
    pub deaths_ms: Vec<f64>,
    /// The same of each worker that was only stopped.
    pub hangs_ms: Vec<f64>,
    /// Commands a second of an idle worker that stands by, to MongoDB and to RabbitMQ; without those
    /// by which the clients only stay in contact.
    pub idle_commands_per_s: (f64, f64),
    /// What the audit found. If there is anything here, none of the figures count.
    pub problems: Vec<String>,
}

/// Measures it.
pub async fn run(bench: &mut Bench) {
    let contender = bench.args.only.first().copied().unwrap_or(Contender::Tandem);
    let field = bench.field(contender).await;
    Way::Standby.choose(&field).await;
    let measured = measure(bench, &field, contender).await;
    field.finish().await;
    match measured {
        Ok(standby) => {
            say(line(&standby));
            bench.report.standby.push(standby);
        }
        Err(problem) => bench.failed(format!("standby: {problem}")),
    }
}

struct Run<'a> {
    field: &'a Field,
    workers: Vec<Worker>,
    flags: BTreeMap<String, String>,
    submitted: usize,
}

async fn measure(bench: &Bench, field: &Field, contender: Contender) -> Result<Standby, String> {
    let quick = bench.args.quick;
    tandem::prepare(field, ACCOUNTS).await;
    let flags = contender.crew(&bench.crew).flags;
    let mut run = Run { field, workers: Vec::new(), flags, submitted: 0 };
    let idle_commands_per_s = run.idle(if quick { IDLE_QUICK } else { IDLE }).await;
    while run.workers.len() < WORKERS {
        run.start().await;
    }
    let (mut deaths_ms, mut hangs_ms) = (Vec::new(), Vec::new());
    for _ in 0..if quick { DEATHS_QUICK } else { DEATHS } {
        let at = run.busy().await;
        run.workers.remove(at).kill();
        deaths_ms.push(run.until_fresh_is_done().await);
        run.start().await;
    }
    for _ in 0..if quick { 1 } else { HANGS } {
        let at = run.busy().await;
        run.workers[at].freeze().await;
        hangs_ms.push(run.until_fresh_is_done().await);
        run.workers[at].thaw();
    }
    deaths_ms.sort_by(f64::total_cmp);
    hangs_ms.sort_by(f64::total_cmp);
    field.world.wait_final(PATIENCE).await;
    for mut worker in run.workers {
        worker.drain(PATIENCE).await;
    }
    let problems = tandem::audit(field, run.submitted).await.err().into_iter().collect();
    Ok(Standby { contender, deaths_ms, hangs_ms, idle_commands_per_s, problems })
}

impl Run<'_> {
    async fn start(&mut self) {
        let plan = self.field.world.worker(&format!("bench-{}", uuid::Uuid::new_v4().simple()));
        self.workers.push(plan.only_flags(self.flags.clone()).start().await);
    }

    /// Commands a second of one that stands by and has nothing to do: what two more workers ask in
    /// addition to the one at work.
    async fn idle(&mut self, time: Duration) -> (f64, f64) {
        let world = &self.field.world;
        let one = world.worker("idle-at-work").only_flags(self.flags.clone()).start().await;
        wait_until("it is at work", PATIENCE, async || world.queues.consumers().await == Some(1))
            .await;
        let alone = self.counted(time).await;
        let (proxy, url) = world.counting_proxy().await;
        let start = async |name: &str| {
            world.worker(name).only_flags(self.flags.clone()).amqp(&url).start().await
        };
        let others = [start("idle-1").await, start("idle-2").await];
        for other in &others {
            wait_until("it stands by", PATIENCE, async || other.stands_by().await).await;
        }
        let methods = proxy.methods();
        let together = self.counted(time).await;
        let (seconds, others_count) = (time.as_secs_f64(), others.len() as f64);
        let broker = (proxy.methods() - methods) as f64 / seconds / others_count;
        // What one worker asks differs a little from time to time.
        let database = (together - alone).max(0.0) / seconds / others_count;
        for mut worker in others.into_iter().chain([one]) {
            worker.drain(PATIENCE).await;
        }
        (database, broker)
    }

    /// How many commands the database gets in this time.
    async fn counted(&self, time: Duration) -> f64 {
        let before = self.field.read(&[]).await;
        tokio::time::sleep(time).await;
        let (counters, _) = self.field.since(&before, &[]).await;
        counters.commands.values().sum::<i64>() as f64
    }

    /// Waits until a worker is in the midst of much; returns its place.
    async fn busy(&mut self) -> usize {
        let world = &self.field.world;
        // What one has died with, and the next one, too, is done in ever smaller batches.
        world.wait_final(PATIENCE).await;
        let workers: Vec<&Worker> = self.workers.iter().collect();
        let at = active(&workers, PATIENCE).await;
        wait_until("nothing waits", PATIENCE, async || {
            world.queues.depth(queue::WORK).await == Some(0)
        })
        .await;
        let settled = async || tandem::settled_by(&self.workers[at].metrics().await);
        let before = settled().await;
        let first = self.submitted;
        let transfers: Vec<_> = (first..first + AHEAD).map(|n| self.transfer(n)).collect();
        world.submit(&transfers, 1).await;
        wait_until("some are settled", PATIENCE, async || settled().await >= before + BEGUN).await;
        self.submitted += AHEAD;
        at
    }

    fn transfer(&self, number: usize) -> (TransactionId, Body) {
        let account = |number: usize| self.field.names.account(number % ACCOUNTS);
        // Neighbours in a batch share no account.
        transfer(&format!("standby-{number}"), &account(number), &account(number + 5_000), 1)
    }

    /// How long it takes until what is submitted now is done, in milliseconds.
    async fn until_fresh_is_done(&mut self) -> f64 {
        let begun = Instant::now();
        let fresh = self.transfer(self.submitted);
        self.submitted += 1;
        let id = fresh.0.to_string();
        self.field.world.submit(&[fresh], 1).await;
        self.field.world.wait_state(&id, State::Done, PATIENCE).await;
        let took = begun.elapsed();
        say(format!("standby: settled again after {took:.1?}"));
        took.as_secs_f64() * 1e3
    }
}

fn line(standby: &Standby) -> String {
    let longest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max) / 1e3;
    format!(
        "standby: settled again at most {:.1} s after each of {} deaths, {:.1} s after each of {} \
         that hung; idle: {:.2} commands/s to MongoDB, {:.2} to RabbitMQ {}",
        longest(&standby.deaths_ms),
        standby.deaths_ms.len(),
        longest(&standby.hangs_ms),
        standby.hangs_ms.len(),
        standby.idle_commands_per_s.0,
        standby.idle_commands_per_s.1,
        standby.problems.join("; ")
    )
}
