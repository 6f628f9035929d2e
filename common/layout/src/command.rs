//! Commands: what is sent to the server, and how its answer is to be read.
//!
//! Owns the commands that Tandem sends for accounts and transactions: `find`, `aggregate`, `update`
//! and `insert`. Promises that what an answer says is what the same command would answer on the
//! documents as Tandem reads them; [`Answer::read`] makes it so where the server has not.

use std::borrow::Cow;

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::collection::Collection;
use super::file::Layout;
use super::once::KeptOnce;
use super::projection::EACH_FIELD_ONCE;
use super::{Raw, cstr, with_room};

/// The field of an answer in which a whole document may stand.
const WITHIN: &str = "document";

/// A command as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Its bytes.
    pub sent: RawDocumentBuf,
    /// How its answers are to be read.
    pub answer: Answer,
}

/// How the documents of an answer are to be read.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// As they are.
    Own,
    /// They are as they are stored.
    Stored(Collection),
    /// They are as they are stored, and [`EACH_FIELD_ONCE`] is beside their fields. Of these only
    /// some are asked for.
    Beside(Collection, Vec<String>),
    /// They have a field with a document as it is stored.
    Within(Collection),
    /// They are keys of an index.
    Keys(Collection),
}

impl Answer {
    /// A document of the answer as Tandem reads it.
    ///
    /// # Errors
    /// When the bytes are no BSON.
    pub fn read<'a>(&self, document: &'a RawDocument) -> Raw<Cow<'a, RawDocument>> {
        match self {
            Answer::Own => Ok(Cow::Borrowed(document)),
            Answer::Stored(collection) => collection.read(document).map(Cow::Owned),
            Answer::Beside(collection, asked) => {
                let mut own = RawDocumentBuf::new();
                for element in collection.read(document)?.iter_elements() {
                    let element = element?;
                    if asked.iter().any(|name| name == element.key().as_str()) {
                        own.append(element.key(), element.value()?);
                    }
                }
                if let Some(each_once) = document.get(EACH_FIELD_ONCE)? {
                    own.append(cstr(EACH_FIELD_ONCE), each_once);
                }
                Ok(Cow::Owned(own))
            }
            Answer::Within(collection) => {
                let mut own = with_room(document.as_bytes().len());
                for element in document.iter_elements() {
                    let element = element?;
                    match (element.key().as_str(), element.value()?) {
                        (WITHIN, RawBsonRef::Document(stored)) => {
                            own.append(element.key(), collection.read(stored)?);
                        }
                        (_, value) => own.append(element.key(), value),
                    }
                }
                Ok(Cow::Owned(own))
            }
            Answer::Keys(collection) => {
                let mut own = RawDocumentBuf::new();
                for element in document.iter_elements() {
                    let element = element?;
                    let path = element.key().as_str();
                    let name = collection.name_of(path).unwrap_or(Cow::Borrowed(path));
                    own.append(cstr(&name), element.value()?);
                }
                Ok(Cow::Owned(own))
            }
        }
    }
}

impl Layout {
    /// The command as it is sent. One for another collection than those of accounts and
    /// transactions stays as it is. Its pipelines look for fields that stand twice if these are not
    /// `kept_once` by a validator.
    ///
    /// # Errors
    /// When the bytes are no BSON.
    pub fn command(&self, command: &RawDocument, kept_once: KeptOnce) -> Raw<Command> {
        let first = command.iter_elements().next().transpose()?;
        let named = match &first {
            Some(first) => match first.value()? {
                RawBsonRef::String(name) => self.of(name).map(|own| (first.key().as_str(), own)),
                _ => None,
            },
            None => None,
        };
        match named {
            Some((kind, collection)) => collection.command(kind, command, kept_once),
            None => Ok(Command { sent: command.to_owned(), answer: Answer::Own }),
        }
    }
}

impl Collection {
    fn command(&self, kind: &str, command: &RawDocument, kept_once: KeptOnce) -> Raw<Command> {
        let mut answer = if kind == "find" { Answer::Stored(self.clone()) } else { Answer::Own };
        let mut sent = with_room(command.as_bytes().len());
        for element in command.iter_elements() {
            let element = element?;
            let value: RawBson = match (element.key().as_str(), element.value()?) {
                (name, _) if name == kind => self.name().into(),
                ("filter", RawBsonRef::Document(filter)) => self.filter(filter)?.into(),
                ("sort" | "hint" | "min" | "max", RawBsonRef::Document(keys)) => {
                    self.keys(keys)?.into()
                }
                ("projection", RawBsonRef::Document(projection)) if kind == "find" => {
                    let (projection, made) = self.projection(projection)?;
                    answer = made.unwrap_or(answer);
                    projection.into()
                }
                ("returnKey", RawBsonRef::Boolean(true)) => {
                    answer = Answer::Keys(self.clone());
                    true.into()
                }
                ("pipeline", RawBsonRef::Array(pipeline)) => {
                    let (pipeline, made) = self.pipeline(pipeline)?;
                    answer = made.answer(self);
                    pipeline.into()
                }
                ("updates", RawBsonRef::Array(updates)) => {
                    each(updates, |update| self.statement(update, kept_once))?.into()
                }
                ("documents", RawBsonRef::Array(documents)) => {
                    each(documents, |document| self.store(document))?.into()
                }
                (_, other) => {
                    sent.append(element.key(), other);
                    continue;
                }
            };
            sent.append(element.key(), value);
        }
        Ok(Command { sent, answer })
    }

    /// Directions of an order, or bounds of an index.
    fn keys(&self, keys: &RawDocument) -> Raw<RawDocumentBuf> {
        let mut stored = with_room(keys.as_bytes().len());
        for element in keys.iter_elements() {
            let element = element?;
            let name = element.key().as_str();
            stored.append(cstr(&self.path(name)), self.plain(name, element.value()?));
        }
        Ok(stored)
    }

    /// A pipeline that reads, and what its documents are made of.
    fn pipeline(&self, pipeline: &RawArray) -> Raw<(RawArrayBuf, Made)> {
        let (mut stages, mut made) = (RawArrayBuf::new(), Made::Stored);
        for stage in pipeline {
            let RawBsonRef::Document(stage) = stage? else { continue };
            if made != Made::Stored {
                stages.push(stage);
                continue;
            }
            let mut stored = with_room(stage.as_bytes().len());
            for element in stage.iter_elements() {
                let element = element?;
                let value: RawBson = match (element.key().as_str(), element.value()?) {
                    ("$match", RawBsonRef::Document(filter)) => self.filter(filter)?.into(),
                    ("$sort", RawBsonRef::Document(keys)) => self.keys(keys)?.into(),
                    ("$project", RawBsonRef::Document(projection)) => {
                        let (projection, answer) = self.projection(projection)?;
                        made = if answer.is_some() { Made::Own } else { made };
                        projection.into()
                    }
                    ("$set", RawBsonRef::Document(set)) => self.set(set)?.into(),
                    ("$unset", names) => self.names(names)?,
                    ("$replaceWith", expression) => {
                        made = Made::of(expression)?;
                        self.reading(expression)?
                    }
                    ("$group", expression) => {
                        made = Made::Own;
                        self.reading(expression)?
                    }
                    ("$count", name) => {
                        made = Made::Own;
                        name.into()
                    }
                    (_, other) => other.into(),
                };
                stored.append(element.key(), value);
            }
            stages.push(stored);
        }
        Ok((stages, made))
    }

    /// Fields that a pipeline which reads adds to a document as it is stored.
    fn set(&self, set: &RawDocument) -> Raw<RawDocumentBuf> {
        let mut stored = RawDocumentBuf::new();
        for element in set.iter_elements() {
            let element = element?;
            let path = self.path(element.key().as_str());
            stored.append(cstr(&path), self.reading(element.value()?)?);
        }
        Ok(stored)
    }
}

/// What the documents that a pipeline yields are made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    /// They are as they are stored.
    Stored,
    /// A field of theirs is.
    Within,
    /// They are as Tandem reads them.
    Own,
}

impl Made {
    /// What this expression makes.
    fn of(expression: RawBsonRef<'_>) -> Raw<Made> {
        let RawBsonRef::Document(made) = expression else {
            let is_whole = matches!(expression, RawBsonRef::String("$$ROOT"));
            return Ok(if is_whole { Made::Stored } else { Made::Own });
        };
        if let Some(RawBsonRef::Array(parts)) = made.get("$cond")? {
            for branch in parts.into_iter().skip(1) {
                match Made::of(branch?)? {
                    Made::Own => {}
                    made => return Ok(made),
                }
            }
        }
        let is_within = matches!(made.get(WITHIN)?, Some(RawBsonRef::String("$$ROOT")));
        Ok(if is_within { Made::Within } else { Made::Own })
    }

    fn answer(self, collection: &Collection) -> Answer {
        match self {
            Made::Stored => Answer::Stored(collection.clone()),
            Made::Within => Answer::Within(collection.clone()),
            Made::Own => Answer::Own,
        }
    }
}

pub(crate) fn each(
    documents: &RawArray,
    change: impl Fn(&RawDocument) -> Raw<RawDocumentBuf>,
) -> Raw<RawArrayBuf> {
    let mut changed = RawArrayBuf::new();
    for document in documents {
        if let RawBsonRef::Document(document) = document? {
            changed.push(change(document)?);
        }
    }
    Ok(changed)
}
