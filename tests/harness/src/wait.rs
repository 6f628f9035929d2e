//! Waiting for a condition with a deadline, instead of sleeping and hoping.
//!
//! Promises to look often, less often the longer it waits, and to look once more after the
//! deadline, so that a machine that was stopped for a while does not fail a test. Panics with the
//! name of the condition.
//! A limit is no promise of speed: a test that holds one compares the time that the wait took with
//! [`promised`].

use std::time::{Duration, Instant};

/// The shortest and the longest pause between two looks. Tests share two cores: those that wait
/// must not take from the others what they wait for.
const PAUSE: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(200)];
/// A pause is this part of the time that was waited already.
const PAUSE_PART: u32 = 20;

/// A limit is what a machine needs that does nothing else. Tests run beside others, and some
/// machines are slow, so a wait lasts up to so many times as long.
const PATIENCE: u32 = 4;

/// Looks until there is a value, and returns it.
///
/// # Panics
/// When there is none within four times the `limit`.
pub async fn eventually<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let (begun, limit) = (Instant::now(), limit * PATIENCE);
    loop {
        let late = begun.elapsed() > limit;
        if let Some(found) = look().await {
            return found;
        }
        assert!(!late, "waited {limit:?} in vain until {what}");
        tokio::time::sleep((begun.elapsed() / PAUSE_PART).clamp(PAUSE[0], PAUSE[1])).await;
    }
}

/// Looks until the condition holds; returns how long that took.
///
/// # Panics
/// When it does not hold within four times the `limit`.
pub async fn wait_until(
    what: &str,
    limit: Duration,
    mut holds: impl AsyncFnMut() -> bool,
) -> Duration {
    let begun = Instant::now();
    eventually(what, limit, async || holds().await.then_some(())).await;
    begun.elapsed()
}

/// A promised time, as tests compare with it: so many times as long as `TANDEM_TEST_PATIENCE` says.
/// CI sets that, because its machines do other things beside. Without it a promise is taken as it
/// stands.
///
/// # Panics
/// When the variable is no whole number from 1.
#[must_use]
pub fn promised(limit: Duration) -> Duration {
    let Some(patience) = std::env::var_os("TANDEM_TEST_PATIENCE") else { return limit };
    let times = patience.to_str().and_then(|times| times.parse().ok()).filter(|times| *times > 0);
    limit * times.expect("TANDEM_TEST_PATIENCE is a whole number from 1")
}

/// So many seconds.
#[must_use]
pub fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// So many milliseconds.
#[must_use]
pub fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_condition_that_comes_true_ends_the_wait() {
        let mut looks = 0;
        let found = eventually("three looks", s(5), async || {
            looks += 1;
            (looks == 3).then_some(looks)
        })
        .await;
        assert_eq!(found, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "in vain until pigs fly")]
    async fn a_wait_in_vain_says_for_what() {
        wait_until("pigs fly", ms(1), async || false).await;
    }
}
