//! Handing out the transfers of a load: all at once, or each at its time.
//!
//! Promises that what was handed out is always the beginning of the load, so that whoever audits
//! knows what was executed. At its time, a transfer counts as submitted when it was due, not when
//! somebody got round to it: a contender that falls behind does not hide it.

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

/// See the module.
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

    /// When a transfer is submitted, as far as its latency goes.
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
                let due = self.begun.elapsed().as_secs_f64() * per_s;
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "> 0")]
                let due = due as usize + 1;
                due.clamp(first + 1, first + most)
            }
        };
        *next = end.min(self.total);
        Some(first..*next)
    }

    /// How many were handed out.
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
    async fn at_a_rate_nothing_comes_early_and_what_has_gathered_comes_together() {
        let feed = Feed::start(1_000, Pace::Rate(1_000.0));
        assert_eq!(feed.take(10).await, Some(0..1));
        let taken = feed.take(10).await.expect("more is coming");
        assert!(Instant::now() >= feed.due(taken.start));
        tokio::time::sleep(Duration::from_millis(30)).await;
        let gathered = feed.take(10).await.expect("more is coming");
        assert_eq!(gathered.len(), 10);
    }
}
