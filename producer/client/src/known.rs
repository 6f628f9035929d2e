//! What is known of an order: whether its `_id` exists, and with which content.
//!
//! Owns invariant 6 of `ARCHITECTURE.md`: a known `_id` with the same content changes nothing, with
//! other content it is refused. Promises that whatever is answered [`Answer::Submitted`] or
//! [`Answer::Unchanged`] is durable; only then may its id be published.

use std::collections::HashMap;

use ledger::LedgerError;
use ledger::transaction::{Body, State};
use mongo::{Fields, Store, TRANSACTIONS};
use mongodb::bson::{DateTime, RawDocument, RawDocumentBuf};

use crate::differences::differences;
use crate::submission::Order;

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
    /// The server does not accept it now, and an earlier attempt may have inserted it or may yet do
    /// so; the text is what the server says.
    Open(String),
    /// Another array has taken over the key that it came under, before it was inserted. That array
    /// may have it, too.
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
    /// transaction that is not final is published, too, because its message may never have been
    /// sent. What is scheduled or held waits for no message.
    #[must_use]
    pub fn is_waiting(&self, first: State) -> bool {
        self.state(first).is_some_and(|state| !state.is_final() && !state.is_resting())
    }
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

/// The answer for what exists under its `_id`.
pub(crate) fn compare(order: &Order, created_at: DateTime, existing: &RawDocument) -> Answer {
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

#[cfg(test)]
mod tests {
    use ledger::amount::Amount;
    use ledger::transaction::{Leg, Terms};
    use mongodb::bson::{Bson, Document, doc, rawdoc};

    use std::sync::Arc;

    use super::*;
    use crate::origin::Origin;
    use crate::submission::Submission;

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
        let stored = ours.to_raw(BEFORE);
        assert_eq!(super::compare(&ours, NOW, &stored), Answer::Unchanged(State::Initial));
        for theirs in [order(None), order(Some(origin("bank", true)))] {
            match super::compare(&ours, NOW, &theirs.to_raw(BEFORE)) {
                Answer::Conflict { differs, theirs } => {
                    assert_eq!(differs, [""; 0]);
                    assert_eq!(theirs, "a transaction that did not come under this key");
                }
                answer => panic!("{answer:?}"),
            }
            // An id in the body is the ledger's, whoever used it first.
            let by_id = order(Some(origin("shop", false)));
            let answer = super::compare(&by_id, NOW, &theirs.to_raw(BEFORE));
            assert_eq!(answer, Answer::Unchanged(State::Initial));
        }
    }

    #[test]
    fn metadata_with_equal_numbers_is_the_same_content() {
        let tagged = |metadata: Document| {
            let mut body = body(&[("a", -1), ("b", 1)]);
            body.metadata = Some(raw(&metadata));
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
        tagged.metadata = Some(rawdoc! { "n": 1_i64 });
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
