//! Tandem as a contender: the real producer and real workers, as processes.
//!
//! Its time runs from the start of the submission to the last transaction in a final state. The
//! workers' own metrics tell when that is, so that nothing reads the database meanwhile; the audit
//! checks it afterwards.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use harness::http::Metrics;
use harness::process::{Process, Signal, memory_max};
use harness::servers::Servers;
use harness::worker::{Plan, Worker};
use ledger::account::Account;
use ledger::amount::Amount;
use ledger::transaction::State;

use super::field::Field;
use super::workload::{OPENING, Workload};

/// How long nothing may happen before a run counts as stuck.
const STUCK: Duration = Duration::from_secs(60);
/// The pause between two looks at the metrics; short near the end, so that the end is seen in time.
const LOOK_NEAR: Duration = Duration::from_millis(10);
const LOOK_FAR: Duration = Duration::from_millis(100);
/// The pause between two looks at the memory of a producer.
const WATCH_EVERY: Duration = Duration::from_millis(5);
/// How soon the database must show the same as the metrics.
const FINAL_LIMIT: Duration = Duration::from_secs(30);
/// More than a worker's own limit for draining.
const STOP_LIMIT: Duration = Duration::from_secs(25);

/// How many transactions a worker has brought to their end.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
pub(super) fn settled_by(metrics: &Metrics) -> u64 {
    let of = |state: State| metrics.sum("tandem_transitions_total", &[("state", state.as_str())]);
    (of(State::Done) + of(State::Canceled)) as u64
}

/// How the workers are started.
#[derive(Clone, Debug, Default)]
pub struct Crew {
    /// How many.
    pub workers: usize,
    /// Flags beside the defaults.
    pub flags: BTreeMap<String, String>,
    /// Where they find the servers, if not where everybody does.
    pub servers: Option<Servers>,
}

impl Crew {
    /// Reads flags as they would stand on the command line: `--engine transaction --lanes 4`.
    ///
    /// # Errors
    /// When a flag has no value.
    pub fn parse_flags(text: &str) -> Result<BTreeMap<String, String>, String> {
        let mut words = text.split_ascii_whitespace();
        let mut flags = BTreeMap::new();
        while let Some(flag) = words.next() {
            let (flag, value) = match flag.split_once('=') {
                Some((flag, value)) => (flag, Some(value)),
                None => (flag, words.next()),
            };
            match value {
                Some(value) if flag.starts_with("--") => flags.insert(flag.into(), value.into()),
                _ => return Err(format!("{flag:?} is not a flag with a value")),
            };
        }
        Ok(flags)
    }

    /// Starts the workers and waits until they consume.
    pub async fn start(&self, field: &Field) -> Workers {
        let mut workers = Vec::new();
        for plan in self.plans(field) {
            workers.push(plan.start().await);
        }
        Workers(workers)
    }

    /// Starts the workers.
    #[must_use]
    pub fn launch(&self, field: &Field) -> Workers {
        Workers(self.plans(field).map(Plan::launch).collect())
    }

    fn plans(&self, field: &Field) -> impl Iterator<Item = Plan> {
        let numbers = 1..=self.workers;
        numbers.map(|number| {
            let plan = field.world.worker(&format!("bench-{number}"));
            // Not the short leases of the tests, but the defaults.
            let plan = plan.only_flags(self.flags.clone());
            match &self.servers {
                Some(far) => plan.mongodb(&far.mongodb_uri).amqp(&far.amqp_url),
                None => plan,
            }
        })
    }
}

/// Running workers.
pub struct Workers(Vec<Worker>);

impl Workers {
    /// Their process ids.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.0.iter().map(|worker| worker.pid()).collect()
    }

    /// How many transactions they have brought to their end.
    pub async fn settled(&self) -> u64 {
        let mut settled = 0;
        for metrics in self.metrics().await {
            settled += settled_by(&metrics);
        }
        settled
    }

    /// The metrics of those that answer: a worker that is just starting has done nothing yet.
    pub async fn metrics(&self) -> Vec<Metrics> {
        let mut all = Vec::new();
        for worker in &self.0 {
            all.extend(worker.get("/metrics").await.map(|answer| Metrics::new(answer.body)));
        }
        all
    }

    /// Whether all of them run.
    ///
    /// # Errors
    /// When one has ended.
    pub fn check(&mut self) -> Result<(), String> {
        match self.0.iter_mut().any(|worker| worker.exited().is_some()) {
            true => Err("a worker has ended by itself".to_owned()),
            false => Ok(()),
        }
    }

    /// Waits until they have settled so many.
    ///
    /// # Errors
    /// When nothing happens for long, or a worker ends.
    pub async fn wait_settled(&mut self, wanted: u64) -> Result<(), String> {
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            let settled = self.settled().await;
            if settled >= wanted {
                return Ok(());
            }
            if settled > seen {
                (seen, since) = (settled, Instant::now());
            }
            if since.elapsed() > STUCK {
                return Err(format!("{settled} of {wanted} settled, and no more for {STUCK:?}"));
            }
            self.check()?;
            let near = settled * 20 >= wanted * 19 || wanted <= 1_000;
            tokio::time::sleep(if near { LOOK_NEAR } else { LOOK_FAR }).await;
        }
    }

    /// Kills one of them at a moment at which this holds while it stands still.
    ///
    /// # Panics
    /// When there is none.
    pub async fn kill_one_when(&mut self, holds: impl AsyncFn() -> bool) {
        let mut worker = self.0.pop().expect("there is a worker");
        worker.freeze().await;
        while !holds().await {
            worker.thaw();
            tokio::time::sleep(LOOK_NEAR).await;
            worker.freeze().await;
        }
        worker.kill();
    }

    /// The highest memory of any of them, in MiB.
    #[must_use]
    pub fn peak_mib(&self) -> f64 {
        self.0.iter().map(|worker| peak_mib(worker.pid())).fold(0.0, f64::max)
    }

    /// Lets them drain and end.
    pub async fn stop(mut self) {
        for worker in &self.0 {
            worker.signal(Signal::Term);
        }
        for worker in &mut self.0 {
            worker.exit(STOP_LIMIT).await;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn peak_mib(pid: u32) -> f64 {
    memory_max(pid).unwrap_or(0) as f64 / f64::from(1 << 20)
}

/// Opens the accounts.
///
/// # Panics
/// When the database refuses.
pub async fn prepare(field: &Field, accounts: usize) {
    const CHUNK: usize = 10_000;
    let open = |number| Account::new(&field.names.account(number), Amount::Int(OPENING));
    for first in (0..accounts).step_by(CHUNK) {
        let chunk: Vec<Account> = (first..accounts.min(first + CHUNK)).map(open).collect();
        field.world.open(&chunk).await;
    }
}

/// The result of a submission.
#[derive(Clone, Copy, Debug)]
pub struct Submitted {
    /// From the start of the process to its end.
    pub elapsed: Duration,
    /// Its highest memory.
    pub peak_mib: f64,
}

/// Submits a file as a user does, and waits until the producer has ended.
///
/// # Errors
/// When the producer does not exit with 0.
pub async fn submit(field: &Field, workload: Workload, file: &Path) -> Result<Submitted, String> {
    let begun = Instant::now();
    let file = file.to_str().expect("the path of a temporary file is text");
    let mut command = vec!["submit", file, "--json"];
    if workload == Workload::SingleIds {
        command.extend(["--batch-ids", "1"]);
    }
    let mut producer: Process = field.world.spawn_producer(&command, &[]);
    let mut peak = 0.0_f64;
    loop {
        peak = peak.max(peak_mib(producer.pid()));
        if let Some(exit) = producer.exited() {
            let elapsed = begun.elapsed();
            if !exit.success() {
                return Err(format!("the producer ended with {exit}:\n{}", producer.log()));
            }
            return Ok(Submitted { elapsed, peak_mib: peak });
        }
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

/// Waits until nothing is in flight in the database, then audits it as a user does.
///
/// # Errors
/// The audit's message, or that it did not read every document, or that transactions stay in
/// flight.
pub async fn audit(field: &Field, transactions: usize) -> Result<(), String> {
    // The metrics count what a worker has done; this makes sure that the database agrees.
    let begun = Instant::now();
    while field.world.count(&State::UNFINISHED).await > 0 {
        if begun.elapsed() > FINAL_LIMIT {
            return Err(format!("transactions are unfinished {FINAL_LIMIT:?} after the last"));
        }
        tokio::time::sleep(LOOK_FAR).await;
    }
    ask_audit(field, &["audit", "--at-rest", "--json"], transactions).await
}

/// Audits a database in which much is still in flight.
///
/// # Errors
/// The audit's message, or that it did not read every document.
pub async fn audit_live(field: &Field, transactions: usize) -> Result<(), String> {
    ask_audit(field, &["audit", "--json"], transactions).await
}

async fn ask_audit(field: &Field, command: &[&str], transactions: usize) -> Result<(), String> {
    let answer = field.world.producer(command).await;
    if !answer.is_success() {
        return Err(format!("the audit: {}{}", answer.stdout, answer.stderr));
    }
    let seen = answer.json()["transactions"].as_u64();
    if seen != Some(transactions as u64) {
        return Err(format!("the audit saw {seen:?} transactions, not {transactions}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_flags_are_read_as_on_a_command_line() {
        let flags = Crew::parse_flags("--engine transaction --lanes=4").expect("flags");
        assert_eq!(flags["--engine"], "transaction");
        assert_eq!(flags["--lanes"], "4");
        assert_eq!(Crew::parse_flags("").expect("nothing").len(), 0);
        assert!(Crew::parse_flags("--lanes").is_err());
        assert!(Crew::parse_flags("lanes 4").is_err());
    }
}
