//! The worker's side of the simulation: broker and environment for the real engine, and the way to
//! the database (see [`super::ledger`]).
//!
//! Owns nothing but a handle on the state that is shared with the scheduler. Every call becomes a
//! request, which the scheduler delivers, answers, drops or delays.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use engine::Environment;
use ledger::LedgerError;
use ledger::transaction::{ParkCode, Parked, TransactionId};
use queue::{Outgoing, QueueError};
use worker::acknowledge::Broker;
use worker::decide::{Publishing, kills};
use worker::suspects::Suspects;

use super::planted::Planted;
use super::request::{Reply, Request};

/// How often a publication is tried: more often than its confirm may get lost in most runs.
const PUBLISH_TRIES: u32 = 3;

/// A worker, and how often it was started.
pub type Owner = (usize, u32);

/// A message from a worker.
#[derive(Debug)]
pub enum Sent {
    /// To the database.
    Request(Request),
    /// To the broker, to be confirmed.
    Publish(Vec<Outgoing>),
}

/// The state that tasks and the scheduler share.
#[derive(Debug, Default)]
pub struct Shared {
    /// The time, in milliseconds.
    pub now: i64,
    next: u64,
    random: u64,
    /// Sent and not yet taken by the scheduler.
    pub sent: VecDeque<(u64, Owner, Sent)>,
    /// Answers not yet taken by the tasks.
    pub answers: BTreeMap<u64, Reply>,
    /// Receipts acknowledged (true) or given back, not yet taken by the scheduler.
    pub receipts: VecDeque<(u64, bool)>,
    /// When sleeping tasks want to be woken.
    pub alarms: Vec<i64>,
    /// Tasks that are polled only when they are woken: those within a set of tasks.
    wakers: Vec<Waker>,
}

impl Shared {
    /// Has every task polled again.
    pub(super) fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }

    fn wait<T>(&mut self, context: &Context<'_>) -> Poll<T> {
        if !context.waker().will_wake(Waker::noop()) {
            self.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// The worker's end.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Mutex<Shared>>,
    owner: Owner,
    /// The error of the worker's wall clock.
    clock_error: i64,
    pub(super) planted: Option<Planted>,
    /// Whether what has ended gets its numbers.
    pub(super) numbers: bool,
    /// The transactions that this start of the worker has taken over.
    taken_over: Arc<Mutex<BTreeSet<TransactionId>>>,
}

impl Client {
    /// A client for one start of a worker.
    #[must_use]
    pub fn new(
        shared: Arc<Mutex<Shared>>,
        owner: Owner,
        clock_error: i64,
        planted: Option<Planted>,
    ) -> Client {
        Client { shared, owner, clock_error, planted, numbers: true, taken_over: Arc::default() }
    }

    /// The same without numbers: what depends on nothing else need not be searched.
    #[must_use]
    pub fn without_numbers(self) -> Client {
        Client { numbers: false, ..self }
    }

    /// Which worker it is, whenever it was started.
    pub(super) fn name(&self) -> String {
        format!("worker {}", self.owner.0)
    }

    /// Whether the broker seems to take publications: an alarm may begin or end at any moment.
    pub(super) fn publishing(&self) -> Publishing {
        if self.jitter() < 0.7 { Publishing::Open } else { Publishing::Shut }
    }

    pub(super) fn take_over(&self, ids: impl IntoIterator<Item = TransactionId>) {
        self.taken_over.lock().expect("one thread only").extend(ids);
    }

    pub(super) fn has_taken_over(&self, id: &TransactionId) -> bool {
        self.taken_over.lock().expect("one thread only").contains(id)
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("one thread only")
    }

    fn send(&self, sent: Sent) -> impl Future<Output = Reply> + Send + use<> {
        let id = {
            let mut shared = self.shared();
            shared.next += 1;
            let id = shared.next;
            shared.sent.push_back((id, self.owner, sent));
            id
        };
        let shared = self.shared.clone();
        poll_fn(move |context| {
            let mut shared = shared.lock().expect("one thread only");
            match shared.answers.remove(&id) {
                Some(answer) => Poll::Ready(answer),
                None => shared.wait(context),
            }
        })
    }

    /// Sends a request to the database, and waits.
    pub(super) async fn request(&self, request: Request) -> Result<Reply, LedgerError> {
        let operation = request.name();
        let reply = self.send(Sent::Request(request)).await;
        if let Reply::Failed(fault) = reply {
            let message = format!("the model fails it as {fault:?}");
            let error = LedgerError::passing(operation, message);
            return Err(LedgerError { fault, ..error });
        }
        Ok(reply)
    }

    /// The time, and a unique number.
    pub(super) fn now_and_number(&self) -> (i64, u64) {
        let mut shared = self.shared();
        shared.next += 1;
        (shared.now + self.clock_error, shared.next)
    }
}

impl Environment for Client {
    fn now_ms(&self) -> i64 {
        // This clock starts at another value than the server's, as a monotonic clock does.
        self.shared().now - 1_000_000
    }

    fn sleep(&self, delay: Duration) -> impl Future<Output = ()> + Send {
        let until = self.shared().now + i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        self.shared().alarms.push(until);
        let shared = self.shared.clone();
        poll_fn(move |context| {
            let mut shared = shared.lock().expect("one thread only");
            if shared.now >= until { Poll::Ready(()) } else { shared.wait(context) }
        })
    }

    fn jitter(&self) -> f64 {
        // A Weyl sequence is spread well enough, and costs no state beyond a counter.
        let mut shared = self.shared();
        shared.random = shared.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (shared.random >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn token(&self) -> String {
        let mut shared = self.shared();
        shared.next += 1;
        format!("w{}.{}.{}", self.owner.0, self.owner.1, shared.next)
    }

    /// A run is too short for the engine to change its mind often. So every other worker chooses by
    /// chance: either way is right at any moment.
    fn chooses_native(&self, advice: impl FnOnce() -> bool) -> bool {
        let (worker, life) = self.owner;
        if (worker + life as usize).is_multiple_of(2) { advice() } else { self.jitter() < 0.5 }
    }
}

impl Broker for Client {
    type Receipt = u64;

    async fn publish(&self, messages: &[Outgoing]) -> Result<(), QueueError> {
        if messages.is_empty() {
            return Ok(());
        }
        // A worker tries on until it stops.
        for _ in 0..PUBLISH_TRIES {
            let answer = self.send(Sent::Publish(messages.to_vec())).await;
            let confirmed = !matches!(answer, Reply::Failed(_));
            if confirmed || self.planted == Some(Planted::RequeueWithoutConfirm) {
                return Ok(());
            }
        }
        Err(QueueError::NotTaken("the worker stops".into()))
    }

    async fn ack(&self, receipts: &[&u64]) {
        self.shared().receipts.extend(receipts.iter().map(|receipt| (**receipt, true)));
    }

    async fn nack(&self, receipt: &u64) {
        self.shared().receipts.push_back((*receipt, false));
    }

    /// Nobody here knows it: a worker learns it from its connection.
    async fn lost(&self, _receipt: &u64) {
        std::future::pending().await
    }

    async fn reject(&self, _receipt: &u64) {
        unreachable!(
            "only what nobody can use is rejected, and here nobody publishes such messages"
        )
    }
}

/// Nobody notes anything here, so the strikes alone decide.
impl Suspects for Client {
    async fn begin_alone(&self, _id: &TransactionId) -> Result<(), LedgerError> {
        Ok(())
    }

    async fn survived(&self, _id: &TransactionId) -> Result<(), LedgerError> {
        Ok(())
    }

    async fn park_killer(&self, id: &TransactionId) -> Result<bool, LedgerError> {
        let why = Parked::new(ParkCode::KillsWorker, "its workers died with it");
        self.request(Request::ParkById(vec![id.clone()], why)).await.map(|_| kills(None))
    }
}
