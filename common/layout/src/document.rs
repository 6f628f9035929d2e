//! Documents: as Tandem reads them, and as its owner stores them.
//!
//! Promises that a document that is read is one that Tandem could have made, or is refused for a
//! reason that its owner understands; and that what is stored is read again as it was. Works on
//! bytes, so that no other field of a foreign document can disturb the reading.

use bson::raw::RawElement;
use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::collection::{Collection, Value, in_the_way};
use super::ids::IdKind;
use super::tree::{Branch, Tree};
use super::{Raw, cstr};

impl Collection {
    /// A stored document as Tandem reads it. A field that stands twice stands twice. Whatever is
    /// none of Tandem's fields is left out.
    ///
    /// # Errors
    /// When the bytes on the way to a field are no BSON.
    pub fn read(&self, stored: &RawDocument) -> Raw<RawDocumentBuf> {
        let mut own = RawDocumentBuf::new();
        if let Some(path) = self.first_in_the_way(stored) {
            own.append(cstr(self.witness), in_the_way(path));
        }
        for (name, path) in &self.fields {
            let parts: Vec<&str> = path.parts().collect();
            self.each_at(stored, &parts, &mut |value| {
                own.append(cstr(name), self.read_value(name, value)?);
                Ok(())
            })?;
        }
        let parts: Vec<&str> = self.rest.parts().collect();
        self.each_at(stored, &parts, &mut |value| {
            let RawBsonRef::Document(rest) = value else { return Ok(()) };
            for element in rest.iter_elements() {
                let element = element?;
                let name = element.key().as_str();
                if !self.fields.contains_key(name) {
                    own.append(element.key(), self.read_value(name, element.value()?)?);
                }
            }
            Ok(())
        })?;
        for (name, value) in &self.missing {
            if own.get(name)?.is_none() {
                own.append(cstr(name), value.clone());
            }
        }
        Ok(own)
    }

    /// The fields that a change has set, as Tandem reads them: those that the server names in
    /// `updatedFields`, each by its path, or by that of an object that is new.
    ///
    /// # Errors
    /// When the bytes are no BSON.
    pub fn updated(&self, fields: &RawDocument) -> Raw<RawDocumentBuf> {
        let mut tree = Tree::default();
        for element in fields.iter_elements() {
            let element = element?;
            // What is none of Tandem's may be a number in a list, or anything.
            let path = element.key().as_str();
            if self.is_on_the_way(path) || self.name_of(path).is_some() {
                tree.grow(path, element.value()?.into());
            }
        }
        self.read(&built(&tree))
    }

    fn is_on_the_way(&self, path: &str) -> bool {
        self.parents().contains(&path)
    }

    /// What is at a path: each of them where a name stands twice.
    fn each_at<'a>(
        &self,
        document: &'a RawDocument,
        path: &[&str],
        found: &mut impl FnMut(RawBsonRef<'_>) -> Raw<()>,
    ) -> Raw<()> {
        let [name, rest @ ..] = path else { return Ok(()) };
        for element in document.iter_elements() {
            let element: RawElement<'a> = element?;
            if element.key().as_str() != *name {
                continue;
            }
            match (rest, element.value()?) {
                ([], value) => found(value)?,
                (rest, RawBsonRef::Document(inner)) => self.each_at(inner, rest, found)?,
                // Nothing can be there, and the witness says so.
                (_, _) => {}
            }
        }
        Ok(())
    }

    fn read_value(&self, name: &str, value: RawBsonRef<'_>) -> Raw<RawBson> {
        Ok(match (self.value(name), value) {
            (Value::Id(kind), value) => read_id(kind, value),
            (Value::Legs(kind), RawBsonRef::Array(legs)) => {
                each_account(legs, |account| read_id(kind, account))?.into()
            }
            (Value::Word(words), RawBsonRef::String(word)) => match words.own(word) {
                Some(own) => own.into(),
                None => words.unknown(word),
            },
            (_, value) => value.into(),
        })
    }

    /// The first of the paths on the way to fields at which something else than an object stands.
    fn first_in_the_way(&self, stored: &RawDocument) -> Option<&str> {
        self.parents().into_iter().find(|path| {
            let parts: Vec<&str> = path.split('.').collect();
            let mut all = true;
            let walked = self.each_at(stored, &parts, &mut |value| {
                all &= matches!(value, RawBsonRef::Document(_));
                Ok(())
            });
            !all || walked.is_err()
        })
    }

    /// A document of Tandem's as it is stored.
    ///
    /// # Errors
    /// When the bytes are no BSON.
    pub fn store(&self, own: &RawDocument) -> Raw<RawDocumentBuf> {
        let mut tree = Tree::default();
        for element in own.iter_elements() {
            let element = element?;
            let (name, value) = (element.key().as_str(), element.value()?);
            let value = match (self.value(name), value) {
                (Value::Legs(kind), RawBsonRef::Array(legs)) => {
                    let stored = |account: RawBsonRef<'_>| match account {
                        RawBsonRef::String(text) => kind.stored(text),
                        other => other.into(),
                    };
                    each_account(legs, stored)?.into()
                }
                (_, value) => self.plain(name, value),
            };
            tree.grow(&self.path(name), value);
        }
        Ok(built(&tree))
    }
}

/// An id as text. One of another kind is no id, and so nothing.
fn read_id(kind: IdKind, value: RawBsonRef<'_>) -> RawBson {
    kind.text(value).map_or(RawBson::Null, RawBson::String)
}

/// A list of objects with each `account` changed.
fn each_account(legs: &RawArray, changed: impl Fn(RawBsonRef<'_>) -> RawBson) -> Raw<RawArrayBuf> {
    let mut all = RawArrayBuf::new();
    for leg in legs {
        let RawBsonRef::Document(leg) = leg? else {
            all.push(RawBson::Null);
            continue;
        };
        let mut one = RawDocumentBuf::new();
        for element in leg.iter_elements() {
            let element = element?;
            match element.key().as_str() {
                "account" => one.append(element.key(), changed(element.value()?)),
                _ => one.append(element.key(), element.value()?),
            }
        }
        all.push(one);
    }
    Ok(all)
}

fn built(tree: &Tree) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    for branch in tree.branches() {
        match branch {
            Branch::Value(name, value) => document.append(cstr(name), value.clone()),
            Branch::Object(name, inner) => document.append(cstr(name), built(inner)),
        }
    }
    document
}
