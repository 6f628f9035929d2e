//! How one row, one reversal and one account must have ended: rules without any I/O.
//!
//! Compares the answers with the database: what a producer has answered must be true. Returns a
//! sentence for each violation. Shares no code with the producer's audit.

use ledger::transaction::DECIDED_KEY;
use mongodb::bson::{Bson, Document};

use super::clerk::Answered;
use super::holds::of_hold;
use super::load::{Row, Sort};
use super::mischief::End;
use super::neighbour::Written;
use super::produce::Told;
use super::terms::of_terms;

/// Reasons for which a valid transfer may be canceled.
pub const EXCUSES: [&str; 3] = ["insufficient_funds", "requested", "retries_exhausted"];
/// Further reasons for which a valid hold may be canceled; [`of_hold`] says which of them when.
const EXCUSES_OF_HOLDS: [&str; 3] = ["released", "hold_expired", "hold_limit"];

/// A transaction as the database has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Its id.
    pub id: String,
    /// Its state.
    pub state: String,
    /// Why it was canceled, or nothing.
    pub reason: String,
    /// Its signed changes.
    pub legs: Vec<(String, i64)>,
    /// Whether it was submitted as a hold.
    pub hold: bool,
    /// When the hold expires, in Unix milliseconds.
    pub hold_expires_ms: Option<i64>,
    /// When it expires, if it is not applied by then.
    pub expires_ms: Option<i64>,
    /// When it is due.
    pub not_before_ms: Option<i64>,
    /// When it was due as it was submitted, if somebody has changed that.
    pub submitted_not_before_ms: Option<i64>,
    /// When a worker claimed it first, if it was claimed.
    pub claimed_ms: Option<i64>,
    /// What the confirmation of the hold captured of each leg.
    pub captured: Option<Vec<(String, i64)>>,
    /// When it was confirmed.
    pub confirmed_ms: Option<i64>,
    /// Its exclusive key.
    pub key: Option<String>,
    /// When it was decided, if it was claimed before.
    pub decided_ms: Option<i64>,
    /// The transaction that it reverses.
    pub reverses: Option<String>,
    /// When it was submitted, in Unix milliseconds.
    pub created_ms: i64,
    /// When it last changed.
    pub modified_ms: i64,
}

impl Found {
    /// Reads a document without checking whether it is valid.
    #[must_use]
    pub fn read(document: &Document) -> Found {
        let optional = |field: &str| document.get_str(field).ok().map(str::to_owned);
        let text = |field: &str| optional(field).unwrap_or_default();
        let moment =
            |field: &str| document.get_datetime(field).ok().map(|moment| moment.timestamp_millis());
        let captured = document.get_array("captured").ok();
        let reason = document.get_document("reason").and_then(|reason| reason.get_str("code"));
        Found {
            id: text("_id"),
            state: text("state"),
            reason: reason.unwrap_or_default().to_owned(),
            legs: legs(document),
            hold: document.get_bool("hold").unwrap_or(false),
            hold_expires_ms: moment("holdExpiresAt"),
            expires_ms: moment("expiresAt"),
            not_before_ms: moment("notBefore"),
            submitted_not_before_ms: moment("submittedNotBefore"),
            claimed_ms: moment("claimedAt"),
            captured: captured.map(|captured| list(captured)),
            confirmed_ms: moment("confirmedAt"),
            key: optional("exclusiveKey").or_else(|| optional(DECIDED_KEY)),
            decided_ms: moment("decidedAt"),
            reverses: optional("reverses"),
            created_ms: moment("createdAt").unwrap_or(0),
            modified_ms: moment("lastModified").unwrap_or(0),
        }
    }

    /// Whether it is settled.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == "done"
    }

    /// Whether it has come to an end.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.is_done() || self.state == "canceled"
    }

    /// How it ended: `done`, the reason of its cancelation, or the state that it is in.
    #[must_use]
    pub fn end(&self) -> &str {
        match (self.is_done(), self.reason.as_str()) {
            (true, _) => "done",
            (false, "") => &self.state,
            (false, reason) => reason,
        }
    }

    /// The legs that change an account: of a hold, what was captured.
    #[must_use]
    pub fn effect(&self) -> Vec<(String, i64)> {
        let legs = self.captured.as_ref().unwrap_or(&self.legs);
        legs.iter().filter(|(_, amount)| *amount != 0).cloned().collect()
    }

    /// Whether these are its legs, in any order.
    #[must_use]
    pub fn has_legs(&self, legs: &[(String, i64)]) -> bool {
        self.legs.len() == legs.len() && legs.iter().all(|leg| self.legs.contains(leg))
    }
}

fn leg(document: &Document, account: &str, amount: &str) -> (String, i64) {
    let account = document.get_str(account).unwrap_or("?").to_owned();
    (account, document.get_i64(amount).unwrap_or(i64::MIN / 2))
}

fn list(legs: &[Bson]) -> Vec<(String, i64)> {
    let legs = legs.iter().filter_map(Bson::as_document);
    legs.map(|one| leg(one, "account", "amount")).collect()
}

fn legs(document: &Document) -> Vec<(String, i64)> {
    match document.get_array("legs") {
        Ok(legs) => list(legs),
        Err(_) => {
            let (source, value) = leg(document, "source", "value");
            let (destination, _) = leg(document, "destination", "value");
            vec![(source, -value), (destination, value)]
        }
    }
}

/// What else is known of a row when it is judged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// When the submission of its chunk began, in Unix milliseconds.
    pub begun_ms: i64,
    /// Whether a hold may be released, whatever its fate: a clerk cancels it, which releases what
    /// is held, or it still rested at the end of the run.
    pub also_released: bool,
    /// Whether a clerk was asked to cancel it.
    pub to_cancel: bool,
}

/// The contradictions between a row, its answer and the database.
#[must_use]
pub fn of_row(row: &Row, told: &Told, found: Option<&Found>, known: Known) -> Option<String> {
    let broken = |rule: &str| Some(format!("{}: told {told:?}, {rule}: {found:?}", row.id));
    let fits = match (row.sort, told) {
        (_, Told::Unknown) => true,
        (Sort::Invalid, told) => *told == Told::Invalid,
        (Sort::Conflicting, told) => *told == Told::Conflict,
        (Sort::Repeated, told) => !matches!(told, Told::Submitted | Told::Invalid | Told::Conflict),
        (Sort::Transfer | Sort::Refused, told) => !matches!(told, Told::Invalid | Told::Conflict),
    };
    if !fits {
        return broken("which must not be said of such a row");
    }
    let Some(found) = found else {
        return match (row.sort, told) {
            (Sort::Invalid, _) | (_, Told::Unknown) => None,
            _ => broken("and it is lost"),
        };
    };
    match row.sort {
        Sort::Invalid => return broken("and it is in the ledger"),
        // It is judged with the row whose id it has.
        Sort::Conflicting => return None,
        Sort::Repeated | Sort::Transfer | Sort::Refused => {}
    }
    if !found.has_legs(&row.legs) {
        return broken("with other content");
    }
    if !found.is_final() {
        return broken("and it never came to an end");
    }
    match told {
        Told::Done if !found.is_done() => return broken("but it is not done"),
        Told::Canceled(reason) if found.is_done() || found.reason != *reason => {
            return broken("but it is not canceled so");
        }
        _ => {}
    }
    if let Some(broken) = of_hold(row, told, found, known.begun_ms, known.also_released) {
        return Some(broken);
    }
    if let Some(broken) = of_terms(row, found, known.begun_ms) {
        return Some(broken);
    }
    let reason = found.reason.as_str();
    if reason == "requested" && !known.to_cancel {
        return broken("and nobody has canceled it");
    }
    let excused = EXCUSES.contains(&reason)
        || row.hold.is_some() && EXCUSES_OF_HOLDS.contains(&reason)
        || row.terms.expires_ms.is_some() && reason == "expired";
    match row.sort {
        Sort::Refused if found.is_done() => broken("but it had to be refused"),
        Sort::Transfer if !found.is_done() && !excused => broken("canceled without a cause"),
        _ => None,
    }
}

/// The contradiction between a transaction of the careless neighbour and the way it must end.
#[must_use]
pub fn of_neighbour(written: &Written, found: Option<&Found>) -> Option<String> {
    let broken = |rule: &str| Some(format!("{}: {rule}: {found:?}", written.id));
    match (written.end, found) {
        (End::Deleted, None) => None,
        (End::Deleted, Some(found)) if found.is_final() && !found.is_done() => None,
        (End::Deleted, Some(_)) => broken("somebody has worked on it"),
        (End::Either | End::Canceled, None) if !written.certain => None,
        (End::Either | End::Canceled, None) => broken("it is lost"),
        (End::Either | End::Canceled, Some(found)) if !found.is_final() => {
            broken("it never came to an end")
        }
        (End::Canceled, Some(found)) if found.is_done() => broken("it makes no sense, and is done"),
        (End::Either | End::Canceled, Some(_)) => None,
    }
}

/// The contradiction between a reversal and its original.
#[must_use]
pub fn of_reversal(reversal: &Found, original: Option<&Found>) -> Option<String> {
    let broken = |rule: &str| Some(format!("{rule}: {reversal:?} of {original:?}"));
    let Some(of) = original else { return broken("a reversal of nothing") };
    let opposite: Vec<_> =
        of.effect().into_iter().map(|(account, amount)| (account, -amount)).collect();
    if !of.is_done() {
        broken("a reversal of what was never done")
    } else if !reversal.has_legs(&opposite) {
        broken("a reversal with other legs")
    } else if !reversal.is_final() {
        broken("a reversal that never came to an end")
    } else {
        None
    }
}

/// The contradiction between an answer to the clerk and the database.
#[must_use]
pub fn of_answer(answer: &Answered, found: impl Fn(&str) -> Option<Found>) -> Option<String> {
    let kept = match answer {
        Answered::Canceled(id) => found(id).is_some_and(|found| found.state == "canceled"),
        Answered::TooLate(id) => found(id).is_some_and(|found| found.is_done()),
        Answered::Rescheduled(id, ms) => {
            found(id).is_some_and(|found| found.not_before_ms == Some(*ms))
        }
        Answered::NotRescheduled(id, ms) => {
            found(id).is_some_and(|found| found.not_before_ms != Some(*ms))
        }
        Answered::WouldExpire(id, ms) => found(id).is_some_and(|found| {
            found.not_before_ms != Some(*ms) && found.expires_ms.is_some_and(|end| end <= *ms)
        }),
        // What is confirmed may still be refused by an account that is credited.
        Answered::Confirmed(id, captured) => {
            found(id).is_some_and(|found| found.captured.as_ref() == Some(captured))
        }
        Answered::NotConfirmed(id) => {
            found(id).is_some_and(|found| found.state == "canceled" && found.captured.is_none())
        }
        Answered::Released(id) => found(id).is_some_and(|found| found.state == "canceled"),
        Answered::NotReleased(id) => found(id).is_some_and(|found| found.captured.is_some()),
        Answered::Odd(_, _) => false,
        Answered::Reversed(id, by) => {
            found(id).is_some_and(|found| found.is_done())
                && found(by).is_some_and(|reversal| reversal.reverses.as_deref() == Some(id))
        }
    };
    (!kept).then(|| format!("the clerk was told {answer:?}, which does not hold"))
}

/// The contradiction between an account and the transactions that are done. Where another program
/// has moved the balance, too, its type is that of what was added last; otherwise it is Int64.
#[must_use]
pub fn of_account(account: &Document, expected: i64, moved_by_others: bool) -> Option<String> {
    let amount = |field: &str| account.get_i64(field).ok();
    let balance = match account.get("balance") {
        Some(Bson::Int32(number)) if moved_by_others => Some((*number).into()),
        Some(Bson::Double(number)) if moved_by_others && number.fract() == 0.0 => {
            Some(*number as i64)
        }
        _ => amount("balance"),
    };
    let marks = account.get_array("pendingTransactions").map_or(0, Vec::len);
    let clean = balance == Some(expected)
        && amount("pendingDebits") == Some(0)
        && amount("pendingCredits") == Some(0)
        && marks == 0
        && expected >= 0;
    (!clean).then(|| format!("an account should have {expected} and nothing pending: {account}"))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::super::terms::Terms;
    use super::*;

    fn row(sort: Sort) -> Row {
        Row {
            id: "t".into(),
            legs: vec![("a".into(), -3), ("b".into(), 3)],
            sort,
            hold: None,
            terms: Terms::default(),
            chunk: 0,
        }
    }

    fn judged(sort: Sort, told: &Told, found: Option<&Found>) -> Option<String> {
        of_row(&row(sort), told, found, Known { to_cancel: true, ..Known::default() })
    }

    fn found(state: &str, reason: &str) -> Found {
        let document = doc! {
            "_id": "t", "source": "a", "destination": "b", "value": 3_i64, "state": state,
            "reason": { "code": reason },
        };
        Found::read(&document)
    }

    #[test]
    fn what_was_told_and_is_so_is_no_violation() {
        let canceled = Told::Canceled("requested".into());
        for (sort, told, state, reason) in [
            (Sort::Transfer, Told::Submitted, "done", ""),
            (Sort::Transfer, Told::Known, "canceled", "insufficient_funds"),
            (Sort::Transfer, canceled, "canceled", "requested"),
            (Sort::Transfer, Told::Unknown, "done", ""),
            (Sort::Refused, Told::Submitted, "canceled", "account_frozen"),
            (Sort::Repeated, Told::Done, "done", ""),
            (Sort::Conflicting, Told::Conflict, "done", ""),
        ] {
            assert_eq!(judged(sort, &told, Some(&found(state, reason))), None);
        }
        assert_eq!(judged(Sort::Invalid, &Told::Invalid, None), None);
        assert_eq!(judged(Sort::Transfer, &Told::Unknown, None), None);
    }

    #[test]
    fn every_broken_word_is_found() {
        let other = Found { legs: vec![("a".into(), -4), ("b".into(), 4)], ..found("done", "") };
        for (sort, told, there, said) in [
            (Sort::Transfer, Told::Submitted, None, "lost"),
            (Sort::Transfer, Told::Submitted, Some(found("pending", "")), "never came"),
            (Sort::Transfer, Told::Submitted, Some(other), "other content"),
            (Sort::Transfer, Told::Conflict, Some(found("done", "")), "must not be said"),
            (Sort::Transfer, Told::Done, Some(found("canceled", "requested")), "not done"),
            (Sort::Transfer, Told::Canceled("x".into()), Some(found("done", "")), "not canceled"),
            (Sort::Transfer, Told::Known, Some(found("canceled", "invalid")), "without a cause"),
            (Sort::Refused, Told::Submitted, Some(found("done", "")), "had to be refused"),
            (Sort::Repeated, Told::Submitted, Some(found("done", "")), "must not be said"),
            (Sort::Conflicting, Told::Known, Some(found("done", "")), "must not be said"),
            (Sort::Invalid, Told::Invalid, Some(found("done", "")), "in the ledger"),
        ] {
            let broken = judged(sort, &told, there.as_ref());
            assert!(broken.as_ref().is_some_and(|broken| broken.contains(said)), "{broken:?}");
        }
    }

    #[test]
    fn a_reversal_takes_back_what_was_done_and_nothing_else() {
        let back = Found { legs: vec![("b".into(), -3), ("a".into(), 3)], ..found("done", "") };
        assert_eq!(of_reversal(&back, Some(&found("done", ""))), None);
        assert!(of_reversal(&back, Some(&found("canceled", "requested"))).is_some());
        assert!(of_reversal(&found("done", ""), Some(&found("done", ""))).is_some());
        assert!(of_reversal(&back, None).is_some());
    }

    #[test]
    fn a_clerks_word_binds_as_well() {
        let there = |state: &'static str| move |_: &str| Some(found(state, ""));
        assert_eq!(of_answer(&Answered::Canceled("t".into()), there("canceled")), None);
        assert!(of_answer(&Answered::Canceled("t".into()), there("done")).is_some());
        assert!(of_answer(&Answered::TooLate("t".into()), there("canceled")).is_some());
        assert!(of_answer(&Answered::Reversed("t".into(), "r".into()), there("done")).is_some());
        let legs = || vec![("a".to_owned(), -3), ("b".to_owned(), 3)];
        let captured = |_: &str| Some(Found { captured: Some(legs()), ..found("done", "") });
        let [confirmed, not_confirmed, released, not_released] = [
            Answered::Confirmed("t".into(), legs()),
            Answered::NotConfirmed("t".into()),
            Answered::Released("t".into()),
            Answered::NotReleased("t".into()),
        ];
        for answer in [&confirmed, &not_released] {
            assert_eq!(of_answer(answer, captured), None);
            assert!(of_answer(answer, there("canceled")).is_some(), "{answer:?}");
        }
        for answer in [&not_confirmed, &released] {
            assert_eq!(of_answer(answer, there("canceled")), None);
            assert!(of_answer(answer, captured).is_some(), "{answer:?}");
        }
        assert!(of_answer(&Answered::Odd("t".into(), "why".into()), captured).is_some());
    }

    #[test]
    fn a_neighbours_transaction_comes_to_the_end_that_it_must() {
        let written = |end: End, certain: bool| Written {
            id: "t".into(),
            legs: vec![],
            end,
            certain,
            mend: None,
        };
        let (done, canceled) = (found("done", ""), found("canceled", "invalid"));
        let pending = found("pending", "");
        assert_eq!(of_neighbour(&written(End::Either, true), Some(&done)), None);
        assert_eq!(of_neighbour(&written(End::Either, false), None), None);
        assert_eq!(of_neighbour(&written(End::Canceled, true), Some(&canceled)), None);
        assert_eq!(of_neighbour(&written(End::Deleted, true), None), None);
        assert!(of_neighbour(&written(End::Either, true), None).is_some());
        assert!(of_neighbour(&written(End::Either, true), Some(&pending)).is_some());
        assert!(of_neighbour(&written(End::Canceled, true), Some(&done)).is_some());
        assert_eq!(of_neighbour(&written(End::Deleted, true), Some(&canceled)), None);
        for found in [&pending, &done] {
            assert!(of_neighbour(&written(End::Deleted, true), Some(found)).is_some());
        }
    }

    #[test]
    fn an_account_has_exactly_what_was_done_to_it() {
        let account = |balance: i64, held: i64, marks: &[&str]| {
            doc! { "balance": balance, "pendingDebits": held, "pendingCredits": 0_i64,
            "pendingTransactions": marks }
        };
        assert_eq!(of_account(&account(5, 0, &[]), 5, false), None);
        assert!(of_account(&account(6, 0, &[]), 5, false).is_some());
        assert!(of_account(&account(5, 1, &[]), 5, false).is_some());
        assert!(of_account(&account(5, 0, &["t"]), 5, false).is_some());
        assert!(of_account(&account(-5, 0, &[]), -5, false).is_some());
        let typed = |number: Bson, field: &str, moved_by_others| {
            let mut typed = account(7, 0, &[]);
            typed.insert(field, number);
            of_account(&typed, 7, moved_by_others)
        };
        for balance in [Bson::Int32(7), Bson::Double(7.0)] {
            assert_eq!(typed(balance.clone(), "balance", true), None);
            assert!(typed(balance, "balance", false).is_some());
        }
        assert!(typed(Bson::Double(7.5), "balance", true).is_some());
        // Nobody but Tandem writes what is pending.
        assert!(typed(Bson::Double(0.0), "pendingDebits", true).is_some());
    }
}
