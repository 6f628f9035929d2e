//! An index that Tandem makes, and whether one that is there serves in its place.

use mongodb::bson::{Bson, Document, doc};

use super::seen_index::SeenIndex;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_serves_under_its_name_only_and_with_the_same_definition() {
        let index = &Index::new("waiting", doc! { "createdAt": 1 }, doc! { "state": "initial" });
        fn set(there: &mut Document, option: &str, value: impl Into<Bson>) {
            there.insert(option, value.into());
        }
        let there = |change: fn(&mut Document)| {
            let mut there = index.to_document();
            change(&mut there);
            let there = SeenIndex::new(there);
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
