//! Which submissions go into the next group, and when it starts. Pure: time is passed in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ledger::transaction::TransactionId;

use super::job::{GROUP_MAX, Job, content};
use super::lanes::Lanes;

/// The most groups at once.
const GROUPS_MAX: usize = 4;
/// The most groups of large calls at once: one place is left for all others.
const LARGE_GROUPS_MAX: usize = GROUPS_MAX - 1;
/// How long a submission waits for others while another group is running. With 1 ms there are more
/// groups, the servers have more to do, and 3,000 single submissions a second are settled a fifth
/// later. With 5 ms, 64 connections submit a fifth less.
const LINGER: Duration = Duration::from_millis(3);

/// How many groups run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Running {
    /// Of small calls.
    pub small: usize,
    /// Of large ones.
    pub large: usize,
}

/// The waiting submissions. While one of an id waits or is in a running group, later ones of this
/// id are held back; those with the same content become one, which is answered to all of their
/// callers. When the first has its answer, the others go together: they differ in content, so they
/// can't be confused.
#[derive(Default)]
pub(super) struct Waiting {
    small: Lanes,
    large: Lanes,
    /// How many of each id wait in the lanes or are in a running group.
    underway: HashMap<TransactionId, usize>,
    held_back: HashMap<TransactionId, HeldBack>,
}

/// What is held back of one id.
#[derive(Default)]
struct HeldBack {
    jobs: Vec<Job>,
    /// Where in the list a content stands.
    at: HashMap<[u8; 32], usize>,
}

impl HeldBack {
    fn push(&mut self, job: Job) {
        let content = content(&job.order);
        match self.at.get(&content) {
            Some(at) => self.jobs[*at].caller.also.push(job.caller),
            None => {
                self.at.insert(content, self.jobs.len());
                self.jobs.push(job);
            }
        }
    }
}

impl Waiting {
    pub fn push(&mut self, job: Job) {
        let id = &job.order.id;
        if self.underway.contains_key(id) {
            self.held_back.entry(id.clone()).or_default().push(job);
        } else {
            self.queue(job);
        }
    }

    fn queue(&mut self, job: Job) {
        *self.underway.entry(job.order.id.clone()).or_default() += 1;
        match job.lane.large {
            Some(_) => self.large.push(job),
            None => self.small.push(job),
        }
    }

    /// Whether nothing waits that could be taken.
    pub fn is_empty(&self) -> bool {
        self.small.len() + self.large.len() == 0
    }

    /// When the next group is to start. None while nothing waits, or enough run.
    pub fn starts(&self, running: Running, now: Instant) -> Option<Instant> {
        let (small, large) = (self.small_starts(running, now), self.large_starts(running, now));
        small.into_iter().chain(large).min()
    }

    fn small_starts(&self, running: Running, now: Instant) -> Option<Instant> {
        starts(&self.small, running.small + running.large, GROUPS_MAX, now)
    }

    fn large_starts(&self, running: Running, now: Instant) -> Option<Instant> {
        if running.large >= LARGE_GROUPS_MAX {
            return None;
        }
        starts(&self.large, running.small + running.large, GROUPS_MAX, now)
    }

    /// The next group, and whether it is of large calls. Small ones go first, unless no large one
    /// runs.
    pub fn take(&mut self, running: Running, now: Instant) -> (Vec<Job>, bool) {
        let is_due = |starts: Option<Instant>| starts.is_some_and(|starts| starts <= now);
        let small = is_due(self.small_starts(running, now));
        let large = is_due(self.large_starts(running, now));
        match large && (!small || running.large == 0) {
            true => (self.large.take_by_lane(), true),
            false => (self.small.take_in_turn(), false),
        }
    }

    /// These ids have their answers. Submissions that were held back for them may go into the next
    /// group.
    pub fn ended(&mut self, ids: Vec<TransactionId>) {
        for id in ids {
            let left = self.underway.get(&id).map_or(0, |count| count - 1);
            if left > 0 {
                self.underway.insert(id, left);
                continue;
            }
            self.underway.remove(&id);
            let held_back = self.held_back.remove(&id).unwrap_or_default();
            held_back.jobs.into_iter().for_each(|job| self.queue(job));
        }
    }
}

/// When the next group of these lanes is to start, given how many run.
fn starts(lanes: &Lanes, groups: usize, most: usize, now: Instant) -> Option<Instant> {
    let oldest = lanes.oldest()?;
    match groups {
        0 => Some(now),
        groups if groups >= most => None,
        _ if lanes.len() >= GROUP_MAX => Some(now),
        _ => Some(oldest + LINGER),
    }
}

#[cfg(test)]
mod tests {
    use ledger::amount::Amount;
    use ledger::transaction::{Body, State};
    use mongodb::bson::rawdoc;
    use tokio::sync::oneshot;

    use super::super::job::{Caller, GROUP_BYTES_MAX, Lane};
    use super::*;
    use crate::submission::{Order, Receipt};

    const NONE: Running = Running { small: 0, large: 0 };
    const FULL: Running = Running { small: GROUPS_MAX, large: 0 };

    fn order(id: &str, value: i64) -> Order {
        let body = Body::transfer("a", "b", Amount::Int(value)).expect("valid");
        Order { id: id.into(), body, origin: None }
    }

    fn lane(caller: &str, large: Option<u64>) -> Lane {
        Lane { caller: Some(caller.into()), large }
    }

    fn job(id: &str, arrived: Instant) -> Job {
        let caller = Caller::new(oneshot::channel().0, None, None);
        Job::new(order(id, 1), arrived, lane("shop", None), caller)
    }

    fn job_of(id: &str, lane: Lane) -> Job {
        Job { lane, ..job(id, Instant::now()) }
    }

    fn waiting(ids: &[&str], arrived: Instant) -> Waiting {
        let mut waiting = Waiting::default();
        ids.iter().for_each(|id| waiting.push(job(id, arrived)));
        waiting
    }

    fn ids(group: &[Job]) -> Vec<TransactionId> {
        group.iter().map(|job| job.order.id.clone()).collect()
    }

    /// The next group, as late as need be.
    fn take(waiting: &mut Waiting) -> Vec<Job> {
        waiting.take(NONE, Instant::now() + LINGER).0
    }

    #[test]
    fn a_lone_submission_starts_at_once_and_others_wait_for_company_but_not_for_long() {
        let now = Instant::now();
        let one = Running { small: 1, large: 0 };
        assert_eq!(Waiting::default().starts(NONE, now), None);
        let mut waiting = waiting(&["t"], now);
        assert_eq!(waiting.starts(NONE, now), Some(now));
        assert_eq!(waiting.starts(one, now), Some(now + LINGER));
        assert_eq!(waiting.starts(FULL, now), None);
        (1..GROUP_MAX).for_each(|n| waiting.push(job(&n.to_string(), now)));
        assert_eq!(waiting.starts(one, now), Some(now), "it is full");
        assert_eq!(waiting.starts(FULL, now), None, "enough are running");
    }

    #[test]
    fn a_group_is_the_oldest_within_count_and_bytes() {
        let now = Instant::now();
        let names: Vec<String> = (0..=GROUP_MAX).map(|n| n.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut waiting = waiting(&names, now);
        assert_eq!(take(&mut waiting).len(), GROUP_MAX);
        assert_eq!(ids(&take(&mut waiting)), [names[GROUP_MAX].into()]);
        let mut large = job("large", now);
        large.order.body.metadata = Some(rawdoc! { "a": "x".repeat(GROUP_BYTES_MAX) });
        waiting.push(Job::new(large.order, now, large.lane, large.caller));
        waiting.push(job("small", now));
        assert_eq!(ids(&take(&mut waiting)), ["large".into()], "it is a group, and alone");
        assert_eq!(ids(&take(&mut waiting)), ["small".into()]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn callers_take_turns_and_a_large_call_delays_no_small_one() {
        let now = Instant::now();
        let mut waiting = Waiting::default();
        for n in 0..3 * GROUP_MAX {
            waiting.push(job_of(&format!("busy-{n}"), lane("busy", None)));
            waiting.push(job_of(&format!("first-{n}"), lane("shop", Some(1))));
            waiting.push(job_of(&format!("more-{n}"), lane("shop", Some(3))));
        }
        waiting.push(job_of("second", lane("bank", Some(2))));
        waiting.push(job_of("single", lane("shop", None)));
        let later = now + LINGER + Duration::from_secs(60);
        let running = Running { small: 0, large: 1 };
        let (group, is_large) = waiting.take(running, later);
        assert!(!is_large && ids(&group)[..2] == ["busy-0".into(), "single".into()]);
        let (group, is_large) = waiting.take(NONE, later);
        assert!(is_large && ids(&group).iter().all(|id| id.starts_with("first")));
        let (group, _) = waiting.take(NONE, later);
        assert_eq!(ids(&group)[0], "second".into(), "a caller takes turns with other callers");
        assert!(ids(&group)[1].starts_with("more"), "and its calls with each other");
        let large = Running { small: 0, large: LARGE_GROUPS_MAX };
        assert!(!waiting.take(large, later).1, "one place is left for small calls");
    }

    #[test]
    fn equal_ids_wait_for_the_first_and_then_go_together() {
        let now = Instant::now();
        let mut waiting = waiting(&["t", "u"], now);
        for value in [2, 1, 3, 2, 1] {
            let caller = Caller::new(oneshot::channel().0, None, None);
            waiting.push(Job::new(order("t", value), now, lane("shop", None), caller));
        }
        let first = ids(&take(&mut waiting));
        assert_eq!(first, ["t".into(), "u".into()]);
        waiting.push(job("u", now));
        assert!(waiting.is_empty(), "all that is left is held back");
        waiting.ended(first);
        let group = take(&mut waiting);
        let values: Vec<Amount> = group.iter().map(|job| job.order.body.legs()[1].amount).collect();
        assert_eq!(values, [2, 1, 3, 1].map(Amount::Int), "each content once, then u");
        waiting.push(job("t", now));
        waiting.ended(ids(&group[..2]));
        assert!(waiting.is_empty(), "one of the others is still under way");
        waiting.ended(ids(&group[2..]));
        assert_eq!(ids(&take(&mut waiting)), ["t".into()]);
    }

    #[tokio::test]
    async fn who_submits_the_same_is_answered_with_the_first_ones_answer_as_known() {
        let now = Instant::now();
        let mut waiting = waiting(&["t"], now);
        let mut answers = Vec::new();
        for _ in 0..3 {
            let (answer, answered) = oneshot::channel();
            let caller = Caller::new(answer, None, None);
            waiting.push(Job::new(order("t", 1), now, lane("shop", None), caller));
            answers.push(answered);
        }
        waiting.ended(vec!["t".into()]);
        let job = take(&mut waiting).pop().expect("one for the three");
        let state = State::Initial;
        let receipt = Receipt { id: "t".into(), known: None, state, unpublished: None };
        job.caller.answer(Ok(receipt));
        let mut known = Vec::new();
        for answered in answers {
            known.push(answered.await.expect("answered").expect("accepted").known);
        }
        assert_eq!(known, [None, Some(state), Some(state)]);
    }
}
