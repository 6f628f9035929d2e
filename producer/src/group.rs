//! Concurrent submissions share inserts and publishes.
//!
//! Owns the groups: what waits while a group is being inserted becomes the next one. A lone
//! submission starts at once. A second group is started beside a running one only when it is full or
//! when its oldest submission has waited for [`LINGER`]. Promises that each submission gets its own
//! answer; that no id is in two groups at once, so that equal ids are told apart; that a caller that
//! goes away harms nobody, because a group runs in a task of its own; and that what is durable is
//! accepted, whatever the broker says. Fails when the database stays away for longer than
//! [`Config::give_up_after`](crate::Config::give_up_after), counted from the group's first failure;
//! a group that fails twice is halved, without newcomers, until the culprit stands alone.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::ledger::{Fault, LedgerError, ServerMs};
use common::retry::{Policy, jitter};
use common::transaction::{State, TransactionId};
use mongodb::bson::DateTime;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;

use crate::client::{Client, Servers};
use crate::error::{Attempt, Error, Server};
use crate::submission::{Answer, Expect, Order, Receipt, Submission, insert};

/// The most submissions of one group.
const GROUP_MAX: usize = 1_000;
/// The most bytes of one group, as estimated: half of what one command may hold.
const GROUP_BYTES_MAX: usize = 4 << 20;
/// The most groups at once.
const GROUPS_MAX: usize = 4;
/// How long a submission waits for others while another group is running.
const LINGER: Duration = Duration::from_millis(5);
/// The most submissions that wait; more make their callers wait.
const WAITING_MAX: usize = 4 * GROUP_MAX;
/// How often a group is tried as a whole before it is halved.
const TRIES_WHOLE: u32 = 2;
/// How long the server's clock, once read, is carried on by our own.
const CLOCK_FOR: Duration = Duration::from_secs(10);

impl Client {
    /// Submits a transaction: when this returns, it is durable, and published unless the receipt
    /// says otherwise. Submitting the same id with the same content again changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Conflict`] and [`Error::Refused`] are about this transaction.
    /// [`Error::Unavailable`] leaves open whether it was submitted: submit a clone again.
    pub async fn submit(&self, submission: Submission) -> Result<Receipt, Error> {
        let order = submission.into_order()?;
        let answer = self.groups().put(order).await;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Submits transactions; a result for each, in their order. None of them is another's fate.
    pub async fn submit_all(
        &self,
        submissions: impl IntoIterator<Item = Submission>,
    ) -> Vec<Result<Receipt, Error>> {
        let mut answers = Vec::new();
        for submission in submissions {
            answers.push(match submission.into_order() {
                Ok(order) => Ok(self.groups().put(order).await),
                Err(error) => Err(error),
            });
        }
        let mut results = Vec::with_capacity(answers.len());
        for answer in answers {
            results.push(match answer {
                Ok(answer) => answer.await.unwrap_or_else(|_| Err(gone())),
                Err(error) => Err(error),
            });
        }
        results
    }
}

/// The task that would have answered is gone: it panicked, or the runtime has ended.
fn gone() -> Error {
    Error::Unavailable {
        server: Server::MongoDb,
        problem: "nobody is there any more to submit it".to_owned(),
        after: Duration::ZERO,
    }
}

/// The way in. Clones lead to the same groups.
#[derive(Clone)]
pub(crate) struct Groups {
    jobs: Arc<tokio::sync::OnceCell<mpsc::Sender<Job>>>,
    servers: Arc<Servers>,
}

/// A submission that waits for its answer.
struct Job {
    order: Order,
    bytes: usize,
    arrived: Instant,
    answer: oneshot::Sender<Result<Receipt, Error>>,
}

impl Groups {
    /// The task behind it starts with the first submission, which is where the runtime is known.
    pub fn new(servers: Arc<Servers>) -> Groups {
        Groups { jobs: Arc::default(), servers }
    }

    async fn put(&self, order: Order) -> oneshot::Receiver<Result<Receipt, Error>> {
        let (answer, answered) = oneshot::channel();
        let job = Job { bytes: bytes(&order), order, arrived: Instant::now(), answer };
        let start = async || {
            let (sender, jobs) = mpsc::channel(WAITING_MAX);
            tokio::spawn(run(self.servers.clone(), jobs));
            sender
        };
        // The task ends only when this end of the channel is gone.
        drop(self.jobs.get_or_init(start).await.send(job).await);
        answered
    }
}

/// About what the order's document will take.
fn bytes(order: &Order) -> usize {
    let legs = order.body.legs().iter().map(|leg| leg.account.len() + 64);
    let metadata = order.body.metadata.as_ref();
    let metadata = metadata.and_then(|it| mongodb::bson::serialize_to_vec(it).ok());
    256 + order.id.len() + legs.sum::<usize>() + metadata.map_or(0, |it| it.len())
}

/// What waits; pure. An id is in it once: another submission of it is held back until the first has
/// its answer.
#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// The ids that wait or are in a running group.
    underway: HashSet<TransactionId>,
    held_back: HashMap<TransactionId, VecDeque<Job>>,
    held_back_count: usize,
}

impl Waiting {
    fn push(&mut self, job: Job) {
        let id = &job.order.id;
        if self.underway.insert(id.clone()) {
            self.jobs.push_back(job);
        } else {
            self.held_back.entry(id.clone()).or_default().push_back(job);
            self.held_back_count += 1;
        }
    }

    fn len(&self) -> usize {
        self.jobs.len() + self.held_back_count
    }

    /// When the next group is to start, given how many run. None while nothing waits, or enough run.
    fn starts(&self, groups: usize, now: Instant) -> Option<Instant> {
        let oldest = self.jobs.front()?;
        match groups {
            0 => Some(now),
            GROUPS_MAX.. => None,
            _ if self.jobs.len() >= GROUP_MAX => Some(now),
            _ => Some(oldest.arrived + LINGER),
        }
    }

    /// The next group, the oldest first.
    fn take(&mut self) -> Vec<Job> {
        let (mut group, mut bytes) = (Vec::new(), 0);
        while let Some(next) = self.jobs.front() {
            bytes += next.bytes;
            let full = group.len() == GROUP_MAX || bytes > GROUP_BYTES_MAX;
            if full && !group.is_empty() {
                break;
            }
            group.extend(self.jobs.pop_front());
        }
        group
    }

    /// The submissions of these ids have their answers; those held back for them wait now.
    fn ended(&mut self, ids: Vec<TransactionId>) {
        for id in ids {
            let next = self.held_back.get_mut(&id).and_then(VecDeque::pop_front);
            if let Some(next) = next {
                self.held_back_count -= 1;
                self.jobs.push_back(next);
            } else {
                self.held_back.remove(&id);
                self.underway.remove(&id);
            }
        }
    }
}

/// Takes submissions in until every client is gone, and runs their groups.
async fn run(servers: Arc<Servers>, mut jobs: mpsc::Receiver<Job>) {
    let inserting = Arc::new(Inserting::new(servers));
    let mut waiting = Waiting::default();
    let mut groups = JoinSet::new();
    let mut ids_of = HashMap::new();
    let mut arrived = Vec::new();
    let mut open = true;
    while open || waiting.len() > 0 || !groups.is_empty() {
        let now = Instant::now();
        let starts = waiting.starts(groups.len(), now);
        if starts.is_some_and(|starts| starts <= now) {
            let group = waiting.take();
            let ids: Vec<TransactionId> = group.iter().map(|job| job.order.id.clone()).collect();
            let task = groups.spawn(inserting.clone().submit(group));
            ids_of.insert(task.id(), ids);
            continue;
        }
        let room = WAITING_MAX.saturating_sub(waiting.len());
        tokio::select! {
            Some(ended) = groups.join_next_with_id() => {
                // Also of a group that panicked: its callers see that their answers are gone.
                let task = ended.map_or_else(|error| error.id(), |(task, ())| task);
                waiting.ended(ids_of.remove(&task).unwrap_or_default());
            }
            count = jobs.recv_many(&mut arrived, room), if open && room > 0 => {
                open = count > 0;
                arrived.drain(..).for_each(|job| waiting.push(job));
            }
            () = until(starts) => {}
        }
    }
}

/// Waits for a moment; for ever without one.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// What the groups share.
struct Inserting {
    servers: Arc<Servers>,
    /// The server's clock as it was read, and when.
    clock: Mutex<Option<(ServerMs, Instant)>>,
    /// Whether most of the last group were known: then the next one is looked at first.
    known: AtomicBool,
}

impl Inserting {
    fn new(servers: Arc<Servers>) -> Inserting {
        Inserting { servers, clock: Mutex::default(), known: AtomicBool::new(false) }
    }

    /// Inserts a group, publishes it, and answers each.
    async fn submit(self: Arc<Self>, group: Vec<Job>) {
        let (orders, answers): (Vec<Order>, Vec<_>) =
            group.into_iter().map(|job| (job.order, job.answer)).unzip();
        let inserted = self.insert(&orders).await;
        let is_waiting = |inserted: &Result<Answer, Error>| {
            inserted.as_ref().is_ok_and(Answer::is_waiting)
        };
        let waiting = orders.iter().zip(&inserted).filter(|(_, inserted)| is_waiting(inserted));
        let waiting: Vec<TransactionId> = waiting.map(|(order, _)| order.id.clone()).collect();
        let unpublished = self.publish(&waiting).await.err();
        for ((order, inserted), answer) in orders.into_iter().zip(inserted).zip(answers) {
            // A caller that has gone away does not want to know.
            drop(answer.send(result(order.id, inserted, unpublished.as_ref())));
        }
    }

    /// An answer or an error for each. What can't be inserted together is inserted in halves.
    async fn insert(&self, orders: &[Order]) -> Vec<Result<Answer, Error>> {
        let mut results: Vec<Option<Result<Answer, Error>>> = vec![None; orders.len()];
        let limit = self.servers.config.give_up_after;
        // The same for every attempt: by it our own documents are recognized.
        let created_at = match self.servers.insist(limit, || self.now()).await {
            Ok(now) => now,
            Err(error) => return vec![Err(error); orders.len()],
        };
        let mut patience = Patience::new(limit);
        let mut pieces = vec![(0..orders.len(), 1)];
        while let Some((piece, tries)) = pieces.pop() {
            let expect = self.expectation();
            let store = &self.servers.store;
            let error = match insert(store, &orders[piece.clone()], created_at, expect).await {
                Ok(answers) => {
                    patience = Patience::new(limit);
                    self.learn(&answers);
                    let answers = answers.into_iter().map(|answer| Some(Ok(answer)));
                    results.splice(piece, answers);
                    continue;
                }
                Err(error) => error,
            };
            if error.fault == Fault::Denied || patience.is_over() {
                let error = patience.error(&error);
                return results.into_iter().map(|r| r.unwrap_or(Err(error.clone()))).collect();
            }
            match piece.len() {
                1 if !error.passes() => results[piece.start] = Some(Err(patience.error(&error))),
                2.. if tries >= TRIES_WHOLE || !error.passes() => {
                    let middle = piece.start + piece.len() / 2;
                    pieces.push((middle..piece.end, 1));
                    pieces.push((piece.start..middle, 1));
                }
                _ => pieces.push((piece, tries + 1)),
            }
            patience.wait(&error, &self.servers).await;
        }
        results.into_iter().map(|result| result.unwrap_or_else(|| Err(gone()))).collect()
    }

    fn expectation(&self) -> Expect {
        if self.known.load(Ordering::Relaxed) { Expect::Known } else { Expect::New }
    }

    /// A file that was interrupted is known up to some row, and new from there on.
    fn learn(&self, answers: &[Answer]) {
        let new = answers.iter().filter(|answer| **answer == Answer::Submitted).count();
        self.known.store(new * 2 < answers.len(), Ordering::Relaxed);
    }

    async fn publish(&self, ids: &[TransactionId]) -> Result<(), Error> {
        if ids.is_empty() {
            return Ok(());
        }
        let messages = self.servers.messages(ids);
        let limit = self.servers.config.publish_within;
        self.servers.insist(limit, || self.servers.publisher.publish(&messages)).await
    }

    /// The server's time: read now and then, and carried on in between.
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

/// How long one group insists.
struct Patience {
    limit: Duration,
    failed_since: Option<Instant>,
    failures: u32,
}

impl Patience {
    fn new(limit: Duration) -> Patience {
        Patience { limit, failed_since: None, failures: 0 }
    }

    fn is_over(&self) -> bool {
        self.failed_since.is_some_and(|since| since.elapsed() >= self.limit)
    }

    fn error(&self, error: &LedgerError) -> Error {
        let (server, problem) = (error.server(), error.told());
        match error.passes() {
            true => Error::Unavailable { server, problem, after: self.limit },
            false => Error::Denied { server, problem },
        }
    }

    async fn wait(&mut self, error: &LedgerError, servers: &Servers) {
        self.failed_since.get_or_insert_with(Instant::now);
        self.failures += 1;
        servers.note(self.failures, &error.told());
        tokio::time::sleep(Policy::RECONNECT.delay(self.failures, jitter())).await;
    }
}

fn result(
    id: TransactionId,
    inserted: Result<Answer, Error>,
    unpublished: Option<&Error>,
) -> Result<Receipt, Error> {
    let known = match inserted? {
        Answer::Submitted => None,
        Answer::Unchanged(state) => Some(state),
        Answer::Conflict(other) => {
            let problem =
                format!("the id is taken by {other}; submit this transfer under another id");
            return Err(Error::Conflict { id: id.to_string(), problem });
        }
        Answer::Refused(problem) => return Err(Error::refused(&id, problem)),
    };
    let is_final = known.is_some_and(State::is_final);
    let unpublished = unpublished.filter(|_| !is_final).cloned();
    Ok(Receipt { id, known, unpublished })
}
