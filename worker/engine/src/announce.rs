//! What the world is told after a final state: its event.
//!
//! Promises that each end is told at least once. The write that makes transactions final notes that
//! its line is due. The worker that has written it gives its ends their numbers, publishes their
//! events, and removes the note once the numbers are durable and the broker has confirmed all
//! events. If it dies before, or the broker does not confirm, a sweeper does what is left, by the
//! note. An event is so sent only when no mark is left: who hears of it can spend the money. A
//! broker that is away costs a batch no more than the announcer's limit. Fails by leaving the note.
//!
//! There may be hundreds of small batches a second. What comes while another batch tells waits, and
//! the first of those who wait tells the events of all; notes are removed in the same way. A full
//! batch tells by itself.

use std::pin::Pin;
use std::slice;
use std::sync::Arc;

use ledger::event::Ended;
use ledger::journal::Heading;
use ledger::{Ledger, ServerMs};

use super::batch::Batch;
use super::{Engine, Environment};

/// How long its events are left to the worker that has written a line, in milliseconds.
const LEFT_TO_ITS_WORKER_MS: i64 = 10_000;

/// For each line, whether all of it is told.
pub type Told<'a> = Pin<Box<dyn Future<Output = Vec<bool>> + Send + 'a>>;

/// Tells the world how transactions end.
pub trait Announcer: Send + Sync {
    /// Tells what these lines have ended, and waits for a limited time. A line is told when its
    /// ends have their numbers and the broker has confirmed their events.
    fn announce<'a>(&'a self, lines: &'a [Untold]) -> Told<'a>;
}

/// A line that is written, and what it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untold {
    /// Its `_id`.
    pub line: String,
    /// What it has ended, in its order.
    pub events: Vec<Ended>,
}

impl Untold {
    /// None where nobody is told of outcomes.
    pub(super) fn of(heading: &Heading, events: impl Iterator<Item = Ended>) -> Option<Untold> {
        heading.events_due_at?;
        Some(Untold { line: heading.id.clone(), events: events.collect() })
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

    /// Tells what a line has ended, and forgets that it is due. What is not told, and a note that
    /// can't be removed, is left to the sweepers.
    pub(super) async fn announce_committed(&self, untold: Untold) {
        let Some(announcer) = &self.announcer else { return };
        let line = untold.line.clone();
        let _timer = self.observer.phase("announce");
        if !self.tell(announcer, untold).await {
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

    /// Tells what a line has ended, of a small batch together with others; returns whether it is
    /// told. That is not known where the one who took it along broke down.
    async fn tell(&self, announcer: &Arc<dyn Announcer>, untold: Untold) -> bool {
        if self.auto.is_full(untold.events.len()) {
            return announcer.announce(slice::from_ref(&untold)).await == [true];
        }
        let tell = async |lines: Vec<Untold>| announcer.announce(&lines).await;
        self.telling.run(untold, tell).await.unwrap_or(false)
    }
}
