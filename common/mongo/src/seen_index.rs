//! An index as the server lists it.
//!
//! Owns reading its definition. Promises an answer whatever an option holds: an index that the
//! driver's own type could not be read from would otherwise hide all others. Pure.

use mongodb::bson::{Bson, Document};

/// An index that is there, whoever has made it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenIndex {
    /// As it would be on documents as Tandem makes them.
    pub(super) own: Document,
    /// As the server lists it, if that is otherwise.
    listed: Option<Document>,
}

impl SeenIndex {
    /// One of documents as Tandem makes them.
    pub(super) fn new(own: Document) -> SeenIndex {
        SeenIndex { own, listed: None }
    }

    /// One that the server lists so, and that would be `own` on documents as Tandem makes them.
    pub(super) fn laid_out(own: Document, listed: Document) -> SeenIndex {
        SeenIndex { own, listed: Some(listed) }
    }

    /// The same with the paths of documents as they are stored.
    pub(super) fn as_listed(&self) -> SeenIndex {
        SeenIndex::new(self.listed.as_ref().unwrap_or(&self.own).clone())
    }

    /// Its name; empty if it has none, as on no server known.
    pub(super) fn name(&self) -> &str {
        self.own.get_str("name").unwrap_or_default()
    }

    /// Its fields, each with its direction or kind.
    pub(super) fn key(&self) -> Document {
        self.own.get_document("key").cloned().unwrap_or_default()
    }

    /// Which documents it has; empty for all.
    pub(super) fn filter(&self) -> Document {
        self.own.get_document("partialFilterExpression").cloned().unwrap_or_default()
    }

    /// What a wildcard has of a document, as it was written; empty for everything.
    pub(super) fn projection(&self) -> Document {
        self.own.get_document("wildcardProjection").cloned().unwrap_or_default()
    }

    /// Whether an option is set.
    pub(super) fn is(&self, option: &str) -> bool {
        !matches!(self.own.get(option), None | Some(Bson::Boolean(false) | Bson::Null))
    }

    /// Whether it keeps the ids of a collection unique, and serves queries for several ids. A
    /// partial one is not used for `$in`, nor is one with a collation.
    pub(super) fn keeps_ids_unique(&self) -> bool {
        let key = self.key();
        let is_of_ids =
            key.len() == 1 && key.get("_id").is_some_and(|kind| kind.as_str().is_none());
        let is_narrow = ["partialFilterExpression", "collation", "hidden"];
        is_of_ids && self.is("unique") && !is_narrow.iter().any(|option| self.is(option))
    }

    /// After how many seconds the server removes its documents, as it was written.
    pub(super) fn expire_after(&self) -> Option<&Bson> {
        self.own.get("expireAfterSeconds")
    }

    /// The same as a whole number, if it is one.
    pub(super) fn expire_after_s(&self) -> Option<i64> {
        match self.expire_after()? {
            Bson::Int32(seconds) => Some((*seconds).into()),
            Bson::Int64(seconds) => Some(*seconds),
            // Some shells write 60 as a double.
            Bson::Double(seconds) if seconds.fract() == 0.0 => Some(*seconds as i64),
            _ => None,
        }
    }

    /// The version of its format: 2 since MongoDB 3.4.
    pub(super) fn version(&self) -> i64 {
        let version = self.own.get("v");
        let whole =
            version.and_then(Bson::as_i32).map(i64::from).or(version.and_then(Bson::as_i64));
        whole.or(version.and_then(Bson::as_f64).map(|version| version as i64)).unwrap_or(2)
    }

    /// The fields that an index of texts has.
    pub(super) fn weights(&self) -> Vec<String> {
        let weights = self.own.get_document("weights");
        weights.map_or_else(|_| Vec::new(), |weights| weights.keys().cloned().collect())
    }
}
