//! What a transaction that is read after the moments of the audit says about those moments: pure.
//!
//! Rests on what the states promise. A transaction that is scheduled or `initial` has moved nothing
//! yet, so it had moved nothing at a moment before either. One that is in flight and was not read
//! at the moment has been claimed since. One that is held or done was so at the moment, or has
//! become so since: the date of its last change says which, as far as clocks can be trusted.

use ledger::transaction::State;
use mongodb::bson::{DateTime, Timestamp};

/// How much the date of a change and its place in the server's log may differ, in milliseconds: the
/// difference of the clocks of two servers, and the time from the statement that writes the date to
/// the commit of a native transaction.
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

/// What is known of a transaction when it is read after the moments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// None: not one of ours.
    pub state: Option<State>,
    /// The date of its last change.
    pub last_modified: Option<DateTime>,
    /// About what the server's clock says when it is read, in milliseconds; less, if a majority was
    /// behind when the audit began.
    pub now_ms: i64,
}

/// What it says about the pieces in which it was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It was read in none, and stood in all of them as it stands now.
    Always,
    /// It stood in these as it stands now, and had no effect in the others.
    Stood(Vec<usize>),
    /// Only the order of the changes on the server tells.
    Unclear,
}

impl Now {
    /// What it says about the pieces that were read at these moments, in order, but for those in
    /// which it was seen. `first` is the earliest moment.
    pub fn standing(self, first: Timestamp, moments: &[Timestamp], seen: &[usize]) -> Standing {
        // Nearly all have ended long before the first moment, and need no look at each.
        if seen.is_empty() && self.bearing(first) == Bearing::AsItStood {
            return Standing::Always;
        }
        let mut stood = Vec::new();
        for (piece, moment) in moments.iter().enumerate() {
            if !seen.contains(&piece) {
                match self.bearing(*moment) {
                    Bearing::AsItStood => stood.push(piece),
                    Bearing::ChangedSince => {}
                    Bearing::Unclear => return Standing::Unclear,
                }
            }
        }
        Standing::Stood(stood)
    }

    /// What it says about a moment at which it was not read.
    pub fn bearing(self, moment: Timestamp) -> Bearing {
        match self.state {
            None | Some(State::Scheduled | State::Initial | State::Canceled) => Bearing::AsItStood,
            Some(State::Pending | State::Applied | State::Canceling) => Bearing::ChangedSince,
            Some(State::Held | State::Done) => {
                let Some(last_modified) = self.last_modified else { return Bearing::AsItStood };
                let last_modified = last_modified.timestamp_millis();
                let after_ms = last_modified.saturating_sub(i64::from(moment.time) * 1_000);
                // A date that is later than now says nothing: somebody has forged it.
                let is_forged = last_modified > self.now_ms.saturating_add(MARGIN_MS);
                if after_ms < -MARGIN_MS {
                    Bearing::AsItStood
                } else if after_ms > MARGIN_MS && !is_forged {
                    Bearing::ChangedSince
                } else {
                    Bearing::Unclear
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Timestamp = Timestamp { time: 1_000, increment: 3 };

    fn now(state: State, after_ms: i64) -> Now {
        let last_modified = Some(DateTime::from_millis(1_000_000 + after_ms));
        Now { state: Some(state), last_modified, now_ms: 1_600_000 }
    }

    fn of(state: State, after_ms: i64) -> Bearing {
        now(state, after_ms).bearing(MOMENT)
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
        let foreign = Now { state: None, last_modified: None, now_ms: 0 };
        assert_eq!(foreign.bearing(MOMENT), Bearing::AsItStood);
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
            let undated = Now { last_modified: None, ..now(state, 0) };
            assert_eq!(undated.bearing(MOMENT), Bearing::AsItStood);
        }
    }

    #[test]
    fn each_piece_is_judged_by_its_own_moment_but_for_those_in_which_it_was_read() {
        let at = |time| Timestamp { time, increment: 1 };
        let moments = [at(900), at(1_000), at(1_100), at(1_200)];
        let done = now(State::Done, 50_000);
        assert_eq!(done.standing(at(900), &moments, &[]), Standing::Stood(vec![2, 3]));
        assert_eq!(done.standing(at(900), &moments, &[2]), Standing::Stood(vec![3]));
        assert_eq!(done.standing(at(900), &moments[..2], &[]), Standing::Stood(vec![]));
        let near = now(State::Done, 10_000);
        assert_eq!(near.standing(at(900), &moments, &[0]), Standing::Unclear);
        assert_eq!(
            near.standing(at(900), &moments, &[1]),
            Standing::Stood(vec![2, 3]),
            "it was read in the unclear piece"
        );
        assert_eq!(now(State::Initial, 0).standing(at(900), &moments, &[]), Standing::Always);
        let long_before = now(State::Done, -120_000);
        assert_eq!(long_before.standing(at(1_000), &moments[1..], &[]), Standing::Always);
        let after_a_fail_over = [at(1_000), at(900)];
        let between = now(State::Done, -50_000);
        assert_eq!(between.standing(at(900), &after_a_fail_over, &[]), Standing::Stood(vec![0]));
        assert_eq!(
            now(State::Applied, 0).standing(at(900), &moments, &[1]),
            Standing::Stood(vec![])
        );
    }
}
