//! A transaction to be submitted, as its caller describes it.
//!
//! Promises that it has its id before anything is sent, and that everything that can be checked
//! without the database is checked when it becomes an [`Order`].

use std::sync::Arc;
use std::time::SystemTime;

use ledger::amount::Amount;
use ledger::transaction::{
    AccountId, Body, Leg, State, Terms, TransactionId, check_metadata, check_name,
};
use mongodb::bson::raw::cstr;
use mongodb::bson::{DateTime, Document, RawDocument, RawDocumentBuf};
use observe::TraceParent;

use crate::differences::differences;
use crate::error::Error;
use crate::rules::Rules;

use crate::origin::{KeyedArray, Origin};

/// A transaction to be submitted. It has its id before anything is sent, so a failed submission can
/// be submitted again, as a clone: it is paid once.
///
/// ```
/// use client::Submission;
///
/// let rent = Submission::transfer("alice", "bob", 12_50).with_id("rent-2026-11");
/// let split = Submission::legs([("alice", -30), ("bob", 10), ("carol", 20)]).in_currency("EUR");
/// assert_eq!(rent.id(), "rent-2026-11");
/// assert_ne!(split.id(), "");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    id: TransactionId,
    body: Result<Body, Error>,
    /// None where the terms are those of the body. They are checked together, when all are known.
    terms: Option<Box<Terms>>,
    origin: Option<Arc<Origin>>,
    /// Whether nobody has given its id.
    pub(crate) has_new_id: bool,
    /// The span under which its trace goes on.
    pub(crate) trace: Option<Box<TraceParent>>,
}

impl Submission {
    /// A transfer from one account to another, of whole minor units or of an exact decimal
    /// ([`Amount::parse`]). Errors in it are reported when it is submitted.
    #[must_use]
    pub fn transfer(source: &str, destination: &str, value: impl Into<Amount>) -> Submission {
        Submission::new(Body::transfer(source, destination, value.into()).map_err(Error::from))
    }

    /// A transaction of several legs, each of them an account and its signed change. They sum to
    /// zero.
    #[must_use]
    pub fn legs<A: Into<AccountId>, V: Into<Amount>>(
        legs: impl IntoIterator<Item = (A, V)>,
    ) -> Submission {
        let leg =
            |(account, amount): (A, V)| Leg { account: account.into(), amount: amount.into() };
        Submission::new(Body::new(legs.into_iter().map(leg).collect()).map_err(Error::from))
    }

    /// A transaction with this content.
    #[must_use]
    pub fn of(body: Body) -> Submission {
        Submission::new(Ok(body))
    }

    fn new(body: Result<Body, Error>) -> Submission {
        let id = uuid::Uuid::now_v7().to_string().into();
        Submission { id, body, terms: None, origin: None, has_new_id: true, trace: None }
    }

    /// The same under an id of the caller's: its idempotency key. The default is a new UUIDv7; where
    /// the schema says that ids are `ObjectId`s, it is one that is made from it.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<TransactionId>) -> Submission {
        (self.id, self.has_new_id) = (id.into(), false);
        self
    }

    /// The same in a currency, which every account of it must have.
    #[must_use]
    pub fn in_currency(mut self, currency: impl Into<String>) -> Submission {
        self.body = self.body.map(|body| body.in_currency(Some(currency.into())));
        self
    }

    /// The same with metadata of the caller's own. The engine never reads it.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Document) -> Submission {
        if let Ok(body) = &mut self.body {
            match RawDocumentBuf::try_from(&metadata) {
                Ok(raw) => body.metadata = Some(raw),
                Err(error) => self.body = Err(Error::invalid("metadata", error.to_string())),
            }
        }
        self
    }

    /// The same on hold: its debits are reserved, and the rest waits until it is confirmed.
    #[must_use]
    pub fn held(mut self) -> Submission {
        self.terms().hold = true;
        self
    }

    /// The same, a hold ([`Submission::held`]) that is released if it is not confirmed before this
    /// moment.
    #[must_use]
    pub fn hold_expires_at(mut self, moment: SystemTime) -> Submission {
        self.terms().hold_expires_at = Some(DateTime::from_system_time(moment));
        self
    }

    /// The same for later: nobody settles it before this moment.
    #[must_use]
    pub fn not_before(mut self, moment: SystemTime) -> Submission {
        self.terms().not_before = Some(DateTime::from_system_time(moment));
        self
    }

    /// The same, which is canceled if it is not applied before this moment.
    #[must_use]
    pub fn expires_at(mut self, moment: SystemTime) -> Submission {
        self.terms().expires_at = Some(DateTime::from_system_time(moment));
        self
    }

    /// The same under an exclusive key: while it is not decided, no other transaction can have this
    /// key, and submitting one is refused.
    #[must_use]
    pub fn with_exclusive_key(mut self, key: impl Into<String>) -> Submission {
        self.terms().exclusive_key = Some(key.into());
        self
    }

    /// The same, with where it comes from.
    #[must_use]
    pub fn with_origin(mut self, origin: Option<Arc<Origin>>) -> Submission {
        self.origin = origin;
        self
    }

    /// Whether its id was made from an idempotency key.
    pub fn has_id_from_key(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.id_from_key)
    }

    /// Makes it an item of an array under a key.
    pub fn come_in(&mut self, array: &KeyedArray) {
        let origin = self.origin.as_deref().cloned().unwrap_or_default();
        self.origin = Some(Arc::new(Origin { array: Some(array.clone()), ..origin }));
    }

    /// Whether what is stored in a ledger of such ids has other content.
    #[must_use]
    pub fn differs_from(&self, stored: &RawDocument, ids: &Rules) -> bool {
        let own = self.clone().into_order().and_then(|order| ids.fit(order));
        match (own, Body::from_raw(stored)) {
            (Ok(order), Ok(stored)) => !differences(&order.body, &stored).is_empty(),
            (_, _) => true,
        }
    }

    fn terms(&mut self) -> &mut Terms {
        let of_body = || self.body.as_ref().map(|body| body.terms().clone()).unwrap_or_default();
        self.terms.get_or_insert_with(|| Box::new(of_body()))
    }

    /// The same as a part of a trace, given as W3C's `traceparent`; one that is not valid is
    /// ignored. By default it is a part of the trace of OpenTelemetry's current context, if there
    /// is one.
    #[must_use]
    pub fn with_traceparent(mut self, traceparent: &str) -> Submission {
        self.trace = TraceParent::parse(traceparent).map(Box::new);
        self
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its id and content, if every rule holds.
    pub fn into_order(self) -> Result<Order, Error> {
        let mut body = self.body?;
        check_name("id", &self.id)?;
        let terms = self.terms.as_deref().unwrap_or_else(|| body.terms()).as_submitted();
        if terms != *body.terms() {
            body = body.with_terms(terms)?;
        }
        if let Some(currency) = &body.currency {
            check_name("currency", currency)?;
        }
        for leg in body.legs() {
            // Checks the limits: a value made from a plain number may exceed them.
            Amount::from_bson(&leg.amount.into())
                .map_err(|error| Error::invalid("value", error.to_string()))?;
        }
        if let Some(metadata) = &body.metadata {
            check_metadata(metadata)?;
        }
        Ok(Order { id: self.id, body, origin: self.origin })
    }
}

/// A submission that keeps every rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// Its `_id`.
    pub id: TransactionId,
    /// Its content.
    pub body: Body,
    /// Where it comes from.
    pub origin: Option<Arc<Origin>>,
}

impl Order {
    /// Whether it has an exclusive key.
    pub(crate) fn has_key(&self) -> bool {
        self.body.terms().exclusive_key.is_some()
    }

    /// The array under whose key it comes.
    pub fn array(&self) -> Option<&KeyedArray> {
        self.origin.as_ref().and_then(|origin| origin.array.as_ref())
    }

    /// Who submits it, where that has a name.
    pub fn submitted_by(&self) -> Option<Arc<str>> {
        self.origin.as_ref().and_then(|origin| origin.submitted_by.clone())
    }

    /// The document to insert.
    pub(crate) fn to_raw(&self, created_at: DateTime) -> RawDocumentBuf {
        let mut document = self.body.to_raw(&self.id, created_at);
        let Some(origin) = &self.origin else { return document };
        if let Some(name) = &origin.submitted_by {
            document.append(cstr!("submittedBy"), &**name);
        }
        if let Some(request) = &origin.request {
            document.append(cstr!("request"), request.as_str());
        }
        document
    }

    /// The request from whose key the id was made. What is there under the id must come from it,
    /// too.
    pub(crate) fn maker(&self) -> Option<&str> {
        let origin = self.origin.as_ref().filter(|origin| origin.id_from_key)?;
        origin.request.as_deref()
    }
}

impl From<Order> for Submission {
    fn from(Order { id, body, origin }: Order) -> Submission {
        Submission { id, body: Ok(body), terms: None, origin, has_new_id: false, trace: None }
    }
}

/// A submission that is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The transaction's id.
    pub id: TransactionId,
    /// The state in which it was there before, with the same content: then nothing was inserted.
    pub known: Option<State>,
    /// Its state: that in which it was inserted, or was found.
    pub state: State,
    /// Why the broker does not have it, if so. It is accepted all the same: the workers' sweepers
    /// publish transactions that wait for long.
    pub unpublished: Option<Error>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_checked_together_in_whatever_order_they_are_given() {
        let moment = |s| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(s);
        let transfer = || Submission::transfer("a", "b", 1);
        let order = transfer().hold_expires_at(moment(9)).held().into_order().expect("valid");
        let expires = order.body.terms().hold_expires_at;
        assert_eq!(expires, Some(DateTime::from_millis(9_000)));
        for (submission, expected) in [
            (transfer().hold_expires_at(moment(9)), "holdExpiresAt"),
            (transfer().expires_at(moment(9)).not_before(moment(9)), "expiresAt"),
            (transfer().with_exclusive_key(""), "exclusiveKey"),
        ] {
            let error = submission.into_order().expect_err(expected);
            assert!(matches!(&error, Error::Invalid { field, .. } if field == expected), "{error}");
        }
    }
}
