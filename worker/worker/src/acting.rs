//! Doing what a sweeper has decided: stamping, publishing, parking.
//!
//! Owns the order: a document is stamped first, and published after that, so that one that is
//! published and not done comes back when its stamp has come, and one whose publication fails does,
//! too. What can't be stamped is noted as parked, and not published. Promises that all of it is
//! durable when it succeeds. Fails when a server is away; doing it again is harmless.

use engine::Observer;
use ledger::message::Message;
use ledger::transaction::{ParkCode, State, TransactionId};
use mongo::{Open, RawId, Swept};
use queue::{Outgoing, Publisher};

use crate::metrics::Metrics;
use crate::sweeper::{SWEEP_AGAIN_MS, SweepError, Sweeper};
use crate::walker::{Fate, Moments};

const IDS_PER_MESSAGE: usize = 100;

/// How many are stamped with one command, well within its time limit.
const IDS_PER_STAMP: usize = 500;

impl Sweeper {
    /// Does what was decided. When this succeeds, all of it is durable.
    pub(crate) async fn act(
        &self,
        judged: Vec<(Open, Fate)>,
        at: &Moments,
    ) -> Result<(), SweepError> {
        let chosen = |wanted: &dyn Fn(&Open, Fate) -> bool| -> Vec<RawId> {
            let chosen = judged.iter().filter(|(open, fate)| wanted(open, *fate));
            chosen.map(|(open, _)| open.id.clone()).collect()
        };
        let waits = |open: &Open| open.state == State::Initial;
        let is_held = |open: &Open| open.state == State::Held;
        let taken = chosen(&|open, fate| fate == Fate::Publish && !waits(open));
        self.publish(taken, "in_flight", at).await?;
        let waiting = chosen(&|open, fate| fate == Fate::Publish && waits(open));
        self.publish(waiting, "unclaimed", at).await?;
        let later = self.names(chosen(&|_, fate| fate == Fate::Later)).await?;
        for ids in later.chunks(IDS_PER_STAMP) {
            with_parked_counted(&self.metrics, self.outbox.stamp_for_takeover(ids).await?);
        }
        let scheduled = chosen(&|open, fate| fate == Fate::Moment && !is_held(open));
        let held = chosen(&|open, fate| fate == Fate::Moment && is_held(open));
        self.set_moments_right(scheduled, held, at).await?;
        let mut timeless: Vec<(RawId, &str)> = Vec::new();
        for (open, fate) in judged {
            if let Fate::Park(problem) = fate {
                timeless.push((open.id, problem));
            }
        }
        for (id, problem) in timeless {
            self.outbox.park_timeless(&[id], problem).await?;
            self.metrics.parked(ParkCode::TransactionUnreadable);
        }
        Ok(())
    }

    /// Stamps and publishes.
    async fn publish(&self, found: Vec<RawId>, kind: &str, at: &Moments) -> Result<(), SweepError> {
        let ids = self.names(found).await?;
        if ids.is_empty() {
            return Ok(());
        }
        let mut published = 0;
        for ids in ids.chunks(IDS_PER_STAMP) {
            let stamped = self.outbox.stamp(ids, at.now + SWEEP_AGAIN_MS).await?;
            let stamped = with_parked_counted(&self.metrics, stamped);
            publish(&self.publisher, &self.metrics, &stamped, kind).await?;
            published += stamped.len();
        }
        if published > 0 {
            tracing::info!(
                kind,
                transactions = published,
                "published what nobody had a message for"
            );
        }
        Ok(())
    }

    /// Moves on what rests although no index shows its moment, or writes the moment into it.
    async fn set_moments_right(
        &self,
        scheduled: Vec<RawId>,
        held: Vec<RawId>,
        at: &Moments,
    ) -> Result<(), SweepError> {
        let (scheduled, held) = (self.names(scheduled).await?, self.names(held).await?);
        for ids in scheduled.chunks(IDS_PER_STAMP) {
            let moved = self.outbox.make_due(ids, at.now + SWEEP_AGAIN_MS).await?;
            publish(&self.publisher, &self.metrics, &moved, "due").await?;
        }
        for ids in held.chunks(IDS_PER_STAMP) {
            self.outbox.expire_holds(ids).await?;
        }
        Ok(())
    }

    /// The ids that a message can hold.
    async fn names(&self, found: Vec<RawId>) -> Result<Vec<TransactionId>, SweepError> {
        Ok(with_parked_counted(&self.metrics, self.outbox.publishable(found).await?))
    }
}

/// Publishes ids of what a look has found, and counts them as swept of this kind.
pub(crate) async fn publish(
    publisher: &Publisher,
    metrics: &Metrics,
    ids: &[TransactionId],
    kind: &str,
) -> Result<(), SweepError> {
    let messages: Vec<_> =
        Message::chunked(ids, IDS_PER_MESSAGE).map(|m| Outgoing::work(&m)).collect();
    publisher.publish(&messages).await?;
    metrics.swept.with_label_values(&[kind]).inc_by(ids.len() as u64);
    Ok(())
}

/// The ids of what a look has found; counts what it has parked.
pub(crate) fn with_parked_counted(metrics: &Metrics, found: Swept) -> Vec<TransactionId> {
    if let Some((count, code)) = found.parked {
        (0..count).for_each(|_| metrics.parked(code));
    }
    found.ids
}
