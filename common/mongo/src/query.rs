//! Reads through the driver itself, for those that need its sessions, snapshots or repetitions: the
//! audit, statements, the replay of events.
//!
//! Owns the translation of what such a read says, and of the documents that it yields. Who calls it
//! has looked at the settings before, so the layout is known. Promises
//! that without a layout the driver sends what it is told, and that a document which can't be read
//! is an empty one and ends nothing. Fails where what is asked for is no BSON.

use std::borrow::Cow;

use layout::{Answer, Command};
use mongodb::Collection;
use mongodb::action::{Find, FindOne};
use mongodb::bson::{Bson, Document, RawArrayBuf, RawDocument, RawDocumentBuf, doc, rawdoc};
use mongodb::error::Error;
use mongodb::options::{FindOneOptions, FindOptions, Hint};

use super::Store;

/// A read of one collection.
#[derive(Clone, Debug)]
pub struct Query {
    collection: Collection<RawDocumentBuf>,
    filter: Document,
    projection: Option<Document>,
    sort: Option<Document>,
    hint: Option<Document>,
    min: Option<Document>,
    answer: Answer,
}

impl Store {
    /// A read of a collection: `{filter, projection, sort, hint, min}`, as far as they are there.
    ///
    /// # Errors
    /// When that is no BSON.
    pub fn query(&self, collection: &str, asked: Document) -> Result<Query, Error> {
        let stored = self.database().collection(self.stored_name(collection));
        if self.stored(collection).is_none() {
            return Ok(Query::of(stored, asked, Answer::Own));
        }
        let mut command = doc! { "find": collection };
        command.extend(asked);
        let Command { sent, answer } = self.query_command(RawDocumentBuf::try_from(&command)?)?;
        Ok(Query::of(stored, Document::try_from(sent)?, answer))
    }

    /// The pipeline of an aggregation, as it is sent, and the collection that it is for. What it
    /// yields has to be computed.
    ///
    /// # Errors
    /// When it is no BSON.
    pub fn computing(
        &self,
        collection: &str,
        pipeline: RawArrayBuf,
    ) -> Result<(Collection<Document>, Vec<Document>), Error> {
        let stored = self.database().collection(self.stored_name(collection));
        let command = rawdoc! { "aggregate": collection, "pipeline": pipeline };
        let sent = Document::try_from(self.query_command(command)?.sent)?;
        let stages = sent.get_array("pipeline").map_err(Error::custom)?;
        Ok((stored, stages.iter().filter_map(Bson::as_document).cloned().collect()))
    }

    fn query_command(&self, command: RawDocumentBuf) -> Result<Command, Error> {
        self.translated("translate", command).map_err(Error::custom)
    }
}

impl Query {
    fn of(collection: Collection<RawDocumentBuf>, mut asked: Document, answer: Answer) -> Query {
        let mut part = |name: &str| match asked.remove(name) {
            Some(Bson::Document(part)) => Some(part),
            Some(_) | None => None,
        };
        Query {
            collection,
            filter: part("filter").unwrap_or_default(),
            projection: part("projection"),
            sort: part("sort"),
            hint: part("hint"),
            min: part("min"),
            answer,
        }
    }

    /// All documents that match.
    #[must_use]
    pub fn find(&self) -> Find<'_, RawDocumentBuf> {
        let options = FindOptions::builder()
            .projection(self.projection.clone())
            .sort(self.sort.clone())
            .hint(self.hint.clone().map(Hint::Keys))
            .min(self.min.clone());
        self.collection.find(self.filter.clone()).with_options(options.build())
    }

    /// One document that matches.
    #[must_use]
    pub fn find_one(&self) -> FindOne<'_, RawDocumentBuf> {
        let options = FindOneOptions::builder().projection(self.projection.clone());
        self.collection.find_one(self.filter.clone()).with_options(options.build())
    }

    /// A document that was found, as Tandem reads it.
    #[must_use]
    pub fn read<'a>(&self, found: &'a RawDocument) -> Cow<'a, RawDocument> {
        let read = self.answer.read(found);
        read.unwrap_or_else(|_| Cow::Owned(RawDocumentBuf::new()))
    }
}
