//! Notes of workers on transactions that they process while nothing else is.
//!
//! Owns the field `alone` of a worker's document in `tandem.workers`: the `_id` of a transaction
//! for each time that this worker began with it and has not yet ended. The document of a worker
//! that has died keeps them for a day, so they say with which transactions workers have died.
//! Promises that a note is on the disks of a majority before the transaction is processed. Fails
//! with an error of the command; sending it again may note a beginning twice.

use ledger::LedgerError;
use ledger::transaction::TransactionId;
use mongodb::bson::{Document, RawArrayBuf, RawDocument, doc, rawdoc};

use super::Store;
use super::names::WORKERS;
use super::own::WORKER;
use super::raw::number;
use super::write::none_refused;

const OPERATION: &str = "alone";

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
        let note = doc! { "$each": [id.as_ref()], "$slice": -NOTES_MAX };
        self.change_notes(worker, doc! { "$push": { "alone": note } }).await
    }

    /// Takes back what the worker of this document has noted on a transaction: it has processed it.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn survived(&self, worker: &str, id: &TransactionId) -> Result<(), LedgerError> {
        self.change_notes(worker, doc! { "$pull": { "alone": id.as_ref() } }).await
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
        let counted = async {
            self.change_notes(worker, doc! {}).await?;
            self.count_notes(id).await
        };
        match counted.await {
            Ok(notes) => Ok(Some(notes)),
            Err(error) if error.passes() => Err(error),
            Err(error) => {
                tracing::warn!(%error, "no notes on transactions that kill their workers");
                Ok(None)
            }
        }
    }

    async fn change_notes(&self, worker: &str, change: Document) -> Result<(), LedgerError> {
        let mut update =
            doc! { "$set": { "kind": WORKER.kind }, "$currentDate": { "seenAt": true } };
        update.extend(change);
        let statement = doc! { "q": WORKER.named(worker), "u": update, "upsert": true };
        let written = self.change(OPERATION, WORKERS, vec![statement]).await?;
        none_refused(OPERATION, written.refused)
    }

    async fn count_notes(&self, id: &TransactionId) -> Result<u32, LedgerError> {
        let is_this = rawdoc! { "$eq": ["$$this", { "$literal": id.as_ref() }] };
        let here = rawdoc! { "$filter": { "input": "$alone", "cond": is_this } };
        let pipeline: RawArrayBuf = [
            rawdoc! { "$match": {
                "kind": WORKER.raw_condition(),
                "alone": { "$eq": id.as_ref(), "$type": "array" },
            } },
            rawdoc! { "$group": { "_id": null, "notes": { "$sum": { "$size": here } } } },
        ]
        .into_iter()
        .collect();
        let notes = |group: &RawDocument| Some(number(group, "notes"));
        let counted = self.aggregate(OPERATION, WORKERS, pipeline, 1, notes).await?;
        Ok(u32::try_from(counted.into_iter().sum::<u64>()).unwrap_or(u32::MAX))
    }
}
