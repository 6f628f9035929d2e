//! What a delivery becomes when it is taken in: a job, which is processed, or a debt, which is not.
//!
//! Owns nothing beyond them: the acknowledger makes both, and ends both.

use ledger::message::Message;
use ledger::transaction::TransactionId;
use observe::Traces;
use queue::Outgoing;

#[cfg(test)]
use crate::decide::runs_alone;
use crate::decide::{Origin, Suspect};

/// A delivery in processing.
pub struct Job<R> {
    /// What it says.
    pub message: Message,
    /// Where it came from.
    pub origin: Origin,
    /// The traces of its transactions.
    pub traces: Traces,
    pub(crate) receipt: R,
    /// Whether it is processed while nothing else is.
    pub(crate) runs_alone: bool,
    /// The dead letter of those of its ids that no transaction can have.
    pub(crate) letter: Option<Outgoing>,
}

impl<R> Job<R> {
    /// A job without traces, all of whose ids are ones that a transaction can have.
    #[cfg(test)]
    pub(crate) fn of(message: Message, origin: Origin, receipt: R) -> Job<R> {
        let runs_alone = runs_alone(origin, 0, &message);
        Job { message, origin, traces: Traces::default(), receipt, runs_alone, letter: None }
    }
}

/// The transaction that a batch processes while nothing else is, if it is the only one.
pub fn alone<R>(jobs: &[Job<R>]) -> Option<&TransactionId> {
    match jobs {
        [job] if job.runs_alone => match &job.message.ids[..] {
            [id] => Some(id),
            _many => None,
        },
        _many => None,
    }
}

/// A delivery that is not processed: it ends when something is published.
pub struct Debt<R> {
    pub(crate) origin: Origin,
    pub(crate) deliveries: u32,
    pub(crate) receipt: R,
    pub(crate) outgoing: Vec<Outgoing>,
    /// A transaction that is judged first; what is published follows from that.
    pub(crate) suspect: Option<Suspect>,
    pub(crate) is_foreign: bool,
    /// What is processed in its place while the broker takes no publications, and the dead letter
    /// of its bad ids.
    pub(crate) instead: Option<(Message, Option<Outgoing>)>,
}

impl<R> Debt<R> {
    /// Whether nothing of it can be used, so that it may be rejected.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Whether it can be processed while the broker takes no publications.
    pub fn can_be_processed(&self) -> bool {
        self.instead.is_some()
    }
}

/// A delivery that was taken in.
pub enum Admitted<R> {
    /// To be processed.
    Job(Job<R>),
    /// To be [paid](crate::acknowledge::Acknowledger::pay).
    Debt(Debt<R>),
}
