//! Handing out the transfers of a load: all at once, or each at its time.
//!
//! Promises that the transfers handed out are always the beginning of the load, so that the audit
//! knows which were executed. A transfer with a fixed time counts as submitted when it was due, not
//! when it was taken: a contender that falls behind can't hide it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

/// When transfers may be taken.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// Any number at any time, until the limit.
    Flood(Duration),
    /// Each when it arrives.
    Schedule(Arrivals),
}

/// A schedule of arrivals: always the same time apart, whatever becomes of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// Transfers a second.
    pub per_s: f64,
    /// So many of them arrive at once.
    pub together: usize,
}

impl Arrivals {
    /// When a transfer arrives, after the first one.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "numbers of transfers are small")]
    pub fn at(self, index: usize) -> Duration {
        let first_with_it = index / self.together * self.together;
        Duration::from_secs_f64(first_with_it as f64 / self.per_s)
    }

    /// How many have arrived by then; the first ones arrive at once.
    fn by(self, elapsed: Duration) -> usize {
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let groups = elapsed.as_secs_f64() * self.per_s / self.together as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
        let whole = groups as usize;
        (whole + 1) * self.together
    }
}

/// Hands out the transfers of a workload, each once.
pub struct Feed {
    total: usize,
    pace: Pace,
    begun: Instant,
    next: Mutex<usize>,
    settled: Arc<AtomicU64>,
}

impl Feed {
    /// Starts the clock.
    #[must_use]
    pub fn start(total: usize, pace: Pace) -> Feed {
        Feed::counting(total, pace, Arc::default())
    }

    /// Starts the clock, and counts here what is settled.
    #[must_use]
    pub fn counting(total: usize, pace: Pace, settled: Arc<AtomicU64>) -> Feed {
        Feed { total, pace, begun: Instant::now(), next: Mutex::new(0), settled }
    }

    /// Notes that so many of those handed out are settled.
    pub fn note_settled(&self, count: usize) {
        self.settled.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// When it was started.
    #[must_use]
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// The moment from which a transfer's latency counts.
    #[must_use]
    pub fn due(&self, index: usize) -> Instant {
        match self.pace {
            Pace::Flood(_) => self.begun,
            Pace::Schedule(arrivals) => self.begun + arrivals.at(index),
        }
    }

    /// Takes what is due, at least one and at most `most`; `None` when it is over.
    pub async fn take(&self, most: usize) -> Option<Range<usize>> {
        let mut next = self.next.lock().await;
        let first = *next;
        if first >= self.total {
            return None;
        }
        let end = match self.pace {
            Pace::Flood(limit) if self.begun.elapsed() >= limit => return None,
            Pace::Flood(_) => first + most,
            Pace::Schedule(arrivals) => {
                tokio::time::sleep_until(self.due(first).into()).await;
                arrivals.by(self.begun.elapsed()).clamp(first + 1, first + most)
            }
        };
        *next = end.min(self.total);
        Some(first..*next)
    }

    /// How many transfers were handed out.
    pub async fn taken(&self) -> usize {
        *self.next.lock().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flood_ends_with_the_load_or_at_its_limit() {
        let feed = Feed::start(5, Pace::Flood(Duration::from_secs(60)));
        assert_eq!(feed.take(3).await, Some(0..3));
        assert_eq!(feed.take(3).await, Some(3..5));
        assert_eq!(feed.take(3).await, None);
        let over = Feed::start(5, Pace::Flood(Duration::ZERO));
        assert_eq!(over.take(3).await, None);
        assert_eq!(over.taken().await, 0);
    }

    #[tokio::test]
    async fn at_a_rate_nothing_comes_early_and_everything_in_order() {
        let arrivals = Arrivals { per_s: 1_000.0, together: 5 };
        let feed = Feed::start(100, Pace::Schedule(arrivals));
        let mut next = 0;
        while let Some(taken) = feed.take(10).await {
            assert!(Instant::now() >= feed.due(taken.end - 1), "{taken:?} came early");
            assert_eq!(taken.start, next);
            assert!((1..=10).contains(&taken.len()));
            next = taken.end;
        }
        assert_eq!(next, 100);
    }

    #[test]
    fn those_who_come_together_come_at_the_same_time() {
        let arrivals = Arrivals { per_s: 100.0, together: 5 };
        for (index, ms) in [(0, 0), (4, 0), (5, 50), (9, 50), (100, 1_000)] {
            assert_eq!(arrivals.at(index), Duration::from_millis(ms), "transfer {index}");
        }
        for (ms, count) in [(0, 5), (49, 5), (50, 10), (1_000, 105)] {
            assert_eq!(arrivals.by(Duration::from_millis(ms)), count, "after {ms} ms");
        }
        let single = Arrivals { per_s: 100.0, together: 1 };
        assert_eq!(single.by(Duration::from_millis(10)), 2);
    }
}
