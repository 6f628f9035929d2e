//! How fast each of the two ways settles, while there is always more to do.
//!
//! Owns measuring: transactions by the clock, over about a second, from the end of one batch to the
//! end of another. What comes right after a change of ways is left out, because the other way's
//! batches are still under way then. A batch that is not full ends the measurement: where little
//! comes, the rate says how much comes. A pure calculation; the clock is passed in.

/// How long after a change of ways nothing is counted, in milliseconds.
const SETTLE_IN_MS: i64 = 400;

/// How long a measurement lasts at least, in milliseconds.
const WINDOW_MS: i64 = 1_000;

/// A measurement under way.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Nothing counts before this moment.
    from: i64,
    /// When the first batch has ended, and how many transactions have followed it.
    window: Option<(i64, usize)>,
}

impl Pace {
    /// One that begins with a change of ways.
    pub fn after_change(now_ms: i64) -> Pace {
        Pace { from: now_ms.saturating_add(SETTLE_IN_MS), window: None }
    }

    /// Notes the end of a full batch. Returns transactions a second when the measurement is complete;
    /// the next one begins then.
    pub fn full(&mut self, count: usize, now_ms: i64) -> Option<f64> {
        if now_ms < self.from {
            return None;
        }
        let (since, before) = *self.window.get_or_insert((now_ms, 0));
        if now_ms <= since {
            return None;
        }
        let counted = before + count;
        let took_ms = now_ms.saturating_sub(since);
        if took_ms < WINDOW_MS {
            self.window = Some((since, counted));
            return None;
        }
        self.window = Some((now_ms, 0));
        Some(counted as f64 * 1_000.0 / took_ms as f64)
    }

    /// Notes the end of a batch that was not full.
    pub fn light(&mut self) {
        self.window = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_a_second_after_the_change() {
        let mut pace = Pace::after_change(1_000);
        assert_eq!(pace.full(9_999, 1_300), None, "of the other way");
        assert_eq!(pace.full(9_999, 1_500), None, "the window begins with its end");
        for now in [1_900, 2_300] {
            assert_eq!(pace.full(2_000, now), None);
        }
        assert_eq!(pace.full(2_000, 2_700), Some(5_000.0));
        assert_eq!(pace.full(1_000, 3_700), Some(1_000.0), "the next one has begun");
    }

    #[test]
    fn a_batch_that_is_not_full_ends_the_measurement() {
        let mut pace = Pace::default();
        assert_eq!(pace.full(100, 0), None);
        pace.light();
        assert_eq!(pace.full(100, 1_500), None);
        assert_eq!(pace.full(100, 2_500), Some(100.0));
    }
}
