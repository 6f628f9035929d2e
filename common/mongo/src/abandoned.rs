//! Native transactions whose worker is gone.
//!
//! The server keeps a transaction that nobody ends for `transactionLifetimeLimitSeconds` (a minute
//! by default), and meanwhile nobody else can write its documents. Owns ending such a transaction
//! sooner: in each round of the sweeper, and while a write waits for longer than usual, so that the
//! write is answered within its time limit. Promises to touch only transactions that Tandem's own
//! clients have begun and that nobody has sent a command of for half of the time that an operation
//! may take. If its worker was only stalled, the worker gets a conflict and tries again, which
//! harms nobody. Fails quietly where the server does not allow it; then the transaction ends after
//! the minute.

use std::time::Duration;

use futures_util::TryStreamExt;
use ledger::LedgerError;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::ReadConcern;

use super::Store;

/// Connections of Tandem have application names that begin with this.
pub(super) const APP_NAME_PREFIX: &str = "tandem ";

/// A write that waits looks so often, within its time limit, for somebody who is gone.
const LOOKS: u32 = 4;

impl Store {
    /// Runs a write that may have to wait for documents.
    pub(super) async fn unblocking<T>(&self, write: impl Future<Output = T>) -> T {
        let mut write = std::pin::pin!(write);
        loop {
            if let Ok(done) = tokio::time::timeout(self.op_limit / LOOKS, &mut write).await {
                return done;
            }
            match self.end_abandoned().await {
                Ok(0) => {}
                Ok(ended) => tracing::info!(ended, "a write waited for workers that are gone"),
                Err(error) => tracing::debug!(%error, "abandoned transactions have to run out"),
            }
        }
    }

    /// Ends native transactions that have been idle for half of the time that an operation may
    /// take; returns how many.
    ///
    /// # Errors
    /// When the server is away, or does not let this user look.
    pub async fn end_abandoned(&self) -> Result<usize, LedgerError> {
        let admin = self.database.client().database("admin");
        let pipeline = pipeline(&self.app_name, self.op_limit / 2);
        self.limited("abandoned", async move {
            // The list of running operations is no stored data, so a majority read concern makes no
            // sense.
            let looking = admin.aggregate(pipeline).read_concern(ReadConcern::local());
            let found: Vec<Document> = looking.await?.try_collect().await?;
            let session = |idle: &Document| idle.get_document("lsid").ok()?.get("id").cloned();
            let sessions: Vec<Bson> =
                found.iter().filter_map(session).map(|id| doc! { "id": id }.into()).collect();
            if !sessions.is_empty() {
                admin.run_command(doc! { "killSessions": &sessions }).await?;
            }
            Ok(sessions.len())
        })
        .await
    }
}

fn pipeline(app_name: &str, idle_for: Duration) -> [Document; 2] {
    let idle_us = i64::try_from(idle_for.as_micros()).unwrap_or(i64::MAX);
    let ours = [
        // A connection string may set the application name; all that use this string have the same
        // one.
        doc! { "appName": app_name },
        doc! { "appName": { "$regex": format!("^{APP_NAME_PREFIX}") } },
    ];
    [
        doc! { "$currentOp": { "allUsers": false, "idleSessions": true } },
        doc! { "$match": {
            "type": "idleSession",
            "transaction.timeInactiveMicros": { "$gt": idle_us },
            "$or": ours.to_vec(),
        } },
    ]
}
