//! The time from submission to `applied`: against the rate of arrival, one transfer at a time on an
//! idle system, and in the schema-design book's scenario.
//!
//! A transfer counts as submitted when it was due, whatever became of those before it. Tandem's end
//! is observed by a change stream, so the time until the client learns of it is included; a
//! baseline's ends with its call. Books that don't balance are noted with the figures.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use harness::figures::percentile;
use serde::{Deserialize, Serialize};

use super::baseline::{self, Baseline};
use super::contender::{Contender, Kind};
use super::feed::{Arrivals, Pace};
use super::field::Field;
use super::submitter::Submitter;
use super::tandem::{self, Crew};
use super::watch::Watcher;
use super::workload::{Load, Workload};

/// At most about so many transfers of a run are watched.
const SAMPLES_MAX: usize = 2_000;
/// The pause between two single transfers, in milliseconds. It varies, so that it does not keep
/// step with anything.
const PAUSE_MS: std::ops::Range<u64> = 20..40;
/// At a rate, the first tenth of the transfers is not counted: connections open, caches fill.
const UNCOUNTED_ONE_IN: usize = 10;
/// The last fifth shows whether the contender has fallen behind.
const LATE_ONE_IN: usize = 5;
/// How far behind the schedule that fifth may be: a twentieth of the schedule, which is a rate of 5
/// % less, but at least so long, because a short run is disturbed by a single checkpoint.
const BEHIND_ONE_IN: u32 = 20;
const BEHIND_AT_LEAST: Duration = Duration::from_millis(250);

/// The situation that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Situation {
    /// One at a time.
    Idle,
    /// At a rate, whatever the contender makes of it.
    Rate,
    /// In the book's scenario.
    Book,
}

/// How long transfers took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// The workload's name.
    pub workload: Workload,
    /// The contender's.
    pub contender: Contender,
    /// The situation.
    pub situation: Situation,
    /// Transfers submitted a second; none when one waited for the other.
    pub rate_per_s: Option<f64>,
    /// So many of them arrive at once, as one submission.
    pub together: usize,
    /// At a rate: whether the contender settled as many as arrived. If not, the time that a
    /// transfer takes grows for as long as the load lasts, and the figures say only that.
    pub kept_up: bool,
    /// Transfers.
    pub transfers: usize,
    /// From the first submission to the last that was seen applied.
    pub seconds: f64,
    /// The number of measured transfers.
    pub samples: usize,
    /// Their mean, in milliseconds, as all that follow.
    pub mean_ms: f64,
    /// Half took at most this.
    pub p50_ms: f64,
    /// 75 % did.
    pub p75_ms: f64,
    /// 95 % did.
    pub p95_ms: f64,
    /// 99 % did.
    pub p99_ms: f64,
    /// All did.
    pub max_ms: f64,
    /// What the audit found. If there is anything here, none of the figures count.
    pub problems: Vec<String>,
}

impl Latency {
    /// Whether the other one measures the same.
    #[must_use]
    pub fn is_again(&self, other: &Latency) -> bool {
        let key = |one: &Latency| {
            let rate = one.rate_per_s.map(f64::to_bits);
            (one.workload, one.contender, one.situation, rate, one.together)
        };
        key(self) == key(other)
    }
}

/// What is to be measured.
pub struct Task<'a> {
    /// The workload.
    pub workload: Workload,
    /// The contender.
    pub contender: Contender,
    /// The situation.
    pub situation: Situation,
    /// When they arrive; not for one at a time.
    pub arrivals: Option<Arrivals>,
    /// Transfers at once, or in a batch, of a baseline.
    pub size: usize,
    /// The workers.
    pub crew: &'a Crew,
    /// The most ids of a message; as the library has it, if none.
    pub ids_per_message: Option<NonZeroUsize>,
}

/// The observations.
pub struct Seen {
    /// For each observed transfer, its number and how long it took.
    pub latencies: Vec<(usize, Duration)>,
    /// From the first submission to the last end.
    pub elapsed: Duration,
}

impl Task<'_> {
    /// Measures on a fresh field, and audits it.
    ///
    /// # Errors
    /// Why there is no figure.
    pub async fn run(&self, field: &Field, mut load: Load) -> Result<Latency, String> {
        let total = load.transfers.len();
        load.mark_samples(total.div_ceil(SAMPLES_MAX));
        let load = Arc::new(load);
        let (seen, mut problems);
        match self.contender.kind() {
            Kind::Baseline(baseline) => {
                seen = self.baseline(field, baseline, &load).await?;
                problems = field.problems(&load.books(total)).await;
            }
            Kind::Tandem { .. } => {
                seen = self.tandem(field, &load).await?;
                problems = field.problems(&load.books(total)).await;
                problems.extend(tandem::audit(field, total).await.err());
            }
        }
        problems.truncate(10);
        Ok(self.put_together(total, seen, problems))
    }

    async fn baseline(
        &self,
        field: &Field,
        baseline: Baseline,
        load: &Arc<Load>,
    ) -> Result<Seen, String> {
        let driver = |error: mongodb::error::Error| format!("{}: {error}", self.contender.name());
        baseline::prepare(field, baseline, load.accounts).await.map_err(driver)?;
        field.settle_down().await;
        let driven = match self.arrivals {
            Some(arrivals) => {
                let pace = Pace::Schedule(arrivals);
                baseline::drive(field, baseline, self.size, load, pace).await
            }
            None => baseline::one_by_one(field, baseline, load, pause).await,
        };
        let driven = driven.map_err(driver)?;
        Ok(Seen { latencies: driven.latencies, elapsed: driven.elapsed })
    }

    async fn tandem(&self, field: &Field, load: &Arc<Load>) -> Result<Seen, String> {
        tandem::prepare(field, load.accounts).await;
        let mut workers = self.contender.crew(self.crew).start(field).await;
        let submitter = Submitter::new(field, self.ids_per_message).await?;
        let mut watcher = Watcher::open(field).await?;
        field.settle_down().await;
        let seen = match self.arrivals {
            Some(arrivals) => submitter.on_schedule(load, arrivals, &mut watcher).await?,
            None => submitter.one_by_one(load, &mut watcher, pause).await?,
        };
        workers.wait_settled(load.transfers.len() as u64).await?;
        submitter.close().await;
        workers.stop().await;
        Ok(seen)
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of samples is small")]
    fn put_together(&self, transfers: usize, seen: Seen, problems: Vec<String>) -> Latency {
        let at_a_rate = self.situation == Situation::Rate;
        let schedule = self.arrivals.map_or(Duration::ZERO, |arrivals| arrivals.at(transfers));
        let kept_up = !at_a_rate || keeps_up(&seen.latencies, transfers, schedule);
        let first = if at_a_rate { transfers / UNCOUNTED_ONE_IN } else { 0 };
        let counted = from(&seen.latencies, first);
        let ms = |latency: Duration| latency.as_secs_f64() * 1_000.0;
        let at = |percent| percentile(&counted, percent).map_or(0.0, ms);
        let sum: f64 = counted.iter().copied().map(ms).sum();
        Latency {
            workload: self.workload,
            contender: self.contender,
            situation: self.situation,
            rate_per_s: self.arrivals.map(|arrivals| arrivals.per_s),
            together: self.arrivals.map_or(1, |arrivals| arrivals.together),
            kept_up,
            transfers,
            seconds: seen.elapsed.as_secs_f64(),
            samples: counted.len(),
            mean_ms: sum / counted.len().max(1) as f64,
            p50_ms: at(50),
            p75_ms: at(75),
            p95_ms: at(95),
            p99_ms: at(99),
            max_ms: at(100),
            problems,
        }
    }
}

/// How long the transfers from this number on took, sorted.
fn from(latencies: &[(usize, Duration)], first: usize) -> Vec<Duration> {
    let counted = latencies.iter().filter(|(number, _)| *number >= first);
    let mut counted: Vec<Duration> = counted.map(|(_, latency)| *latency).collect();
    counted.sort_unstable();
    counted
}

/// Whether a contender settles as many as arrive: otherwise the last ones of a schedule take longer
/// than the schedule allows for.
fn keeps_up(latencies: &[(usize, Duration)], transfers: usize, schedule: Duration) -> bool {
    let late = from(latencies, transfers - transfers / LATE_ONE_IN);
    let behind = percentile(&late, 50).unwrap_or(Duration::MAX);
    behind <= (schedule / BEHIND_ONE_IN).max(BEHIND_AT_LEAST)
}

async fn pause() {
    let pause = rand::random_range(PAUSE_MS);
    tokio::time::sleep(Duration::from_millis(pause)).await;
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Latencies of `p50` and ten times that at a rate.
    pub fn at_rate(
        contender: Contender,
        workload: Workload,
        (per_s, together): (f64, usize),
        p50_ms: f64,
    ) -> Latency {
        Latency {
            workload,
            contender,
            situation: Situation::Rate,
            rate_per_s: Some(per_s),
            together,
            kept_up: true,
            transfers: 1_000,
            seconds: 1.0,
            samples: 1_000,
            mean_ms: p50_ms,
            p50_ms,
            p75_ms: p50_ms,
            p95_ms: p50_ms * 5.0,
            p99_ms: p50_ms * 10.0,
            max_ms: p50_ms * 20.0,
            problems: Vec::new(),
        }
    }

    /// What a contender shows that settles at this rate while 1,000 arrive each second for ten.
    fn served(per_s: u64) -> Vec<(usize, Duration)> {
        let end = |number: u64| {
            Duration::from_millis(20) + Duration::from_micros(number * 1_000_000 / per_s)
        };
        let arrival = |number: u64| Duration::from_millis(number);
        let latency =
            |number| end(number).saturating_sub(arrival(number)).max(Duration::from_millis(20));
        (0..10_000_u64).map(|number| (number as usize, latency(number))).collect()
    }

    #[test]
    fn who_settles_less_than_arrives_does_not_keep_up() {
        let schedule = Duration::from_secs(10);
        for (per_s, kept_up) in
            [(2_000, true), (1_000, true), (960, true), (900, false), (500, false)]
        {
            assert_eq!(keeps_up(&served(per_s), 10_000, schedule), kept_up, "{per_s}/s");
        }
        assert!(!keeps_up(&[], 10_000, schedule), "nobody was seen");
    }

    #[test]
    fn a_stall_in_the_middle_is_no_falling_behind() {
        let mut latencies = served(2_000);
        latencies[4_000..6_000]
            .iter_mut()
            .for_each(|(_, latency)| *latency += Duration::from_secs(2));
        assert!(keeps_up(&latencies, 10_000, Duration::from_secs(10)));
    }
}
