//! Lists of transactions, newest first.
//!
//! A list is read through one index or a few and merged. Without an account it is by `createdAt`,
//! then by `_id`: these never change, so a transaction keeps its place while it goes through its
//! states, and a page after a cursor has only older ones. Of an account there are first those in
//! flight that have posted on it, by its marks, and then those that have ended, by the moment of
//! their end. So one that ends while somebody goes from page to page may be met twice. Queries
//! follow a transaction's life: one that moves on while they run is met again by a later query, and
//! counts as that query saw it. A document whose `_id` is no text, or that lacks the moment of the
//! order, has no place in it and is left out.

use std::collections::BTreeMap;
use std::time::SystemTime;

use ledger::LedgerError;
use ledger::account::marks_from_raw;
use ledger::transaction::State;
use mongo::{
    ACCOUNTS, BY_STATE, ENDED_BY_ACCOUNT, ENDED_ON, Fields, IN_FLIGHT, Store, TRANSACTIONS,
};
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc, rawdoc};
use serde_json::{Value, json};

use super::cursor::{self, Place};
use super::{Page, and_one, check_limit, id_of};
use crate::client::Client;
use crate::error::Error;
use crate::readable::readable;

/// Which transactions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionFilter {
    /// Only those in these states; empty for all.
    pub states: Vec<State>,
    /// Only those of this account: those in flight that have posted on it, and those that have
    /// ended and name it. One that no worker has begun with is not among them.
    pub account: Option<String>,
    /// Only those that were created at this moment or later.
    pub since: Option<SystemTime>,
}

/// The field of the order of all lists but those of an account.
const CREATED: &str = "createdAt";
/// The field of the order of what has ended: nothing changes it any more.
const ENDED: &str = "lastModified";

/// What the moments of transactions in flight count from in a list of an account, so that they
/// stand before all that have ended. In milliseconds: far beyond every date.
const IN_FLIGHT_FROM_MS: i64 = 1 << 60;

/// How many documents are read at once by an account's marks.
const MARKS_AT_ONCE: usize = 1_000;

/// Transactions by their places.
type InOrder = BTreeMap<Place, Document>;

impl Client {
    /// Transactions, newest created first; of an account, those in flight and then the others,
    /// newest ended first. A page has 1 to 1,000 of them; `cursor` is the `next` of the page
    /// before, with the same filter.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a wrong limit or cursor, and for the states `initial` and `scheduled`
    /// of an account; [`Error::WithoutHistory`]; and when the server stays away.
    pub async fn transactions(
        &self,
        filter: &TransactionFilter,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<Document>, Error> {
        let limit = check_limit(limit)?;
        let of = filter.list();
        let after: Option<Place> = cursor.map(|cursor| cursor::read(&of, cursor)).transpose()?;
        if filter.account.is_some() && filter.states.contains(&State::Initial) {
            let problem = "initial transactions are not listed by account; leave one of them out";
            return Err(Error::invalid("state", problem));
        }
        if filter.account.is_some() && filter.states.contains(&State::Scheduled) {
            let problem = "scheduled transactions are not listed by account; leave one of them out";
            return Err(Error::invalid("state", problem));
        }
        self.needs_history().await?;
        let mut found = match &filter.account {
            Some(account) => self.in_flight_on(account, filter, after.as_ref()).await?,
            None => InOrder::new(),
        };
        for query in queries(filter, after.as_ref()) {
            found.extend(self.insist(|| query.run(self.store(), limit)).await?);
        }
        Ok(page(&of, found, limit))
    }

    /// The transactions in flight that have posted on an account, after the cursor.
    async fn in_flight_on(
        &self,
        account: &str,
        filter: &TransactionFilter,
        after: Option<&Place>,
    ) -> Result<InOrder, Error> {
        if after.is_some_and(|after| after.at < IN_FLIGHT_FROM_MS) {
            return Ok(InOrder::new());
        }
        let ids = [account];
        let fields = Fields::Only(&["pendingTransactions"]);
        let read = || self.store().documents("account", ACCOUNTS, &ids, fields);
        let found = self.insist(read).await?.pop();
        let marks = found.and_then(|account| marks_from_raw(&account).ok()).unwrap_or_default();
        let marks: Vec<&str> = marks.iter().map(AsRef::as_ref).collect();
        let mut found = InOrder::new();
        for ids in marks.chunks(MARKS_AT_ONCE) {
            let read = || self.store().documents("transactions", TRANSACTIONS, ids, Fields::All);
            let documents = self.insist(read).await?;
            let documents = documents.iter().map(|document| readable(document));
            let placed =
                documents.filter(|document| filter.wants(document)).filter_map(|document| {
                    let created = document.get_datetime(CREATED).ok()?.timestamp_millis();
                    // Others write dates, too: of before 1970, or of the end of time.
                    let at = IN_FLIGHT_FROM_MS.saturating_add(created.max(0));
                    Some((Place { at, id: id_of(&document)? }, document))
                });
            found.extend(placed.filter(|(place, _)| after.is_none_or(|after| place < after)));
        }
        Ok(found)
    }
}

impl TransactionFilter {
    /// What a cursor is bound to.
    fn list(&self) -> Value {
        let mut states: Vec<&str> = self.states.iter().map(|state| state.as_str()).collect();
        states.sort_unstable();
        states.dedup();
        let since = self.since.map(|since| DateTime::from_system_time(since).timestamp_millis());
        json!(["transactions", states, self.account, since])
    }

    /// Whether a document of a transaction in flight is meant.
    fn wants(&self, document: &Document) -> bool {
        let state = document.get_str("state").ok().and_then(State::parse);
        let created = document.get_datetime("createdAt").map(|at| at.to_system_time());
        state.is_some_and(|state| {
            !state.is_final() && (self.states.is_empty() || self.states.contains(&state))
        }) && self.since.is_none_or(|since| created.is_ok_and(|created| created >= since))
    }

    /// The condition on the order by this moment: within the filter's time, and after the cursor.
    fn place(&self, moment: &str, after: Option<&Place>) -> Document {
        let since = self.since.map_or(DateTime::MIN, DateTime::from_system_time);
        let to = after.map_or(DateTime::MAX, |place| DateTime::from_millis(place.at));
        // Nothing ends before it is created.
        let mut place = doc! { moment: { "$gte": since, "$lte": to }, "_id": { "$gte": "" } };
        if moment != CREATED {
            place.insert(CREATED, doc! { "$gte": since });
        }
        if let Some(after) = after {
            // Under `$nor` the server takes it for no condition of the index, whose bounds are
            // above.
            place.insert("$nor", [doc! { moment: to, "_id": { "$gte": &after.id } }]);
        }
        place
    }
}

/// What one index yields.
#[derive(Clone, Debug, PartialEq)]
struct Query {
    filter: Document,
    hint: &'static str,
    /// The field by which it is ordered. The server sorts those in flight, which are few; all
    /// others are in the order of their index.
    moment: &'static str,
}

/// One query for each index, in the order of a transaction's life.
fn queries(filter: &TransactionFilter, after: Option<&Place>) -> Vec<Query> {
    if let Some(account) = &filter.account {
        return ended_of(account, filter, after).into_iter().collect();
    }
    let query = |condition: Document, hint| {
        let mut whole = condition;
        whole.extend(filter.place(CREATED, after));
        Query { filter: whole, hint, moment: CREATED }
    };
    let asked = |state: &State| filter.states.is_empty() || filter.states.contains(state);
    // One for each state: of several the server would read all, and sort them.
    let stays = |state| asked(&state).then(|| query(doc! { "state": state }, BY_STATE));
    let flying: Vec<Bson> = State::IN_FLIGHT.into_iter().filter(asked).map(Bson::from).collect();
    let in_flight =
        (!flying.is_empty()).then(|| query(doc! { "state": { "$in": flying } }, IN_FLIGHT));
    let held = stays(State::Held);
    // A hold is in flight before it rests, and again when it was confirmed or released.
    let before_held = in_flight.clone().filter(|_| held.is_some());
    let life = [stays(State::Scheduled), stays(State::Initial), before_held, held, in_flight];
    let ended = State::ALL.into_iter().filter(|state| state.is_final()).map(stays);
    life.into_iter().chain(ended).flatten().collect()
}

/// Those that have ended and name the account.
fn ended_of(account: &str, filter: &TransactionFilter, after: Option<&Place>) -> Option<Query> {
    let wanted = |state: &State| filter.states.is_empty() || filter.states.contains(state);
    let states = State::ALL.into_iter().filter(|state| state.is_final() && wanted(state));
    let states: Vec<Bson> = states.map(Bson::from).collect();
    if states.is_empty() {
        return None;
    }
    // A cursor among those in flight stands before all that have ended.
    let after = after.filter(|after| after.at < IN_FLIGHT_FROM_MS);
    let mut whole = doc! { ENDED_ON: account, "state": { "$in": &states } };
    whole.extend(filter.place(ENDED, after));
    Some(Query { filter: whole, hint: ENDED_BY_ACCOUNT, moment: ENDED })
}

impl Query {
    async fn run(&self, store: &Store, limit: usize) -> Result<InOrder, LedgerError> {
        let raw = |document: &Document| {
            RawDocumentBuf::try_from(document)
                .map_err(|error| LedgerError::lasting("transactions", error.to_string()))
        };
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": raw(&self.filter)?,
            "sort": raw(&doc! { self.moment: -1, "_id": -1 })?,
            "hint": self.hint,
            "limit": and_one(limit),
            "batchSize": and_one(limit),
        };
        let moment = self.moment;
        let placed = move |document: &_| {
            let document = readable(document);
            let at = document.get_datetime(moment).ok()?.timestamp_millis();
            Some((Place { at, id: id_of(&document)? }, document))
        };
        Ok(store.find("transactions", command, placed).await?.into_iter().collect())
    }
}

/// The newest of what the queries have found. Each has found one more than a page has, so what is
/// beyond a query's end is beyond the page.
fn page(of: &Value, mut found: InOrder, limit: usize) -> Page<Document> {
    let mut items = Vec::with_capacity(found.len().min(limit));
    let mut last = None;
    while items.len() < limit
        && let Some((place, document)) = found.pop_last()
    {
        items.push(document);
        last = Some(place);
    }
    let next = last.filter(|_| !found.is_empty()).map(|place| cursor::write(of, &place));
    Page { items, next }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(states: &[State], account: Option<&str>) -> TransactionFilter {
        let account = account.map(str::to_owned);
        TransactionFilter { states: states.to_vec(), account, since: None }
    }

    #[test]
    fn each_filter_is_read_through_indexes_that_fit_it() {
        let hints = |filter: &TransactionFilter| -> Vec<&str> {
            queries(filter, None).iter().map(|query| query.hint).collect()
        };
        assert_eq!(hints(&of(&[State::Done], None)), [BY_STATE]);
        assert_eq!(hints(&of(&[State::Applied, State::Pending], None)), [IN_FLIGHT]);
        for state in [State::Scheduled, State::Initial, State::Held] {
            assert_eq!(hints(&of(&[state], None)).first(), Some(&BY_STATE), "{state}");
        }
        let life = [BY_STATE, BY_STATE, IN_FLIGHT, BY_STATE, IN_FLIGHT, BY_STATE, BY_STATE];
        assert_eq!(hints(&of(&State::ALL, None)), life);
        assert_eq!(hints(&of(&[], None)), life);
        assert_eq!(hints(&of(&[], Some("a"))), ["ended_on"]);
        assert_eq!(hints(&of(&[State::Done], Some("a"))), ["ended_on"]);
        assert!(hints(&of(&[State::Applied], Some("a"))).is_empty(), "its marks name them");
    }

    #[test]
    fn pages_are_merged_in_order_without_repeats_and_end_when_all_is_told() {
        let place = |at: i64, id: &str| Place { at, id: id.to_owned() };
        let document = |at: i64, id: &str| (place(at, id), doc! { "_id": id, "at": at });
        let list = json!(["transactions"]);
        let first = vec![document(3, "a"), document(1, "c"), document(1, "a")];
        let second = vec![document(2, "b"), document(1, "c"), document(1, "b")];
        let found: InOrder = first.into_iter().chain(second).collect();
        let ids = |page: &Page<Document>| -> Vec<String> {
            page.items.iter().filter_map(id_of).collect()
        };
        let page_of_four = page(&list, found.clone(), 4);
        assert_eq!(ids(&page_of_four), ["a", "b", "c", "b"]);
        let next = page_of_four.next.expect("one is left");
        assert_eq!(cursor::read(&list, &next), Ok(place(1, "b")));
        assert_eq!(page(&list, found.clone(), 5).next, None);
        assert_eq!(page(&list, InOrder::new(), 5), Page { items: vec![], next: None });
    }

    #[test]
    fn a_cursor_is_bound_to_the_filter_and_not_to_the_order_of_its_states() {
        let filter = of(&[State::Done, State::Initial], Some("a"));
        let same = of(&[State::Initial, State::Done, State::Done], Some("a"));
        assert_eq!(filter.list(), same.list());
        let since = Some(SystemTime::UNIX_EPOCH);
        let others = [
            of(&[State::Done], Some("a")),
            of(&[State::Done, State::Initial], Some("b")),
            of(&[State::Done, State::Initial], None),
            TransactionFilter { since, ..filter.clone() },
        ];
        for other in others {
            assert_ne!(filter.list(), other.list());
        }
    }
}
