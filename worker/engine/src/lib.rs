#![doc = include_str!("../README.md")]

mod announce;
mod auto;
mod batch;
mod capacity;
mod claim;
mod counted;
mod deferred;
mod ending;
mod halving;
mod native;
mod news;
mod observer;
mod outcome;
mod owned;
mod plan;
mod post;
mod reserve;
mod settle;
mod steps;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ledger::coalesce::Coalesced;
use ledger::retry::Policy;
use ledger::transaction::TransactionId;
use ledger::{Fault, Ledger, LedgerError};

pub use announce::{Announcer, Told, Untold};
pub use counted::Counted;
pub use halving::cut;
pub use observer::{Observer, Phase};
pub use outcome::Outcome;

use auto::Auto;
use batch::Batch;
use capacity::Capacity;
use deferred::Deferred;
use native::NativeBatch;
use news::News;
use reserve::Reservations;

/// Time and randomness, passed in so that a simulation can replay a run.
pub trait Environment: Send + Sync {
    /// A clock that never goes back, in milliseconds; its zero means nothing.
    fn now_ms(&self) -> i64;
    /// Waits.
    fn sleep(&self, delay: Duration) -> impl Future<Output = ()> + Send;
    /// A number in 0.0..1.0.
    fn jitter(&self) -> f64;
    /// A token that no other claim has or will have.
    fn token(&self) -> String;
    /// Whether a batch goes the native way, where the engine chooses. `advice` says what is faster;
    /// either way is right at any moment, so a simulation may take the other one.
    fn chooses_native(&self, advice: impl FnOnce() -> bool) -> bool {
        advice()
    }
}

/// How a batch is settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// A two-phase commit over account documents; workers don't wait for each other.
    #[default]
    TwoPhase,
    /// One native MongoDB transaction per batch; fewer writes, but workers on the same accounts
    /// conflict.
    Transaction,
    /// Native transactions while they are the faster way, and two phases while other workers settle
    /// on the same accounts, or batches are full and for few accounts, or far from the database.
    Auto,
}

impl EngineKind {
    /// As the flag says it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EngineKind::TwoPhase => "two-phase",
            EngineKind::Transaction => "transaction",
            EngineKind::Auto => "auto",
        }
    }
}

/// What the engine is told.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// How a batch is settled.
    pub kind: EngineKind,
    /// Who claims, for people and metrics.
    pub application: String,
    /// How long a posting may wait before the server refuses it, in milliseconds.
    pub post_window_ms: i64,
    /// How long after a posting's deadline it may still be running, in milliseconds.
    pub grace_ms: i64,
    /// After so many claims a pending transaction is rolled back.
    pub attempts_max: u32,
    /// How long a transaction waits after a failed attempt.
    pub retry: Policy,
    /// How often one operation is tried in place.
    pub tries_in_place: u32,
    /// How long the settlements of a large batch wait for a ride on the next post; longer where the
    /// batch stands for several ([`Underway::standing_for`]).
    pub ride_wait: Duration,
    /// What a large batch is: so many transactions. There is nothing to ride on when little comes.
    pub rides_from: usize,
    /// A batch of so many transactions is full: more wait than the worker can settle at once.
    pub full_from: usize,
    /// A native batch of fewer transactions waits whole where only a part of it could go at once.
    pub split_from: usize,
}

/// Settles batches. One engine serves all lanes of a worker.
pub struct Engine<L, E> {
    ledger: L,
    environment: E,
    settings: EngineSettings,
    observer: Arc<dyn Observer>,
    /// None where nobody is told of outcomes.
    announcer: Option<Arc<dyn Announcer>>,
    /// Lines whose ends are to be told, each with the answer whether they are.
    telling: Coalesced<Untold, bool>,
    /// Lines that are told, and whose notes go.
    forgetting: Coalesced<String, ()>,
    deferred: Deferred,
    capacity: Capacity,
    news: News,
    /// Batches in two phases that have not come to their commit point.
    before_commit: AtomicUsize,
    /// The accounts of native batches.
    reservations: Reservations,
    auto: Auto,
}

impl<L: Ledger, E: Environment> Engine<L, E> {
    /// An engine on a ledger, which announces outcomes if it is given an announcer.
    pub fn new(
        ledger: L,
        environment: E,
        announcer: Option<Arc<dyn Announcer>>,
        settings: EngineSettings,
        observer: Arc<dyn Observer>,
    ) -> Engine<L, E> {
        let auto = Auto::new(settings.kind, settings.full_from);
        let reservations = Reservations::new(settings.split_from);
        Engine {
            ledger,
            environment,
            settings,
            observer,
            announcer,
            telling: Coalesced::default(),
            forgetting: Coalesced::default(),
            deferred: Deferred::default(),
            capacity: Capacity::default(),
            news: News::default(),
            before_commit: AtomicUsize::new(0),
            reservations,
            auto,
        }
    }

    /// Settles what it can of `ids` and says for each what became of it. Repeated ids count once.
    pub async fn run(&self, ids: &[TransactionId]) -> Vec<(TransactionId, Outcome)> {
        self.begin(ids).await.end().await
    }

    /// The part of [`Engine::run`] that later batches have to wait for: when it is over, every
    /// transaction is decided. [`Underway::end`] does the rest.
    pub async fn begin(&self, ids: &[TransactionId]) -> Underway<'_, L, E> {
        if self.auto.begins_native(ids.len(), &self.environment) {
            return NativeBatch::new(self).begin(ids).await;
        }
        let counted = Some(self.auto.begin_in_phases());
        let batch = Some(self.begin_in_phases(ids).await);
        Underway { engine: self, outcomes: Vec::new(), committed: Vec::new(), batch, counted }
    }

    async fn begin_in_phases(&self, ids: &[TransactionId]) -> Batch<'_, L, E> {
        let _counted = Counted::up(&self.before_commit);
        Batch::new(self).begin(ids).await
    }

    /// Learns how long an answer of the database took that cost it nothing.
    pub fn learn_round_trip(&self, round_trip: Duration) {
        self.auto.learn_round_trip(round_trip);
    }

    /// How the last batch began: in two phases, or as a native transaction.
    pub fn way(&self) -> EngineKind {
        self.auto.way()
    }

    /// How many transactions fit one batch, by the size of those that came last.
    pub fn fits(&self) -> usize {
        self.capacity.fits()
    }

    /// Whether there are batches before their commit point, which may carry settlements.
    fn has_batches_before_commit(&self) -> bool {
        self.before_commit.load(Ordering::Relaxed) > 0
    }

    /// Runs an operation that is harmless to repeat, again and again while its failures pass.
    async fn retrying<T, F>(&self, operation: impl Fn() -> F) -> Result<T, LedgerError>
    where
        F: Future<Output = Result<T, LedgerError>>,
    {
        let mut attempt = 0;
        loop {
            match operation().await {
                Ok(value) => return Ok(value),
                Err(error) => {
                    attempt += 1;
                    self.pause(attempt, error).await?;
                }
            }
        }
    }

    /// Waits before the next try in place, or gives the error back if there is none.
    async fn pause(&self, attempt: u32, error: LedgerError) -> Result<(), LedgerError> {
        if error.fault != Fault::Passing || attempt >= self.settings.tries_in_place {
            return Err(error);
        }
        self.observer.retried(error.operation);
        tracing::debug!(%error, attempt, "trying again in place");
        let delay = Policy::IN_PLACE.delay(attempt, self.environment.jitter());
        self.environment.sleep(delay).await;
        Ok(())
    }
}

/// A batch past its decisions: some transactions have their outcome, the marks of others remain.
pub struct Underway<'a, L, E> {
    engine: &'a Engine<L, E>,
    committed: Vec<Untold>,
    outcomes: Vec<(TransactionId, Outcome)>,
    batch: Option<Batch<'a, L, E>>,
    /// Until it ends, where it began in two phases.
    counted: Option<Counted<'a>>,
}

impl<L: Ledger, E: Environment> Underway<'_, L, E> {
    /// The batch is in place of so many. Fewer come after it, so its settlements wait so many times
    /// as long for their ride, but for this no longer than a quarter of the lease.
    #[must_use]
    pub fn standing_for(mut self, batches: u32) -> Self {
        if let Some(batch) = &mut self.batch {
            batch.stands_for = batches;
        }
        self
    }

    /// Removes the marks, announces what has ended, and says for each transaction what became of
    /// it.
    pub async fn end(mut self) -> Vec<(TransactionId, Outcome)> {
        for committed in self.committed {
            self.engine.announce_committed(committed).await;
        }
        if let Some(batch) = self.batch {
            self.outcomes.extend(batch.end().await);
        }
        drop(self.counted);
        self.outcomes
    }
}
