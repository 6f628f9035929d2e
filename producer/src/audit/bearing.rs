//! What a transaction that is read after the moment of the audit says about that moment: pure.
//!
//! Rests on what the states promise. A transaction that is scheduled or `initial` has moved nothing yet, so
//! it had moved nothing at the moment either. One that is in flight and was not read at the moment has been
//! claimed since. One that is held or done was so at the moment, or has become so since: the date of its
//! last change says which, as far as clocks can be trusted.

use common::transaction::State;
use mongodb::bson::{DateTime, Timestamp};

/// How much the date of a change and the moment at which others see it may differ, in milliseconds: the
/// difference of the clocks of two servers, and the time from the update to its commit on a majority.
pub(super) const MARGIN_MS: i64 = 30_000;

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bearing {
    /// It stands as it stood at the moment.
    AsItStood,
    /// It has changed since, and had no effect then.
    ChangedSince,
    /// One of the two: only the order of the changes on the server tells.
    Unclear,
}

/// The moment of the audit, and how long ago that is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// On the cluster's clock.
    pub at: Timestamp,
    /// Milliseconds since then.
    pub elapsed_ms: i64,
}

/// Tells it of a transaction in this state (`None`: not one of ours) with this date of its last change,
/// which was not read at the moment.
pub(super) fn bearing(
    state: Option<State>,
    last_modified: Option<DateTime>,
    moment: Moment,
) -> Bearing {
    match state {
        None | Some(State::Scheduled | State::Initial | State::Canceled) => Bearing::AsItStood,
        Some(State::Pending | State::Applied | State::Canceling) => Bearing::ChangedSince,
        Some(State::Held | State::Done) => {
            let Some(last_modified) = last_modified else { return Bearing::AsItStood };
            let after_ms = last_modified.timestamp_millis() - i64::from(moment.at.time) * 1_000;
            // A date that is later than now says nothing: somebody has forged it.
            let is_since = after_ms > MARGIN_MS && after_ms <= moment.elapsed_ms + MARGIN_MS;
            if after_ms < -MARGIN_MS {
                Bearing::AsItStood
            } else if is_since {
                Bearing::ChangedSince
            } else {
                Bearing::Unclear
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Moment =
        Moment { at: Timestamp { time: 1_000, increment: 3 }, elapsed_ms: 600_000 };

    fn of(state: State, after_ms: i64) -> Bearing {
        let last_modified = DateTime::from_millis(1_000_000 + after_ms);
        bearing(Some(state), Some(last_modified), MOMENT)
    }

    #[test]
    fn what_has_moved_nothing_stands_as_it_stood_and_what_was_claimed_since_does_not() {
        for after_ms in [-90_000, 0, 90_000] {
            for state in [State::Scheduled, State::Initial, State::Canceled] {
                assert_eq!(of(state, after_ms), Bearing::AsItStood, "{state} {after_ms}");
            }
            for state in State::IN_FLIGHT {
                assert_eq!(of(state, after_ms), Bearing::ChangedSince, "{state} {after_ms}");
            }
        }
        assert_eq!(bearing(None, None, MOMENT), Bearing::AsItStood);
    }

    #[test]
    fn what_is_done_or_held_is_judged_by_its_date_where_that_is_far_enough_from_the_moment() {
        for state in [State::Held, State::Done] {
            assert_eq!(of(state, -30_001), Bearing::AsItStood);
            for near in [-30_000, -1, 0, 30_000] {
                assert_eq!(of(state, near), Bearing::Unclear, "{near}");
            }
            assert_eq!(of(state, 30_001), Bearing::ChangedSince);
            assert_eq!(of(state, 630_000), Bearing::ChangedSince);
            assert_eq!(of(state, 630_001), Bearing::Unclear, "later than now");
            assert_eq!(bearing(Some(state), None, MOMENT), Bearing::AsItStood);
        }
    }
}
