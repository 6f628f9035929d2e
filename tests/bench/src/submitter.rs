//! The producer's side of a latency: the library as a service uses it, and who observes the ends.
//!
//! Promises an open loop: each arrival is submitted at its moment by a task of its own, however
//! long those before it take, so a slow contender does not slow its load. Fails when a submission
//! is not accepted, or a transfer's end is not seen for a minute.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Client, Config, Submission};
use tokio::task::{JoinError, JoinSet};

use super::feed::Arrivals;
use super::field::Field;
use super::latency::Seen;
use super::names::Names;
use super::watch::Watcher;
use super::workload::{Load, SAMPLE, Transfer};

/// A transfer that takes longer is an error.
const LIMIT: Duration = Duration::from_secs(60);

/// Who submits.
#[derive(Clone)]
pub struct Submitter {
    client: Client,
    names: Names,
}

impl Submitter {
    /// With at most so many ids in a message, or as many as the library puts there by itself;
    /// everything that a submission needs is there already.
    ///
    /// # Errors
    /// When a server is away.
    pub async fn new(
        field: &Field,
        ids_per_message: Option<NonZeroUsize>,
    ) -> Result<Submitter, String> {
        let servers = &field.world.servers;
        let mut config = Config::new(&servers.mongodb_uri, &servers.amqp_url)
            .database(&field.world.name)
            .queue_prefix(&field.world.name)
            .name("bench");
        if let Some(ids) = ids_per_message {
            config = config.ids_per_message(ids.get());
        }
        let client = Client::over(field.world.store.clone(), &config);
        let ready = async {
            client.ensure_schema().await?;
            client.ensure_queue().await
        };
        ready.await.map_err(|error| error.to_string())?;
        Ok(Submitter { client, names: field.names })
    }

    /// Submits each transfer when it arrives, and observes.
    ///
    /// # Errors
    /// When a submission is not accepted, or an end not seen.
    pub async fn on_schedule(
        &self,
        load: &Arc<Load>,
        arrivals: Arrivals,
        watcher: &mut Watcher,
    ) -> Result<Seen, String> {
        let begun = Instant::now();
        let submitting = tokio::spawn(self.clone().submit_all(load.clone(), arrivals, begun));
        let mut awaited: HashMap<String, usize> = HashMap::new();
        for (number, transfer) in load.transfers.iter().enumerate() {
            if transfer.id.starts_with(SAMPLE) {
                awaited.insert(self.names.transfer(&transfer.id), number);
            }
        }
        let mut latencies = Vec::with_capacity(awaited.len());
        let mut last = begun;
        while !awaited.is_empty() {
            let Some((id, seen)) = watcher.next(LIMIT).await else {
                return Err(format!("{} transfers were not seen applied", awaited.len()));
            };
            if let Some(number) = awaited.remove(id.as_str()) {
                let due = begun + arrivals.at(number);
                latencies.push((number, seen.saturating_duration_since(due)));
                last = seen;
            }
        }
        submitting.await.map_err(|panic| panic.to_string())??;
        Ok(Seen { latencies, elapsed: last - begun })
    }

    /// Submits a transfer, waits until it is applied, pauses, and so on.
    ///
    /// # Errors
    /// When a submission is not accepted, or an end not seen.
    pub async fn one_by_one(
        &self,
        load: &Load,
        watcher: &mut Watcher,
        pause: impl AsyncFn(),
    ) -> Result<Seen, String> {
        let begun = Instant::now();
        let mut latencies = Vec::new();
        for (number, transfer) in load.transfers.iter().enumerate() {
            pause().await;
            let awaited = self.names.transfer(&transfer.id);
            let submitted = Instant::now();
            self.submit(std::slice::from_ref(transfer)).await?;
            loop {
                let Some((id, seen)) = watcher.next(LIMIT).await else {
                    return Err(format!("{} was not seen applied", transfer.id));
                };
                if id == awaited {
                    latencies.push((number, seen.saturating_duration_since(submitted)));
                    break;
                }
            }
        }
        Ok(Seen { latencies, elapsed: begun.elapsed() })
    }

    /// Closes what it has opened.
    pub async fn close(&self) {
        self.client.close().await;
    }

    async fn submit_all(
        self,
        load: Arc<Load>,
        arrivals: Arrivals,
        begun: Instant,
    ) -> Result<(), String> {
        let total = load.transfers.len();
        let mut submitting = JoinSet::new();
        for first in (0..total).step_by(arrivals.together) {
            tokio::time::sleep_until((begun + arrivals.at(first)).into()).await;
            let arrived = first..total.min(first + arrivals.together);
            submitting.spawn(self.clone().submit_arrived(load.clone(), arrived));
            // Those that have ended are forgotten as the load goes on.
            while let Some(submitted) = submitting.try_join_next() {
                accepted(submitted)?;
            }
        }
        while let Some(submitted) = submitting.join_next().await {
            accepted(submitted)?;
        }
        Ok(())
    }

    async fn submit_arrived(self, load: Arc<Load>, arrived: Range<usize>) -> Result<(), String> {
        self.submit(&load.transfers[arrived]).await
    }

    async fn submit(&self, transfers: &[Transfer]) -> Result<(), String> {
        let submission = |transfer: &Transfer| {
            let id = self.names.transfer(&transfer.id);
            Submission::of(transfer.body(self.names)).with_id(id.as_str())
        };
        for submitted in self.client.submit_all(transfers.iter().map(submission)).await {
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
}

fn accepted(submitted: Result<Result<(), String>, JoinError>) -> Result<(), String> {
    submitted.map_err(|panic| panic.to_string())?
}
