//! Moments on the command line.

use std::time::SystemTime;

/// How a moment is given, for the help.
pub(crate) const NAME: &str = "MOMENT|TIME";

/// A moment, or a time from now.
pub(crate) fn later(text: &str) -> Result<SystemTime, String> {
    if let Ok(delay) = humantime::parse_duration(text) {
        return SystemTime::now().checked_add(delay).ok_or_else(|| "is too far away".to_owned());
    }
    parsed(text)
}

/// A moment, or a time that has passed since.
pub(crate) fn moment(text: &str) -> Result<SystemTime, String> {
    if let Ok(age) = humantime::parse_duration(text) {
        return SystemTime::now().checked_sub(age).ok_or_else(|| "is too long ago".to_owned());
    }
    parsed(text)
}

fn parsed(text: &str) -> Result<SystemTime, String> {
    humantime::parse_rfc3339(text).map_err(|_| {
        "must be a moment like 2026-11-01T00:00:00Z, or a time like 90s, 30m, 12h, 7d".to_owned()
    })
}
