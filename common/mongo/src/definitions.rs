//! How the collections of a ledger should look, and whether an existing collection looks so.
//!
//! Owns the catalogue of collections, validators and indexes, and how Tandem recognizes its own
//! validator: the validator carries a `$comment` with a hash of its own content, which the server
//! ignores. If the hash does not fit, somebody else has written or edited the validator, and Tandem
//! never overwrites it.

use layout::{Collection, Layout};
use ledger::hex::hex;
use ledger::transaction::{DUE_AT, UNPUBLISHED};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use sha2::{Digest, Sha256};

use super::index::Index;
use super::ledger_settings::LedgerSettings;
use super::names::{
    ACCOUNTS, ACTS, BY_CREATION, DUE, INSERTED, JOBS, JOURNAL, ORDER, PARKED, SUMS, SWEPT,
    TRANSACTIONS, WORKERS,
};
use super::{acts, jobs, journal, keyed, order, sums, validators, workers};

/// A collection that every ledger has.
pub(super) struct Definition {
    pub(super) name: &'static str,
    /// None where whatever stands in it does no harm.
    pub(super) validator: Option<Document>,
    pub(super) indexes: Vec<Index>,
}

/// All of them, with or without the indexes that a ledger may do without. Validators check ids by
/// the kinds of the layout, and name Tandem's own fields.
pub(super) fn definitions(settings: &LedgerSettings, layout: Option<&Layout>) -> Vec<Definition> {
    let ids = |of: fn(&Layout) -> &Collection| {
        layout.map(|layout| of(layout).id_kind()).unwrap_or_default()
    };
    let (accounts, own) = (ids(|layout| &layout.accounts), ids(|layout| &layout.transactions));
    let define = |name, rules, indexes| {
        let validator = Some(marked(rules));
        Definition { name, validator, indexes }
    };
    let mut indexes = transaction_indexes();
    if settings.exclusive_keys {
        indexes.push(keyed::index());
    }
    let of_lines = if settings.history { journal::indexes() } else { vec![] };
    let mut all = vec![
        define(ACCOUNTS, validators::accounts(accounts), vec![]),
        define(TRANSACTIONS, validators::transactions(accounts, own), indexes),
        // No validator: whoever reads a line checks it.
        Definition { name: JOURNAL, validator: None, indexes: of_lines },
        Definition { name: ORDER, validator: None, indexes: vec![order::index()] },
        Definition { name: WORKERS, validator: None, indexes: vec![workers::index()] },
        Definition { name: ACTS, validator: None, indexes: acts::indexes() },
        Definition { name: JOBS, validator: None, indexes: jobs::indexes() },
    ];
    if settings.history {
        all.push(Definition { name: SUMS, validator: None, indexes: vec![sums::index()] });
    }
    all
}

/// Whether there is no ledger without this collection. Those of workers and of jobs are for people
/// who look, and that of acts may be there before the others: a note of the first act makes it.
pub(super) fn is_needed(name: &str) -> bool {
    [ACCOUNTS, TRANSACTIONS, JOURNAL, ORDER, SUMS].contains(&name)
}

/// All indexes that this version may have made on a collection, those included that a ledger does
/// without.
pub(super) fn made_by_tandem(collection: &str) -> Vec<Index> {
    match collection {
        TRANSACTIONS => {
            let mut all = transaction_indexes();
            all.push(keyed::index());
            all
        }
        JOURNAL => journal::indexes(),
        SUMS => vec![sums::index()],
        ORDER => vec![order::index()],
        WORKERS => vec![workers::index()],
        ACTS => acts::indexes(),
        JOBS => jobs::indexes(),
        _ => vec![],
    }
}

/// No key and no filter names a field that an end changes. If an update touches a field of any
/// index, MongoDB 6.0 looks at all indexes of the collection for each document, and within a native
/// transaction that is half of its work.
fn transaction_indexes() -> Vec<Index> {
    let exists = |field: &str, condition: Document| doc! { field: condition };
    vec![
        // Sweepers and lists: everything, in an order that never changes.
        Index::new(BY_CREATION, doc! { "createdAt": 1, "_id": 1 }, doc! {}),
        // The sweeper of moments: what is scheduled, held, or expires.
        Index::new(DUE, doc! { DUE_AT: 1 }, exists(DUE_AT, doc! { "$type": "date" })),
        // Sweepers: what they have passed and is not final.
        Index::new(SWEPT, doc! { "sweepAfter": 1 }, exists("sweepAfter", doc! { "$type": "date" })),
        // What was inserted only. In it, entries of one key stand in the order of their insertion.
        Index::new(INSERTED, doc! { UNPUBLISHED: 1 }, exists(UNPUBLISHED, doc! { "$eq": true })),
        // People: what waits for them.
        Index::new(PARKED, doc! { "parked.at": 1 }, exists("parked", doc! { "$exists": true })),
    ]
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
pub(super) fn marked(rules: Document) -> Document {
    let mut whole = doc! { "$comment": mark(&rules) };
    whole.extend(rules);
    whole
}

/// Whether a validator is one that Tandem has written, of whatever version.
pub fn is_marked(validator: &Document) -> bool {
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
    use super::super::ledger_settings::{Choice, Known};
    use super::super::seen_index::SeenIndex;
    use super::super::slowing::changed_by_an_end;
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

    /// Each other byte would be another version to every ledger that is there.
    #[test]
    fn the_validators_of_a_ledger_without_a_schema_are_those_that_ledgers_have() {
        let settings = LedgerSettings::new(Known::THIS, Choice::default());
        let validators = definitions(&settings, None).into_iter().filter_map(|one| one.validator);
        let marks: Vec<Bson> =
            validators.filter_map(|mut rules| rules.remove("$comment")).collect();
        let known = ["tandem 84b45432d9873c6a", "tandem 88f064eeb58322a7"];
        assert_eq!(marks, known.map(Bson::from));
    }

    #[test]
    fn no_index_of_transactions_names_a_field_that_an_end_changes() {
        for index in made_by_tandem(TRANSACTIONS) {
            let seen = SeenIndex::new(index.to_document());
            assert_eq!(changed_by_an_end(&seen), None, "{}", index.name);
        }
        let changed = |key: &Document, filter: &Document| {
            let index = doc! { "key": key, "partialFilterExpression": filter };
            changed_by_an_end(&SeenIndex::new(index))
        };
        for (key, filter) in [
            (doc! { "state": 1 }, doc! {}),
            (doc! { "createdAt": 1 }, doc! { "state": "initial" }),
            (doc! { "a": 1 }, doc! { "$and": [{ "claim": { "$exists": true } }] }),
            (doc! { "lastModified.x": 1 }, doc! {}),
            (doc! { "$**": 1 }, doc! {}),
        ] {
            assert!(changed(&key, &filter).is_some(), "{key} {filter}");
        }
        assert_eq!(changed(&doc! { "reference": 1 }, &doc! { "stated": 1 }), None);
    }
}
