//! The outbox: transactions that should be on the queue and may not be.
//!
//! The transactions collection is the outbox: a producer that dies between insert and publish
//! leaves `initial` documents, a worker that dies leaves expired leases. Owns the two queries that
//! find them. Promises nothing about their being on the queue: publishing an id twice is harmless.

use futures_util::TryStreamExt;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::Store;
use crate::ledger::{LedgerError, ServerMs};
use crate::transaction::{State, TransactionId};

/// Which transactions to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranded {
    /// `initial` and created before this moment.
    Unclaimed {
        /// Server time.
        created_before: ServerMs,
    },
    /// In flight, with a takeover time before this moment.
    InFlight {
        /// Server time.
        takeover_before: ServerMs,
    },
}

/// Finds and stamps what is stranded.
#[derive(Clone, Debug)]
pub struct MongoOutbox {
    store: Store,
}

impl MongoOutbox {
    /// An outbox over the store's transactions.
    #[must_use]
    pub fn new(store: Store) -> MongoOutbox {
        MongoOutbox { store }
    }

    /// At most `limit` stranded ids, oldest first, leaving out those stamped for later than `now`.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn stranded(
        &self,
        which: Stranded,
        now: ServerMs,
        limit: i64,
    ) -> Result<Vec<TransactionId>, LedgerError> {
        let due = doc! { "$not": { "$gt": DateTime::from_millis(now) } };
        let (mut filter, sort, hint) = match which {
            Stranded::Unclaimed { created_before } => (
                doc! {
                    "state": State::Initial,
                    "createdAt": { "$lt": DateTime::from_millis(created_before) },
                },
                doc! { "createdAt": 1 },
                "unclaimed",
            ),
            Stranded::InFlight { takeover_before } => (
                doc! {
                    "state": { "$in": State::IN_FLIGHT.map(Bson::from).to_vec() },
                    "takeoverAt": { "$lt": DateTime::from_millis(takeover_before) },
                },
                doc! { "takeoverAt": 1 },
                "in_flight",
            ),
        };
        filter.insert("sweepAfter", due);
        let collection = self.store.transactions();
        let op_limit = self.store.op_limit();
        let found: Vec<Document> = self
            .store
            .limited("stranded", async move {
                let find = collection
                    .find(filter)
                    .sort(sort)
                    .hint(mongodb::options::Hint::Name(hint.to_owned()))
                    .limit(limit)
                    .projection(doc! { "_id": 1 })
                    .max_time(op_limit);
                find.await?.try_collect().await
            })
            .await?;
        Ok(found.iter().filter_map(|d| d.get_str("_id").ok()).map(Into::into).collect())
    }

    /// Keeps all sweepers away from what was just published until `sweep_after`.
    ///
    /// # Errors
    /// When the server is away; then it is only published once more.
    pub async fn stamp(
        &self,
        ids: &[TransactionId],
        sweep_after: ServerMs,
    ) -> Result<(), LedgerError> {
        let ids: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
        let unfinished = State::UNFINISHED.map(Bson::from).to_vec();
        let statement = doc! {
            "q": { "_id": { "$in": ids }, "state": { "$in": unfinished } },
            // A round that listed an id before it was parked must not bring it back.
            "u": { "$max": { "sweepAfter": DateTime::from_millis(sweep_after) } },
            "multi": true,
        };
        self.store.update("stamp", "transactions", vec![statement]).await.map(|_| ())
    }

    /// Keeps all sweepers away for good: these went to the dead letters because they kill workers,
    /// and only a person should bring them back.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn park(&self, ids: &[TransactionId]) -> Result<(), LedgerError> {
        self.stamp(ids, DateTime::MAX.timestamp_millis()).await
    }

    /// The creation time of the oldest transaction in flight or waiting, for the age metric.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn oldest_unfinished(&self) -> Result<Option<ServerMs>, LedgerError> {
        let mut oldest: Option<ServerMs> = None;
        // Those in flight are sorted in the server's memory: they are a few batches at most.
        for (states, hint) in
            [(vec![State::Initial], "unclaimed"), (State::IN_FLIGHT.to_vec(), "in_flight")]
        {
            let filter = doc! { "state": { "$in": states } };
            let collection = self.store.transactions();
            let op_limit = self.store.op_limit();
            let found = self
                .store
                .limited("oldest", async move {
                    collection
                        .find_one(filter)
                        .sort(doc! { "createdAt": 1 })
                        .hint(mongodb::options::Hint::Name(hint.to_owned()))
                        .projection(doc! { "createdAt": 1 })
                        .max_time(op_limit)
                        .await
                })
                .await?;
            let created = found.and_then(|d| d.get_datetime("createdAt").ok().copied());
            let created = created.map(DateTime::timestamp_millis);
            oldest = [oldest, created].into_iter().flatten().min();
        }
        Ok(oldest)
    }
}
