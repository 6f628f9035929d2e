//! The user's own indexes that make each end of a transaction dearer.
//!
//! Owns the fields that postings and ends change, and telling whether the server looks at an index
//! when one of them changes. If an update touches a path of any index, the server looks at all
//! indexes of the collection; within a native transaction on MongoDB 6.0 that is half of its work.
//! Tandem's own indexes have none of these paths. Judges paths as they are stored: an index may be
//! of an object in which a field stands, of something within the field, or a wildcard. Pure: such
//! an index harms nothing else, so it is told and nothing is refused.

use layout::{Collection, is_within};
use mongodb::bson::{Bson, Document};

use super::catalogue::Catalogue;
use super::definitions::made_by_tandem;
use super::names::{ACCOUNTS, TRANSACTIONS};
use super::seen_index::SeenIndex;

/// What the end of a transaction changes, or a step on the way to it.
const CHANGED: [&str; 10] = [
    "state",
    "lastModified",
    "application",
    "attempts",
    "takeoverAt",
    "claim",
    "leaseUntil",
    "claimedAt",
    "decidedAt",
    "line",
];

/// What a posting changes in an account. The opening is written once, so it costs nothing later.
const POSTED: [&str; 5] =
    ["balance", "pendingTransactions", "pendingDebits", "pendingCredits", "pendingHolds"];

/// How a wildcard ends.
const WILDCARD: &str = "$**";

/// An index of the user's own that the server looks at when a posting or an end changes a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slowing {
    /// Its name.
    pub index: String,
    /// The collection, by its name in the database.
    pub collection: String,
    /// The field, by its path there.
    pub field: String,
    /// Whether it is in the collection of accounts.
    pub of_accounts: bool,
    /// Whether it is a wildcard that names what it leaves out. The server looks at it whatever
    /// changes.
    pub excludes: bool,
}

impl std::fmt::Display for Slowing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Slowing { index, collection, field, of_accounts, excludes } = self;
        let (who, cost) = match of_accounts {
            true => ("each posting", "each of them then costs the database more"),
            false => (
                "the end of each transaction",
                "on MongoDB 6.0 that costs up to half as much again of the database's work",
            ),
        };
        let remedy = match excludes {
            true => {
                "name in its wildcardProjection the fields that it is for instead of those that it \
                 leaves out, or drop it"
            }
            false => "drop it if nothing of yours needs it",
        };
        write!(
            f,
            "the database looks at the index `{index}` of `{collection}` when `{field}` changes, as \
             {who} does: {cost}; {remedy}"
        )
    }
}

/// The indexes of the user's own that make postings or ends dearer.
pub(super) fn slowing(seen: &Catalogue) -> Vec<Slowing> {
    let of = |(name, changed): (&'static str, &'static [&'static str])| {
        let there = seen.collections.get(name).map_or(&[][..], |(_, indexes)| indexes);
        let (ours, stored) = (made_by_tandem(name), seen.stored(name));
        let is_theirs =
            move |there: &&SeenIndex| !ours.iter().any(|index| index.is_served_by(there));
        there.iter().filter(is_theirs).filter_map(move |index| {
            let watched = Watched::of(&index.as_listed());
            Some(Slowing {
                field: watched.first_of(changed, stored)?,
                index: index.name().to_owned(),
                collection: seen.stored_name(name),
                of_accounts: name == ACCOUNTS,
                excludes: watched == Watched::All { excludes: true },
            })
        })
    };
    [(TRANSACTIONS, &CHANGED[..]), (ACCOUNTS, &POSTED[..])].into_iter().flat_map(of).collect()
}

/// The paths at whose changes the server looks at an index.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Watched {
    /// All there are.
    All {
        /// Whether some are left out of the index. The server asks the new document all the same:
        /// it does not list what is left.
        excludes: bool,
    },
    /// These, what is within them, and what they are within.
    Paths(Vec<String>),
}

impl Watched {
    /// Those of an index as the server lists it.
    fn of(index: &SeenIndex) -> Watched {
        let mut paths = fields_of(&index.filter());
        for field in index.key().keys().chain(&index.weights()) {
            match field.strip_suffix(WILDCARD) {
                None => paths.push(field.clone()),
                Some("") => match included(&index.projection()) {
                    Included::All => return Watched::All { excludes: false },
                    Included::AllBut => return Watched::All { excludes: true },
                    Included::Only(only) => paths.extend(only),
                },
                Some(object) => paths.push(object.trim_end_matches('.').to_owned()),
            }
        }
        Watched::Paths(paths)
    }

    /// The first of Tandem's fields that is among them, by its path.
    fn first_of(&self, fields: &[&str], stored: Option<&Collection>) -> Option<String> {
        let stored_path = |field: &&str| match stored {
            Some(stored) => stored.path(field).into_owned(),
            None => (*field).to_owned(),
        };
        fields.iter().map(stored_path).find(|field| match self {
            Watched::All { .. } => true,
            Watched::Paths(paths) => {
                paths.iter().any(|path| is_within(path, field) || is_within(field, path))
            }
        })
    }
}

/// The fields that a filter names, those within `$and` and `$or` included.
fn fields_of(filter: &Document) -> Vec<String> {
    let clauses = |value: &Bson| -> Vec<String> {
        let clauses = value.as_array().into_iter().flatten();
        clauses.filter_map(Bson::as_document).flat_map(fields_of).collect()
    };
    let named = filter.iter().flat_map(|(name, value)| match name.starts_with('$') {
        true => clauses(value),
        false => vec![name.clone()],
    });
    named.collect()
}

/// What a wildcard has of a document.
enum Included {
    All,
    AllBut,
    Only(Vec<String>),
}

/// What a projection leaves a wildcard. Either it names what stays or what goes; only the `_id` may
/// be named otherwise than the rest.
fn included(projection: &Document) -> Included {
    let named = leaves("", projection);
    let is_id = |path: &&(String, bool)| path.0 == "_id";
    let rule = named.iter().find(|path| !is_id(path)).or(named.first());
    match rule {
        None => Included::All,
        Some((_, false)) => Included::AllBut,
        Some((_, true)) => {
            let only = named.iter().filter(|(_, stays)| *stays);
            Included::Only(only.map(|(path, _)| path.clone()).collect())
        }
    }
}

/// The paths that a projection names, and whether they stay. It may be of objects in objects.
fn leaves(object: &str, projection: &Document) -> Vec<(String, bool)> {
    let named = projection.iter().flat_map(|(name, rule)| {
        let path = format!("{object}{name}");
        match rule {
            Bson::Document(inner) => leaves(&format!("{path}."), inner),
            Bson::Boolean(stays) => vec![(path, *stays)],
            Bson::Int32(number) => vec![(path, *number != 0)],
            Bson::Int64(number) => vec![(path, *number != 0)],
            Bson::Double(number) => vec![(path, *number != 0.0)],
            _ => vec![(path, true)],
        }
    });
    named.collect()
}

/// The first field that the end of a transaction changes and at whose change the server looks at an
/// index of transactions as Tandem makes them.
#[cfg(test)]
pub(super) fn changed_by_an_end(index: &SeenIndex) -> Option<String> {
    Watched::of(index).first_of(&CHANGED, None)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn a_wildcard_is_of_what_its_projection_leaves_and_an_exclusion_is_of_everything() {
        let first = |index: Document| {
            let watched = Watched::of(&SeenIndex::new(index));
            watched.first_of(&["how.far", "tandem.claim"], None)
        };
        let of = |key: Document| first(doc! { "key": key });
        let with = |projection: Document| {
            let key = doc! { "x": 1, "$**": 1 };
            first(doc! { "key": key, "wildcardProjection": projection })
        };
        let (far, claim) = (Some("how.far".to_owned()), Some("tandem.claim".to_owned()));
        for (key, field) in [
            (doc! { "$**": 1 }, &far),
            (doc! { "tandem.$**": 1 }, &claim),
            (doc! { "how.far.$**": 1 }, &far),
            (doc! { "how.much.$**": 1 }, &None),
            (doc! { "howe.$**": 1 }, &None),
            (doc! { "x": 1, "how.$**": 1 }, &far),
            (doc! { "how": 1 }, &far),
            (doc! { "how.far.x": 1 }, &far),
            (doc! { "how.fa": 1 }, &None),
            (doc! { "claim": 1 }, &None),
        ] {
            assert_eq!(of(key.clone()), *field, "{key}");
        }
        for (projection, field) in [
            (doc! { "how.much": 1, "metadata": true }, &None),
            (doc! { "how": 1, "_id": 0 }, &far),
            (doc! { "tandem": { "claim": 1.0 } }, &claim),
            (doc! { "tandem": { "note": 1 }, "_id": false }, &None),
            (doc! { "_id": 1 }, &None),
            (doc! { "_id": 0 }, &far),
            (doc! { "how": 0, "tandem": 0, "_id": 1 }, &far),
        ] {
            assert_eq!(with(projection.clone()), *field, "{projection}");
        }
        let text = doc! { "key": { "_fts": "text", "_ftsx": 1 }, "weights": { "how.far": 1 } };
        assert_eq!(first(text), far);
        let filter = doc! { "$or": [{ "a": 1 }, { "tandem.claim": { "$exists": true } }] };
        assert_eq!(first(doc! { "key": { "x": 1 }, "partialFilterExpression": filter }), claim);
    }
}
