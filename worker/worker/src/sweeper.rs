//! The sweeper: publishes ids that should be on the queue and may not be.
//!
//! Owns the recovery of what nobody has a message for: `initial` documents whose producer died
//! before publishing, transactions in flight whose owner is gone together with the message, native
//! transactions that a dead worker has left open. Runs in every worker, jittered; several at once
//! only publish an id twice. Promises not to flood the queue with ids that merely wait in a
//! backlog, and to find what was forgotten even if the queue never empties.
//!
//! How it tells the two apart: the queue is first in, first out, so it publishes a *marker*. When
//! the marker is delivered, to whichever worker, all that was published before it has been
//! delivered, too; what was created well before the marker and is still `initial` has no message.
//! Only the database's clock counts, and no date that somebody has written into a document. Stamps
//! what it finds before it publishes it, so that a document that can't be written is not published
//! in every round. Fails quietly while a server is away: the next round tries again. What fails for
//! good is a warning, and keeps no other kind from being swept.
//!
//! Documents dated in the future are published a few at a time. Those with an odd date (none, of
//! another type, or days ahead) are looked for in every eighth round only, because that query reads
//! all index entries of transactions that have left the state and that the server has not removed
//! yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use engine::Observer;
use ledger::message::Message;
use ledger::retry::jitter;
use ledger::{LedgerError, ServerMs};
use mongo::{MongoOutbox, NoDate, Store, Stranded, Swept};
use queue::{Outgoing, Publisher, QueueError, WORK};
use tokio_util::sync::CancellationToken;

use crate::components::pause;
use crate::events::Events;
use crate::metrics::Metrics;

/// The most ids of one round and kind: what is left waits for the next.
const IDS_PER_ROUND: usize = 5_000;
pub(crate) const IDS_PER_MESSAGE: usize = 100;

/// How many are stamped with one command, well within its time limit.
const IDS_PER_STAMP: usize = 500;

/// In one of so many rounds the sweeper looks for what is odd, too. Each look goes through all
/// index entries of the beginning of a queue that have gone, which costs a busy server some
/// milliseconds.
const ODD_ROUNDS: u64 = 8;

/// The most ids of one round whose documents are dated in the future, or not at all: nobody knows
/// how long they have been there, and they may be part of a backlog.
const ODD_IDS_PER_ROUND: usize = 100;

/// By how much a producer's clock may be ahead before a document's date says nothing.
const FUTURE_MS: i64 = 60_000;

/// How long past its takeover time a transaction is left to its own message.
const IN_FLIGHT_SLACK_MS: i64 = 1_000;

/// How long what was swept is left alone.
pub(crate) const SWEEP_AGAIN_MS: i64 = 30_000;

/// How the sweeper goes about it.
#[derive(Clone, Copy, Debug)]
pub struct SweeperSettings {
    /// The mean time between rounds.
    pub every: Duration,
    /// How old an `initial` document is before it may have been forgotten.
    pub orphan_ms: i64,
}

/// What one sweeper needs.
pub struct Sweeper {
    /// The database. Its clock decides what is due.
    pub store: Store,
    /// Finds transactions that no message stands for any more.
    pub outbox: MongoOutbox,
    /// Where they go.
    pub publisher: Arc<Publisher>,
    /// Publishes events that are due, if the ledger has events.
    pub events: Option<Arc<Events>>,
    /// Counts them.
    pub metrics: Arc<Metrics>,
    /// How to go about it.
    pub settings: SweeperSettings,
}

/// Why a round could not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SweepError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl SweepError {
    /// A failure that passes is nothing to tell: others tell that a server is away.
    pub(crate) fn log(&self, kind: &str) {
        let lasts = match self {
            SweepError::Ledger(error) => !error.passes(),
            SweepError::Queue(error) => error.lasts(),
        };
        match lasts {
            true => tracing::warn!(error = %self, kind, "can't sweep: what was forgotten stays so"),
            false => tracing::debug!(error = %self, kind, "sweeping later"),
        }
    }
}

/// What the markers say about the queue.
#[derive(Debug, Default)]
struct Passage {
    /// When this sweeper has published its last marker.
    published: ServerMs,
    /// Markers that have come through, and when that was seen.
    came: VecDeque<(ServerMs, ServerMs)>,
    /// The newest marker that came through long enough ago.
    passed: ServerMs,
}

impl Passage {
    /// Whether another marker is due.
    fn is_due(&self, now: ServerMs, orphan_ms: i64) -> bool {
        // After a fail-over the clock may be behind.
        now - self.published >= orphan_ms / 2 || now < self.published
    }

    /// Takes in the markers that have come through since the last round. The newest counts after a
    /// while: what was delivered before it may still wait in another worker for its turn.
    fn take_in(&mut self, markers: &[ServerMs], now: ServerMs, orphan_ms: i64) {
        // A marker from the future comes from a stranger, or from a server whose clock was ahead.
        let newest = markers.iter().copied().filter(|marker| *marker <= now).max();
        if let Some(newest) = newest
            && newest > self.passed
            && self.came.back().is_none_or(|(last, _)| newest > *last)
        {
            self.came.push_back((newest, now));
        }
        while let Some((marker, seen)) = self.came.front().copied()
            && now - seen >= orphan_ms / 4
        {
            self.passed = marker;
            self.came.pop_front();
        }
    }
}

/// Created before this moment and still `initial` means forgotten. While messages wait, only what
/// is well older than the newest marker that came through has been passed over; when none waits,
/// age alone tells.
fn horizon(now: ServerMs, depth: u32, passed: ServerMs, orphan_ms: i64) -> ServerMs {
    let head = if depth == 0 { now } else { passed };
    head - orphan_ms
}

/// What a sweeper has published waits in the queue like all else, however long ago it was created.
/// So its stamp counts until what was created as it was published would count as forgotten.
fn stamped_before(now: ServerMs, created_before: ServerMs) -> ServerMs {
    now.min(created_before.saturating_add(SWEEP_AGAIN_MS))
}

impl Sweeper {
    /// Sweeps until `stop`. `markers` tells which have come through the queue since it was last
    /// asked.
    pub async fn run(self, markers: impl Fn() -> Vec<ServerMs>, stop: CancellationToken) {
        let mut passage = Passage::default();
        for number in 0_u64.. {
            let wait = self.settings.every.mul_f64(0.5 + jitter());
            if !pause(&stop, wait).await {
                return;
            }
            if let Err(error) = self.round(&mut passage, &markers()).await {
                error.log("all");
            }
            if number % ODD_ROUNDS == 0
                && let Err(error) = self.odd_round().await
            {
                error.log("odd");
            }
            // Last, since many may be due, and money comes first.
            if let Err(error) = self.sweep_events().await {
                error.log("events");
            }
        }
    }

    async fn round(&self, passage: &mut Passage, markers: &[ServerMs]) -> Result<(), SweepError> {
        self.end_abandoned().await;
        let now = self.store.server_now().await?;
        let takeover_before = now - IN_FLIGHT_SLACK_MS;
        let in_flight = Stranded::InFlight { takeover_before };
        self.sweep(in_flight, "in_flight", now, IDS_PER_ROUND).await;

        let orphan_ms = self.settings.orphan_ms;
        let depth = self.publisher.depth(WORK).await?;
        passage.take_in(markers, now, orphan_ms);
        if depth > 0 && passage.is_due(now, orphan_ms) {
            self.publisher.publish(&[Outgoing::work(&Message::marker(now))]).await?;
            passage.published = now;
        }
        let created_before = horizon(now, depth, passage.passed, orphan_ms);
        let unclaimed = Stranded::Unclaimed { created_before };
        let stamped_before = stamped_before(now, created_before);
        self.sweep_stamped(unclaimed, "unclaimed", (now, stamped_before), IDS_PER_ROUND).await;
        Ok(())
    }

    /// What neither a producer nor a worker writes.
    async fn odd_round(&self) -> Result<(), SweepError> {
        let now = self.store.server_now().await?;
        let future = Stranded::FromTheFuture { created_after: now + FUTURE_MS };
        self.sweep(future, "unclaimed", now, ODD_IDS_PER_ROUND).await;
        self.sweep(Stranded::FarAhead { now }, "in_flight", now, ODD_IDS_PER_ROUND).await;
        for no_date in [NoDate::Nothing, NoDate::OtherType] {
            self.sweep(Stranded::Undated(no_date), "unclaimed", now, ODD_IDS_PER_ROUND).await;
            self.sweep(Stranded::Timeless(no_date), "in_flight", now, ODD_IDS_PER_ROUND).await;
        }
        Ok(())
    }

    /// First, since nobody can write what an abandoned transaction holds.
    async fn end_abandoned(&self) {
        match self.store.end_abandoned().await {
            Ok(0) => {}
            Ok(ended) => tracing::info!(ended, "ended native transactions whose worker is gone"),
            Err(error) => tracing::debug!(%error, "abandoned transactions have to run out"),
        }
    }

    /// Publishes events that nobody has confirmed.
    async fn sweep_events(&self) -> Result<(), SweepError> {
        let Some(events) = &self.events else { return Ok(()) };
        let count = events.sweep().await?;
        if count > 0 {
            tracing::info!(events = count, "published events that were due");
        }
        Ok(())
    }

    /// Sweeps one kind. Its failure says nothing about the others.
    async fn sweep(&self, which: Stranded, kind: &str, now: ServerMs, most: usize) {
        self.sweep_stamped(which, kind, (now, now), most).await;
    }

    /// The same, for what no stamp keeps away after the second of these moments.
    async fn sweep_stamped(
        &self,
        which: Stranded,
        kind: &str,
        moments: (ServerMs, ServerMs),
        most: usize,
    ) {
        if let Err(error) = self.try_sweep(which, kind, moments, most).await {
            error.log(kind);
        }
    }

    async fn try_sweep(
        &self,
        which: Stranded,
        kind: &str,
        (now, stamped_before): (ServerMs, ServerMs),
        most: usize,
    ) -> Result<(), SweepError> {
        let Swept { ids, parked } = self.outbox.stranded(which, stamped_before, most).await?;
        if let Some((count, code)) = parked {
            (0..count).for_each(|_| self.metrics.parked(code));
        }
        if ids.is_empty() {
            return Ok(());
        }
        for ids in ids.chunks(IDS_PER_STAMP) {
            self.outbox.stamp(ids, now + SWEEP_AGAIN_MS).await?;
            let messages: Vec<_> =
                Message::chunked(ids, IDS_PER_MESSAGE).map(|m| Outgoing::work(&m)).collect();
            self.publisher.publish(&messages).await?;
            self.metrics.swept.with_label_values(&[kind]).inc_by(ids.len() as u64);
        }
        tracing::info!(kind, transactions = ids.len(), "published what nobody had a message for");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_not_swept() {
        let (now, orphan) = (1_000_000, 30_000);
        assert_eq!(horizon(now, 0, 0, orphan), 970_000, "an empty queue: age alone tells");
        assert_eq!(horizon(now, 5, 400_000, orphan), 370_000, "only what was passed over");
        assert!(horizon(now, 5, 0, orphan) < 0, "no marker has come through: nothing is known");
    }

    #[test]
    fn what_was_published_again_is_not_swept_while_it_waits_in_a_backlog() {
        let (now, orphan) = (1_000_000, 30_000);
        let published = 420_000;
        let stamp = published + SWEEP_AGAIN_MS;
        let is_swept =
            |depth, passed| stamp <= stamped_before(now, horizon(now, depth, passed, orphan));
        assert!(!is_swept(5, published), "the marker came through before it");
        assert!(is_swept(5, published + orphan), "it was passed over");
        assert!(is_swept(0, 0), "nothing waits, so it has no message");
        assert_eq!(stamped_before(now, now), now, "a stamp of the future always counts");
    }

    #[test]
    fn a_marker_counts_a_while_after_it_came_and_never_from_the_future() {
        let mut passage = Passage::default();
        passage.take_in(&[1_000], 2_000, 400);
        assert_eq!(passage.passed, 0);
        passage.take_in(&[1_050], 2_099, 400);
        assert_eq!(passage.passed, 0);
        passage.take_in(&[1_050], 2_100, 400);
        assert_eq!(passage.passed, 1_000);
        passage.take_in(&[i64::MAX, 2_500], 3_000, 400);
        passage.take_in(&[i64::MAX], 9_000, 400);
        assert_eq!(
            passage.passed, 2_500,
            "a marker from the future says nothing, nor hides others"
        );
    }

    #[test]
    fn markers_are_published_twice_in_the_age_of_the_forgotten() {
        let passage = Passage { published: 1_000, ..Passage::default() };
        assert!(!passage.is_due(1_499, 1_000) && passage.is_due(1_500, 1_000));
        assert!(passage.is_due(999, 1_000), "the clock went back");
    }
}
