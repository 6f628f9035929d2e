//! The protocol: a two-phase commit over a batch of transactions, or one native transaction.
//!
//! Owns the order of the phases (`batch`) and the fence around the posts (`post`), what is done with
//! a call that fails (`pieces`), the second engine (`native`), which may run beside the first on the
//! same data, and the choice between the two (`choice`). Promises that whatever happens between two
//! lines (a crash, a stall of any length, a lost reply, a second run) no money is made or lost, and
//! that no other worker has to be told. Fails by releasing: what is not final is released and
//! requeued.
//! Talks to the world through [`Ledger`], [`Announcer`], [`Environment`] and [`Observer`] only.

mod announce;
mod batch;
mod capacity;
mod choice;
mod claim;
mod counted;
mod crowd;
mod deferred;
mod distance;
mod held;
mod look;
mod native;
mod news;
mod observer;
mod outcome;
mod pieces;
mod plan;
mod post;
mod reserve;
mod settle;
mod steps;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ledger::event::Ended;
use ledger::joint::Joint;
use ledger::retry::Policy;
use ledger::transaction::{Leg, TransactionId};
use ledger::{Fault, Ledger, LedgerError};

pub use announce::{Announcer, Unconfirmed};
pub use counted::Counted;
pub use observer::{Observer, Phase};
pub use outcome::Outcome;
pub use pieces::cut;

use announce::Committed;
use batch::Batch;
use capacity::Capacity;
use choice::Chooser;
use crowd::Crowd;
use deferred::Deferred;
use distance::Distance;
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
    /// How long the settlements of a large batch wait for a ride on the next post.
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
    /// Events on their way, each batch's with the answer which are not confirmed.
    telling: Joint<Vec<Ended>, Vec<Ended>>,
    /// Tokens of notes whose events are confirmed.
    forgetting: Joint<String, ()>,
    deferred: Deferred,
    capacity: Capacity,
    news: News,
    /// Batches in two phases that have not come to their commit point.
    before_commit: AtomicUsize,
    /// Batches that began in two phases and have not ended.
    in_phases: AtomicUsize,
    /// The accounts of native batches.
    reservations: Reservations,
    chooser: Mutex<Chooser>,
    crowd: Mutex<Crowd>,
    distance: Mutex<Distance>,
    /// Of the last batch; before the first one, how a single transaction would begin.
    began_native: AtomicBool,
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
        let began_native = AtomicBool::new(settings.kind != EngineKind::TwoPhase);
        let reservations = Reservations::new(settings.split_from);
        Engine {
            ledger,
            environment,
            settings,
            observer,
            announcer,
            telling: Joint::default(),
            forgetting: Joint::default(),
            deferred: Deferred::default(),
            capacity: Capacity::default(),
            news: News::default(),
            before_commit: AtomicUsize::new(0),
            in_phases: AtomicUsize::new(0),
            reservations,
            chooser: Mutex::default(),
            crowd: Mutex::default(),
            distance: Mutex::default(),
            began_native,
        }
    }

    /// Settles what it can of `ids` and says for each what became of it. Repeated ids count once.
    pub async fn run(&self, ids: &[TransactionId]) -> Vec<(TransactionId, Outcome)> {
        self.begin(ids).await.end().await
    }

    /// The part of [`Engine::run`] that later batches have to wait for: when it is over, every
    /// transaction is decided. [`Underway::end`] does the rest.
    pub async fn begin(&self, ids: &[TransactionId]) -> Underway<'_, L, E> {
        let is_native = self.begins_native(ids.len());
        self.began_native.store(is_native, Ordering::Relaxed);
        if is_native {
            return NativeBatch::new(self).begin(ids).await;
        }
        let counted = Some(Counted::up(&self.in_phases));
        let batch = Some(self.begin_in_phases(ids).await);
        Underway { engine: self, outcomes: Vec::new(), committed: Vec::new(), batch, counted }
    }

    async fn begin_in_phases(&self, ids: &[TransactionId]) -> Batch<'_, L, E> {
        let _counted = Counted::up(&self.before_commit);
        Batch::new(self).begin(ids).await
    }

    /// Whether a batch of so many begins as a native one. Where full batches are better in two phases, a small one would
    /// conflict with those of them that are under way.
    fn begins_native(&self, transactions: usize) -> bool {
        let is_slower = self.settings.kind == EngineKind::Auto
            && (self.is_full(transactions) || self.has_batches_in_phases())
            && (self.crowd().is_crowded() || self.distance().is_far());
        self.is_native() && !is_slower
    }

    /// Learns how long an answer of the database took that cost it nothing.
    pub fn learn_round_trip(&self, round_trip: Duration) {
        self.distance().learn(round_trip);
    }

    /// Whether this worker itself may be what a native transaction conflicts with: batches that began in two phases
    /// are under way. (Not counted: what native batches leave over, because others were in their way.)
    fn has_batches_in_phases(&self) -> bool {
        self.in_phases.load(Ordering::Relaxed) > 0
    }

    /// Whether a native batch goes on as one.
    fn is_native(&self) -> bool {
        match self.settings.kind {
            EngineKind::TwoPhase => false,
            EngineKind::Transaction => true,
            EngineKind::Auto => self
                .environment
                .chooses_native(|| self.chooser().is_native(self.environment.now_ms())),
        }
    }

    /// Whether more waits than fits a batch, as far as a batch of so many shows.
    fn is_full(&self, transactions: usize) -> bool {
        transactions >= self.settings.full_from
    }

    /// Learns which accounts a batch is for.
    fn learn_accounts<'a>(&self, transactions: impl ExactSizeIterator<Item = &'a [Leg]>) {
        if self.settings.kind == EngineKind::Auto && self.is_full(transactions.len()) {
            self.crowd().learn(transactions);
        }
    }

    /// How the last batch began: in two phases, or as a native transaction.
    pub fn way(&self) -> EngineKind {
        match self.began_native.load(Ordering::Relaxed) {
            true => EngineKind::Transaction,
            false => EngineKind::TwoPhase,
        }
    }

    /// The most transactions of a native transaction.
    fn native_most(&self) -> usize {
        match self.settings.kind {
            EngineKind::Auto => self.chooser().most(),
            EngineKind::TwoPhase | EngineKind::Transaction => usize::MAX,
        }
    }

    fn chooser(&self) -> MutexGuard<'_, Chooser> {
        // A panic of a batch between two lines of it leaves a number that is a little wrong.
        self.chooser.lock().unwrap_or_else(|broken| broken.into_inner())
    }

    fn crowd(&self) -> MutexGuard<'_, Crowd> {
        // As above.
        self.crowd.lock().unwrap_or_else(|broken| broken.into_inner())
    }

    fn distance(&self) -> MutexGuard<'_, Distance> {
        // As above.
        self.distance.lock().unwrap_or_else(|broken| broken.into_inner())
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
    committed: Vec<Committed>,
    outcomes: Vec<(TransactionId, Outcome)>,
    batch: Option<Batch<'a, L, E>>,
    /// Until it ends, where it began in two phases.
    counted: Option<Counted<'a>>,
}

impl<L: Ledger, E: Environment> Underway<'_, L, E> {
    /// Removes the marks, announces what has ended, and says for each transaction what became of it.
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
