//! Lists of whole documents, whatever they hold, a page at a time.
//!
//! Owns which index serves which list. Promises that a document that can't be read stands in the
//! list like any other, and that every list is read through an index. Fails with an error of the
//! command.

use std::collections::VecDeque;

use layout::{Answer, Command};
use ledger::LedgerError;
use ledger::transaction::{DUE_AT, State};
use mongodb::Cursor;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc, rawdoc};

use super::Store;
use super::names::{BY_CREATION, DUE};
use super::open::{OpenSource, OpenSources};
use super::read::cstr;
use super::statements::raw;

/// The operation.
const LIST: &str = "list";

/// How many documents are read at a time.
const PAGE: usize = 500;

/// How many transactions are read at most that were created since the sweepers' mark, in the search
/// for those that wait or are in flight.
const READ_MAX: u32 = 500_000;

/// Which transactions are listed that are not final: those that wait or are in flight, oldest first,
/// and before them those that sweepers have passed; then those that rest, soonest first.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// Those in these states. A final one has none.
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
    answer: Answer,
    capped: bool,
}

#[derive(Debug, PartialEq)]
struct Query {
    filter: Document,
    sort: Document,
    hint: Option<&'static str>,
}

impl Store {
    /// A list of transactions that are not final.
    ///
    /// # Errors
    /// When it can't be read how far the sweepers have come.
    pub async fn list_transactions(&self, listed: &Listed) -> Result<Listing, LedgerError> {
        let open = match listed.states.iter().any(|state| works(*state)) {
            true => self.open_sources(READ_MAX).await?,
            false => OpenSources::default(),
        };
        let mut queries = queries(&listed.states, &open.sources);
        if let Some(application) = &listed.application {
            queries.iter_mut().for_each(|query| {
                query.filter.insert("application", application);
            });
        }
        let fields = listed.fields.iter().map(|field| ((*field).to_owned(), Bson::from(1)));
        let projection = (!listed.fields.is_empty()).then(|| fields.collect());
        let listing = self.listing(super::TRANSACTIONS, queries, projection, listed.limit);
        Ok(Listing { capped: open.until.is_some(), ..listing })
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
        Listing {
            store,
            collection,
            queries: queries.into(),
            projection,
            left,
            cursor: None,
            answer: Answer::Own,
            capped: false,
        }
    }
}

impl Listing {
    /// Whether some that wait or are in flight may be missing, because too many were created since
    /// the sweepers' mark to look at all of them.
    #[must_use]
    pub fn is_capped(&self) -> bool {
        self.capped
    }

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
            let page = self.store.page(LIST, cursor, &self.answer, most, whole).await;
            let (cursor, page) = page.map_err(LedgerError::without_effect)?;
            if let Some(page) = page {
                self.left -= page.len();
                self.cursor = (page.len() == most).then_some(cursor);
                return Ok(page);
            }
        }
        Ok(Vec::new())
    }

    async fn open(&mut self, query: Query) -> Result<Cursor<Document>, LedgerError> {
        let mut command = rawdoc! {
            "find": self.collection,
            "filter": raw(&query.filter),
            "limit": i64::try_from(self.left).unwrap_or(i64::MAX),
        };
        let options = [("sort", Some(query.sort)), ("projection", self.projection.clone())];
        for (name, option) in options {
            if let Some(option) = option.filter(|option| !option.is_empty()) {
                command.append(cstr(name), raw(&option));
            }
        }
        if let Some(hint) = query.hint {
            command.append(cstr("hint"), hint);
        }
        let database = self.store.database().clone();
        let Command { sent, answer } =
            self.store.sent(LIST, self.store.reading(LIST, command)).await?;
        self.answer = answer;
        let find = async move { database.run_raw_cursor_command(sent).await };
        self.store.limited(LIST, find).await.map_err(LedgerError::without_effect)
    }
}

/// One query for each index.
fn queries(states: &[State], open: &[OpenSource]) -> Vec<Query> {
    let chosen = states.iter().copied().filter(|state| works(*state));
    let chosen: Vec<Bson> = chosen.map(Bson::from).collect();
    let chosen = (!chosen.is_empty()).then(|| doc! { "state": { "$in": chosen } });
    // What sweepers have passed is older than what was created since their mark.
    let working = chosen.map(|states| {
        let below = open.iter().filter(|source| source.hint != BY_CREATION);
        let since = open.iter().filter(|source| source.hint == BY_CREATION);
        let queries = below.chain(since).map(move |source| {
            let mut filter = source.filter.clone();
            filter.extend(states.clone());
            // No order is asked for: it is the index's.
            Query { filter, sort: doc! {}, hint: Some(source.hint) }
        });
        queries.collect::<Vec<_>>()
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
    working.into_iter().flatten().chain(resting).collect()
}

/// Whether workers have something to do with it.
fn works(state: State) -> bool {
    State::UNFINISHED.contains(&state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_states_are_read_through_their_indexes() {
        let source = |hint| OpenSource { filter: doc! { hint: 1 }, hint };
        let open = [source(BY_CREATION), source("swept"), source("parked")];
        let hints = |states: &[State]| -> Vec<Option<&str>> {
            queries(states, &open).iter().map(|query| query.hint).collect()
        };
        let working = [Some("swept"), Some("parked"), Some(BY_CREATION)];
        assert_eq!(hints(&[State::Applied, State::Pending]), working);
        assert_eq!(hints(&[State::Initial]), working);
        assert_eq!(hints(&[State::Scheduled]), [Some(DUE)]);
        assert_eq!(hints(&[State::Held]), [Some(DUE)]);
        let [swept, parked, created] = working;
        assert_eq!(hints(&State::ALL), [swept, parked, created, Some(DUE)]);
        assert_eq!(hints(&[State::Done]), []);
    }
}
