//! Expressions: what the server computes from a document.
//!
//! Promises that an expression has the same value for a document as its owner stores it as the
//! given one has for the same document as Tandem reads it. Texts that begin with `$` are fields;
//! whatever comes from outside stands in `$literal` and is copied.

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use super::collection::{Collection, Value};
use super::ids::IdKind;
use super::once::each_once;
use super::tree::{Branch, Tree};
use super::{Raw, cstr, with_room};

/// What names the account as it is read, in the updates of accounts.
const READ: &str = "$$read.";

impl Collection {
    /// The expression of an update, for documents as they are stored. In those that it is for,
    /// there are objects on the way to all fields.
    ///
    /// # Errors
    /// When the bytes are no BSON.
    pub fn expression(&self, value: RawBsonRef<'_>) -> Raw<RawBson> {
        Expressions { of: self, reads: false }.all(value)
    }

    /// The expression of a read, for documents as they are stored, whatever is on the way.
    ///
    /// # Errors
    /// When the bytes are no BSON.
    pub(crate) fn reading(&self, value: RawBsonRef<'_>) -> Raw<RawBson> {
        Expressions { of: self, reads: true }.all(value)
    }

    /// A field as Tandem reads it, as the server computes it.
    #[must_use]
    pub fn field(&self, name: &str) -> RawBson {
        Expressions { of: self, reads: true }.field("$", name)
    }

    /// A value as it is stored in a field.
    pub(crate) fn assigned(&self, name: &str, value: RawBsonRef<'_>) -> Raw<RawBson> {
        let Value::Word(words) = self.value(name) else { return self.expression(value) };
        match value {
            RawBsonRef::String(own) if own.starts_with('$') => {
                // The word that stands there stays as it is.
                Ok(format!("${}", self.path(name)).into())
            }
            RawBsonRef::String(own) => Ok(words.written(own).unwrap_or(own).into()),
            RawBsonRef::Document(operators) => match condition(operators)? {
                Some([when, then, otherwise]) => {
                    let when = self.expression(when)?;
                    let [then, otherwise] =
                        [self.assigned(name, then)?, self.assigned(name, otherwise)?];
                    Ok(rawdoc! { "$cond": [when, then, otherwise] }.into())
                }
                None => self.expression(value),
            },
            _ => self.expression(value),
        }
    }
}

/// The expressions for one collection.
#[derive(Clone, Copy)]
struct Expressions<'a> {
    of: &'a Collection,
    /// Whether there may be something else than an object on the way to a field.
    reads: bool,
}

impl Expressions<'_> {
    fn all(self, value: RawBsonRef<'_>) -> Raw<RawBson> {
        Ok(match value {
            RawBsonRef::String(text) => match (text.strip_prefix(READ), text.strip_prefix('$')) {
                (Some(name), _) => self.field(READ, name),
                (None, Some(name)) if !name.starts_with('$') => self.field("$", name),
                (None, _) => text.into(),
            },
            RawBsonRef::Array(values) => {
                let mut stored = RawArrayBuf::new();
                for value in values {
                    stored.push(self.all(value?)?);
                }
                stored.into()
            }
            RawBsonRef::Document(operators) => match Known::of(operators)? {
                Some(Known::EachOnce) => each_once(&self.of.parents()).into(),
                Some(Known::Merged(changed)) => self.merged(changed)?.into(),
                None => self.operators(operators)?.into(),
            },
            other => other.into(),
        })
    }

    fn operators(self, operators: &RawDocument) -> Raw<RawDocumentBuf> {
        let mut stored = with_room(operators.as_bytes().len());
        for element in operators.iter_elements() {
            let element = element?;
            match (element.key().as_str(), element.value()?) {
                ("$literal", value) => stored.append(element.key(), value),
                (_, value) => stored.append(element.key(), self.all(value)?),
            }
        }
        Ok(stored)
    }

    /// A field of a document that was stored, behind what names that document.
    fn field(self, document: &str, name: &str) -> RawBson {
        let path = format!("{document}{}", self.of.path(name));
        let field: RawBson = match self.of.value_at(name) {
            Value::Plain => match self.of.missing.get(name) {
                Some(meant) => {
                    let is_missing = rawdoc! { "$eq": [{ "$type": path.as_str() }, "missing"] };
                    let meant = rawdoc! { "$literal": meant.clone() };
                    rawdoc! { "$cond": [is_missing, meant, path] }.into()
                }
                None => path.into(),
            },
            Value::Id(kind) => kind.text_of(&path),
            Value::Legs(kind) => legs(kind, &path),
            Value::Word(words) if words.are_plain() && words.absent.is_none() => path.into(),
            Value::Word(words) => words.own_of(&path).into(),
        };
        match self.reads && name == self.of.witness {
            true => rawdoc! { "$ifNull": [self.of.in_the_way(), field] }.into(),
            false => field,
        }
    }

    /// The whole document with some fields changed. The server knows no paths here, so each object
    /// on the way is merged by itself.
    fn merged(self, changed: &RawDocument) -> Raw<RawDocumentBuf> {
        let mut tree = Tree::default();
        for element in changed.iter_elements() {
            let element = element?;
            let name = element.key().as_str();
            let value = self.of.assigned(name, element.value()?)?;
            tree.grow(&self.of.path(name), value);
        }
        Ok(merge("$$ROOT", "$", &tree))
    }
}

/// Some fields of an object, by the expression of that object, its prefix, and what changes in it.
fn merge(object: &str, prefix: &str, tree: &Tree) -> RawDocumentBuf {
    let mut changed = RawDocumentBuf::new();
    for branch in tree.branches() {
        match branch {
            Branch::Value(name, value) => changed.append(cstr(name), value.clone()),
            Branch::Object(name, inner) => {
                let path = format!("{prefix}{name}");
                changed.append(cstr(name), merge(&path, &format!("{path}."), inner));
            }
        }
    }
    rawdoc! { "$mergeObjects": [object, changed] }
}

/// An expression that is not made of those of its parts.
enum Known<'a> {
    /// `{$eq: ["$$ROOT", {$mergeObjects: ["$$ROOT"]}]}`, by which Tandem asks whether a field of a
    /// document stands twice: merging keeps only the first of them.
    EachOnce,
    /// `{$mergeObjects: ["$$ROOT", {…}]}`, and what it changes.
    Merged(&'a RawDocument),
}

impl Known<'_> {
    fn of(operators: &RawDocument) -> Raw<Option<Known<'_>>> {
        let Some(first) = operators.iter_elements().next().transpose()? else { return Ok(None) };
        let parts = match (first.key().as_str(), first.value()?) {
            ("$eq" | "$mergeObjects", RawBsonRef::Array(parts)) => of_array(parts)?,
            _ => return Ok(None),
        };
        let [RawBsonRef::String("$$ROOT"), RawBsonRef::Document(other)] = parts[..] else {
            return Ok(None);
        };
        if first.key().as_str() == "$mergeObjects" {
            return Ok(Some(Known::Merged(other)));
        }
        let Some(RawBsonRef::Array(merged)) = other.get("$mergeObjects")? else { return Ok(None) };
        let is_root = matches!(of_array(merged)?[..], [RawBsonRef::String("$$ROOT")]);
        Ok(is_root.then_some(Known::EachOnce))
    }
}

/// The parts of `{$cond: [when, then, otherwise]}`, if it is that.
fn condition(operators: &RawDocument) -> Raw<Option<[RawBsonRef<'_>; 3]>> {
    match operators.get("$cond")? {
        Some(RawBsonRef::Array(parts)) => Ok(of_array(parts)?.try_into().ok()),
        Some(_) | None => Ok(None),
    }
}

fn of_array(array: &RawArray) -> Raw<Vec<RawBsonRef<'_>>> {
    array.into_iter().collect()
}

/// A list whose elements have ids. What is no list, or no object in it, is as it is.
fn legs(kind: IdKind, path: &str) -> RawBson {
    if kind == IdKind::Text {
        return path.into();
    }
    let account = rawdoc! { "account": kind.text_of("$$leg.account") };
    let leg = rawdoc! { "$cond": [
        { "$eq": [{ "$type": "$$leg" }, "object"] },
        { "$mergeObjects": ["$$leg", account] },
        "$$leg",
    ] };
    let each = rawdoc! { "$map": { "input": path, "as": "leg", "in": leg } };
    rawdoc! { "$cond": [{ "$isArray": path }, each, path] }.into()
}
