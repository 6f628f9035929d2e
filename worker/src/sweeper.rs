//! The sweeper: publishes ids that should be on the queue and may not be.
//!
//! Owns the recovery of what nobody has a message for: `initial` documents whose producer died
//! before publishing, transactions in flight whose owner is gone together with the message, native
//! transactions that a dead worker has left open. Runs
//! in every worker, jittered; several at once only publish an id twice. Promises not to flood the
//! queue with ids that merely wait in a backlog. Fails quietly: the next round tries again.

use std::sync::Arc;
use std::time::Duration;

use common::ledger::{LedgerError, ServerMs};
use common::message::Message;
use common::mongo::{MongoOutbox, Store, Stranded};
use common::queue::{Outgoing, Publisher, QueueError, WORK};
use common::retry::jitter;

use crate::metrics::Metrics;
use crate::stop::Stop;

/// The most ids of one round and kind: what is left waits for the next.
const IDS_PER_ROUND: usize = 5_000;
const IDS_PER_MESSAGE: usize = 100;

/// How long past its takeover time a transaction is left to its own message.
const IN_FLIGHT_SLACK_MS: i64 = 1_000;

/// How long what was swept is left alone.
const SWEEP_AGAIN_MS: i64 = 30_000;

/// How the sweeper goes about it.
#[derive(Clone, Copy, Debug)]
pub struct SweeperSettings {
    /// The mean time between rounds.
    pub every: Duration,
    /// How old an `initial` document is before it may have been forgotten.
    pub orphan_ms: i64,
}

/// See the module.
pub struct Sweeper {
    /// Whose clock counts.
    pub store: Store,
    /// Where the stranded are.
    pub outbox: MongoOutbox,
    /// Where they go.
    pub publisher: Arc<Publisher>,
    /// Counts them.
    pub metrics: Arc<Metrics>,
    /// How to go about it.
    pub settings: SweeperSettings,
}

#[derive(Debug, thiserror::Error)]
enum SweepError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl Sweeper {
    /// Sweeps until `stop`. `newest_claimed` tells how far the queue's head has come.
    pub async fn run(self, newest_claimed: impl Fn() -> ServerMs, mut stop: Stop) {
        loop {
            let wait = self.settings.every.mul_f64(0.5 + jitter());
            if !stop.not_for(wait).await {
                return;
            }
            if let Err(error) = self.round(newest_claimed()).await {
                tracing::debug!(%error, "sweeping later");
            }
        }
    }

    async fn round(&self, newest_claimed: ServerMs) -> Result<(), SweepError> {
        self.end_abandoned().await;
        let now = self.store.server_now().await?;
        let takeover_before = now - IN_FLIGHT_SLACK_MS;
        self.sweep(Stranded::InFlight { takeover_before }, "in_flight", now).await?;
        let depth = self.publisher.depth(WORK).await?;
        let created_before = horizon(now, depth, newest_claimed, self.settings.orphan_ms);
        self.sweep(Stranded::Unclaimed { created_before }, "unclaimed", now).await
    }

    /// First, since nobody can write what an abandoned transaction holds.
    async fn end_abandoned(&self) {
        match self.store.end_abandoned().await {
            Ok(0) => {}
            Ok(ended) => tracing::info!(ended, "ended native transactions whose worker is gone"),
            Err(error) => tracing::debug!(%error, "abandoned transactions have to run out"),
        }
    }

    async fn sweep(&self, which: Stranded, kind: &str, now: ServerMs) -> Result<(), SweepError> {
        let ids = self.outbox.stranded(which, now, IDS_PER_ROUND).await?;
        if ids.is_empty() {
            return Ok(());
        }
        let messages: Vec<_> =
            Message::chunked(&ids, IDS_PER_MESSAGE).map(|m| Outgoing::work(&m)).collect();
        self.publisher.publish(&messages).await?;
        self.outbox.stamp(&ids, now + SWEEP_AGAIN_MS).await?;
        self.metrics.swept.with_label_values(&[kind]).inc_by(ids.len() as u64);
        tracing::info!(kind, transactions = ids.len(), "published what nobody had a message for");
        Ok(())
    }
}

/// Created before this moment and still `initial` means forgotten. The queue is first in, first
/// out: while messages wait, only what is well older than what is being claimed now has been
/// passed over; when none waits, age alone tells.
fn horizon(now: ServerMs, depth: u32, newest_claimed: ServerMs, orphan_ms: i64) -> ServerMs {
    let head = if depth == 0 { now } else { newest_claimed };
    head - orphan_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_not_swept() {
        let (now, orphan) = (1_000_000, 30_000);
        assert_eq!(horizon(now, 0, 0, orphan), 970_000, "an empty queue: age alone tells");
        assert_eq!(horizon(now, 5, 400_000, orphan), 370_000, "only what was passed over");
        assert!(horizon(now, 5, 0, orphan) < 0, "nothing claimed yet: nothing was passed over");
    }
}
