//! Which transactions have changed since the moment of the audit, as the server's own log has it.
//!
//! Owns the change stream. It is read after the documents, from the moment on, for as long as the dates of
//! documents leave it open: so the server's log has to reach back to the moment, which it does for hours
//! or days, and nothing has to be kept meanwhile.

use std::collections::HashSet;
use std::time::Duration;

use common::mongo::code_of;
use common::transaction::State;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, Timestamp, doc, serialize_to_document};
use mongodb::change_stream::event::ResumeToken;
use mongodb::error::Error as DriverError;

use super::bearing::MARGIN_MS;
use crate::error::{Error, Server};

const BATCH: u32 = 5_000;
/// How long the server waits for a change before it says how far it has looked.
const AWAIT: Duration = Duration::from_millis(100);
/// The user may not open a change stream.
const UNAUTHORIZED: i32 = 13;
/// The server's log does not reach back to the moment.
const HISTORY_LOST: i32 = 286;

/// Takes those out of `unclear` that were held or done only after the moment; returns how many.
pub(super) async fn leave_out(
    transactions: &Collection<Document>,
    moment: Timestamp,
    unclear: &mut HashSet<String>,
) -> Result<u64, Error> {
    looked(transactions, moment, unclear).await.map_err(|error| explained(&error))
}

async fn looked(
    transactions: &Collection<Document>,
    moment: Timestamp,
    unclear: &mut HashSet<String>,
) -> Result<u64, DriverError> {
    // Everything that was read happened before the place at which this stream would begin.
    let until = place(transactions.watch().await?.resume_token());
    let behind = Timestamp { time: moment.time, increment: moment.increment.saturating_add(1) };
    let mut changes = transactions
        .watch()
        .pipeline(pipeline())
        .start_at_operation_time(behind)
        .max_await_time(AWAIT)
        .batch_size(BATCH)
        .await?
        .with_type::<Document>();
    let mut left_out = 0;
    while !unclear.is_empty() {
        match changes.next_if_any().await? {
            Some(change) if is_past(&change, moment) => break,
            Some(change) => {
                let id = change.get_document("documentKey").and_then(|key| key.get_str("_id"));
                left_out += u64::from(id.is_ok_and(|id| unclear.remove(id)));
            }
            // The server's documentation promises that places compare as texts.
            None if place(changes.resume_token()) >= until => break,
            None if !changes.is_alive() => {
                return Err(DriverError::custom("the transactions were dropped meanwhile"));
            }
            None => {}
        }
    }
    Ok(left_out)
}

/// Changes that make a transaction held or done.
fn pipeline() -> [Document; 2] {
    let states = [State::Held, State::Done].map(Bson::from).to_vec();
    let states = doc! { "$in": states };
    [
        doc! { "$match": { "$or": [
            { "operationType": "update", "updateDescription.updatedFields.state": &states },
            { "operationType": { "$in": ["insert", "replace"] }, "fullDocument.state": &states },
        ] } },
        doc! { "$project": { "documentKey._id": 1, "clusterTime": 1 } },
    ]
}

/// Whether a change is so late that the date of its document says so, too.
fn is_past(change: &Document, moment: Timestamp) -> bool {
    let at = change.get_timestamp("clusterTime").map_or(0, |at| i64::from(at.time));
    (at - i64::from(moment.time)) * 1_000 > 2 * MARGIN_MS
}

/// The place in the server's log that a token stands for.
fn place(token: Option<ResumeToken>) -> Option<String> {
    let token = serialize_to_document(&token?).ok()?;
    token.get_str("_data").ok().map(str::to_owned)
}

fn explained(error: &DriverError) -> Error {
    let advice = match code_of(error) {
        Some(UNAUTHORIZED) => {
            "an audit of a ledger in use needs the right `changeStream` on its transactions, which \
             `producer roles --apply` gives to tandem-auditor and tandem-api"
        }
        Some(HISTORY_LOST) => {
            "the server's log (oplog) does not reach back to the beginning of the audit: give it \
             more room (replSetResizeOplog)"
        }
        Some(_) | None => return Error::from(error.clone()),
    };
    Error::Denied { server: Server::MongoDb, problem: format!("{advice} ({error})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_past_when_dates_tell_it_from_the_moment() {
        let moment = Timestamp { time: 100, increment: 9 };
        let past =
            |time| is_past(&doc! { "clusterTime": Timestamp { time, increment: 1 } }, moment);
        assert!(!past(100) && !past(160));
        assert!(past(161));
        assert!(!is_past(&doc! {}, moment));
    }
}
