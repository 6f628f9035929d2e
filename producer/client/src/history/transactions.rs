//! Lists of transactions, newest first.
//!
//! A list is by `createdAt`, then by `_id`, whatever the states: these never change, so a
//! transaction keeps its place while it goes through its states, and a page after a cursor has only
//! older ones. No index knows the state, the reason or the worker. So a page that asks for one of
//! them looks through stretches of so many transactions, until it is full or its time is up
//! ([`super::looking`]); then it is short or empty, says how far back it has looked, and the list
//! goes on. A document whose `_id` is no text, or that lacks `createdAt`, has no place in the order
//! and is left out. The list of an account, or of what has ended in some time, is in another order
//! ([`super::by_end`]).

use std::time::Duration;

use ledger::LedgerError;
use mongo::{BY_CREATION, Store, TRANSACTIONS};
use mongodb::bson::{DateTime, Document, RawDocument, RawDocumentBuf, doc, rawdoc};

use super::cursor::{Begin, Place, Way};
use super::filter::{CREATED, Order, TransactionFilter};
use super::looking::{LOOK_FOR, Looking, Step};
use super::room::{AT_ONCE, Room, Tell, Told};
use super::{Page, and_one, check_limit, id_of};
use crate::client::Client;
use crate::error::Error;
use crate::readable::readable;

/// How many transactions a stretch has.
const STRETCH: i32 = 5_000;

impl Client {
    /// Transactions, newest created first; of an account, those in flight and then the others,
    /// newest ended first, and so those that are asked for by the time of their end: of those that
    /// a worker has ended together, the canceled ones come before those that are done. A page has 1
    /// to 1,000 of them; it has fewer where they have more than
    /// [`PAGE_BYTES_MAX`](super::PAGE_BYTES_MAX) together, and fewer or none where it has looked for
    /// [`LOOK_FOR`], though the list goes on. `cursor` is the `next` of the page before, or the `prev`
    /// of the one behind, with the same filter.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a wrong limit or cursor, for a time that runs backwards, and for the
    /// states `initial` and `scheduled` of an account; [`Error::WithoutHistory`];
    /// [`Error::Refused`] when a line in the journal can't be read; and when the server stays away.
    pub async fn transactions(
        &self,
        filter: &TransactionFilter,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<Document>, Error> {
        self.transactions_told(filter, limit, cursor, LOOK_FOR, Told::whole).await
    }

    /// The same, with what `tell` makes of each document, and with the time that the page may look.
    /// One document at a time is in memory as a tree, which is many times as large as what is
    /// stored.
    ///
    /// # Errors
    /// As [`Client::transactions`].
    pub async fn transactions_told<T: Send + 'static>(
        &self,
        filter: &TransactionFilter,
        limit: u32,
        cursor: Option<&str>,
        look_for: Duration,
        tell: Tell<T>,
    ) -> Result<Page<T>, Error> {
        let limit = check_limit(limit)?;
        filter.check()?;
        let looking = Looking::new(filter.leaves_out().then_some(look_for));
        match filter.order() {
            Order::ByEnd => self.transactions_by_end(filter, limit, cursor, &looking, tell).await,
            Order::ByCreation => self.newest(filter, limit, cursor, &looking, tell).await,
        }
    }

    /// A page of a list by creation.
    async fn newest<T: Send + 'static>(
        &self,
        filter: &TransactionFilter,
        limit: usize,
        cursor: Option<&str>,
        looking: &Looking,
        tell: Tell<T>,
    ) -> Result<Page<T>, Error> {
        let of = filter.list();
        let begin = Begin::<Place>::of(&of, cursor)?;
        let (way, mut from) = (begin.way, begin.clone());
        let (mut items, mut so_far) = (Vec::new(), Room::<Place, T>::new(limit));
        loop {
            let mut query = Query::new(filter, &from);
            let mut end = None;
            if filter.leaves_out() {
                end = self.insist(|| query.skipped(self.store(), STRETCH)).await?;
            }
            if let Some(end) = &end {
                query.stretch_to(end);
            }
            let room = self.insist(|| query.run(self.store(), so_far.rest(), tell)).await?;
            so_far = room.rest();
            let (is_over, left) = (room.is_over(), room.left());
            let (read, on) = room.parted(way, end.clone().map(|end| way.past(end)));
            items.extend(read);
            let looked_until = match looking.step(left, is_over || end.is_none()) {
                Step::Ends => None,
                Step::Stops => end.map(|end| DateTime::from_millis(end.at)),
                Step::GoesOn => {
                    from.gap = on.or(from.gap);
                    continue;
                }
            };
            return Ok(Page { looked_until, ..begin.page(&of, (items, on)) });
        }
    }
}

/// What is to be read through the index by creation.
#[derive(Clone, Debug, PartialEq)]
struct Query {
    /// The condition on the order: within the filter's time, and on the way of the page.
    place: Document,
    /// What else is asked for.
    conditions: Document,
    way: Way,
}

impl Query {
    /// Those that are asked for, from a gap.
    fn new(filter: &TransactionFilter, Begin { gap, way }: &Begin<Place>) -> Query {
        let moment = gap.as_ref().map_or(DateTime::MAX, |gap| DateTime::from_millis(gap.at));
        let mut place = doc! { CREATED: filter.created(moment, *way), "_id": { "$gte": "" } };
        if let Some(gap) = gap {
            let beyond = match way {
                Way::Up => "$lt",
                Way::Down => "$gte",
            };
            // Under `$nor` the server takes it for no condition of the index, whose bounds are
            // above.
            place.insert("$nor", [doc! { CREATED: moment, "_id": { beyond: &gap.id } }]);
        }
        Query { place, conditions: filter.conditions(), way: *way }
    }

    /// Ends with this place, which belongs to it.
    fn stretch_to(&mut self, end: &Place) {
        let moment = DateTime::from_millis(end.at);
        let (within, beyond) = match self.way {
            Way::Up => ("$lte", "$gt"),
            Way::Down => ("$gte", "$lt"),
        };
        let within = doc! { CREATED: { within: moment } };
        let beyond = doc! { "$nor": [{ CREATED: moment, "_id": { beyond: &end.id } }] };
        let place = std::mem::take(&mut self.place);
        self.place = doc! { "$and": [place, within, beyond] };
    }

    fn sort(&self) -> Document {
        match self.way {
            Way::Up => doc! { CREATED: 1, "_id": 1 },
            Way::Down => doc! { CREATED: -1, "_id": -1 },
        }
    }

    /// The place of the last of so many, whatever else is asked for: what comes after it begins
    /// there. None if there are no more.
    async fn skipped(&self, store: &Store, most: i32) -> Result<Option<Place>, LedgerError> {
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": raw(&self.place)?,
            "sort": raw(&self.sort())?,
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
        room: Room<Place, T>,
        tell: Tell<T>,
    ) -> Result<Room<Place, T>, LedgerError> {
        let mut filter = self.place.clone();
        filter.extend(self.conditions.clone());
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": raw(&filter)?,
            "sort": raw(&self.sort())?,
            "hint": BY_CREATION,
            // One more than a page has tells that the list goes on.
            "limit": and_one(room.left()),
        };
        let more = move |room: &mut Room<Place, T>, stored: &RawDocument| {
            let document = readable(stored);
            let Some(place) = place(&document) else { return true };
            room.take(place, stored.as_bytes().len(), tell(document))
        };
        store.find_while("transactions", command, AT_ONCE, room, more).await
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
