//! Figures for people and reports.

/// The smallest of the sorted values that at least so many percent of them do not exceed (nearest
/// rank); `None` of none.
#[must_use]
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// A rounded number with a comma before each three digits.
#[must_use]
pub fn thousands(number: f64) -> String {
    let digits = format!("{:.0}", number.abs().round());
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if number < 0.0 { format!("-{grouped}") } else { grouped }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let sorted: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        for (percent, ms) in [(0, 1), (50, 100), (75, 150), (99, 198), (100, 200)] {
            assert_eq!(percentile(&sorted, percent), Some(Duration::from_millis(ms)), "{percent}");
        }
        assert_eq!(percentile(&sorted[..1], 99), Some(Duration::from_millis(1)));
        assert_eq!(percentile::<Duration>(&[], 50), None);
    }

    #[test]
    fn large_numbers_have_commas() {
        for (number, text) in [
            (0.0, "0"),
            (0.4, "0"),
            (999.0, "999"),
            (1_000.0, "1,000"),
            (20_000.0, "20,000"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(thousands(number), text);
        }
    }
}
