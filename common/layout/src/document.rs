//! Documents: as Tandem reads them, and as its owner stores them.
//!
//! Promises that a document that is read is one that Tandem could have made, or is refused for a
//! reason that its owner understands; and that what is stored is read again as it was. Works on
//! bytes, so that no other field of a foreign document can disturb the reading.

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::collection::{Collection, Value};
use super::ids::IdKind;
use super::places::{Place, Places};
use super::told::in_the_way;
use super::tree::{Branch, Tree};
use super::{Raw, cstr, with_room};

impl Collection {
    /// A stored document as Tandem reads it. A field that stands twice stands twice. Whatever is
    /// none of Tandem's fields is left out.
    ///
    /// # Errors
    /// When the bytes on the way to a field are no BSON.
    pub fn read(&self, stored: &RawDocument) -> Raw<RawDocumentBuf> {
        let (mut own, mut in_way) = (with_room(stored.as_bytes().len()), None);
        self.read_within(&self.places, stored, &mut own, &mut in_way)?;
        if let Some(path) = in_way {
            // Whoever reads takes the first of two.
            let read = std::mem::take(&mut own);
            own.append(cstr(self.witness), in_the_way(path));
            for element in read.iter_elements() {
                let element = element?;
                own.append(element.key(), element.value()?);
            }
        }
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

    /// Reads the fields within an object, and what else than an object is on the way to others.
    fn read_within<'a>(
        &'a self,
        places: &'a Places,
        object: &RawDocument,
        own: &mut RawDocumentBuf,
        in_way: &mut Option<&'a str>,
    ) -> Raw<()> {
        for element in object.iter_elements() {
            let element = element?;
            let Some(place) = places.get(element.key().as_str()) else { continue };
            match (place, element.value()?) {
                (Place::Field(name), value) => {
                    self.read_value(own, name, value)?;
                }
                (Place::Object(_, inner), RawBsonRef::Document(object)) => {
                    self.read_within(inner, object, own, in_way)?;
                }
                (Place::Own(_), RawBsonRef::Document(object)) => self.read_own(object, own)?,
                (Place::Object(path, _) | Place::Own(path), _) => {
                    in_way.get_or_insert(path);
                }
            }
        }
        Ok(())
    }

    /// Reads the fields that stand under Tandem's own path.
    fn read_own(&self, object: &RawDocument, own: &mut RawDocumentBuf) -> Raw<()> {
        for element in object.iter_elements() {
            let element = element?;
            let name = element.key().as_str();
            if self.fields.get(name).is_none_or(|path| self.rest.begins(path)) {
                self.read_value(own, name, element.value()?)?;
            }
        }
        Ok(())
    }

    fn read_value(&self, own: &mut RawDocumentBuf, name: &str, value: RawBsonRef<'_>) -> Raw<()> {
        let name_of = cstr(name);
        match (self.value(name), value) {
            (Value::Id(IdKind::Text), RawBsonRef::String(_)) => own.append(name_of, value),
            (Value::Id(kind), value) => own.append(name_of, read_id(kind, value)),
            (Value::Legs(kind), RawBsonRef::Array(legs)) => {
                own.append(name_of, each_account(legs, |account| read_id(kind, account))?);
            }
            (Value::Word(words), RawBsonRef::String(word)) => match words.own(word) {
                Some(word) => own.append(name_of, word),
                None => own.append(name_of, words.unknown(word)),
            },
            (_, value) => own.append(name_of, value),
        }
        Ok(())
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
        let mut one = with_room(leg.as_bytes().len());
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
