//! When transactions became held, applied or done since the first moment of the audit, as the
//! server's own log has it.
//!
//! Owns the change stream. It is read after the documents, from the first moment on, for as long as
//! the dates of documents leave it open: so the server's log has to reach back to that moment,
//! which it does for hours or days, and nothing has to be kept meanwhile.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use client::{Error, Server};
use layout::Collection as Stored;
use ledger::remedy::Remedy;
use ledger::transaction::State;
use mongo::{code_of, error_in_words};
use mongodb::Collection;
use mongodb::bson::{
    Bson, Document, RawDocument, RawDocumentBuf, Timestamp, doc, serialize_to_document,
};
use mongodb::change_stream::event::ResumeToken;
use mongodb::error::Error as DriverError;

use super::bearing::{Changes, MARGIN_MS};
use super::failed;

const BATCH: u32 = 5_000;
/// How long the server waits for a change before it says how far it has looked.
const AWAIT: Duration = Duration::from_millis(100);
/// The user may not open a change stream.
const UNAUTHORIZED: i32 = 13;
/// The server's log does not reach back to the moment.
const HISTORY_LOST: i32 = 286;

/// Says at once what would keep [`of`] from reading the changes since this moment.
pub(super) async fn probe(
    transactions: &Collection<Document>,
    first: Timestamp,
) -> Result<(), Error> {
    place_of(transactions, first).await.map(drop)
}

/// Tells which of the `unclear` ones became held, applied or done after the first moment, and when.
/// `latest_ms` is the latest of their dates. With the collection comes how it is laid out, if not
/// as Tandem makes it.
pub(super) async fn of(
    (transactions, stored): (&Collection<Document>, Option<&Stored>),
    first: Timestamp,
    latest_ms: i64,
    unclear: &HashSet<&str>,
) -> Result<HashMap<String, Changes>, Error> {
    let end = end(latest_ms, read_until(transactions).await?);
    let end_place = place_of(transactions, end).await?;
    let behind = Timestamp { time: first.time, increment: first.increment.saturating_add(1) };
    let mut changes = transactions
        .watch()
        .pipeline(stored.map_or_else(pipeline, pipeline_of))
        .start_at_operation_time(behind)
        .max_await_time(AWAIT)
        .batch_size(BATCH)
        .await
        .map_err(explained)?
        .with_type::<RawDocumentBuf>();
    let mut changed = HashMap::<String, Changes>::new();
    loop {
        match changes.next_if_any().await.map_err(explained)? {
            Some(change) => {
                if change.get_timestamp("clusterTime").is_ok_and(|at| at > end) {
                    break;
                }
                if let Some(Change { id, state, at, counted }) = Change::read(&change, stored)
                    && unclear.contains(id.as_str())
                {
                    changed.entry(id).or_default().add(state, at, counted);
                }
            }
            // The server's documentation promises that places compare as texts.
            None if place(changes.resume_token()).is_some_and(|at| at >= end_place) => break,
            None if !changes.is_alive() => {
                return Err(denied("the transactions were dropped during the audit".to_owned()));
            }
            None => {}
        }
    }
    Ok(changed)
}

/// What one change says.
struct Change {
    id: String,
    state: State,
    at: Timestamp,
    /// Whether it wrote `attempts`. Of the updates that make a transaction done, only that of a
    /// native transaction does so.
    counted: bool,
}

impl Change {
    fn read(change: &RawDocument, stored: Option<&Stored>) -> Option<Change> {
        let of = |field| change.get_document(field).ok();
        let updated = of("updateDescription");
        let updated = updated.and_then(|update| update.get_document("updatedFields").ok());
        let key = of("documentKey")?;
        let (key, fields) = match (stored, updated) {
            (None, Some(updated)) => (key.to_owned(), updated.to_owned()),
            (None, None) => (key.to_owned(), of("fullDocument")?.to_owned()),
            (Some(stored), Some(updated)) => {
                (stored.read(key).ok()?, stored.updated(updated).ok()?)
            }
            (Some(stored), None) => {
                (stored.read(key).ok()?, stored.read(of("fullDocument")?).ok()?)
            }
        };
        Some(Change {
            id: key.get_str("_id").ok()?.to_owned(),
            state: State::parse(fields.get_str("state").ok()?)?,
            at: change.get_timestamp("clusterTime").ok()?,
            counted: updated.is_some() && matches!(fields.get("attempts"), Ok(Some(_))),
        })
    }
}

/// The states that are asked for.
const STATES: [State; 3] = [State::Held, State::Applied, State::Done];

/// Changes that make a transaction held, applied or done.
fn pipeline() -> Vec<Document> {
    let states = doc! { "$in": STATES.map(Bson::from).to_vec() };
    vec![
        doc! { "$match": { "$or": [
            { "operationType": "update", "updateDescription.updatedFields.state": &states },
            { "operationType": { "$in": ["insert", "replace"] }, "fullDocument.state": &states },
        ] } },
        doc! { "$project": {
            "documentKey._id": 1,
            "clusterTime": 1,
            "updateDescription.updatedFields.state": 1,
            "updateDescription.updatedFields.attempts": 1,
            "fullDocument.state": 1,
        } },
    ]
}

/// The same where states are elsewhere and have other words. An update names a field by its path,
/// and one of a new object by that of the object; a name with a dot in it can't be in a filter.
fn pipeline_of(stored: &Stored) -> Vec<Document> {
    let path = stored.path("state");
    let words: Vec<&str> = STATES.iter().flat_map(|state| stored.words(state.as_str())).collect();
    let fields = "$updateDescription.updatedFields";
    let is_word = |state: Bson| doc! { "$in": [state, { "$literal": &words }] };
    let at = |name: &str| doc! { "$getField": { "field": { "$literal": name }, "input": fields } };
    let mut became = vec![is_word(at(&path).into())];
    for (dot, _) in path.match_indices('.') {
        let within = format!("$$object{}", &path[dot..]);
        let object = doc! { "object": at(&path[..dot]) };
        became.push(doc! { "$let": { "vars": object, "in": is_word(within.into()) } });
    }
    let full = format!("fullDocument.{path}");
    let mut inserted = doc! { "operationType": { "$in": ["insert", "replace"] } };
    inserted.insert(&full, doc! { "$in": &words });
    let mut wanted = doc! {
        "documentKey._id": 1, "clusterTime": 1, "updateDescription.updatedFields": 1,
    };
    wanted.insert(full, 1);
    let updated = doc! { "operationType": "update", "$expr": { "$or": became } };
    vec![doc! { "$match": { "$or": [updated, inserted] } }, doc! { "$project": wanted }]
}

/// Everything that was read before this is asked happened until then. A stream comes as far: a
/// majority has it, as it had all that was read, while the primary itself may be ahead for as long
/// as other members are away.
async fn read_until(transactions: &Collection<Document>) -> Result<Timestamp, Error> {
    let database = transactions.client().database(&transactions.namespace().db);
    let find = doc! {
        "find": transactions.name(), "limit": 1, "singleBatch": true, "projection": { "_id": 1 },
        "readConcern": { "level": "majority" },
    };
    let reply = database.run_command(find).await.map_err(failed)?;
    let says_no_time = |error| denied(format!("the server does not say its time: {error}"));
    reply.get_timestamp("operationTime").map_err(says_no_time)
}

/// The last change that matters: all that was read happened before `read_until`, and what became
/// held, applied or done did so by its date, or shortly after.
fn end(latest_ms: i64, read_until: Timestamp) -> Timestamp {
    let seconds = latest_ms.saturating_add(MARGIN_MS) / 1_000;
    let time = u32::try_from(seconds.max(0)).unwrap_or(u32::MAX);
    read_until.min(Timestamp { time, increment: u32::MAX })
}

/// The place of a moment in the server's log. Where nothing more is written, a stream comes to the
/// place of the last write, and not past it.
async fn place_of(transactions: &Collection<Document>, moment: Timestamp) -> Result<String, Error> {
    // No batch: the server looks for no change, and the driver has no place for a stream that
    // begins with one.
    let stream = transactions.watch().start_at_operation_time(moment).batch_size(0).await;
    place(stream.map_err(explained)?.resume_token())
        .ok_or_else(|| denied("the server does not say where its log stands".to_owned()))
}

/// The place in the server's log that a token stands for.
fn place(token: Option<ResumeToken>) -> Option<String> {
    let token = serialize_to_document(&token?).ok()?;
    token.get_str("_data").ok().map(str::to_owned)
}

fn explained(error: DriverError) -> Error {
    let advice = match code_of(&error) {
        Some(UNAUTHORIZED) => &format!(
            "an audit of a ledger in use needs the right `changeStream` on its transactions, which \
             {} gives to tandem-auditor and tandem-api",
            Remedy::Roles
        ),
        Some(HISTORY_LOST) => {
            "the server's log (oplog) does not reach back to the beginning of the audit: give it \
             more room (replSetResizeOplog)"
        }
        Some(_) | None => return failed(error),
    };
    denied(format!("{advice} ({})", error_in_words(&error)))
}

fn denied(problem: String) -> Error {
    Error::Denied { server: Server::MongoDb, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_says_what_the_transaction_became_and_whether_that_was_an_attempt() {
        let at = Timestamp { time: 7, increment: 1 };
        let change = |what: Document| {
            let mut change = doc! { "documentKey": { "_id": "t" }, "clusterTime": at };
            change.extend(what);
            let change = RawDocumentBuf::try_from(&change).expect("plain BSON");
            Change::read(&change, None)
                .map(|one| (one.id.to_owned(), one.state, one.at, one.counted))
        };
        let of = |fields: Document| doc! { "updateDescription": { "updatedFields": fields } };
        let read = |state, counted| Some(("t".to_owned(), state, at, counted));
        assert_eq!(change(of(doc! { "state": "done" })), read(State::Done, false));
        assert_eq!(change(of(doc! { "state": "done", "attempts": 2 })), read(State::Done, true));
        let whole = doc! { "fullDocument": { "state": "applied" } };
        assert_eq!(change(whole), read(State::Applied, false));
        assert_eq!(change(of(doc! { "state": "lost" })), None);
        assert_eq!(change(doc! { "documentKey": { "_id": 7 } }), None);
    }

    #[test]
    fn a_change_of_a_document_of_others_is_read_in_their_words() {
        let layout = layout::Layout::from_toml(
            "[transactions]\nids = \"int64\"\nfields = { state = \"now.word\" }\n\
             state = { done = [\"paid\", \"settled\"] }",
        );
        let stored = layout.expect("it is good").transactions;
        let at = Timestamp { time: 7, increment: 1 };
        let change = |what: Document| {
            let mut change = doc! { "documentKey": { "_id": 5.0 }, "clusterTime": at };
            change.extend(what);
            let change = RawDocumentBuf::try_from(&change).expect("plain BSON");
            let read = Change::read(&change, Some(&stored));
            read.map(|one| (one.id, one.state, one.counted))
        };
        let of = |fields: Document| doc! { "updateDescription": { "updatedFields": fields } };
        let read = |state, counted| Some(("5".to_owned(), state, counted));
        let path = of(doc! { "now.word": "settled", "tandem.attempts": 1 });
        assert_eq!(change(path), read(State::Done, true));
        let object = of(doc! { "now": { "word": "applied" }, "tandem": { "attempts": 1 } });
        assert_eq!(change(object), read(State::Applied, true));
        let whole = doc! { "fullDocument": { "now": { "word": "held" } } };
        assert_eq!(change(whole), read(State::Held, false));
        assert_eq!(change(of(doc! { "now.word": "done" })), None, "it is none of their words");
    }

    #[test]
    fn changes_are_looked_at_until_the_last_read_or_until_their_dates_say_that_all_have_come() {
        let at = |time, increment| Timestamp { time, increment };
        assert_eq!(end(100_000, at(130, 4)), at(130, 4));
        assert_eq!(end(100_000, at(131, 0)), at(130, u32::MAX));
        assert_eq!(end(i64::MAX, at(131, 0)), at(131, 0), "a forged date");
    }
}
