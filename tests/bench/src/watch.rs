//! When transactions are applied, as a client of the database sees it: by a change stream.
//!
//! An event comes when a majority has the change, so it can't be lost. Only transactions whose ids
//! begin with [`SAMPLE`](super::workload::SAMPLE) are observed, to keep the load of observing small.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use layout::Layout;
use mongo::{Store, TRANSACTIONS};
use mongodb::bson::{Document, doc};
use settings::MongoSettings;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use super::field::Field;
use super::names::Names;

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
        let names = field.names;
        let transactions =
            store.database().collection::<Document>(field.store.stored_name(TRANSACTIONS));
        let pipeline = pipeline(names, field.store.layout());
        let stream = transactions.watch().pipeline(pipeline).await;
        let mut stream = stream.map_err(|error| error.to_string())?.with_type::<Document>();
        let (tell, seen) = unbounded_channel();
        let watching = tokio::spawn(async move {
            while let Some(Ok(event)) = stream.next().await {
                let key = event.get_document("documentKey").ok().and_then(|key| key.get("_id"));
                let Some(id) = key.and_then(|id| names.text(id)) else { continue };
                if tell.send((id, Instant::now())).is_err() {
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

fn pipeline(names: Names, layout: Option<&Layout>) -> [Document; 2] {
    let updated = match layout {
        None => doc! { "updateDescription.updatedFields.state": { "$in": DECIDED.to_vec() } },
        // The names of what was updated are paths, and the path of a filter would lead into them.
        Some(layout) => {
            let state = layout.transactions.path("state");
            let field = doc! { "$literal": state.as_ref() };
            let updated = "$updateDescription.updatedFields";
            let word = doc! { "$getField": { "field": field, "input": updated } };
            doc! { "$expr": { "$in": [word, words(layout)] } }
        }
    };
    let (state, decided) = match layout {
        None => ("fullDocument.state".to_owned(), DECIDED.to_vec()),
        Some(layout) => {
            (format!("fullDocument.{}", layout.transactions.path("state")), words(layout))
        }
    };
    let replaced = doc! { "operationType": "replace", state: { "$in": decided } };
    [
        doc! { "$match": { "documentKey._id": names.sampled(), "$or": [updated, replaced] } },
        doc! { "$project": { "documentKey": 1 } },
    ]
}

/// The owner's words for those states.
fn words(layout: &Layout) -> Vec<&str> {
    DECIDED.into_iter().flat_map(|state| layout.transactions.words(state)).collect()
}
