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
use mongodb::bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf, doc, rawdoc};
use serde_json::{Value, json};

use super::cursor::{self, Place};
use super::room::{AT_ONCE, Room, Tell, Told};
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

impl Client {
    /// Transactions, newest created first; of an account, those in flight and then the others,
    /// newest ended first: of those that a worker has ended together, the canceled ones before
    /// those that are done. A page has 1 to 1,000 of them; it has fewer where they have more than
    /// [`PAGE_BYTES_MAX`](super::PAGE_BYTES_MAX) together, and of an account sometimes fewer or none,
    /// though the list goes on. `cursor` is the `next` of the page before, with the same filter.
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
        self.transactions_told(filter, limit, cursor, Told::whole).await
    }

    /// The same, with what `tell` makes of each document. One document at a time is in memory as a
    /// tree, which is many times as large as what is stored.
    ///
    /// # Errors
    /// As [`Client::transactions`].
    pub async fn transactions_told<T: Send + 'static>(
        &self,
        filter: &TransactionFilter,
        limit: u32,
        cursor: Option<&str>,
        tell: Tell<T>,
    ) -> Result<Page<T>, Error> {
        let limit = check_limit(limit)?;
        if let Some(account) = &filter.account {
            return self.transactions_of(account, filter, limit, cursor, tell).await;
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
        let room = self.insist(|| query.run(self.store(), limit, tell)).await?;
        Ok(room.page(end, |place| cursor::write(&of, place)))
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
        let found = |document: &_| place(&readable(document));
        Ok(store.find("transactions", command, found).await?.pop())
    }

    /// The page in the order of the server, which alone knows that of ids.
    async fn run<T: Send + 'static>(
        &self,
        store: &Store,
        limit: usize,
        tell: Tell<T>,
    ) -> Result<Room<Place, T>, LedgerError> {
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": raw(&self.filter)?,
            "sort": raw(&doc! { CREATED: -1, "_id": -1 })?,
            "hint": BY_CREATION,
            // One more than a page has tells that the list goes on.
            "limit": and_one(limit),
        };
        let more = move |room: &mut Room<Place, T>, stored: &RawDocument| {
            let document = readable(stored);
            let Some(place) = place(&document) else { return true };
            room.take(place, stored.as_bytes().len(), tell(document))
        };
        store.find_while("transactions", command, AT_ONCE, Room::new(limit), more).await
    }
}

fn raw(document: &Document) -> Result<RawDocumentBuf, LedgerError> {
    RawDocumentBuf::try_from(document)
        .map_err(|error| LedgerError::lasting("transactions", error.to_string()))
}

/// Where a document stands in the order, if it has a place there.
pub(super) fn place(document: &Document) -> Option<Place> {
    let at = document.get_datetime(CREATED).ok()?.timestamp_millis();
    Some(Place { at, id: id_of(document)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(states: &[State], account: Option<&str>) -> TransactionFilter {
        let account = account.map(str::to_owned);
        TransactionFilter { states: states.to_vec(), account, since: None }
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
