//! Retry delays: the only module that knows the `backoff` crate.
//!
//! Owns the shape of waiting: exponential, capped, with jitter from a number that is passed in, so
//! that a simulation replays. Never gives up by itself: its caller counts the attempts.

use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff;

/// How long to wait before the next attempt.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// The first delay.
    pub first: Duration,
    /// The longest delay, before jitter.
    pub max: Duration,
}

impl Policy {
    /// A connection that was lost: quick at first, and never silent for longer than two seconds.
    pub const RECONNECT: Policy =
        Policy { first: Duration::from_millis(100), max: Duration::from_secs(2) };

    /// An operation that is tried again in place.
    pub const IN_PLACE: Policy =
        Policy { first: Duration::from_millis(50), max: Duration::from_millis(800) };

    /// The delay before attempt `attempt` (1 is the first repetition): doubling from `first` up to
    /// `max`, then spread over its upper half by `jitter` in 0.0..=1.0.
    #[must_use]
    pub fn delay(&self, attempt: u32, jitter: f64) -> Duration {
        let mut backoff = ExponentialBackoff {
            current_interval: self.first,
            initial_interval: self.first,
            randomization_factor: 0.0,
            multiplier: 2.0,
            max_interval: self.max,
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        };
        // Past some thirty doublings every policy has reached its maximum.
        let steps = attempt.clamp(1, 32);
        let whole = (0..steps).filter_map(|_| backoff.next_backoff()).last().unwrap_or(self.max);
        whole.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0))
    }
}

/// Randomness in 0.0..1.0 for [`Policy::delay`], outside of the protocol.
#[must_use]
pub fn jitter() -> f64 {
    rand::random()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let policy = Policy { first: Duration::from_millis(100), max: Duration::from_secs(1) };
        let table = [(0, 100), (1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (9, 1000)];
        for (attempt, expected) in table {
            let delay = policy.delay(attempt, 1.0).as_millis();
            assert_eq!(delay, expected, "attempt {attempt}");
        }
        assert_eq!(policy.delay(u32::MAX, 1.0), policy.max);
    }

    #[test]
    fn jitter_spreads_over_the_upper_half() {
        let policy = Policy { first: Duration::from_millis(100), max: Duration::from_secs(1) };
        assert_eq!(policy.delay(1, 0.0).as_millis(), 50);
        assert_eq!(policy.delay(1, 0.5).as_millis(), 75);
        assert_eq!(policy.delay(1, 7.0).as_millis(), 100);
    }
}
