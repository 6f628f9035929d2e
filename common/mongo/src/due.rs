//! Events that are due: their transactions are final, or may be, and no broker has confirmed them.
//!
//! Owns the notes in the collection `tandem.events`, one for the due events of a batch: only ids,
//! because an event is made anew from the stored transaction. Promises that what is owed is durable
//! before anybody relies on it, that one sweeper at a time works on a note, and that a note goes
//! only when somebody says that its events are confirmed. A document that is no note of Tandem's is
//! left alone, however many there are. Sending an event twice is harmless. Fails with an error of
//! the command; sending it again changes nothing.

use std::slice;

use ledger::event::{End, Ended, Event, FIELDS};
use ledger::limits::{LEGS_BYTES_MAX, METADATA_BYTES_MAX};
use ledger::transaction::TransactionId;
use ledger::{INLINE_BYTES_MAX, LedgerError, Note};
use mongodb::bson::{
    DateTime, Document, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, Regex, doc, rawdoc,
};

use super::names::{EVENTS, TRANSACTIONS};
use super::own::DUE_EVENTS;
use super::raw::raw_id;
use super::read::{can_be_looked_up, cstr, fields, is_at_most, matching};
use super::{Store, fault};

/// How many notes are looked through for one event.
const LOOKED_AT_MAX: i64 = 1_000;

/// How long a sweeper has for the events that it has taken, in milliseconds.
const TAKEN_MS: i64 = 30_000;

/// The longest wait after events were refused again and again, in milliseconds.
const REFUSED_MS_MAX: i64 = 3_600_000;

/// The most bytes of what an event is made of. Of a document that is larger only the reason and the
/// dates are read.
const BYTES_MAX: usize = LEGS_BYTES_MAX + METADATA_BYTES_MAX + 4_000;

/// A note that is due, as it was found. Somebody else may take it first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueNote {
    token: String,
    at: DateTime,
}

/// A note of due events, as a sweeper has taken it.
#[derive(Clone, Debug, PartialEq)]
pub struct Due {
    token: String,
    /// What is due.
    pub events: Vec<Ended>,
    /// How often some of them were refused.
    refusals: u32,
}

/// What an event is made of, or how large it is if that is not read together with others.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The event.
    Ready(Event),
    /// So many bytes; [`Store::events`] reads it.
    Large(TransactionId, usize),
}

/// The ids of those events that are of this end.
fn names(events: &[Ended], end: End) -> impl Iterator<Item = &str> {
    events.iter().filter(move |event| event.end == end).map(|event| event.id.as_ref())
}

/// The same in an expression.
fn literal_names(events: &[Ended], end: End) -> Document {
    doc! { "$literal": names(events, end).collect::<Vec<&str>>() }
}

/// The statement that notes events as due now.
fn owe(token: &str, events: &[Ended]) -> Document {
    doc! {
        "q": DUE_EVENTS.named(token),
        "u": [{ "$set": {
            "kind": DUE_EVENTS.kind,
            "done": literal_names(events, End::Done),
            "canceled": literal_names(events, End::Canceled),
            "dueAt": "$$NOW",
            "refusals": 0,
        } }],
        "upsert": true,
    }
}

/// The same within a native transaction, due at the note's moment. Not an expression: with a few
/// transactions it would cost the server more than each of them.
pub(super) fn owe_with_batch(note: &Note, events: &[Ended]) -> RawDocumentBuf {
    rawdoc! {
        "q": DUE_EVENTS.with_id(raw_id(&note.token)),
        "u": {
            "kind": DUE_EVENTS.kind,
            "done": names(events, End::Done).collect::<RawArrayBuf>(),
            "canceled": names(events, End::Canceled).collect::<RawArrayBuf>(),
            "dueAt": DateTime::from_millis(note.due_at),
            "refusals": 0,
        },
        "upsert": true,
    }
}

impl Store {
    /// Notes events as due now. They are durable when this succeeds.
    ///
    /// # Errors
    /// When the server is away or refuses; they may be noted or not.
    pub async fn owe_events(&self, token: &str, events: &[Ended]) -> Result<(), LedgerError> {
        let written = self.change("owe", EVENTS, vec![owe(token, events)]).await?;
        match written.refused.into_iter().next() {
            None => Ok(()),
            Some(refused) => Err(LedgerError::lasting("owe", refused.problem)),
        }
    }

    /// Whether the event of this transaction waits for a broker's confirm, as far as the first
    /// thousand notes tell.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn event_is_due(&self, id: &str) -> Result<bool, LedgerError> {
        let pipeline: RawArrayBuf = [
            rawdoc! { "$match": DUE_EVENTS.all() },
            rawdoc! { "$limit": LOOKED_AT_MAX },
            rawdoc! { "$match": { "$or": [{ "done": { "$eq": id } }, { "canceled": { "$eq": id } }] } },
            rawdoc! { "$limit": 1_i64 },
            rawdoc! { "$project": { "_id": 1 } },
        ]
        .into_iter()
        .collect();
        let found = self.aggregate("event is due", EVENTS, pipeline, 1, |_| Some(())).await?;
        Ok(!found.is_empty())
    }

    /// The notes that are due by the server's clock, at most so many: those first that are due for
    /// the longest time, so that notes whose events are refused again and again hold up no other.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn due_notes(&self, limit: i64) -> Result<Vec<DueNote>, LedgerError> {
        let mut filter = readable();
        filter.append(cstr("_id"), RawBson::RegularExpression(text()));
        filter.append(cstr("$expr"), rawdoc! { "$lte": ["$dueAt", "$$NOW"] });
        let find = rawdoc! {
            "find": EVENTS,
            "filter": filter,
            "sort": { "dueAt": 1 },
            "limit": limit,
            "projection": { "dueAt": 1 },
        };
        let note = |note: &RawDocument| {
            let at = note.get_datetime("dueAt").ok()?;
            Some(DueNote { token: note.get_str("_id").ok()?.to_owned(), at })
        };
        self.find("due", find, note).await
    }

    /// Takes a note, if nobody else has taken it since. Nobody else gets it for half a minute.
    ///
    /// # Errors
    /// When the server is away or refuses; it may be taken, and is due again later.
    pub async fn take_due(&self, note: &DueNote) -> Result<Option<Due>, LedgerError> {
        let mut found = DUE_EVENTS.named(&note.token);
        found.insert("dueAt", note.at);
        let take =
            doc! { "q": found, "u": [{ "$set": { "dueAt": { "$add": ["$$NOW", TAKEN_MS] } } }] };
        if self.change("take_due", EVENTS, vec![take]).await?.count == 0 {
            return Ok(None);
        }
        let mut filter = readable();
        filter.append(cstr("_id"), note.token.as_str());
        let find = rawdoc! { "find": EVENTS, "filter": filter };
        Ok(self.find("due", find, due).await?.pop())
    }

    /// Notes that these events are due no more, save those that were `refused`: they wait, and
    /// longer after each attempt in which all were refused, since every repetition reaches
    /// subscribers that had them before.
    ///
    /// # Errors
    /// When the server is away or refuses; then they are sent once more, later.
    pub async fn events_confirmed(&self, due: &Due, refused: &[Ended]) -> Result<(), LedgerError> {
        if refused.is_empty() {
            return self.forget_events(slice::from_ref(&due.token)).await;
        }
        let some_were_taken = refused.len() < due.events.len();
        let refusals = if some_were_taken { 0 } else { due.refusals.min(16) };
        let wait_ms = TAKEN_MS.checked_shl(refusals).unwrap_or(REFUSED_MS_MAX);
        let rest = doc! {
            "done": literal_names(refused, End::Done),
            "canceled": literal_names(refused, End::Canceled),
            "dueAt": { "$add": ["$$NOW", wait_ms.min(REFUSED_MS_MAX)] },
            "refusals": i64::from(refusals) + 1,
        };
        let leave = doc! { "q": DUE_EVENTS.named(&due.token), "u": [{ "$set": rest }] };
        self.change("confirm", EVENTS, vec![leave]).await.map(drop)
    }

    /// Forgets the notes with these tokens.
    ///
    /// # Errors
    /// As [`Store::events_confirmed`].
    pub async fn forget_events(&self, tokens: &[String]) -> Result<(), LedgerError> {
        let limit = self.op_limit_ms();
        let ours = doc! { "_id": { "$in": tokens }, "kind": DUE_EVENTS.condition() };
        let command = doc! {
            "delete": EVENTS,
            "deletes": [{ "q": ours, "limit": 0 }],
            "maxTimeMS": limit,
            "comment": "tandem confirm",
            "writeConcern": { "w": "majority", "j": true, "wtimeout": limit },
        };
        let database = self.database.clone();
        let reply = self.limited("confirm", async move { database.run_command(command).await });
        fault::refusals("confirm", &reply.await?).map(drop)
    }

    /// What the events of transactions are made of. Ids without a document are left out: somebody
    /// has deleted it, and there is nothing left to tell.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn event_sources(
        &self,
        ids: &[TransactionId],
        end: End,
    ) -> Result<Vec<Source>, LedgerError> {
        let is_small = is_at_most(INLINE_BYTES_MAX as i64);
        let large = rawdoc! { "_id": "$_id", "large": { "$bsonSize": "$$ROOT" } };
        let pipeline =
            [matching(ids), rawdoc! { "$replaceWith": { "$cond": [is_small, "$$ROOT", large] } }];
        let parse = move |document: &RawDocument| source(document, end);
        let pipeline = pipeline.into_iter().collect();
        self.aggregate("events", TRANSACTIONS, pipeline, ids.len(), parse).await
    }

    /// The events of large transactions; the caller sees to it that they fit together.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn events(&self, ids: &[TransactionId], end: End) -> Result<Vec<Event>, LedgerError> {
        let content = rawdoc! { "$mergeObjects": [{ "_id": "$_id" }, fields(&FIELDS)] };
        let mut short = fields(&["reason", "createdAt"]);
        short.append(cstr("_id"), "$_id");
        short.append(cstr("metadata"), rawdoc! { "$literal": "too large" });
        let fits = rawdoc! { "$lte": [{ "$bsonSize": "$$content" }, BYTES_MAX as i64] };
        let chosen = rawdoc! { "$cond": [fits, "$$content", short] };
        let chosen = rawdoc! { "$let": { "vars": { "content": content }, "in": chosen } };
        let pipeline = [matching(ids), rawdoc! { "$replaceWith": chosen }].into_iter().collect();
        let parse = move |document: &RawDocument| Event::of(document, end);
        self.aggregate("events", TRANSACTIONS, pipeline, ids.len(), parse).await
    }
}

/// The event of a document that has come whole; the size of one that has not, or in which fields
/// can't be looked up because a field's name is no valid text.
fn source(document: &RawDocument, end: End) -> Option<Source> {
    let bytes = match document.get_i32("large") {
        Ok(bytes) => usize::try_from(bytes).unwrap_or_default(),
        Err(_) if can_be_looked_up(document) => {
            return Event::of(document, end).map(Source::Ready);
        }
        Err(_) => document.as_bytes().len(),
    };
    Some(Source::Large(document.get_str("_id").ok()?.into(), bytes.min(BYTES_MAX)))
}

/// Any text. What is no valid text, or of another type, does not match it.
fn text() -> Regex {
    Regex { pattern: cstr("^").into(), options: cstr("").into() }
}

/// The notes that can be read: what else there is was not written by Tandem, and stays as it is.
fn readable() -> RawDocumentBuf {
    let texts = || rawdoc! { "$type": "array", "$not": { "$elemMatch": { "$not": { "$type": "string" } } } };
    rawdoc! {
        "kind": DUE_EVENTS.raw_condition(),
        "dueAt": { "$type": "date", "$not": { "$type": "array" } },
        "done": texts(),
        "canceled": texts(),
    }
}

/// A note as it was read. A token that is no text was not written by Tandem.
fn due(document: &RawDocument) -> Option<Due> {
    let named = |end: End| {
        let names = document.get_array(end.as_str()).ok();
        names
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(move |name| Some(Ended { id: name.as_str()?.into(), end }))
    };
    let refusals = document.get_i64("refusals").ok();
    let refusals = refusals.or_else(|| document.get_i32("refusals").ok().map(i64::from));
    Some(Due {
        token: document.get_str("_id").ok()?.to_owned(),
        events: End::ALL.into_iter().flat_map(named).collect(),
        refusals: refusals.and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
    })
}
