//! Where a ledger has its fields in documents: as a schema says, or as Tandem makes them.
//!
//! Owns nothing beyond that choice. Promises that both are asked in the same way. Pure.

use std::borrow::Cow;

use layout::{Collection, EACH_FIELD_ONCE, IdKind};
use ledger::transaction::State;
use mongodb::bson::error::Error;
use mongodb::bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

/// The name that a look gives to the size of a document.
pub(super) const BYTES: &str = "tandemBytes";

/// How the documents of one collection are laid out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape<'a>(Option<&'a Collection>);

impl<'a> Shape<'a> {
    /// That of a collection of a schema, or none for documents as Tandem makes them.
    #[must_use]
    pub fn new(stored: Option<&'a Collection>) -> Shape<'a> {
        Shape(stored)
    }

    /// The path of one of Tandem's fields.
    #[must_use]
    pub fn path(self, name: &str) -> String {
        self.0.map_or_else(|| name.to_owned(), |stored| stored.path(name).into_owned())
    }

    /// The path under which everything of Tandem's stands that the owner has not named; empty for
    /// documents as Tandem makes them.
    pub(super) fn own_path(self) -> &'a str {
        self.0.map(Collection::own_path).unwrap_or_default()
    }

    /// What the owner has named under that path.
    pub(super) fn named_within(self) -> Vec<&'static str> {
        self.0.map(|stored| stored.named_within().collect()).unwrap_or_default()
    }

    pub(super) fn id_kind(self) -> IdKind {
        self.0.map(Collection::id_kind).unwrap_or_default()
    }

    /// What has to be an object, or not there, the shortest paths first.
    pub(super) fn parents(self) -> Vec<&'a str> {
        self.0.map(Collection::parents).unwrap_or_default()
    }

    /// A stored document as Tandem reads it.
    pub(super) fn read(self, found: &RawDocument) -> Result<Cow<'_, RawDocument>, Error> {
        match self.0 {
            None => Ok(Cow::Borrowed(found)),
            Some(stored) => stored.read(found).map(Cow::Owned),
        }
    }

    /// A problem in the owner's words.
    pub(super) fn told(self, problem: String) -> String {
        self.0.map_or(problem.clone(), |stored| stored.told(&problem))
    }

    /// The words that are read as one of these states.
    pub(super) fn words(self, states: &[State]) -> Vec<&'a str> {
        match self.0 {
            None => states.iter().map(|state| state.as_str()).collect(),
            Some(stored) => states.iter().flat_map(|state| stored.words(state.as_str())).collect(),
        }
    }

    /// What is read of a document: the fields with these names.
    pub(super) fn plain_projection<'n>(
        self,
        names: impl Iterator<Item = &'n str>,
    ) -> RawDocumentBuf {
        let mut tops: Vec<String> = vec!["_id".to_owned()];
        for name in names {
            // What stands on the way to a field shows why the field is not there.
            let path = self.path(name);
            let top = path.split('.').next().unwrap_or_default().to_owned();
            if !tops.contains(&top) {
                tops.push(top);
            }
        }
        let mut projection = RawDocumentBuf::new();
        for top in &tops {
            projection.append(cstr(top), 1);
        }
        projection
    }

    /// What is read of a document: the fields with these names, its size, and whether no field
    /// stands twice, which is not asked of documents whose state is one of `ended`.
    pub(super) fn projection<'n>(
        self,
        names: impl Iterator<Item = &'n str>,
        ended: &[State],
    ) -> RawDocumentBuf {
        let mut projection = self.plain_projection(names);
        projection.append(cstr(BYTES), rawdoc! { "$bsonSize": "$$ROOT" });
        let once = layout::each_once(&self.parents());
        let once = match ended {
            [] => once,
            ended => {
                let words: mongodb::bson::RawArrayBuf = self.words(ended).into_iter().collect();
                let state = format!("${}", self.path("state"));
                rawdoc! { "$or": [{ "$in": [state, { "$literal": words }] }, once] }
            }
        };
        projection.append(cstr(EACH_FIELD_ONCE), once);
        projection
    }
}

/// What stands at a path of a document; none also where something that is no object stands on the
/// way.
pub(super) fn at<'a>(document: &'a RawDocument, path: &str) -> Option<RawBsonRef<'a>> {
    let mut object = document;
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        let value = object.get(part).ok().flatten()?;
        match (value, parts.peek()) {
            (value, None) => return Some(value),
            (RawBsonRef::Document(inner), Some(_)) => object = inner,
            (_, Some(_)) => return None,
        }
    }
    None
}

/// The same, where null counts as nothing.
pub(super) fn present<'a>(document: &'a RawDocument, path: &str) -> Option<RawBsonRef<'a>> {
    at(document, path).filter(|value| !matches!(value, RawBsonRef::Null))
}

pub(super) fn cstr(name: &str) -> &mongodb::bson::raw::CStr {
    name.try_into().expect("no name of a field has a zero byte")
}
