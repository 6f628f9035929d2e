//! How a run comes to rest, in two stages, and what must hold after each of them.
//!
//! First no more faults come, and odd documents stay odd: every transaction has to become final, or
//! be parked for a reason of its own, and no other may wait for it. Then all documents are
//! repaired, parked transactions are brought back, and every transaction has to become final. At
//! the very end, requests arrive whose clients gave up long ago.

use ledger::transaction::{ParkCode, State};

use super::event::Event;
use super::model::Transaction;
use super::scenario::Submission;
use super::world::World;
use super::{check, keyed};

/// A run that has not come to rest after so many turns never will. In one of a million, copies of a
/// message keep each other from coming through for 21,000.
const REST_TURNS_MAX: u64 = 60_000;

/// An hour: for requests that arrive when their clients have forgotten them.
const LATE_MS: i64 = 3_600_000;

impl World {
    pub(super) fn come_to_rest(&mut self) {
        self.rest();
        self.check_set_apart();
        self.mend_everything();
        self.rest();
        // Requests whose clients gave up long ago may still arrive.
        while self.report.violations.is_empty() && !self.operations.is_empty() {
            self.advance_time(LATE_MS);
            for operation in &mut self.operations {
                operation.deaf = false;
            }
            self.rest();
        }
        if self.report.violations.is_empty() {
            self.report.violations = check::at_rest(&self.server.majority);
            self.report.violations.extend(keyed::violations(&self.server.majority));
        }
    }

    /// Goes on without faults until nothing is left to do, except requests that nobody waits for.
    fn rest(&mut self) {
        for index in 0..self.workers.len() {
            self.wake(index);
        }
        let started = self.report.turns;
        while self.report.violations.is_empty() && !self.is_at_rest() {
            self.turn();
            if self.report.turns - started > REST_TURNS_MAX {
                self.violation(self.unrest());
            }
        }
    }

    fn is_at_rest(&self) -> bool {
        self.server.is_replicated()
            && self.queue.is_empty()
            && self.server.majority.due.is_empty()
            && self.operations.iter().all(|operation| operation.deaf)
            && self.workers.iter().all(|worker| worker.tasks.is_empty())
            && self.submissions.iter().all(|submission| self.is_through(submission))
            && self.calls.is_empty()
            && self.server.primary.keyed.open.is_empty()
            && self.unfinished().next().is_none()
    }

    /// Whether its client has done what it had to. What was refused because of a key is submitted
    /// in the end, when whoever has the key is decided.
    fn is_through(&self, submission: &Submission) -> bool {
        submission.published || (submission.refused && !submission.accepted && !self.mended)
    }

    /// The transactions that must still make progress.
    fn unfinished(&self) -> impl Iterator<Item = &Transaction> {
        let books = &self.server.primary;
        let waits = |doc: &Transaction| {
            !self.mended && (doc.state.is_resting() || books.is_parked(&doc.id))
        };
        books.transactions.values().filter(move |doc| !doc.state.is_final() && !waits(doc))
    }

    fn unrest(&self) -> String {
        let tasks: Vec<_> = self.workers.iter().map(|worker| worker.tasks.len()).collect();
        let unfinished: Vec<_> = self.unfinished().collect();
        let innocent = unfinished.iter().find(|doc| !self.has_a_cause(doc));
        let innocent = innocent.map_or(String::new(), |doc| {
            format!("a neighbour of what is odd, {}, did not end; ", doc.id)
        });
        format!(
            "it does not come to rest: {innocent}batches {tasks:?}, on their way {:?}, queue {:?}, \
             unfinished {unfinished:?}",
            self.operations, self.queue
        )
    }

    /// Whether the transaction or an account of it was odd at any time.
    fn has_a_cause(&self, doc: &Transaction) -> bool {
        let mut accounts = doc.body.iter().flat_map(|body| body.legs()).map(|leg| &leg.account);
        self.ever_odd.contains(&doc.id) || accounts.any(|account| self.ever_odd.contains(account))
    }

    /// A parked transaction has a cause and, once it is decided, holds nothing on accounts that
    /// were never odd. All other money is where it belongs.
    fn check_set_apart(&mut self) {
        if !self.report.violations.is_empty() {
            return;
        }
        let books = &self.server.majority;
        let mut wrong = check::off_the_books(books);
        let ends = |doc: &&Transaction| !doc.state.is_final() && !doc.state.is_resting();
        for doc in books.transactions.values().filter(ends) {
            let why = doc.parked.as_ref().or_else(|| books.aside.get(&doc.id));
            let killer = why.is_some_and(|why| why.code == ParkCode::KillsWorker);
            if !killer && !self.has_a_cause(doc) {
                wrong.push(format!("{} is set apart for {why:?}, and nothing was odd", doc.id));
            }
            let decided = matches!(doc.state, State::Applied | State::Canceling);
            if killer || !decided || self.ever_odd.contains(&doc.id) {
                continue;
            }
            let mut accounts = books.accounts.values();
            let held = accounts.find(|account| {
                account.pending_transactions.contains(&doc.id)
                    && !self.ever_odd.contains(&account.id)
            });
            if let Some(account) = held {
                wrong.push(format!(
                    "{}, {} and set apart for {why:?}, has left its mark on {}, which was never odd",
                    doc.id, doc.state, account.id
                ));
            }
        }
        wrong.into_iter().for_each(|what| self.violation(what));
    }

    /// The odd documents are repaired. [`Event::Unpark`] brings the transactions back.
    fn mend_everything(&mut self) {
        let odd: Vec<_> = self.server.primary.odd.mendable().cloned().collect();
        odd.iter().for_each(|id| self.server.mend(id));
        self.mended = true;
    }

    /// The transactions that an operator may bring back: any at any time, and at the end all.
    pub(super) fn possible_returns(&self, events: &mut Vec<(u32, Event)>) {
        for (index, submission) in self.submissions.iter().enumerate() {
            let parked = self.server.primary.is_parked(&submission.id);
            if parked && (self.mended || self.budget > 0) {
                events.push((if self.mended { 10 } else { 1 }, Event::Unpark(index)));
            }
        }
    }
}
