//! Lists of transactions, newest first.
//!
//! Without an account a list is by `createdAt`, then by `_id`, whatever the states: these never
//! change, so a transaction keeps its place while it goes through its states, and a page after a
//! cursor has only older ones. No index knows the state. So a page is read from a stretch of so many
//! transactions at most; where few of them are in the states that are asked for, it is short or
//! empty, and the list goes on all the same. Of an account there are first those in
//! flight that have posted on it, by its marks, and then those that have ended, by the moment of
//! their end. So one that ends while somebody goes from page to page may be met twice. A document whose `_id` is no text, or that lacks the moment of the
//! order, has no place in it and is left out.

use std::collections::BTreeMap;
use std::time::SystemTime;

use ledger::LedgerError;
use ledger::account::marks_from_raw;
use ledger::transaction::State;
use mongo::{ACCOUNTS, BY_CREATION, ENDED_BY_ACCOUNT, ENDED_ON, Fields, Store, TRANSACTIONS};
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

/// How many transactions are read for a page by creation.
const READ_MAX: i32 = 20_000;

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
        let Some(account) = &filter.account else {
            return self.newest(filter, limit, after.as_ref()).await;
        };
        self.needs_history().await?;
        let mut found = self.in_flight_on(account, filter, after.as_ref()).await?;
        if let Some(query) = ended_of(account, filter, after.as_ref()) {
            found.extend(self.insist(|| query.run(self.store(), limit)).await?);
        }
        Ok(page(&of, found, limit))
    }

    /// A page by creation, of any states.
    async fn newest(
        &self,
        filter: &TransactionFilter,
        limit: usize,
        after: Option<&Place>,
    ) -> Result<Page<Document>, Error> {
        let of = filter.list();
        let mut query = newest(filter, after);
        let mut end = None;
        if !filter.states.is_empty() {
            let skip = || query.skipped(self.store(), READ_MAX);
            end = self.insist(skip).await?;
        }
        if let Some(end) = &end {
            let from = DateTime::from_millis(end.at);
            query.and(doc! { CREATED: { "$gte": from } });
            let before_end = doc! { CREATED: from, "_id": { "$lt": &end.id } };
            query.and(doc! { "$nor": [before_end] });
        }
        let found = self.insist(|| query.run(self.store(), limit)).await?;
        let mut page = page(&of, found, limit);
        if page.next.is_none() {
            page.next = end.map(|end| cursor::write(&of, &end));
        }
        Ok(page)
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
    /// The field by which it is ordered, as its index is.
    moment: &'static str,
}

/// Those of all states that are asked for, by creation.
fn newest(filter: &TransactionFilter, after: Option<&Place>) -> Query {
    let mut whole = filter.place(CREATED, after);
    if !filter.states.is_empty() {
        let states: Vec<Bson> = filter.states.iter().copied().map(Bson::from).collect();
        whole.insert("state", doc! { "$in": states });
    }
    Query { filter: whole, hint: BY_CREATION, moment: CREATED }
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
    fn and(&mut self, condition: Document) {
        let filter = std::mem::take(&mut self.filter);
        self.filter = doc! { "$and": [filter, condition] };
    }

    /// The place of the last of so many, whatever their states: the page after it begins there.
    /// None if there are no more.
    async fn skipped(&self, store: &Store, most: i32) -> Result<Option<Place>, LedgerError> {
        let mut filter = self.filter.clone();
        filter.remove("state");
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": raw(&filter)?,
            "sort": raw(&doc! { self.moment: -1, "_id": -1 })?,
            "hint": self.hint,
            "skip": most,
            "limit": 1,
            "projection": raw(&doc! { self.moment: 1, "_id": 1 })?,
        };
        let moment = self.moment;
        let place = move |document: &_| {
            let document = readable(document);
            let at = document.get_datetime(moment).ok()?.timestamp_millis();
            Some(Place { at, id: id_of(&document)? })
        };
        Ok(store.find("transactions", command, place).await?.pop())
    }

    async fn run(&self, store: &Store, limit: usize) -> Result<InOrder, LedgerError> {
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

fn raw(document: &Document) -> Result<RawDocumentBuf, LedgerError> {
    RawDocumentBuf::try_from(document)
        .map_err(|error| LedgerError::lasting("transactions", error.to_string()))
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
    fn each_filter_is_read_through_an_index_that_fits_it() {
        for states in [&[][..], &[State::Done], &State::ALL] {
            assert_eq!(newest(&of(states, None), None).hint, "by_creation");
        }
        let ended = |states| ended_of("a", &of(states, Some("a")), None).map(|query| query.hint);
        assert_eq!(ended(&[]), Some("ended_on"));
        assert_eq!(ended(&[State::Done]), Some("ended_on"));
        assert_eq!(ended(&[State::Applied]), None, "its marks name them");
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
