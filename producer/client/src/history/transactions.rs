//! Lists of transactions, newest first.
//!
//! A list is by `createdAt`, then by `_id`, whatever the states: these never change, so a
//! transaction keeps its place while it goes through its states, and a page after a cursor has only
//! older ones. No index knows the state. So a page is read from a stretch of so many transactions
//! at most; where few of them are in the states that are asked for, it is short or empty, and the
//! list goes on all the same. A document whose `_id` is no text, or that lacks `createdAt`, has no
//! place in the order and is left out. The list of an account is in another order
//! ([`super::of_account`]).

use std::time::SystemTime;

use ledger::LedgerError;
use ledger::transaction::State;
use mongo::{BY_CREATION, Store, TRANSACTIONS};
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

/// How many transactions are read for a page.
const READ_MAX: i32 = 20_000;

/// Transactions with their places, in the order of the server, which alone knows that of ids.
type InOrder = Vec<(Place, Document)>;

impl Client {
    /// Transactions, newest created first; of an account, those in flight and then the others,
    /// newest ended first: of those that a worker has ended together, the canceled ones before
    /// those that are done. A page has 1 to 1,000 of them, and of an account sometimes fewer or
    /// none though the list goes on; `cursor` is the `next` of the page before, with the same
    /// filter.
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
        let mut query = newest(filter, after.as_ref());
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

/// What is to be read through the index by creation.
#[derive(Clone, Debug, PartialEq)]
struct Query {
    filter: Document,
}

/// Those of all states that are asked for, by creation.
fn newest(filter: &TransactionFilter, after: Option<&Place>) -> Query {
    let mut whole = filter.place(after);
    if !filter.states.is_empty() {
        let states: Vec<Bson> = filter.states.iter().copied().map(Bson::from).collect();
        whole.insert("state", doc! { "$in": states });
    }
    Query { filter: whole }
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
            "sort": raw(&doc! { CREATED: -1, "_id": -1 })?,
            "hint": BY_CREATION,
            "skip": most,
            "limit": 1,
            "projection": raw(&doc! { CREATED: 1, "_id": 1 })?,
        };
        let place = |document: &_| {
            let document = readable(document);
            let at = document.get_datetime(CREATED).ok()?.timestamp_millis();
            Some(Place { at, id: id_of(&document)? })
        };
        Ok(store.find("transactions", command, place).await?.pop())
    }

    async fn run(&self, store: &Store, limit: usize) -> Result<InOrder, LedgerError> {
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": raw(&self.filter)?,
            "sort": raw(&doc! { CREATED: -1, "_id": -1 })?,
            "hint": BY_CREATION,
            "limit": and_one(limit),
            "batchSize": and_one(limit),
        };
        let placed = |document: &_| {
            let document = readable(document);
            let at = document.get_datetime(CREATED).ok()?.timestamp_millis();
            Some((Place { at, id: id_of(&document)? }, document))
        };
        store.find("transactions", command, placed).await
    }
}

fn raw(document: &Document) -> Result<RawDocumentBuf, LedgerError> {
    RawDocumentBuf::try_from(document)
        .map_err(|error| LedgerError::lasting("transactions", error.to_string()))
}

/// The first of what was found. One more than a page has tells that the list goes on.
fn page(of: &Value, mut found: InOrder, limit: usize) -> Page<Document> {
    let goes_on = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| goes_on);
    let next = last.map(|(place, _)| cursor::write(of, place));
    Page { items: found.into_iter().map(|(_, document)| document).collect(), next }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(states: &[State], account: Option<&str>) -> TransactionFilter {
        let account = account.map(str::to_owned);
        TransactionFilter { states: states.to_vec(), account, since: None }
    }

    #[test]
    fn pages_are_in_the_order_of_the_server_and_end_when_all_is_told() {
        let place = |at: i64, id: &str| Place { at, id: id.to_owned() };
        let document = |at: i64, id: &str| (place(at, id), doc! { "_id": id, "at": at });
        let list = json!(["transactions"]);
        let found: InOrder = vec![document(3, "a"), document(1, "10"), document(1, "9")];
        let ids = |page: &Page<Document>| -> Vec<String> {
            page.items.iter().filter_map(id_of).collect()
        };
        let page_of_two = page(&list, found.clone(), 2);
        assert_eq!(ids(&page_of_two), ["a", "10"]);
        let next = page_of_two.next.expect("one is left");
        assert_eq!(cursor::read(&list, &next), Ok(place(1, "10")));
        assert_eq!(page(&list, found.clone(), 3).next, None);
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
