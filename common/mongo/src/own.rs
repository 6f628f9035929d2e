//! Tandem's own collections: their names, the kind that each of their documents carries, and what
//! is foreign in them.
//!
//! Tandem lives in somebody else's database, and anybody may write into its collections, too. Owns
//! the condition by which a document counts as Tandem's: its field `kind`, which every document of
//! these collections has from its first write on. Every statement that reads, changes or deletes
//! one of them has this condition. Promises that a document without it is never changed, deleted,
//! or a reason to stop, and that such documents are counted and named for people
//! ([`Store::foreign`]). Fails with an error of the command.

use ledger::{Fault, LedgerError};
use mongodb::bson::{Document, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, doc, rawdoc};

use super::Store;
use super::names::{
    ACTS, EVENTS, FILES, JOBS, JOURNAL, NOTES, ORDER, PROGRESS, REQUESTS, SETTINGS, SETTLEMENT,
    SUMS, WORKERS,
};
use super::raw::{RawId, number, shown};
use super::read::Fields;
use super::statements::raw;
use super::write::none_refused;

/// No more foreign documents of one collection are counted.
pub const FOREIGN_MAX: u64 = 10_000;

/// The documents of Tandem in a collection of its own. They are all of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Own {
    /// The collection.
    pub(super) collection: &'static str,
    /// What the field `kind` says.
    pub(super) kind: &'static str,
}

pub(super) const LINE: Own = Own { collection: JOURNAL, kind: "tandem-line" };
pub(super) const PAGE: Own = Own { collection: ORDER, kind: "tandem-page" };
pub(super) const SUM: Own = Own { collection: SUMS, kind: "tandem-sum" };
pub(super) const DUE_EVENTS: Own = Own { collection: EVENTS, kind: "tandem-due-events" };
pub(super) const PARKED_NOTE: Own = Own { collection: NOTES, kind: "tandem-parked-transaction" };
pub(super) const WORKER: Own = Own { collection: WORKERS, kind: "tandem-worker" };
pub(super) const REQUEST: Own = Own { collection: REQUESTS, kind: "tandem-request" };
pub(super) const FILE: Own = Own { collection: FILES, kind: "tandem-file" };
pub(super) const ACT: Own = Own { collection: ACTS, kind: "tandem-act" };
pub(super) const JOB: Own = Own { collection: JOBS, kind: "tandem-job" };
pub(super) const SWEEP_PROGRESS: Own = Own { collection: PROGRESS, kind: "tandem-progress" };
pub(super) const LEDGER_SETTINGS: Own = Own { collection: SETTINGS, kind: "tandem-settings" };
pub(super) const SAID_OF_SETTLEMENT: Own =
    Own { collection: SETTLEMENT, kind: "tandem-settlement" };

/// Those of which all documents may be looked at: the journal, its order and its sums may have
/// millions, and acts are kept for ever.
const ALL: [Own; 9] = [
    DUE_EVENTS,
    PARKED_NOTE,
    WORKER,
    REQUEST,
    FILE,
    JOB,
    SWEEP_PROGRESS,
    LEDGER_SETTINGS,
    SAID_OF_SETTLEMENT,
];

impl Own {
    /// The condition on the field `kind`. A list matches where one of its elements does, so lists
    /// are ruled out by name.
    pub(super) fn condition(self) -> Document {
        doc! { "$eq": self.kind, "$not": { "$type": "array" } }
    }

    /// The filter for one document.
    pub(super) fn named(self, id: &str) -> Document {
        doc! { "_id": id, "kind": self.condition() }
    }

    /// The same condition as bytes.
    pub(super) fn raw_condition(self) -> RawDocumentBuf {
        rawdoc! { "$eq": self.kind, "$not": { "$type": "array" } }
    }

    /// The filter for all documents.
    pub(super) fn all(self) -> RawDocumentBuf {
        rawdoc! { "kind": self.raw_condition() }
    }

    /// The same filter as `named`, for an id of any type.
    pub(super) fn with_id(self, mut id: RawId) -> RawDocumentBuf {
        id.append(super::read::cstr("kind"), self.raw_condition());
        id
    }
}

/// What somebody else has put into a collection of Tandem's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The collection.
    pub collection: &'static str,
    /// How many documents, at most [`FOREIGN_MAX`].
    pub count: u64,
    /// The `_id` of one of them, as text.
    pub example: String,
}

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Foreign { collection, count, example } = self;
        let documents = match count {
            1 => "1 document".to_owned(),
            count if *count >= FOREIGN_MAX => format!("{count} documents or more"),
            count => format!("{count} documents"),
        };
        write!(
            f,
            "`{collection}` has {documents} that Tandem has not written, for example {example}"
        )
    }
}

impl Foreign {
    /// What to do about them.
    #[must_use]
    pub fn remedy(&self) -> String {
        format!(
            "Tandem leaves them as they are; move them to a collection of your own, and look who writes into \
             `{}`",
            self.collection
        )
    }
}

impl Store {
    /// Reads a document of Tandem's, if there is one of this `_id`.
    ///
    /// # Errors
    /// When the server is away, or the document is not one of Tandem's.
    pub(super) async fn own_document<T>(
        &self,
        operation: &'static str,
        own: Own,
        id: &str,
        parse: impl Fn(&Document) -> Option<T>,
    ) -> Result<Option<T>, LedgerError> {
        let collection = own.collection;
        let found = self.documents(operation, collection, &[id], Fields::All).await?;
        let Some(found) = found.first() else { return Ok(None) };
        let read = Document::try_from(&**found).ok().and_then(|document| parse(&document));
        let foreign = || {
            let problem = format!("the document {id:?} of {collection} was not made by Tandem");
            LedgerError::lasting(operation, problem)
        };
        read.map(Some).ok_or_else(foreign)
    }

    /// Inserts a document of Tandem's. Returns whether there was none of its `_id`.
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away or refuses.
    pub(super) async fn insert_own(
        &self,
        operation: &'static str,
        own: Own,
        document: Document,
    ) -> Result<bool, LedgerError> {
        let left = self.insert(own.collection, [raw(&document)]).await?;
        none_refused(operation, left.refused.into_iter().chain(left.taken))?;
        Ok(left.existing.is_empty())
    }

    /// The foreign documents in those of Tandem's own collections that the user may read, where
    /// there are any.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn foreign(&self) -> Result<Vec<Foreign>, LedgerError> {
        let mut all = Vec::new();
        for own in ALL {
            let pipeline: RawArrayBuf = [
                rawdoc! { "$match": { "$nor": [own.all()] } },
                rawdoc! { "$limit": i64::try_from(FOREIGN_MAX).unwrap_or(i64::MAX) },
                rawdoc! { "$group": {
                    "_id": null, "count": { "$sum": 1_i64 }, "example": { "$first": "$_id" },
                } },
            ]
            .into_iter()
            .collect();
            let parse = move |group: &RawDocument| {
                let example = RawBson::from(group.get("example").ok()??.to_owned());
                let count = number(group, "count");
                Some(Foreign { collection: own.collection, count, example: shown(example) })
            };
            match self.aggregate("foreign", own.collection, pipeline, 1, parse).await {
                Err(error) if error.fault == Fault::Denied => {}
                found => all.extend(found?),
            }
        }
        Ok(all)
    }
}
