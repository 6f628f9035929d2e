//! What the engine lets others know of its work: for metrics, spans and lines of a log.
//!
//! Promises that nothing that an [`Observer`] does or answers changes what the engine does. Every
//! method does nothing where it is not implemented.

use ledger::ServerMs;
use ledger::transaction::{ParkCode, ReasonCode, State, TransactionId};

/// Is told what the engine does. `()` observes nothing.
pub trait Observer: Send + Sync {
    /// A phase of a batch begins. It ends when the answer is dropped.
    fn phase(&self, name: &'static str) -> Box<dyn Phase> {
        let _ = name;
        Box::new(())
    }

    /// Transactions have entered a state.
    fn moved(&self, state: State, count: usize) {
        let _ = (state, count);
    }

    /// A transaction was refused.
    fn refused(&self, code: ReasonCode) {
        let _ = code;
    }

    /// A transaction was set apart until a person looks.
    fn parked(&self, code: ParkCode) {
        let _ = code;
    }

    /// Transactions that were created at these moments have come to this final state by now. 0
    /// means that the moment of creation is not known.
    fn ended(&self, state: State, created: &mut dyn Iterator<Item = ServerMs>, now: ServerMs) {
        let _ = (state, created, now);
    }

    /// A batch was settled so many milliseconds after its commit point.
    fn settled_after(&self, ms: i64) {
        let _ = ms;
    }

    /// An operation of the ledger has failed and is tried again in place.
    fn retried(&self, operation: &'static str) {
        let _ = operation;
    }

    /// A transaction was claimed that had been claimed before.
    fn took_over(&self) {}

    /// A post command is known to be late: not sent, or answered late and not done in full.
    fn fenced_post(&self) {}

    /// So many settlements rode on a later post.
    fn rode(&self, settlements: u64) {
        let _ = settlements;
    }

    /// A transaction past its commit point has outlived the limit of attempts.
    fn overdue(&self) {}

    /// The trace of a transaction that is processed in this task, for a line of the log.
    fn trace_id(&self, id: &TransactionId) -> Option<String> {
        let _ = id;
        None
    }
}

impl Observer for () {}

/// A phase that is under way, until it is dropped.
#[must_use = "it is timed until it is dropped"]
pub trait Phase: Send {
    /// Ends it as one that a conflict has undone: its time counts as lost.
    fn lost(self: Box<Self>);
}

impl Phase for () {
    fn lost(self: Box<Self>) {}
}
