//! Which way a batch goes: in two phases, or as a native transaction. With `--engine auto` this is
//! found out.
//!
//! Decided from two things, each of which is learned from the batches and is a module of its own:
//!
//! | what | learned from | what it decides |
//! | --- | --- | --- |
//! | [`conflicts`]: others settle on the same accounts | attempts that were committed or lost, and how long they took | every batch goes in two phases for a while; then the native way is tried again, with few transactions at first |
//! | [`distance`]: the database is far away | how long it takes to answer what costs it nothing | full batches go in two phases, and so do those that begin beside them |
//!
//! Owns the choice and what it was last. Promises nothing about correctness, because either way is
//! right at any moment: a wrong choice costs time only. With `--engine two-phase` or `transaction`
//! nothing is learned, and the answer is always the same.

mod conflicts;
mod distance;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::{Counted, EngineKind, Environment};
use conflicts::Conflicts;
use distance::Distance;

/// The choice of one engine; all lanes share it.
pub(super) struct Auto {
    kind: EngineKind,
    /// A batch of so many transactions is full.
    pub(super) full_from: usize,
    /// Batches that began in two phases and have not ended.
    pub(super) in_phases: AtomicUsize,
    conflicts: Mutex<Conflicts>,
    distance: Mutex<Distance>,
    /// Of the last batch; before the first one, how a single transaction would begin.
    began_native: AtomicBool,
}

impl Auto {
    pub fn new(kind: EngineKind, full_from: usize) -> Auto {
        Auto {
            kind,
            full_from,
            in_phases: AtomicUsize::new(0),
            conflicts: Mutex::default(),
            distance: Mutex::default(),
            began_native: AtomicBool::new(kind != EngineKind::TwoPhase),
        }
    }

    /// Whether a batch of so many begins as a native one. Where full batches are better in two
    /// phases, a small one would conflict with those of them that are under way.
    pub fn begins_native(&self, transactions: usize, environment: &impl Environment) -> bool {
        let is_slower = self.kind == EngineKind::Auto
            && (self.is_full(transactions) || self.has_batches_in_phases())
            && self.distance().is_far();
        let is_native = self.is_native(environment) && !is_slower;
        self.began_native.store(is_native, Ordering::Relaxed);
        is_native
    }

    /// Counts a batch that begins in two phases, until the answer is dropped.
    pub fn begin_in_phases(&self) -> Counted<'_> {
        Counted::up(&self.in_phases)
    }

    /// Whether a native batch goes on as one.
    pub fn is_native(&self, environment: &impl Environment) -> bool {
        match self.kind {
            EngineKind::TwoPhase => false,
            EngineKind::Transaction => true,
            EngineKind::Auto => {
                environment.chooses_native(|| self.conflicts().is_native(environment.now_ms()))
            }
        }
    }

    /// The most transactions of a native transaction.
    pub fn native_most(&self) -> usize {
        match self.kind {
            EngineKind::Auto => self.conflicts().most(),
            EngineKind::TwoPhase | EngineKind::Transaction => usize::MAX,
        }
    }

    /// How the last batch began: in two phases, or as a native transaction.
    pub fn way(&self) -> EngineKind {
        match self.began_native.load(Ordering::Relaxed) {
            true => EngineKind::Transaction,
            false => EngineKind::TwoPhase,
        }
    }

    /// Learns how a native attempt went. A conflict that this worker's own batches may have caused
    /// says nothing of others, and passes: after a change of the way, those in two phases come to
    /// their end.
    pub fn learn_attempt(&self, was_lost: bool, begun_ms: i64, environment: &impl Environment) {
        let is_own = was_lost && self.has_batches_in_phases();
        if self.kind != EngineKind::Auto || is_own {
            return;
        }
        let now_ms = environment.now_ms();
        let took_ms = now_ms.saturating_sub(begun_ms);
        self.conflicts().learn(was_lost, took_ms, now_ms, environment.jitter());
    }

    /// Learns how long an answer of the database took that cost it nothing.
    pub fn learn_round_trip(&self, round_trip: Duration) {
        self.distance().learn(round_trip);
    }

    /// Whether more waits than fits a batch, as far as a batch of so many shows.
    pub fn is_full(&self, transactions: usize) -> bool {
        transactions >= self.full_from
    }

    /// Whether this worker itself may be what a native transaction conflicts with: batches that
    /// began in two phases are under way. (Not counted: what native batches leave over, because
    /// others were in their way.)
    fn has_batches_in_phases(&self) -> bool {
        self.in_phases.load(Ordering::Relaxed) > 0
    }

    fn conflicts(&self) -> MutexGuard<'_, Conflicts> {
        locked(&self.conflicts)
    }

    fn distance(&self) -> MutexGuard<'_, Distance> {
        locked(&self.distance)
    }
}

fn locked<T>(learned: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic of a batch between two lines of it leaves a number that is a little wrong.
    learned.lock().unwrap_or_else(|broken| broken.into_inner())
}
