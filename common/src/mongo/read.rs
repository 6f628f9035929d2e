//! Reading documents so that one of them costs the others nothing.
//!
//! Owns how reads are sent and how their answers are taken apart: raw, document by document, so that
//! a document that is no valid text or far too large is an answer about itself and no failure of the
//! read. Promises majority read concern, after every write that was acknowledged to this process: a
//! new primary may know of such a write later than its client, and a mark that is not visible yet
//! must not count as gone. Fails with an error of the whole command.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use mongodb::bson::{
    Document, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, Timestamp, rawdoc,
};

use super::Store;
use super::definitions::TRANSACTIONS;
use crate::account::Account;
use crate::ledger::{AccountRead, INLINE_BYTES_MAX, LedgerError, Order, Seen, Size};
use crate::limits;
use crate::transaction::{Body, State, TransactionId};

/// The fields of a transaction that say what it asks for.
const CONTENT: [&str; 5] = ["source", "destination", "value", "legs", "currency"];

/// The fields of an account that its rules rest on, beside its marks.
const ACCOUNT: [&str; 7] =
    ["balance", "pendingDebits", "pendingCredits", "openingBalance", "floor", "status", "currency"];

/// The most bytes of what a transaction asks for: its legs, or a few names.
const CONTENT_BYTES_MAX: usize = limits::LEGS_BYTES_MAX + 2_000;

/// The most bytes of those fields. A number has 16 at most, a name 200.
const ACCOUNT_BYTES_MAX: i32 = 2_000;

/// The most bytes of a field of a transaction's head (its claim, say).
const HEAD_BYTES_MAX: i32 = 500;

/// Which fields of a document are read, beside its `_id`.
#[derive(Clone, Copy, Debug)]
pub enum Fields<'a> {
    /// All of them.
    All,
    /// These.
    Only(&'a [&'a str]),
    /// Those that an account's rules rest on; a list of none stands for its marks.
    OfAnAccount,
}

impl Store {
    /// Notes the moment of a write that is acknowledged.
    pub(super) fn heard(&self, reply: &Document) {
        if let Ok(moment) = reply.get_timestamp("operationTime") {
            self.heard_of(moment);
        }
    }

    /// Notes the moment of a write that is acknowledged.
    pub(super) fn heard_of(&self, moment: Timestamp) {
        let moment = (u64::from(moment.time) << 32) | u64::from(moment.increment);
        self.newest_write.fetch_max(moment, Ordering::Relaxed);
    }

    fn read_concern(&self) -> RawDocumentBuf {
        let newest = self.newest_write.load(Ordering::Relaxed);
        if newest == 0 {
            return rawdoc! { "level": "majority" };
        }
        let (time, increment) = ((newest >> 32) as u32, newest as u32);
        rawdoc! { "level": "majority", "afterClusterTime": Timestamp { time, increment } }
    }

    /// What `parse` makes of each document that a pipeline yields, `batch` of them in one answer.
    /// One after the other, since a batch of them as trees is most of a worker's memory.
    ///
    /// # Errors
    /// When the command fails.
    pub async fn aggregate<T: Send + 'static>(
        &self,
        operation: &'static str,
        collection: &str,
        pipeline: RawArrayBuf,
        batch: usize,
        parse: impl Fn(&RawDocument) -> Option<T> + Send + 'static,
    ) -> Result<Vec<T>, LedgerError> {
        let batch = i32::try_from(batch).unwrap_or(i32::MAX).max(2);
        let command = rawdoc! {
            "aggregate": collection,
            "pipeline": pipeline,
            "cursor": { "batchSize": batch },
            "maxTimeMS": self.op_limit_ms(),
            "comment": format!("tandem {operation}"),
            "readConcern": self.read_concern(),
        };
        self.cursor(operation, command, parse).await
    }

    /// What `parse` makes of each document that a `find` command yields.
    ///
    /// # Errors
    /// When the command fails.
    pub(super) async fn find<T: Send + 'static>(
        &self,
        operation: &'static str,
        mut command: RawDocumentBuf,
        parse: impl Fn(&RawDocument) -> Option<T> + Send + 'static,
    ) -> Result<Vec<T>, LedgerError> {
        command.append(cstr("maxTimeMS"), self.op_limit_ms());
        command.append(cstr("comment"), format!("tandem {operation}"));
        command.append(cstr("readConcern"), self.read_concern());
        self.cursor(operation, command, parse).await
    }

    /// Documents by their `_id`, as they are stored.
    ///
    /// # Errors
    /// When the command fails.
    pub async fn documents(
        &self,
        operation: &'static str,
        collection: &str,
        ids: &[&str],
        fields: Fields<'_>,
    ) -> Result<Vec<RawDocumentBuf>, LedgerError> {
        let wanted: RawArrayBuf = ids.iter().copied().collect();
        let mut projection = RawDocumentBuf::new();
        match fields {
            Fields::Only(names) => names.iter().for_each(|name| projection.append(cstr(name), 1)),
            Fields::OfAnAccount => {
                ACCOUNT.iter().for_each(|name| projection.append(cstr(name), 1));
                projection.append(cstr("pendingTransactions"), rawdoc! { "$literal": [] });
            }
            Fields::All => {}
        }
        let command = rawdoc! {
            "find": collection,
            "filter": { "_id": { "$in": wanted } },
            "projection": projection,
            "batchSize": i32::try_from(ids.len()).unwrap_or(i32::MAX).max(2),
        };
        self.find(operation, command, |document| Some(document.to_owned())).await
    }

    async fn cursor<T: Send + 'static>(
        &self,
        operation: &'static str,
        command: RawDocumentBuf,
        parse: impl Fn(&RawDocument) -> Option<T> + Send + 'static,
    ) -> Result<Vec<T>, LedgerError> {
        let database = self.database.clone();
        self.limited(operation, async move {
            let mut cursor = database.run_raw_cursor_command(command).await?;
            let mut found = Vec::new();
            while cursor.advance().await? {
                found.extend(parse(cursor.current()));
            }
            Ok(found)
        })
        .await
    }
}

fn path(field: &str) -> String {
    format!("${field}")
}

/// The fields, as an expression for a document that has those of them that are there.
fn fields(names: &[&str]) -> RawDocumentBuf {
    let mut fields = RawDocumentBuf::new();
    for name in names {
        fields.append(cstr(name), path(name));
    }
    fields
}

pub(super) fn cstr(name: &str) -> &mongodb::bson::raw::CStr {
    name.try_into().expect("a field name without a zero byte")
}

fn matching(ids: &[std::sync::Arc<str>]) -> RawDocumentBuf {
    let ids: RawArrayBuf = ids.iter().map(AsRef::as_ref).collect();
    rawdoc! { "$match": { "_id": { "$in": ids } } }
}

/// Transactions as they stand. A small document comes as it is: whatever is picked from it by the
/// server costs more than all the rest of it. Of a large one comes its size, and each field of the
/// head if it is short.
fn transactions(ids: &[TransactionId]) -> RawArrayBuf {
    let whole = rawdoc! { "serverNow": "$$NOW", "document": "$$ROOT" };
    one_of(ids, whole)
}

/// The same, with the head of small documents beside them, field by field: for those in which a field
/// has a name that is no text, so that nobody here can look for another one.
fn with_heads(ids: &[TransactionId]) -> RawArrayBuf {
    let mut whole = head(|name| path(name).into());
    whole.append(cstr("document"), "$$ROOT");
    one_of(ids, whole)
}

/// `small` for each small document, its size and its head for a large one.
fn one_of(ids: &[TransactionId], small: RawDocumentBuf) -> RawArrayBuf {
    let is_small = rawdoc! { "$lte": [{ "$bsonSize": "$$ROOT" }, INLINE_BYTES_MAX as i64] };
    let mut large = head(|name| short(name).into());
    large.append(cstr("large"), rawdoc! {
        "bytes": { "$bsonSize": fields(&CONTENT) },
        "legs": { "$cond": [{ "$isArray": "$legs" }, { "$size": { "$ifNull": ["$legs", []] } }, 2] },
    });
    [matching(ids), rawdoc! { "$replaceWith": { "$cond": [is_small, small, large] } }]
        .into_iter()
        .collect()
}

/// What the protocol reads of a transaction, beside what it asks for.
fn head(field: impl Fn(&str) -> RawBson) -> RawDocumentBuf {
    // As `parked: null` of a filter has it: neither nothing nor null.
    let is_parked =
        rawdoc! { "$not": { "$in": [{ "$type": "$parked" }, ["missing", "null", "undefined"]] } };
    let mut head = rawdoc! {
        "_id": "$_id",
        "serverNow": "$$NOW",
        "parked": { "$cond": [is_parked, true, "$$REMOVE"] },
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

/// What transactions ask for, of any size that makes sense.
pub(super) fn contents(ids: &[std::sync::Arc<str>]) -> RawArrayBuf {
    let vars = rawdoc! { "content": fields(&CONTENT) };
    let bytes = rawdoc! { "$bsonSize": "$$content" };
    let fits = rawdoc! { "$lte": [bytes.clone(), CONTENT_BYTES_MAX as i64] };
    // Merging a document with nothing keeps the first of each field.
    let each_once = rawdoc! { "$eq": ["$$ROOT", { "$mergeObjects": ["$$ROOT"] }] };
    let with_id = rawdoc! { "$mergeObjects": [{ "_id": "$_id" }, "$$content"] };
    let without = rawdoc! { "_id": "$_id", "tooLarge": bytes };
    let repeated = rawdoc! { "_id": "$_id", "repeated": true };
    let content = rawdoc! { "$cond": [fits, with_id, without] };
    let content = rawdoc! { "$cond": [each_once, content, repeated] };
    [matching(ids), rawdoc! { "$replaceWith": { "$let": { "vars": vars, "in": content } } }]
        .into_iter()
        .collect()
}

/// Accounts as they stand, with those of the marks that they have.
pub(super) fn accounts(ids: &[std::sync::Arc<str>], marks: &[std::sync::Arc<str>]) -> RawArrayBuf {
    let marks: RawArrayBuf = marks.iter().map(AsRef::as_ref).collect();
    let asked = rawdoc! { "$setIntersection": ["$pendingTransactions", { "$literal": marks }] };
    let marks = rawdoc! { "$cond": [{ "$isArray": "$pendingTransactions" }, asked, null] };
    let bytes = rawdoc! { "$bsonSize": "$$account" };
    let vars = rawdoc! { "account": fields(&ACCOUNT) };
    let fits = rawdoc! { "$lte": [bytes.clone(), ACCOUNT_BYTES_MAX] };
    let account = rawdoc! { "$cond": [fits, "$$account", { "tooLarge": bytes }] };
    let account = rawdoc! { "$let": { "vars": vars, "in": account } };
    let own = rawdoc! { "_id": "$_id", "pendingTransactions": marks };
    [matching(ids), rawdoc! { "$replaceWith": { "$mergeObjects": [account, own] } }]
        .into_iter()
        .collect()
}

fn too_large(document: &RawDocument, limit: usize) -> Option<String> {
    let bytes = document.get_i32("tooLarge").ok()?;
    Some(too_long(usize::try_from(bytes).unwrap_or_default(), limit))
}

fn too_long(bytes: usize, limit: usize) -> String {
    format!("its fields are {bytes} bytes long; the limit is {limit}")
}

/// Transactions as they are now. Unknown ids are not there, nor are documents without a readable `_id`
/// or state: they are not ours.
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
    Ok(seen)
}

fn seen_one(answer: &RawDocument) -> Option<Seen> {
    if answer.get_document("large").is_ok()
        || answer.get("state").is_ok_and(|state| state.is_some())
    {
        return seen_from(answer, answer);
    }
    let document = answer.get_document("document").ok()?;
    // A look for a field ends at the first name that is no text.
    document.iter().all(|field| field.is_ok()).then(|| seen_from(answer, document)).flatten()
}

/// A transaction as an answer shows it, whose head is in `head`.
fn seen_from(answer: &RawDocument, head: &RawDocument) -> Option<Seen> {
    let time = |field: &str| head.get_datetime(field).map_or(0, |time| time.timestamp_millis());
    let count = |field: &str| {
        let short = head.get_i32(field).map(i64::from);
        let count = short.or_else(|_| head.get_i64(field)).unwrap_or(0);
        u32::try_from(count.max(0)).unwrap_or(u32::MAX)
    };
    let no_value = |parked| matches!(parked, RawBsonRef::Null | RawBsonRef::Undefined);
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
        server_now: answer.get_datetime("serverNow").map_or(0, |time| time.timestamp_millis()),
        size,
        body,
    })
}

/// How much a transaction is, and what it asks for, unless it is large.
fn content(answer: &RawDocument) -> Option<(Size, Option<Result<Body, String>>)> {
    let Ok(large) = answer.get_document("large") else {
        let document = answer.get_document("document").ok()?;
        let mut body = Body::from_raw(document).map_err(|error| error.to_string());
        if let Ok(body) = &mut body {
            // The engine has no use for them, and a batch holds thousands of bodies.
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

/// A transaction's content, or why it makes no sense.
pub(super) fn order(document: &RawDocument) -> Option<Order> {
    let id = document.get_str("_id").ok()?.into();
    let body = match too_large(document, CONTENT_BYTES_MAX) {
        Some(problem) => Err(problem),
        None if document.get_bool("repeated").is_ok() => {
            Err("fields: one of them is there twice".to_owned())
        }
        None => Body::from_raw(document).map_err(|error| error.to_string()),
    };
    Some((id, body))
}

/// An account with its marks, or why it can't be read.
pub(super) fn account(document: &RawDocument) -> Option<AccountRead> {
    let marks = document.get_array("pendingTransactions").ok().map(|marks| {
        marks.into_iter().flatten().filter_map(|mark| mark.as_str().map(Into::into)).collect()
    });
    let account = match too_large(document, ACCOUNT_BYTES_MAX as usize) {
        Some(problem) => Err(problem),
        None => Account::from_raw(document),
    };
    Some(AccountRead { id: document.get_str("_id").ok()?.into(), marks, account })
}
