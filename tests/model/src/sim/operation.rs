//! Operations on their way: one step at a time, from the client to the server and back.

use ledger::transaction::TransactionId;
use ledger::{Fault, Refused, Written};
use rand::Rng;

use super::client::Sent;
use super::odd::Oddity;
use super::request::{Reply, Request};
use super::server::Stepped;
use super::world::{Operation, Stage, World};
use super::{check, journal, keyed, order};

impl World {
    /// Whether an operation can make progress now.
    pub(super) fn goes_on(&self, operation: &Operation) -> bool {
        match (&operation.stage, &operation.sent) {
            (Stage::OnTheWay, _) => true,
            (Stage::Running { started, .. }, Sent::Request(request)) if request.is_read() => {
                self.server.shows(operation.after) || self.now - started > self.op_limit
            }
            (Stage::Running { .. }, _) => true,
            (Stage::Executed { upto, .. }, _) => self.server.durable() >= *upto,
        }
    }

    pub(super) fn proceed(&mut self, index: usize) {
        let too_slow = self.is_cut_off(index);
        let operation = &mut self.operations[index];
        let deaf_before = operation.deaf;
        let native = matches!(&operation.sent, Sent::Request(request) if request.is_native());
        match &mut operation.stage {
            Stage::OnTheWay => {
                let name = operation.name();
                let written = Written::default();
                operation.stage = Stage::Running { started: self.now, next: 0, written };
                if deaf_before {
                    self.covered("late", name);
                }
            }
            Stage::Running { started, .. } if !native && self.now - *started > self.op_limit => {
                self.give_up(index, "time limit", Fault::TooMuch);
                self.operations.swap_remove(index);
            }
            Stage::Running { .. } if too_slow => {
                self.give_up(index, "too slow", Fault::TooMuch);
                self.operations.swap_remove(index);
            }
            Stage::Running { .. } => self.run_step(index),
            Stage::Executed { reply, tells, .. } => {
                let (reply, upto) = (reply.take(), *tells);
                let operation = self.operations.swap_remove(index);
                if let Some(reply) = reply.filter(|_| !operation.deaf) {
                    self.answer(operation.owner, operation.id, upto, reply);
                }
            }
        }
    }

    /// Checks what has to hold at any moment of what is durable, whoever dies then.
    pub(super) fn check_durable(&mut self) {
        let books = &self.server.majority;
        let mut wrong = check::untrue_events(books);
        wrong.extend(journal::violations(books));
        wrong.extend(order::violations(books));
        wrong.extend(order::changed(&self.followed, &books.order));
        self.followed.clone_from(&books.order);
        if self.staff.events {
            wrong.extend(check::unannounced(books));
            wrong.extend(order::unnumbered(books));
        }
        wrong.into_iter().for_each(|what| self.violation(what));
    }

    /// Whether a command for a slow document and others is cut off here, at some step before its
    /// end.
    fn is_cut_off(&mut self, index: usize) -> bool {
        let operation = &self.operations[index];
        let (Sent::Request(request), Stage::Running { next, .. }) =
            (&operation.sent, &operation.stage)
        else {
            return false;
        };
        let documents = request.documents();
        let odd = &self.server.primary.odd;
        let slow = documents.len() > 1 && documents.iter().any(|id| odd.is(id, Oddity::Slow));
        let last = next + 1 >= request.steps();
        slow && (last || self.rng.random_bool(0.5))
    }

    fn run_step(&mut self, index: usize) {
        let operation = &mut self.operations[index];
        let Stage::Running { started, next, written } = &mut operation.stage else { return };
        let (mut stored, mut moved_on) = (None, None);
        let tells = matches!(&operation.sent, Sent::Request(Request::Announce(_)));
        let steps = match &operation.sent {
            Sent::Request(request) => {
                if *next < request.steps() {
                    let rests = |id: &&TransactionId| self.server.rests(id);
                    let rested = request.moves_on().filter(rests);
                    let clock = if request.is_native() { self.now } else { *started };
                    match self.server.step(request, *next, clock) {
                        Stepped::Nothing => {}
                        Stepped::Wrote => {
                            moved_on = rested.cloned();
                            written.count += 1;
                        }
                        Stepped::Refused => {
                            let problem = "the server refuses it".to_owned();
                            written.refused.push(Refused { item: *next, problem });
                        }
                    }
                }
                request.steps()
            }
            Sent::Publish(messages) => {
                stored = Some(messages[*next].clone());
                messages.len()
            }
        };
        *next += 1;
        if *next >= steps {
            let mut written = std::mem::take(written);
            if !written.refused.is_empty() {
                // The count may be too low in this case.
                written.count = self.rng.random_range(0..=written.count);
            }
            let (upto, tells, reply) = match &operation.sent {
                Sent::Request(request) => {
                    let (upto, tells) = self.server.moments_of_answer(request);
                    (upto, tells, self.server.reply(request, written, self.now))
                }
                Sent::Publish(_) => (0, 0, Reply::Written(written)),
            };
            operation.stage = Stage::Executed { upto, tells, reply: Some(reply) };
        }
        if let Some(id) = moved_on {
            self.moved_on(id);
        }
        if let Some(message) = stored {
            self.store_message(&message);
        }
        self.watch_calls();
        if tells {
            self.check_durable();
        }
        let mut wrong: Vec<_> =
            self.server.primary.accounts.values().filter_map(check::below_floor).collect();
        wrong.extend(check::wrongly_at_rest(&self.server.primary));
        wrong.extend(check::untimely(&self.server.primary));
        wrong.extend(keyed::violations(&self.server.primary));
        wrong.into_iter().for_each(|what| self.violation(what));
    }
}
