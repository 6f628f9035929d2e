//! Filters: which documents a statement is for.
//!
//! Promises that the filter it makes matches a document as its owner stores it exactly where the
//! given one matches the same document as Tandem reads it, save that a parent that is no object
//! counts as nothing (see `super::update`).

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use super::collection::{Collection, LEGS, Value};
use super::ids::IdKind;
use super::words::Words;
use super::{Raw, cstr, with_room};

impl Collection {
    /// The filter for documents as they are stored.
    ///
    /// # Errors
    /// When the bytes are no BSON.
    pub fn filter(&self, filter: &RawDocument) -> Raw<RawDocumentBuf> {
        let mut stored = with_room(filter.as_bytes().len());
        for element in filter.iter_elements() {
            let element = element?;
            let (name, value) = (element.key().as_str(), element.value()?);
            match (name, value) {
                ("$or" | "$and" | "$nor", RawBsonRef::Array(filters)) => {
                    stored.append(cstr(name), self.filters(filters)?);
                }
                ("$expr", value) => stored.append(cstr(name), self.expression(value)?),
                _ if name.starts_with('$') => stored.append(cstr(name), value),
                _ => {
                    let condition = condition(self.value_at(name), value)?;
                    stored.append(cstr(&self.path(name)), condition);
                }
            }
        }
        Ok(stored)
    }

    fn filters(&self, filters: &RawArray) -> Raw<RawArrayBuf> {
        let mut stored = RawArrayBuf::new();
        for filter in filters {
            match filter? {
                RawBsonRef::Document(filter) => stored.push(self.filter(filter)?),
                other => stored.push(other),
            }
        }
        Ok(stored)
    }

    /// How a value is stored whose name may go on behind a dot.
    pub(crate) fn value_at(&self, name: &str) -> Value<'_> {
        match name.split_once('.') {
            None => self.value(name),
            Some((LEGS, tail)) if tail == "account" || tail.ends_with(".account") => {
                match self.value(LEGS) {
                    Value::Legs(kind) => Value::Id(kind),
                    other => other,
                }
            }
            Some(_) => Value::Plain,
        }
    }
}

/// What a field has to be.
fn condition(kind: Value<'_>, value: RawBsonRef<'_>) -> Raw<RawBson> {
    let RawBsonRef::Document(operators) = value else { return Ok(equal(kind, value)) };
    let is_operator = |name: &str| name.starts_with('$');
    let first = operators.iter_elements().next().transpose()?;
    if !first.is_some_and(|first| is_operator(first.key().as_str())) {
        return Ok(value.into());
    }
    let mut stored = with_room(operators.as_bytes().len());
    for element in operators.iter_elements() {
        let element = element?;
        let (name, value) = (element.key().as_str(), element.value()?);
        match (name, kind, value) {
            ("$not", _, value) => stored.append(cstr(name), condition(kind, value)?),
            ("$eq" | "$in", Value::Word(words), value) => {
                stored.append(cstr("$in"), read_as(words, value)?);
            }
            ("$ne" | "$nin", Value::Word(words), value) => {
                stored.append(cstr("$nin"), read_as(words, value)?);
            }
            ("$type", Value::Id(kind), RawBsonRef::String("string")) => {
                let types: RawArrayBuf = kind.types().iter().copied().collect();
                stored.append(cstr(name), types);
            }
            // All ids of the kind: a list begins so, and an empty text is below all of them.
            ("$gt" | "$gte", Value::Id(kind), RawBsonRef::String("")) if kind != IdKind::Text => {
                let types: RawArrayBuf = kind.types().iter().copied().collect();
                stored.append(cstr("$type"), types);
            }
            // The least text above that of an id, where a list goes on in its other direction.
            ("$gte" | "$lt", Value::Id(kind), RawBsonRef::String(text))
                if kind != IdKind::Text && text.ends_with('\0') =>
            {
                let name = if name == "$gte" { "$gt" } else { "$lte" };
                stored.append(cstr(name), kind.stored(&text[..text.len() - 1]));
            }
            (_, Value::Id(_), RawBsonRef::Array(values)) => {
                let mut all = RawArrayBuf::new();
                for value in values {
                    all.push(equal(kind, value?));
                }
                stored.append(cstr(name), all);
            }
            (_, Value::Id(_), RawBsonRef::String(_)) if name != "$regex" => {
                stored.append(cstr(name), equal(kind, value));
            }
            (_, _, value) => stored.append(cstr(name), value),
        }
    }
    Ok(stored.into())
}

/// What a field has to be equal to.
fn equal(kind: Value<'_>, value: RawBsonRef<'_>) -> RawBson {
    match (kind, value) {
        (Value::Id(kind), RawBsonRef::String(text)) => kind.stored(text),
        (Value::Word(words), RawBsonRef::String(own)) => {
            rawdoc! { "$in": words_of(words, own) }.into()
        }
        (_, value) => value.into(),
    }
}

/// All words that stand for one of Tandem's or for one of several.
fn read_as(words: &Words, value: RawBsonRef<'_>) -> Raw<RawArrayBuf> {
    let mut all = RawArrayBuf::new();
    let mut add = |value: RawBsonRef<'_>| -> Raw<()> {
        match value {
            RawBsonRef::String(own) => {
                for word in &words_of(words, own) {
                    all.push(word?);
                }
            }
            other => all.push(other),
        }
        Ok(())
    };
    match value {
        RawBsonRef::Array(values) => {
            for value in values {
                add(value?)?;
            }
        }
        value => add(value)?,
    }
    Ok(all)
}

fn words_of(words: &Words, own: &str) -> RawArrayBuf {
    let mut all: RawArrayBuf =
        words.read_as(own).unwrap_or_default().iter().map(String::as_str).collect();
    if words.absent == Some(own) {
        all.push(RawBson::Null);
    }
    all
}
