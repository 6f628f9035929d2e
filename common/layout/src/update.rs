//! Updates: what a statement changes in a document.
//!
//! Promises that an update changes in a document as its owner stores it what the given one changes
//! in the same document as Tandem reads it, and nothing else. Where an object is expected on the
//! way to a field and something else stands there, an account does not match at all, and is looked
//! at by itself; for a transaction the statement fails, as it does where a validator refuses the
//! document. Otherwise a pipeline would overwrite a scalar there and set the field in every element
//! of a list.

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use super::collection::{Collection, Value};
use super::once::{KeptOnce, objects_once, refusing_twice, twice};
use super::{Raw, cstr, with_room};

/// The stage that leaves a document as it is, or fails with what is said of it. That has to be
/// computed from the document: a constant would fail for every document.
pub(crate) fn refusing(is_fine: RawDocumentBuf, said: impl Into<RawBson>) -> RawDocumentBuf {
    let fails = rawdoc! { "$toLong": said.into() };
    rawdoc! { "$replaceWith": { "$cond": [is_fine, "$$ROOT", fails] } }
}

impl Collection {
    /// A statement of an `update` command.
    ///
    /// # Errors
    /// When the bytes are no BSON.
    pub(crate) fn statement(
        &self,
        statement: &RawDocument,
        kept_once: KeptOnce,
    ) -> Raw<RawDocumentBuf> {
        let is_pipeline = matches!(statement.get("u")?, Some(RawBsonRef::Array(_)));
        // A plain update of what is on the way is refused by the server itself, and a condition
        // beside `_id` would cost it a plan for each statement.
        let is_plain = self.is_of_transactions() || !is_pipeline;
        let mut stored = with_room(statement.as_bytes().len());
        for element in statement.iter_elements() {
            let element = element?;
            match (element.key().as_str(), element.value()?) {
                ("q", RawBsonRef::Document(filter)) if is_plain => {
                    stored.append(element.key(), self.filter(filter)?);
                }
                ("q", RawBsonRef::Document(filter)) => {
                    let filter = self.with_objects_on_the_way(self.filter(filter)?)?;
                    stored.append(element.key(), filter);
                }
                ("u", update) => stored.append(element.key(), self.update(update, kept_once)?),
                (_, other) => stored.append(element.key(), other),
            }
        }
        Ok(stored)
    }

    /// The filter, for those documents only in which all fields can be where they are. It is for a
    /// filter of stored documents.
    fn with_objects_on_the_way(&self, filter: RawDocumentBuf) -> Raw<RawDocumentBuf> {
        let condition = rawdoc! { "$expr": self.objects() };
        if filter.get("$and")?.is_some() {
            return Ok(rawdoc! { "$and": [filter, condition] });
        }
        let mut filter = filter;
        filter.append(cstr("$and"), [condition].into_iter().collect::<RawArrayBuf>());
        Ok(filter)
    }

    /// What is changed: operators, or the stages of a pipeline.
    ///
    /// # Errors
    /// When the bytes are no BSON.
    pub(crate) fn update(&self, update: RawBsonRef<'_>, kept_once: KeptOnce) -> Raw<RawBson> {
        match update {
            RawBsonRef::Array(stages) => {
                let mut stored = RawArrayBuf::new();
                if let Some(refusing) = self.refusing(kept_once) {
                    stored.push(refusing);
                }
                for stage in stages {
                    match stage? {
                        RawBsonRef::Document(stage) => stored.push(self.stage(stage)?),
                        other => stored.push(other),
                    }
                }
                Ok(stored.into())
            }
            RawBsonRef::Document(operators) => Ok(self.modifiers(operators)?.into()),
            other => Ok(other.into()),
        }
    }

    /// The stage that leaves a document as it is, or fails where something else than an object is on
    /// the way to a field, or a field stands twice. So the server refuses the document by itself,
    /// and says why. One stage for both: each costs the server a document.
    fn refusing(&self, kept_once: KeptOnce) -> Option<RawDocumentBuf> {
        match (self.is_of_transactions(), kept_once) {
            (true, KeptOnce::ByValidator) => Some(refusing(self.objects(), self.in_the_way())),
            (true, KeptOnce::ByPipeline) => {
                let said = rawdoc! { "$ifNull": [self.in_the_way(), twice()] };
                Some(refusing(objects_once(&self.parents()), said))
            }
            // Of accounts those with something on the way do not match.
            (false, KeptOnce::ByPipeline) => Some(refusing_twice(&self.parents())),
            (false, KeptOnce::ByValidator) => None,
        }
    }

    fn stage(&self, stage: &RawDocument) -> Raw<RawDocumentBuf> {
        let mut stored = with_room(stage.as_bytes().len());
        for element in stage.iter_elements() {
            let element = element?;
            let value = match (element.key().as_str(), element.value()?) {
                ("$set", RawBsonRef::Document(set)) => {
                    let mut fields = with_room(set.as_bytes().len());
                    for field in set.iter_elements() {
                        let field = field?;
                        let name = field.key().as_str();
                        fields.append(cstr(&self.path(name)), self.assigned(name, field.value()?)?);
                    }
                    fields.into()
                }
                ("$unset", names) => self.names(names)?,
                (_, expression) => self.expression(expression)?,
            };
            stored.append(element.key(), value);
        }
        Ok(stored)
    }

    pub(crate) fn names(&self, names: RawBsonRef<'_>) -> Raw<RawBson> {
        match names {
            RawBsonRef::String(name) => Ok(self.path(name).into_owned().into()),
            RawBsonRef::Array(names) => {
                let mut stored = RawArrayBuf::new();
                for name in names {
                    stored.push(self.names(name?)?);
                }
                Ok(stored.into())
            }
            other => Ok(other.into()),
        }
    }

    fn modifiers(&self, operators: &RawDocument) -> Raw<RawDocumentBuf> {
        let mut stored = with_room(operators.as_bytes().len());
        for element in operators.iter_elements() {
            let element = element?;
            let operator = element.key().as_str();
            let RawBsonRef::Document(fields) = element.value()? else {
                stored.append(element.key(), element.value()?);
                continue;
            };
            let mut changed = with_room(fields.as_bytes().len());
            for field in fields.iter_elements() {
                let field = field?;
                let (name, value) = (field.key().as_str(), field.value()?);
                let path = self.path(name);
                match (operator, value) {
                    ("$rename", RawBsonRef::String(to)) => {
                        changed.append(cstr(&path), self.path(to).as_ref());
                    }
                    (_, value) => changed.append(cstr(&path), self.plain(name, value)),
                }
            }
            stored.append(element.key(), changed);
        }
        Ok(stored)
    }

    /// A value that is no expression, as it is stored in a field.
    pub(crate) fn plain(&self, name: &str, value: RawBsonRef<'_>) -> RawBson {
        match (self.value_at(name), value) {
            (Value::Id(kind), RawBsonRef::String(text)) => kind.stored(text),
            (Value::Word(words), RawBsonRef::String(own)) => {
                words.written(own).unwrap_or(own).into()
            }
            (_, value) => value.into(),
        }
    }
}
