//! The real engine as a protocol to search, over the simulator's model of the database.
//!
//! Owns nothing of the protocol: it starts the engine's future from the beginning, gives it the
//! answers that its run has received, and takes the request that it then waits for. Uses the engine
//! through its two traits only, [`common::ledger::Ledger`] and [`Environment`].

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::account::Account;
use common::amount::Amount;
use common::ledger::{Fault, LeaseMs};
use common::retry::Policy;
use common::transaction::{Body, TransactionId};
use futures_util::future::join;
use worker::engine::{Announcer, Engine, EngineKind, EngineSettings, Environment};
use worker::metrics::Metrics;

use super::protocol::{Heard, Next, Protocol, Tally, What};
use super::rest::LAST_WORKER_AT;
use super::scope::{Client, Scope};
use super::trace;
use crate::sim::Planted;
use crate::sim::check;
use crate::sim::client::{Client as Ledger, Sent, Shared};
use crate::sim::model::{Books, Transaction};
use crate::sim::request::{Reply, Request};
use crate::sim::server::{Server, Stepped};

/// How long an operation may run after its start, and how far ahead a post's deadline is.
pub const OP_LIMIT: u8 = 1;

/// The error of the wrong clock: more than any lease.
const CLOCK_ERROR: i64 = 20;

/// The real engine as a protocol that can be searched.
pub struct Tandem<'a> {
    scope: &'a Scope,
    planted: Option<Planted>,
    grace: i64,
    forgets: bool,
    metrics: Arc<Metrics>,
}

impl<'a> Tandem<'a> {
    /// The engine in a scope, perhaps with a planted fault.
    #[must_use]
    pub fn new(scope: &'a Scope, planted: Option<Planted>) -> Tandem<'a> {
        let grace = match planted {
            Some(Planted::GraceShorterThanTheOperation) => 0,
            _ => i64::from(OP_LIMIT) + scope.skew,
        };
        Tandem { scope, planted, grace, forgets: true, metrics: Arc::new(Metrics::new()) }
    }

    /// The same, but no two histories are taken as equal: shows that taking them as equal loses
    /// nothing.
    #[must_use]
    pub fn forgetting_nothing(self) -> Tandem<'a> {
        Tandem { forgets: false, ..self }
    }

    fn settings(&self, run: usize) -> EngineSettings {
        EngineSettings {
            kind: EngineKind::TwoPhase,
            application: trace::worker(run),
            post_window_ms: OP_LIMIT.into(),
            grace_ms: self.grace,
            attempts_max: self.scope.attempts_max,
            retry: Policy { first: Duration::from_millis(1), max: Duration::from_millis(1) },
            tries_in_place: 2,
            ride_wait: Duration::ZERO,
            // With one batch only, there is no later batch to ride on.
            rides_from: if self.second(run).is_empty() { usize::MAX } else { 1 },
        }
    }

    fn server(&self, books: &Books) -> Server {
        let lease = LeaseMs { lease: self.scope.lease, grace: self.grace };
        let mut server = Server::new(books.clone(), lease, self.planted);
        // The dangerous direction: the accounts' member accepts a post for longer than the
        // transactions' member assumes.
        server.skew = -self.scope.skew;
        server
    }

    /// The clocks of the second run and of the last worker are fast, by more than all the time that
    /// has passed. Only the planted fault that trusts a worker's clock depends on it.
    fn clock_error(&self, run: usize) -> i64 {
        match run {
            1 => CLOCK_ERROR,
            run if run == self.scope.runs.len() => LAST_WORKER_AT.into(),
            _ => 0,
        }
    }

    fn second(&self, run: usize) -> &'static [&'static str] {
        self.scope.second.get(run).copied().unwrap_or_default()
    }

    fn batch(&self, run: usize) -> Vec<TransactionId> {
        match self.scope.runs.get(run) {
            Some(batch) => ids(batch),
            None => self.scope.transfers.iter().map(|(id, ..)| (*id).into()).collect(),
        }
    }
}

fn ids(batch: &[&str]) -> Vec<TransactionId> {
    batch.iter().map(|id| (*id).into()).collect()
}

/// What a worker does: its first batch, and a second batch that begins when the first has
/// committed, so that the settlements of the first may ride on the posts of the second.
async fn live<E: Environment>(
    engine: &Engine<Ledger, E>,
    first: &[TransactionId],
    second: &[TransactionId],
) {
    let decided = engine.begin(first).await;
    if second.is_empty() {
        decided.end().await;
    } else {
        join(decided.end(), engine.run(second)).await;
    }
}

fn body(from: &str, to: &str, value: i64) -> Body {
    Body::transfer(from, to, Amount::Int(value)).expect("two accounts, above zero")
}

impl Protocol for Tandem<'_> {
    type Request = Request;

    fn opening(&self) -> Books {
        let mut books = Books::default();
        for (name, balance) in self.scope.accounts {
            books.accounts.insert((*name).into(), Account::new(name, Amount::Int(*balance)));
        }
        for (id, from, to, value) in self.scope.transfers {
            let doc = Transaction::initial((*id).into(), body(from, to, *value), 0);
            books.transactions.insert(doc.id.clone(), doc);
        }
        books
    }

    fn runs(&self) -> usize {
        self.scope.runs.len()
    }

    fn twin(&self, run: usize) -> usize {
        let same_clock = |other: usize| self.clock_error(other) == self.clock_error(run);
        let fits = |other: &usize| {
            self.scope.runs[*other] == self.scope.runs[run]
                && self.second(*other) == self.second(run)
                && (self.planted.is_none() || same_clock(*other))
        };
        (0..run).find(fits).unwrap_or(run)
    }

    fn clients(&self) -> Vec<Request> {
        let request = |client: &Client| match client {
            Client::Cancels(id) => Request::AskCancel((*id).into()),
            Client::Spoils(id, oddity) => Request::Spoil((*id).into(), *oddity),
            Client::BringsBack(id) => Request::Unpark((*id).into()),
            Client::Mends(id) => Request::Mend((*id).into()),
            Client::Sets(account, status) => Request::SetStatus((*account).into(), *status),
            Client::SubmitsAgain(id) => {
                let same = self.scope.transfers.iter().find(|(other, ..)| other == id);
                let (_, from, to, value) = same.expect("a transfer of the scope");
                Request::Insert((*id).into(), body(from, to, *value))
            }
        };
        self.scope.clients.iter().map(request).collect()
    }

    fn next(&self, run: usize, heard: &[Heard]) -> (Next<Request>, bool) {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let ledger = Ledger::new(shared.clone(), (run, 0), self.clock_error(run), self.planted);
        let clock = Clock { run, ..Clock::default() };
        let announcer = self.scope.events.then(|| Arc::new(ledger.clone()) as Arc<dyn Announcer>);
        let (settings, metrics) = (self.settings(run), self.metrics.clone());
        let engine = Engine::new(ledger, clock.clone(), announcer, settings, metrics);
        let (first, second) = (self.batch(run), ids(self.second(run)));
        let mut task = pin!(live(&engine, &first, &second));
        let mut context = Context::from_waker(Waker::noop());
        let mut over = task.as_mut().poll(&mut context).is_ready();
        // The requests of one worker are sent one after the other.
        let mut sent = std::mem::take(&mut shared.lock().expect("one thread").sent);
        for heard in heard {
            clock.set(heard.at, matches!(heard.what, What::Awake));
            {
                let mut shared = shared.lock().expect("one thread");
                shared.now = heard.at;
                let answer = match &heard.what {
                    What::Answer(reply) => reply.clone(),
                    What::Lost | What::Awake => Reply::Failed(Fault::Passing),
                };
                if let Some((id, ..)) = sent.pop_front() {
                    shared.answers.insert(id, answer);
                }
            }
            over = task.as_mut().poll(&mut context).is_ready();
            sent.append(&mut shared.lock().expect("one thread").sent);
        }
        let next = match sent.pop_front() {
            _ if over => Next::Over,
            None => Next::Sleep,
            Some((.., Sent::Request(request))) => Next::Request(request),
            Some((.., Sent::Publish(_))) => unreachable!("the engine does not publish"),
        };
        (next, clock.state().looked)
    }

    fn remembered(&self, heard: &Heard, lost: Option<&Request>) -> String {
        match &heard.what {
            // With two batches, everything is kept: the history of one does not show what the other
            // still needs.
            _ if !self.forgets || !self.scope.second.is_empty() => format!("{heard:?} {lost:?}"),
            What::Answer(Reply::Seen(seen)) => {
                let mut seen = seen.clone();
                for seen in &mut seen {
                    // The engine keeps the difference between the server's clock and its own.
                    seen.server_now -= heard.at;
                    seen.takeover_at = 0;
                }
                format!("{seen:?}")
            }
            What::Answer(reply) => format!("{reply:?}"),
            // The request shows until when it may still arrive.
            What::Lost => format!("{lost:?}"),
            What::Awake => String::new(),
        }
    }

    fn is_dead(&self, request: &Request, now: i64) -> bool {
        let fence = self.planted != Some(Planted::NoFence);
        matches!(request, Request::Post(_, before) if fence && now - self.scope.skew >= *before)
    }

    fn steps(&self, request: &Request) -> usize {
        request.steps()
    }

    fn dwells(&self, request: &Request) -> bool {
        matches!(request, Request::Post(..))
    }

    fn is_read(&self, request: &Request) -> bool {
        request.is_read()
    }

    fn step(&self, books: &mut Books, request: &Request, step: usize, started: i64) -> Stepped {
        let mut server = self.server(books);
        let stepped = server.step(request, step, started);
        *books = server.primary;
        stepped
    }

    fn reply(&self, books: &Books, request: &Request, tally: Tally, now: i64) -> Reply {
        self.server(books).reply(request, tally.written(), now)
    }

    fn wrong_now(&self, books: &Books) -> Vec<String> {
        let mut wrong = check::off_the_books(books);
        if self.scope.events {
            wrong.extend(check::untrue_events(books));
            wrong.extend(check::unannounced(books));
        }
        wrong
    }

    fn describe(&self, request: &Request) -> String {
        trace::request(request)
    }
}

/// A worker's environment: its clock shows the time of the search.
#[derive(Clone, Debug, Default)]
struct Clock {
    run: usize,
    state: Arc<Mutex<ClockState>>,
}

#[derive(Debug, Default)]
struct ClockState {
    now: i64,
    looked: bool,
    awakenings: u32,
    tokens: u32,
}

impl Clock {
    fn state(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().expect("one thread")
    }

    fn set(&self, now: i64, awake: bool) {
        let mut state = self.state();
        state.now = now;
        state.looked = false;
        state.awakenings += u32::from(awake);
    }
}

impl Environment for Clock {
    fn now_ms(&self) -> i64 {
        let mut state = self.state();
        state.looked = true;
        // This clock starts at another value than the server's, as a monotonic clock does.
        state.now - 1_000_000
    }

    fn sleep(&self, _: Duration) -> impl Future<Output = ()> + Send {
        let state = self.state.clone();
        let asleep_since = self.state().awakenings;
        std::future::poll_fn(move |_| {
            let awakenings = state.lock().expect("one thread").awakenings;
            if awakenings > asleep_since { Poll::Ready(()) } else { Poll::Pending }
        })
    }

    fn jitter(&self) -> f64 {
        0.0
    }

    fn token(&self) -> String {
        let mut state = self.state();
        state.tokens += 1;
        format!("{}, claim {}", trace::worker(self.run), state.tokens)
    }
}
