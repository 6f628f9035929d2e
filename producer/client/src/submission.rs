//! A transaction to be submitted, and inserting it so that a repetition changes nothing.
//!
//! Owns invariant 6 of `ARCHITECTURE.md`: a known `_id` with the same content changes nothing, with
//! other content it is refused. Promises that whatever is answered [`Answer::Submitted`] or [`Answer::Unchanged`] is
//! durable; only then may its id be published.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use ledger::LedgerError;
use ledger::amount::Amount;
use ledger::transaction::{
    AccountId, Body, Leg, State, Terms, TransactionId, check_metadata, check_name,
};
use mongo::{Fields, Store, TRANSACTIONS};
use mongodb::bson::{DateTime, Document, RawDocument, RawDocumentBuf};
use observe::TraceParent;
use tokio::sync::Semaphore;

use crate::equal::same_documents;
use crate::error::Error;
use crate::{keyed, keyed_array};

pub use crate::origin::{KeyedArray, Origin};

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
        Submission { id, body, terms: None, origin: None, trace: None }
    }

    /// The same under an id of the caller's: its idempotency key. The default is a new UUIDv7.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<TransactionId>) -> Submission {
        self.id = id.into();
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
            body.metadata = Some(metadata);
        }
        self
    }

    /// The same on hold: its debits are reserved, and the rest waits until it is confirmed.
    #[must_use]
    pub fn held(mut self) -> Submission {
        self.terms().hold = true;
        self
    }

    /// The same, a hold ([`Submission::held`]) that is released if it is not confirmed before this moment.
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

    /// Whether what is stored has other content.
    pub fn differs_from(&self, stored: &RawDocument) -> bool {
        match (self.clone().into_order(), Body::from_raw(stored)) {
            (Ok(order), Ok(stored)) => !differences(&order.body, &stored).is_empty(),
            (_, _) => true,
        }
    }

    fn terms(&mut self) -> &mut Terms {
        let of_body = || self.body.as_ref().map(|body| body.terms().clone()).unwrap_or_default();
        self.terms.get_or_insert_with(|| Box::new(of_body()))
    }

    /// The same as a part of a trace, given as W3C's `traceparent`; one that is not valid is ignored. By default
    /// it is a part of the trace of OpenTelemetry's current context, if there is one.
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
            let raw = RawDocumentBuf::try_from(metadata)
                .map_err(|error| Error::invalid("metadata", error.to_string()))?;
            check_metadata(&raw)?;
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
    pub(crate) fn to_document(&self, created_at: DateTime) -> Document {
        let mut document = self.body.to_document(&self.id, created_at);
        let Some(origin) = &self.origin else { return document };
        if let Some(name) = &origin.submitted_by {
            document.insert("submittedBy", &**name);
        }
        if let Some(request) = &origin.request {
            document.insert("request", request);
        }
        document
    }

    /// The request from whose key the id was made. What is there under the id must come from it, too.
    fn maker(&self) -> Option<&str> {
        let origin = self.origin.as_ref().filter(|origin| origin.id_from_key)?;
        origin.request.as_deref()
    }
}

impl From<Order> for Submission {
    fn from(Order { id, body, origin }: Order) -> Submission {
        Submission { id, body: Ok(body), terms: None, origin, trace: None }
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

/// What became of an order.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// This submission has inserted it.
    Submitted,
    /// It existed before, with the same content, and is in this state.
    Unchanged(State),
    /// Another transaction with other content has its `_id`.
    Conflict {
        /// The fields that differ, by their names in JSON; none where what is there is no valid
        /// transaction.
        differs: Vec<&'static str>,
        /// What has the `_id`.
        theirs: String,
    },
    /// Another undecided transaction has its exclusive key.
    KeyInUse {
        /// The key.
        key: String,
        /// The transaction that has it.
        holder: String,
    },
    /// It has an exclusive key, and the ledger keeps none; the sentence says why.
    WithoutKeys(&'static str),
    /// The server will never accept it; the text is what it says.
    Refused(String),
    /// The server does not accept it now, and an earlier attempt may have inserted it or may yet do so; the
    /// text is what the server says.
    Open(String),
    /// Another array has taken over the key that it came under, before it was inserted. That array may
    /// have it, too.
    Superseded,
}

impl Answer {
    /// The state of what is durable; `first` is the one in which it is inserted.
    pub fn state(&self, first: State) -> Option<State> {
        match self {
            Answer::Submitted => Some(first),
            Answer::Unchanged(state) => Some(*state),
            Answer::Conflict { .. }
            | Answer::KeyInUse { .. }
            | Answer::WithoutKeys(_)
            | Answer::Refused(_)
            | Answer::Open(_)
            | Answer::Superseded => None,
        }
    }

    /// Whether its id should be published; `first` is the state in which it is inserted. A known
    /// transaction that is not final is published, too, because its message may never have been sent.
    /// What is scheduled or held waits for no message.
    #[must_use]
    pub fn is_waiting(&self, first: State) -> bool {
        self.state(first).is_some_and(|state| !state.is_final() && !state.is_resting())
    }
}

/// How to find out which orders exist already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Insert, and look up those that are refused as duplicates.
    New,
    /// Look them up first, and insert the rest: inserting a known `_id` costs the server five times
    /// as much as looking it up.
    Known,
}

/// Inserts orders; an answer for each, in order. After an error, insert all of them again with the
/// same `created_at`: by it this submission's own documents are recognized. All of them come under the
/// key of the same array, or none does. Each look
/// and each insert of one with an exclusive key takes a permit of `keys` while it is on its way.
///
/// # Errors
/// When the server is away, or what exists under an id is not durable yet.
pub async fn insert(
    store: &Store,
    orders: &[Order],
    created_at: DateTime,
    expect: Expect,
    keys: &Semaphore,
) -> Result<Vec<Answer>, LedgerError> {
    let mut answers = vec![None; orders.len()];
    let is_keyed = |at: &usize| orders[*at].has_key();
    let is_of_array = orders.first().is_some_and(|order| order.array().is_some());
    // What is inserted in a native transaction may be our own, whose answer was lost; then nothing is to
    // be sent.
    let looked_at =
        (0..orders.len()).filter(|at| expect == Expect::Known || is_of_array || is_keyed(at));
    let looked_at: Vec<usize> = looked_at.collect();
    // A call of many keys would send as many looks at once, for which all others would wait.
    let permit = match orders.iter().any(Order::has_key) {
        true => Some(keys.acquire().await.expect("it is never closed")),
        false => None,
    };
    compare_known(store, orders, &looked_at, created_at, &mut answers).await?;
    let left = (0..orders.len()).filter(|at| answers[*at].is_none());
    let (keyed, new): (Vec<usize>, Vec<usize>) = left.partition(is_keyed);
    let without_keys = if keyed.is_empty() { None } else { store.without_keys().await? };
    drop(permit);
    for at in keyed {
        answers[at] = Some(match without_keys {
            Some(why) => Answer::WithoutKeys(why),
            None => keyed::insert(store, &orders[at], created_at, keys).await?,
        });
    }
    if is_of_array {
        keyed_array::insert(store, orders, new, created_at, &mut answers).await?;
    } else if !new.is_empty() {
        let document = |at: &usize| orders[*at].to_document(created_at);
        let documents: Vec<Document> = new.iter().map(document).collect();
        let left = store.insert(TRANSACTIONS, &documents).await?;
        for refused in left.refused {
            answers[new[refused.item]] = Some(Answer::Refused(refused.problem));
        }
        let existing: Vec<usize> = left.existing.into_iter().map(|at| new[at]).collect();
        let compared = compare_known(store, orders, &existing, created_at, &mut answers).await;
        compared.map_err(LedgerError::after_a_write)?;
        // An earlier attempt may have inserted the document itself, which then stands in its own way.
        let taken: Vec<usize> = left.taken.iter().map(|taken| new[taken.item]).collect();
        let compared = compare_known(store, orders, &taken, created_at, &mut answers).await;
        compared.map_err(LedgerError::after_a_write)?;
        for (at, taken) in taken.into_iter().zip(left.taken) {
            answers[at].get_or_insert(Answer::Refused(taken.problem));
        }
        if let Some(at) = existing.into_iter().find(|at| answers[*at].is_none()) {
            let message = format!("{} exists and is not durable yet", orders[at].id);
            return Err(LedgerError::passing("insert", message));
        }
    }
    Ok(answers.into_iter().map(|answer| answer.unwrap_or(Answer::Submitted)).collect())
}

/// Answers those of the orders `at` that are durable in the database.
pub(crate) async fn compare_known(
    store: &Store,
    orders: &[Order],
    at: &[usize],
    created_at: DateTime,
    answers: &mut [Option<Answer>],
) -> Result<(), LedgerError> {
    if at.is_empty() {
        return Ok(());
    }
    let found = find(store, at.iter().map(|at| orders[*at].id.as_ref()).collect()).await?;
    for at in at {
        if let Some(existing) = found.get(orders[*at].id.as_ref()) {
            answers[*at] = Some(compare(&orders[*at], created_at, existing));
        }
    }
    Ok(())
}

/// The answer for an order that is durable in the database.
pub(crate) async fn find_one(
    store: &Store,
    order: &Order,
    created_at: DateTime,
) -> Result<Option<Answer>, LedgerError> {
    let found = find(store, vec![&order.id]).await?;
    let existing = found.get(order.id.as_ref());
    Ok(existing.map(|existing| compare(order, created_at, existing)))
}

async fn find(
    store: &Store,
    ids: Vec<&str>,
) -> Result<HashMap<String, RawDocumentBuf>, LedgerError> {
    let found = store.documents("compare", TRANSACTIONS, &ids, Fields::All).await?;
    let keyed =
        |document: RawDocumentBuf| Some((document.get_str("_id").ok()?.to_owned(), document));
    Ok(found.into_iter().filter_map(keyed).collect())
}

fn compare(order: &Order, created_at: DateTime, existing: &RawDocument) -> Answer {
    let no_transaction = |theirs| Answer::Conflict { differs: vec![], theirs };
    let maker = order.maker();
    if maker.is_some() && existing.get_str("request").ok() != maker {
        return no_transaction("a transaction that did not come under this key".to_owned());
    }
    let Some(state) = existing.get_str("state").ok().and_then(State::parse) else {
        return no_transaction("a document without a known state".to_owned());
    };
    let stored = match Body::from_raw(existing) {
        Ok(stored) => stored,
        Err(problem) => return no_transaction(format!("an invalid transaction ({problem})")),
    };
    let differs = differences(&order.body, &stored);
    if !differs.is_empty() {
        let theirs = format!("a transaction with another {}", enumerated(&differs));
        return Answer::Conflict { differs, theirs };
    }
    match existing.get_datetime("createdAt").ok() == Some(created_at) {
        true => Answer::Submitted,
        false => Answer::Unchanged(state),
    }
}

/// Names as a part of a sentence.
fn enumerated(fields: &[&str]) -> String {
    let word = |field: &&str| if *field == "legs" { "set of legs" } else { *field }.to_owned();
    let words: Vec<String> = fields.iter().map(word).collect();
    match words.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        words => words.concat(),
    }
}

/// The fields in which two bodies differ, by their names in JSON; the order of legs does not count, and numbers
/// in metadata are equal whatever their type. Of two transfers each field counts alone; otherwise the legs as a whole.
pub(crate) fn differences(one: &Body, other: &Body) -> Vec<&'static str> {
    let mut differs = Vec::new();
    let mut compare = |field, is_same: bool| {
        if !is_same {
            differs.push(field);
        }
    };
    match (transfer(one), transfer(other)) {
        (Some((source, destination, value)), Some(other)) => {
            compare("source", source == other.0);
            compare("destination", destination == other.1);
            compare("value", value == other.2);
        }
        (_, _) => compare("legs", same_legs(one.legs(), other.legs())),
    }
    compare("currency", one.currency == other.currency);
    compare("reverses", one.reverses == other.reverses);
    compare("metadata", same_metadata(one.metadata.as_ref(), other.metadata.as_ref()));
    // What was captured of a hold, and a later moment for what is scheduled, are no other content.
    let (one, other) = (one.terms().as_submitted(), other.terms().as_submitted());
    compare("hold", one.hold == other.hold);
    compare("holdExpiresAt", one.hold_expires_at == other.hold_expires_at);
    compare("notBefore", one.not_before == other.not_before);
    compare("expiresAt", one.expires_at == other.expires_at);
    compare("exclusiveKey", one.exclusive_key == other.exclusive_key);
    differs
}

/// Source, destination and value of a body of two legs.
fn transfer(body: &Body) -> Option<(&AccountId, &AccountId, Amount)> {
    match body.legs() {
        [one, other] if one.amount.is_negative() => {
            Some((&one.account, &other.account, other.amount))
        }
        [one, other] => Some((&other.account, &one.account, one.amount)),
        _ => None,
    }
}

fn same_metadata(one: Option<&Document>, other: Option<&Document>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => same_documents(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn same_legs(one: &[Leg], other: &[Leg]) -> bool {
    one.len() == other.len() && {
        let amounts: HashMap<_, _> = other.iter().map(|leg| (&leg.account, leg.amount)).collect();
        one.iter().all(|leg| amounts.get(&leg.account) == Some(&leg.amount))
    }
}

#[cfg(test)]
mod tests {
    use ledger::amount::Amount;
    use ledger::transaction::Leg;
    use mongodb::bson::{Bson, Document, doc};

    use super::*;

    fn raw(document: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).expect("BSON")
    }

    const NOW: DateTime = DateTime::from_millis(2_000);
    const BEFORE: DateTime = DateTime::from_millis(1_000);

    fn body(amounts: &[(&str, i64)]) -> Body {
        let leg = |(account, amount): &(&str, i64)| Leg {
            account: (*account).into(),
            amount: Amount::Int(*amount),
        };
        Body::new(amounts.iter().map(leg).collect()).expect("valid")
    }

    fn compare(body: &Body, created_at: DateTime, existing: &RawDocument) -> Answer {
        let order = Order { id: "t".into(), body: body.clone(), origin: None };
        super::compare(&order, created_at, existing)
    }

    #[test]
    fn the_same_content_changes_nothing_in_whatever_order_its_legs_stand() {
        let split = body(&[("a", -3), ("b", 1), ("c", 2)]);
        let turned = body(&[("c", 2), ("a", -3), ("b", 1)]);
        let stored = raw(&split.to_document("t", BEFORE));
        assert_eq!(compare(&turned, NOW, &stored), Answer::Unchanged(State::Initial));
        let credit_first = body(&[("b", 1), ("a", -1)]);
        let stored = raw(&body(&[("a", -1), ("b", 1)]).to_document("t", BEFORE));
        assert_eq!(compare(&credit_first, NOW, &stored), Answer::Unchanged(State::Initial));
    }

    #[test]
    fn what_came_otherwise_is_not_what_a_key_stands_for() {
        let origin = |name: &str, id_from_key| Origin {
            submitted_by: Some(name.into()),
            request: Some(format!("request of {name}")),
            id_from_key,
            array: None,
        };
        let order = |origin: Option<Origin>| {
            let body = body(&[("a", -1), ("b", 1)]);
            Order { id: "t".into(), body, origin: origin.map(Arc::new) }
        };
        let ours = order(Some(origin("shop", true)));
        let stored = raw(&ours.to_document(BEFORE));
        assert_eq!(super::compare(&ours, NOW, &stored), Answer::Unchanged(State::Initial));
        for theirs in [order(None), order(Some(origin("bank", true)))] {
            match super::compare(&ours, NOW, &raw(&theirs.to_document(BEFORE))) {
                Answer::Conflict { differs, theirs } => {
                    assert_eq!(differs, [""; 0]);
                    assert_eq!(theirs, "a transaction that did not come under this key");
                }
                answer => panic!("{answer:?}"),
            }
            // An id in the body is the ledger's, whoever used it first.
            let by_id = order(Some(origin("shop", false)));
            let answer = super::compare(&by_id, NOW, &raw(&theirs.to_document(BEFORE)));
            assert_eq!(answer, Answer::Unchanged(State::Initial));
        }
    }

    #[test]
    fn metadata_with_equal_numbers_is_the_same_content() {
        let tagged = |metadata: Document| {
            let mut body = body(&[("a", -1), ("b", 1)]);
            body.metadata = Some(metadata);
            body
        };
        let stored = |metadata| raw(&tagged(metadata).to_document("t", BEFORE));
        let many = [
            (doc! { "n": 1_i64 }, doc! { "n": 1.0 }),
            (doc! { "n": [{ "m": 1 }] }, doc! { "n": [{ "m": 1.0 }] }),
            (doc! { "n": f64::NAN }, doc! { "n": f64::NAN }),
        ];
        for (first, second) in many {
            let answer = compare(&tagged(second), NOW, &stored(first));
            assert_eq!(answer, Answer::Unchanged(State::Initial));
        }
        let (beyond, rounded) =
            (doc! { "n": (1_i64 << 53) + 1 }, doc! { "n": (1_i64 << 53) as f64 });
        let answer = compare(&tagged(rounded), NOW, &stored(beyond));
        assert!(matches!(answer, Answer::Conflict { .. }), "{answer:?}");
    }

    #[test]
    fn other_content_is_a_conflict_that_says_what_differs() {
        let ours = body(&[("a", -1), ("b", 1)]);
        let (mut tagged, mut reversal) = (ours.clone(), ours.clone());
        tagged.metadata = Some(doc! { "n": 1_i64 });
        reversal.reverses = Some("x".into());
        let euros = ours.clone().in_currency(Some("EUR".into()));
        let tagged_euros = tagged.clone().in_currency(Some("EUR".into()));
        let split = body(&[("a", -1), ("c", -1), ("b", 2)]);
        let all = body(&[("c", -2), ("d", 2)]).in_currency(Some("EUR".into()));
        let cases: [(Body, &[&str], &str); 8] = [
            (body(&[("a", -2), ("b", 2)]), &["value"], "another value"),
            (body(&[("c", 1), ("a", -1)]), &["destination"], "another destination"),
            (split, &["legs"], "another set of legs"),
            (euros, &["currency"], "another currency"),
            (reversal, &["reverses"], "another reverses"),
            (tagged, &["metadata"], "another metadata"),
            (tagged_euros, &["currency", "metadata"], "another currency and metadata"),
            (
                all,
                &["source", "destination", "value", "currency"],
                "another source, destination, value and currency",
            ),
        ];
        for (other, fields, text) in cases {
            match compare(&ours, NOW, &raw(&other.to_document("t", BEFORE))) {
                Answer::Conflict { differs, theirs } => {
                    assert_eq!(differs, fields);
                    assert_eq!(theirs, format!("a transaction with {text}"));
                }
                answer => panic!("{fields:?}: {answer:?}"),
            }
        }
    }

    fn on(terms: Terms) -> Body {
        body(&[("a", -1), ("b", 1)]).with_terms(terms).expect("valid terms")
    }

    fn at(ms: i64) -> Option<DateTime> {
        Some(DateTime::from_millis(ms))
    }

    #[test]
    fn other_terms_are_a_conflict_that_says_which() {
        let all = Terms {
            hold: true,
            hold_expires_at: at(70_000),
            not_before: at(50_000),
            expires_at: at(90_000),
            exclusive_key: Some("a-for-b".into()),
            ..Terms::default()
        };
        let stored = raw(&on(all.clone()).to_document("t", BEFORE));
        let same = compare(&on(all.clone()), NOW, &stored);
        assert_eq!(same, Answer::Unchanged(State::Scheduled));
        let no_hold = Terms { hold: false, hold_expires_at: None, ..all.clone() };
        let cases: [(Terms, &[&str]); 6] = [
            (no_hold, &["hold", "holdExpiresAt"]),
            (Terms { hold_expires_at: at(70_001), ..all.clone() }, &["holdExpiresAt"]),
            (Terms { not_before: None, ..all.clone() }, &["notBefore"]),
            (Terms { expires_at: at(90_001), ..all.clone() }, &["expiresAt"]),
            (Terms { exclusive_key: Some("b-for-a".into()), ..all }, &["exclusiveKey"]),
            (
                Terms::default(),
                &["hold", "holdExpiresAt", "notBefore", "expiresAt", "exclusiveKey"],
            ),
        ];
        for (terms, expected) in cases {
            match compare(&on(terms), NOW, &stored) {
                Answer::Conflict { differs, .. } => assert_eq!(differs, expected),
                answer => panic!("{expected:?}: {answer:?}"),
            }
        }
    }

    #[test]
    fn what_was_captured_and_a_later_moment_are_no_other_content() {
        let terms = Terms { hold: true, not_before: at(50_000), ..Terms::default() };
        let mut stored = on(terms.clone()).to_document("t", BEFORE);
        stored.insert("state", State::Pending);
        stored.insert("submittedNotBefore", DateTime::from_millis(50_000));
        stored.insert("notBefore", DateTime::from_millis(60_000));
        let captured = [("a", -1), ("b", 1)]
            .map(|(account, amount)| Leg { account: account.into(), amount: Amount::Int(amount) });
        stored.insert("captured", ledger::transaction::legs_to_bson(&captured));
        let answer = compare(&on(terms.clone()), NOW, &raw(&stored));
        assert_eq!(answer, Answer::Unchanged(State::Pending));
        // Of such a document's content a submission keeps what was submitted.
        let read = Body::from_raw(&raw(&stored)).expect("valid");
        let order = Submission::of(read).into_order().expect("valid");
        assert_eq!(order.body.terms(), &terms);
    }

    #[test]
    fn terms_are_checked_together_in_whatever_order_they_are_given() {
        let moment = |s| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(s);
        let transfer = || Submission::transfer("a", "b", 1);
        let order = transfer().hold_expires_at(moment(9)).held().into_order().expect("valid");
        assert_eq!(order.body.terms().hold_expires_at, at(9_000));
        for (submission, expected) in [
            (transfer().hold_expires_at(moment(9)), "holdExpiresAt"),
            (transfer().expires_at(moment(9)).not_before(moment(9)), "expiresAt"),
            (transfer().with_exclusive_key(""), "exclusiveKey"),
        ] {
            let error = submission.into_order().expect_err(expected);
            assert!(matches!(&error, Error::Invalid { field, .. } if field == expected), "{error}");
        }
    }

    #[test]
    fn our_own_document_after_a_lost_reply_counts_as_submitted() {
        let ours = body(&[("a", -1), ("b", 1)]);
        let mut stored = ours.to_document("t", NOW);
        stored.insert("state", Bson::from(State::Done));
        assert_eq!(compare(&ours, NOW, &raw(&stored)), Answer::Submitted);
    }

    #[test]
    fn an_unfinished_transaction_is_published_again_and_a_final_one_is_not() {
        let waiting = |state| Answer::Unchanged(state).is_waiting(State::Initial);
        let unfinished = |state| State::UNFINISHED.contains(&state);
        assert_eq!(State::ALL.map(waiting), State::ALL.map(unfinished));
        assert!(Answer::Submitted.is_waiting(State::Initial));
        assert!(!Answer::Submitted.is_waiting(State::Scheduled), "its message has no use yet");
        let taken = Answer::Conflict { differs: vec!["value"], theirs: String::new() };
        assert!(!taken.is_waiting(State::Initial));
    }
}
