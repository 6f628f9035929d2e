//! Jobs that wait, in lanes that take turns. Pure.
//!
//! Promises that a lane with many jobs delays another lane by no more than one job of each lane
//! ([`Lanes::take_in_turn`]), or by no more than one group of each ([`Lanes::take_by_lane`]).

use std::collections::VecDeque;
use std::time::Instant;

use super::job::{GROUP_BYTES_MAX, GROUP_MAX, Job, Lane};

/// Lanes, none of them empty. The first one is next.
#[derive(Default)]
pub(super) struct Lanes {
    lanes: VecDeque<(Lane, VecDeque<Job>)>,
    count: usize,
}

/// What a group has room for.
struct Room {
    jobs: usize,
    bytes: usize,
}

impl Room {
    fn of_a_group() -> Room {
        Room { jobs: GROUP_MAX, bytes: GROUP_BYTES_MAX }
    }

    /// Whether this one fits, too. A single job larger than the limit is a group of its own.
    fn takes(&mut self, job: &Job) -> bool {
        if self.jobs == 0 || (job.bytes > self.bytes && self.jobs < GROUP_MAX) {
            return false;
        }
        self.jobs -= 1;
        self.bytes = self.bytes.saturating_sub(job.bytes);
        true
    }
}

impl Lanes {
    pub fn push(&mut self, job: Job) {
        self.count += 1;
        match self.lanes.iter_mut().find(|(lane, _)| *lane == job.lane) {
            Some((_, jobs)) => jobs.push_back(job),
            None => self.lanes.push_back((job.lane.clone(), VecDeque::from([job]))),
        }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// When the oldest job came.
    pub fn oldest(&self) -> Option<Instant> {
        self.lanes.iter().filter_map(|(_, jobs)| jobs.front()).map(|job| job.arrived).min()
    }

    /// The next group: one job of each lane in turn.
    pub fn take_in_turn(&mut self) -> Vec<Job> {
        let (mut group, mut room) = (Vec::new(), Room::of_a_group());
        while let Some((lane, mut jobs)) = self.lanes.pop_front() {
            let next = jobs.front().is_some_and(|job| room.takes(job));
            group.extend(if next { jobs.pop_front() } else { None });
            if !next {
                self.lanes.push_front((lane, jobs));
                break;
            }
            if !jobs.is_empty() {
                self.lanes.push_back((lane, jobs));
            }
        }
        self.count -= group.len();
        group
    }

    /// The next group: as many of the first lane as there is room for, then of the next one.
    /// Callers take turns, and so do the lanes of each.
    pub fn take_by_lane(&mut self) -> Vec<Job> {
        let (mut group, mut room) = (Vec::new(), Room::of_a_group());
        while let Some((lane, mut jobs)) = self.lanes.pop_front() {
            while jobs.front().is_some_and(|job| room.takes(job)) {
                group.extend(jobs.pop_front());
            }
            let is_done = jobs.is_empty();
            self.put_behind(lane, jobs);
            if !is_done {
                break;
            }
        }
        self.count -= group.len();
        group
    }

    /// Puts a lane that had its turn behind all others, and the other lanes of its caller before
    /// it.
    fn put_behind(&mut self, lane: Lane, jobs: VecDeque<Job>) {
        let is_same = |(other, _): &(Lane, VecDeque<Job>)| other.caller == lane.caller;
        let (same, others): (Vec<_>, Vec<_>) = self.lanes.drain(..).partition(is_same);
        self.lanes.extend(others.into_iter().chain(same));
        if !jobs.is_empty() {
            self.lanes.push_back((lane, jobs));
        }
    }
}
