//! The terms of a transaction: what it asks for beside its legs.
//!
//! Owns when a transaction may be settled and until when, whether its debits are put on hold first,
//! what a confirmation of a hold captures, and its exclusive key. Promises that the terms of a
//! [`Body`] fit each other and its legs. Fails with a [`BodyError`] that names the field.

use std::collections::BTreeMap;

use bson::{Bson, DateTime, Document, doc};

use super::{Body, BodyError, Leg, NAME_BYTES_MAX, State, check_name, field_error, format_nanos};
use crate::amount::Amount;

/// What a transaction asks for beside its legs. Most transactions ask for nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    /// Its debits are reserved first; the rest follows when it is confirmed.
    pub hold: bool,
    /// A hold that is not confirmed before this moment is released.
    pub hold_expires_at: Option<DateTime>,
    /// Nobody settles it before this moment.
    pub not_before: Option<DateTime>,
    /// What `not_before` was when it was submitted, if somebody has changed it since.
    pub submitted_not_before: Option<DateTime>,
    /// It is canceled if it is not applied before this moment.
    pub expires_at: Option<DateTime>,
    /// At most one transaction that is not decided has this key.
    pub exclusive_key: Option<String>,
    /// What the confirmation of a hold captures: the accounts of the legs in their order, each with
    /// an amount between zero and that of its leg.
    pub captured: Option<Vec<Leg>>,
}

/// The terms of most transactions.
static NONE: Terms = Terms {
    hold: false,
    hold_expires_at: None,
    not_before: None,
    submitted_not_before: None,
    expires_at: None,
    exclusive_key: None,
    captured: None,
};

/// A mark that a transaction may have left on an account, and what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marked<'a> {
    /// The account, and the amount that is posted: of a hold's debit, the amount that is held.
    pub leg: &'a Leg,
    /// What of a held debit goes home when it is settled: what was held and not captured. Zero for
    /// all other legs.
    pub released: Amount,
}

/// The largest year that a text of RFC 3339 can name.
pub const MOMENT_MAX_MS: i64 = 253_402_300_799_999;

impl Terms {
    /// The terms as they were when the transaction was submitted.
    #[must_use]
    pub fn as_submitted(&self) -> Terms {
        Terms {
            not_before: self.submitted_not_before.or(self.not_before),
            submitted_not_before: None,
            captured: None,
            ..self.clone()
        }
    }

    /// Until when a hold may be confirmed.
    #[must_use]
    pub fn confirm_before(&self) -> Option<DateTime> {
        [self.hold_expires_at, self.expires_at].into_iter().flatten().min()
    }

    /// Checks the rules that the terms alone have to keep.
    pub(super) fn check(&self) -> Result<(), BodyError> {
        let moments = [
            ("holdExpiresAt", self.hold_expires_at),
            ("notBefore", self.not_before),
            ("expiresAt", self.expires_at),
        ];
        for (field, moment) in moments {
            let millis = moment.map_or(0, DateTime::timestamp_millis);
            if !(0..=MOMENT_MAX_MS).contains(&millis) {
                return Err(field_error(field, "is not a moment between the years 1970 and 9999"));
            }
        }
        if self.hold_expires_at.is_some() && !self.hold {
            return Err(field_error("holdExpiresAt", "is given without hold; set hold to true"));
        }
        for (field, end) in
            [("expiresAt", self.expires_at), ("holdExpiresAt", self.hold_expires_at)]
        {
            if let (Some(begin), Some(end)) = (self.as_submitted().not_before, end)
                && end <= begin
            {
                return Err(field_error(field, "is not after notBefore; it would always expire"));
            }
        }
        match &self.exclusive_key {
            Some(key) => check_name("exclusiveKey", key),
            None => Ok(()),
        }
    }

    /// Adds the fields of a submission to its document.
    pub(super) fn write(&self, document: &mut Document, state: State) {
        if self.hold {
            document.insert("hold", true);
        }
        let moments = [
            ("holdExpiresAt", self.hold_expires_at),
            ("notBefore", self.not_before),
            ("expiresAt", self.expires_at),
        ];
        for (field, moment) in moments {
            if let Some(moment) = moment {
                document.insert(field, moment);
            }
        }
        if let Some(key) = &self.exclusive_key {
            document.insert("exclusiveKey", key);
        }
        let due = if state == State::Scheduled { self.not_before } else { self.expires_at };
        if let Some(due) = due {
            document.insert(DUE_AT, due);
        }
    }
}

/// The field that says when a sweeper has to look at a transaction next: when it is due
/// (`scheduled`), or when it expires. One index finds all of them.
pub const DUE_AT: &str = "dueAt";

/// The field by which an `initial` transaction says that its id is not on the queue, and that
/// nobody but Tandem will publish it.
pub const UNPUBLISHED: &str = "unpublished";

/// The field that has the exclusive key of a transaction that is decided. The decision moves it
/// there, so that a unique index of keys needs no condition on the state, which each end would
/// have to look at.
pub const DECIDED_KEY: &str = "decidedKey";

impl Body {
    /// What it asks for beside its legs.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        self.terms.as_deref().unwrap_or(&NONE)
    }

    /// The same body on these terms.
    ///
    /// # Errors
    /// When they don't fit each other or the legs.
    pub fn with_terms(mut self, terms: Terms) -> Result<Body, BodyError> {
        terms.check()?;
        if let Some(captured) = &terms.captured {
            if !terms.hold {
                return Err(field_error("captured", "is there without hold"));
            }
            let capture = self.capture(captured)?;
            if capture != *captured {
                return Err(field_error("captured", "is not in the order of the legs"));
            }
        }
        self.terms = (terms != NONE).then(|| Box::new(terms));
        Ok(self)
    }

    /// The state in which it is inserted at this moment.
    #[must_use]
    pub fn first_state(&self, now: DateTime) -> State {
        match self.terms().not_before {
            Some(not_before) if not_before > now => State::Scheduled,
            Some(_) | None => State::Initial,
        }
    }

    /// Whether its debits are reserved and the rest waits for a confirmation.
    #[must_use]
    pub fn awaits_confirmation(&self) -> bool {
        self.terms().hold && self.terms().captured.is_none()
    }

    /// The legs with their effect: of a confirmed hold what is captured, where a leg may be zero.
    #[must_use]
    pub fn effect(&self) -> &[Leg] {
        self.terms().captured.as_deref().unwrap_or_else(|| self.legs())
    }

    /// The legs that are to have a mark before the next step: of a hold that is not confirmed its
    /// debits, otherwise all. The debits of a hold are held in full whatever is captured.
    pub fn marked(&self) -> impl Iterator<Item = Marked<'_>> {
        let awaits = self.awaits_confirmation();
        self.legs().iter().zip(self.effect()).filter_map(move |(leg, effect)| {
            if leg.amount.is_negative() {
                // Both are within the limits of an amount and have the same sign.
                let released = effect.amount.checked_add(leg.amount.negated());
                let released = released.unwrap_or(Amount::ZERO);
                return Some(Marked { leg, released });
            }
            let posts = !awaits && !effect.amount.is_zero();
            posts.then_some(Marked { leg: effect, released: Amount::ZERO })
        })
    }

    /// What a confirmation that names these amounts captures, in the order of the legs.
    ///
    /// # Errors
    /// When an account is missing, unknown or named twice, an amount is not between zero and that
    /// of its leg, the amounts don't sum to zero, or nothing would be captured.
    pub fn capture(&self, captured: &[Leg]) -> Result<Vec<Leg>, BodyError> {
        let mut amounts: BTreeMap<&str, Amount> = BTreeMap::new();
        for Leg { account, amount } in captured {
            if amounts.insert(account, *amount).is_some() {
                return Err(BodyError::SameAccount(account.to_string()));
            }
        }
        let (mut ordered, mut sum) = (Vec::with_capacity(self.legs().len()), 0_i128);
        for Leg { account, amount: submitted } in self.legs() {
            let Some(amount) = amounts.remove(&**account) else {
                let problem = format!("does not name account {account:?} of the transaction");
                return Err(field_error("captured", problem));
            };
            if amount.is_int() != submitted.is_int() {
                return Err(BodyError::Mixed);
            }
            let (low, high) = (submitted.nanos().min(0), submitted.nanos().max(0));
            if !(low..=high).contains(&amount.nanos()) {
                let problem = format!(
                    "has {amount} for account {account:?}; it must be between 0 and {submitted}"
                );
                return Err(field_error("captured", problem));
            }
            sum += amount.nanos();
            ordered.push(Leg { account: account.clone(), amount });
        }
        if let Some(account) = amounts.keys().next() {
            let account = crate::limits::echo(account);
            let problem = format!("names account {account:?}, which the transaction does not");
            return Err(field_error("captured", problem));
        }
        if sum != 0 {
            return Err(BodyError::NotZero(format_nanos(sum)));
        }
        if ordered.iter().all(|leg| leg.amount.is_zero()) {
            return Err(field_error("captured", "captures nothing; release the hold instead"));
        }
        Ok(ordered)
    }
}

/// Legs as a document's field holds them.
#[must_use]
pub fn legs_to_bson(legs: &[Leg]) -> Bson {
    let leg =
        |leg: &Leg| Bson::from(doc! { "account": leg.account.as_ref(), "amount": leg.amount });
    legs.iter().map(leg).collect::<Vec<_>>().into()
}

// A key is a name, so it fits an index entry.
const _: () = assert!(NAME_BYTES_MAX < 1_000);

#[cfg(test)]
mod tests {
    use super::*;

    fn leg(account: &str, amount: i64) -> Leg {
        Leg { account: account.into(), amount: Amount::Int(amount) }
    }

    fn moment(ms: i64) -> Option<DateTime> {
        Some(DateTime::from_millis(ms))
    }

    fn split() -> Body {
        Body::new(vec![leg("a", -7), leg("b", 5), leg("c", 2)]).expect("valid")
    }

    fn held(captured: Option<Vec<Leg>>) -> Body {
        let terms = Terms { hold: true, captured, ..Terms::default() };
        split().with_terms(terms).expect("valid terms")
    }

    #[test]
    fn terms_that_make_no_sense_are_refused_by_name() {
        let cases = [
            (Terms { hold_expires_at: moment(1), ..Terms::default() }, "without hold"),
            (
                Terms { not_before: moment(5), expires_at: moment(5), ..Terms::default() },
                "expiresAt: is not after notBefore",
            ),
            (Terms { expires_at: moment(-1), ..Terms::default() }, "between the years"),
            (Terms { not_before: moment(i64::MAX), ..Terms::default() }, "between the years"),
            (
                Terms { exclusive_key: Some(String::new()), ..Terms::default() },
                "exclusiveKey: is empty",
            ),
        ];
        for (terms, expected) in cases {
            let error = split().with_terms(terms).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error} should say {expected}");
        }
    }

    #[test]
    fn a_capture_names_every_account_once_within_what_was_submitted() {
        let cases = [
            (vec![leg("a", -7), leg("b", 5)], "does not name account \"c\""),
            (vec![leg("a", -7), leg("b", 5), leg("c", 2), leg("d", 0)], "names account \"d\""),
            (vec![leg("a", -8), leg("b", 6), leg("c", 2)], "between 0 and"),
            (vec![leg("a", 7), leg("b", -5), leg("c", -2)], "between 0 and"),
            (vec![leg("a", -4), leg("b", 5), leg("c", 0)], "sum to 1,"),
            (vec![leg("a", 0), leg("b", 0), leg("c", 0)], "captures nothing"),
            (vec![leg("a", -7), leg("a", -7), leg("b", 5)], "named twice"),
        ];
        for (captured, expected) in cases {
            let error = held(None).capture(&captured).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error} should say {expected}");
        }
        let any_order = [leg("c", 0), leg("a", -3), leg("b", 3)];
        let captured = held(None).capture(&any_order).expect("within the legs");
        assert_eq!(captured, [leg("a", -3), leg("b", 3), leg("c", 0)]);
    }

    #[test]
    fn a_hold_marks_its_debits_only_until_it_is_confirmed_and_holds_them_in_full() {
        let marked = |body: &Body| -> Vec<(Leg, i64)> {
            let int =
                |amount: Amount| i64::try_from(amount.nanos() / 1_000_000_000).expect("small");
            body.marked().map(|marked| (marked.leg.clone(), int(marked.released))).collect()
        };
        let all = [(leg("a", -7), 0), (leg("b", 5), 0), (leg("c", 2), 0)];
        assert_eq!(marked(&split()), all);
        assert_eq!(marked(&held(None)), [(leg("a", -7), 0)]);
        let part = held(Some(vec![leg("a", -3), leg("b", 3), leg("c", 0)]));
        assert_eq!(marked(&part), [(leg("a", -7), 4), (leg("b", 3), 0)]);
        assert_eq!(part.effect()[0], leg("a", -3));
    }

    #[test]
    fn documents_with_terms_read_back_as_what_was_written() {
        let terms = Terms {
            hold: true,
            hold_expires_at: moment(90_000),
            not_before: moment(50_000),
            expires_at: moment(70_000),
            exclusive_key: Some("a-for-b".into()),
            ..Terms::default()
        };
        let body = split().with_terms(terms.clone()).expect("valid");
        let mut document = body.to_document("id", DateTime::from_millis(0));
        assert_eq!(document.get_str("state").ok(), Some("scheduled"));
        assert_eq!(document.get_datetime(DUE_AT).ok().copied(), moment(50_000));
        assert_eq!(Body::from_document(&document).expect("valid"), body);
        let late = body.to_document("id", DateTime::from_millis(50_000));
        assert_eq!(late.get_str("state").ok(), Some("initial"));
        assert_eq!(late.get_datetime(DUE_AT).ok().copied(), moment(70_000));

        let captured = vec![leg("a", -3), leg("b", 3), leg("c", 0)];
        let key = document.remove("exclusiveKey").expect("it has a key");
        document.insert(DECIDED_KEY, key);
        assert_eq!(Body::from_document(&document).expect("valid"), body, "it was decided");
        document.insert(DECIDED_KEY, 5);
        let problem = Body::from_document(&document).expect_err("no text").to_string();
        assert!(problem.starts_with("decidedKey: "), "{problem}");
        document.insert(DECIDED_KEY, "a-for-b");
        document.insert("captured", legs_to_bson(&captured));
        document.insert("notBefore", DateTime::from_millis(60_000));
        document.insert("submittedNotBefore", DateTime::from_millis(50_000));
        let read = Body::from_document(&document).expect("valid");
        assert_eq!(read.terms().captured.as_ref(), Some(&captured));
        assert_eq!(read.terms().as_submitted(), terms);

        document.insert("captured", legs_to_bson(&[leg("a", -3), leg("b", 3)]));
        assert!(Body::from_document(&document).is_err(), "an account is missing");
        document.insert("hold", "yes");
        assert!(Body::from_document(&document).is_err(), "no boolean");
    }
}
