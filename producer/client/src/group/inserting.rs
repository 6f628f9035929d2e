//! From a group of submissions to their answers.
//!
//! Owns what happens when a group can't be inserted as a whole: a group that fails twice is halved
//! until the submission that causes the failure stands alone. No new submissions join it meanwhile.
//! Each part that is inserted is published and answered at once. Promises that nobody is told of a
//! refusal while an earlier attempt at the same part is open: it is looked up, and where that does
//! not find it, it is told as unknown, because the attempt may still arrive. Submissions with
//! exclusive keys come one by one, because each is inserted in a transaction of its own. Fails as
//! the module above says.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ledger::coalesce::Coalesced;
use ledger::retry::{Policy, jitter};
use ledger::transaction::{State, TransactionId};
use ledger::{Effect, Fault, LedgerError, ServerMs};
use mongodb::bson::DateTime;
use observe::Traces;
use tokio::sync::{Mutex, Semaphore};

use super::job::{Caller, Job};
use crate::error::{AttemptError, Error, Server};
use crate::insert::{Expect, insert};
use crate::known::{Answer, find_one};
use crate::servers::Servers;
use crate::submission::{Order, Receipt};

/// How often a piece is tried as a whole before it is halved.
const TRIES_WHOLE: u32 = 2;
/// How many looks and inserts with exclusive keys are on their way at once. Each takes a connection
/// meanwhile. Large calls share as many among themselves as all others do.
const KEYS_AT_ONCE: usize = 16;
/// For how long the server's time is estimated from one reading and the local clock.
const CLOCK_FOR: Duration = Duration::from_secs(10);

/// The ids of a piece that are to be published, with the traces of those that are sampled.
type ToPublish = (Vec<TransactionId>, Traces);

/// State that all groups share.
pub(super) struct Inserting {
    servers: Arc<Servers>,
    /// The server's time at the last reading, and when it was read.
    clock: Mutex<Option<(ServerMs, Instant)>>,
    /// Whether most of the last submissions were known already: then the next ones are looked up
    /// first.
    known: AtomicBool,
    /// Limit how many looks and inserts with exclusive keys are on their way: of small calls, and
    /// of large ones. Whoever waits for a key holds no permit.
    keys: [Semaphore; 2],
    /// Publish together what was inserted with exclusive keys, each by itself: of small calls, and
    /// of large ones.
    publishing: [Coalesced<ToPublish, Result<(), Error>>; 2],
}

impl Inserting {
    pub fn new(servers: Arc<Servers>) -> Inserting {
        Inserting {
            servers,
            clock: Mutex::default(),
            known: AtomicBool::new(false),
            keys: [Semaphore::new(KEYS_AT_ONCE), Semaphore::new(KEYS_AT_ONCE)],
            publishing: Default::default(),
        }
    }

    /// Inserts a group, publishes it, and answers each.
    pub async fn run(self: Arc<Self>, group: Vec<Job>, is_large: bool) {
        self.run_pieces(VecDeque::from([Piece::new(group)]), is_large).await;
    }

    /// The same for submissions with one exclusive key, one after the other.
    pub async fn run_keyed(self: Arc<Self>, jobs: Vec<Job>, is_large: bool) {
        let pieces = jobs.into_iter().map(|job| Piece::new(vec![job])).collect();
        self.run_pieces(pieces, is_large).await;
    }

    async fn run_pieces(&self, mut pieces: VecDeque<Piece>, is_large: bool) {
        let limit = self.servers.config.give_up_after;
        // Every attempt writes the same time, so the group recognizes its own documents by it.
        let created_at = match self.servers.insist(limit, || self.now()).await {
            Ok(now) => now,
            Err(error) => return pieces.into_iter().for_each(|piece| piece.fail(&error)),
        };
        let mut patience = Patience::new(limit);
        while let Some(mut piece) = pieces.pop_front() {
            let store = &self.servers.store;
            let (expect, keys) = (self.expectation(), &self.keys[usize::from(is_large)]);
            let error = match insert(store, &piece.orders, created_at, expect, keys).await {
                Ok(answers) => {
                    patience = Patience::new(limit);
                    self.known.store(expectation(&answers) == Expect::Known, Ordering::Relaxed);
                    self.finish(piece, answers, created_at, is_large).await;
                    continue;
                }
                Err(error) => error,
            };
            piece.tries += 1;
            piece.open = piece.open.or(error.effect);
            let fault = kind(&error, piece.orders.len());
            let over = fault == Fault::Passing && patience.is_over();
            match next(fault, piece.orders.len(), piece.tries, over) {
                Next::Again => {
                    patience.wait(&error, piece.tries, &self.servers).await;
                    pieces.push_front(piece);
                }
                Next::Later => {
                    patience.wait(&error, piece.tries, &self.servers).await;
                    pieces.push_back(piece);
                }
                Next::Halve => {
                    pieces.push_front(piece.split_off_half());
                    pieces.push_front(piece);
                }
                Next::Refuse => {
                    let refused = vec![Answer::Refused(error.message)];
                    self.finish(piece, refused, created_at, is_large).await;
                }
                Next::GiveUp => {
                    pieces.push_front(piece);
                    for piece in pieces {
                        let error = Error::of_server(&error, patience.limit, piece.open);
                        piece.fail(&error);
                    }
                    return;
                }
            }
        }
    }

    /// Publishes what is durable now, and answers.
    async fn finish(
        &self,
        piece: Piece,
        mut answers: Vec<Answer>,
        created_at: DateTime,
        is_large: bool,
    ) {
        if piece.open == Effect::Unknown {
            for (order, answer) in piece.orders.iter().zip(&mut answers) {
                self.look_again(order, answer, created_at).await;
            }
        }
        let first = |order: &Order| order.body.first_state(created_at);
        let waiting = piece.orders.iter().zip(&answers);
        let waiting = waiting.filter(|(order, answer)| answer.is_waiting(first(order)));
        let waiting: Vec<TransactionId> = waiting.map(|(order, _)| order.id.clone()).collect();
        let traces = piece.traces();
        let published = match piece.has_key() && !waiting.is_empty() {
            true => self.publish_together((waiting, traces), is_large).await,
            false => self.servers.publish_or_leave(&waiting, &traces).await,
        };
        let unpublished = published.err();
        for ((order, caller), answer) in piece.orders.into_iter().zip(piece.callers).zip(answers) {
            let first = first(&order);
            caller.answer(result(order.id, answer, first, unpublished.as_ref()));
        }
    }

    /// Publishes together with others. By itself each of thousands would take one of the
    /// publisher's channels, for which everybody waits.
    async fn publish_together(&self, piece: ToPublish, is_large: bool) -> Result<(), Error> {
        let publish = async |all: Vec<ToPublish>| {
            let (ids, each): (Vec<_>, Vec<_>) = all.into_iter().unzip();
            let (count, mut traces) = (ids.len(), Traces::default());
            each.into_iter().for_each(|its| traces.add_all(its));
            vec![self.servers.publish_or_leave(&ids.concat(), &traces).await; count]
        };
        let published = self.publishing[usize::from(is_large)].run(piece, publish).await;
        published.unwrap_or_else(|| {
            let problem = "whoever published it is gone".to_owned();
            let (server, after, effect) = (Server::RabbitMq, Duration::ZERO, Effect::None);
            Err(Error::Unavailable { server, problem, after, effect })
        })
    }

    /// Replaces the refusal of an order of which an earlier attempt is open: by what is there, or
    /// else by that it is not known.
    async fn look_again(&self, order: &Order, answer: &mut Answer, created_at: DateTime) {
        let said = match answer {
            Answer::Refused(said) => std::mem::take(said),
            Answer::WithoutKeys(why) => (*why).to_owned(),
            // An id that is taken can't be this order's, and a key that somebody else has was not
            // this order's: see `keyed`.
            Answer::Submitted
            | Answer::Unchanged(_)
            | Answer::Conflict { .. }
            | Answer::KeyInUse { .. }
            | Answer::Superseded
            | Answer::Open(_) => return,
        };
        let found = find_one(&self.servers.store, order, created_at).await;
        *answer = found.ok().flatten().unwrap_or(Answer::Open(said));
    }

    fn expectation(&self) -> Expect {
        if self.known.load(Ordering::Relaxed) { Expect::Known } else { Expect::New }
    }

    /// The server's time: read now and then, and estimated in between.
    async fn now(&self) -> Result<DateTime, LedgerError> {
        let mut clock = self.clock.lock().await;
        let (read, at) = match *clock {
            Some((read, at)) if at.elapsed() < CLOCK_FOR => (read, at),
            _ => *clock.insert((self.servers.store.server_now().await?, Instant::now())),
        };
        let elapsed = i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX);
        Ok(DateTime::from_millis(read.saturating_add(elapsed)))
    }
}

/// When an interrupted file is submitted again, its rows are known up to some row and new after it.
fn expectation(answers: &[Answer]) -> Expect {
    let new = answers.iter().filter(|answer| **answer == Answer::Submitted).count();
    if new * 2 < answers.len() { Expect::Known } else { Expect::New }
}

/// A group, or a part of one: what is inserted with one command.
struct Piece {
    orders: Vec<Order>,
    /// The callers that wait for the answers, one for each order.
    callers: Vec<Caller>,
    /// How often it was tried.
    tries: u32,
    /// Whether one of the attempts may have inserted some of it, or may yet do so.
    open: Effect,
}

impl Piece {
    fn new(group: Vec<Job>) -> Piece {
        let (orders, callers) = group.into_iter().map(|job| (job.order, job.caller)).unzip();
        Piece { orders, callers, tries: 0, open: Effect::None }
    }

    /// Whether it is one order with an exclusive key: such orders come one by one.
    fn has_key(&self) -> bool {
        self.orders.iter().any(Order::has_key)
    }

    fn split_off_half(&mut self) -> Piece {
        let middle = self.orders.len() / 2;
        self.tries = 0;
        let (orders, callers) = (self.orders.split_off(middle), self.callers.split_off(middle));
        Piece { orders, callers, tries: 0, open: self.open }
    }

    fn fail(self, error: &Error) {
        self.callers.into_iter().for_each(|caller| caller.answer(Err(error.clone())));
    }

    /// The traces of those that are sampled.
    fn traces(&self) -> Traces {
        let mut traces = Traces::default();
        for (order, caller) in self.orders.iter().zip(&self.callers) {
            if let Some(span) = &caller.span {
                traces.add(&order.id, span.parent());
            }
        }
        traces
    }
}

/// What follows when a piece could not be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It is tried again.
    Again,
    /// It is tried again after the other pieces: it may be the one that causes the failure.
    Later,
    /// It is halved: one of the halves may succeed.
    Halve,
    /// It is one order, and the server will never accept it as it is.
    Refuse,
    /// No remaining part of the group can be inserted.
    GiveUp,
}

/// The kind of a failure for a piece of so many orders. What took too long may have had its effect,
/// and smaller pieces may do; but one order that took too long says nothing against it: the server
/// is slow, for example because it waits for a majority.
fn kind(error: &LedgerError, orders: usize) -> Fault {
    match (error.fault, error.effect, orders) {
        (Fault::TooMuch, Effect::Unknown, ..=1) => Fault::Passing,
        (fault, ..) => fault,
    }
}

fn next(fault: Fault, orders: usize, tries: u32, patience_is_over: bool) -> Next {
    match (fault, orders) {
        (Fault::Denied, _) => Next::GiveUp,
        (Fault::Passing, _) if patience_is_over => Next::GiveUp,
        (Fault::Passing | Fault::TooMuch, _) if tries < TRIES_WHOLE => Next::Again,
        (Fault::Passing, ..=1) => Next::Later,
        (Fault::TooMuch | Fault::Refused, ..=1) => Next::Refuse,
        (Fault::Passing | Fault::TooMuch | Fault::Refused, 2..) => Next::Halve,
    }
}

/// How long one group keeps trying.
struct Patience {
    limit: Duration,
    failed_since: Option<Instant>,
    failures: u32,
}

impl Patience {
    fn new(limit: Duration) -> Patience {
        Patience { limit, failed_since: None, failures: 0 }
    }

    /// Whether nothing has succeeded for the whole limit. Called after a failure.
    fn is_over(&mut self) -> bool {
        self.failed_since.get_or_insert_with(Instant::now).elapsed() >= self.limit
    }

    /// Waits before the next try; `tries` says how often this piece was tried. A new half is tried
    /// at once, so the other submissions are inserted long before the limit.
    async fn wait(&mut self, error: &LedgerError, tries: u32, servers: &Servers) {
        self.failures += 1;
        servers.note(self.failures, &error.told());
        tokio::time::sleep(Policy::RECONNECT.delay(tries, jitter())).await;
    }
}

/// What its caller is told of an answer.
pub(crate) fn result(
    id: TransactionId,
    answer: Answer,
    first: State,
    unpublished: Option<&Error>,
) -> Result<Receipt, Error> {
    let unpublished = unpublished.filter(|_| answer.is_waiting(first)).cloned();
    let (known, state) = match answer {
        Answer::Submitted => (None, first),
        Answer::Unchanged(state) => (Some(state), state),
        Answer::Conflict { differs, theirs } => {
            let problem = format!("is taken by {theirs}");
            return Err(Error::Conflict { id: id.to_string(), problem, differs });
        }
        Answer::KeyInUse { key, holder } => {
            return Err(Error::KeyInUse { id: id.to_string(), key, holder });
        }
        Answer::WithoutKeys(why) => return Err(Error::WithoutKeys(why)),
        Answer::Refused(problem) => {
            return Err(Error::refused(&id, format!("the server refuses it: {problem}")));
        }
        Answer::Open(said) => return Err(Error::open(&id, &said)),
        Answer::Superseded => {
            let problem = format!(
                "{id}: another array came under the same Idempotency-Key at the same time, and may \
                 have it, too; send yours again"
            );
            let (server, after, effect) = (Server::MongoDb, Duration::ZERO, Effect::Unknown);
            return Err(Error::Unavailable { server, problem, after, effect });
        }
    };
    Ok(Receipt { id, known, state, unpublished })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_was_known_lets_the_next_be_looked_at_first() {
        let known = Answer::Unchanged(State::Initial);
        assert_eq!(expectation(&[Answer::Submitted, Answer::Submitted]), Expect::New);
        assert_eq!(expectation(&[known.clone(), known, Answer::Submitted]), Expect::Known);
    }

    #[test]
    fn a_group_that_fails_twice_is_halved_until_the_culprit_stands_alone() {
        for (fault, orders, tries, expected) in [
            (Fault::Passing, 1_000, 1, Next::Again),
            (Fault::Passing, 1_000, 2, Next::Halve),
            (Fault::Passing, 1, 1, Next::Again),
            (Fault::Passing, 1, 2, Next::Later),
            (Fault::TooMuch, 2, 2, Next::Halve),
            (Fault::TooMuch, 1, 2, Next::Refuse),
            (Fault::Refused, 1_000, 1, Next::Halve),
            (Fault::Refused, 1, 1, Next::Refuse),
            (Fault::Denied, 1_000, 1, Next::GiveUp),
        ] {
            assert_eq!(next(fault, orders, tries, false), expected, "{fault:?} {orders} {tries}");
        }
        assert_eq!(next(Fault::Passing, 1_000, 1, true), Next::GiveUp);
        assert_eq!(next(Fault::Refused, 1_000, 1, true), Next::Halve, "it does not wait");
    }

    #[test]
    fn one_order_that_took_too_long_is_not_refused_and_one_that_is_too_large_is() {
        let slow = LedgerError { fault: Fault::TooMuch, ..LedgerError::passing("insert", "slow") };
        let large = LedgerError { effect: Effect::None, ..slow.clone() };
        assert_eq!((kind(&slow, 1), kind(&slow, 2)), (Fault::Passing, Fault::TooMuch));
        assert_eq!((kind(&large, 1), kind(&large, 2)), (Fault::TooMuch, Fault::TooMuch));
    }
}
