//! What an index of somebody else's does to a ledger whose collection it is on.
//!
//! Owns the judgement: which index removes documents, which may refuse a write of Tandem's, and
//! what the owner can do about it. One that removes documents stops every start, because money
//! would disappear. One that may refuse writes stops every start until its owner has accepted it: a
//! refused posting or end costs its own transaction only, and is told as what it is. An index that
//! does neither is nobody's business. Pure.
//!
//! Indexes that may refuse a write are: a unique index without `_id` in its key; one over two
//! fields that may both be lists; `hashed`, `2dsphere` or text on fields that Tandem writes; one of
//! a format that takes no decimals. After a refusal only a look by `_id` that finds the same
//! transaction says otherwise, because an earlier attempt may have inserted it. While an earlier
//! attempt may still be on its way, the answer is that it is unknown.

use std::fmt;

use ledger::account::FLOOR_CHANGE;
use ledger::limits::echo;
use ledger::remedy::Remedy;
use ledger::transaction::{DECIDED_KEY, UNPUBLISHED};
use mongodb::bson::{Bson, Document};

use super::definitions::made_by_tandem;
use super::index::Index;
use super::names::{
    ACCOUNTS, ACTS, COLLECTIONS, EVENTS, FILES, JOBS, NOTES, ORDER, REQUESTS, SETTINGS, SETTLEMENT,
    SUMS, TRANSACTIONS, WORKERS,
};
use super::seen_index::SeenIndex;
use super::shell;

/// An index that harms the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Harm {
    /// The name of the index.
    pub index: String,
    /// What it does.
    pub how: How,
}

/// How an index harms the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// The server removes documents by it, after so many seconds.
    Removes(String),
    /// The server may refuse writes because of it.
    Refuses(Why),
}

/// Why an index may refuse a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It takes each value once.
    Unique,
    /// It has two fields that may both be lists, and no document can be in it then.
    TwoLists,
    /// It takes no lists.
    Hashed,
    /// It takes places only.
    Places,
    /// It reads a language in the document, and knows few.
    Texts,
    /// Its format, of long ago, takes no decimals.
    OldFormat,
}

impl Why {
    fn told(self) -> &'static str {
        match self {
            Why::Unique => "it takes no value twice",
            Why::TwoLists => "two of its fields may be lists in one document",
            Why::Hashed => "it takes no list",
            Why::Places => "it takes nothing but places",
            Why::Texts => "it takes no text of a language that it does not know",
            Why::OldFormat => "its old format takes no decimals",
        }
    }
}

impl Harm {
    /// A short name for scripts.
    pub(super) fn kind(&self) -> &'static str {
        match self.how {
            How::Removes(_) => "index_removes",
            How::Refuses(_) => "index_refuses",
        }
    }

    /// Whether it removes documents.
    pub(super) fn removes(&self) -> bool {
        matches!(self.how, How::Removes(_))
    }

    /// The sentence that names it and what to do.
    pub(super) fn write(&self, collection: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, drop) = (echo(&self.index), drop_index(collection, &self.index));
        match &self.how {
            How::Removes(seconds) => write!(
                f,
                "the index `{name}` of `{collection}` makes the server remove documents \
                 (expireAfterSeconds {seconds}), and the ledger needs all of them: run {drop}"
            ),
            How::Refuses(why) => write!(
                f,
                "the index `{name}` of `{collection}` may refuse what Tandem writes, because {}: run {drop}, or \
                 accept that with {}",
                why.told(),
                Remedy::AcceptIndex(&self.index)
            ),
        }
    }
}

/// The command of `mongosh` that drops an index. A collection of the owner's own may have a name
/// that `mongosh` takes for something else.
pub(super) fn drop_index(collection: &str, name: &str) -> String {
    let name = shell::text(name);
    match COLLECTIONS.contains(&collection) {
        true => format!("db.{collection}.dropIndex({name})"),
        false => format!("db.getCollection({}).dropIndex({name})", shell::text(collection)),
    }
}

/// The fields of a collection's documents that Tandem writes.
struct Written {
    /// Those that are lists, or may have lists in them.
    lists: &'static [&'static str],
    /// The others.
    others: &'static [&'static str],
}

fn written(collection: &str) -> Written {
    let (lists, others): (&[&str], &[&str]) = match collection {
        ACCOUNTS => (
            &["pendingTransactions"],
            &[
                "_id",
                "balance",
                "pendingDebits",
                "pendingCredits",
                "pendingHolds",
                "floor",
                FLOOR_CHANGE,
                "status",
                "currency",
                "openingBalance",
                "createdAt",
                "lastModified",
            ],
        ),
        TRANSACTIONS => (
            &["legs", "captured", "metadata"],
            &[
                "_id",
                "source",
                "destination",
                "value",
                "state",
                "currency",
                "reverses",
                "createdAt",
                "lastModified",
                "claimedAt",
                "decidedAt",
                "confirmedAt",
                "claim",
                "leaseUntil",
                "takeoverAt",
                "application",
                "attempts",
                "attemptsAlone",
                "reason",
                "parked",
                "sweepAfter",
                UNPUBLISHED,
                "hold",
                "holdExpiresAt",
                "notBefore",
                "submittedNotBefore",
                "expiresAt",
                "exclusiveKey",
                DECIDED_KEY,
                "dueAt",
                "submittedBy",
                "request",
            ],
        ),
        EVENTS => (&["done", "canceled"], &["_id", "kind", "dueAt", "numbered", "refusals"]),
        ORDER => (&["lines", "ends"], &["_id", "kind"]),
        SUMS => (&["accounts", "nets"], &["_id", "kind", "life", "level", "from"]),
        NOTES => (&[], &["_id", "kind", "code", "message", "at"]),
        WORKERS => {
            (&["latency", "alone"], &["_id", "kind", "name", "seenAt", "startedAt", "refusals"])
        }
        REQUESTS => (&["accepted"], &["_id", "kind", "key", "submittedBy", "content", "version"]),
        ACTS => (
            &["on"],
            &[
                "_id", "kind", "at", "what", "who", "reason", "act", "endedAt", "result", "code",
                "message",
            ],
        ),
        JOBS => (
            &["on", "again", "failures", "ids"],
            &[
                "_id",
                "kind",
                "alive",
                "task",
                "at",
                "operation",
                "words",
                "who",
                "actor",
                "reason",
                "total",
                "state",
                "wish",
                "why",
                "lease",
                "leaseUntil",
                "holder",
                "losses",
                "begun",
                "position",
                "done",
                "gone",
                "failed",
                "read",
                "reading",
                "endedAt",
                "found",
                "job",
                "waits",
                "waitsUntil",
            ],
        ),
        FILES => (&["batches"], &["_id", "kind", "rows", "at"]),
        SETTINGS => (&["features", "acceptedIndexes"], &["_id", "kind", "protocol", "complete"]),
        SETTLEMENT => (&[], &["_id", "kind", "id", "paused", "since", "by", "reason"]),
        _ => (&[], &[]),
    };
    Written { lists, others }
}

/// The first name of a path.
fn root(path: &str) -> &str {
    path.split_once('.').map_or(path, |(root, _)| root)
}

impl Written {
    fn has_lists_in(&self, path: &str) -> bool {
        self.lists.contains(&root(path))
    }

    fn has(&self, path: &str) -> bool {
        self.has_lists_in(path) || self.others.contains(&root(path))
    }
}

/// What an index does to the ledger, if it harms it.
pub(super) fn harm(collection: &str, index: &SeenIndex) -> Option<Harm> {
    if index.is("clustered") {
        // It is the collection itself, and is judged as that.
        return None;
    }
    let ours = made_by_tandem(collection);
    if ours.iter().any(|own: &Index| own.is_served_by(index)) {
        return None;
    }
    let how = match index.expire_after() {
        Some(seconds) => How::Removes(echo(&seconds.to_string()).into_owned()),
        // One of ours with another definition is told as such.
        None if ours.iter().any(|own| own.has_name_of(index)) => return None,
        None => How::Refuses(refuses(collection, index)?),
    };
    Some(Harm { index: index.name().to_owned(), how })
}

fn refuses(collection: &str, index: &SeenIndex) -> Option<Why> {
    let (key, written) = (index.key(), written(collection));
    // No two documents have the same `_id`, so an index that has it refuses none for being unique.
    if (index.is("unique") || index.is("prepareUnique")) && !key.contains_key("_id") {
        return Some(Why::Unique);
    }
    let of_kind = |kinds: &[&str], is_meant: &dyn Fn(&str) -> bool| {
        key.iter().any(|(field, kind)| {
            kind.as_str().is_some_and(|kind| kinds.contains(&kind)) && is_meant(field)
        })
    };
    if of_kind(&["2d", "2dsphere", "geoHaystack"], &|field| written.has(field)) {
        return Some(Why::Places);
    }
    if of_kind(&["hashed"], &|field| written.has_lists_in(field)) {
        return Some(Why::Hashed);
    }
    // A text index takes its language from the document that has the text, and only metadata may
    // have one.
    let has_metadata = |field: &String| field == "$**" || root(field) == "metadata";
    if collection == TRANSACTIONS && index.weights().iter().any(has_metadata) {
        return Some(Why::Texts);
    }
    if index.version() < 2 && key.keys().any(|field| written.has(field)) {
        return Some(Why::OldFormat);
    }
    has_two_lists(&key, &written).then_some(Why::TwoLists)
}

/// Whether two fields of a key may be lists in one document, and one of them by what Tandem writes.
/// The fields of one list count once, but what stands in metadata is unknown.
fn has_two_lists(key: &Document, written: &Written) -> bool {
    let fields = key.iter().filter(|(_, kind)| !matches!(kind, Bson::String(_)));
    let may_be_lists = fields
        .map(|(field, _)| field.as_str())
        .filter(|field| written.has_lists_in(field) || !written.has(field));
    let list = |field| if root(field) == "metadata" { field } else { root(field) };
    let mut lists: Vec<&str> = may_be_lists.map(list).collect();
    lists.sort_unstable();
    lists.dedup();
    lists.len() > 1 && lists.iter().any(|list| written.has_lists_in(list))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn judged(collection: &str, mut index: Document) -> Option<How> {
        index.insert("name", "theirs");
        harm(collection, &SeenIndex::new(index)).map(|harm| harm.how)
    }

    fn on(collection: &str, key: Document, options: Document) -> Option<How> {
        let mut index = doc! { "v": 2, "key": key };
        index.extend(options);
        judged(collection, index)
    }

    #[test]
    fn whatever_removes_documents_is_named_hidden_partial_and_odd_ones_too() {
        for seconds in [Bson::from(60), 0_i64.into(), f64::NAN.into(), 60.0.into(), "soon".into()] {
            for more in
                [doc! {}, doc! { "hidden": true }, doc! { "partialFilterExpression": { "x": 1 } }]
            {
                let mut options = doc! { "expireAfterSeconds": seconds.clone() };
                options.extend(more);
                for collection in
                    [ACCOUNTS, TRANSACTIONS, EVENTS, NOTES, WORKERS, SETTINGS, SETTLEMENT]
                {
                    let how = on(collection, doc! { "createdAt": 1 }, options.clone());
                    assert!(matches!(how, Some(How::Removes(_))), "{collection}: {options}");
                }
            }
        }
    }

    #[test]
    fn what_may_refuse_a_write_is_named_with_its_reason_and_nothing_else_is() {
        let (unique, none) = (doc! { "unique": true }, doc! {});
        let partial = doc! { "unique": true, "partialFilterExpression": { "state": "done" } };
        let text = |field: &str| doc! { "weights": { field: 1 } };
        let cases = [
            (TRANSACTIONS, doc! { "reference": 1 }, unique.clone(), Some(Why::Unique)),
            (
                ACCOUNTS,
                doc! { "email": 1 },
                doc! { "unique": true, "sparse": true },
                Some(Why::Unique),
            ),
            (
                ACCOUNTS,
                doc! { "email": 1 },
                doc! { "unique": true, "hidden": true },
                Some(Why::Unique),
            ),
            (ACCOUNTS, doc! { "email": 1 }, doc! { "prepareUnique": true }, Some(Why::Unique)),
            (TRANSACTIONS, doc! { "metadata.order": -1 }, partial, Some(Why::Unique)),
            (EVENTS, doc! { "dueAt": 1 }, unique.clone(), Some(Why::Unique)),
            (TRANSACTIONS, doc! { "reference": 1, "_id": 1 }, unique, None),
            (ACCOUNTS, doc! { "_id": 1 }, doc! { "unique": true, "clustered": true }, None),
            (
                ACCOUNTS,
                doc! { "pendingTransactions": 1, "tags": 1 },
                none.clone(),
                Some(Why::TwoLists),
            ),
            (ACCOUNTS, doc! { "pendingTransactions": 1, "status": 1 }, none.clone(), None),
            (ACCOUNTS, doc! { "phones": 1, "tags": 1 }, none.clone(), None),
            (
                TRANSACTIONS,
                doc! { "legs.account": 1, "captured.account": 1 },
                none.clone(),
                Some(Why::TwoLists),
            ),
            (TRANSACTIONS, doc! { "legs.account": 1, "legs.amount": 1 }, none.clone(), None),
            (
                TRANSACTIONS,
                doc! { "metadata.a": 1, "metadata.b": 1 },
                none.clone(),
                Some(Why::TwoLists),
            ),
            (TRANSACTIONS, doc! { "source": 1, "captured.account": 1 }, none.clone(), None),
            (TRANSACTIONS, doc! { "metadata.a": "hashed" }, none.clone(), Some(Why::Hashed)),
            (TRANSACTIONS, doc! { "source": "hashed" }, none.clone(), None),
            (TRANSACTIONS, doc! { "_id": "hashed" }, none.clone(), None),
            (TRANSACTIONS, doc! { "metadata.place": "2dsphere" }, none.clone(), Some(Why::Places)),
            (ACCOUNTS, doc! { "home": "2dsphere" }, none.clone(), None),
            (TRANSACTIONS, doc! { "_fts": "text" }, text("metadata.note"), Some(Why::Texts)),
            (TRANSACTIONS, doc! { "_fts": "text" }, text("$**"), Some(Why::Texts)),
            (ACCOUNTS, doc! { "_fts": "text" }, text("name"), None),
            (TRANSACTIONS, doc! { "$**": 1 }, none.clone(), None),
            (ACCOUNTS, doc! { "balance": 1 }, doc! { "v": 1 }, Some(Why::OldFormat)),
            (ACCOUNTS, doc! { "email": 1 }, doc! { "v": 1 }, None),
            (ACCOUNTS, doc! { "email": 1 }, none, None),
        ];
        for (collection, key, options, why) in cases {
            let how = on(collection, key.clone(), options.clone());
            assert_eq!(how, why.map(How::Refuses), "{collection}: {key} {options}");
        }
    }

    #[test]
    fn no_index_of_tandems_own_harms_it_unless_somebody_has_made_it_remove_documents() {
        for collection in [TRANSACTIONS, WORKERS, JOBS] {
            for own in made_by_tandem(collection) {
                let mut index = own.to_document();
                assert_eq!(harm(collection, &SeenIndex::new(index.clone())), None, "{}", own.name);
                index.insert("expireAfterSeconds", 1);
                let harm = harm(collection, &SeenIndex::new(index)).expect("it removes");
                assert!(harm.removes(), "{}", own.name);
            }
        }
    }
}
