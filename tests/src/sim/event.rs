//! What can happen next, how likely it is, and what it does.

use common::transaction::State;
use rand::Rng;

use super::check;
use super::client::Sent;
use super::server::Request;
use super::world::{Stage, World};

/// One thing that can happen. Numbers are indices.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A request goes on: it arrives, its next document is written, or its answer arrives.
    Proceed(usize),
    /// The client gives up on a request, or its connection breaks; the request may go on.
    GiveUp(usize),
    /// A request never arrives.
    Vanish(usize),
    /// Writes reach a majority.
    Replicate,
    /// Another member becomes primary.
    FailOver,
    /// The broker delivers to a worker; from the solo queue or not.
    Deliver(usize, bool),
    /// A worker's connection to the broker breaks.
    Disconnect(usize),
    /// A worker is killed and started again.
    Crash(usize),
    /// A worker stops running without knowing it.
    Stall(usize),
    /// It goes on.
    Wake(usize),
    /// Time passes: this much.
    Tick(i64),
    /// A producer inserts a submission, perhaps not for the first time.
    Submit(usize),
    /// A producer publishes an id, perhaps not for the first time.
    Publish(usize),
    /// A producer dies after the insert; the sweeper will find its submission.
    ProducerDies(usize),
    /// A client cancels.
    Cancel(usize),
    /// A client reverses.
    Reverse(usize),
    /// An operator freezes or opens an account.
    Toggle(usize),
    /// A sweeper publishes what is not final.
    Sweep(usize),
}

impl Event {
    /// The operation that it is about.
    pub(super) fn operation(self) -> Option<usize> {
        match self {
            Event::Proceed(index) | Event::GiveUp(index) | Event::Vanish(index) => Some(index),
            _ => None,
        }
    }

    pub(super) fn happen(self, world: &mut World) {
        match self {
            Event::Proceed(index) => world.proceed(index),
            Event::GiveUp(index) => world.give_up(index, "lost reply"),
            Event::Vanish(index) => {
                world.give_up(index, "lost request");
                world.operations.swap_remove(index);
            }
            Event::Replicate => {
                let count = world.rng.random_range(1..=4);
                world.server.replicate(count);
            }
            Event::FailOver => world.fail_over(),
            Event::Deliver(worker, solo) => world.deliver(worker, solo),
            Event::Disconnect(worker) => {
                world.budget -= 1;
                world.covered("disconnect", "broker");
                world.queue.disconnect(worker);
            }
            Event::Crash(worker) => world.crash(worker),
            Event::Stall(worker) => world.stall(worker),
            Event::Wake(worker) => world.wake(worker),
            Event::Tick(by) => world.advance_time(by),
            Event::Submit(index) => world.submit(index),
            Event::Publish(index) => world.publish(index),
            Event::ProducerDies(index) => {
                world.covered("producer dies", "publish");
                world.submissions[index].published = true;
            }
            Event::Cancel(index) => {
                let id = world.submissions[index].id.clone();
                world.client_request(Request::AskCancel(id));
            }
            Event::Reverse(index) => world.reverse(index),
            Event::Toggle(index) => world.toggle(index),
            Event::Sweep(index) => world.sweep(index),
        }
    }
}

impl World {
    /// Everything that can happen now, with its weight.
    pub(super) fn possible(&mut self) -> Vec<(u32, Event)> {
        let (small, large) = self.profile.tick;
        let mut events = vec![(small, Event::Tick(self.rng.random_range(1..=3)))];
        let jump = self.next_moment();
        events.extend(jump.map(|moment| (large, Event::Tick(moment - self.now))));
        self.possible_operations(&mut events);
        self.possible_workers(&mut events);
        self.possible_clients(&mut events);
        if !self.server.is_replicated() {
            events.push((15, Event::Replicate));
            if self.budget > 0 {
                events.push((self.profile.fail_over, Event::FailOver));
            }
        }
        events
    }

    /// A moment ahead at which something changes by itself.
    fn next_moment(&mut self) -> Option<i64> {
        let mut moments: Vec<i64> = self.queue.next_due(self.now).into_iter().collect();
        {
            let mut shared = self.shared.lock().expect("one thread only");
            shared.alarms.retain(|alarm| *alarm > self.now);
            moments.extend(&shared.alarms);
        }
        for doc in self.server.primary.transactions.values().filter(|doc| !doc.state.is_final()) {
            moments.extend([doc.lease_until, doc.takeover_at + 1]);
        }
        moments.retain(|moment| *moment > self.now);
        if moments.is_empty() {
            return None;
        }
        Some(moments[self.rng.random_range(0..moments.len())])
    }

    fn possible_operations(&self, events: &mut Vec<(u32, Event)>) {
        for (index, operation) in self.operations.iter().enumerate() {
            let answerable = match operation.stage {
                Stage::OnTheWay | Stage::Running { .. } => true,
                Stage::Executed { upto, .. } => self.server.durable() >= upto,
            };
            if answerable {
                let weight = if operation.deaf { self.profile.late } else { operation.pace };
                if !operation.deaf || self.budget > 0 {
                    events.push((weight, Event::Proceed(index)));
                }
            }
            if self.budget > 0 && !operation.deaf {
                // A producer that tries again and again would use up all the faults.
                let weight = self.profile.give_up / if operation.owner.is_none() { 4 } else { 1 };
                events.push((weight, Event::GiveUp(index)));
                if matches!(operation.stage, Stage::OnTheWay) {
                    events.push((weight.div_ceil(4), Event::Vanish(index)));
                }
            }
        }
    }

    fn possible_workers(&self, events: &mut Vec<(u32, Event)>) {
        let (work, solo) = (self.queue.ready(self.now, false), self.queue.ready(self.now, true));
        for (index, worker) in self.workers.iter().enumerate() {
            if worker.stalled {
                events.push((1, Event::Wake(index)));
                continue;
            }
            if worker.tasks.len() < self.staff.lanes {
                if !work.is_empty() {
                    events.push((10, Event::Deliver(index, false)));
                }
                if !solo.is_empty() {
                    events.push((10, Event::Deliver(index, true)));
                }
            }
            if self.budget > 0 && !worker.tasks.is_empty() {
                events.push((self.profile.crash, Event::Crash(index)));
                events.push((self.profile.stall, Event::Stall(index)));
                events.push((self.profile.disconnect, Event::Disconnect(index)));
            }
        }
    }

    fn possible_clients(&self, events: &mut Vec<(u32, Event)>) {
        for (index, submission) in self.submissions.iter().enumerate() {
            if submission.inserting.is_none() && !submission.accepted {
                events.push((10, Event::Submit(index)));
            }
            if submission.accepted && !submission.published {
                events.push((10, Event::Publish(index)));
            }
            let Some(doc) = self.server.primary.transactions.get(&submission.id) else { continue };
            // Dead letters, too: somebody looks at them in the end.
            if !doc.state.is_final() && !self.queue.will_deliver(&submission.id) {
                events.push((1, Event::Sweep(index)));
            }
            if self.budget == 0 || self.profile.clients == 0 {
                continue;
            }
            if submission.accepted && !submission.published {
                events.push((1, Event::ProducerDies(index)));
            }
            if submission.accepted {
                events.push((1, Event::Publish(index)));
                events.push((1, Event::Submit(index)));
            }
            match doc.state {
                State::Initial | State::Pending => events.push((1, Event::Cancel(index))),
                State::Applied | State::Done => {
                    if !submission.id.starts_with("reverse:") {
                        events.push((1, Event::Reverse(index)));
                    }
                }
                State::Canceling | State::Canceled => {}
            }
        }
        if self.budget > 0 && self.profile.clients > 0 {
            events.extend((0..self.server.primary.accounts.len()).map(|i| (1, Event::Toggle(i))));
        }
    }

    fn proceed(&mut self, index: usize) {
        let operation = &mut self.operations[index];
        let deaf_before = operation.deaf;
        // A native transaction is many operations; how long its client takes between them is open.
        let native = matches!(operation.sent, Sent::Request(Request::Transact(..)));
        match &mut operation.stage {
            Stage::OnTheWay => {
                let name = operation.name();
                operation.stage = Stage::Running { started: self.now, next: 0, matched: 0 };
                if deaf_before {
                    self.covered("late", name);
                }
            }
            Stage::Running { started, .. } if !native && self.now - *started > self.op_limit => {
                self.give_up(index, "time limit");
                self.operations.swap_remove(index);
            }
            Stage::Running { .. } => self.run_step(index),
            Stage::Executed { reply, .. } => {
                let reply = reply.take();
                let operation = self.operations.swap_remove(index);
                if !operation.deaf {
                    self.answer(operation.owner, operation.id, reply);
                }
            }
        }
    }

    fn run_step(&mut self, index: usize) {
        let operation = &mut self.operations[index];
        let Stage::Running { started, next, matched } = &mut operation.stage else { return };
        let steps = match &operation.sent {
            Sent::Request(request) => {
                if *next < request.steps() {
                    *matched += self.server.step(request, *next, *started);
                }
                request.steps()
            }
            Sent::Publish(messages) => {
                self.queue.store(&messages[*next], self.now);
                messages.len()
            }
        };
        *next += 1;
        if *next >= steps {
            let (upto, reply) = match &operation.sent {
                // A write answers when all before it is durable, a majority read at once.
                Sent::Request(request @ (Request::Read(_) | Request::Accounts(_))) => {
                    (0, self.server.reply(request, 0, self.now))
                }
                Sent::Request(request) => {
                    (self.server.written, self.server.reply(request, *matched, self.now))
                }
                Sent::Publish(_) => (0, super::server::Reply::Count(0)),
            };
            operation.stage = Stage::Executed { upto, reply: Some(reply) };
        }
        let below: Vec<_> =
            self.server.primary.accounts.values().filter_map(check::below_floor).collect();
        below.into_iter().for_each(|what| self.violation(what));
    }
}
