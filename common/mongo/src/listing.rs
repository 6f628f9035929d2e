//! Lists of whole documents, whatever they hold, a page at a time.
//!
//! Owns which index serves which list. Promises that a document that can't be read stands in the
//! list like any other, and that every list is read through an index. Fails with an error of the
//! command.

use std::collections::VecDeque;

use ledger::LedgerError;
use ledger::transaction::{DUE_AT, State};
use mongodb::Cursor;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::Hint;

use super::Store;
use super::names::{DUE, IN_FLIGHT};

/// How many documents are read at a time.
const PAGE: usize = 500;

/// Which transactions are listed: those in flight, then those waiting, oldest first; then those
/// that rest, soonest first; then final ones by descending id.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// Those in these states; in all states if there are none.
    pub states: Vec<State>,
    /// Those whose last owner was the worker of this name.
    pub application: Option<String>,
    /// Only these fields beside the `_id`; all fields if there are none.
    pub fields: Vec<&'static str>,
    /// So many at most.
    pub limit: u32,
}

/// A list that is read page by page.
pub struct Listing {
    store: Store,
    collection: &'static str,
    queries: VecDeque<Query>,
    projection: Option<Document>,
    left: usize,
    cursor: Option<Cursor<Document>>,
}

#[derive(Debug, PartialEq)]
struct Query {
    filter: Document,
    sort: Document,
    hint: Option<&'static str>,
}

impl Store {
    /// A list of transactions.
    ///
    /// # Errors
    /// When it can't be read which indexes the ledger has.
    pub async fn list_transactions(&self, listed: &Listed) -> Result<Listing, LedgerError> {
        let mut queries = queries(&listed.states, self.waiting_index().await?);
        if let Some(application) = &listed.application {
            queries.iter_mut().for_each(|query| {
                query.filter.insert("application", application);
            });
        }
        let fields = listed.fields.iter().map(|field| ((*field).to_owned(), Bson::from(1)));
        let projection = (!listed.fields.is_empty()).then(|| fields.collect());
        Ok(self.listing(super::TRANSACTIONS, queries, projection, listed.limit))
    }

    /// A list of accounts by their id, of those with this status.
    #[must_use]
    pub fn list_accounts(&self, status: Option<&str>, limit: u32) -> Listing {
        let filter = status.map_or_else(Document::new, |status| doc! { "status": status });
        let query = Query { filter, sort: doc! { "_id": 1 }, hint: None };
        self.listing(super::ACCOUNTS, vec![query], None, limit)
    }

    fn listing(
        &self,
        collection: &'static str,
        queries: Vec<Query>,
        projection: Option<Document>,
        limit: u32,
    ) -> Listing {
        let (store, left) = (self.clone(), limit as usize);
        Listing { store, collection, queries: queries.into(), projection, left, cursor: None }
    }
}

impl Listing {
    /// The next documents; none at the end.
    ///
    /// # Errors
    /// When the server is away. What was read before stays right, and the list does not go on.
    pub async fn next_page(&mut self) -> Result<Vec<RawDocumentBuf>, LedgerError> {
        while self.left > 0 {
            let cursor = match self.cursor.take() {
                Some(cursor) => cursor,
                None => match self.queries.pop_front() {
                    Some(query) => self.open(query).await?,
                    None => break,
                },
            };
            let most = self.left.min(PAGE);
            let whole = |document: &RawDocument| Some(document.to_owned());
            let page = self.store.page("list", cursor, most, whole).await;
            let (cursor, page) = page.map_err(LedgerError::without_effect)?;
            if let Some(page) = page {
                self.left -= page.len();
                self.cursor = (page.len() == most).then_some(cursor);
                return Ok(page);
            }
        }
        Ok(Vec::new())
    }

    async fn open(&self, query: Query) -> Result<Cursor<Document>, LedgerError> {
        let collection = self.store.database().collection::<Document>(self.collection);
        let (projection, left) = (self.projection.clone(), self.left);
        let find = async move {
            let find = collection.find(query.filter).sort(query.sort);
            let mut find = find.limit(i64::try_from(left).unwrap_or(i64::MAX));
            if let Some(projection) = projection {
                find = find.projection(projection);
            }
            if let Some(hint) = query.hint {
                find = find.hint(Hint::Name(hint.to_owned()));
            }
            find.await
        };
        self.store.limited("list", find).await.map_err(LedgerError::without_effect)
    }
}

/// One query for each index.
fn queries(states: &[State], waiting: &'static str) -> Vec<Query> {
    let newest_first = doc! { "_id": -1 };
    if states.is_empty() {
        return vec![Query { filter: doc! {}, sort: newest_first, hint: None }];
    }
    let chosen = |wanted: fn(State) -> bool| -> Option<Document> {
        let chosen = states.iter().copied().filter(|state| wanted(*state));
        let chosen: Vec<Bson> = chosen.map(Bson::from).collect();
        (!chosen.is_empty()).then(|| doc! { "state": { "$in": chosen } })
    };
    let in_flight = chosen(|state| State::IN_FLIGHT.contains(&state)).map(|filter| Query {
        filter,
        sort: doc! { "takeoverAt": 1 },
        hint: Some(IN_FLIGHT),
    });
    // The same condition as in the index; otherwise the server would not use it.
    let initial = states.contains(&State::Initial).then(|| Query {
        filter: doc! { "state": State::Initial },
        sort: doc! { "createdAt": 1 },
        hint: Some(waiting),
    });
    // Those that are due or expire, the first of them first.
    let resting: Vec<State> =
        State::RESTING.into_iter().filter(|state| states.contains(state)).collect();
    let resting = (!resting.is_empty()).then(|| Query {
        filter: doc! {
            "state": { "$in": resting.into_iter().map(Bson::from).collect::<Vec<_>>() },
            DUE_AT: { "$type": "date" },
        },
        sort: doc! { DUE_AT: 1 },
        hint: Some(DUE),
    });
    let ended =
        chosen(State::is_final).map(|filter| Query { filter, sort: newest_first, hint: None });
    [in_flight, initial, resting, ended].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::UNCLAIMED;

    #[test]
    fn unfinished_states_are_read_through_their_index() {
        let hints = |states: &[State]| -> Vec<Option<&str>> {
            queries(states, UNCLAIMED).iter().map(|query| query.hint).collect()
        };
        assert_eq!(hints(&[]), [None]);
        assert_eq!(hints(&[State::Applied, State::Pending]), [Some(IN_FLIGHT)]);
        assert_eq!(hints(&[State::Initial]), [Some(UNCLAIMED)]);
        assert_eq!(hints(&[State::Scheduled]), [Some(DUE)]);
        assert_eq!(hints(&[State::Done]), [None]);
        assert_eq!(hints(&[State::Held]), [Some(DUE)]);
        let all = [Some(IN_FLIGHT), Some(UNCLAIMED), Some(DUE), None];
        assert_eq!(hints(&State::ALL), all);
    }
}
