//! When transactions are applied, as a client of the database sees it: by a change stream.
//!
//! An event comes when a majority has the change, so it can't be lost. Only transactions whose ids
//! begin with [`SAMPLE`](super::workload::SAMPLE) are observed, to keep the load of observing small.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use layout::Layout;
use mongo::{Store, TRANSACTIONS};
use mongodb::bson::{Document, RawDocumentBuf, doc};
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
        let layout = field.store.layout().cloned();
        let pipeline = pipeline(names, layout.as_ref());
        let stream = transactions.watch().pipeline(pipeline).await;
        let mut stream = stream.map_err(|error| error.to_string())?.with_type::<Document>();
        let (tell, seen) = unbounded_channel();
        let watching = tokio::spawn(async move {
            while let Some(Ok(event)) = stream.next().await {
                let key = event.get_document("documentKey").ok().and_then(|key| key.get("_id"));
                let Some(id) = key.and_then(|id| names.text(id)) else { continue };
                if !is_decision(layout.as_ref(), &event) {
                    continue;
                }
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

/// Without a layout, events of the decision only; with one, all of the transfers that are observed.
fn pipeline(names: Names, layout: Option<&Layout>) -> [Document; 2] {
    let sampled = names.sampled();
    if layout.is_some() {
        let fields = doc! { "documentKey": 1, "fullDocument": 1, "updateDescription": 1 };
        return [doc! { "$match": { "documentKey._id": sampled } }, doc! { "$project": fields }];
    }
    let decided = doc! { "$in": DECIDED.to_vec() };
    [
        doc! { "$match": {
            "documentKey._id": sampled,
            "$or": [
                { "updateDescription.updatedFields.state": &decided },
                { "operationType": "replace", "fullDocument.state": &decided },
            ],
        } },
        doc! { "$project": { "documentKey": 1 } },
    ]
}

/// Whether an event is of the decision. What was updated may be named by the path of the state, or
/// by that of an object on the way to it, so the server can't tell.
fn is_decision(layout: Option<&Layout>, event: &Document) -> bool {
    let Some(Layout { transactions, .. }) = layout else { return true };
    let updated =
        event.get_document("updateDescription").and_then(|u| u.get_document("updatedFields"));
    let own = match (updated, event.get_document("fullDocument")) {
        (Ok(updated), _) => {
            RawDocumentBuf::try_from(updated).and_then(|raw| transactions.updated(&raw))
        }
        (Err(_), Ok(whole)) => {
            RawDocumentBuf::try_from(whole).and_then(|raw| transactions.read(&raw))
        }
        (Err(_), Err(_)) => return false,
    };
    own.is_ok_and(|own| own.get_str("state").is_ok_and(|state| DECIDED.contains(&state)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_seen_whatever_part_of_the_document_was_updated() {
        let schema =
            "[transactions]\nfields = { state = \"how.far\" }\nstate = { done = [\"paid\"] }";
        let layout = Layout::from_toml(schema).expect("it is good");
        let updated = |fields| doc! { "updateDescription": { "updatedFields": fields } };
        for (event, decided) in [
            (updated(doc! { "how.far": "paid" }), true),
            (updated(doc! { "how": { "far": "applied", "much": 5 } }), true),
            (updated(doc! { "how.far": "pending" }), false),
            (updated(doc! { "tandem.claim": "x" }), false),
            (doc! { "fullDocument": { "how": { "far": "canceled" } } }, true),
            (doc! {}, false),
        ] {
            assert_eq!(is_decision(Some(&layout), &event), decided, "{event}");
        }
    }
}
