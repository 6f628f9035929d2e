//! Reading documents so that a bad document does not affect others.
//!
//! Owns how reads are sent and how their answers are parsed: raw, document by document, so that a
//! document with invalid text or of enormous size yields a result about itself and no failure of
//! the read. Promises majority read concern, after every write that was acknowledged to this
//! process: a new primary may learn of such a write later than its client, and a mark that is not
//! visible yet must not count as gone. Fails with an error of the whole command.

use std::sync::atomic::Ordering;

use layout::Command;
use ledger::account::{self, Account};
use ledger::transaction::{AccountId, Body, DECIDED_KEY, TransactionId};
use ledger::{AccountRead, Content, LedgerError, Look, limits};
use mongodb::bson::{Document, RawArrayBuf, RawDocument, RawDocumentBuf, Timestamp, rawdoc};

use super::Store;

/// The fields of a transaction that say what it asks for.
pub const CONTENT: [&str; 13] = [
    "source",
    "destination",
    "value",
    "legs",
    "currency",
    "hold",
    "holdExpiresAt",
    "notBefore",
    "submittedNotBefore",
    "expiresAt",
    "exclusiveKey",
    DECIDED_KEY,
    "captured",
];

/// The fields of an account that its rules rest on, beside its marks.
pub const ACCOUNT: [&str; 8] = [
    "balance",
    "pendingDebits",
    "pendingCredits",
    "openingBalance",
    "floor",
    "status",
    "currency",
    "pendingHolds",
];

/// The most bytes of a transaction's content: its legs, what is captured of them, a few names and
/// moments.
pub(super) const CONTENT_BYTES_MAX: usize = 2 * limits::LEGS_BYTES_MAX + 2_000;

/// The most bytes of those fields. A number has 16 at most, a name 200.
const ACCOUNT_BYTES_MAX: i32 = 2_000;

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

    /// Notes the moment of a write that is acknowledged, or that has stood in the way of another.
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

    /// The result of `parse` for each document that a pipeline yields: with one answer if there are
    /// no more than `most`. They are parsed one after the other, because a whole batch as trees
    /// would be most of a worker's memory.
    ///
    /// # Errors
    /// When the command fails.
    pub async fn aggregate<T: Send + 'static>(
        &self,
        operation: &'static str,
        collection: &str,
        pipeline: RawArrayBuf,
        most: usize,
        parse: impl Fn(&RawDocument) -> Option<T> + Send + 'static,
    ) -> Result<Vec<T>, LedgerError> {
        let mut command = self.aggregation(operation, collection, pipeline, most);
        command.append(cstr("readConcern"), self.read_concern());
        self.cursor(operation, command, parse).await
    }

    /// The command that runs a pipeline, without a read concern.
    pub(super) fn aggregation(
        &self,
        operation: &str,
        collection: &str,
        pipeline: RawArrayBuf,
        most: usize,
    ) -> RawDocumentBuf {
        rawdoc! {
            "aggregate": collection,
            "pipeline": pipeline,
            "cursor": { "batchSize": one_more_than(most) },
            "maxTimeMS": self.op_limit_ms(),
            "comment": format!("tandem {operation}"),
        }
    }

    /// The result of `parse` for each document that a `find` command yields.
    ///
    /// # Errors
    /// When the command fails.
    pub async fn find<T: Send + 'static>(
        &self,
        operation: &'static str,
        command: RawDocumentBuf,
        parse: impl Fn(&RawDocument) -> Option<T> + Send + 'static,
    ) -> Result<Vec<T>, LedgerError> {
        self.cursor(operation, self.reading(operation, command), parse).await
    }

    /// The same command with limit, name and read concern.
    pub(super) fn reading(&self, operation: &str, command: RawDocumentBuf) -> RawDocumentBuf {
        self.reading_at(operation, command, self.read_concern())
    }

    /// The same for a primary that makes sure that it still is the primary. The command may find
    /// one document only.
    pub(super) fn reading_surely(
        &self,
        operation: &str,
        command: RawDocumentBuf,
    ) -> RawDocumentBuf {
        self.reading_at(operation, command, rawdoc! { "level": "linearizable" })
    }

    fn reading_at(
        &self,
        operation: &str,
        mut command: RawDocumentBuf,
        read_concern: RawDocumentBuf,
    ) -> RawDocumentBuf {
        command.append(cstr("maxTimeMS"), self.op_limit_ms());
        command.append(cstr("comment"), format!("tandem {operation}"));
        command.append(cstr("readConcern"), read_concern);
        command
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
            "batchSize": one_more_than(ids.len()),
        };
        self.find(operation, command, |document| Some(document.to_owned())).await
    }

    /// Reads what a `find` command yields one document after the other, so many at once, until `more`
    /// says that it has enough or there is no more; returns what it has made of them.
    ///
    /// # Errors
    /// When the command fails.
    pub async fn find_while<T: Send + 'static>(
        &self,
        operation: &'static str,
        mut command: RawDocumentBuf,
        at_once: usize,
        seen: T,
        more: impl Fn(&mut T, &RawDocument) -> bool + Send + 'static,
    ) -> Result<T, LedgerError> {
        command.append(cstr("batchSize"), i32::try_from(at_once).unwrap_or(i32::MAX));
        let command = self.reading(operation, command);
        self.cursor_while(operation, command, at_once, seen, more).await
    }

    /// The same of a pipeline.
    ///
    /// # Errors
    /// When the command fails.
    pub async fn aggregate_while<T: Send + 'static>(
        &self,
        operation: &'static str,
        collection: &str,
        pipeline: RawArrayBuf,
        at_once: usize,
        seen: T,
        more: impl Fn(&mut T, &RawDocument) -> bool + Send + 'static,
    ) -> Result<T, LedgerError> {
        let mut command = self.aggregation(operation, collection, pipeline, at_once);
        command.append(cstr("readConcern"), self.read_concern());
        self.cursor_while(operation, command, at_once, seen, more).await
    }

    async fn cursor_while<T: Send + 'static>(
        &self,
        operation: &'static str,
        command: RawDocumentBuf,
        at_once: usize,
        mut seen: T,
        more: impl Fn(&mut T, &RawDocument) -> bool + Send + 'static,
    ) -> Result<T, LedgerError> {
        let (database, at_once) =
            (self.database.clone(), u32::try_from(at_once).unwrap_or(u32::MAX));
        let Command { sent, answer } = self.sent(operation, command).await?;
        let read = async move {
            // The command itself says how many come first; this is for what follows.
            let mut cursor = database.run_raw_cursor_command(sent).batch_size(at_once).await?;
            while cursor.advance().await? {
                let document = answer.read(cursor.current()).ok();
                if document.is_some_and(|document| !more(&mut seen, &document)) {
                    break;
                }
            }
            Ok(seen)
        };
        self.limited(operation, read).await.map_err(LedgerError::without_effect)
    }

    pub(super) async fn cursor<T: Send + 'static>(
        &self,
        operation: &'static str,
        command: RawDocumentBuf,
        parse: impl Fn(&RawDocument) -> Option<T> + Send + 'static,
    ) -> Result<Vec<T>, LedgerError> {
        let database = self.database.clone();
        let Command { sent, answer } = self.sent(operation, command).await?;
        self.limited(operation, async move {
            let mut cursor = database.run_raw_cursor_command(sent).await?;
            let mut found = Vec::new();
            while cursor.advance().await? {
                let document = answer.read(cursor.current()).ok();
                found.extend(document.and_then(|document| parse(&document)));
            }
            Ok(found)
        })
        .await
        .map_err(LedgerError::without_effect)
    }
}

/// The size of an answer for so many documents. An answer that is full does not say that nothing
/// follows, and the server would have to be asked once more.
pub(super) fn one_more_than(documents: usize) -> i32 {
    i32::try_from(documents).unwrap_or(i32::MAX).saturating_add(1)
}

pub(super) fn path(field: &str) -> String {
    format!("${field}")
}

/// These fields as an expression for a document; it leaves out missing fields.
pub(super) fn fields(names: &[&str]) -> RawDocumentBuf {
    let mut fields = RawDocumentBuf::new();
    for name in names {
        fields.append(cstr(name), path(name));
    }
    fields
}

pub(super) fn cstr(name: &str) -> &mongodb::bson::raw::CStr {
    name.try_into().expect("a field name without a zero byte")
}

pub(super) fn matching(ids: &[std::sync::Arc<str>]) -> RawDocumentBuf {
    let ids: RawArrayBuf = ids.iter().map(AsRef::as_ref).collect();
    rawdoc! { "$match": { "_id": { "$in": ids } } }
}

/// Whether a document is no longer than so many bytes. Those are read as they are stored, because
/// letting the server pick fields costs more than everything else in the query.
pub(super) fn is_at_most(bytes: i64) -> RawDocumentBuf {
    rawdoc! { "$lte": [{ "$bsonSize": "$$ROOT" }, bytes] }
}

/// Whether fields can be looked up: a look stops at the first field name that is no valid text.
pub(super) fn can_be_looked_up(document: &RawDocument) -> bool {
    document.iter().all(|field| field.is_ok())
}

/// The contents of transactions, up to the largest size that a valid one can have.
pub(super) fn contents(ids: &[std::sync::Arc<str>]) -> RawArrayBuf {
    let vars = rawdoc! { "content": fields(&CONTENT) };
    let bytes = rawdoc! { "$bsonSize": "$$content" };
    let fits = rawdoc! { "$lte": [bytes.clone(), CONTENT_BYTES_MAX as i64] };
    // `$mergeObjects` keeps only the first of two fields with the same name.
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

/// Accounts as they are now, with those marks that they are asked about and have. Each is compared
/// with its own marks only: with all marks of a batch, the work would grow with the batch's square.
pub(super) fn accounts(looks: &[Look]) -> RawArrayBuf {
    let ids: Vec<AccountId> = looks.iter().map(|(id, _)| id.clone()).collect();
    let marks = rawdoc! { "$ifNull": ["$pendingTransactions", []] };
    let asked = match looks.iter().all(|(_, marks)| marks.is_empty()) {
        true => rawdoc! { "$literal": [] },
        false => rawdoc! { "$setIntersection": [marks.clone(), own_marks(looks)] },
    };
    // Something else than a list may be large; then its type is no list either.
    let bytes = rawdoc! { "$bsonSize": { "marks": marks.clone() } };
    let other = rawdoc! { "$cond": [
        { "$lte": [bytes, ACCOUNT_BYTES_MAX] }, marks.clone(), { "$type": marks.clone() },
    ] };
    let marks = rawdoc! { "$cond": [{ "$isArray": marks }, asked, other] };
    let bytes = rawdoc! { "$bsonSize": "$$account" };
    let vars = rawdoc! { "account": fields(&ACCOUNT) };
    let fits = rawdoc! { "$lte": [bytes.clone(), ACCOUNT_BYTES_MAX] };
    let account = rawdoc! { "$cond": [fits, "$$account", { "tooLarge": bytes }] };
    let account = rawdoc! { "$let": { "vars": vars, "in": account } };
    let own = rawdoc! { "_id": "$_id", "pendingTransactions": marks };
    [matching(&ids), rawdoc! { "$replaceWith": { "$mergeObjects": [account, own] } }]
        .into_iter()
        .collect()
}

/// Accounts as they are stored, without those that are large; nobody asks for their marks.
pub(super) fn small_accounts(ids: &[AccountId]) -> RawArrayBuf {
    let is_small = is_at_most(i64::from(ACCOUNT_BYTES_MAX));
    [matching(ids), rawdoc! { "$replaceWith": { "$cond": [is_small, "$$ROOT", {}] } }]
        .into_iter()
        .collect()
}

/// An account from a document as it is stored. None where it is large, and where fields can't be
/// looked up because a field's name is no valid text.
pub(super) fn whole_account(document: &RawDocument) -> Option<AccountRead> {
    can_be_looked_up(document).then(|| account(document)).flatten()
}

/// The marks that an account is asked about.
fn own_marks(looks: &[Look]) -> RawDocumentBuf {
    let texts = |marks: &[TransactionId]| marks.iter().map(AsRef::as_ref).collect::<RawArrayBuf>();
    let asked: RawArrayBuf = looks.iter().map(|(_, marks)| texts(marks)).collect();
    let names: RawArrayBuf = looks.iter().map(|(id, _)| id.as_ref()).collect();
    let at = rawdoc! { "$indexOfArray": [{ "$literal": names }, "$_id"] };
    rawdoc! { "$arrayElemAt": [{ "$literal": asked }, at] }
}

fn too_large(document: &RawDocument, limit: usize) -> Option<String> {
    let bytes = document.get_i32("tooLarge").ok()?;
    Some(too_long(usize::try_from(bytes).unwrap_or_default(), limit))
}

pub(super) fn too_long(bytes: usize, limit: usize) -> String {
    format!("its fields are {bytes} bytes long; the limit is {limit}")
}

/// A transaction's content, or why it makes no sense.
pub(super) fn content(document: &RawDocument) -> Option<Content> {
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
    let marks = account::marks_from_raw(document).ok();
    let account = match too_large(document, ACCOUNT_BYTES_MAX as usize) {
        Some(problem) => Err(problem),
        None => Account::from_raw(document),
    };
    let as_written = account::is_as_written(document);
    Some(AccountRead { id: document.get_str("_id").ok()?.into(), marks, account, as_written })
}
