//! Which transactions are unfinished, read from the database past all proxies.
//!
//! Uses the indexes that hold unfinished transactions only, so that a look costs the same however
//! many have been settled. Answers `None` while the database is away.

use std::time::Duration;

use common::config::MongoArgs;
use common::mongo::Store;
use common::transaction::State;
use futures_util::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::Hint;

use super::neighbour::is_neighbours;

/// How long an answer may take before it counts as missing.
const LIMIT: Duration = Duration::from_secs(2);

/// A transaction that is neither final nor on hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Its id.
    pub id: String,
    /// Who has claimed it, if somebody has.
    pub claimed_by: Option<String>,
}

/// Counts what is unfinished, past all proxies.
#[derive(Clone)]
pub struct Observer {
    /// The ledger.
    pub store: Store,
}

impl Observer {
    /// An observer of a ledger.
    ///
    /// # Errors
    /// When the connection string makes no sense.
    pub async fn new(uri: &str, database: &str) -> Result<Observer, String> {
        let mongo = MongoArgs {
            mongodb_uri: uri.to_owned(),
            database: Some(database.to_owned()),
            one_document_statements: false,
        };
        let store = Store::connect(&mongo, "chaos", Duration::from_secs(20)).await?;
        Ok(Observer { store })
    }

    /// Everything that is not final, without the careless neighbour's transactions: those may be
    /// parked until the end.
    pub async fn unfinished(&self) -> Option<Vec<Unfinished>> {
        let mut all = self.unfinished_of_all().await?;
        all.retain(|one| !is_neighbours(&one.id));
        Some(all)
    }

    /// The holds that rest, each with whether it expires.
    pub async fn resting(&self) -> Option<Vec<(String, bool)>> {
        let store = self.store.clone();
        let asking = tokio::spawn(async move {
            let held = doc! { "dueAt": { "$type": "date" }, "state": State::Held };
            let transactions = store.transactions();
            let find = transactions.find(held).hint(Hint::Name("due".to_owned())).max_time(LIMIT);
            let found: Vec<Document> = find.await?.try_collect().await?;
            Ok::<_, mongodb::error::Error>(found)
        });
        let found = tokio::time::timeout(LIMIT, asking).await.ok()?.ok()?.ok()?;
        let held = |document: &Document| {
            let expires = document.get_datetime("holdExpiresAt").is_ok();
            Some((document.get_str("_id").ok()?.to_owned(), expires))
        };
        Some(found.iter().filter_map(held).collect())
    }

    /// Everything that workers have something to do with.
    pub async fn unfinished_of_all(&self) -> Option<Vec<Unfinished>> {
        let store = self.store.clone();
        // Spawned, because a driver's future must not be dropped midway.
        let asking = tokio::spawn(async move {
            let in_flight = State::IN_FLIGHT.map(Bson::from).to_vec();
            let mut found = find(&store, doc! { "state": State::Initial }, "unclaimed").await?;
            found.extend(find(&store, doc! { "state": { "$in": in_flight } }, "in_flight").await?);
            Ok::<_, mongodb::error::Error>(found)
        });
        tokio::time::timeout(LIMIT, asking).await.ok()?.ok()?.ok()
    }
}

async fn find(
    store: &Store,
    filter: Document,
    index: &str,
) -> Result<Vec<Unfinished>, mongodb::error::Error> {
    let transactions = store.transactions();
    let find = transactions
        .find(filter)
        .hint(Hint::Name(index.to_owned()))
        .projection(doc! { "application": 1, "claim": 1 })
        .max_time(LIMIT);
    let documents: Vec<Document> = find.await?.try_collect().await?;
    let unfinished = |document: &Document| {
        let text = |field: &str| document.get_str(field).ok().map(str::to_owned);
        let claimed_by = document.contains_key("claim").then(|| text("application")).flatten();
        Some(Unfinished { id: text("_id")?, claimed_by })
    };
    Ok(documents.iter().filter_map(unfinished).collect())
}
