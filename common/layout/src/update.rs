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
use super::{Raw, cstr};

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
    pub fn statement(&self, statement: &RawDocument) -> Raw<RawDocumentBuf> {
        let is_pipeline = matches!(statement.get("u")?, Some(RawBsonRef::Array(_)));
        // A plain update of what is on the way is refused by the server itself, and a condition
        // beside `_id` would cost it a plan for each statement.
        let is_plain = self.is_of_transactions() || !is_pipeline;
        let mut stored = RawDocumentBuf::new();
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
                ("u", update) => stored.append(element.key(), self.update(update)?),
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
    pub fn update(&self, update: RawBsonRef<'_>) -> Raw<RawBson> {
        match update {
            RawBsonRef::Array(stages) => {
                let mut stored = RawArrayBuf::new();
                if self.is_of_transactions() {
                    stored.push(self.refusing());
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
    /// the way to a field. So the server refuses the document by itself, and says why.
    fn refusing(&self) -> RawDocumentBuf {
        let in_the_way = self.in_the_way();
        refusing(rawdoc! { "$eq": [in_the_way.clone(), null] }, in_the_way)
    }

    fn stage(&self, stage: &RawDocument) -> Raw<RawDocumentBuf> {
        let mut stored = RawDocumentBuf::new();
        for element in stage.iter_elements() {
            let element = element?;
            let value = match (element.key().as_str(), element.value()?) {
                ("$set", RawBsonRef::Document(set)) => {
                    let mut fields = RawDocumentBuf::new();
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
        let mut stored = RawDocumentBuf::new();
        for element in operators.iter_elements() {
            let element = element?;
            let operator = element.key().as_str();
            let RawBsonRef::Document(fields) = element.value()? else {
                stored.append(element.key(), element.value()?);
                continue;
            };
            let mut changed = RawDocumentBuf::new();
            for field in fields.iter_elements() {
                let field = field?;
                let (name, value) = (field.key().as_str(), field.value()?);
                let value = match (operator, value) {
                    ("$rename", RawBsonRef::String(to)) => self.path(to).into_owned().into(),
                    (_, value) => self.plain(name, value),
                };
                changed.append(cstr(&self.path(name)), value);
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
