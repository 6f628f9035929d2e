//! Which submissions go into the next group, and when it starts. Pure: time is passed in.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use common::trace::Span;
use common::transaction::TransactionId;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::submission::{Order, Receipt};

/// The most submissions of one group.
pub(super) const GROUP_MAX: usize = 1_000;
/// The most bytes of one group, estimated: a quarter of the most that one command may hold.
const GROUP_BYTES_MAX: usize = 4 << 20;
/// The most groups at once.
const GROUPS_MAX: usize = 4;
/// How long a submission waits for others while another group is running. With 1 ms there are more groups,
/// the servers have more to do, and 3,000 single submissions a second are settled a fifth later. With 5 ms,
/// 64 connections submit a fifth less.
const LINGER: Duration = Duration::from_millis(3);

/// A submission that waits for its answer.
pub(super) struct Job {
    pub order: Order,
    bytes: usize,
    arrived: Instant,
    pub caller: Caller,
}

/// Who waits for the answer to a submission.
pub(super) struct Caller {
    answer: oneshot::Sender<Result<Receipt, Error>>,
    /// Ends with the answer.
    pub span: Option<Span>,
}

impl Caller {
    pub fn new(answer: oneshot::Sender<Result<Receipt, Error>>, span: Option<Span>) -> Caller {
        Caller { answer, span }
    }

    pub fn answer(self, result: Result<Receipt, Error>) {
        if let (Some(span), Err(error)) = (&self.span, &result) {
            span.fail(error.to_string());
        }
        // Sending fails only if the caller has gone away.
        drop(self.answer.send(result));
    }
}

impl Job {
    pub fn new(order: Order, arrived: Instant, caller: Caller) -> Job {
        Job { bytes: bytes(&order), order, arrived, caller }
    }
}

/// The estimated size of the order's document.
fn bytes(order: &Order) -> usize {
    let legs = order.body.legs().iter().map(|leg| leg.account.len() + 64);
    let metadata = order.body.metadata.as_ref();
    let metadata = metadata.and_then(|it| mongodb::bson::serialize_to_vec(it).ok());
    256 + order.id.len() + legs.sum::<usize>() + metadata.map_or(0, |it| it.len())
}

/// The waiting submissions. An id occurs in them once: another submission of the same id is held
/// back until the first has its answer.
#[derive(Default)]
pub(super) struct Waiting {
    jobs: VecDeque<Job>,
    /// The ids that wait or are in a running group.
    underway: HashSet<TransactionId>,
    held_back: HashMap<TransactionId, VecDeque<Job>>,
    held_back_count: usize,
}

impl Waiting {
    pub fn push(&mut self, job: Job) {
        let id = &job.order.id;
        if self.underway.insert(id.clone()) {
            self.jobs.push_back(job);
        } else {
            self.held_back.entry(id.clone()).or_default().push_back(job);
            self.held_back_count += 1;
        }
    }

    /// How many submissions wait, including those held back.
    pub fn len(&self) -> usize {
        self.jobs.len() + self.held_back_count
    }

    /// When the next group is to start, given how many run. None while nothing waits, or enough run.
    pub fn starts(&self, groups: usize, now: Instant) -> Option<Instant> {
        let oldest = self.jobs.front()?;
        match groups {
            0 => Some(now),
            GROUPS_MAX.. => None,
            _ if self.jobs.len() >= GROUP_MAX => Some(now),
            _ => Some(oldest.arrived + LINGER),
        }
    }

    /// The next group, the oldest first.
    pub fn take(&mut self) -> Vec<Job> {
        let mut bytes = 0;
        let fits = |(at, job): (usize, &Job)| {
            bytes += job.bytes;
            // A single submission larger than the limit is a group of its own.
            at == 0 || (at < GROUP_MAX && bytes <= GROUP_BYTES_MAX)
        };
        let count = self.jobs.iter().enumerate().map(fits).take_while(|fits| *fits).count();
        self.jobs.drain(..count).collect()
    }

    /// These ids have their answers. Submissions that were held back for them may go into the next
    /// group.
    pub fn ended(&mut self, ids: Vec<TransactionId>) {
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

#[cfg(test)]
mod tests {
    use common::amount::Amount;
    use common::transaction::Body;
    use mongodb::bson::doc;

    use super::*;

    fn job(id: &str, arrived: Instant) -> Job {
        let body = Body::transfer("a", "b", Amount::Int(1)).expect("valid");
        let caller = Caller::new(oneshot::channel().0, None);
        Job::new(Order { id: id.into(), body }, arrived, caller)
    }

    fn waiting(ids: &[&str], arrived: Instant) -> Waiting {
        let mut waiting = Waiting::default();
        ids.iter().for_each(|id| waiting.push(job(id, arrived)));
        waiting
    }

    fn ids(group: &[Job]) -> Vec<TransactionId> {
        group.iter().map(|job| job.order.id.clone()).collect()
    }

    #[test]
    fn a_lone_submission_starts_at_once_and_others_wait_for_company_but_not_for_long() {
        let now = Instant::now();
        assert_eq!(Waiting::default().starts(0, now), None);
        let mut waiting = waiting(&["t"], now);
        assert_eq!(waiting.starts(0, now), Some(now));
        assert_eq!(waiting.starts(1, now), Some(now + LINGER));
        assert_eq!(waiting.starts(GROUPS_MAX, now), None);
        (1..GROUP_MAX).for_each(|n| waiting.push(job(&n.to_string(), now)));
        assert_eq!(waiting.starts(1, now), Some(now), "it is full");
        assert_eq!(waiting.starts(GROUPS_MAX, now), None, "enough are running");
    }

    #[test]
    fn a_group_is_the_oldest_within_count_and_bytes() {
        let now = Instant::now();
        let names: Vec<String> = (0..=GROUP_MAX).map(|n| n.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut waiting = waiting(&names, now);
        assert_eq!(waiting.take().len(), GROUP_MAX);
        assert_eq!(ids(&waiting.take()), [names[GROUP_MAX].into()]);
        let mut large = job("large", now);
        large.order.body.metadata = Some(doc! { "a": "x".repeat(GROUP_BYTES_MAX) });
        waiting.push(Job::new(large.order, now, large.caller));
        waiting.push(job("small", now));
        assert_eq!(ids(&waiting.take()), ["large".into()], "it is a group, and alone");
        assert_eq!(ids(&waiting.take()), ["small".into()]);
        assert_eq!(waiting.take().len(), 0);
    }

    #[test]
    fn equal_ids_are_never_under_way_together_and_go_in_the_order_of_arrival() {
        let now = Instant::now();
        let mut waiting = waiting(&["t", "t", "u", "t"], now);
        assert_eq!(waiting.len(), 4);
        let first = ids(&waiting.take());
        assert_eq!(first, ["t".into(), "u".into()]);
        waiting.push(job("u", now));
        assert_eq!(waiting.take().len(), 0, "all that is left is held back");
        assert_eq!(waiting.len(), 3);
        waiting.ended(first);
        let second = ids(&waiting.take());
        assert_eq!(second, ["t".into(), "u".into()]);
        waiting.ended(second);
        let third = ids(&waiting.take());
        assert_eq!(third, ["t".into()]);
        waiting.ended(third);
        assert_eq!(waiting.len(), 0);
        waiting.push(job("t", now));
        assert_eq!(waiting.take().len(), 1, "nobody is held back for those who are through");
    }
}
