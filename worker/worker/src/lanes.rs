//! How many batches a worker has in flight, by how many workers there are, and how large they are.
//!
//! Owns the lanes of one queue. The database is nearly always what limits settlement: batches of
//! many workers at the same time hold up one another there, and are smaller. Promises that a worker
//! with at most one other has as many batches in flight as its setting says; that all workers
//! together have about as many as two of them, and each of them at least one; and that a batch
//! which has the place of several may be as large as two. A number of workers that has changed
//! counts for the batches that begin after it.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many workers have all their lanes.
const WORKERS_WITH_ALL: usize = 2;

/// A batch stands for so many at most: a larger one needs more work in hand than others may spare.
const STANDS_FOR_MAX: usize = 2;

/// The batches in flight of one queue.
pub struct Lanes {
    slots: Arc<Semaphore>,
    most: usize,
    workers: Box<dyn Fn() -> usize + Send + Sync>,
}

/// The place of a batch in flight. Dropped, it is the next one's.
pub struct Lane {
    _slots: OwnedSemaphorePermit,
    weight: usize,
}

impl Lanes {
    /// At most so many. `workers` says how many workers there are, this one included.
    #[must_use]
    pub fn new(most: usize, workers: impl Fn() -> usize + Send + Sync + 'static) -> Lanes {
        Lanes { slots: Arc::new(Semaphore::new(most)), most, workers: Box::new(workers) }
    }

    /// A lane as soon as one is free; `None` never, as long as the lanes exist.
    pub async fn take(&self) -> Option<Lane> {
        let weight = weight(self.most, (self.workers)());
        let slots = u32::try_from(weight).unwrap_or(u32::MAX);
        let slots = self.slots.clone().acquire_many_owned(slots).await.ok()?;
        Some(Lane { _slots: slots, weight })
    }

    /// Whether no batch but the one of this lane is in flight.
    #[must_use]
    pub fn is_only(&self, lane: &Lane) -> bool {
        self.slots.available_permits() + lane.weight == self.most
    }
}

impl Lane {
    /// In place of how many batches the one of this lane is.
    #[must_use]
    pub fn stands_for(&self) -> u32 {
        self.weight.min(STANDS_FOR_MAX) as u32
    }
}

/// Whether there are so many workers that they have no longer all their lanes.
#[must_use]
pub fn are_many(workers: usize) -> bool {
    workers > WORKERS_WITH_ALL
}

/// How many of the slots a batch takes.
fn weight(most: usize, workers: usize) -> usize {
    let lanes = most * WORKERS_WITH_ALL / workers.max(WORKERS_WITH_ALL);
    most.div_ceil(lanes.max(1))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;

    use super::*;

    fn in_flight(most: usize, workers: usize) -> usize {
        most / weight(most, workers)
    }

    #[test]
    fn one_worker_and_two_have_all_lanes_and_each_has_one_however_many_there_are() {
        for most in [1, 2, 3, 32, 256] {
            assert_eq!([0, 1, 2].map(|workers| in_flight(most, workers)), [most; 3]);
            assert_eq!(in_flight(most, 1_000_000), 1);
        }
    }

    #[test]
    fn many_workers_together_have_as_many_lanes_as_two() {
        assert_eq!([3, 4, 8].map(|workers| in_flight(2, workers)), [1; 3]);
        assert_eq!([3, 4, 8].map(|workers| in_flight(32, workers)), [16, 16, 8]);
    }

    #[tokio::test]
    async fn a_number_of_workers_that_changes_counts_from_the_next_batch() {
        let workers = Arc::new(AtomicUsize::new(1));
        let told = workers.clone();
        let lanes = Lanes::new(2, move || told.load(Ordering::Relaxed));
        let take = || lanes.take().now_or_never().flatten();
        let first = take().expect("free");
        assert!(lanes.is_only(&first));
        let first_stands_for = first.stands_for();
        workers.store(4, Ordering::Relaxed);
        assert!(take().is_none(), "four workers had more than one batch in flight");
        drop(first);
        let alone = take().expect("free");
        assert!(lanes.is_only(&alone) && take().is_none());
        assert_eq!((first_stands_for, alone.stands_for()), (1, 2));
        workers.store(2, Ordering::Relaxed);
        drop(alone);
        let two = (take().expect("free"), take().expect("free"));
        assert!(!lanes.is_only(&two.0));
    }
}
