//! Concurrent submissions share inserts and publishes.
//!
//! - `waiting`: which submissions go into the next group, and when it starts; pure.
//! - `inserting`: from a group to its answers.
//!
//! Submissions that wait while a group is being inserted become the next group. A lone submission
//! starts at once. A second group starts beside a running one only when it is full or when its
//! oldest submission has waited for some milliseconds. Submissions with exclusive keys go beside the groups,
//! so that a key that is being written by somebody else delays nobody but those who want it. Promises that each submission gets its own
//! answer; that no id is in two groups at once, so that equal ids can't be confused; that a caller
//! that drops its call does not affect the others, because a group runs in a task of its own; and
//! that a durable submission is accepted, whatever the broker says. Fails when the database stays
//! away for longer than [`Config::give_up_after`](crate::Config::give_up_after), counted from the
//! group's first failure.

mod inserting;
mod waiting;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::trace::SpanKind;
use common::transaction::TransactionId;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};

use self::inserting::Inserting;
use self::waiting::{Caller, GROUP_MAX, Job, Waiting};
use crate::client::{Client, Servers};
use crate::error::{Effect, Error, Server};
use crate::submission::{Receipt, Submission};
use crate::way_in::WayIn;

/// How many submissions may wait. Further callers wait until there is room.
const WAITING_MAX: usize = 4 * GROUP_MAX;

/// The answer to one submission, once it arrives.
type Answered = oneshot::Receiver<Result<Receipt, Error>>;

impl Client {
    /// Submits a transaction: when this returns, it is durable, and published unless the receipt says
    /// otherwise. Submitting the same id with the same content again changes nothing. Dropping the
    /// future does not take the transaction back.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Conflict`] and [`Error::Refused`] are about this transaction.
    /// [`Error::Unavailable`] leaves open whether it was submitted: submit a clone again.
    pub async fn submit(&self, submission: Submission) -> Result<Receipt, Error> {
        let (job, answered) = self.job(submission)?;
        self.groups().put(vec![job]).await;
        answer(answered).await
    }

    /// Submits transactions; a result for each, in their order. A failure of one does not affect
    /// the others. See [`Client::submit`].
    pub async fn submit_all(
        &self,
        submissions: impl IntoIterator<Item = Submission>,
    ) -> Vec<Result<Receipt, Error>> {
        let mut answers = Vec::new();
        let mut jobs = Vec::new();
        for submission in submissions {
            answers.push(self.job(submission).map(|(job, answered)| {
                jobs.push(job);
                answered
            }));
            if jobs.len() == GROUP_MAX {
                self.groups().put(std::mem::take(&mut jobs)).await;
            }
        }
        self.groups().put(jobs).await;
        let mut results = Vec::with_capacity(answers.len());
        for answered in answers {
            results.push(match answered {
                Ok(answered) => answer(answered).await,
                Err(error) => Err(error),
            });
        }
        results
    }

    fn job(&self, mut submission: Submission) -> Result<(Job, Answered), Error> {
        let trace = submission.trace.take();
        let order = submission.into_order()?;
        let tracing = &self.config().tracing;
        let span = tracing.begin("submit", SpanKind::Producer, trace.as_deref());
        if let Some(span) = &span {
            span.set("messaging.system", "rabbitmq");
            span.set("messaging.operation.type", "send");
            span.set("tandem.transaction.id", order.id.to_string());
        }
        let (answer, answered) = oneshot::channel();
        Ok((Job::new(order, Instant::now(), Caller::new(answer, span)), answered))
    }
}

async fn answer(answered: Answered) -> Result<Receipt, Error> {
    answered.await.unwrap_or_else(|_| {
        // The task that would have answered has panicked, or its runtime has ended.
        let problem = "nobody is there any more to submit it".to_owned();
        let (server, after, effect) = (Server::MongoDb, Duration::ZERO, Effect::Unknown);
        Err(Error::Unavailable { server, problem, after, effect })
    })
}

/// The handle to the task that runs the groups. Clones share the task.
#[derive(Clone)]
pub(crate) struct Groups {
    way_in: WayIn<Vec<Job>>,
    servers: Arc<Servers>,
}

impl Groups {
    pub fn new(servers: Arc<Servers>) -> Groups {
        Groups { way_in: WayIn::default(), servers }
    }

    /// Adds several submissions at once, so that the first of them does not start as a group of its
    /// own.
    async fn put(&self, jobs: Vec<Job>) {
        if !jobs.is_empty() {
            self.way_in.send(jobs, |arrivals| run(self.servers.clone(), arrivals)).await;
        }
    }
}

/// Accepts submissions until every client is gone, and runs their groups.
async fn run(servers: Arc<Servers>, mut arrivals: mpsc::Receiver<Vec<Job>>) {
    let inserting = Arc::new(Inserting::new(servers));
    let mut waiting = Waiting::default();
    let (mut groups, mut keyed) = (JoinSet::new(), JoinSet::new());
    let mut ids_of: HashMap<_, Vec<TransactionId>> = HashMap::new();
    let mut open = true;
    while open || waiting.len() > 0 || !groups.is_empty() || !keyed.is_empty() {
        let now = Instant::now();
        let starts = waiting.starts(groups.len(), now);
        if starts.is_some_and(|starts| starts <= now) {
            let (by_key, group) = split(waiting.take());
            for jobs in by_key {
                let ids = ids(&jobs);
                ids_of.insert(keyed.spawn(inserting.clone().run_keyed(jobs)).id(), ids);
            }
            if !group.is_empty() {
                let ids = ids(&group);
                ids_of.insert(groups.spawn(inserting.clone().run(group)).id(), ids);
            }
            continue;
        }
        tokio::select! {
            Some(ended) = groups.join_next_with_id() => {
                waiting.ended(ids_of.remove(&task_of(ended)).unwrap_or_default());
            }
            Some(ended) = keyed.join_next_with_id() => {
                waiting.ended(ids_of.remove(&task_of(ended)).unwrap_or_default());
            }
            arrived = arrivals.recv(), if open && waiting.len() + keyed.len() < WAITING_MAX => {
                open = arrived.is_some();
                arrived.into_iter().flatten().for_each(|job| waiting.push(job));
                // All submissions that have arrived by now go into one group.
                while waiting.len() < WAITING_MAX && let Ok(jobs) = arrivals.try_recv() {
                    jobs.into_iter().for_each(|job| waiting.push(job));
                }
            }
            () = until(starts) => {}
        }
    }
}

/// Those with exclusive keys, by key and in their order; and the others.
fn split(jobs: Vec<Job>) -> (Vec<Vec<Job>>, Vec<Job>) {
    let (mut by_key, mut plain) = (HashMap::<String, Vec<Job>>::new(), Vec::new());
    for job in jobs {
        match job.order.body.terms().exclusive_key.clone() {
            Some(key) => by_key.entry(key).or_default().push(job),
            None => plain.push(job),
        }
    }
    (by_key.into_values().collect(), plain)
}

fn ids(jobs: &[Job]) -> Vec<TransactionId> {
    jobs.iter().map(|job| job.order.id.clone()).collect()
}

/// Also after a panic: then the callers see that no answer will come.
fn task_of(ended: Result<(Id, ()), JoinError>) -> Id {
    ended.map_or_else(|error| error.id(), |(task, ())| task)
}

/// Waits until a moment; for ever if there is none.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
