//! What looking, adopting and the way back have in common.
//!
//! Owns the first question about a ledger, how a document is read, and how long the rest takes.

use std::time::{Duration, Instant};

use client::{Client, Error as ClientError};
use layout::EACH_FIELD_ONCE;
use mongo::LedgerSettings;
use mongodb::bson::{RawBsonRef, RawDocument};

use super::looked::Stored;
use super::shape::BYTES;

/// The settings of the ledger, if one is set up, and with them its schema.
pub(super) async fn settings(client: &Client) -> Result<Option<LedgerSettings>, ClientError> {
    let settings = || async {
        let settings = client.store().check_settings().await;
        settings.map_err(mongo::NotReady::without_effect)
    };
    client.insist(settings).await
}

/// A document of a piece, with what the projection has computed.
pub(super) fn stored(document: &RawDocument) -> Stored<'_> {
    let bytes = match document.get(BYTES) {
        Ok(Some(RawBsonRef::Int32(bytes))) => i64::from(bytes),
        Ok(Some(RawBsonRef::Int64(bytes))) => bytes,
        Ok(_) | Err(_) => 0,
    };
    let repeats = matches!(document.get(EACH_FIELD_ONCE), Ok(Some(RawBsonRef::Boolean(false))));
    Stored { document, bytes: u64::try_from(bytes).unwrap_or_default(), repeats }
}

/// How long the rest takes, at the speed so far.
pub(super) fn remaining(elapsed: Duration, read: u64, left: u64) -> Option<Duration> {
    if read == 0 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a time for people")]
    let share = left as f64 / read as f64;
    Some(Duration::from_secs((elapsed.as_secs_f64() * share).round() as u64))
}

/// How long something took, in seconds, for people.
pub(super) fn seconds(begun: Instant) -> f64 {
    (begun.elapsed().as_secs_f64() * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_is_that_of_the_speed_so_far() {
        assert_eq!(remaining(Duration::from_secs(5), 0, 10), None);
        let at = |read, left| remaining(Duration::from_secs(5), read, left);
        assert_eq!(at(100, 200), Some(Duration::from_secs(10)));
        assert_eq!(at(100, 0), Some(Duration::ZERO));
    }
}
