//! What becomes of a row on hold: a pure function of seed and id, like the row itself.
//!
//! Owns which rows are holds, what the clerks do with each of them, what its confirmation captures,
//! and the ends that follow from that. Promises a sentence for each contradiction; does no I/O.

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use super::clerk::{Ask, Task};
use super::load::Row;
use super::produce::Told;
use super::verdict::Found;

/// Of so many rows one is a hold.
const ONE_OF: u32 = 3;
/// For the longest that a clerk waits with a hold that does not expire, in milliseconds.
const THINKS_MS_MAX: u64 = 2_000;
/// When a hold that expires does so, in milliseconds after its submission began.
const EXPIRES_MS: std::ops::Range<u64> = 3_000..10_000;
/// A clerk comes so much before or after a hold expires.
const RACE_MS: u64 = 500;

/// What the clerks do with a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They confirm all of it.
    All,
    /// They confirm so many hundredths of it.
    Part(u8),
    /// They release it.
    Release,
    /// One confirms so many hundredths while another releases it.
    Both(u8),
    /// They let it expire.
    Leave,
}

impl Fate {
    /// Its name in the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fate::All => "confirmed",
            Fate::Part(_) => "confirmed in part",
            Fate::Release => "released",
            Fate::Both(_) => "confirmed and released",
            Fate::Leave => "left",
        }
    }

    /// How many hundredths its confirmation captures; `None` if nobody confirms it.
    fn hundredths(self) -> Option<u8> {
        match self {
            Fate::All => Some(100),
            Fate::Part(hundredths) | Fate::Both(hundredths) => Some(hundredths),
            Fate::Release | Fate::Leave => None,
        }
    }

    fn is_released(self) -> bool {
        match self {
            Fate::Release | Fate::Both(_) => true,
            Fate::All | Fate::Part(_) | Fate::Leave => false,
        }
    }
}

/// A row on hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What the clerks do with it.
    pub fate: Fate,
    /// When it expires, if it does, in milliseconds after its submission began.
    pub expires_ms: Option<u64>,
    /// When the clerks come.
    pub after_ms: u64,
}

impl Hold {
    /// Whether a row is a hold, and what becomes of it.
    pub(super) fn draw(rng: &mut StdRng) -> Option<Hold> {
        if rng.random_range(0..ONE_OF) > 0 {
            return None;
        }
        let hundredths = rng.random_range(1..100);
        let fate = match rng.random_range(0..20) {
            0..6 => Fate::All,
            6..12 => Fate::Part(hundredths),
            12..15 => Fate::Release,
            15..17 => Fate::Both(hundredths),
            _ => Fate::Leave,
        };
        let expires = fate == Fate::Leave || rng.random_range(0..4) == 0;
        let expires_ms = expires.then(|| rng.random_range(EXPIRES_MS));
        let after_ms = match expires_ms {
            Some(expires_ms) => expires_ms - RACE_MS + rng.random_range(0..2 * RACE_MS),
            None => rng.random_range(0..THINKS_MS_MAX),
        };
        Some(Hold { fate, expires_ms, after_ms })
    }

    /// The same hold, so much later: it is scheduled, and nobody decides it before that.
    #[must_use]
    pub fn later(self, by_ms: u64) -> Hold {
        let expires_ms = self.expires_ms.map(|expires_ms| expires_ms + by_ms);
        Hold { expires_ms, after_ms: self.after_ms + by_ms, ..self }
    }

    /// When it expires, if its submission began at this moment.
    #[must_use]
    pub fn expires_at(&self, begun_ms: i64) -> Option<i64> {
        self.expires_ms.map(|after_ms| begun_ms.saturating_add_unsigned(after_ms))
    }

    /// What the confirmation of a hold with these legs captures of each, in their order; `None` if
    /// nobody confirms it. Small credits become zero.
    #[must_use]
    pub fn captured(&self, legs: &[(String, i64)]) -> Option<Vec<(String, i64)>> {
        let hundredths = i64::from(self.fate.hundredths()?);
        let part = |(account, amount): &(String, i64)| (account.clone(), amount * hundredths / 100);
        let mut captured: Vec<(String, i64)> = legs.iter().map(part).collect();
        if captured[1..].iter().all(|(_, amount)| *amount == 0) {
            captured[1].1 = 1;
        }
        captured[0].1 = -captured[1..].iter().map(|(_, amount)| amount).sum::<i64>();
        Some(captured)
    }

    /// What the clerks are asked to do with this row.
    #[must_use]
    pub fn asks(&self, row: &Row) -> Vec<Ask> {
        let after = Duration::from_millis(self.after_ms);
        let id = || row.id.clone();
        let confirm = self.captured(&row.legs).map(|captured| Task::Confirm(id(), captured));
        let release = self.fate.is_released().then(|| Task::Release(id()));
        confirm.into_iter().chain(release).map(|task| Ask { task, after }).collect()
    }
}

/// The contradiction between the end of a valid row that is on hold and what the clerks did with
/// it. `begun_ms` is when its submission began; `also_released` says that somebody else has
/// released it.
#[must_use]
pub fn of_hold(
    row: &Row,
    told: &Told,
    found: &Found,
    begun_ms: i64,
    also_released: bool,
) -> Option<String> {
    let broken = |rule: &str| Some(format!("{}: told {told:?}, {rule}: {found:?}", row.id));
    let Some(hold) = &row.hold else {
        return match (found.hold, told) {
            (true, _) => broken("which was not to be held"),
            (false, Told::Held) => broken("which is never held"),
            (false, _) => None,
        };
    };
    let expires_ms = hold.expires_at(begun_ms);
    if !found.hold || found.hold_expires_ms != expires_ms {
        return broken("which was to be held otherwise");
    }
    let confirmed = found.captured.as_ref();
    if confirmed.is_some() && confirmed != hold.captured(&row.legs).as_ref() {
        return broken("with another capture than the clerks asked for");
    }
    match (found.is_done(), confirmed.is_some(), found.reason.as_str()) {
        (true, true, _) => None,
        (true, false, _) => broken("done, and nobody has confirmed it"),
        (false, true, "released" | "hold_expired") => broken("but it had been confirmed"),
        (false, true, "insufficient_funds" | "hold_limit") => broken("although they were reserved"),
        (false, false, "insufficient_funds" | "hold_limit") if *told == Told::Held => {
            broken("although they were reserved")
        }
        (false, false, "released") if !hold.fate.is_released() && !also_released => {
            broken("and nobody has released it")
        }
        (false, false, "hold_expired") if expires_ms.is_none_or(|ms| found.modified_ms < ms) => {
            broken("and it had not expired")
        }
        (false, _, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mongodb::bson::{DateTime, Document, doc};
    use rand::SeedableRng;

    use super::super::load::Sort;
    use super::super::terms::Terms;
    use super::*;

    fn row(fate: Fate, expires_ms: Option<u64>) -> Row {
        let legs = vec![("a".into(), -7), ("b".into(), 4), ("c".into(), 3)];
        let hold = Some(Hold { fate, expires_ms, after_ms: 0 });
        let terms = Terms::default();
        Row { id: "t".into(), legs, sort: Sort::Transfer, hold, terms, chunk: 0 }
    }

    fn ended(state: &str, reason: &str, captured: Option<[i64; 3]>) -> Document {
        let legs = |amounts: [i64; 3]| {
            let legs = ["a", "b", "c"].into_iter().zip(amounts);
            legs.map(|(account, amount)| doc! { "account": account, "amount": amount })
                .collect::<Vec<_>>()
        };
        let mut document = doc! {
            "_id": "t", "hold": true, "state": state, "legs": legs([-7, 4, 3]),
            "reason": { "code": reason }, "lastModified": DateTime::from_millis(9_000),
        };
        if let Some(captured) = captured {
            document.insert("captured", legs(captured));
        }
        document
    }

    #[test]
    fn a_third_of_all_rows_is_held_and_every_fate_occurs() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut fates: BTreeMap<&str, usize> = BTreeMap::new();
        for _ in 0..3_000 {
            let Some(hold) = Hold::draw(&mut rng) else { continue };
            assert!(hold.fate != Fate::Leave || hold.expires_ms.is_some(), "{hold:?} never ends");
            *fates.entry(hold.fate.name()).or_default() += 1;
        }
        assert_eq!(fates.len(), 5, "{fates:?}");
        assert!((900..1_100).contains(&fates.values().sum::<usize>()), "{fates:?}");
    }

    #[test]
    fn a_capture_is_between_nothing_and_what_is_held_and_sums_to_zero() {
        let legs = row(Fate::Leave, None).legs;
        for hundredths in 1..=100 {
            let hold = row(Fate::Part(hundredths), None).hold.expect("a hold");
            let captured = hold.captured(&legs).expect("confirmed");
            assert_eq!(captured.iter().map(|(_, amount)| amount).sum::<i64>(), 0);
            assert!((-7..0).contains(&captured[0].1), "{captured:?}");
            for ((account, of), (same, amount)) in legs.iter().zip(&captured).skip(1) {
                assert!(account == same && (0..=*of).contains(amount), "{captured:?}");
            }
        }
        assert_eq!(row(Fate::All, None).hold.and_then(|hold| hold.captured(&legs)), Some(legs));
    }

    #[test]
    fn the_clerks_do_what_the_fate_says() {
        let asked = |fate| {
            let row = row(fate, None);
            let asks = row.hold.expect("a hold").asks(&row);
            asks.into_iter().map(|ask| ask.task).collect::<Vec<_>>()
        };
        let confirm = |a, b, c| {
            Task::Confirm("t".into(), vec![("a".into(), a), ("b".into(), b), ("c".into(), c)])
        };
        assert_eq!(asked(Fate::All), [confirm(-7, 4, 3)]);
        assert_eq!(asked(Fate::Part(50)), [confirm(-3, 2, 1)]);
        assert_eq!(asked(Fate::Part(1)), [confirm(-1, 1, 0)]);
        assert_eq!(asked(Fate::Release), [Task::Release("t".into())]);
        assert_eq!(asked(Fate::Both(50)), [confirm(-3, 2, 1), Task::Release("t".into())]);
        assert!(asked(Fate::Leave).is_empty());
    }

    #[test]
    fn an_end_that_follows_from_the_fate_is_no_violation() {
        for (fate, state, reason, captured) in [
            (Fate::All, "done", "", Some([-7, 4, 3])),
            (Fate::Part(50), "done", "", Some([-3, 2, 1])),
            (Fate::Part(50), "canceled", "insufficient_funds", None),
            (Fate::Part(50), "canceled", "requested", Some([-3, 2, 1])),
            (Fate::Release, "canceled", "released", None),
            (Fate::Both(50), "canceled", "released", None),
            (Fate::Both(50), "done", "", Some([-3, 2, 1])),
        ] {
            let found = Found::read(&ended(state, reason, captured));
            assert_eq!(of_hold(&row(fate, None), &Told::Submitted, &found, 0, false), None);
        }
        let mut expired = ended("canceled", "hold_expired", None);
        expired.insert("holdExpiresAt", DateTime::from_millis(8_000));
        let (row, found) = (row(Fate::Leave, Some(3_000)), Found::read(&expired));
        assert_eq!(of_hold(&row, &Told::Held, &found, 5_000, false), None);
    }

    #[test]
    fn every_end_that_does_not_follow_is_found() {
        let all = Some([-7, 4, 3]);
        for (fate, state, reason, captured, said) in [
            (Fate::All, "done", "", None, "nobody has confirmed"),
            (Fate::All, "done", "", Some([-3, 2, 1]), "another capture"),
            (Fate::Release, "done", "", all, "another capture"),
            (Fate::Leave, "done", "", all, "another capture"),
            (Fate::All, "canceled", "released", None, "nobody has released"),
            (Fate::Both(100), "canceled", "released", all, "had been confirmed"),
            (Fate::All, "canceled", "hold_expired", None, "had not expired"),
            (Fate::All, "canceled", "insufficient_funds", all, "were reserved"),
            (Fate::All, "canceled", "insufficient_funds", None, "were reserved"),
        ] {
            let found = Found::read(&ended(state, reason, captured));
            let broken = of_hold(&row(fate, None), &Told::Held, &found, 0, false);
            assert!(broken.as_ref().is_some_and(|broken| broken.contains(said)), "{broken:?}");
        }
        let released = Found::read(&ended("canceled", "released", None));
        assert_eq!(
            of_hold(&row(Fate::All, None), &Told::Held, &released, 0, true),
            None,
            "canceled"
        );
        let sooner = row(Fate::All, Some(3_000));
        assert!(of_hold(&sooner, &Told::Held, &released, 0, true).is_some(), "expires otherwise");
        let plain = Row { hold: None, ..row(Fate::All, None) };
        assert!(of_hold(&plain, &Told::Submitted, &released, 0, false).is_some());
    }
}
