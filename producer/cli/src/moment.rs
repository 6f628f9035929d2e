//! Moments on the command line.

use std::time::SystemTime;

use bson::DateTime;

/// How a moment is given, for the help.
pub(crate) const NAME: &str = "MOMENT|TIME";

/// A moment, or a time that has passed since.
pub(crate) fn moment(text: &str) -> Result<SystemTime, String> {
    if let Ok(age) = humantime::parse_duration(text) {
        return SystemTime::now().checked_sub(age).ok_or_else(|| "is too long ago".to_owned());
    }
    DateTime::parse_rfc3339_str(text).map(DateTime::to_system_time).map_err(|_| {
        "must be a moment like 2026-11-01T00:00:00Z, or a time like 90s, 30m, 12h, 7d".to_owned()
    })
}

/// How a moment to come is given, for the help.
pub(crate) const LATER: &str = "MOMENT|+TIME";

/// A moment, or a time from now on.
pub(crate) fn later(text: &str) -> Result<DateTime, String> {
    let moment = match text.strip_prefix('+') {
        Some(time) => humantime::parse_duration(time)
            .ok()
            .and_then(|time| SystemTime::now().checked_add(time))
            .map(DateTime::from_system_time),
        None => DateTime::parse_rfc3339_str(text).ok(),
    };
    moment.ok_or_else(|| {
        "must be a moment like 2026-11-01T00:00:00Z, or a time from now like +90s, +15m, +2h, +7d"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_of_the_past_is_named_in_any_zone_or_is_a_time_that_has_passed() {
        let named = |text| DateTime::from_system_time(moment(text).expect(text)).timestamp_millis();
        assert_eq!(named("2026-11-01T00:00:00Z"), 1_793_491_200_000);
        assert_eq!(named("2026-11-01T01:00:00.250+01:00"), 1_793_491_200_250);
        let passed = DateTime::now().timestamp_millis() - named("15m");
        assert!((900_000..960_000).contains(&passed), "{passed}");
        for wrong in ["+15m", "tomorrow", "2026-11-01", ""] {
            assert!(moment(wrong).expect_err(wrong).contains("30m"), "{wrong}");
        }
    }

    #[test]
    fn a_moment_to_come_is_named_or_is_a_time_from_now() {
        let named = later("2026-11-01T00:00:00.250Z").expect("a moment");
        assert_eq!(named.timestamp_millis(), 1_793_491_200_250);
        let before = DateTime::now().timestamp_millis();
        let ahead = later("+15m").expect("a time").timestamp_millis() - before;
        assert!((900_000..960_000).contains(&ahead), "{ahead}");
        for wrong in ["15m", "+", "+x", "tomorrow", "2026-11-01", "+999999999999999y"] {
            assert!(later(wrong).expect_err(wrong).contains("+15m"), "{wrong}");
        }
    }
}
