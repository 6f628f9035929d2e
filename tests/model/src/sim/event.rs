//! What can happen next, how likely it is, and what it does.

use ledger::Fault;
use ledger::transaction::{Body, State};
use mongodb::bson::DateTime;
use rand::Rng;

use super::model::Transaction;
use super::moments::has_expired;
use super::request::Request;
use super::world::{Stage, World};

/// One thing that can happen. Numbers are indices.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A request makes progress: it arrives, its next document is written, or its answer arrives.
    Proceed(usize),
    /// The client gives up on a request, or its connection breaks; the request may go on.
    GiveUp(usize),
    /// A request never arrives.
    Vanish(usize),
    /// Writes reach a majority.
    Replicate,
    /// The primary learns that a majority has more of its writes.
    CatchUp,
    /// Another member becomes primary.
    FailOver,
    /// The broker delivers to a worker; from the solo queue or not.
    Deliver(usize, bool),
    /// A worker's connection to the broker breaks.
    Disconnect(usize),
    /// A worker is killed and started again.
    Crash(usize),
    /// A worker stops running and does not notice.
    Stall(usize),
    /// The worker goes on.
    Wake(usize),
    /// Time passes: this much.
    Tick(i64),
    /// A producer inserts a submission, perhaps not for the first time.
    Submit(usize),
    /// A producer publishes an id, perhaps not for the first time.
    Publish(usize),
    /// A producer dies after the insert; the sweeper will find its submission.
    ProducerDies(usize),
    /// A client dies while it submits a transaction with an exclusive key.
    CallerDies(usize),
    /// The server ends a native transaction that has inserted and not committed.
    EndOpen(usize),
    /// A client cancels.
    Cancel(usize),
    /// A sweeper looks at what is scheduled.
    MakeDue(usize),
    /// A sweeper looks at what may have expired.
    Expire(usize),
    /// A client reschedules, to so many milliseconds from now.
    Reschedule(usize, i64),
    /// A client reverses.
    Reverse(usize),
    /// A client confirms a hold.
    Confirm(usize),
    /// A sweeper looks at a hold that may have expired.
    ExpireHold(usize),
    /// An operator freezes or opens an account.
    Toggle(usize),
    /// A sweeper publishes transactions that are neither final nor parked.
    Sweep(usize),
    /// A sweeper publishes due events, or removes their note.
    SweepEvents(usize),
    /// A document becomes odd.
    Spoil(usize),
    /// A document becomes what it was.
    Mend(usize),
    /// An operator brings back a parked transaction.
    Unpark(usize),
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
            Event::GiveUp(index) => world.give_up(index, "lost reply", Fault::Passing),
            Event::Vanish(index) => {
                world.give_up(index, "lost request", Fault::Passing);
                world.operations.swap_remove(index);
            }
            Event::Replicate => {
                let count = world.rng.random_range(1..=4);
                for _ in 0..count.min(world.server.waiting()) {
                    world.server.replicate(1);
                    world.check_durable();
                }
            }
            Event::CatchUp => {
                let count = world.rng.random_range(1..=4);
                world.server.catch_up(count);
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
            Event::CallerDies(index) => world.caller_dies(index),
            Event::EndOpen(index) => world.end_open(index),
            Event::Cancel(index) => {
                let id = world.submissions[index].id.clone();
                world.client_request(Request::AskCancel(id));
            }
            Event::MakeDue(index) => {
                let id = world.submissions[index].id.clone();
                world.client_request(Request::MakeDue(id));
            }
            Event::Expire(index) => {
                let id = world.submissions[index].id.clone();
                world.client_request(Request::Expire(id));
            }
            Event::Reschedule(index, delay) => {
                let id = world.submissions[index].id.clone();
                world.client_request(Request::Reschedule(id, world.now + delay));
            }
            Event::Reverse(index) => world.reverse(index),
            Event::Confirm(index) => world.confirm(index),
            Event::ExpireHold(index) => {
                let id = world.submissions[index].id.clone();
                world.client_request(Request::ExpireHold(id));
            }
            Event::Toggle(index) => world.toggle(index),
            Event::Sweep(index) => world.sweep(index),
            Event::SweepEvents(index) => world.sweep_events(index),
            Event::Spoil(index) => world.spoil(index),
            Event::Mend(index) => world.mend(index),
            Event::Unpark(index) => world.unpark(index),
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
        self.possible_deaths(&mut events);
        self.possible_returns(&mut events);
        self.possible_oddities(&mut events);
        events.extend((0..self.server.majority.due.len()).map(|at| (1, Event::SweepEvents(at))));
        if self.server.hidden() > 0 {
            events.push((3, Event::CatchUp));
        }
        if !self.server.is_replicated() {
            events.push((self.profile.replicate, Event::Replicate));
            if self.budget > 0 {
                events.push((self.profile.fail_over, Event::FailOver));
            }
        }
        events
    }

    /// The next moment at which something changes by itself.
    fn next_moment(&mut self) -> Option<i64> {
        let mut moments: Vec<i64> = self.queue.next_due(self.now).into_iter().collect();
        {
            let mut shared = self.shared.lock().expect("one thread only");
            shared.alarms.retain(|alarm| *alarm > self.now);
            moments.extend(&shared.alarms);
        }
        for doc in self.server.primary.transactions.values().filter(|doc| !doc.state.is_final()) {
            let terms = doc.body.iter().map(|body| body.terms());
            let moments_of = terms.flat_map(|t| [t.not_before, t.expires_at, t.hold_expires_at]);
            moments.extend(moments_of.flatten().map(DateTime::timestamp_millis));
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
            if self.goes_on(operation) {
                let weight = if operation.deaf { self.profile.late } else { operation.pace };
                if !operation.deaf || self.budget > 0 {
                    events.push((weight, Event::Proceed(index)));
                }
            }
            if self.budget > 0 && !operation.deaf {
                // A producer that tries again and again would use up all faults.
                let repeats = operation.owner.is_none() && !self.is_of_a_call(operation.id);
                let weight = self.profile.give_up / if repeats { 4 } else { 1 };
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

    /// Sweepers look at what waits for a moment; statements of theirs may arrive at any time after.
    fn possible_moments(&self, index: usize, doc: &Transaction, events: &mut Vec<(u32, Event)>) {
        if self.server.primary.is_parked(&doc.id) {
            return;
        }
        let terms = doc.body.as_ref().ok().map(Body::terms);
        let has_come = |moment: Option<DateTime>| {
            moment.is_some_and(|moment| moment.timestamp_millis() <= self.now)
        };
        if doc.state == State::Scheduled && terms.is_some_and(|terms| has_come(terms.not_before)) {
            events.push((2, Event::MakeDue(index)));
        }
        if doc.state == State::Scheduled && self.budget > 0 && self.profile.clients > 0 {
            events.push((1, Event::Reschedule(index, 50)));
        }
        let waits = matches!(doc.state, State::Scheduled | State::Initial);
        let may_expire = terms.is_some_and(|terms| terms.expires_at.is_some());
        if may_expire && (self.budget > 0 || (waits && has_expired(doc, self.now))) {
            events.push((1, Event::Expire(index)));
        }
    }

    /// What becomes of a hold. In the end every hold is confirmed or released.
    fn possible_decisions(&self, index: usize, doc: &Transaction, events: &mut Vec<(u32, Event)>) {
        let rests = doc.state == State::Held;
        let is_hold = doc.body.as_ref().is_ok_and(|body| body.terms().hold);
        if rests || (is_hold && self.budget > 0) {
            events.extend([(1, Event::Confirm(index)), (1, Event::ExpireHold(index))]);
        }
        if rests && self.budget == 0 && self.mended {
            events.push((1, Event::Cancel(index)));
        }
    }

    fn possible_clients(&self, events: &mut Vec<(u32, Event)>) {
        for (index, submission) in self.submissions.iter().enumerate() {
            if !submission.accepted && !self.is_being_submitted(index) {
                // What was refused is tried again later.
                let weight = if submission.refused { 1 } else { 10 };
                events.push((weight, Event::Submit(index)));
            }
            if submission.accepted && !submission.published {
                events.push((10, Event::Publish(index)));
            }
            let Some(doc) = self.server.primary.transactions.get(&submission.id) else { continue };
            self.possible_moments(index, doc, events);
            // Dead letters, too: in the end somebody looks at them.
            let parked = self.server.primary.is_parked(&submission.id);
            let goes_on = !doc.state.is_final() && !doc.state.is_resting();
            if goes_on && !parked && !self.queue.will_deliver(&submission.id) {
                events.push((1, Event::Sweep(index)));
            }
            self.possible_decisions(index, doc, events);
            if self.budget == 0 || self.profile.clients == 0 {
                continue;
            }
            if submission.accepted && !submission.published {
                events.push((1, Event::ProducerDies(index)));
            }
            if submission.accepted {
                events.push((1, Event::Publish(index)));
            }
            if submission.accepted || self.is_being_called(index) {
                events.push((1, Event::Submit(index)));
            }
            match doc.state {
                State::Scheduled | State::Initial | State::Pending | State::Held => {
                    events.push((1, Event::Cancel(index)));
                }
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
}
