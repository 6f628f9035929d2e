//! One of the two collections of a ledger: its name, its kind of ids, and where its fields stand.
//!
//! Promises that each of Tandem's names has one path, and that no path is the beginning of another:
//! so what is written to one field never touches another.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bson::{RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};

use super::ids::IdKind;
use super::path::Path;
use super::places::Places;
use super::told::in_the_way;
use super::words::Words;

/// What stands where.
#[derive(Clone, Debug, PartialEq)]
pub struct Collection {
    /// Its name in the database.
    pub(crate) name: String,
    /// The paths of the fields that its owner may name.
    pub(crate) fields: BTreeMap<&'static str, Path>,
    /// The path under which all other fields stand.
    pub(crate) rest: Path,
    /// The field that has words of its own.
    pub(crate) spoken: (&'static str, Words),
    /// Where all of these stand.
    pub(crate) places: Places,
    /// What a field means that is not there, where that is not nothing.
    pub(crate) missing: BTreeMap<&'static str, RawBson>,
    /// The field that says of a document that is read whether its fields can be where they are.
    pub(crate) witness: &'static str,
    /// The fields that have ids in them, and the kinds of these. Those of lists are of their
    /// elements' field `account`.
    pub(crate) ids: BTreeMap<&'static str, IdKind>,
}

/// How the value of a field is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    /// As it is.
    Plain,
    /// An id.
    Id(IdKind),
    /// A list of objects, whose field `account` is an id.
    Legs(IdKind),
    /// A word.
    Word(&'a Words),
}

/// The field whose elements have ids.
pub(crate) const LEGS: &str = "legs";

/// Whether an object or nothing is at a path, as the server computes it.
fn is_object(path: &str) -> RawDocumentBuf {
    rawdoc! { "$in": [{ "$type": format!("${path}") }, ["object", "missing"]] }
}

impl Collection {
    /// Its name in the database.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The words that stand for one of Tandem's, in the field that has words of its own.
    #[must_use]
    pub fn words(&self, own: &str) -> Vec<&str> {
        let words = self.spoken.1.read_as(own).unwrap_or_default();
        words.iter().map(String::as_str).collect()
    }

    /// What its ids are.
    #[must_use]
    pub fn id_kind(&self) -> IdKind {
        self.ids.get("_id").copied().unwrap_or_default()
    }

    /// The path under which everything stands that its owner has not named.
    #[must_use]
    pub fn own_path(&self) -> &str {
        self.rest.as_str()
    }

    /// The names of fields that stand directly under that path and that its owner has named.
    pub fn named_within(&self) -> impl Iterator<Item = &'static str> {
        let is_within = |name: &str, path: &Path| *path.as_str() == *self.rest.join(name);
        let within = self.fields.iter().filter(move |(name, path)| is_within(name, path));
        within.map(|(name, _)| *name)
    }

    /// Where a field stands. The name may go on behind a dot.
    #[must_use]
    pub fn path(&self, name: &str) -> Cow<'_, str> {
        let (head, tail) = match name.split_once('.') {
            Some((head, tail)) => (head, Some(tail)),
            None => (name, None),
        };
        let path = match self.fields.get(head) {
            Some(path) => Cow::Borrowed(path.as_str()),
            None => Cow::Owned(self.rest.join(head)),
        };
        match tail {
            Some(tail) => Cow::Owned(format!("{path}.{tail}")),
            None => path,
        }
    }

    /// The name of the field that stands at a path, or within a field; none where there is no field
    /// of Tandem's.
    #[must_use]
    pub fn name_of<'a>(&self, path: &'a str) -> Option<Cow<'a, str>> {
        for (name, own) in &self.fields {
            match path.strip_prefix(own.as_str()) {
                Some("") => return Some(Cow::Borrowed(name)),
                Some(tail) if tail.starts_with('.') => {
                    return Some(Cow::Owned(format!("{name}{tail}")));
                }
                Some(_) | None => {}
            }
        }
        let rest = path.strip_prefix(self.rest.as_str())?.strip_prefix('.')?;
        let head = rest.split('.').next().unwrap_or_default();
        (!self.fields.contains_key(head)).then_some(Cow::Borrowed(rest))
    }

    pub(crate) fn value(&self, name: &str) -> Value<'_> {
        let (field, words) = &self.spoken;
        match self.ids.get(name) {
            _ if *field == name => Value::Word(words),
            Some(kind) if name == LEGS => Value::Legs(*kind),
            Some(kind) => Value::Id(*kind),
            None => Value::Plain,
        }
    }

    /// What is said of the first of the things on the way to fields that is no object, as the server
    /// computes it; null where all of them are, or are not there.
    pub(crate) fn in_the_way(&self) -> RawBson {
        let branch = |path: &str| {
            rawdoc! { "case": { "$not": [is_object(path)] }, "then": in_the_way(path) }
        };
        let branches: RawArrayBuf = self.parents().into_iter().map(branch).collect();
        rawdoc! { "$switch": { "branches": branches, "default": RawBson::Null } }.into()
    }

    /// Whether it is the collection of transactions.
    pub(crate) fn is_of_transactions(&self) -> bool {
        self.spoken.0 == "state"
    }

    /// Whether there are objects, or nothing, on the way to all fields, as the server computes it.
    pub(crate) fn objects(&self) -> RawDocumentBuf {
        let all: RawArrayBuf = self.parents().into_iter().map(is_object).collect();
        rawdoc! { "$and": all }
    }

    /// What has to be an object, or not there, for all fields to be where they are, the shortest
    /// paths first.
    #[must_use]
    pub fn parents(&self) -> Vec<&str> {
        let named = self.fields.values().flat_map(Path::parents);
        let mut parents: Vec<&str> =
            named.chain(self.rest.parents()).chain([self.rest.as_str()]).collect();
        parents.sort_unstable_by_key(|path| (path.matches('.').count(), *path));
        parents.dedup();
        parents
    }

    /// Whether no path leads through another one.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut paths: Vec<(&str, &Path)> =
            self.fields.iter().map(|(name, path)| (*name, path)).collect();
        for (at, (name, path)) in paths.iter().enumerate() {
            if let Some((other, _)) = paths[at + 1..].iter().find(|(_, p)| p == path) {
                return Err(format!("{name} and {other} are both at {path}"));
            }
        }
        paths.sort_by_key(|(_, path)| *path);
        for (name, path) in &paths {
            let through = |(other, p): &&(&str, &Path)| other != name && path.begins(p);
            if let Some((other, longer)) = paths.iter().find(through) {
                return Err(format!("{other} is at {longer}, which leads through {name} ({path})"));
            }
            if path.begins(&self.rest) {
                return Err(format!(
                    "{name} is at {path}, under which Tandem's own fields stand; give it a path of \
                     its own, or {}",
                    self.rest.join(name)
                ));
            }
            let own = path.as_str().strip_prefix(self.rest.as_str());
            let own = own.and_then(|own| own.strip_prefix('.'));
            if own.is_some_and(|own| own != *name) {
                let expected = self.rest.join(name);
                return Err(format!("{name} is at {path}; under {} it is {expected}", self.rest));
            }
        }
        Ok(())
    }
}
