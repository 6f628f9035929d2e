//! Events that are due: their transactions are final, and no broker has confirmed them.
//!
//! Owns the notes in the collection `tandem.events`, one for each line of the journal whose events
//! are not confirmed: it has the line's `_id`, and is written by the commit of the line. So what is
//! due stands in the line; after a queue has refused some events, the note names those that are
//! left. An event is made anew from the stored transaction. Promises that one sweeper at a time
//! works on a note, and that a note goes only when somebody says that its events are confirmed. A
//! document that is no note of Tandem's is left alone, however many there are. Sending an event
//! twice is harmless. Fails with an error of the command; sending it again changes nothing.

use std::collections::HashSet;
use std::slice;

use ledger::event::{End, Ended, Event, FIELDS};
use ledger::journal::Line;
use ledger::limits::{LEGS_BYTES_MAX, METADATA_BYTES_MAX};
use ledger::transaction::TransactionId;
use ledger::{INLINE_BYTES_MAX, LedgerError};
use mongodb::bson::{
    DateTime, Document, RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf,
    Regex, doc, rawdoc,
};

use super::Store;
use super::names::{EVENTS, JOURNAL, TRANSACTIONS};
use super::native::Statement;
use super::own::{DUE_EVENTS, LINE};
use super::raw::raw_id;
use super::read::{can_be_looked_up, cstr, fields, is_at_most, matching};

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
    line: String,
    at: DateTime,
}

/// A note of due events, as a sweeper has taken it.
#[derive(Clone, Debug, PartialEq)]
pub struct Due {
    line: String,
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

/// The statement that notes the events of a line as due, within the native transaction that writes
/// the line. None where nobody is told of outcomes.
pub(super) fn note(line: &Line) -> Option<Statement> {
    let due_at = DateTime::from_millis(line.heading.events_due_at?);
    let statement = rawdoc! {
        "q": DUE_EVENTS.with_id(raw_id(&line.heading.id)),
        "u": {
            "kind": DUE_EVENTS.kind,
            "dueAt": due_at,
            "events": i64::try_from(line.entries.len()).unwrap_or(i64::MAX),
            "refusals": 0,
        },
        "upsert": true,
    };
    Some((statement, 1))
}

impl Store {
    /// Whether the event of this transaction waits for a broker's confirm.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn event_is_due(&self, id: &str) -> Result<bool, LedgerError> {
        let find = rawdoc! {
            "find": TRANSACTIONS, "filter": { "_id": id }, "projection": { "line": 1 },
        };
        let line = |found: &RawDocument| found.get_str("line").ok().map(str::to_owned);
        let Some(line) = self.find("event is due", find, line).await?.pop() else {
            return Ok(false);
        };
        let mut filter = DUE_EVENTS.with_id(raw_id(&line));
        let refused = rawdoc! { "refused": { "$elemMatch": { "$eq": id } } };
        let all = rawdoc! { "refused": null };
        filter.append(cstr("$or"), RawArrayBuf::from_iter([all, refused]));
        let find = rawdoc! { "find": EVENTS, "filter": filter, "projection": { "_id": 1 } };
        Ok(self.find("event is due", find, |_| Some(())).await?.pop().is_some())
    }

    /// Whether there is a note at all: some event is not confirmed yet.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn has_notes(&self) -> Result<bool, LedgerError> {
        let find = rawdoc! {
            "find": EVENTS,
            "filter": DUE_EVENTS.all(),
            "projection": { "_id": 1 },
            "limit": 1_i64,
        };
        Ok(self.find("due", find, |_| Some(())).await?.pop().is_some())
    }

    /// The notes that are due by the server's clock and whose lines have their numbers
    /// ([`Numberer::sweep`](super::Numberer::sweep) says so), at most so many: those first that are
    /// due for the longest time, so that notes whose events are refused again and again hold up no
    /// other.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn due_notes(&self, limit: i64) -> Result<Vec<DueNote>, LedgerError> {
        let find = find_due(true, limit);
        let note = |note: &RawDocument| {
            let at = note.get_datetime("dueAt").ok()?;
            Some(DueNote { line: note.get_str("_id").ok()?.to_owned(), at })
        };
        self.find("due", find, note).await
    }

    /// Takes a note, if nobody else has taken it since. Nobody else gets it for half a minute.
    ///
    /// # Errors
    /// When the server is away or refuses; it may be taken, and is due again later.
    pub async fn take_due(&self, note: &DueNote) -> Result<Option<Due>, LedgerError> {
        let mut found = DUE_EVENTS.named(&note.line);
        found.insert("dueAt", note.at);
        let take =
            doc! { "q": found, "u": [{ "$set": { "dueAt": { "$add": ["$$NOW", TAKEN_MS] } } }] };
        if self.change("take_due", EVENTS, vec![take]).await?.count == 0 {
            return Ok(None);
        }
        let mut filter = readable();
        filter.append(cstr("_id"), note.line.as_str());
        let find = rawdoc! { "find": EVENTS, "filter": filter };
        let Some((refused, refusals)) = self.find("due", find, left).await?.pop() else {
            return Ok(None);
        };
        let line = note.line.clone();
        let Some(mut events) = self.events_of_line(&line).await? else {
            return self.put_off_for_want_of_a_line(Due { line, events: vec![], refusals }).await;
        };
        if let Some(refused) = refused {
            events.retain(|event| refused.contains(&*event.id));
        }
        Ok(Some(Due { line, events, refusals }))
    }

    /// What the events of a line are about. None where there is no such line, or one that makes no
    /// sense.
    async fn events_of_line(&self, line: &str) -> Result<Option<Vec<Ended>>, LedgerError> {
        let filter = LINE.with_id(raw_id(line));
        let projection = rawdoc! { "done": 1, "canceled": 1 };
        let find = rawdoc! { "find": JOURNAL, "filter": filter, "projection": projection };
        let found = self.find("due", find, |line| Some(ended(line))).await?;
        Ok(found.into_iter().next().flatten())
    }

    /// Somebody has taken the line away or changed it. Nobody knows what to tell, so the note waits
    /// for a person, and is looked at again now and then.
    async fn put_off_for_want_of_a_line(&self, due: Due) -> Result<Option<Due>, LedgerError> {
        let line = due.line.as_str();
        tracing::error!(line, "the line of the journal is gone or damaged whose events are due");
        self.put_off(&due.line, REFUSED_MS_MAX, doc! {}).await?;
        Ok(None)
    }

    /// Notes that these events are due no more, save those that were `refused`: they wait, and
    /// longer after each attempt in which all were refused, since every repetition reaches
    /// subscribers that had them before.
    ///
    /// # Errors
    /// When the server is away or refuses; then they are sent once more, later.
    pub async fn events_confirmed(&self, due: &Due, refused: &[Ended]) -> Result<(), LedgerError> {
        if refused.is_empty() {
            return self.forget_events(slice::from_ref(&due.line)).await;
        }
        let some_were_taken = refused.len() < due.events.len();
        let refusals = if some_were_taken { 0 } else { due.refusals.min(16) };
        let wait_ms = TAKEN_MS.checked_shl(refusals).unwrap_or(REFUSED_MS_MAX);
        let ids: Vec<&str> = refused.iter().map(|event| event.id.as_ref()).collect();
        let rest = doc! {
            "events": i64::try_from(ids.len()).unwrap_or(i64::MAX),
            "refused": { "$literal": ids },
            "refusals": i64::from(refusals) + 1,
        };
        self.put_off(&due.line, wait_ms.min(REFUSED_MS_MAX), rest).await
    }

    /// Nobody takes a note for so long.
    async fn put_off(
        &self,
        line: &str,
        wait_ms: i64,
        mut set: Document,
    ) -> Result<(), LedgerError> {
        set.insert("dueAt", doc! { "$add": ["$$NOW", wait_ms] });
        let leave = doc! { "q": DUE_EVENTS.named(line), "u": [{ "$set": set }] };
        self.change("confirm", EVENTS, vec![leave]).await.map(drop)
    }

    /// Forgets the notes of these lines.
    ///
    /// # Errors
    /// As [`Store::events_confirmed`].
    pub async fn forget_events(&self, lines: &[String]) -> Result<(), LedgerError> {
        let lines = lines.iter().map(String::as_str).collect::<RawArrayBuf>();
        let mut ours = DUE_EVENTS.all();
        ours.append(cstr("_id"), rawdoc! { "$in": lines });
        self.delete("confirm", EVENTS, ours).await.map(drop)
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
        // An answer is as it is stored, or computed. So where that differs, what is stored stands
        // in a field.
        let is_laid_out = self.layout().is_some();
        let chosen = match is_laid_out {
            true => rawdoc! { "$cond": [is_small, { "document": "$$ROOT" }, large] },
            false => rawdoc! { "$cond": [is_small, "$$ROOT", large] },
        };
        let pipeline = [matching(ids), rawdoc! { "$replaceWith": chosen }].into_iter().collect();
        let parse = move |answer: &RawDocument| {
            let within = answer.get_document("document").ok().filter(|_| is_laid_out);
            source(within.unwrap_or(answer), end)
        };
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
    rawdoc! {
        "kind": DUE_EVENTS.raw_condition(),
        "dueAt": { "$type": "date", "$not": { "$type": "array" } },
    }
}

/// The command that finds `_id` and `dueAt` of the readable notes that are due by the server's
/// clock, those first that are due for the longest time. `numbered` is the condition whether their
/// lines have their numbers.
pub(super) fn find_due(numbered: impl Into<RawBson>, limit: i64) -> RawDocumentBuf {
    let mut filter = readable();
    filter.append(cstr("_id"), RawBson::RegularExpression(text()));
    filter.append(cstr("$expr"), rawdoc! { "$lte": ["$dueAt", "$$NOW"] });
    filter.append(cstr("numbered"), numbered.into());
    rawdoc! {
        "find": EVENTS,
        "filter": filter,
        "sort": { "dueAt": 1 },
        "limit": limit,
        "projection": { "dueAt": 1 },
    }
}

/// The transactions whose events are left, if a note names them, and how often some were refused.
fn left(note: &RawDocument) -> Option<(Option<HashSet<String>>, u32)> {
    let texts = |ids: &RawArray| ids.into_iter().flatten().filter_map(text_of).collect();
    let refusals = note.get_i64("refusals").ok();
    let refusals = refusals.or_else(|| note.get_i32("refusals").ok().map(i64::from));
    let refusals = refusals.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    Some((note.get_array("refused").ok().map(texts), refusals))
}

fn text_of(value: RawBsonRef<'_>) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// What ended in a line. Each of its entries begins with an `_id`.
fn ended(line: &RawDocument) -> Option<Vec<Ended>> {
    let mut events = Vec::new();
    for end in End::ALL {
        for entry in line.get_array(end.as_str()).ok()? {
            let id = entry.ok()?.as_array()?.get_str(0).ok()?;
            events.push(Ended { id: id.into(), end });
        }
    }
    Some(events)
}
