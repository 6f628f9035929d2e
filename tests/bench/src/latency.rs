//! The time from submission to `applied`: at half of a contender's own full rate, one transfer at a
//! time on an idle system, and in the schema-design book's scenario.
//!
//! A transfer counts as submitted when it was due. Tandem's end is observed by a change stream, so
//! the time until the client learns of it is included; a baseline's ends with its call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::figures::percentile;
use producer::{Client, Config, Submission};
use serde::Serialize;

use super::baseline::{self, Baseline};
use super::contender::{Contender, Kind};
use super::feed::{Feed, Pace};
use super::field::Field;
use super::tandem::{self, Crew};
use super::watch::Watcher;
use super::workload::{Load, Transfer, Workload};

/// Tasks that submit at the same time, each with the transfers that have gathered meanwhile.
const SUBMITTERS: usize = 2;
/// The most transfers that one of these tasks submits together.
const SUBMIT_MAX: usize = 1_000;
/// At most about so many transfers of a run are watched.
const SAMPLES_MAX: usize = 5_000;
/// A transfer that takes longer is an error.
const LIMIT: Duration = Duration::from_secs(60);
/// The pause between two single transfers, in milliseconds. It varies, so that it does not keep
/// step with anything.
const PAUSE_MS: std::ops::Range<u64> = 20..40;

/// The situation that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Situation {
    /// At half of the contender's full rate.
    Half,
    /// One at a time.
    Idle,
    /// In the book's scenario.
    Book,
}

/// How long transfers took.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// The workload's name.
    pub workload: Workload,
    /// The contender's.
    pub contender: Contender,
    /// The situation.
    pub situation: Situation,
    /// Transfers submitted a second; none when one waited for the other.
    pub rate_per_s: Option<f64>,
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

/// What is to be measured.
pub struct Task<'a> {
    /// The workload.
    pub workload: Workload,
    /// The contender.
    pub contender: Contender,
    /// The situation.
    pub situation: Situation,
    /// Transfers a second; not for one at a time.
    pub rate: Option<f64>,
    /// Transfers at once, or in a batch, of a baseline.
    pub size: usize,
    /// The workers.
    pub crew: &'a Crew,
}

/// The observations.
struct Seen {
    latencies: Vec<Duration>,
    elapsed: Duration,
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
                problems = field.problems(&load, total).await;
            }
            Kind::Tandem { .. } => {
                seen = self.tandem(field, &load).await?;
                problems = field.problems(&load, total).await;
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
        let driven = match self.rate {
            Some(rate) => baseline::drive(field, baseline, self.size, load, Pace::Rate(rate)).await,
            None => baseline::one_by_one(field, baseline, load, pause).await,
        };
        let driven = driven.map_err(driver)?;
        Ok(Seen { latencies: driven.latencies, elapsed: driven.elapsed })
    }

    async fn tandem(&self, field: &Field, load: &Arc<Load>) -> Result<Seen, String> {
        tandem::prepare(field, load.accounts).await;
        let mut workers = self.contender.crew(self.crew).start(field).await;
        let client = client(field);
        let ready = async {
            client.ensure_schema().await?;
            client.ensure_queue().await
        };
        ready.await.map_err(|error| error.to_string())?;
        let mut watcher = Watcher::open(field).await?;
        field.settle_down().await;
        let seen = match self.rate {
            Some(rate) => at_rate(&client, load, rate, &mut watcher).await?,
            None => one_by_one(&client, load, &mut watcher).await?,
        };
        workers.wait_settled(load.transfers.len() as u64).await?;
        client.close().await;
        workers.stop().await;
        Ok(seen)
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of samples is small")]
    fn put_together(&self, transfers: usize, mut seen: Seen, problems: Vec<String>) -> Latency {
        seen.latencies.sort_unstable();
        let ms = |latency: Duration| latency.as_secs_f64() * 1_000.0;
        let at = |percent| percentile(&seen.latencies, percent).map_or(0.0, ms);
        let sum: f64 = seen.latencies.iter().copied().map(ms).sum();
        Latency {
            workload: self.workload,
            contender: self.contender,
            situation: self.situation,
            rate_per_s: self.rate,
            transfers,
            seconds: seen.elapsed.as_secs_f64(),
            samples: seen.latencies.len(),
            mean_ms: sum / seen.latencies.len().max(1) as f64,
            p50_ms: at(50),
            p75_ms: at(75),
            p95_ms: at(95),
            p99_ms: at(99),
            max_ms: at(100),
            problems,
        }
    }
}

/// The producer's side of a field.
fn client(field: &Field) -> Client {
    let servers = &field.world.servers;
    let config = Config::new(&servers.mongodb_uri, &servers.amqp_url)
        .database(&field.world.name)
        .queue_prefix(&field.world.name)
        .name("bench");
    Client::over(field.world.store.clone(), &config)
}

/// Submits each transfer when it is due, as soon as a task is free, and observes.
async fn at_rate(
    client: &Client,
    load: &Arc<Load>,
    rate: f64,
    watcher: &mut Watcher,
) -> Result<Seen, String> {
    let feed = Arc::new(Feed::start(load.transfers.len(), Pace::Rate(rate)));
    let submitters: Vec<_> = (0..SUBMITTERS)
        .map(|_| tokio::spawn(submit_due(client.clone(), load.clone(), feed.clone())))
        .collect();
    let mut awaited: HashMap<&str, usize> = HashMap::new();
    for (index, transfer) in load.transfers.iter().enumerate() {
        if transfer.id.starts_with(super::workload::SAMPLE) {
            awaited.insert(&transfer.id, index);
        }
    }
    let mut latencies = Vec::with_capacity(awaited.len());
    let mut last = feed.begun();
    while !awaited.is_empty() {
        let Some((id, seen)) = watcher.next(LIMIT).await else {
            return Err(format!("{} transfers were not seen applied", awaited.len()));
        };
        if let Some(index) = awaited.remove(id.as_str()) {
            latencies.push(seen.saturating_duration_since(feed.due(index)));
            last = seen;
        }
    }
    for submitter in submitters {
        submitter.await.map_err(|panic| panic.to_string())??;
    }
    Ok(Seen { latencies, elapsed: last - feed.begun() })
}

async fn submit_due(client: Client, load: Arc<Load>, feed: Arc<Feed>) -> Result<(), String> {
    while let Some(due) = feed.take(SUBMIT_MAX).await {
        submit(&client, &load.transfers[due]).await?;
    }
    Ok(())
}

async fn submit(client: &Client, transfers: &[Transfer]) -> Result<(), String> {
    let submission =
        |transfer: &Transfer| Submission::of(transfer.body()).with_id(transfer.id.as_str());
    for submitted in client.submit_all(transfers.iter().map(submission)).await {
        let receipt = submitted.map_err(|error| error.to_string())?;
        if let Some(error) = receipt.unpublished {
            return Err(error.to_string());
        }
        if let Some(state) = receipt.known {
            return Err(format!("a new transfer is known, and {state}"));
        }
    }
    Ok(())
}

/// Submits a transfer, waits until it is applied, pauses, and so on.
async fn one_by_one(client: &Client, load: &Load, watcher: &mut Watcher) -> Result<Seen, String> {
    let begun = Instant::now();
    let mut latencies = Vec::new();
    for transfer in &load.transfers {
        pause().await;
        let submitted = Instant::now();
        submit(client, std::slice::from_ref(transfer)).await?;
        loop {
            let Some((id, seen)) = watcher.next(LIMIT).await else {
                return Err(format!("{} was not seen applied", transfer.id));
            };
            if id == transfer.id {
                latencies.push(seen.saturating_duration_since(submitted));
                break;
            }
        }
    }
    Ok(Seen { latencies, elapsed: begun.elapsed() })
}

async fn pause() {
    let pause = rand::random_range(PAUSE_MS);
    tokio::time::sleep(Duration::from_millis(pause)).await;
}
