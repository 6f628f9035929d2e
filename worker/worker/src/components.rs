//! The parts of a worker: tasks that live as long as it does, and are watched.
//!
//! Promises that the end of any part is seen at once: by itself, by an error, or by a panic. What
//! follows from it is decided in `run`. Dropping [`Components`] ends what is left.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use strum::{EnumCount, VariantArray};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::session::LastSession;

/// A task that should end only when the worker is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, VariantArray)]
pub enum Component {
    /// Keeps track of whose turn it is.
    TurnKeeper,
    /// Takes deliveries.
    Consumer,
    /// Settles what comes from the work queue.
    Batches,
    /// Settles what comes from the work queue and was delivered before.
    SuspectBatches,
    /// Settles what comes from the solo queue.
    SoloBatches,
    /// Publishes what nobody has a message for.
    Sweeper,
    /// Sums up lines of the journal for statements.
    Summing,
    /// Moves on what is scheduled, and ends what has expired.
    DueSweeper,
    /// Publishes what was inserted only.
    Inserted,
    /// Looks whether the database is there.
    DatabaseWatcher,
    /// Looks whether the ledger is still of a version that this worker knows.
    SettingsWatcher,
    /// Serves metrics and health.
    Pages,
}

impl Component {
    /// Every part.
    pub const ALL: [Component; Component::COUNT] =
        *Component::VARIANTS.first_chunk().expect("as many as are counted");

    /// Whether a stopping worker waits for its end: it may have deliveries, or claims.
    #[must_use]
    pub fn is_drained(self) -> bool {
        match self {
            Component::Consumer
            | Component::Batches
            | Component::SuspectBatches
            | Component::SoloBatches
            | Component::DueSweeper => true,
            Component::TurnKeeper
            | Component::Sweeper
            | Component::Summing
            | Component::Inserted
            | Component::DatabaseWatcher
            | Component::SettingsWatcher
            | Component::Pages => false,
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Component::TurnKeeper => "turn keeper",
            Component::Consumer => "consumer",
            Component::Batches => "batches",
            Component::SuspectBatches => "suspect batches",
            Component::SoloBatches => "solo batches",
            Component::Sweeper => "sweeper",
            Component::Summing => "summing",
            Component::DueSweeper => "due sweeper",
            Component::Inserted => "inserted",
            Component::DatabaseWatcher => "database watcher",
            Component::SettingsWatcher => "settings watcher",
            Component::Pages => "pages",
        })
    }
}

/// How a part ends: with the session of the broker that is to be closed last, if it has one, or
/// with the reason why it could not go on.
pub type PartEnd = Result<Option<LastSession>, String>;

/// Waits for a while. False when told to stop before its end.
pub async fn pause(stop: &CancellationToken, delay: Duration) -> bool {
    stop.run_until_cancelled(tokio::time::sleep(delay)).await.is_some()
}

/// The parts that run.
pub struct Components {
    tasks: JoinSet<PartEnd>,
    running: HashMap<Id, Component>,
    started: Box<dyn FnMut(Component, AbortHandle) + Send>,
}

impl Components {
    /// None yet; `started` is told each part, so that it can be ended from outside.
    #[must_use]
    pub fn new(started: impl FnMut(Component, AbortHandle) + Send + 'static) -> Components {
        Components { tasks: JoinSet::new(), running: HashMap::new(), started: Box::new(started) }
    }

    /// Starts a part.
    pub fn start(&mut self, part: Component, work: impl Future<Output = PartEnd> + Send + 'static) {
        let task = self.tasks.spawn(work);
        self.running.insert(task.id(), part);
        (self.started)(part, task);
    }

    /// Waits for the next part that ends. Waits for ever when none runs.
    pub async fn next(&mut self) -> (Component, PartEnd) {
        loop {
            let Some(ended) = self.tasks.join_next_with_id().await else {
                return std::future::pending().await;
            };
            let (id, outcome) = match ended {
                Ok((id, outcome)) => (id, outcome),
                // A panic, with its message.
                Err(error) => (error.id(), Err(error.to_string())),
            };
            if let Some(part) = self.running.remove(&id) {
                return (part, outcome);
            }
        }
    }

    /// Whether a part runs that a stopping worker waits for.
    #[must_use]
    pub fn has_drained(&self) -> bool {
        !self.running.values().any(|part| part.is_drained())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_part_that_panics_is_named_with_its_panic() {
        for part in Component::ALL {
            let mut parts = Components::new(|_, _| {});
            for other in Component::ALL.into_iter().filter(|other| *other != part) {
                parts.start(other, std::future::pending());
            }
            parts.start(part, async { panic!("out of ideas") });
            let (ended, outcome) = parts.next().await;
            assert_eq!(ended, part);
            assert!(outcome.is_err_and(|why| why.contains("out of ideas")), "{part}");
        }
    }

    #[tokio::test]
    async fn only_what_may_have_deliveries_is_waited_for() {
        let mut parts = Components::new(|_, _| {});
        parts.start(Component::Sweeper, std::future::pending());
        assert!(parts.has_drained());
        parts.start(Component::Batches, async { Ok(None) });
        assert!(!parts.has_drained());
        drop(parts.next().await);
        assert!(parts.has_drained());
    }
}
