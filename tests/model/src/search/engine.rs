//! The real engine as a protocol to search, over the simulator's model of the database.
//!
//! Owns nothing of the protocol: it starts the engine's future from the beginning, gives it the
//! answers that its run has received, and takes the request that it then waits for. Uses the engine
//! through its two traits only, [`ledger::Ledger`] and [`Environment`].

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use engine::{Announcer, Engine, EngineKind, EngineSettings, Environment};
use futures_util::future::join;
use ledger::account::Account;
use ledger::amount::Amount;
use ledger::retry::Policy;
use ledger::transaction::{Body, Leg, Terms, TransactionId};
use ledger::{Ending, Fault, LeaseMs, Transacted};
use mongodb::bson::DateTime;
use worker::metrics::Metrics;

use super::clock::Clock;
use super::protocol::{Heard, Looked, Next, Protocol, StepClock, Tally, What};
use super::rest::LAST_WORKER_AT;
use super::scope::{Client, Scope};
use super::trace;
use crate::sim::client::{Client as Ledger, Sent, Shared};
use crate::sim::model::{Books, Transaction};
use crate::sim::native::Native;
use crate::sim::request::{Reply, Request};
use crate::sim::server::{Server, Stepped};
use crate::sim::{Planted, check, ending, journal};

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
            kind: self.scope.engine(run),
            application: trace::worker(run),
            post_window_ms: OP_LIMIT.into(),
            grace_ms: self.grace,
            attempts_max: self.scope.attempts_max,
            retry: Policy { first: Duration::from_millis(1), max: Duration::from_millis(1) },
            tries_in_place: 2,
            ride_wait: Duration::ZERO,
            // With one batch only, there is no later batch to ride on.
            rides_from: if self.second(run).is_empty() { usize::MAX } else { 1 },
            full_from: usize::MAX,
            split_from: 1,
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

    /// A worker that chooses begins with an event, which says what it chooses. Others begin at
    /// once.
    fn begins(&self, run: usize, clock: &Clock) -> impl Future<Output = ()> + use<> {
        let chooses = self.scope.engine(run) == EngineKind::Auto;
        let first_event = chooses.then(|| clock.clone());
        async move {
            if let Some(clock) = first_event {
                clock.sleep(Duration::ZERO).await;
            }
        }
    }

    fn second(&self, run: usize) -> &'static [&'static str] {
        self.scope.second.get(run).copied().unwrap_or_default()
    }

    /// With two batches there is enough to search. What comes between the statements of an end and
    /// its commit is searched where a run has one.
    fn ends_in_one_step(&self, request: &Request) -> bool {
        matches!(request, Request::End(..)) && !self.scope.second.is_empty()
    }

    fn transfer(&self, id: &str) -> &'static (&'static str, &'static str, &'static str, i64) {
        let found = self.scope.transfers.iter().find(|(other, ..)| *other == id);
        found.expect("a transfer of the scope")
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
async fn live(
    engine: &Engine<Ledger, Clock>,
    begins: impl Future<Output = ()>,
    first: &[TransactionId],
    second: &[TransactionId],
) {
    begins.await;
    let decided = engine.begin(first).await;
    if second.is_empty() {
        decided.end().await;
    } else {
        join(decided.end(), engine.run(second)).await;
    }
}

/// An end without what makes no difference: its number, and when its events are due, since sweepers
/// may come at any moment.
fn as_sent_again(request: Request) -> Request {
    match request {
        Request::End(_, mut line, claim) => {
            line.heading.events_due_at = line.heading.events_due_at.map(|_| 0);
            Request::End(0, line, claim)
        }
        request => request,
    }
}

fn body(scope: &Scope, transfer: &(&'static str, &str, &str, i64)) -> Body {
    let (id, from, to, value) = transfer;
    let body = Body::transfer(from, to, Amount::Int(*value)).expect("two accounts, above zero");
    let hold = scope.held.contains(id);
    let hold_expires_at = scope.hold_expires_at.filter(|_| hold).map(DateTime::from_millis);
    let expires_at = scope.expires_at.map(DateTime::from_millis);
    let terms = Terms { hold, hold_expires_at, expires_at, ..Terms::default() };
    body.with_terms(terms).expect("terms that fit")
}

impl Protocol for Tandem<'_> {
    type Request = Request;

    fn opening(&self) -> Books {
        let mut books = Books::default();
        for (name, balance) in self.scope.accounts {
            books.accounts.insert((*name).into(), Account::new(name, Amount::Int(*balance)));
        }
        for transfer in self.scope.transfers {
            let doc = Transaction::initial(transfer.0.into(), body(self.scope, transfer), 0);
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
                && self.scope.engine(*other) == self.scope.engine(run)
                && self.second(*other) == self.second(run)
                && (self.planted.is_none() || same_clock(*other))
        };
        (0..run).find(fits).unwrap_or(run)
    }

    fn clients(&self) -> Vec<Request> {
        let request = |client: &Client| match client {
            Client::Cancels(id) => Request::AskCancel((*id).into()),
            Client::Spoils(id, oddity) => Request::Spoil((*id).into(), *oddity),
            Client::ExpiresUnclaimed(id) => Request::Expire((*id).into()),
            Client::BringsBack(id) => Request::Unpark((*id).into()),
            Client::Mends(id) => Request::Mend((*id).into()),
            Client::Sets(account, status) => Request::SetStatus((*account).into(), *status),
            Client::SubmitsAgain(id) => {
                Request::Insert((*id).into(), body(self.scope, self.transfer(id)))
            }
            Client::Expires(id) => Request::ExpireHold((*id).into()),
            Client::Confirms(id, value) => {
                let (_, from, to, _) = self.transfer(id);
                let leg = |account: &str, amount: i64| Leg {
                    account: account.into(),
                    amount: Amount::Int(amount),
                };
                Request::Confirm((*id).into(), vec![leg(from, -value), leg(to, *value)])
            }
        };
        self.scope.clients.iter().map(request).collect()
    }

    fn next(&self, run: usize, heard: &[Heard]) -> (Next<Request>, Looked) {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let ledger = Ledger::new(shared.clone(), (run, 0), self.clock_error(run), self.planted)
            .without_numbers();
        let clock = Clock::new(run);
        let announcer = self.scope.events.then(|| Arc::new(ledger.clone()) as Arc<dyn Announcer>);
        let (settings, metrics) = (self.settings(run), self.metrics.clone());
        let engine = Engine::new(ledger, clock.clone(), announcer, settings, metrics);
        let (first, second) = (self.batch(run), ids(self.second(run)));
        let mut task = pin!(live(&engine, self.begins(run, &clock), &first, &second));
        let mut context = Context::from_waker(Waker::noop());
        let mut over = task.as_mut().poll(&mut context).is_ready();
        // The requests of one worker are sent one after the other.
        let mut sent = std::mem::take(&mut shared.lock().expect("one thread").sent);
        for heard in heard {
            clock.set(heard);
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
            Some((.., Sent::Request(request))) => Next::Request(as_sent_again(request)),
            Some((.., Sent::Publish(_))) => unreachable!("the engine does not publish"),
        };
        (next, clock.looked())
    }

    fn remembered(&self, heard: &Heard, lost: Option<&Request>) -> String {
        match &heard.what {
            // With two batches, everything is kept: the history of one does not show what the other
            // still needs.
            _ if !self.forgets || !self.scope.second.is_empty() => format!("{heard:?} {lost:?}"),
            What::Answer(Reply::Seen(seen)) => {
                let mut seen = seen.clone();
                for seen in &mut seen {
                    // A native batch leaves to two phases what others may claim.
                    let is_free = self.scope.chooses() && seen.server_now > seen.takeover_at;
                    seen.takeover_at = is_free.into();
                    // The engine keeps the difference between the server's clock and its own, and
                    // looks whether one that expires has expired.
                    if self.scope.expires_at.is_none() {
                        seen.server_now -= heard.at;
                    }
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
        if self.ends_in_one_step(request) { 1 } else { request.steps() }
    }

    fn dwells(&self, request: &Request) -> bool {
        matches!(request, Request::Post(..))
    }

    fn is_read(&self, request: &Request) -> bool {
        request.is_read()
    }

    fn is_limited(&self, request: &Request) -> bool {
        !request.is_native()
    }

    fn snapshot(&self, books: &Books, request: &Request, step: usize) -> Option<Books> {
        match request {
            Request::Transact(_, contents, _) if step == 0 => {
                Some(Native::snapshot(contents, books))
            }
            Request::End(_, line, _) if step == 0 && !self.ends_in_one_step(request) => {
                Some(ending::snapshot(line, books))
            }
            _ => None,
        }
    }

    fn step(
        &self,
        books: &mut Books,
        request: &Request,
        step: usize,
        clock: StepClock,
        snapshot: Option<&Books>,
    ) -> Stepped {
        let mut server = self.server(books);
        match (request, snapshot) {
            (Request::Transact(number, contents, _), Some(snapshot)) => {
                let started = clock.started.into();
                server.begun.insert(*number, Native::begin(contents, snapshot, started));
            }
            (Request::End(number, ..), Some(snapshot)) => {
                server.ending.insert(*number, snapshot.clone());
            }
            (Request::End(number, line, _), None) if self.ends_in_one_step(request) => {
                server.ending.insert(*number, ending::snapshot(line, books));
            }
            _ => {}
        }
        let stepped = server.step(request, step, clock.now.into());
        *books = server.primary;
        stepped
    }

    fn reply(
        &self,
        books: &Books,
        request: &Request,
        tally: Tally,
        now: i64,
        snapshot: Option<&Books>,
    ) -> Reply {
        let written = tally.written();
        match (request, snapshot) {
            _ if request.is_native() && !written.refused.is_empty() => {
                Reply::Failed(Fault::Refused)
            }
            (Request::End(..), _) if written.count > 0 => Reply::Ended(Ending::Written),
            (Request::End(..), _) => Reply::Ended(Ending::Conflict),
            (Request::Transact(_, contents, _), Some(snapshot)) if written.count > 0 => {
                let verdicts = Native::begin(contents, snapshot, now).verdicts();
                Reply::Transacted(Transacted::Committed(verdicts))
            }
            (Request::Transact(..), _) => Reply::Transacted(Transacted::Conflict),
            _ => self.server(books).reply(request, written, now),
        }
    }

    fn wrong_now(&self, books: &Books) -> Vec<String> {
        let mut wrong = check::off_the_books(books);
        wrong.extend(check::wrongly_at_rest(books));
        wrong.extend(check::untimely(books));
        wrong.extend(journal::violations(books));
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
