//! What is known of transactions that may kill their workers: the notes of workers in MongoDB.
//!
//! Owns which life of a worker its notes belong to. Promises that a transaction is parked only when
//! workers have noted often enough that they process it while nothing else is, and never came to
//! take the note back. Where a worker may not write notes, the strikes alone decide. Fails with an
//! error of the database.

use ledger::LedgerError;
use ledger::transaction::TransactionId;
use mongo::{MongoOutbox, Store};

use crate::decide::kills;

/// What is known of transactions that may kill their workers. A strike alone proves nothing: a
/// message that waits for its turn is struck, too, when a batch beside it kills the worker.
pub trait Suspects: Send + Sync {
    /// Notes that this transaction is processed now, while nothing else is.
    fn begin_alone(
        &self,
        id: &TransactionId,
    ) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// Takes this worker's notes on it back: it has been processed.
    fn survived(&self, id: &TransactionId) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// Parks this transaction, so that the sweeper leaves it alone, if
    /// [`kills`] says so of the notes on it. Returns whether it did.
    fn park_killer(
        &self,
        id: &TransactionId,
    ) -> impl Future<Output = Result<bool, LedgerError>> + Send;
}

/// The notes of one life of a worker.
pub struct MongoSuspects {
    store: Store,
    outbox: MongoOutbox,
    /// The `_id` of this worker's document.
    life: String,
}

impl MongoSuspects {
    /// For the worker that reports under this `_id`.
    pub fn new(store: Store, outbox: MongoOutbox, life: String) -> MongoSuspects {
        MongoSuspects { store, outbox, life }
    }
}

impl Suspects for MongoSuspects {
    async fn begin_alone(&self, id: &TransactionId) -> Result<(), LedgerError> {
        self.store.begins_alone(&self.life, id).await
    }

    async fn survived(&self, id: &TransactionId) -> Result<(), LedgerError> {
        self.store.survived(&self.life, id).await
    }

    async fn park_killer(&self, id: &TransactionId) -> Result<bool, LedgerError> {
        let is_killer = kills(self.store.lone_deaths(&self.life, id).await?);
        if is_killer {
            self.outbox.park_killers(std::slice::from_ref(id)).await?;
        }
        Ok(is_killer)
    }
}
