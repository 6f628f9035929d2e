//! A transaction: its legs, states and reasons, and how it reads and writes as a document.
//!
//! Owns what makes a transaction valid ([`Body::new`]) and which fields it has. Promises that a
//! [`Body`] has at least two legs on distinct accounts that sum to zero, none of them zero, and
//! that its names are within [`limits`](crate::limits). `read` takes stored documents in; `terms`
//! has what a transaction may ask for beside its legs. Fails with a [`BodyError`] that says which
//! rule was broken; foreign text in it is cut.

mod expiry;
mod read;
mod state;
mod terms;

use std::collections::HashSet;
use std::sync::Arc;

use bson::raw::cstr;
use bson::{DateTime, Document, RawBsonRef, RawDocumentBuf, doc};

use crate::amount::{Amount, AmountError};

pub use crate::limits::{LEGS_MAX, NAME_BYTES_MAX};
pub use expiry::{expired, hold_expired};
pub use read::check_metadata;
pub(crate) use read::pick_first;
pub use state::{ParkCode, Parked, Reason, ReasonCode, State, UNKNOWN};
pub use terms::{DECIDED_KEY, DUE_AT, MOMENT_MAX_MS, Marked, Terms, UNPUBLISHED, legs_to_bson};

/// A transaction's `_id`: the client's idempotency key.
pub type TransactionId = Arc<str>;

/// An account's `_id`.
pub type AccountId = Arc<str>;

/// One signed change of one account: negative is a debit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The account it changes.
    pub account: AccountId,
    /// By how much.
    pub amount: Amount,
}

/// What a submission asks for: the part of a transaction that never changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    legs: Vec<Leg>,
    /// The currency that every account of it must have; none means accounts without one.
    pub currency: Option<String>,
    /// The transaction whose effect this one takes back.
    pub reverses: Option<String>,
    /// Whatever the client wants to keep beside it, which who submits it has to have checked by
    /// [`check_metadata`]; the engine never reads it. As bytes: a tree of many small values takes
    /// sixty times as much memory.
    pub metadata: Option<RawDocumentBuf>,
    /// None where it asks for nothing beside its legs, so that most bodies stay small.
    terms: Option<Box<Terms>>,
}

/// Which rule a submission breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// A required field is not there, or has the wrong type.
    #[error("{field}: {problem}")]
    Field {
        /// The field's name.
        field: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// An amount does not parse.
    #[error("{field}: {source}")]
    Amount {
        /// The field's name.
        field: String,
        /// Why not.
        source: AmountError,
    },
    /// Source and destination, or two legs, name the same account.
    #[error("legs: account {0:?} is named twice; a transaction must touch each account once")]
    SameAccount(String),
    /// The legs create or destroy money.
    #[error("legs: the amounts sum to {0}, not to zero")]
    NotZero(String),
    /// Whole and decimal amounts in one transaction.
    #[error("legs: whole and decimal amounts are mixed; write all of them with a point or none")]
    Mixed,
    /// Fewer than two or more than [`LEGS_MAX`].
    #[error("legs: {0} legs; a transaction has 2 to {LEGS_MAX}")]
    LegCount(usize),
}

fn field_error(field: &str, problem: impl Into<String>) -> BodyError {
    BodyError::Field { field: field.to_owned(), problem: problem.into() }
}

impl Body {
    /// A body of any number of legs.
    ///
    /// # Errors
    /// When there are fewer than two legs, an account is named twice, an amount is zero, kinds are
    /// mixed, or the sum is not zero.
    pub fn new(legs: Vec<Leg>) -> Result<Body, BodyError> {
        for leg in &legs {
            check_name("account", &leg.account)?;
        }
        Body::balanced(legs)
    }

    /// A body of legs whose names were looked at.
    fn balanced(legs: Vec<Leg>) -> Result<Body, BodyError> {
        if legs.len() < 2 || legs.len() > LEGS_MAX {
            return Err(BodyError::LegCount(legs.len()));
        }
        let mut sum = 0_i128;
        for leg in &legs {
            if leg.amount.is_zero() {
                return Err(field_error(
                    "amount",
                    format!("is zero for account {:?}", leg.account),
                ));
            }
            if leg.amount.is_int() != legs[0].amount.is_int() {
                return Err(BodyError::Mixed);
            }
            sum += leg.amount.nanos();
        }
        if let Some(account) = named_twice(&legs) {
            return Err(BodyError::SameAccount(account.to_string()));
        }
        if sum != 0 {
            return Err(BodyError::NotZero(format_nanos(sum)));
        }
        Ok(Body { legs, currency: None, reverses: None, metadata: None, terms: None })
    }

    /// A transfer: the two-leg case.
    ///
    /// # Errors
    /// As [`Body::new`]; also when the value is negative.
    pub fn transfer(source: &str, destination: &str, value: Amount) -> Result<Body, BodyError> {
        check_name("source", source)?;
        check_name("destination", destination)?;
        if value.is_zero() || value.is_negative() {
            return Err(field_error("value", format!("is {value}; it must be above zero")));
        }
        if source == destination {
            return Err(field_error(
                "destination",
                format!("is the source {source:?} itself; a transfer needs two accounts"),
            ));
        }
        Body::balanced(vec![
            Leg { account: source.into(), amount: value.negated() },
            Leg { account: destination.into(), amount: value },
        ])
    }

    /// The same body in a currency.
    #[must_use]
    pub fn in_currency(mut self, currency: Option<String>) -> Body {
        self.currency = currency;
        self
    }

    /// The legs, in the order given.
    #[must_use]
    pub fn legs(&self) -> &[Leg] {
        &self.legs
    }

    /// The body that takes this one's effect back.
    #[must_use]
    pub fn reversed(&self, original: &str) -> Body {
        let effect = self.effect().iter().filter(|leg| !leg.amount.is_zero());
        let legs = effect
            .map(|leg| Leg { account: leg.account.clone(), amount: leg.amount.negated() })
            .collect();
        Body {
            legs,
            currency: self.currency.clone(),
            reverses: Some(original.to_owned()),
            metadata: None,
            terms: None,
        }
    }

    /// The document to insert at this moment: `scheduled` if it is for later, otherwise `initial`.
    /// Two legs are written as the manual's simple transfer.
    ///
    /// # Panics
    /// When the metadata is nothing that [`check_metadata`] has passed.
    #[must_use]
    pub fn to_document(&self, id: &str, created_at: DateTime) -> Document {
        Document::try_from(self.to_raw(id, created_at)).expect("metadata was checked")
    }

    /// The same as bytes, without a tree of the metadata.
    ///
    /// # Panics
    /// Never: no name of a field has a zero byte in it.
    #[must_use]
    pub fn to_raw(&self, id: &str, created_at: DateTime) -> RawDocumentBuf {
        let document = self.without_metadata(id, created_at);
        let raw = RawDocumentBuf::try_from(&document);
        let mut raw = raw.expect("no name has a zero byte");
        if let Some(metadata) = &self.metadata {
            raw.append(cstr!("metadata"), RawBsonRef::Document(metadata));
        }
        raw
    }

    fn without_metadata(&self, id: &str, created_at: DateTime) -> Document {
        let mut document = doc! { "_id": id };
        match self.legs.as_slice() {
            [debit, credit] if debit.amount.is_negative() => {
                document.insert("source", debit.account.as_ref());
                document.insert("destination", credit.account.as_ref());
                document.insert("value", credit.amount);
            }
            legs => {
                document.insert("legs", legs_to_bson(legs));
            }
        }
        let state = self.first_state(created_at);
        document.insert("state", state);
        if let Some(currency) = &self.currency {
            document.insert("currency", currency);
        }
        if let Some(reverses) = &self.reverses {
            document.insert("reverses", reverses);
        }
        self.terms().write(&mut document, state);
        document.insert("createdAt", created_at);
        document.insert("lastModified", created_at);
        document
    }
}

fn named_twice(legs: &[Leg]) -> Option<&AccountId> {
    // Most transactions have two legs: no set is needed.
    if let [one, other] = legs {
        return (one.account == other.account).then_some(&one.account);
    }
    let mut accounts = HashSet::with_capacity(legs.len());
    legs.iter().map(|leg| &leg.account).find(|account| !accounts.insert(*account))
}

/// Checks an `_id`, account or currency: not empty, not too long, no control characters.
///
/// # Errors
/// Names the field and the limit.
pub fn check_name(field: &str, name: &str) -> Result<(), BodyError> {
    if name.is_empty() {
        return Err(field_error(field, "is empty"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(field_error(field, format!("is longer than {NAME_BYTES_MAX} bytes")));
    }
    if name.chars().any(char::is_control) {
        return Err(field_error(field, "has a control character in it"));
    }
    Ok(())
}

/// Writes a sum of [`Amount::nanos`] as a plain number, without needless zeros.
#[must_use]
pub fn format_nanos(nanos: i128) -> String {
    let text = format!(
        "{}{}.{:09}",
        if nanos < 0 { "-" } else { "" },
        (nanos / 1_000_000_000).abs(),
        (nanos % 1_000_000_000).abs()
    );
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leg(account: &str, amount: i64) -> Leg {
        Leg { account: account.into(), amount: Amount::Int(amount) }
    }

    #[test]
    fn a_body_that_breaks_a_rule_is_refused_by_name() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let cases = [
            (vec![leg("a", -5)], "1 legs"),
            (vec![leg("a", -5), leg("b", 4)], "sum to -1,"),
            (vec![leg("a", -5), leg("a", 5)], "named twice"),
            (vec![leg("a", -5), leg("b", 5), leg("c", 0)], "is zero"),
            (vec![leg("", -5), leg("b", 5)], "is empty"),
            (vec![leg(&long, -5), leg("b", 5)], "longer than"),
        ];
        for (legs, expected) in cases {
            let error = Body::new(legs).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error} should say {expected}");
        }
        let mixed = vec![
            leg("a", -5),
            Leg { account: "b".into(), amount: Amount::parse("5.0").expect("a decimal") },
        ];
        assert_eq!(Body::new(mixed), Err(BodyError::Mixed));
    }

    #[test]
    fn transfers_refuse_zero_negative_and_self() {
        for (source, destination, value) in [("a", "b", 0), ("a", "b", -1), ("a", "a", 1)] {
            assert!(Body::transfer(source, destination, Amount::Int(value)).is_err());
        }
    }

    #[test]
    fn documents_read_back_as_what_was_written() {
        let transfer = Body::transfer("a", "b", Amount::Int(7)).expect("valid");
        let split = Body::new(vec![leg("a", -7), leg("b", 5), leg("c", 2)])
            .expect("valid")
            .in_currency(Some("EUR".into()));
        for body in [transfer.clone(), split.clone(), split.reversed("x"), transfer.reversed("y")] {
            let document = body.to_document("id", DateTime::from_millis(0));
            let read = Body::from_document(&document).expect("valid");
            assert_eq!(read.legs().len(), body.legs().len());
            assert!(body.legs().iter().all(|leg| read.legs().contains(leg)));
            assert_eq!(read.currency, body.currency);
            assert_eq!(read.reverses, body.reverses);
        }
    }
}
