//! What more workers bring: near the servers, where they share a machine with them, and far away;
//! where they share the work, and near also where they stand by for one another.
//!
//! Far away means a round trip of 10 ms between each worker and both servers, by proxies in this
//! program, whose CPU seconds are the client's. Then a worker waits for the network most of the
//! time, and another one can use that time. The queue is full before the workers start, and the
//! first and the last tenth don't count, so that neither start nor end does.

use std::time::Duration;

use harness::http::Metrics;
use harness::proxy::Distance;
use mongo::Choice;
use serde::{Deserialize, Serialize};

use super::contender::Contender;
use super::drain::drain;
use super::field::Field;
use super::tandem::{self, Crew};
use super::usage::Cpu;
use super::workload::{Load, Workload};
use super::{Bench, say, throughput};

/// Whose workers are measured. Near the servers only those with two phases: the others leave native
/// transactions when they collide, so there each number of workers has a mixture of its own.
const CONTENDERS: [Contender; 2] = [Contender::Tandem, Contender::Auto];
/// Between a far worker and the servers, there and back.
const ROUND_TRIP: Duration = Duration::from_millis(10);
/// The numbers of workers that are compared.
const NEAR: [(usize, Way); 5] =
    [(1, Way::Share), (2, Way::Share), (4, Way::Share), (1, Way::Standby), (4, Way::Standby)];
const FAR: [usize; 4] = [1, 2, 4, 8];
/// So many transfers there are at least, and as many for each number of workers: how large a backlog is
/// changes what a transfer costs.
const AT_LEAST: usize = 240_000;
/// The first tenth of the transfers, and the last, are not counted.
const UNCOUNTED_ONE_IN: u64 = 10;

/// How several workers go about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// All of them are at work.
    #[default]
    Share,
    /// One is at work.
    Standby,
}

impl Way {
    /// Has the ledger's workers go about it like that.
    pub(super) async fn choose(self, field: &Field) {
        let standby = Some(self == Way::Standby);
        field.world.choose(Choice { standby, ..Choice::default() }).await;
    }

    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Way::Share => "share",
            Way::Standby => "standby",
        }
    }
}

/// What so many workers settle.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replicas {
    /// Whose workers: those with two phases, or with `--engine auto`.
    pub contender: Contender,
    /// How many.
    pub workers: usize,
    /// How they go about it.
    #[serde(default)]
    pub way: Way,
    /// Milliseconds to the servers and back; 0 where they are near.
    pub round_trip_ms: u64,
    /// Transfers that were counted.
    pub transfers: u64,
    /// Transfers a second.
    pub per_s: f64,
    /// The share of the time of all phases that was lost to conflicts of native transactions.
    pub conflicts: Option<f64>,
    /// The same of the worker that has lost the largest share.
    pub conflicts_max: Option<f64>,
    /// How many native transactions were lost to a conflict, and how many were committed.
    #[serde(default)]
    pub attempts: (f64, f64),
    /// CPU seconds per 1,000 transfers; the client's are those of the proxies.
    pub cpu_per_1000: Cpu,
    /// What the audit found. If there is anything here, none of the figures count.
    pub problems: Vec<String>,
}

impl Replicas {
    /// Whether the other one measures the same.
    #[must_use]
    pub fn is_again(&self, other: &Replicas) -> bool {
        let key = |one: &Replicas| (one.contender, one.workers, one.way, one.round_trip_ms);
        key(self) == key(other)
    }
}

/// Measures all numbers of workers, near and far.
pub async fn run(bench: &mut Bench) {
    let mut contenders = throughput::available(bench.args.contenders());
    contenders.retain(|contender| CONTENDERS.contains(contender));
    if contenders.contains(&Contender::Tandem) {
        for workers in NEAR {
            one(bench, Contender::Tandem, workers, Duration::ZERO).await;
        }
    }
    for workers in FAR {
        for contender in &contenders {
            one(bench, *contender, (workers, Way::Share), ROUND_TRIP).await;
        }
    }
}

async fn one(bench: &mut Bench, contender: Contender, workers: (usize, Way), round_trip: Duration) {
    let field = bench.field(contender).await;
    let ran = measure(bench, &field, contender, workers, round_trip).await;
    field.finish().await;
    match ran {
        Ok(replicas) => {
            say(line(&replicas));
            bench.report.replicas.push(replicas);
        }
        Err(problem) => {
            let contender = contender.name();
            bench.failed(format!("{} workers of {contender}: {problem}", workers.0));
        }
    }
}

async fn measure(
    bench: &Bench,
    field: &Field,
    contender: Contender,
    (workers, way): (usize, Way),
    round_trip: Duration,
) -> Result<Replicas, String> {
    way.choose(field).await;
    let accounts = bench.args.accounts;
    let least = if bench.args.quick { 0 } else { AT_LEAST };
    let total = bench.args.scale().transfers.max(least);
    tandem::prepare(field, accounts).await;
    let load = Load::generate(Workload::Uniform, accounts, total, bench.args.seed);
    let file = field.write(&load)?;
    tandem::submit(field, Workload::Uniform, &file).await?;
    field.settle_down().await;
    let distance = match round_trip {
        Duration::ZERO => None,
        _ => Some(Distance::to(&field.world.servers, round_trip).await),
    };
    let servers = distance.as_ref().map(|distance| distance.servers.clone());
    let crew = contender.crew(&Crew { workers, servers, ..bench.crew.clone() });
    let mut workers = crew.launch(field);
    let uncounted = total as u64 / UNCOUNTED_ONE_IN;
    let drained = drain(field, &mut workers, uncounted, total as u64 - uncounted).await?;
    workers.wait_settled(total as u64).await?;
    let metrics = workers.metrics().await;
    let shares = conflict_shares(&metrics);
    workers.stop().await;
    let mut problems = field.problems(&load.books(total)).await;
    problems.extend(tandem::audit(field, total).await.err());
    let mut cpu_per_1000 = drained.cpu_per_1000();
    if distance.is_none() {
        // This program has only observed.
        cpu_per_1000.client = 0.0;
    }
    Ok(Replicas {
        contender,
        workers: crew.workers,
        way,
        round_trip_ms: u64::try_from(round_trip.as_millis()).unwrap_or(u64::MAX),
        transfers: drained.transfers,
        per_s: drained.per_s(),
        conflicts: shares.of_all,
        conflicts_max: shares.highest,
        attempts: attempts(&metrics),
        cpu_per_1000,
        problems,
    })
}

const PHASE_SUM: &str = "tandem_phase_seconds_sum";

/// How much of the time is lost to conflicts: by all workers together, and by the one that loses
/// most.
struct Shares {
    of_all: Option<f64>,
    highest: Option<f64>,
}

fn conflict_shares(workers: &[Metrics]) -> Shares {
    let lost = |metrics: &Metrics| metrics.sum(PHASE_SUM, &[("phase", "conflict")]);
    let whole = |metrics: &Metrics| metrics.sum(PHASE_SUM, &[]);
    let times: Vec<_> = workers.iter().map(|metrics| (lost(metrics), whole(metrics))).collect();
    shares(&times)
}

/// How many native transactions were lost, and how many were committed.
fn attempts(workers: &[Metrics]) -> (f64, f64) {
    let of = |phase| {
        let count =
            |metrics: &Metrics| metrics.sum("tandem_phase_seconds_count", &[("phase", phase)]);
        workers.iter().map(count).sum()
    };
    (of("conflict"), of("transaction"))
}

/// From the time that each worker has lost, and that all its phases took.
fn shares(times: &[(f64, f64)]) -> Shares {
    let share = |(lost, whole): (f64, f64)| (whole > 0.0).then(|| lost / whole);
    let all = times.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    Shares { of_all: share(all), highest: times.iter().copied().filter_map(share).reduce(f64::max) }
}

fn line(replicas: &Replicas) -> String {
    let (lost, committed) = replicas.attempts;
    let conflicts = replicas.conflicts.map_or(String::new(), |share| {
        format!(
            ", {:.1} % of the time lost to conflicts ({lost:.0} native transactions; {committed:.0} \
             committed)",
            share * 100.0
        )
    });
    format!(
        "{} workers of {:<7} {} at {:>2} ms: {:.0}/s, CPU s/1000: mongod {:.3}, worker {:.3}, proxies \
         {:.3}{conflicts} {}",
        replicas.workers,
        replicas.contender.name(),
        replicas.way.name(),
        replicas.round_trip_ms,
        replicas.per_s,
        replicas.cpu_per_1000.mongod,
        replicas.cpu_per_1000.worker,
        replicas.cpu_per_1000.client,
        replicas.problems.join("; ")
    )
}

/// The measurement of so many workers, if its books balance.
#[must_use]
pub fn find(
    all: &[Replicas],
    contender: Contender,
    workers: usize,
    is_far: bool,
) -> Option<&Replicas> {
    all.iter().find(|one| {
        let same = one.contender == contender && one.workers == workers && one.way == Way::Share;
        same && (one.round_trip_ms > 0) == is_far && one.problems.is_empty()
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// So many workers with this rate, at this cost for the database.
    pub fn replicas(
        contender: Contender,
        workers: usize,
        round_trip_ms: u64,
        (per_s, mongod): (f64, f64),
    ) -> Replicas {
        Replicas {
            contender,
            workers,
            way: Way::Share,
            round_trip_ms,
            transfers: 1_000,
            per_s,
            conflicts: Some(0.05),
            conflicts_max: Some(0.1),
            attempts: (3.0, 40.0),
            cpu_per_1000: Cpu { mongod, ..Cpu::default() },
            problems: Vec::new(),
        }
    }

    #[test]
    fn the_share_lost_is_of_all_time_and_the_highest_of_one_worker() {
        let two = shares(&[(10.0, 100.0), (30.0, 100.0), (0.0, 0.0)]);
        assert_eq!((two.of_all, two.highest), (Some(0.2), Some(0.3)));
        let none = shares(&[(0.0, 0.0)]);
        assert_eq!((none.of_all, none.highest), (None, None));
    }

    #[test]
    fn near_and_far_are_told_apart_and_false_books_left_out() {
        let mut all = vec![
            replicas(Contender::Tandem, 1, 0, (100.0, 1.0)),
            replicas(Contender::Tandem, 1, 10, (50.0, 1.0)),
        ];
        assert_eq!(find(&all, Contender::Tandem, 1, true).map(|one| one.per_s), Some(50.0));
        assert_eq!(find(&all, Contender::Tandem, 1, false).map(|one| one.per_s), Some(100.0));
        all[0].problems.push("x".to_owned());
        assert!(find(&all, Contender::Tandem, 1, false).is_none());
    }
}
