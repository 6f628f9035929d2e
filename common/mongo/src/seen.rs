//! Reading transactions for the protocol: their heads (state, claim, times) and their contents.
//!
//! Promises an answer for every document with a readable `_id` and state, whatever else is in it,
//! and promises that no answer is large. Fails with an error of the whole command.

use std::collections::HashSet;

use ledger::transaction::{Body, State, TransactionId};
use ledger::{INLINE_BYTES_MAX, LedgerError, Seen, Size};
use mongodb::bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use super::Store;
use super::names::TRANSACTIONS;
use super::read::{
    CONTENT, CONTENT_BYTES_MAX, can_be_looked_up, cstr, fields, is_at_most, matching, path,
    too_long,
};

/// The most bytes of a field of a transaction's head (its claim, say).
const HEAD_BYTES_MAX: i32 = 500;

/// Transactions as they are now. Unknown ids are left out, and so are documents without a readable
/// `_id` or state: Tandem can't process them.
pub(super) async fn seen(store: &Store, ids: &[TransactionId]) -> Result<Vec<Seen>, LedgerError> {
    let read = async |ids: &[TransactionId], pipeline| {
        store.aggregate("read", TRANSACTIONS, pipeline, ids.len(), seen_one).await
    };
    let mut seen = read(ids, transactions(ids)).await?;
    if seen.len() < ids.len() {
        let known: HashSet<&TransactionId> = seen.iter().map(|seen: &Seen| &seen.id).collect();
        let rest: Vec<_> = ids.iter().filter(|id| !known.contains(id)).cloned().collect();
        seen.extend(read(&rest, with_heads(&rest)).await?);
    }
    for seen in &mut seen {
        if let Some(Err(problem)) = &mut seen.body {
            *problem = store.told(TRANSACTIONS, std::mem::take(problem));
        }
    }
    Ok(seen)
}

/// Transactions as they are stored. A small document comes whole, because letting the server pick
/// fields costs more than everything else in the query. Of a large document come its size and those
/// fields of the head that are short.
fn transactions(ids: &[TransactionId]) -> RawArrayBuf {
    let whole = rawdoc! { "serverNow": "$$NOW", "document": "$$ROOT" };
    one_of(ids, whole)
}

/// The same, and for small documents also the head, field by field. This is for documents with a
/// field name that is no valid text: the client can't look up fields in those.
fn with_heads(ids: &[TransactionId]) -> RawArrayBuf {
    let mut whole = head(|name| path(name).into());
    whole.append(cstr("document"), "$$ROOT");
    one_of(ids, whole)
}

/// `small` for a small document; size and head for a large one.
fn one_of(ids: &[TransactionId], small: RawDocumentBuf) -> RawArrayBuf {
    let is_small = is_at_most(INLINE_BYTES_MAX as i64);
    let mut large = head(|name| short(name).into());
    large.append(cstr("large"), rawdoc! {
        "bytes": { "$bsonSize": fields(&CONTENT) },
        "legs": { "$cond": [{ "$isArray": "$legs" }, { "$size": { "$ifNull": ["$legs", []] } }, 2] },
    });
    [matching(ids), rawdoc! { "$replaceWith": { "$cond": [is_small, small, large] } }]
        .into_iter()
        .collect()
}

/// What the protocol reads of a transaction beside its content.
fn head(field: impl Fn(&str) -> RawBson) -> RawDocumentBuf {
    // The same as the filter `parked: null`: neither missing nor null.
    let is_parked =
        rawdoc! { "$not": { "$in": [{ "$type": "$parked" }, ["missing", "null", "undefined"]] } };
    let mut head = rawdoc! {
        "_id": "$_id",
        "serverNow": "$$NOW",
        "parked": { "$cond": [is_parked, true, "$$REMOVE"] },
        "reason": { "neverPosted": { "$eq": ["$reason.neverPosted", true] } },
    };
    for name in
        ["state", "claim", "leaseUntil", "takeoverAt", "attempts", "attemptsAlone", "createdAt"]
    {
        head.append(cstr(name), field(name).as_raw_bson_ref());
    }
    head
}

/// A field, if it is short.
fn short(field: &str) -> RawDocumentBuf {
    let size = rawdoc! { "$bsonSize": { "field": path(field) } };
    rawdoc! { "$cond": [{ "$lte": [size, HEAD_BYTES_MAX] }, path(field), "$$REMOVE"] }
}

fn seen_one(answer: &RawDocument) -> Option<Seen> {
    if answer.get_document("large").is_ok()
        || answer.get("state").is_ok_and(|state| state.is_some())
    {
        return seen_from(answer, answer);
    }
    let document = answer.get_document("document").ok()?;
    can_be_looked_up(document).then(|| seen_from(answer, document)).flatten()
}

/// A transaction from an answer, with its head in `head`.
fn seen_from(answer: &RawDocument, head: &RawDocument) -> Option<Seen> {
    let time = |field: &str| head.get_datetime(field).map_or(0, |time| time.timestamp_millis());
    let count = |field: &str| {
        let short = head.get_i32(field).map(i64::from);
        let count = short.or_else(|_| head.get_i64(field)).unwrap_or(0);
        u32::try_from(count.max(0)).unwrap_or(u32::MAX)
    };
    let no_value = |parked| matches!(parked, RawBsonRef::Null | RawBsonRef::Undefined);
    let reason = head.get_document("reason");
    let (size, body) = content(answer)?;
    Some(Seen {
        id: head.get_str("_id").ok()?.into(),
        state: State::parse(head.get_str("state").ok()?)?,
        claim: head.get_str("claim").ok().map(str::to_owned),
        lease_until: time("leaseUntil"),
        takeover_at: time("takeoverAt"),
        attempts: count("attempts"),
        attempts_alone: count("attemptsAlone"),
        created_at: time("createdAt"),
        parked: head
            .get("parked")
            .is_ok_and(|parked| parked.is_some_and(|parked| !no_value(parked))),
        never_posted: reason.is_ok_and(|reason| reason.get_bool("neverPosted").is_ok_and(|is| is)),
        server_now: answer.get_datetime("serverNow").map_or(0, |time| time.timestamp_millis()),
        size,
        body,
    })
}

/// The size of a transaction, and its content unless it is large.
fn content(answer: &RawDocument) -> Option<(Size, Option<Result<Body, String>>)> {
    let Ok(large) = answer.get_document("large") else {
        let document = answer.get_document("document").ok()?;
        let mut body = Body::from_raw(document).map_err(|error| error.to_string());
        if let Ok(body) = &mut body {
            // The engine does not use these two, and a batch holds thousands of bodies.
            (body.metadata, body.reverses) = (None, None);
        }
        let legs = body.as_ref().map_or(0, |body| body.legs().len());
        return Some((Size { legs, bytes: document.as_bytes().len() }, Some(body)));
    };
    let number = |field: &str| large.get_i32(field).unwrap_or_default();
    let number = |field: &str| usize::try_from(number(field)).unwrap_or_default();
    Some(match number("bytes") {
        bytes if bytes > CONTENT_BYTES_MAX => {
            (Size::default(), Some(Err(too_long(bytes, CONTENT_BYTES_MAX))))
        }
        bytes => (Size { legs: number("legs"), bytes }, None),
    })
}
