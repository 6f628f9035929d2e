//! How much work one batch may hold: fixed limits, and what the engine learns on the way.
//!
//! Ids say nothing about how much work they are, and legs say little about how long they take: that
//! depends on the server and on who else uses it. So the engine learns two numbers from its
//! batches: how many legs can be posted well within a lease, and how many transactions that are.
//! Promises that a batch of more than one command whose lease ended on the way is not followed by
//! one of the same size, and that a batch takes at least one transaction. A wrong number costs time
//! only.

use std::sync::atomic::{AtomicUsize, Ordering};

use ledger::{POSTINGS_MAX, Size};

/// The most legs of a batch: some 30 commands for posting and as many for settling.
const LEGS_MAX: usize = 16_384;

/// The fewest legs to which a slow server brings the limit down: those of one command. A command
/// that takes too long by itself is halved by `halving`.
const LEGS_LEAST: usize = POSTINGS_MAX;

/// The most bytes of a batch: contents, and a mark for each leg.
const CONTENT_BYTES_MAX: usize = 8 << 20;

/// What the engine has learned. All lanes share it.
pub(super) struct Capacity {
    /// The most legs of the next batch.
    legs: AtomicUsize,
    /// How many transactions of the size that came last fit one batch.
    fits: AtomicUsize,
}

impl Default for Capacity {
    fn default() -> Capacity {
        Capacity { legs: AtomicUsize::new(LEGS_MAX), fits: AtomicUsize::new(usize::MAX) }
    }
}

impl Capacity {
    /// How many transactions fit one batch, by the size of those that came last.
    pub fn fits(&self) -> usize {
        self.fits.load(Ordering::Relaxed)
    }

    /// An empty load with the limits of now.
    pub fn load(&self) -> Load {
        let legs_max = self.legs.load(Ordering::Relaxed);
        Load { transactions: 0, legs: 0, bytes: 0, legs_max }
    }

    /// Learns from a batch how many transactions fit the next one.
    pub fn learn_size(&self, load: Load, all_fit: bool) {
        if !all_fit {
            self.fits.store(load.transactions, Ordering::Relaxed);
        } else if load.is_light() && load.transactions >= self.fits() {
            self.fits.store(load.transactions.saturating_mul(2), Ordering::Relaxed);
        }
    }

    /// Learns from a batch of so many legs how long they took until they were posted.
    pub fn learn_time(&self, legs: usize, spent_ms: i64, lease_ms: i64) {
        let now = self.legs.load(Ordering::Relaxed);
        let next = legs_next(now, legs, spent_ms, lease_ms);
        if next != now {
            tracing::debug!(legs, spent_ms, lease_ms, next, "the most legs of a batch change");
            self.legs.store(next, Ordering::Relaxed);
        }
    }
}

/// The most legs of the next batch, after one of `legs` legs took so long until it was posted. Half
/// as many after more than half of the lease, twice as many after less than an eighth of it.
fn legs_next(legs_max: usize, legs: usize, spent_ms: i64, lease_ms: i64) -> usize {
    if 2 * spent_ms > lease_ms {
        (legs / 2).clamp(LEGS_LEAST, legs_max)
    } else if 8 * spent_ms < lease_ms && 2 * legs > legs_max {
        (2 * legs_max).min(LEGS_MAX)
    } else {
        legs_max
    }
}

/// How much a batch has taken in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    transactions: usize,
    legs: usize,
    bytes: usize,
    legs_max: usize,
}

impl Load {
    /// Adds a transaction, if it fits. The first one always does.
    pub fn takes(&mut self, id: &str, size: Size) -> bool {
        let legs = self.legs + size.legs;
        let bytes = self.bytes + size.bytes + size.legs * id.len();
        if self.transactions > 0 && (legs > self.legs_max || bytes > CONTENT_BYTES_MAX) {
            return false;
        }
        *self = Load { transactions: self.transactions + 1, legs, bytes, ..*self };
        true
    }

    /// The legs of all that it holds.
    pub fn legs(&self) -> usize {
        self.legs
    }

    /// Whether twice as many of the same size would fit.
    fn is_light(&self) -> bool {
        2 * self.legs <= self.legs_max && 2 * self.bytes <= CONTENT_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_takes_one_at_least_and_keeps_its_limits() {
        let empty = Capacity::default().load();
        let huge = Size { legs: LEGS_MAX + 1, bytes: 1 };
        let mut load = empty;
        assert!(load.takes("t", huge) && !load.takes("t", Size { legs: 2, bytes: 100 }));
        let half = Size { legs: LEGS_MAX / 2, bytes: 1 };
        let mut load = empty;
        assert!(load.takes("t", half) && load.is_light());
        assert!(load.takes("t", half) && !load.is_light() && !load.takes("t", half));
        assert_eq!((load.transactions, load.legs()), (2, LEGS_MAX));
        let wide = Size { legs: 2, bytes: CONTENT_BYTES_MAX };
        let mut load = empty;
        assert!(load.takes("t", wide) && !load.takes("t", wide));
    }

    #[test]
    fn a_batch_that_took_too_long_is_followed_by_smaller_ones_until_they_are_quick() {
        const LEASE_MS: i64 = 10_000;
        for (legs_max, legs, spent_ms, expected) in [
            (LEGS_MAX, LEGS_MAX, LEASE_MS / 2, LEGS_MAX),
            (LEGS_MAX, LEGS_MAX, LEASE_MS / 2 + 1, LEGS_MAX / 2),
            // A lane that began before the others learned does not raise the limit again.
            (2_048, LEGS_MAX, 2 * LEASE_MS, 2_048),
            (LEGS_LEAST, LEGS_LEAST, 2 * LEASE_MS, LEGS_LEAST),
            // A stall that hit a few legs says little about many, but costs little, too.
            (LEGS_MAX, 4, 2 * LEASE_MS, LEGS_LEAST),
            (2_048, 2_000, LEASE_MS / 8 - 1, 4_096),
            (2_048, 1_000, LEASE_MS / 8 - 1, 2_048),
            (2_048, 2_000, LEASE_MS / 8, 2_048),
            (LEGS_MAX, LEGS_MAX, 1, LEGS_MAX),
        ] {
            let next = legs_next(legs_max, legs, spent_ms, LEASE_MS);
            assert_eq!(next, expected, "{legs} of {legs_max} in {spent_ms} ms");
        }
    }
}
