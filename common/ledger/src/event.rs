//! Outcome events: what the world is told of a transaction that comes to its end.
//!
//! Owns the content of an event, a pure function of the stored document and the end. Promises that
//! it is made only of fields that never change, so an event that is published twice is the same
//! twice, and that it is never larger than a message may be. A document that can't be read makes an
//! event without the fields that can't be read. The schema is `common/schemas/outcome.json`.
//!
//! An event is a CloudEvent 1.0 in binary mode. Its `id` is made from the transaction's id and
//! state.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use serde_json::{Map, Value, json};
use strum::{EnumCount, VariantArray};

use crate::transaction::{
    Body, DECIDED_KEY, Leg, ReasonCode, State, TransactionId, check_metadata,
};
use crate::{json, uri};

/// The name of the schema of an event's content.
pub const SCHEMA: &str = "urn:tandem:outcome:1";

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumCount, VariantArray)]
pub enum End {
    /// It has its effect, and credited money is spendable.
    Done,
    /// It has no effect, and debited money is back.
    Canceled,
}

impl End {
    /// Both.
    pub const ALL: [End; End::COUNT] =
        *End::VARIANTS.first_chunk().expect("as many as are counted");

    /// The final state.
    #[must_use]
    pub fn state(self) -> State {
        match self {
            End::Done => State::Done,
            End::Canceled => State::Canceled,
        }
    }

    /// The state that it leaves in two phases.
    #[must_use]
    pub fn leaves(self) -> State {
        match self {
            End::Done => State::Applied,
            End::Canceled => State::Canceling,
        }
    }

    /// The end that a final state stands for.
    #[must_use]
    pub fn of(state: State) -> Option<End> {
        match state {
            State::Done => Some(End::Done),
            State::Canceled => Some(End::Canceled),
            State::Scheduled
            | State::Initial
            | State::Pending
            | State::Held
            | State::Applied
            | State::Canceling => None,
        }
    }

    /// Reads the name.
    #[must_use]
    pub fn parse(name: &str) -> Option<End> {
        State::parse(name).and_then(End::of)
    }

    /// The name in events and documents.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.state().as_str()
    }
}

/// A transaction and how it ends: what an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ended {
    /// Its `_id`.
    pub id: TransactionId,
    /// How it ends.
    pub end: End,
}

/// The fields of a transaction that an event is made of, beside its `_id`.
pub const FIELDS: [&str; 13] = [
    "source",
    "destination",
    "value",
    "legs",
    "hold",
    "captured",
    "currency",
    "reverses",
    "metadata",
    "exclusiveKey",
    DECIDED_KEY,
    "reason",
    "createdAt",
];

/// An event, ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What it is about.
    pub about: Ended,
    /// Its content as JSON.
    pub body: Value,
}

impl Event {
    /// The event for a transaction's end, from its document, or as much of it as was read. None of
    /// a document without an `_id` that a transaction can have.
    #[must_use]
    pub fn of(document: &RawDocument, end: End) -> Option<Event> {
        let id: TransactionId = document.get_str("_id").ok()?.into();
        let mut body = Map::new();
        body.insert("id".to_owned(), Value::from(&*id));
        body.insert("state".to_owned(), Value::from(end.as_str()));
        content(document, end, &mut body);
        metadata(document, &mut body);
        if end == End::Canceled
            && let Some(reason) = reason(document)
        {
            body.insert("reason".to_owned(), reason);
        }
        if let Ok(created) = document.get_datetime("createdAt") {
            body.insert("createdAt".to_owned(), Value::String(json::timestamp(created)));
        }
        Some(Event { about: Ended { id, end }, body: Value::Object(body) })
    }

    /// The same for the same transaction and end, whoever sends it and however often: consumers
    /// drop repeats by it.
    #[must_use]
    pub fn id(&self) -> String {
        let Ended { id, end } = &self.about;
        format!("{id}:{}", end.as_str())
    }
}

/// The ledger as events name it: a URI reference.
#[must_use]
pub fn source(database: &str) -> String {
    format!("/tandem/{}", uri::segment(database))
}

/// What the transaction asked for, if that makes sense, and what was captured of a hold.
fn content(document: &RawDocument, end: End, into: &mut Map<String, Value>) {
    let mut asked = RawDocumentBuf::new();
    for element in document.iter().flatten().filter(|(name, _)| name.as_str() != "metadata") {
        asked.append(element.0, element.1);
    }
    let Ok(body) = Body::from_raw(&asked) else { return };
    let leg = |leg: &Leg| json!({ "account": &*leg.account, "amount": json::amount(leg.amount) });
    let list = |legs: &[Leg]| legs.iter().map(leg).collect::<Value>();
    // One that was confirmed and then canceled has captured nothing.
    if let Some(captured) = body.terms().captured.as_ref().filter(|_| end == End::Done) {
        into.insert("captured".to_owned(), list(captured));
    }
    if let Some(legs) = document.get_array("legs").ok().map(|_| body.legs()) {
        into.insert("legs".to_owned(), list(legs));
    } else if let [debit, credit] = body.legs() {
        into.insert("source".to_owned(), Value::from(&*debit.account));
        into.insert("destination".to_owned(), Value::from(&*credit.account));
        into.insert("value".to_owned(), json::amount(credit.amount).into());
    }
    let key = body.terms().exclusive_key.clone();
    let texts = [("currency", body.currency), ("reverses", body.reverses), ("exclusiveKey", key)];
    for (name, value) in texts {
        into.extend(value.map(|value| (name.to_owned(), Value::from(value))));
    }
}

/// The client's own fields. They are left out, and that is said, where they are more than a message
/// may hold or can't be read.
fn metadata(document: &RawDocument, into: &mut Map<String, Value>) {
    let stored = match document.get("metadata") {
        Ok(None | Some(RawBsonRef::Null)) => return,
        Ok(Some(RawBsonRef::Document(stored))) => Some(stored),
        Ok(Some(_)) | Err(_) => None,
    };
    let sound = stored.filter(|stored| check_metadata(stored).is_ok());
    match sound.and_then(json::from_raw) {
        Some(metadata) => into.insert("metadata".to_owned(), metadata),
        None => into.insert("metadataOmitted".to_owned(), Value::Bool(true)),
    };
}

fn reason(document: &RawDocument) -> Option<Value> {
    let reason = document.get_document("reason").ok()?;
    let (code, message) = (reason.get_str("code").ok()?, reason.get_str("message").ok()?);
    // The set is closed, so that a consumer may have an enum of it.
    Some(json!({ "code": ReasonCode::told(code), "message": message }))
}

#[cfg(test)]
mod tests {
    use bson::{DateTime, rawdoc};

    use super::*;

    #[test]
    fn an_event_says_what_the_document_says() {
        let done = rawdoc! {
            "_id": "t", "source": "a", "destination": "b", "value": 12_i64, "currency": "EUR",
            "state": "applied", "attempts": 3, "lastModified": DateTime::from_millis(5),
            "metadata": { "note": "hi" }, "createdAt": DateTime::from_millis(0),
            "exclusiveKey": "a-for-b",
        };
        let event = Event::of(&done, End::Done).expect("it has an id");
        assert_eq!(event.id(), "t:done");
        let expected = json!({
            "id": "t", "state": "done", "source": "a", "destination": "b", "value": "12",
            "currency": "EUR", "metadata": { "note": "hi" }, "createdAt": "1970-01-01T00:00:00Z",
            "exclusiveKey": "a-for-b",
        });
        assert_eq!(event.body, expected);

        let canceled = rawdoc! {
            "_id": "t",
            "legs": [{ "account": "a", "amount": -1 }, { "account": "b", "amount": 1 }],
            "reason": { "code": "requested", "message": "canceled on request" },
        };
        let event = Event::of(&canceled, End::Canceled).expect("it has an id");
        let expected = json!({
            "id": "t", "state": "canceled",
            "legs": [{ "account": "a", "amount": "-1" }, { "account": "b", "amount": "1" }],
            "reason": { "code": "requested", "message": "canceled on request" },
        });
        assert_eq!(event.body, expected);
    }

    #[test]
    fn the_event_of_a_hold_says_what_was_captured_and_only_if_it_is_done() {
        let captured = |event: Option<Event>| event.map(|event| event.body["captured"].clone());
        let released = rawdoc! {
            "_id": "t", "source": "a", "destination": "b", "value": 12_i64, "hold": true,
        };
        assert_eq!(captured(Event::of(&released, End::Canceled)), Some(Value::Null));
        let hold = rawdoc! {
            "_id": "t", "source": "a", "destination": "b", "value": 12_i64, "hold": true,
            "captured": [{ "account": "a", "amount": -5_i64 }, { "account": "b", "amount": 5_i64 }],
        };
        let expected = json!([
            { "account": "a", "amount": "-5" }, { "account": "b", "amount": "5" },
        ]);
        assert_eq!(captured(Event::of(&hold, End::Done)), Some(expected));
        assert_eq!(captured(Event::of(&hold, End::Canceled)), Some(Value::Null));
        let value = Event::of(&hold, End::Done).map(|event| event.body["value"].clone());
        assert_eq!(value, Some(json!("12")), "what was asked for stays as it is");
    }

    #[test]
    fn a_ledger_is_named_by_a_uri() {
        assert_eq!(source("shop-1"), "/tandem/shop-1");
        assert_eq!(source("käse%"), "/tandem/k%C3%A4se%25");
    }

    #[test]
    fn what_makes_no_sense_is_left_out_and_the_rest_is_told() {
        let text = "x".repeat(crate::limits::METADATA_BYTES_MAX);
        let large = rawdoc! {
            "_id": "t", "source": "a", "destination": "b", "value": 1, "metadata": { "text": text },
        };
        let body = Event::of(&large, End::Done).expect("it has an id").body;
        assert_eq!((&body["metadataOmitted"], &body["value"]), (&json!(true), &json!("1")));
        assert_eq!(body.get("metadata"), None);

        let senseless = rawdoc! { "_id": "t", "source": "a", "value": 1.5, "metadata": null };
        let body = Event::of(&senseless, End::Canceled).expect("it has an id").body;
        assert_eq!(body, json!({ "id": "t", "state": "canceled" }));
        assert_eq!(Event::of(&rawdoc! { "_id": 7 }, End::Done), None);
    }
}
