//! Calls that submit a transaction under an exclusive key, from the first look to what the caller
//! is told.
//!
//! Owns the calls in progress, several of one transaction at once if a client submits it twice.
//! What a call does next is in `super::submit`. Checks that a call is refused only if another
//! transaction had the key meanwhile, and only if its own was not there from the start. A caller
//! that dies leaves its native transaction to the server, which ends it at some time.

use ledger::transaction::TransactionId;

use super::event::Event;
use super::planted::Planted;
use super::request::{Reply, Request};
use super::submit::{self, Habits, Step};
use super::world::World;

/// How often a call tries before it says that the outcome is unknown.
const ATTEMPTS_MAX: usize = 4;

/// A call in progress.
#[derive(Debug)]
pub(super) struct Call {
    name: String,
    /// Its submission.
    submission: usize,
    id: TransactionId,
    key: String,
    /// Its request that is on its way.
    waits_for: u64,
    heard: Vec<Option<Reply>>,
    /// The newest write that it knows of: its reads wait until they show this write.
    newest_write: u64,
    /// Since it began, another transaction has had the key at some moment.
    met_a_rival: bool,
    /// Its transaction was durable when it began.
    was_known: bool,
}

impl World {
    /// A client submits a transaction that has a key.
    pub(super) fn begin_call(&mut self, submission: usize, key: &str) {
        let id = self.submissions[submission].id.clone();
        self.calls_so_far += 1;
        self.calls.push(Call {
            name: format!("call {} for {id}", self.calls_so_far),
            submission,
            key: key.to_owned(),
            waits_for: 0,
            heard: Vec::new(),
            newest_write: 0,
            met_a_rival: self.server.primary.has_rival(key, &id),
            was_known: self.server.majority.transactions.contains_key(&id),
            id,
        });
        self.go_on_with_call(self.calls.len() - 1);
    }

    /// Gives a call the answer to its request; false if no call waits for it. A write that the
    /// server has heard of before it answered is noted, also where the answer is a duplicate.
    pub(super) fn answer_call(&mut self, operation: u64, upto: u64, reply: &Reply) -> bool {
        let Some(index) = self.calls.iter().position(|call| call.waits_for == operation) else {
            return false;
        };
        let call = &mut self.calls[index];
        call.newest_write = call.newest_write.max(upto);
        call.heard.push((!matches!(reply, Reply::Failed(_))).then(|| reply.clone()));
        self.go_on_with_call(index);
        true
    }

    fn habits(&self) -> Habits {
        let commits_separately = self.server.planted != Some(Planted::PlainInsertOfAKey);
        Habits { attempts_max: ATTEMPTS_MAX, commits_separately }
    }

    fn go_on_with_call(&mut self, index: usize) {
        let call = &self.calls[index];
        let mut answers = call.heard.iter().map(Option::as_ref);
        let (name, id) = (call.name.clone(), call.id.clone());
        let attempt = |number: usize| format!("{name}, attempt {number}");
        let request = match submit::next(&id, self.habits(), &mut answers) {
            Step::Look => Request::Read(vec![id]),
            Step::Insert(number) => {
                let body = Box::new(self.submissions[call.submission].body.clone());
                Request::InsertKeyed(attempt(number), name.clone(), id, body)
            }
            Step::Commit(number) => Request::CommitKeyed(attempt(number)),
            Step::Holder => Request::Holder(call.key.clone()),
            Step::Accept => {
                self.submissions[call.submission].accepted = true;
                self.server.accepted(&id);
                self.calls.swap_remove(index);
                return;
            }
            Step::Refuse => return self.refuse_call(index),
            Step::GiveUp => {
                self.calls.swap_remove(index);
                return;
            }
        };
        let newest_write = call.newest_write;
        let operation = self.client_request_after(newest_write, request);
        self.calls[index].waits_for = operation;
    }

    fn refuse_call(&mut self, index: usize) {
        let call = self.calls.swap_remove(index);
        self.submissions[call.submission].refused = true;
        self.server.refused(&call.name);
        if !call.met_a_rival {
            let (name, key) = (&call.name, &call.key);
            self.violation(format!("rule 9: {name} was refused, and nobody else had {key}"));
        }
        if call.was_known {
            let name = &call.name;
            self.violation(format!("rule 6: {name} was refused, and had been accepted before"));
        }
    }

    /// Notes which calls have a rival at this moment.
    pub(super) fn watch_calls(&mut self) {
        for call in &mut self.calls {
            call.met_a_rival |= self.server.primary.has_rival(&call.key, &call.id);
        }
    }

    /// After a fail-over nobody knows of a write that was lost.
    pub(super) fn forget_lost_writes(&mut self) {
        let written = self.server.written;
        for call in &mut self.calls {
            call.newest_write = call.newest_write.min(written);
        }
        for operation in self.operations.iter_mut().filter(|operation| operation.owner.is_none()) {
            operation.after = operation.after.min(written);
        }
    }

    /// Whether a call waits for the answer to this operation.
    pub(super) fn is_of_a_call(&self, operation: u64) -> bool {
        self.calls.iter().any(|call| call.waits_for == operation)
    }

    /// Whether a client waits for its insert.
    pub(super) fn is_being_submitted(&self, submission: usize) -> bool {
        self.submissions[submission].inserting.is_some() || self.is_being_called(submission)
    }

    /// Whether a call for this submission is in progress.
    pub(super) fn is_being_called(&self, submission: usize) -> bool {
        self.calls.iter().any(|call| call.submission == submission)
    }

    /// Callers that may die, and native transactions that the server may end.
    pub(super) fn possible_deaths(&self, events: &mut Vec<(u32, Event)>) {
        let faults_left = self.budget > 0;
        if faults_left {
            let weight = self.profile.crash;
            events.extend((0..self.calls.len()).map(|index| (weight, Event::CallerDies(index))));
        }
        for (index, doc) in self.server.primary.keyed.open.values().enumerate() {
            let mut callers = self.calls.iter().map(|call| &call.name);
            let is_abandoned = !callers.any(|name| doc.inserted_by.as_ref() == Some(name));
            if is_abandoned || faults_left {
                events.push((1, Event::EndOpen(index)));
            }
        }
    }

    /// A client dies while it submits. It starts again later, and submits again.
    pub(super) fn caller_dies(&mut self, index: usize) {
        let call = self.calls.swap_remove(index);
        self.budget -= 1;
        let waited_for = self.operations.iter_mut().find(|op| op.id == call.waits_for);
        if let Some(operation) = waited_for {
            operation.deaf = true;
            let name = operation.name();
            self.covered("caller dies", name);
        }
    }

    /// The server ends an open native transaction: as idle, or because somebody asks it to.
    pub(super) fn end_open(&mut self, index: usize) {
        let attempt = self.server.primary.keyed.open.keys().nth(index).cloned();
        if let Some(attempt) = attempt {
            self.server.primary.keyed.open.remove(&attempt);
            self.covered("ended by server", "insert keyed");
        }
    }
}
