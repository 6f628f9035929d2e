//! Notes of workers on transactions that they process while nothing else is.
//!
//! Owns the field `alone` of a worker's document in `tandem.workers`: the `_id` of a transaction
//! for each time that this worker began with it and has not yet ended. The document of a worker
//! that has died keeps them for a day, so they say with which transactions workers have died.
//! Promises that a note is on the disks of a majority before the transaction is processed. Fails
//! with an error of the command; sending it again may note a beginning twice.

use ledger::transaction::TransactionId;
use ledger::{Fault, LedgerError};
use mongodb::bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use super::Store;
use super::names::WORKERS;
use super::own::WORKER;
use super::raw::{number, raw_id};
use super::read::cstr;
use super::write::{Counts, together};

/// A document keeps no more notes: only a transaction whose processing breaks down without the
/// worker's death leaves several.
const NOTES_MAX: i32 = 4;

impl Store {
    /// Notes that the worker of this document begins with a transaction, while it processes nothing
    /// else.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn begins_alone(&self, worker: &str, id: &TransactionId) -> Result<(), LedgerError> {
        let ids: RawArrayBuf = [id.as_ref()].into_iter().collect();
        let push = rawdoc! { "alone": { "$each": ids, "$slice": -NOTES_MAX } };
        self.change_notes(worker, Some(("$push", push))).await
    }

    /// Takes back what the worker of this document has noted on a transaction: it has processed it.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn survived(&self, worker: &str, id: &TransactionId) -> Result<(), LedgerError> {
        self.change_notes(worker, Some(("$pull", rawdoc! { "alone": id.as_ref() }))).await
    }

    /// How many notes on a transaction nobody has taken back. `None` where the worker of this
    /// document may not write notes, so that their absence says nothing.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn lone_deaths(
        &self,
        worker: &str,
        id: &TransactionId,
    ) -> Result<Option<u32>, LedgerError> {
        let counted = match self.change_notes(worker, None).await {
            Ok(()) => self.count_notes(id).await,
            Err(error) => Err(error),
        };
        match counted {
            Ok(notes) => Ok(Some(notes)),
            Err(error) if error.fault == Fault::Passing => Err(error),
            Err(error) => {
                tracing::warn!(%error, "no notes on transactions that kill their workers");
                Ok(None)
            }
        }
    }

    async fn change_notes(
        &self,
        worker: &str,
        change: Option<(&str, RawDocumentBuf)>,
    ) -> Result<(), LedgerError> {
        const OPERATION: &str = "alone";
        let mut update = rawdoc! {
            "$set": { "kind": WORKER.kind }, "$currentDate": { "seenAt": true },
        };
        if let Some((operator, fields)) = change {
            update.append(cstr(operator), fields);
        }
        let named = WORKER.with_id(raw_id(worker));
        let statement = |update: &[&RawDocumentBuf]| {
            rawdoc! { "q": named.clone(), "u": update[0].clone(), "upsert": true }
        };
        let groups = together(1);
        let written =
            self.write(OPERATION, WORKERS, &[update], groups, Counts::Matched, statement).await?;
        match written.refused.into_iter().next() {
            Some(refused) => Err(LedgerError::lasting(OPERATION, refused.problem)),
            None => Ok(()),
        }
    }

    async fn count_notes(&self, id: &TransactionId) -> Result<u32, LedgerError> {
        let is_this = rawdoc! { "$eq": ["$$this", { "$literal": id.as_ref() }] };
        let here = rawdoc! { "$filter": { "input": "$alone", "cond": is_this } };
        let pipeline: RawArrayBuf = [
            rawdoc! { "$match": {
                "kind": WORKER.raw_condition(),
                "$and": [{ "alone": id.as_ref() }, { "alone": { "$type": "array" } }],
            } },
            rawdoc! { "$group": { "_id": null, "notes": { "$sum": { "$size": here } } } },
        ]
        .into_iter()
        .collect();
        let notes = |group: &RawDocument| Some(number(group, "notes"));
        let counted = self.aggregate("alone", WORKERS, pipeline, 1, notes).await?;
        Ok(u32::try_from(counted.into_iter().sum::<u64>()).unwrap_or(u32::MAX))
    }
}
