//! Concurrent submissions share inserts and publishes.
//!
//! - `waiting`, `lanes`: which submissions go into the next group, and when it starts; pure.
//! - `inserting`: from a group to its answers.
//!
//! Submissions that wait while a group is being inserted become the next group. A lone submission
//! starts at once. A second group starts beside a running one only when it is full or when its
//! oldest submission has waited for some milliseconds. Callers take turns in a group. A call of
//! many submissions waits in a room of its own and has groups of its own, which leave a place for
//! the others, so that it delays nobody else. Submissions with exclusive keys go beside the groups,
//! so that a key that is being written by somebody else delays nobody but those who want it.
//! Promises that each submission gets its own answer; that no two submissions of one id with the
//! same content are in groups at once, so that they can't be confused; that a caller that drops its
//! call does not affect the others, because a group runs in a task of its own; and that a durable
//! submission is accepted, whatever the broker says. Fails when the database stays away for longer
//! than [`Config::give_up_after`](crate::Config::give_up_after), counted from the group's first
//! failure.

mod inserting;
mod job;
mod lanes;
mod waiting;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ledger::transaction::TransactionId;
use mongo::Under;
use observe::Span;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};

use self::inserting::Inserting;
pub(crate) use self::inserting::result;
pub(crate) use self::job::GROUP_MAX;
use self::job::{Caller, Job, Lane};
use self::waiting::{Running, Waiting};
use crate::error::Error;
use crate::servers::Servers;
use crate::shared_task::SharedTask;
use crate::submission::{Order, Receipt};

/// How many submissions may wait, in each of the two rooms. Further callers wait until there is
/// room.
const WAITING_MAX: usize = 4 * GROUP_MAX;
/// A call of more submissions than this is a large one.
pub(crate) const SMALL_MAX: usize = 100;

/// The answer to one submission, once it arrives.
pub(crate) type Answered = oneshot::Receiver<Result<Receipt, Error>>;

/// The handle to the task that runs the groups. Clones share the task.
#[derive(Clone)]
pub(crate) struct Groups {
    task: SharedTask<Vec<Job>>,
    servers: Arc<Servers>,
    /// Where small calls wait, and where large ones do.
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    calls: Arc<AtomicU64>,
}

impl Groups {
    pub fn new(servers: Arc<Servers>) -> Groups {
        let room = || Arc::new(Semaphore::new(WAITING_MAX));
        let (small, large) = (room(), room());
        Groups { task: SharedTask::default(), servers, small, large, calls: Arc::default() }
    }

    /// The number of a large call.
    pub(crate) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds several submissions at once, so that the first of them does not start as a group of its
    /// own. Waits until there is room for all of them.
    pub(crate) async fn put(
        &self,
        entries: Vec<(Order, Option<Span>)>,
        large: Option<u64>,
    ) -> Vec<Answered> {
        if entries.is_empty() {
            return Vec::new();
        }
        let room = if large.is_some() { &self.large } else { &self.small };
        let most = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let places = room.clone().acquire_many_owned(most).await;
        let mut places = places.expect("it is never closed");
        let (mut jobs, mut answers) = (Vec::new(), Vec::new());
        for (order, span) in entries {
            let (answer, answered) = oneshot::channel();
            let caller = Caller::new(answer, span, places.split(1));
            let lane = Lane { caller: order.submitted_by(), large };
            jobs.push(Job::new(order, Instant::now(), lane, caller));
            answers.push(answered);
        }
        self.task.send(jobs, |arrivals| run(self.servers.clone(), arrivals)).await;
        answers
    }
}

/// Accepts submissions until every client is gone, and runs their groups.
async fn run(servers: Arc<Servers>, mut arrivals: mpsc::Receiver<Vec<Job>>) {
    let inserting = Arc::new(Inserting::new(servers));
    let mut waiting = Waiting::default();
    let (mut small, mut large, mut keyed) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
    let mut ids_of: HashMap<_, Vec<TransactionId>> = HashMap::new();
    let mut open = true;
    while open || !waiting.is_empty() || small.len() + large.len() + keyed.len() > 0 {
        let now = Instant::now();
        let running = Running { small: small.len(), large: large.len() };
        let starts = waiting.starts(running, now);
        if starts.is_some_and(|starts| starts <= now) {
            let (jobs, is_large) = waiting.take(running, now);
            let (by_key, groups) = split(jobs);
            for jobs in by_key {
                let ids = ids(&jobs);
                let task = keyed.spawn(inserting.clone().run_keyed(jobs, is_large));
                ids_of.insert(task.id(), ids);
            }
            for group in groups {
                let (ids, set) = (ids(&group), if is_large { &mut large } else { &mut small });
                ids_of.insert(set.spawn(inserting.clone().run(group, is_large)).id(), ids);
            }
            continue;
        }
        tokio::select! {
            Some(ended) = small.join_next_with_id() => {
                waiting.ended(ids_of.remove(&task_of(ended)).unwrap_or_default());
            }
            Some(ended) = large.join_next_with_id() => {
                waiting.ended(ids_of.remove(&task_of(ended)).unwrap_or_default());
            }
            Some(ended) = keyed.join_next_with_id() => {
                waiting.ended(ids_of.remove(&task_of(ended)).unwrap_or_default());
            }
            arrived = arrivals.recv(), if open => {
                open = arrived.is_some();
                arrived.into_iter().flatten().for_each(|job| waiting.push(job));
                // All submissions that have arrived by now go into one group.
                while let Ok(jobs) = arrivals.try_recv() {
                    jobs.into_iter().for_each(|job| waiting.push(job));
                }
            }
            () = until(starts) => {}
        }
    }
}

/// Those with exclusive keys, by key and in their order; and the others: those of an array with an
/// idempotency key together, and all that have none.
fn split(jobs: Vec<Job>) -> (Vec<Vec<Job>>, Vec<Vec<Job>>) {
    let mut by_key = HashMap::<String, Vec<Job>>::new();
    let mut by_array = HashMap::<Option<Under>, Vec<Job>>::new();
    for job in jobs {
        match job.order.body.terms().exclusive_key.clone() {
            Some(key) => by_key.entry(key).or_default().push(job),
            None => {
                let under = job.order.array().map(|array| array.under.clone());
                by_array.entry(under).or_default().push(job);
            }
        }
    }
    (by_key.into_values().collect(), by_array.into_values().collect())
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
