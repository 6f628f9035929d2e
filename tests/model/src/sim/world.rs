//! The scheduler: one seed decides what happens next, everywhere.
//!
//! Owns the time, the server, the queue, the workers and everything on its way between them. Each
//! turn picks one of the things that could happen. Promises that the same seed gives the same run.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use ledger::Written;
use ledger::transaction::TransactionId;
use queue::Outgoing;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use worker::decide::STRIKES_MAX;
use worker::metrics::Metrics;

use super::broker::Queue;
use super::client::{Owner, Sent, Shared};
use super::event::Event;
use super::keyed_calls::Call;
use super::model::Transaction;
use super::order::Order;
use super::planted::Planted;
use super::request::{Reply, Request};
use super::scenario::{Profile, Scenario, Submission};
use super::server::Server;
use super::staff::{Staff, Worker};

/// How often each fault hit each operation.
pub type Coverage = BTreeMap<(&'static str, &'static str), u64>;

/// How a run ended.
#[derive(Debug, Default)]
pub struct Report {
    /// The violations; empty is good.
    pub violations: Vec<String>,
    /// The number of turns.
    pub turns: u64,
    /// Faults by operation.
    pub coverage: Coverage,
    /// Every turn, if asked for.
    pub trace: Vec<String>,
}

/// Where a request is.
#[derive(Debug)]
pub(super) enum Stage {
    /// Between client and server.
    OnTheWay,
    /// Being executed, document by document, on the clock of its start.
    Running { started: i64, next: usize, written: Written },
    /// Executed; its answer waits for a majority to have the writes up to this one, and tells its
    /// client of the writes up to the second number.
    Executed { upto: u64, tells: u64, reply: Option<Reply> },
}

/// A request and who waits for it.
#[derive(Debug)]
pub(super) struct Operation {
    pub id: u64,
    /// A worker, or a producer.
    pub owner: Option<Owner>,
    pub sent: Sent,
    pub stage: Stage,
    /// The newest write that its client knows of: a read waits until it shows this write.
    pub after: u64,
    /// Nobody waits for the answer any more.
    pub deaf: bool,
    /// How fast it makes progress, as a weight.
    pub pace: u32,
}

impl Operation {
    pub(super) fn name(&self) -> &'static str {
        match &self.sent {
            Sent::Request(request) => request.name(),
            Sent::Publish(_) => "publish",
        }
    }
}

/// One run of the simulator.
pub struct World {
    pub(super) shared: Arc<Mutex<Shared>>,
    pub(super) server: Server,
    pub(super) queue: Queue,
    pub(super) operations: Vec<Operation>,
    pub(super) workers: Vec<Worker>,
    pub(super) submissions: Vec<Submission>,
    /// Submissions under exclusive keys that are in progress.
    pub(super) calls: Vec<Call>,
    pub(super) calls_so_far: u64,
    pub(super) staff: Staff,
    pub(super) rng: StdRng,
    pub(super) now: i64,
    pub(super) op_limit: i64,
    /// Faults that may still happen.
    pub(super) budget: u32,
    pub(super) profile: Profile,
    /// The documents that were odd at any time and could be repaired.
    pub(super) ever_odd: BTreeSet<Arc<str>>,
    /// The transactions that an operator has brought back. A worker may have read one just before.
    pub(super) unparked: BTreeSet<TransactionId>,
    /// The transactions that have been moved on from their rest and are not published yet.
    pub(super) stamped: BTreeSet<TransactionId>,
    /// Those that have ever been moved on.
    ever_moved_on: BTreeSet<TransactionId>,
    /// Nothing becomes odd any more, and every parked transaction is brought back.
    pub(super) mended: bool,
    pub(super) report: Report,
    tracing: bool,
    next_client_operation: u64,
    /// The order as somebody could have read it last.
    pub(super) followed: Order,
}

impl World {
    /// A world from a seed.
    #[must_use]
    pub fn new(
        seed: u64,
        planted: Option<Planted>,
        tracing: bool,
        metrics: &Arc<Metrics>,
    ) -> World {
        let mut rng = StdRng::seed_from_u64(seed);
        let scenario = Scenario::random(&mut rng, planted);
        let shared: Arc<Mutex<Shared>> = Arc::default();
        let staff = Staff::new(shared.clone(), &scenario, planted, metrics.clone());
        let workers = (0..scenario.workers.len()).map(|index| staff.hire(index, 0)).collect();
        let ever_odd = scenario.books.odd.mendable().cloned().collect();
        let mut server = Server::new(scenario.books, scenario.lease, planted);
        if scenario.profile.fail_over > 0 {
            server = server.lagging();
        }
        World {
            shared,
            server,
            queue: Queue::default(),
            operations: Vec::new(),
            workers,
            submissions: scenario.submissions,
            calls: Vec::new(),
            calls_so_far: 0,
            staff,
            rng,
            now: 0,
            op_limit: scenario.op_limit,
            budget: scenario.faults,
            profile: scenario.profile,
            ever_odd,
            unparked: BTreeSet::new(),
            stamped: BTreeSet::new(),
            ever_moved_on: BTreeSet::new(),
            mended: false,
            report: Report::default(),
            tracing,
            next_client_operation: 1 << 60,
            followed: Order::default(),
        }
    }

    /// Runs to the end and returns the violations.
    #[must_use]
    pub fn run(mut self) -> Report {
        self.advance_time(1);
        // If faults began at once, all would be used up before the first commit.
        let calm_turns = [0, 0, 60, 200][self.rng.random_range(0..4)];
        let faults = std::mem::take(&mut self.budget);
        while self.report.turns < calm_turns && self.report.violations.is_empty() {
            self.turn();
        }
        self.budget = faults;
        let faulty_turns = calm_turns + self.rng.random_range(50..600);
        while self.report.turns < faulty_turns && self.report.violations.is_empty() {
            self.turn();
        }
        self.budget = 0;
        self.come_to_rest();
        self.report
    }

    pub(super) fn turn(&mut self) {
        self.report.turns += 1;
        let events = self.possible();
        let total: u32 = events.iter().map(|(weight, _)| weight).sum();
        let mut chosen = self.rng.random_range(0..total);
        for (weight, event) in events {
            if chosen < weight {
                self.happen(event);
                return;
            }
            chosen -= weight;
        }
    }

    fn happen(&mut self, event: Event) {
        self.trace(|world| format!("{event:?} {}", world.describe(&event)));
        event.happen(self);
        self.collect();
    }

    pub(super) fn advance_time(&mut self, by: i64) {
        self.now += by;
        self.shared.lock().expect("one thread only").now = self.now;
        for index in 0..self.workers.len() {
            self.poll(index);
        }
    }

    /// Lets a worker's tasks run, unless it is stalled.
    pub(super) fn poll(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        if worker.stalled {
            return;
        }
        self.shared.lock().expect("one thread only").wake();
        let mut context = Context::from_waker(Waker::noop());
        worker.tasks.retain_mut(|task| Pin::as_mut(task).poll(&mut context).is_pending());
    }

    pub(super) fn wake(&mut self, index: usize) {
        self.workers[index].stalled = false;
        self.poll(index);
    }

    /// Takes over what the workers have sent, and what they have acknowledged.
    fn collect(&mut self) {
        let (sent, receipts) = {
            let mut shared = self.shared.lock().expect("one thread only");
            (std::mem::take(&mut shared.sent), std::mem::take(&mut shared.receipts))
        };
        for (id, owner, sent) in sent {
            self.send(id, owner, sent);
        }
        for (receipt, acknowledged) in receipts {
            if !acknowledged {
                self.queue.nack(receipt);
            } else if let Some(ids) = self.queue.acknowledge(receipt) {
                ids.iter().for_each(|id| self.check_acknowledged(id));
            }
        }
    }

    /// What is acknowledged has ended, rests or is parked, or another message stands for it. What
    /// has just been moved on from its rest has a stamp until whoever moved it, or a sweeper,
    /// publishes it: a worker may have seen it at rest just before.
    fn check_acknowledged(&mut self, id: &TransactionId) {
        let books = &self.server.majority;
        let ends = |doc: &Transaction| doc.state.is_final() || doc.state.is_resting();
        let has_ended = books.transactions.get(id).is_some_and(ends) || self.stamped.contains(id);
        let is_parked = books.is_parked(id) || self.unparked.contains(id);
        if !has_ended && !is_parked && !self.queue.stands_for(id) {
            self.violation(format!(
                "{id} was acknowledged, is neither final nor at rest nor parked, and has no message"
            ));
        }
    }

    /// What is given up because it kills its workers has died with them while it was alone, often
    /// enough.
    fn check_buried(&mut self, id: &TransactionId) {
        let deaths = self.queue.died_alone(id);
        if deaths < STRIKES_MAX {
            self.violation(format!("{id} is given up, and has died alone {deaths} times"));
        }
    }

    /// A sweeper or a client has moved it on from its rest, and will publish it.
    pub(super) fn moved_on(&mut self, id: TransactionId) {
        self.ever_moved_on.insert(id.clone());
        self.stamped.insert(id);
    }

    /// Stores a message. It stands for its transactions, so they need no stamp any more; except for
    /// those that reads may still show at rest, now or later: whoever reads them so does nothing.
    pub(super) fn store_message(&mut self, outgoing: &Outgoing) {
        for id in self.queue.store(outgoing, self.now) {
            if self.server.hidden() == 0 && self.server.shows_the_newest(&id) {
                self.stamped.remove(&id);
            }
        }
    }

    /// After a fail-over, what rests again needs no stamp. Reads that lag behind may show again at
    /// rest whatever was moved on.
    pub(super) fn stamp_again(&mut self) {
        if self.server.hidden() > 0 {
            self.stamped.extend(self.ever_moved_on.iter().cloned());
        }
        self.stamped.retain(|id| !self.server.rests(id));
    }

    /// A request of a producer, for which no task waits.
    pub(super) fn client_request(&mut self, request: Request) -> u64 {
        self.client_request_after(0, request)
    }

    /// A number that no operation of a client has.
    pub(super) fn next_number(&mut self) -> u64 {
        self.next_client_operation += 1;
        self.next_client_operation
    }

    /// The same, of a client that knows of the writes up to this one.
    pub(super) fn client_request_after(&mut self, newest_write: u64, request: Request) -> u64 {
        self.next_client_operation += 1;
        let id = self.next_client_operation;
        self.put_on_the_way(id, None, newest_write, Sent::Request(request));
        id
    }

    fn send(&mut self, id: u64, owner: Owner, sent: Sent) {
        if let Sent::Request(Request::ParkById(ids, _)) = &sent {
            ids.iter().for_each(|id| self.check_buried(id));
        }
        let after = self.workers[owner.0].newest_write;
        self.put_on_the_way(id, Some(owner), after, sent);
    }

    fn put_on_the_way(&mut self, id: u64, owner: Option<Owner>, after: u64, sent: Sent) {
        let pace = [2, 10, 30, 30][self.rng.random_range(0..4)];
        let stage = Stage::OnTheWay;
        self.operations.push(Operation { id, owner, sent, stage, after, deaf: false, pace });
    }

    /// Gives a client its answer, which tells it of all writes up to this one.
    pub(super) fn answer(&mut self, owner: Option<Owner>, id: u64, upto: u64, reply: Reply) {
        match owner {
            Some((worker, life)) => {
                if self.workers[worker].life == life {
                    let newest = &mut self.workers[worker].newest_write;
                    *newest = upto.max(*newest);
                    self.shared.lock().expect("one thread only").answers.insert(id, reply);
                    self.poll(worker);
                }
            }
            None if self.answer_call(id, upto, &reply) => {}
            None => {
                let ok = !matches!(reply, Reply::Failed(_));
                for submission in &mut self.submissions {
                    submission.answered(id, ok);
                }
            }
        }
    }

    pub(super) fn covered(&mut self, fault: &'static str, operation: &'static str) {
        *self.report.coverage.entry((fault, operation)).or_default() += 1;
    }

    pub(super) fn violation(&mut self, what: String) {
        self.trace(|_| format!("VIOLATION {what}"));
        self.report.violations.push(what);
    }

    fn trace(&mut self, line: impl FnOnce(&World) -> String) {
        if self.tracing {
            let line = line(self);
            self.report.trace.push(format!("{:>6} ms  {line}", self.now));
        }
    }

    fn describe(&self, event: &Event) -> String {
        let Some(index) = event.operation() else { return String::new() };
        let operation = &self.operations[index];
        let who = match operation.owner {
            Some((worker, life)) => format!("worker {worker}.{life}"),
            None => "producer".to_owned(),
        };
        format!("{who} {:?} {:?}", operation.sent, operation.stage)
    }
}
