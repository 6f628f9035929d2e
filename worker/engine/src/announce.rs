//! What comes before a final state: its event.
//!
//! Promises that a transaction of a batch becomes final only when its event is confirmed by the
//! broker, or noted in the database as due, from where sweepers publish it. So an event is sent at
//! least once, whatever dies when: a worker that dies after the confirm leaves a transaction that
//! is not final, and its successor sends the same event again. It is sent only when no mark is
//! left: who hears of it can spend the money. A broker that is away costs a batch no more than the
//! announcer's limit, and then one write. Fails by leaving the transactions as they are.
//!
//! There may be hundreds of small batches a second. What comes while another batch tells waits, and
//! the first of those who wait tells the events of all; notes are removed in the same way. A full
//! batch tells by itself. A native batch notes its events in its own transaction, publishes after
//! the commit, and removes the note.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use ledger::event::{End, Ended};
use ledger::transaction::TransactionId;
use ledger::{Advance, CALL_IDS_MAX, Ledger};

use super::batch::Batch;
use super::{Engine, Environment};

/// Those events that the broker has not confirmed.
pub type Unconfirmed<'a> = Pin<Box<dyn Future<Output = Vec<Ended>> + Send + 'a>>;

/// Tells the world how transactions end.
pub trait Announcer: Send + Sync {
    /// Publishes an event for each, and waits for the confirms for a limited time.
    fn announce<'a>(&'a self, events: &'a [Ended]) -> Unconfirmed<'a>;
}

/// How the transactions end that take this step, if it is their last.
fn end_by(step: Advance) -> Option<End> {
    End::of(step.states().1)
}

impl<L: Ledger, E: Environment> Batch<'_, L, E> {
    /// Sends the events of those that are about to take their last step. Those whose event is
    /// neither confirmed nor noted as due are left.
    pub(super) async fn announce(&mut self, step: Advance, ids: &[TransactionId]) {
        let engine = self.engine;
        let (Some(announcer), Some(end)) = (&engine.announcer, end_by(step)) else { return };
        if ids.is_empty() {
            return;
        }
        let events: Vec<Ended> = ids.iter().map(|id| Ended { id: id.clone(), end }).collect();
        let timer = engine.observer.phase("announce");
        let unconfirmed = engine.tell(announcer, events).await;
        let owe = |events| {
            // A token of its own for each try: a note that is there twice is an event sent twice.
            let token = engine.environment.token();
            async move { engine.ledger.owe_events(&token, events).await }
        };
        let owed = engine.in_pieces(unconfirmed.chunks(CALL_IDS_MAX), owe).await;
        drop(timer);
        for (events, left) in owed.failed {
            self.leave(events.iter().map(|event| &event.id), left);
        }
    }
}

/// Events of a native batch: noted as due by its commit.
pub(super) struct Committed {
    /// The token of the note.
    pub token: String,
    /// What is due.
    pub events: Vec<Ended>,
}

impl<L: Ledger, E: Environment> Engine<L, E> {
    /// Sends the events of a native batch, and forgets that they are due. What is not confirmed,
    /// and a note that can't be removed, is left to the sweepers.
    pub(super) async fn announce_committed(&self, committed: Committed) {
        let Some(announcer) = &self.announcer else { return };
        let Committed { token, events } = committed;
        let _timer = self.observer.phase("announce");
        if !self.tell(announcer, events).await.is_empty() {
            return;
        }
        let forget = async |tokens: Vec<String>| {
            if let Err(error) = self.ledger.forget_events(&tokens).await {
                tracing::debug!(%error, notes = tokens.len(), "they are sent once more, later");
            }
            vec![(); tokens.len()]
        };
        self.forgetting.run(token, forget).await;
    }

    /// Sends events, those of small batches together with others; returns those that are not
    /// confirmed.
    async fn tell(&self, announcer: &Arc<dyn Announcer>, events: Vec<Ended>) -> Vec<Ended> {
        if self.auto.is_full(events.len()) {
            return announcer.announce(&events).await;
        }
        let tell = async |mut all: Vec<Vec<Ended>>| {
            let unconfirmed = announcer.announce(&all.concat()).await;
            let unconfirmed: BTreeSet<Ended> = unconfirmed.into_iter().collect();
            all.iter_mut().for_each(|events| events.retain(|event| unconfirmed.contains(event)));
            all
        };
        // Whether they were sent is not known where the one who took them along broke down.
        self.telling.run(events.clone(), tell).await.unwrap_or(events)
    }
}
