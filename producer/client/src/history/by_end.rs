//! The lists that are by ends: of an account, and of what has ended in some time.
//!
//! Of an account there come first those in flight that have posted on it, by its marks, newest
//! created first. Then, and in the list of a time alone, come those that have ended, by the lines of
//! the journal ([`super::ended`]): newest line first, and within a line from its last entry to its
//! first, which has those that were canceled before those that are done. A line never changes, so a
//! page after a cursor has only what ended earlier. One that ends while somebody goes from page to
//! page may be met twice. Of a line only the ids are told: the transactions are read by these, and
//! one whose document is gone, or is no longer what has ended there, is left out. So is one in
//! flight whose `_id` is no text, or that lacks `createdAt`. A line that makes no sense ends the
//! list with [`Error::Refused`], which names it.
//!
//! A page reads no more than so many bytes of lines ([`BYTES_MAX`]) and so many documents, and looks
//! no longer than it may where the filter leaves some out. Then it may have fewer than it has room
//! for, says until when it has looked, and goes on from there.

use std::collections::{BTreeMap, HashMap};

use ledger::account::marks_from_raw;
use mongo::{ACCOUNTS, Fields, TRANSACTIONS};
use mongodb::bson::{DateTime, Document, RawDocumentBuf};
use serde::{Deserialize, Serialize};

use super::Page;
use super::cursor::{self, LinePlace, Place};
use super::ended::{Ended, Lines, Piece, check_dated};
use super::filter::{CREATED, TransactionFilter};
use super::journal::{self, BYTES_MAX};
use super::looking::{Looking, Step};
use super::room::{AT_ONCE, Room, Tell};
use super::transactions::place;
use crate::client::Client;
use crate::error::Error;
use crate::readable::readable;

/// How many documents are read at once by an account's marks.
const MARKS_AT_ONCE: usize = 1_000;
/// How many documents are read at once by entries of lines, at least, after the first look: where
/// many are gone, a page of few would else take many looks.
const ENTRIES_AT_ONCE: usize = 100;
/// How many entries of lines a page looks up before it ends.
const ENTRIES_MAX: usize = 10_000;

/// Where a page ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Spot {
    InFlight(Place),
    Ended(LinePlace),
}

impl Client {
    /// A page of such a list.
    pub(super) async fn transactions_by_end<T: Send + 'static>(
        &self,
        filter: &TransactionFilter,
        limit: usize,
        cursor: Option<&str>,
        looking: &Looking,
        tell: Tell<T>,
    ) -> Result<Page<T>, Error> {
        let of = filter.list();
        let after: Option<Spot> = cursor.map(|cursor| cursor::read(&of, cursor)).transpose()?;
        self.needs_history().await?;
        let mut room = Room::new(limit);
        if let Some(account) = filter.account.as_deref().filter(|_| !filter.is_of_ends()) {
            let in_flight = self.in_flight_on(account, filter, after.as_ref()).await?;
            let is_it = |document: &Document, _: &Spot| filter.wants(document);
            self.take_documents(&mut room, in_flight, is_it, tell).await?;
        }
        let behind = match after {
            Some(Spot::Ended(place)) => Some(place),
            Some(Spot::InFlight(_)) | None => None,
        };
        let mut stopped = None;
        if !room.is_over() {
            stopped = self.ended(filter, behind, looking, &mut room, tell).await?;
        }
        let is_full = room.is_over() || room.left() == 0;
        let looked_until = stopped.as_ref().filter(|_| !is_full);
        let looked_until = looked_until.map(|place| DateTime::from_millis(place.at));
        let page = room.page(stopped.map(Spot::Ended), |spot| cursor::write(&of, spot));
        Ok(Page { looked_until, ..page })
    }

    /// The transactions in flight that have posted on an account, after the cursor: where they stand,
    /// newest created first.
    async fn in_flight_on(
        &self,
        account: &str,
        filter: &TransactionFilter,
        after: Option<&Spot>,
    ) -> Result<Vec<(Spot, String)>, Error> {
        let after = match after {
            Some(Spot::Ended(_)) => return Ok(Vec::new()),
            Some(Spot::InFlight(place)) => Some(place),
            None => None,
        };
        let ids = [account];
        let fields = Fields::Only(&["pendingTransactions"]);
        let read = || self.store().documents("account", ACCOUNTS, &ids, fields);
        let found = self.insist(read).await?.pop();
        let marks = found.and_then(|account| marks_from_raw(&account).ok()).unwrap_or_default();
        let marks: Vec<&str> = marks.iter().map(AsRef::as_ref).collect();
        let mut found = Vec::new();
        for ids in marks.chunks(MARKS_AT_ONCE) {
            let fields = Fields::Only(&["state", CREATED, "reason", "application"]);
            let read = || self.store().documents("transactions", TRANSACTIONS, ids, fields);
            let documents = self.insist(read).await?;
            let documents = documents.iter().map(|document| readable(document));
            let places = documents.filter(|document| filter.wants(document));
            let places = places.filter_map(|document| place(&document));
            found.extend(places.filter(|place| after.is_none_or(|after| place < after)));
        }
        found.sort();
        found.reverse();
        let spot = |place: Place| (Spot::InFlight(place.clone()), place.id);
        Ok(found.into_iter().map(spot).collect())
    }

    /// Takes those that have ended, after a place. Returns where the reading was stopped, if it was
    /// before the page is over.
    async fn ended<T: Send + 'static>(
        &self,
        filter: &TransactionFilter,
        mut after: Option<LinePlace>,
        looking: &Looking,
        room: &mut Room<Spot, T>,
        tell: Tell<T>,
    ) -> Result<Option<LinePlace>, Error> {
        let (mut bytes, mut count) = (0, 0);
        if filter.ends().is_empty() {
            return Ok(None);
        }
        let lines = Lines::new(filter);
        self.insist(|| check_dated(self.store(), lines)).await??;
        // One more than there is room for tells that the list goes on.
        let mut wanted = room.left() + 1;
        loop {
            let piece = || Piece::read(self.store(), lines, filter, after.as_ref(), wanted);
            let piece = self.insist(piece).await?;
            if let Some(line) = &piece.bad {
                return Err(journal::unreadable(line));
            }
            bytes += piece.bytes;
            count += piece.entries.len();
            after = piece.read_to;
            self.take_ended(room, filter, piece.entries, tell).await?;
            let is_enough = bytes > BYTES_MAX || count > ENTRIES_MAX;
            match looking.step(room.left(), after.is_none() || room.is_over() || is_enough) {
                Step::Ends | Step::Stops => return Ok(after),
                Step::GoesOn => wanted = (room.left() + 1).max(ENTRIES_AT_ONCE),
            }
        }
    }

    /// Takes the documents of entries, without those that are gone or have ended otherwise.
    async fn take_ended<T: Send + 'static>(
        &self,
        room: &mut Room<Spot, T>,
        filter: &TransactionFilter,
        entries: Vec<Ended>,
        tell: Tell<T>,
    ) -> Result<(), Error> {
        let mut ends = BTreeMap::new();
        let mut spots = Vec::new();
        for Ended { place, id, end } in entries {
            ends.insert(place.clone(), end);
            spots.push((Spot::Ended(place), id));
        }
        let is_it = |document: &Document, spot: &Spot| match spot {
            Spot::InFlight(_) => false,
            Spot::Ended(place) => {
                let state = document.get_str("state").ok();
                state == ends.get(place).map(|end| end.as_str()) && filter.passes(document)
            }
        };
        self.take_documents(room, spots, is_it, tell).await
    }

    /// Takes documents in this order, those that are meant, until the page is over.
    async fn take_documents<T: Send + 'static>(
        &self,
        room: &mut Room<Spot, T>,
        spots: Vec<(Spot, String)>,
        is_it: impl Fn(&Document, &Spot) -> bool,
        tell: Tell<T>,
    ) -> Result<(), Error> {
        for spots in spots.chunks(AT_ONCE) {
            let ids: Vec<&str> = spots.iter().map(|(_, id)| id.as_str()).collect();
            let read = || self.store().documents("transactions", TRANSACTIONS, &ids, Fields::All);
            let stored = self.insist(read).await?;
            let mut stored: HashMap<&str, &RawDocumentBuf> = stored
                .iter()
                .filter_map(|document| Some((document.get_str("_id").ok()?, document)))
                .collect();
            for (spot, id) in spots {
                let Some(stored) = stored.remove(id.as_str()) else { continue };
                let document = readable(stored);
                let (bytes, is_meant) = (stored.as_bytes().len(), is_it(&document, spot));
                if is_meant && !room.take(spot.clone(), bytes, tell(document)) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
