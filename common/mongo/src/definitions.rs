//! How the collections of a ledger should look, and whether an existing collection looks so.
//!
//! Owns the names and definitions of the indexes, and how Tandem recognizes its own validator: the
//! validator carries a `$comment` with a hash of its own content, which the server ignores. If the
//! hash does not fit, somebody else has written or edited the validator, and Tandem never
//! overwrites it.

use ledger::hex::hex;
use ledger::transaction::{DUE_AT, State};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use sha2::{Digest, Sha256};

use super::ledger_settings::LedgerSettings;
use super::own::{EVENTS, NOTES, REQUESTS, SETTINGS, WORKERS};
use super::seen_index::SeenIndex;
use super::{history, keyed, validators, waiting, workers};

/// The collection of accounts.
pub const ACCOUNTS: &str = "accounts";
/// The collection of transactions.
pub const TRANSACTIONS: &str = "transactions";
/// The index of what is due or expires.
pub(super) const DUE: &str = "due";

/// All collections of a ledger. Those of notes, due events, requests and settings have no definition.
pub(super) const COLLECTIONS: [&str; 7] =
    [ACCOUNTS, TRANSACTIONS, NOTES, EVENTS, SETTINGS, WORKERS, REQUESTS];

/// A collection that every ledger has.
pub(super) struct Definition {
    pub(super) name: &'static str,
    /// None where whatever stands in it does no harm.
    pub(super) validator: Option<Document>,
    pub(super) indexes: Vec<Index>,
}

/// An index that a query needs; `_id` serves all others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Index {
    pub(super) name: &'static str,
    pub(super) key: Document,
    /// Which documents it has; empty for all.
    pub(super) filter: Document,
    /// Whether no two documents in it may have the same key.
    pub(super) unique: bool,
    /// After how many seconds the server removes a document, if at all.
    pub(super) expire_after_s: Option<i32>,
}

impl Index {
    /// An index that keeps its documents for ever, and takes keys any number of times.
    pub(super) fn new(name: &'static str, key: Document, filter: Document) -> Index {
        Index { name, key, filter, unique: false, expire_after_s: None }
    }
}

/// All of them, with or without the indexes that a ledger may do without.
pub(super) fn definitions(settings: &LedgerSettings) -> Vec<Definition> {
    let define = |name, rules, indexes| {
        let validator = Some(marked(rules));
        Definition { name, validator, indexes }
    };
    let mut indexes = transaction_indexes();
    if settings.exclusive_keys {
        indexes.push(keyed::index());
    }
    match settings.history {
        true => indexes.extend(history::indexes()),
        false => indexes.push(waiting::index()),
    }
    vec![
        define(ACCOUNTS, validators::accounts(), vec![]),
        define(TRANSACTIONS, validators::transactions(), indexes),
        Definition { name: WORKERS, validator: None, indexes: vec![workers::index()] },
    ]
}

/// Whether there is no ledger without this collection. Without that of workers operators see less, and all
/// else is as it should be.
pub(super) fn is_needed(name: &str) -> bool {
    [ACCOUNTS, TRANSACTIONS].contains(&name)
}

/// All indexes that this version may have made on a collection, those included that a ledger does without.
pub(super) fn made_by_tandem(collection: &str) -> Vec<Index> {
    match collection {
        TRANSACTIONS => {
            let mut all = transaction_indexes();
            all.extend([keyed::index(), waiting::index()]);
            all.extend(history::indexes());
            all
        }
        WORKERS => vec![workers::index()],
        _ => vec![],
    }
}

/// An index that is changed gets a new name. The old one stays for the workers of the old version,
/// and the server refuses a second definition under a name that is taken.
fn transaction_indexes() -> Vec<Index> {
    let in_flight = State::IN_FLIGHT.map(Bson::from).to_vec();
    vec![
        // The sweeper: transactions in flight whose owner is gone. The key does not change from
        // claim to the end, so a state change costs no index write.
        Index::new("in_flight", doc! { "takeoverAt": 1 }, doc! { "state": { "$in": in_flight } }),
        // The sweeper: what is scheduled and due, and what expires. One index for all of them, because
        // each index of this collection costs a native transaction on MongoDB 6.0 some 10 µs of CPU.
        Index::new(DUE, doc! { DUE_AT: 1 }, doc! { DUE_AT: { "$type": "date" } }),
    ]
}

impl Index {
    /// The command's form.
    pub(super) fn to_document(&self) -> Document {
        let mut index = doc! { "name": self.name, "key": &self.key };
        index.extend(self.options());
        index
    }

    /// What stands beside name and key. The server takes no empty filter.
    pub(super) fn options(&self) -> Document {
        let mut options = doc! {};
        if self.unique {
            options.insert("unique", true);
        }
        if !self.filter.is_empty() {
            options.insert("partialFilterExpression", &self.filter);
        }
        if let Some(seconds) = self.expire_after_s {
            options.insert("expireAfterSeconds", seconds);
        }
        options
    }

    /// Whether an existing index is this one, by name, too: the queries name their index.
    pub(super) fn is_served_by(&self, there: &SeenIndex) -> bool {
        self.has_name_of(there)
            && self.is_blocked_by(there)
            && !there.is("hidden")
            && there.expire_after().is_some() == self.expire_after_s.is_some()
            && there.expire_after_s() == self.expire_after_s.map(i64::from)
    }

    /// Whether the server takes an existing index for this one, and so refuses this one under any
    /// other name. The server compares neither `hidden` nor `expireAfterSeconds`.
    pub(super) fn is_blocked_by(&self, there: &SeenIndex) -> bool {
        same_key(&there.key(), &self.key)
            && there.filter() == self.filter
            && there.is("unique") == self.unique
            && !there.is("sparse")
            && !there.is("collation")
    }

    /// Whether an existing index has the name of this one.
    pub(super) fn has_name_of(&self, there: &SeenIndex) -> bool {
        there.name() == self.name
    }
}

/// Some shells write 1 as a double. The server makes no difference between the two.
fn same_key(there: &Document, ours: &Document) -> bool {
    let number = |value: &Bson| match value {
        Bson::Int32(number) => Some(f64::from(*number)),
        Bson::Int64(number) => Some(*number as f64),
        Bson::Double(number) => Some(*number),
        _ => None,
    };
    let parts = |key: &Document| -> Vec<(String, Option<f64>)> {
        key.iter().map(|(field, value)| (field.clone(), number(value))).collect()
    };
    parts(there) == parts(ours)
}

/// What the collection has as its validator.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fit {
    /// Nothing.
    Absent,
    /// Tandem's of this version, and nothing else.
    Exact,
    /// Tandem's of this version as a clause of the user's own.
    Merged,
    /// Tandem's of another version, as Tandem has written it.
    OtherVersion,
    /// The user's own; with it, what both would be together.
    Foreign(Document),
}

/// Tells what the collection has in place of the validator `ours`.
pub(super) fn fit(there: Option<&Document>, ours: &Document) -> Fit {
    let Some(there) = there.filter(|there| !there.is_empty()) else { return Fit::Absent };
    if there == ours {
        return Fit::Exact;
    }
    if is_marked(there) {
        return Fit::OtherVersion;
    }
    match clauses(there) {
        Some(clauses) if clauses.contains(&ours) => Fit::Merged,
        // A clause that another version of Tandem has written gives way to this version's.
        Some(clauses) if there.len() == 1 => {
            let theirs = clauses.into_iter().filter(|clause| !is_marked(clause));
            let both: Vec<Bson> = theirs.chain([ours]).map(Bson::from).collect();
            Fit::Foreign(doc! { "$and": both })
        }
        Some(_) | None => Fit::Foreign(doc! { "$and": [there, ours] }),
    }
}

/// The clauses of an `$and`; none when one of them is no document.
fn clauses(validator: &Document) -> Option<Vec<&Document>> {
    validator.get_array("$and").ok()?.iter().map(Bson::as_document).collect()
}

/// Rules with the mark that makes them known as Tandem's.
fn marked(rules: Document) -> Document {
    let mut whole = doc! { "$comment": mark(&rules) };
    whole.extend(rules);
    whole
}

fn is_marked(validator: &Document) -> bool {
    let mut rules = validator.clone();
    rules.remove("$comment").is_some_and(|comment| comment == Bson::from(mark(&rules)))
}

fn mark(rules: &Document) -> String {
    const DIGITS: usize = 16;
    let bytes = RawDocumentBuf::try_from(rules).map(RawDocumentBuf::into_bytes);
    // BSON can't carry a field name with a NUL character, and no rule has such a name.
    let hash = Sha256::digest(bytes.unwrap_or_default());
    format!("tandem {}", &hex(&hash)[..DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_validator_is_known_as_ours_by_its_content_and_never_when_edited() {
        let (ours, other) = (marked(doc! { "a": 1, "b": 2 }), marked(doc! { "a": 0 }));
        let theirs = doc! { "x": { "$type": "string" } };
        assert_eq!(fit(None, &ours), Fit::Absent);
        assert_eq!(fit(Some(&doc! {}), &ours), Fit::Absent);
        assert_eq!(fit(Some(&ours), &ours), Fit::Exact);
        assert_eq!(fit(Some(&other), &ours), Fit::OtherVersion);
        assert_eq!(fit(Some(&doc! { "$and": [&theirs, &ours] }), &ours), Fit::Merged);

        let both = doc! { "$and": [&theirs, &ours] };
        assert_eq!(fit(Some(&theirs), &ours), Fit::Foreign(both.clone()));
        let outdated = doc! { "$and": [&theirs, &other] };
        assert_eq!(fit(Some(&outdated), &ours), Fit::Foreign(both));
        let mut edited = other;
        edited.insert("a", 5);
        assert!(matches!(fit(Some(&edited), &ours), Fit::Foreign(_)));
    }

    #[test]
    fn an_index_serves_under_its_name_only_and_with_the_same_definition() {
        let index = &waiting::index();
        fn set(there: &mut Document, option: &str, value: impl Into<Bson>) {
            there.insert(option, value.into());
        }
        let there = |change: fn(&mut Document)| {
            let mut there = index.to_document();
            change(&mut there);
            let there = SeenIndex(there);
            (index.is_served_by(&there), index.is_blocked_by(&there))
        };
        assert_eq!(there(|_| {}), (true, true));
        assert_eq!(there(|one| set(one, "key", doc! { "createdAt": 1.0 })), (true, true));
        assert_eq!(there(|one| set(one, "name", "createdAt_1")), (false, true));
        assert_eq!(there(|one| set(one, "hidden", true)), (false, true));
        assert_eq!(there(|one| set(one, "expireAfterSeconds", 60)), (false, true));
        assert_eq!(there(|one| set(one, "unique", true)), (false, false));
        assert_eq!(there(|one| drop(one.remove("partialFilterExpression"))), (false, false));
        assert_eq!(there(|one| set(one, "key", doc! { "createdAt": -1 })), (false, false));
    }
}
