//! What a transaction that is read after the moments of the audit says about those moments, of the
//! accounts that had no mark of it: pure.
//!
//! Rests on what the states promise. All marks of a transaction are there before it is `applied`,
//! and none is removed before that but by its undoing. So without a mark, its effect is booked if
//! it was `applied` or `done` at the moment, and otherwise there is none. What is applied can only
//! become done. So a later read in any other state says that it was not applied. If it is read as
//! applied or done, the question is since when. The dates of its decision and of its last change
//! answer it as far as clocks can be trusted, and near the moment the server's log does. What is
//! held has the marks of its debits for as long as it is held, so of a hold it is asked, too.

use ledger::transaction::State;
use mongodb::bson::{DateTime, Timestamp};

/// How much the date of a change and its place in the server's log may differ, in milliseconds: the
/// difference of the clocks of two servers, and the time from the statement that writes the date to
/// the commit of a native transaction.
pub(super) const MARGIN_MS: i64 = 30_000;

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bearing {
    /// It stood at the moment as it stands now, or in another way that means the same.
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
    /// The date of its commit, if two phases have decided it.
    pub decided_at: Option<DateTime>,
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
        let asks_since_when = |state: &State| *state == State::Held || has_effect(*state);
        let state = self.state.filter(asks_since_when);
        let (Some(state), Some(latest)) = (state, self.last_modified) else {
            return Bearing::AsItStood;
        };
        let earliest = match self.decided_at {
            // A decision that is dated after the last change is nobody's: it does not count.
            Some(decided) if has_effect(state) => decided.min(latest),
            Some(_) | None => latest,
        };
        // A date that is later than now says nothing: somebody has forged it.
        let is_forged = latest.timestamp_millis() > self.now_ms.saturating_add(MARGIN_MS);
        if !may_come_after(latest, moment) {
            Bearing::AsItStood
        } else if after_ms(earliest, moment) > MARGIN_MS && !is_forged {
            Bearing::ChangedSince
        } else {
            Bearing::Unclear
        }
    }
}

fn after_ms(date: DateTime, moment: Timestamp) -> i64 {
    date.timestamp_millis().saturating_sub(i64::from(moment.time) * 1_000)
}

/// Whether a change of this date may have come at this moment, or after it.
pub(super) fn may_come_after(date: DateTime, moment: Timestamp) -> bool {
    after_ms(date, moment) >= -MARGIN_MS
}

/// Whether a transaction in this state is booked on its accounts that have no mark of it.
fn has_effect(state: State) -> bool {
    match state {
        State::Applied | State::Done => true,
        State::Scheduled
        | State::Initial
        | State::Pending
        | State::Held
        | State::Canceling
        | State::Canceled => false,
    }
}

/// What a transaction was when it was read for the first time after the moments, and was not clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    pub state: State,
    /// Whether it has the date of a decision, which two phases write, and no native transaction.
    pub is_decided: bool,
}

/// What the server's log says of a transaction since the first moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// When it last became held.
    pub held: Option<Timestamp>,
    /// When it first became applied.
    pub applied: Option<Timestamp>,
    /// When it first became done.
    pub done: Option<Timestamp>,
    /// Whether it became done as it does natively, where this counts as an attempt: in one step
    /// from `initial`.
    pub counted: bool,
}

impl Changes {
    /// Takes a change in. They come in the server's order.
    pub fn add(&mut self, state: State, at: Timestamp, counted: bool) {
        match state {
            State::Held => self.held = Some(at),
            State::Applied => self.applied = self.applied.or(Some(at)),
            State::Done => {
                self.counted |= self.done.is_none() && counted;
                self.done = self.done.or(Some(at));
            }
            State::Scheduled
            | State::Initial
            | State::Pending
            | State::Canceling
            | State::Canceled => {}
        }
    }
}

impl Before {
    /// From when on it stood as it was read; none if it did so at the first moment already.
    pub fn since(self, changes: Changes) -> Option<Timestamp> {
        if !has_effect(self.state) {
            return changes.held;
        }
        // In two phases it was applied first. If the log does not show that, it was so before the
        // first moment.
        let was_native = changes.counted || !self.is_decided;
        changes.applied.or(changes.done.filter(|_| was_native))
    }

    /// The pieces in which it stood as it stands when it is read once more, but for those in which
    /// it was seen.
    pub fn stood(
        self,
        again: Option<State>,
        since: Option<Timestamp>,
        moments: &[Timestamp],
        seen: &[usize],
    ) -> Vec<usize> {
        let means_the_same = again.is_some_and(|again| {
            again == self.state || has_effect(again) && has_effect(self.state)
        });
        // If not, it was held when it was read first, after all moments, and a hold has no effect
        // where it has no mark.
        let pieces = moments.iter().enumerate().filter(|(piece, at)| {
            means_the_same && !seen.contains(piece) && since.is_none_or(|since| since <= **at)
        });
        pieces.map(|(piece, _)| piece).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Timestamp = Timestamp { time: 1_000, increment: 3 };

    fn date(after_ms: i64) -> Option<DateTime> {
        Some(DateTime::from_millis(1_000_000 + after_ms))
    }

    fn now(state: State, after_ms: i64) -> Now {
        Now {
            state: Some(state),
            last_modified: date(after_ms),
            decided_at: None,
            now_ms: 1_600_000,
        }
    }

    fn of(state: State, after_ms: i64) -> Bearing {
        now(state, after_ms).bearing(MOMENT)
    }

    fn at(time: u32) -> Timestamp {
        Timestamp { time, increment: 1 }
    }

    #[test]
    fn what_is_not_applied_has_no_effect_without_a_mark_whenever_it_has_changed() {
        for after_ms in [-90_000, 0, 90_000] {
            for state in State::ALL {
                let is_open = matches!(state, State::Held | State::Applied | State::Done);
                let stood = of(state, after_ms) == Bearing::AsItStood;
                assert_eq!(stood, !is_open || after_ms < -MARGIN_MS, "{state} {after_ms}");
            }
        }
        let foreign = Now { state: None, last_modified: date(0), decided_at: None, now_ms: 0 };
        assert_eq!(foreign.bearing(MOMENT), Bearing::AsItStood);
    }

    #[test]
    fn what_is_applied_done_or_held_is_judged_by_its_date_where_that_is_far_enough_from_the_moment()
    {
        for state in [State::Held, State::Applied, State::Done] {
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
    fn what_was_applied_before_its_last_change_is_clear_only_if_both_are_on_one_side() {
        for state in [State::Applied, State::Done] {
            for (decided, last, expected) in [
                (-90_000, -31_000, Bearing::AsItStood),
                (-90_000, 90_000, Bearing::Unclear),
                (30_000, 90_000, Bearing::Unclear),
                (31_000, 90_000, Bearing::ChangedSince),
                (90_000, 20_000, Bearing::Unclear),
                (-90_000, 700_000, Bearing::Unclear),
            ] {
                let now = Now { decided_at: date(decided), ..now(state, last) };
                assert_eq!(now.bearing(MOMENT), expected, "{state} {decided} {last}");
            }
        }
        let held = Now { decided_at: date(-90_000), ..now(State::Held, 90_000) };
        assert_eq!(held.bearing(MOMENT), Bearing::ChangedSince, "a hold is not decided");
    }

    #[test]
    fn each_piece_is_judged_by_its_own_moment_but_for_those_in_which_it_was_read() {
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
        for state in [State::Initial, State::Pending, State::Canceling] {
            assert_eq!(now(state, 0).standing(at(900), &moments, &[]), Standing::Always);
        }
        let long_before = now(State::Done, -120_000);
        assert_eq!(long_before.standing(at(1_000), &moments[1..], &[]), Standing::Always);
        let after_a_fail_over = [at(1_000), at(900)];
        let between = now(State::Done, -50_000);
        assert_eq!(between.standing(at(900), &after_a_fail_over, &[]), Standing::Stood(vec![0]));
        let pending = now(State::Pending, 0);
        assert_eq!(pending.standing(at(900), &moments, &[1]), Standing::Stood(vec![0, 2, 3]));
    }

    #[test]
    fn the_log_says_since_when_it_stood_so() {
        let changes = |list: &[(State, u32, bool)]| {
            let mut changes = Changes::default();
            list.iter().for_each(|(state, time, counted)| changes.add(*state, at(*time), *counted));
            changes
        };
        let (applied, done, held) = (State::Applied, State::Done, State::Held);
        for (state, is_decided, log, expected) in [
            (applied, true, vec![], None),
            (applied, true, vec![(applied, 7, false)], Some(7)),
            // It was settled since, and applied before.
            (done, true, vec![(done, 9, false)], None),
            (done, true, vec![(applied, 7, false), (done, 9, false)], Some(7)),
            // Natively. A date that somebody else has written does not matter.
            (done, false, vec![(done, 9, true)], Some(9)),
            (done, true, vec![(done, 9, true)], Some(9)),
            (done, false, vec![(done, 9, false)], Some(9)),
            // A whole document written anew says nothing about the first time.
            (done, false, vec![(done, 9, true), (done, 11, false)], Some(9)),
            (applied, true, vec![(applied, 7, false), (done, 9, false)], Some(7)),
            (held, false, vec![(held, 5, false)], Some(5)),
            (held, false, vec![], None),
            (held, false, vec![(held, 5, false), (applied, 7, false)], Some(5)),
        ] {
            let since = Before { state, is_decided }.since(changes(&log));
            assert_eq!(since.map(|at| at.time), expected, "{state} {is_decided} {log:?}");
        }
    }

    #[test]
    fn what_is_read_once_more_stood_since_then_unless_it_was_a_hold_that_is_none_any_more() {
        let moments = [at(5), at(6), at(8), at(9)];
        let stood = |state, again| {
            Before { state, is_decided: true }.stood(Some(again), Some(at(6)), &moments, &[2])
        };
        assert_eq!(stood(State::Applied, State::Done), [1, 3]);
        assert_eq!(stood(State::Applied, State::Applied), [1, 3]);
        assert_eq!(stood(State::Held, State::Held), [1, 3]);
        for again in [State::Pending, State::Applied, State::Done, State::Canceled] {
            assert!(stood(State::Held, again).is_empty(), "{again}");
        }
    }
}
