//! Lists of transactions, newest first.
//!
//! A list is read through one index or a few and merged. It is by `createdAt`, then by `_id`: these
//! never change, so a transaction keeps its place while it goes through its states, and a page
//! after a cursor has only older ones. Queries follow a transaction's life: one that moves on while
//! they run is met again by a later query, and counts as that query saw it. A document whose `_id`
//! is no text, or that lacks `createdAt`, has no place in the order and is left out. The list of an
//! account is in another order ([`super::of_account`]).

use std::collections::BTreeMap;
use std::time::SystemTime;

use ledger::LedgerError;
use ledger::transaction::State;
use mongo::{BY_STATE, IN_FLIGHT, Store, TRANSACTIONS};
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
    /// Only those of this account: those in flight that have posted on it, and those that workers
    /// have ended and that name it. One that no worker has begun with is not among them.
    pub account: Option<String>,
    /// Only those that were created at this moment or later.
    pub since: Option<SystemTime>,
}

/// The field of the order of all lists but those of an account.
pub(super) const CREATED: &str = "createdAt";

/// Transactions by their places.
type InOrder = BTreeMap<Place, Document>;

impl Client {
    /// Transactions, newest created first; of an account, those in flight and then the others,
    /// newest ended first: of those that a worker has ended together, the canceled ones before those
    /// that are done. A page has 1 to 1,000 of them, and of an account sometimes fewer or none
    /// though the list goes on; `cursor` is the `next` of the page before, with the same filter.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a wrong limit or cursor, and for the states `initial` and `scheduled`
    /// of an account; [`Error::WithoutHistory`]; [`Error::Refused`] when a line of the account in
    /// the journal can't be read; and when the server stays away.
    pub async fn transactions(
        &self,
        filter: &TransactionFilter,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<Document>, Error> {
        let limit = check_limit(limit)?;
        if let Some(account) = &filter.account {
            return self.transactions_of(account, filter, limit, cursor).await;
        }
        let of = filter.list();
        let after: Option<Place> = cursor.map(|cursor| cursor::read(&of, cursor)).transpose()?;
        self.needs_history().await?;
        let mut found = InOrder::new();
        for query in queries(filter, after.as_ref()) {
            found.extend(self.insist(|| query.run(self.store(), limit)).await?);
        }
        Ok(page(&of, found, limit))
    }
}

impl TransactionFilter {
    /// What a cursor is bound to.
    pub(super) fn list(&self) -> Value {
        let mut states: Vec<&str> = self.states.iter().map(|state| state.as_str()).collect();
        states.sort_unstable();
        states.dedup();
        let since = self.since.map(|since| DateTime::from_system_time(since).timestamp_millis());
        json!(["transactions", states, self.account, since])
    }

    /// The condition on the order: within the filter's time, and after the cursor.
    fn place(&self, after: Option<&Place>) -> Document {
        let since = self.since.map_or(DateTime::MIN, DateTime::from_system_time);
        let to = after.map_or(DateTime::MAX, |place| DateTime::from_millis(place.at));
        let mut place = doc! { CREATED: { "$gte": since, "$lte": to }, "_id": { "$gte": "" } };
        if let Some(after) = after {
            // Under `$nor` the server takes it for no condition of the index, whose bounds are
            // above.
            place.insert("$nor", [doc! { CREATED: to, "_id": { "$gte": &after.id } }]);
        }
        place
    }
}

/// What one index yields.
#[derive(Clone, Debug, PartialEq)]
struct Query {
    filter: Document,
    /// The server sorts those in flight, which are few; all others are in the order of their index.
    hint: &'static str,
}

/// One query for each index, in the order of a transaction's life.
fn queries(filter: &TransactionFilter, after: Option<&Place>) -> Vec<Query> {
    let query = |condition: Document, hint| {
        let mut whole = condition;
        whole.extend(filter.place(after));
        Query { filter: whole, hint }
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

impl Query {
    async fn run(&self, store: &Store, limit: usize) -> Result<InOrder, LedgerError> {
        let raw = |document: &Document| {
            RawDocumentBuf::try_from(document)
                .map_err(|error| LedgerError::lasting("transactions", error.to_string()))
        };
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": raw(&self.filter)?,
            "sort": raw(&doc! { CREATED: -1, "_id": -1 })?,
            "hint": self.hint,
            "limit": and_one(limit),
            "batchSize": and_one(limit),
        };
        let placed = |document: &_| {
            let document = readable(document);
            let at = document.get_datetime(CREATED).ok()?.timestamp_millis();
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
