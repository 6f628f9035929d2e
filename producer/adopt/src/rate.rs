//! How many documents are written in a second at most.
//!
//! Owns the token bucket. Promises that over any time no more documents are written than the rate
//! times that time and one burst. Time is passed in. Pure, and never fails.

use std::time::Duration;

/// The burst: so much of a second's documents may be written at once.
const BURST: Duration = Duration::from_millis(100);

/// The documents of so much time go into one command: the lower the rate, the less others wait.
const COMMAND: Duration = Duration::from_millis(5);

/// A bucket that fills at a rate, and may be overdrawn: then the next has to wait.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    per_second: f64,
    tokens: f64,
    at: Duration,
}

impl Bucket {
    /// A bucket of so many documents a second.
    #[must_use]
    pub fn new(per_second: u32) -> Bucket {
        let per_second = f64::from(per_second.max(1));
        Bucket { per_second, tokens: per_second * BURST.as_secs_f64(), at: Duration::ZERO }
    }

    /// How many documents may be written with one command, at most `most`.
    #[must_use]
    pub fn at_once(&self, most: usize) -> usize {
        let count = (self.per_second * COMMAND.as_secs_f64()) as usize;
        count.clamp(1, most.max(1))
    }

    /// Takes so many, at a moment after the beginning. Returns how long to wait before they are
    /// written.
    pub fn take(&mut self, count: usize, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        let filled = self.tokens + passed.as_secs_f64() * self.per_second;
        self.tokens = filled.min(self.per_second * BURST.as_secs_f64());
        self.tokens -= count as f64;
        Duration::from_secs_f64((-self.tokens / self.per_second).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn over_any_time_no_more_is_written_than_the_rate_and_one_burst() {
        let (mut bucket, mut now, mut written) = (Bucket::new(1_000), Duration::ZERO, 0_u64);
        for _ in 0..50 {
            now += bucket.take(100, now);
            written += 100;
            let most = 1_000.0 * now.as_secs_f64() + 100.0;
            assert!(written as f64 <= most + 0.001, "{written} until {now:?}");
        }
        assert!(now >= ms(4_899) && now <= ms(4_901), "{now:?}");
    }

    #[test]
    fn time_in_which_nothing_is_written_saves_no_more_than_a_burst() {
        let mut bucket = Bucket::new(1_000);
        assert_eq!(bucket.take(100, Duration::ZERO), Duration::ZERO);
        assert_eq!(bucket.take(100, ms(60_000)), Duration::ZERO);
        assert_eq!(bucket.take(100, ms(60_000)), ms(100));
        assert_eq!(bucket.take(50, ms(60_100)), ms(50));
    }

    #[test]
    fn the_lower_the_rate_the_smaller_a_command() {
        assert_eq!(Bucket::new(1_000).at_once(500), 5);
        assert_eq!(Bucket::new(1_000_000).at_once(500), 500);
        assert_eq!(Bucket::new(3).at_once(500), 1);
    }
}
