//! What faults, brokers and clients do to the world: one function an event.

use common::account::Status;
use common::message::Message;
use common::queue::Outgoing;
use common::transaction::AccountId;
use rand::Rng;

use super::client::Sent;
use super::scenario::Submission;
use super::server::Request;
use super::world::{Operation, Stage, World};

impl World {
    /// Tells the client that the connection broke. What has not been executed may still be.
    pub(super) fn give_up(&mut self, index: usize, fault: &'static str) {
        let operation = &mut self.operations[index];
        let (owner, id, name) = (operation.owner, operation.id, operation.name());
        if !std::mem::replace(&mut operation.deaf, true) {
            self.budget = self.budget.saturating_sub(1);
            self.covered(fault, name);
            self.answer(owner, id, None);
        }
    }

    pub(super) fn fail_over(&mut self) {
        self.budget -= 1;
        let skew_max = self.staff.skew_max;
        let skew = self.rng.random_range(-skew_max..=skew_max);
        self.server.fail_over(skew);
        // Whatever ran on the old primary is cut off.
        for index in (0..self.operations.len()).rev() {
            let cut = match (&self.operations[index].sent, &self.operations[index].stage) {
                (Sent::Publish(_), _) | (_, Stage::OnTheWay) => false,
                (Sent::Request(_), Stage::Running { .. } | Stage::Executed { .. }) => true,
            };
            if cut {
                self.give_up(index, "fail-over");
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
        let operation = self.client_request(Request::Insert(id, body));
        if !accepted {
            self.submissions[index].inserting = Some(operation);
        }
    }

    pub(super) fn publish(&mut self, index: usize) {
        let message = Message::new(vec![self.submissions[index].id.clone()]);
        self.queue.store(&Outgoing::work(&message), self.now);
        self.submissions[index].published = true;
    }

    pub(super) fn sweep(&mut self, index: usize) {
        let unfinished: Vec<_> = self
            .server
            .primary
            .transactions
            .values()
            .filter(|doc| !doc.state.is_final())
            .map(|doc| doc.id.clone())
            .collect();
        let ids = if unfinished.len() > 1 && index.is_multiple_of(2) {
            unfinished
        } else {
            vec![self.submissions[index].id.clone()]
        };
        self.queue.store(&Outgoing::work(&Message::new(ids)), self.now);
    }

    pub(super) fn reverse(&mut self, index: usize) {
        let original = self.submissions[index].clone();
        let id = format!("reverse:{}", original.id);
        if self.submissions.iter().any(|submission| *submission.id == *id) {
            return;
        }
        self.budget -= 1;
        let body = original.body.reversed(&original.id);
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
}
