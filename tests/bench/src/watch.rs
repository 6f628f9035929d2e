//! When transactions are applied, as a client of the database sees it: by a change stream.
//!
//! An event comes when a majority has the change, so it can't be lost. Only transactions whose ids
//! begin with [`SAMPLE`] are observed, to keep the load of observing small.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use mongo::Store;
use mongodb::bson::{Document, doc};
use settings::MongoSettings;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use super::field::Field;
use super::workload::SAMPLE;

/// A transaction in one of these states has passed its commit point, or will never reach it.
const DECIDED: [&str; 3] = ["applied", "done", "canceled"];

/// Tells when transactions reach a state, by a change stream.
pub struct Watcher {
    seen: UnboundedReceiver<(String, Instant)>,
    watching: JoinHandle<()>,
}

impl Watcher {
    /// Watches the transactions of a field, from now on.
    ///
    /// # Errors
    /// When the server does not allow it.
    pub async fn open(field: &Field) -> Result<Watcher, String> {
        // A client of its own: its only connection waits for events.
        let mongo = MongoSettings {
            one_document_statements: false,
            accept_index: vec![],
            mongodb_uri: field.world.servers.mongodb_uri.clone(),
            database: Some(field.world.name.clone()),
        };
        let store = Store::connect(&mongo, "bench watch", Duration::from_secs(10)).await?;
        let stream = store.transactions().watch().pipeline(pipeline()).await;
        let mut stream = stream.map_err(|error| error.to_string())?.with_type::<Document>();
        let (tell, seen) = unbounded_channel();
        let watching = tokio::spawn(async move {
            while let Some(Ok(event)) = stream.next().await {
                let key = event.get_document("documentKey").and_then(|key| key.get_str("_id"));
                let Ok(id) = key else { continue };
                if tell.send((id.to_owned(), Instant::now())).is_err() {
                    return;
                }
            }
        });
        Ok(Watcher { seen, watching })
    }

    /// The next transaction that is decided, and when it was seen; some come more than once.
    /// `None` when none comes in time.
    pub async fn next(&mut self, limit: Duration) -> Option<(String, Instant)> {
        tokio::time::timeout(limit, self.seen.recv()).await.ok()?
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

fn pipeline() -> [Document; 2] {
    let decided = doc! { "$in": DECIDED.to_vec() };
    [
        doc! { "$match": {
            "documentKey._id": { "$regex": format!("^{SAMPLE}") },
            "$or": [
                { "updateDescription.updatedFields.state": &decided },
                { "operationType": "replace", "fullDocument.state": &decided },
            ],
        } },
        doc! { "$project": { "documentKey": 1 } },
    ]
}
