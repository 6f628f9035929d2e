//! Histograms of workers, added up, and what they say: percentiles. Pure.
//!
//! Promises that histograms with different bounds can be added (workers of two versions may run),
//! that what is kept is bounded, and that a percentile is exact to its bucket.

use super::types::Latency;

/// The most buckets of a sum. Tandem's own have 19; who writes others for fun can't fill the
/// memory.
const BUCKETS_MAX: usize = 256;

/// How many took at most so many milliseconds, and longer than the bucket before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times(Vec<(f64, u64)>);

impl Times {
    /// What was added to a cumulative histogram since it was `before`. What went down says nothing.
    pub fn since(before: &[(f64, u64)], now: &[(f64, u64)]) -> Times {
        let mut times = Vec::new();
        let mut counted = 0;
        for (bound, count) in now {
            let earlier = before.iter().find(|(other, _)| other == bound);
            let grown = count.saturating_sub(earlier.map_or(0, |(_, count)| *count));
            let alone = grown.saturating_sub(counted);
            if alone > 0 {
                times.push((*bound, alone));
            }
            counted += alone;
        }
        Times(times)
    }

    /// Adds others.
    pub fn add(&mut self, others: &Times) {
        for (bound, count) in &others.0 {
            match self.0.binary_search_by(|(other, _)| other.total_cmp(bound)) {
                Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(*count),
                Err(at) if self.0.len() < BUCKETS_MAX => self.0.insert(at, (*bound, *count)),
                Err(_) => {}
            }
        }
    }

    /// The median and the 99th percentile; none of nothing.
    pub fn percentiles(&self) -> Option<Latency> {
        Some(Latency { p50: self.percentile(0.5)?, p99: self.percentile(0.99)? })
    }

    fn percentile(&self, share: f64) -> Option<f64> {
        let all: f64 = self.0.iter().map(|(_, count)| *count as f64).sum();
        let wanted = all * share;
        let (mut passed, mut lower) = (0.0, 0.0);
        for (bound, count) in &self.0 {
            let count = *count as f64;
            if passed + count >= wanted {
                // Nothing is known of the bucket without a bound but where it begins.
                let width = if bound.is_finite() { bound - lower } else { 0.0 };
                return Some(rounded(lower + width * (wanted - passed) / count));
            }
            (passed, lower) = (passed + count, *bound);
        }
        None
    }
}

/// To a tenth: a histogram knows no better.
fn rounded(ms: f64) -> f64 {
    (ms * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFINITE: f64 = f64::INFINITY;

    #[test]
    fn a_percentile_lies_in_its_bucket() {
        let times = Times::since(&[], &[(10.0, 0), (20.0, 98), (50.0, 99), (INFINITE, 100)]);
        let latency = times.percentiles().expect("100 times");
        assert!((10.0..=20.0).contains(&latency.p50), "{latency:?}");
        assert_eq!(latency.p99, 50.0);
        let slow = Times::since(&[], &[(600.0, 0), (INFINITE, 5)]);
        assert_eq!(slow.percentiles(), Some(Latency { p50: 0.0, p99: 0.0 }));
        assert_eq!(Times::default().percentiles(), None);
    }

    #[test]
    fn only_what_was_added_counts_and_a_restart_takes_nothing_away() {
        let before = [(10.0, 50), (20.0, 60), (INFINITE, 60)];
        let now = [(10.0, 50), (20.0, 63), (INFINITE, 63)];
        assert_eq!(Times::since(&before, &now), Times(vec![(20.0, 3)]));
        let restarted = [(10.0, 1), (20.0, 1), (INFINITE, 1)];
        assert_eq!(Times::since(&before, &restarted), Times::default());
    }

    #[test]
    fn histograms_of_other_bounds_are_added_and_their_number_is_limited() {
        let mut times = Times::since(&[], &[(10.0, 1), (20.0, 3)]);
        times.add(&Times::since(&[], &[(15.0, 5), (20.0, 6)]));
        assert_eq!(times, Times(vec![(10.0, 1), (15.0, 5), (20.0, 3)]));
        for bound in 0..10 * BUCKETS_MAX {
            times.add(&Times(vec![(bound as f64 / 7.0, 1)]));
        }
        assert_eq!(times.0.len(), BUCKETS_MAX);
    }
}
