//! Handing out the transfers of a load: all at once, or each at its time.
//!
//! Promises that the transfers handed out are always the beginning of the load, so that the audit
//! knows which were executed. A transfer with a fixed time counts as submitted when it was due, not
//! when it was taken: a contender that falls behind can't hide it.

use std::ops::Range;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

/// When transfers may be taken.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// Any number at any time, until the limit.
    Flood(Duration),
    /// So many a second, evenly.
    Rate(f64),
}

/// Hands out the transfers of a workload, each once.
pub struct Feed {
    total: usize,
    pace: Pace,
    begun: Instant,
    next: Mutex<usize>,
}

impl Feed {
    /// Starts the clock.
    #[must_use]
    pub fn start(total: usize, pace: Pace) -> Feed {
        Feed { total, pace, begun: Instant::now(), next: Mutex::new(0) }
    }

    /// When it was started.
    #[must_use]
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// The moment from which a transfer's latency counts.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "numbers of transfers are small")]
    pub fn due(&self, index: usize) -> Instant {
        match self.pace {
            Pace::Flood(_) => self.begun,
            Pace::Rate(per_s) => self.begun + Duration::from_secs_f64(index as f64 / per_s),
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
            Pace::Rate(per_s) => {
                tokio::time::sleep_until(self.due(first).into()).await;
                due_after(self.begun.elapsed(), per_s).clamp(first + 1, first + most)
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

/// How many transfers are due; the first is due at once.
fn due_after(elapsed: Duration, per_s: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "never negative")]
    let whole = (elapsed.as_secs_f64() * per_s) as usize;
    whole + 1
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
        let feed = Feed::start(100, Pace::Rate(1_000.0));
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
    fn what_is_due_grows_with_time() {
        for (ms, due) in [(0, 1), (9, 1), (10, 2), (1_000, 101)] {
            assert_eq!(due_after(Duration::from_millis(ms), 100.0), due, "after {ms} ms");
        }
    }
}
