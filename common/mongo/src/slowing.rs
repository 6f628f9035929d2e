//! The user's own indexes that make each end of a transaction dearer.
//!
//! Owns the fields of a transaction that its end changes, and telling whether an index names one of
//! them. If an update touches a field of any index, the server looks at all indexes of the
//! collection; within a native transaction on MongoDB 6.0 that is half of its work. Tandem's own
//! indexes name none of these fields. Pure: such an index harms nothing else, so it is told and
//! nothing is refused.

use mongodb::bson::{Bson, Document};

use super::catalogue::Catalogue;
use super::definitions::made_by_tandem;
use super::names::TRANSACTIONS;

/// What the end of a transaction changes, or a step on the way to it.
const CHANGED: [&str; 7] =
    ["state", "lastModified", "application", "attempts", "takeoverAt", "claim", "leaseUntil"];

/// An index of the user's own that names a field that an end changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slowing {
    /// Its name.
    pub index: String,
    /// The collection, by its name in the database.
    pub collection: String,
    /// The field, by its path there.
    pub field: String,
}

impl std::fmt::Display for Slowing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Slowing { index, collection, field } = self;
        write!(
            f,
            "the index `{index}` of `{collection}` names `{field}`, which the end of each \
             transaction changes: on MongoDB 6.0 that costs up to half as much again of the \
             database's work; drop it if nothing of yours needs it"
        )
    }
}

/// The indexes of the user's own on transactions that make ends dearer.
pub(super) fn slowing(seen: &Catalogue) -> Vec<Slowing> {
    let there = seen.collections.get(TRANSACTIONS).map_or(&[][..], |(_, indexes)| indexes);
    let ours = made_by_tandem(TRANSACTIONS);
    let theirs = there.iter().filter(|there| !ours.iter().any(|index| index.is_served_by(there)));
    let slowing = theirs.filter_map(|index| {
        let field = changed_by_an_end(&index.key(), &index.filter())?;
        let path = seen.stored(TRANSACTIONS).map(|stored| stored.path(&field).into_owned());
        let (index, collection) = (index.name().to_owned(), seen.stored_name(TRANSACTIONS));
        Some(Slowing { index, collection, field: path.unwrap_or(field) })
    });
    slowing.collect()
}

/// The first field in an index's key or filter that an end changes. A wildcard has all of them.
pub(super) fn changed_by_an_end(key: &Document, filter: &Document) -> Option<String> {
    let named = key.keys().cloned().chain(fields_of(filter));
    named.into_iter().find(|field| {
        let first = field.split('.').next().unwrap_or_default();
        first == "$**" || CHANGED.contains(&first)
    })
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
