//! What faults, brokers and clients do to the system: one function for each event.

use ledger::Fault;
use ledger::account::Status;
use ledger::message::Message;
use ledger::transaction::{AccountId, State};
use queue::Outgoing;
use rand::Rng;

use super::client::Sent;
use super::event::Event;
use super::journal;
use super::odd::Oddity;
use super::order;
use super::request::{Reply, Request};
use super::scenario::{Submission, random_capture};
use super::world::{Operation, Stage, World};

impl World {
    /// Tells the client that its request failed. The rest of the request may still be executed.
    pub(super) fn give_up(&mut self, index: usize, what: &'static str, fault: Fault) {
        let operation = &mut self.operations[index];
        let (owner, id, name) = (operation.owner, operation.id, operation.name());
        if !std::mem::replace(&mut operation.deaf, true) {
            self.budget = self.budget.saturating_sub(1);
            self.covered(what, name);
            self.answer(owner, id, 0, Reply::Failed(fault));
        }
    }

    pub(super) fn fail_over(&mut self) {
        self.budget -= 1;
        let skew_max = self.staff.skew_max;
        let skew = self.rng.random_range(-skew_max..=skew_max);
        let hidden = [0, 0, 2, 4, 8, 12][self.rng.random_range(0..6)];
        self.server.fail_over(skew, hidden);
        self.forget_lost_writes();
        self.watch_calls();
        self.stamp_again();
        // Requests that ran on the old primary are cut off.
        for index in (0..self.operations.len()).rev() {
            let cut = match (&self.operations[index].sent, &self.operations[index].stage) {
                (Sent::Publish(_), _) | (_, Stage::OnTheWay) => false,
                (Sent::Request(request), _) if request.is_for_the_broker() => false,
                (Sent::Request(_), Stage::Running { .. } | Stage::Executed { .. }) => true,
            };
            if cut {
                self.give_up(index, "fail-over", Fault::Passing);
                self.operations.swap_remove(index);
            }
        }
    }

    pub(super) fn deliver(&mut self, worker: usize, solo: bool) {
        let batch = if solo { 1 } else { self.rng.random_range(1..=4) };
        let owner = (worker, self.workers[worker].life);
        let mut deliveries = Vec::new();
        for _ in 0..batch {
            let ready = self.queue.ready(self.now, solo);
            if ready.is_empty() {
                break;
            }
            let index = ready[self.rng.random_range(0..ready.len())];
            deliveries.push(self.queue.deliver(index, owner));
        }
        self.staff.assign(&mut self.workers[worker], deliveries);
        self.poll(worker);
    }

    fn hit_worker(&mut self, worker: usize, fault: &'static str) {
        self.budget -= 1;
        let of_worker = |owner: Option<(usize, u32)>| owner.is_some_and(|(w, _)| w == worker);
        let names: Vec<_> = self
            .operations
            .iter()
            .filter(|operation| of_worker(operation.owner) && !operation.deaf)
            .map(Operation::name)
            .collect();
        names.into_iter().for_each(|name| self.covered(fault, name));
    }

    pub(super) fn crash(&mut self, worker: usize) {
        self.hit_worker(worker, "crash");
        let life = self.workers[worker].life;
        self.workers[worker] = self.staff.hire(worker, life + 1);
        for operation in &mut self.operations {
            operation.deaf |= operation.owner == Some((worker, life));
        }
        self.queue.disconnect(worker);
    }

    pub(super) fn stall(&mut self, worker: usize) {
        self.hit_worker(worker, "stall");
        self.workers[worker].stalled = true;
        if self.rng.random_bool(0.7) {
            self.queue.disconnect(worker);
        }
    }

    pub(super) fn submit(&mut self, index: usize) {
        let Submission { id, body, accepted, .. } = self.submissions[index].clone();
        if let Some(key) = body.terms().exclusive_key.clone() {
            return self.begin_call(index, &key);
        }
        let operation = self.client_request(Request::Insert(id, body));
        if !accepted {
            self.submissions[index].inserting = Some(operation);
        }
    }

    pub(super) fn publish(&mut self, index: usize) {
        let message = Message::new(vec![self.submissions[index].id.clone()]);
        self.store_message(&Outgoing::work(&message));
        self.submissions[index].published = true;
    }

    pub(super) fn sweep(&mut self, index: usize) {
        let unfinished: Vec<_> = self
            .server
            .primary
            .transactions
            .values()
            .filter(|doc| State::UNFINISHED.contains(&doc.state))
            .filter(|doc| !self.server.primary.is_parked(&doc.id))
            .map(|doc| doc.id.clone())
            .collect();
        let ids = if unfinished.len() > 1 && index.is_multiple_of(2) {
            unfinished
        } else {
            vec![self.submissions[index].id.clone()]
        };
        self.store_message(&Outgoing::work(&Message::new(ids)));
    }

    /// A sweeper numbers what a line has ended that a majority has noted as due, then publishes its
    /// events, and then removes the note. It reads them from the line.
    pub(super) fn sweep_events(&mut self, index: usize) {
        let Some(line) = self.server.majority.due.keys().nth(index).cloned() else { return };
        let events = journal::events(&self.server.majority, &line);
        if !order::has(&self.server.majority.order, &line) {
            let number = u64::MAX - self.next_number();
            self.client_request(Request::Number(number, vec![(line, events.len() as u64)], true));
        } else if events.iter().all(|event| self.server.majority.sent.contains(event)) {
            self.client_request(Request::Forget(vec![line]));
        } else {
            self.client_request(Request::Announce(events));
        }
    }

    /// A client confirms a hold, or tries to: what it captures is in the request.
    pub(super) fn confirm(&mut self, index: usize) {
        let Submission { id, body, .. } = &self.submissions[index];
        let captured = random_capture(&mut self.rng, body);
        let request = Request::Confirm(id.clone(), captured);
        self.client_request(request);
    }

    pub(super) fn reverse(&mut self, index: usize) {
        let original = self.submissions[index].clone();
        let stored = self.server.primary.transactions.get(&original.id);
        let Some(Ok(body)) = stored.map(|doc| doc.body.clone()) else { return };
        let id = format!("reverse:{}", original.id);
        if self.submissions.iter().any(|submission| *submission.id == *id) {
            return;
        }
        self.budget -= 1;
        let body = body.reversed(&original.id);
        self.submissions.push(Submission::new(id.as_str().into(), body));
    }

    pub(super) fn toggle(&mut self, index: usize) {
        self.budget -= 1;
        let Some((id, account)) = self.server.primary.accounts.iter().nth(index) else { return };
        let status = match account.status {
            Status::Open => Status::Frozen,
            Status::Frozen | Status::Closed => Status::Open,
        };
        let id: AccountId = id.clone();
        self.client_request(Request::SetStatus(id, status));
    }

    /// What may become odd, and what may be repaired, while faults are left.
    pub(super) fn possible_oddities(&self, events: &mut Vec<(u32, Event)>) {
        let weight = self.profile.odd;
        if self.budget == 0 || weight == 0 {
            return;
        }
        let books = &self.server.primary;
        let documents = books.accounts.len() + books.transactions.len();
        events.extend((0..documents).map(|index| (weight, Event::Spoil(index))));
        let mendable = books.odd.mendable().count();
        events.extend((0..mendable).map(|index| (weight, Event::Mend(index))));
    }

    pub(super) fn spoil(&mut self, index: usize) {
        self.budget -= 1;
        let books = &self.server.primary;
        let (id, oddity) = match index.checked_sub(books.accounts.len()) {
            None => {
                let oddity = Oddity::OF_ACCOUNTS[self.rng.random_range(0..4)];
                (books.accounts.keys().nth(index), oddity)
            }
            Some(index) => {
                let oddity = Oddity::OF_TRANSACTIONS[self.rng.random_range(0..2)];
                (books.transactions.keys().nth(index), oddity)
            }
        };
        let Some(id) = id.cloned() else { return };
        self.covered("odd", oddity.name());
        self.server.spoil(&id, oddity);
        self.ever_odd.insert(id);
    }

    pub(super) fn mend(&mut self, index: usize) {
        let id = self.server.primary.odd.mendable().nth(index).cloned();
        if let Some(id) = id {
            self.server.mend(&id);
        }
    }

    /// Brings a transaction back and publishes its id, as the producer's command does.
    pub(super) fn unpark(&mut self, index: usize) {
        let id = self.submissions[index].id.clone();
        self.server.step(&Request::Unpark(id.clone()), 0, self.now);
        self.store_message(&Outgoing::work(&Message::new(vec![id.clone()])));
        self.unparked.insert(id);
    }
}
