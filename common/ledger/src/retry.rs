//! Retry delays: the only module that knows the `backoff` crate.
//!
//! Owns the shapes of waiting. Loops that wait for a server hold a [`Reconnect`]. The protocol's
//! own delays are a pure function of the attempt and of a number that is passed in
//! ([`Policy::delay`]), so that a simulation replays. Neither gives up by itself: its caller
//! counts.

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
        let doubled = 1_u32.checked_shl(attempt.max(1) - 1).unwrap_or(u32::MAX);
        let whole = self.first.saturating_mul(doubled).min(self.max);
        whole.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0))
    }
}

/// The waits of a loop that tries to reach a server: quick at first, and never silent for longer
/// than two and a half seconds.
#[derive(Debug)]
pub struct Reconnect(ExponentialBackoff);

impl Default for Reconnect {
    fn default() -> Reconnect {
        let Policy { first, max } = Policy::RECONNECT;
        Reconnect(ExponentialBackoff {
            current_interval: first,
            initial_interval: first,
            randomization_factor: 0.25,
            multiplier: 2.0,
            max_interval: max,
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        })
    }
}

impl Reconnect {
    /// How long to wait now.
    pub fn wait(&mut self) -> Duration {
        self.0.next_backoff().unwrap_or(Policy::RECONNECT.max)
    }

    /// It is there again: the next wait is a short one.
    pub fn reached(&mut self) {
        self.0.reset();
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
    fn a_loop_waits_longer_and_longer_until_the_server_is_reached() {
        let mut reconnect = Reconnect::default();
        let waits: Vec<_> = (0..9).map(|_| reconnect.wait().as_millis()).collect();
        assert!((75..=125).contains(&waits[0]), "{waits:?}");
        assert!((1_500..=2_500).contains(&waits[8]), "{waits:?}");
        reconnect.reached();
        assert!(reconnect.wait().as_millis() <= 125);
    }

    #[test]
    fn jitter_spreads_over_the_upper_half() {
        let policy = Policy { first: Duration::from_millis(100), max: Duration::from_secs(1) };
        assert_eq!(policy.delay(1, 0.0).as_millis(), 50);
        assert_eq!(policy.delay(1, 0.5).as_millis(), 75);
        assert_eq!(policy.delay(1, 7.0).as_millis(), 100);
    }
}
