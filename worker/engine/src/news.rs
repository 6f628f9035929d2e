//! What of the engine's failures is told, so that a server that is away is one line and not one for
//! each batch.
//!
//! Owns whether the last call that was answered, or failed, failed because of what passes by
//! itself. Promises that the first such failure is told, and the next one only after something has
//! succeeded. All others are told each time.

use std::sync::atomic::{AtomicBool, Ordering};

use ledger::{Fault, LedgerError};

/// Whether a failure that passes by itself was told, and nothing has succeeded since.
#[derive(Default)]
pub(super) struct News(AtomicBool);

impl News {
    /// A call has succeeded.
    pub fn succeeded(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether this failure is news.
    pub fn is_news(&self, error: &LedgerError) -> bool {
        error.fault != Fault::Passing || !self.0.swap(true, Ordering::Relaxed)
    }
}

/// Tells a failure with `tracing`: as a warning if it is news, and otherwise for whoever debugs.
macro_rules! tell {
    ($news:expr, $error:expr, $($told:tt)+) => {
        if $news.is_news($error) {
            tracing::warn!($($told)+)
        } else {
            tracing::debug!($($told)+)
        }
    };
}
pub(super) use tell;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_away_is_told_once_until_it_is_back() {
        let (news, away) = (News::default(), LedgerError::passing("post", "away"));
        let told: Vec<bool> = (0..3).map(|_| news.is_news(&away)).collect();
        assert_eq!(told, [true, false, false]);
        assert!(news.is_news(&LedgerError::lasting("post", "refused")), "another failure");
        news.succeeded();
        assert!(news.is_news(&away), "it was there meanwhile");
    }
}
