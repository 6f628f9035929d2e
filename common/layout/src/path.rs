//! A path: where a field stands in a document, as `wallet.balance`.
//!
//! Promises that a path that was read can be used in filters, updates and expressions alike, and
//! means the same in each of them: a number on the way would be a field in an expression and a
//! place in a list everywhere else, so it is refused.

use std::fmt;

/// No longer path is taken, in bytes.
const PATH_BYTES_MAX: usize = 200;
/// No deeper path is taken: each level on the way costs a condition in every update.
const LEVELS_MAX: usize = 5;

/// Where a field stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    /// Reads a path.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Path, String> {
        let said = |problem: &str| Err(format!("{:?} {problem}", ledger::limits::echo(text)));
        if text.len() > PATH_BYTES_MAX {
            return said(&format!("has more than {PATH_BYTES_MAX} bytes"));
        }
        for part in text.split('.') {
            if part.is_empty() {
                return said("has an empty name in it");
            }
            if part.starts_with('$') {
                return said(
                    "has a name that begins with `$`, which MongoDB takes for an operator",
                );
            }
            if part.bytes().all(|byte| byte.is_ascii_digit()) {
                return said("has a number in it, which would be a place in a list");
            }
            if part.chars().any(char::is_control) {
                return said("has a control character in it");
            }
        }
        if text.split('.').count() > LEVELS_MAX {
            return said(&format!("has more than {LEVELS_MAX} levels"));
        }
        Ok(Path(text.to_owned()))
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same with one more name behind it.
    #[must_use]
    pub fn join(&self, name: &str) -> String {
        format!("{}.{name}", self.0)
    }

    /// What has to be an object, or not there, for the field to be there: all paths on the way,
    /// the shortest first.
    pub fn parents(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('.').map(|(at, _)| &self.0[..at])
    }

    /// Whether the other path is this one or leads through it.
    #[must_use]
    pub fn begins(&self, other: &Path) -> bool {
        is_within(&other.0, &self.0)
    }
}

/// Whether a path is another one, or leads on from it.
#[must_use]
pub fn is_within(path: &str, object: &str) -> bool {
    path.strip_prefix(object).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_means_the_same_everywhere_or_is_refused() {
        for good in ["balance", "wallet.balance", "Größe", "a-b.c d", "x1.y2"] {
            assert!(Path::parse(good).is_ok(), "{good}");
        }
        let long = "x".repeat(PATH_BYTES_MAX + 1);
        for bad in
            ["", ".", "a.", ".a", "a..b", "$a", "a.$b", "a.0", "7", "a\n", "a.b.c.d.e.f", &long]
        {
            assert!(Path::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_path_begins_itself_and_what_leads_through_it() {
        let path = |text| Path::parse(text).expect("a path");
        assert!(path("a").begins(&path("a")) && path("a").begins(&path("a.b")));
        assert!(!path("a").begins(&path("ab")) && !path("a.b").begins(&path("a")));
        assert_eq!(path("a.b.c").parents().collect::<Vec<_>>(), ["a", "a.b"]);
    }
}
