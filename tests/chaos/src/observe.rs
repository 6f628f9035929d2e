//! Which transactions are unfinished, read from the database past all proxies.
//!
//! Uses the sweepers' mark and the indexes of what they have passed, so that a look costs the same
//! however many have been settled. Promises that nothing counts as unfinished that waits for a
//! client or for a moment that has not come. Answers `None` while the database is away.

use std::time::Duration;

use futures_util::TryStreamExt;
use layout::Layout;
use ledger::transaction::State;
use mongo::{OpenSource, PROGRESS, Place, Progress, Store, TRANSACTIONS, open_sources};
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use mongodb::error::Error;
use mongodb::options::Hint;
use settings::MongoSettings;

use super::faults::now_ms;
use super::neighbour::is_neighbours;

/// How long an answer may take before it counts as missing.
const LIMIT: Duration = Duration::from_secs(2);

/// A transaction that workers have something to do with: it is in flight, or a moment for which it
/// was scheduled, or at which it expires, has come and nobody has moved it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Its id.
    pub id: String,
    /// Who has claimed it, if somebody has.
    pub claimed_by: Option<String>,
    /// Whether it comes to rest as a hold next. Its end then says nothing of the workers: that
    /// waits for a client, or until it expires.
    pub rests_next: bool,
}

impl Unfinished {
    fn read(document: &Document) -> Option<Unfinished> {
        let text = |field: &str| document.get_str(field).ok().map(str::to_owned);
        let claimed_by = document.contains_key("claim").then(|| text("application")).flatten();
        let is_hold = document.get_bool("hold").unwrap_or(false);
        let is_confirmed = document.contains_key("confirmedAt");
        let rests_next = match State::parse(&text("state")?)? {
            State::Scheduled | State::Initial | State::Pending => is_hold && !is_confirmed,
            // One that is held has expired.
            State::Held | State::Applied | State::Canceling | State::Done | State::Canceled => {
                false
            }
        };
        Some(Unfinished { id: text("_id")?, claimed_by, rests_next })
    }
}

/// A transaction that waits for a client or for a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resting {
    /// Its id.
    pub id: String,
    /// Whether it is on hold; it is scheduled otherwise.
    pub is_held: bool,
    /// When it is due or expires, in Unix milliseconds; far away if a hold does not.
    pub due_ms: i64,
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
    pub async fn new(
        uri: &str,
        database: &str,
        layout: Option<Layout>,
    ) -> Result<Observer, String> {
        let mongo = MongoSettings {
            mongodb_uri: uri.to_owned(),
            database: Some(database.to_owned()),
            one_document_statements: false,
            accept_index: vec![],
        };
        let store = Store::connect(&mongo, "chaos", Duration::from_secs(20)).await?;
        let store = match layout {
            Some(layout) => store.with_layout(layout),
            None => store,
        };
        Ok(Observer { store })
    }

    /// Everything that is not final, without the careless neighbour's transactions: those may be
    /// parked until the end.
    pub async fn unfinished(&self) -> Option<Vec<Unfinished>> {
        let mut all = self.unfinished_of_all().await?;
        all.retain(|one| !is_neighbours(&one.id));
        Some(all)
    }

    /// What is held or scheduled.
    pub async fn resting(&self) -> Option<Vec<Resting>> {
        let store = self.store.clone();
        let asking = tokio::spawn(async move { waiting(&store, None).await });
        let found = tokio::time::timeout(LIMIT, asking).await.ok()?.ok()?.ok()?;
        let resting = |document: &Document| {
            Some(Resting {
                id: document.get_str("_id").ok()?.to_owned(),
                is_held: document.get_str("state").ok()? == State::Held.as_str(),
                due_ms: document.get_datetime("dueAt").ok()?.timestamp_millis(),
            })
        };
        Some(found.iter().filter_map(resting).collect())
    }

    /// Everything that workers have something to do with.
    pub async fn unfinished_of_all(&self) -> Option<Vec<Unfinished>> {
        let store = self.store.clone();
        // Spawned, because a driver's future must not be dropped midway.
        let asking = tokio::spawn(async move {
            let states = State::UNFINISHED.map(Bson::from).to_vec();
            let mut found = Vec::new();
            for OpenSource { mut filter, hint } in open_sources(mark(&store).await?.as_ref(), None)
            {
                filter.insert("state", doc! { "$in": &states });
                found.extend(find(&store, filter, hint).await?);
            }
            found.extend(waiting(&store, Some(now_ms())).await?);
            Ok::<_, Error>(found)
        });
        let found = tokio::time::timeout(LIMIT, asking).await.ok()?.ok()?.ok()?;
        Some(found.iter().filter_map(Unfinished::read).collect())
    }
}

/// How far the sweepers have come.
async fn mark(store: &Store) -> Result<Option<Place>, Error> {
    let progress = store.database().collection::<RawDocumentBuf>(PROGRESS);
    let found = progress.find_one(Progress::filter()).await?;
    Ok(found.and_then(|found| Progress::read(&found).mark))
}

/// What is held or scheduled; with a moment, only that whose moment has come by then.
async fn waiting(store: &Store, until_ms: Option<i64>) -> Result<Vec<Document>, Error> {
    let mut due = doc! { "$type": "date" };
    if let Some(ms) = until_ms {
        due.insert("$lte", DateTime::from_millis(ms));
    }
    let states = [State::Scheduled, State::Held].map(Bson::from).to_vec();
    find(store, doc! { "dueAt": due, "state": { "$in": states } }, "due").await
}

async fn find(store: &Store, filter: Document, index: &str) -> Result<Vec<Document>, Error> {
    let fields = ["application", "claim", "state", "hold", "confirmedAt", "dueAt"];
    let fields: Document = fields.into_iter().map(|field| (field.to_owned(), 1.into())).collect();
    let asked = doc! { "filter": filter, "projection": fields };
    let query = store.query(TRANSACTIONS, asked)?;
    let find = query.find().hint(Hint::Name(index.to_owned())).max_time(LIMIT);
    let found: Vec<RawDocumentBuf> = find.await?.try_collect().await?;
    let read = |found: &RawDocumentBuf| Document::try_from(query.read(found).as_ref());
    found.iter().map(read).collect::<Result<_, _>>().map_err(Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_rests_next_until_it_is_confirmed_or_turned_to_its_undoing() {
        let rests = |state: &str, hold: bool, is_confirmed: bool| {
            let mut document = doc! { "_id": "t", "state": state, "hold": hold };
            if is_confirmed {
                document.insert("confirmedAt", DateTime::from_millis(1));
            }
            Unfinished::read(&document).expect("readable").rests_next
        };
        for state in ["scheduled", "initial", "pending"] {
            assert!(rests(state, true, false), "{state}");
            assert!(!rests(state, false, false), "{state}");
        }
        assert!(!rests("pending", true, true), "confirmed, and not settled");
        for state in ["held", "applied", "canceling"] {
            assert!(!rests(state, true, false), "{state}");
        }
    }
}
