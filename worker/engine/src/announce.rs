//! What the world is told after a final state: its event.
//!
//! Promises that each end is told at least once. The write that makes transactions final notes that
//! the events of its line are due. The worker that has written it publishes them, and removes the
//! note once the broker has confirmed all of them. If it dies before, or the broker does not
//! confirm, a sweeper publishes them from the note. An event is so sent only when no mark is left:
//! who hears of it can spend the money. A broker that is away costs a batch no more than the
//! announcer's limit. Fails by leaving the note.
//!
//! There may be hundreds of small batches a second. What comes while another batch tells waits, and
//! the first of those who wait tells the events of all; notes are removed in the same way. A full
//! batch tells by itself.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use ledger::event::Ended;
use ledger::journal::Heading;
use ledger::{Ledger, ServerMs};

use super::batch::Batch;
use super::{Engine, Environment};

/// How long its events are left to the worker that has written a line, in milliseconds.
const LEFT_TO_ITS_WORKER_MS: i64 = 10_000;

/// Those events that the broker has not confirmed.
pub type Unconfirmed<'a> = Pin<Box<dyn Future<Output = Vec<Ended>> + Send + 'a>>;

/// Tells the world how transactions end.
pub trait Announcer: Send + Sync {
    /// Publishes an event for each, and waits for the confirms for a limited time.
    fn announce<'a>(&'a self, events: &'a [Ended]) -> Unconfirmed<'a>;
}

/// A line that is written and whose events are due.
pub(super) struct Committed {
    /// Its `_id`.
    line: String,
    events: Vec<Ended>,
}

impl Committed {
    /// None where nobody is told of outcomes.
    pub fn of(heading: &Heading, events: impl Iterator<Item = Ended>) -> Option<Committed> {
        heading.events_due_at?;
        Some(Committed { line: heading.id.clone(), events: events.collect() })
    }
}

impl<L: Ledger, E: Environment> Batch<'_, L, E> {
    /// Sends the events of those that have ended.
    pub(super) async fn announce(&mut self) {
        for committed in std::mem::take(&mut self.committed) {
            self.engine.announce_committed(committed).await;
        }
    }
}

impl<L: Ledger, E: Environment> Engine<L, E> {
    /// Under what the next line is written, at this moment of the server's clock.
    pub(super) fn heading(&self, server_now: ServerMs) -> Heading {
        let due_at = server_now.saturating_add(LEFT_TO_ITS_WORKER_MS);
        Heading {
            id: self.environment.token(),
            application: self.settings.application.clone(),
            events_due_at: self.announcer.is_some().then_some(due_at),
        }
    }

    /// Sends the events of a line, and forgets that they are due. What is not confirmed, and a note
    /// that can't be removed, is left to the sweepers.
    pub(super) async fn announce_committed(&self, committed: Committed) {
        let Some(announcer) = &self.announcer else { return };
        let Committed { line, events } = committed;
        let _timer = self.observer.phase("announce");
        if !self.tell(announcer, events).await.is_empty() {
            return;
        }
        let forget = async |lines: Vec<String>| {
            if let Err(error) = self.ledger.forget_events(&lines).await {
                tracing::debug!(%error, notes = lines.len(), "they are sent once more, later");
            }
            vec![(); lines.len()]
        };
        self.forgetting.run(line, forget).await;
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
