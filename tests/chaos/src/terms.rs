//! When a row may be settled, and until when: a pure function of seed and id, like the row itself.
//!
//! Owns which rows have `notBefore` and `expiresAt`, what the clerks do with those that are
//! scheduled, and the ends that follow from that. All comparisons are between moments of the
//! server's clock: those that the row was submitted with, and those that the ledger has recorded.
//! Promises a sentence for each contradiction; does no I/O.

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use super::clerk::{Ask, Task};
use super::load::Row;
use super::verdict::Found;

/// Of so many rows, those below [`SCHEDULED`] have `notBefore`, those below [`EXPIRING`] have
/// `expiresAt`, and those below [`BOTH`] have both.
const ROWS: u32 = 20;
const SCHEDULED: u32 = 2;
const EXPIRING: u32 = 4;
const BOTH: u32 = 5;
/// When a scheduled row is due, in milliseconds after its submission began.
const NOT_BEFORE_MS: std::ops::Range<u64> = 2_000..8_000;
/// When a row expires so soon that it may not be settled by then, in milliseconds after it may be
/// settled.
const SHORT_MS: std::ops::Range<u64> = 500..8_000;
/// When all others expire: later than anything may take.
const GENEROUS_MS: u64 = 1_800_000;
/// A row is put forward by so much at most, and off by three times as much.
const MOVED_MS: u64 = 1_500;
/// The clerks come so much too late at most.
const TOO_LATE_MS: u64 = 500;

/// What the clerks do with a row while it is scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plan {
    /// Nothing.
    #[default]
    Keep,
    /// They put it off, or forward, to this moment, in milliseconds after its submission began.
    Reschedule(u64),
    /// They cancel it.
    Cancel,
}

/// The moments of a row, in milliseconds after its submission began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Its `notBefore`.
    pub not_before_ms: Option<u64>,
    /// Its `expiresAt`.
    pub expires_ms: Option<u64>,
    /// What the clerks do with it.
    pub plan: Plan,
    /// When they come.
    pub after_ms: u64,
}

/// A moment of a row whose submission began at this one.
fn at(begun_ms: i64, after_ms: Option<u64>) -> Option<i64> {
    after_ms.map(|after_ms| begun_ms.saturating_add_unsigned(after_ms))
}

impl Terms {
    /// The terms of a row. What is held is left to the clerks that decide holds.
    pub(super) fn draw(rng: &mut StdRng, is_held: bool) -> Terms {
        let roll = rng.random_range(0..ROWS);
        let is_scheduled = roll < SCHEDULED || (EXPIRING..BOTH).contains(&roll);
        let expires = (SCHEDULED..BOTH).contains(&roll);
        let not_before_ms = is_scheduled.then(|| rng.random_range(NOT_BEFORE_MS));
        let expires_ms = expires.then(|| match rng.random_range(0..2) {
            0 => GENEROUS_MS,
            _ => not_before_ms.unwrap_or(0) + rng.random_range(SHORT_MS),
        });
        let terms = Terms { not_before_ms, expires_ms, ..Terms::default() };
        let Some(due_ms) = not_before_ms.filter(|_| !is_held) else { return terms };
        let moved_ms = due_ms - MOVED_MS + rng.random_range(0..4 * MOVED_MS);
        let plan = match rng.random_range(0..4) {
            0 if moved_ms != due_ms => Plan::Reschedule(moved_ms),
            1 => Plan::Cancel,
            _ => Plan::Keep,
        };
        Terms { plan, after_ms: rng.random_range(0..due_ms + TOO_LATE_MS), ..terms }
    }

    /// Whether it has any.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.not_before_ms.is_some() || self.expires_ms.is_some()
    }

    /// Its name in the report.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match (self.plan, self.not_before_ms.is_some(), self.expires_ms) {
            (Plan::Reschedule(_), _, _) => "rescheduled",
            (Plan::Cancel, _, _) => "canceled while scheduled",
            (Plan::Keep, true, Some(_)) => "scheduled and expiring",
            (Plan::Keep, true, None) => "scheduled",
            (Plan::Keep, false, Some(GENEROUS_MS)) => "expiring late",
            (Plan::Keep, false, Some(_)) => "expiring soon",
            (Plan::Keep, false, None) => "without terms",
        }
    }

    /// Its `notBefore`, if its submission began at this moment.
    #[must_use]
    pub fn not_before(&self, begun_ms: i64) -> Option<i64> {
        at(begun_ms, self.not_before_ms)
    }

    /// Its `expiresAt`, if its submission began at this moment.
    #[must_use]
    pub fn expires_at(&self, begun_ms: i64) -> Option<i64> {
        at(begun_ms, self.expires_ms)
    }

    /// What the clerks are asked to do with a row of this id, whose submission begins now.
    #[must_use]
    pub fn ask(&self, id: &str, begun_ms: i64) -> Option<Ask> {
        let task = match self.plan {
            Plan::Keep => return None,
            Plan::Reschedule(after_ms) => {
                Task::Reschedule(id.to_owned(), begun_ms.saturating_add_unsigned(after_ms))
            }
            Plan::Cancel => Task::Cancel(id.to_owned()),
        };
        Some(Ask { task, after: Duration::from_millis(self.after_ms) })
    }
}

/// The contradiction between the end of a valid row and its terms.
#[must_use]
pub fn of_terms(row: &Row, found: &Found, begun_ms: i64) -> Option<String> {
    let broken = |rule: &str| Some(format!("{}: {rule}: {found:?}", row.id));
    let submitted = row.terms.not_before(begun_ms);
    let as_submitted = found.submitted_not_before_ms.or(found.not_before_ms);
    if as_submitted != submitted || found.expires_ms != row.terms.expires_at(begun_ms) {
        return broken("which was to be scheduled, or to expire, otherwise");
    }
    let moved = match row.terms.plan {
        Plan::Reschedule(after_ms) => at(begun_ms, Some(after_ms)),
        Plan::Keep | Plan::Cancel => None,
    };
    let is_moved = found.not_before_ms != submitted;
    if is_moved && found.not_before_ms != moved {
        return broken("which nobody has scheduled for this moment");
    }
    of_moments(found)
}

/// The contradiction between the moments of a transaction: what it was submitted with, and what the
/// ledger has recorded of its claim, its confirmation and its decision.
#[must_use]
pub fn of_moments(found: &Found) -> Option<String> {
    let broken = |rule: &str| Some(format!("{}: {rule}: {found:?}", found.id));
    let decided_ms = found.decided_ms.unwrap_or(found.modified_ms);
    let is_before = |moment: i64| found.not_before_ms.is_some_and(|due_ms| moment < due_ms);
    let has_expired = found.expires_ms.is_some_and(|expires_ms| decided_ms >= expires_ms);
    // A client may cancel what is scheduled. Everything else a worker decides, or a client
    // confirms.
    let by_worker = found.is_final() && found.reason != "requested";
    if found.claimed_ms.is_some_and(is_before) {
        broken("claimed before its notBefore")
    } else if by_worker && is_before(decided_ms) {
        broken("decided before its notBefore")
    } else if found.is_done() && has_expired {
        broken("applied when it had expired")
    } else if found.reason == "expired" && !has_expired {
        broken("canceled as expired, and it had not expired")
    } else if found.confirmed_ms.is_some_and(|confirmed_ms| {
        [found.hold_expires_ms, found.expires_ms]
            .into_iter()
            .flatten()
            .any(|end| confirmed_ms >= end)
    }) {
        broken("confirmed when it had expired")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mongodb::bson::{DateTime, Document, doc};
    use rand::SeedableRng;

    use super::super::load::Sort;
    use super::*;

    /// What was submitted at 1000 ms.
    const BEGUN_MS: i64 = 1_000;

    fn row(terms: Terms) -> Row {
        let legs = vec![("a".into(), -3), ("b".into(), 3)];
        Row { id: "t".into(), legs, sort: Sort::Transfer, hold: None, terms, chunk: 0 }
    }

    fn found(state: &str, reason: &str, moments: &[(&str, i64)]) -> Found {
        let mut document: Document = doc! {
            "_id": "t", "source": "a", "destination": "b", "value": 3_i64, "state": state,
            "reason": { "code": reason },
        };
        for (field, ms) in moments {
            document.insert(*field, DateTime::from_millis(*ms));
        }
        Found::read(&document)
    }

    #[test]
    fn a_quarter_of_all_rows_has_terms_and_every_kind_occurs() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        let (mut forward, mut off) = (0, 0);
        for number in 0..6_000 {
            let terms = Terms::draw(&mut rng, number % 3 == 0);
            if let (Some(begin), Some(end)) = (terms.not_before_ms, terms.expires_ms) {
                assert!(begin < end, "{terms:?} would always expire");
            }
            if let (Plan::Reschedule(to), Some(from)) = (terms.plan, terms.not_before_ms) {
                assert_ne!(to, from, "{terms:?} is not moved");
                *(if to < from { &mut forward } else { &mut off }) += 1;
            }
            assert!(terms.is_any() || terms == Terms::default(), "{terms:?}");
            *names.entry(terms.name()).or_default() += 1;
        }
        assert_eq!(names.len(), 7, "{names:?}");
        assert!(forward > 0 && off > 0, "{forward} put forward, {off} put off");
        assert!((4_300..4_700).contains(&names["without terms"]), "{names:?}");
    }

    #[test]
    fn ends_that_keep_to_the_terms_are_no_violation() {
        let due = Terms { not_before_ms: Some(5_000), ..Terms::default() };
        let moved = Terms { plan: Plan::Reschedule(7_000), ..due };
        let expires = Terms { expires_ms: Some(5_000), ..Terms::default() };
        for (terms, found) in [
            (
                due,
                found(
                    "done",
                    "",
                    &[("notBefore", 6_000), ("claimedAt", 6_000), ("decidedAt", 6_001)],
                ),
            ),
            (due, found("done", "", &[("notBefore", 6_000), ("lastModified", 6_000)])),
            (due, found("canceled", "requested", &[("notBefore", 6_000), ("decidedAt", 2_000)])),
            (
                moved,
                found(
                    "done",
                    "",
                    &[
                        ("notBefore", 8_000),
                        ("submittedNotBefore", 6_000),
                        ("claimedAt", 8_000),
                        ("decidedAt", 9_000),
                    ],
                ),
            ),
            (
                moved,
                found(
                    "done",
                    "",
                    &[("notBefore", 6_000), ("claimedAt", 6_000), ("decidedAt", 6_100)],
                ),
            ),
            (
                expires,
                found(
                    "done",
                    "",
                    &[("expiresAt", 6_000), ("decidedAt", 5_999), ("lastModified", 9_000)],
                ),
            ),
            (expires, found("canceled", "expired", &[("expiresAt", 6_000), ("decidedAt", 6_000)])),
        ] {
            assert_eq!(of_terms(&row(terms), &found, BEGUN_MS), None);
        }
    }

    #[test]
    fn every_moment_that_is_not_kept_is_found() {
        let due = Terms { not_before_ms: Some(5_000), ..Terms::default() };
        let expires = Terms { expires_ms: Some(5_000), ..Terms::default() };
        let none = Terms::default();
        let late = ("expiresAt", 6_000);
        for (terms, found, said) in [
            (due, found("done", "", &[]), "otherwise"),
            (none, found("done", "", &[late]), "otherwise"),
            (
                due,
                found("done", "", &[("notBefore", 9_000), ("submittedNotBefore", 6_000)]),
                "nobody has scheduled",
            ),
            (
                due,
                found(
                    "done",
                    "",
                    &[("notBefore", 6_000), ("claimedAt", 5_999), ("decidedAt", 7_000)],
                ),
                "claimed before",
            ),
            (
                due,
                found("done", "", &[("notBefore", 6_000), ("lastModified", 5_999)]),
                "decided before",
            ),
            (
                due,
                found("canceled", "insufficient_funds", &[("notBefore", 6_000), ("decidedAt", 1)]),
                "decided before",
            ),
            (expires, found("done", "", &[late, ("decidedAt", 6_000)]), "applied when"),
            (expires, found("done", "", &[late, ("lastModified", 6_000)]), "applied when"),
            (
                expires,
                found("canceled", "expired", &[late, ("decidedAt", 5_999)]),
                "had not expired",
            ),
            (none, found("canceled", "expired", &[("decidedAt", 5_999)]), "had not expired"),
            (
                expires,
                found("canceled", "expired", &[late, ("decidedAt", 9_000), ("confirmedAt", 6_000)]),
                "confirmed when",
            ),
        ] {
            let broken = of_terms(&row(terms), &found, BEGUN_MS);
            assert!(broken.as_ref().is_some_and(|broken| broken.contains(said)), "{broken:?}");
        }
        let hold = found("done", "", &[("holdExpiresAt", 2_000), ("confirmedAt", 2_000)]);
        assert!(of_moments(&hold).is_some_and(|broken| broken.contains("confirmed when")));
    }

    #[test]
    fn the_clerks_do_what_the_plan_says() {
        let asked = |plan| {
            let terms = Terms { not_before_ms: Some(5_000), plan, after_ms: 7, ..Terms::default() };
            terms.ask("t", BEGUN_MS).map(|ask| ask.task)
        };
        assert_eq!(asked(Plan::Keep), None);
        assert_eq!(asked(Plan::Cancel), Some(Task::Cancel("t".into())));
        assert_eq!(asked(Plan::Reschedule(6_000)), Some(Task::Reschedule("t".into(), 7_000)));
    }
}
