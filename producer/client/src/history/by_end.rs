//! The lists that are by ends: of an account, and of what has ended in some time.
//!
//! Of an account there come first those in flight that have posted on it, by its marks, newest
//! created first. Then, and in the list of a time alone, come those that have ended, by the lines of
//! the journal ([`super::ended`]): newest line first, and within a line from its last entry to its
//! first, which has those that were canceled before those that are done. A line never changes, so a
//! page after a cursor has only what ended earlier, and the way back has the same again, with what was
//! added on top. One that ends while somebody goes from page to
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
use super::cursor::{Begin, InOrder, LinePlace, Place, Way};
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

/// A place in such a list. What is in flight is above what has ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Spot {
    Ended(LinePlace),
    InFlight(Place),
}

impl InOrder for Spot {
    const WAY: Way = Way::Down;

    fn above(&self) -> Spot {
        match self {
            Spot::Ended(place) => Spot::Ended(place.above()),
            Spot::InFlight(place) => Spot::InFlight(place.above()),
        }
    }
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
        let begin = Begin::<Spot>::of(&of, cursor)?;
        self.needs_history().await?;
        let mut room = Room::new(limit);
        let stopped = match begin.way {
            Way::Down => {
                self.take_in_flight(&mut room, filter, &begin, tell).await?;
                self.take_lines(&mut room, filter, &begin, looking, tell).await?
            }
            Way::Up => {
                let stopped = self.take_lines(&mut room, filter, &begin, looking, tell).await?;
                if stopped.is_none() {
                    self.take_in_flight(&mut room, filter, &begin, tell).await?;
                }
                stopped
            }
        };
        let is_full = room.is_over() || room.left() == 0;
        let looked_until = stopped.as_ref().filter(|_| !is_full);
        let looked_until = looked_until.map(|place| DateTime::from_millis(place.at));
        let parted = room.parted(begin.way, stopped.map(Spot::Ended));
        Ok(Page { looked_until, ..begin.page(&of, parted) })
    }

    /// Takes those in flight that are on the way, if the list has such.
    async fn take_in_flight<T: Send + 'static>(
        &self,
        room: &mut Room<Spot, T>,
        filter: &TransactionFilter,
        begin: &Begin<Spot>,
        tell: Tell<T>,
    ) -> Result<(), Error> {
        let Some(account) = filter.account.as_deref().filter(|_| !filter.is_of_ends()) else {
            return Ok(());
        };
        // All of them are above what has ended.
        let is_behind = begin.way == Way::Down && matches!(begin.gap, Some(Spot::Ended(_)));
        if room.is_over() || is_behind {
            return Ok(());
        }
        let in_flight = self.in_flight_on(account, filter, begin).await?;
        let is_it = |document: &Document, _: &Spot| filter.wants(document);
        self.take_documents(room, in_flight, is_it, tell).await
    }

    /// Takes those that have ended and are on the way. Returns where the reading was stopped, if it
    /// was before the page is over.
    async fn take_lines<T: Send + 'static>(
        &self,
        room: &mut Room<Spot, T>,
        filter: &TransactionFilter,
        begin: &Begin<Spot>,
        looking: &Looking,
        tell: Tell<T>,
    ) -> Result<Option<LinePlace>, Error> {
        let gap = match (&begin.gap, begin.way) {
            (Some(Spot::Ended(place)), _) => Some(place.clone()),
            (Some(Spot::InFlight(_)) | None, Way::Down) => None,
            // All that has ended is below what is in flight.
            (Some(Spot::InFlight(_)) | None, Way::Up) => return Ok(None),
        };
        match room.is_over() {
            true => Ok(None),
            false => self.ended(filter, Begin { gap, way: begin.way }, looking, room, tell).await,
        }
    }

    /// The transactions in flight that have posted on an account and are on the way: where they stand,
    /// in the order of their creation, or from the newest back.
    async fn in_flight_on(
        &self,
        account: &str,
        filter: &TransactionFilter,
        begin: &Begin<Spot>,
    ) -> Result<Vec<(Spot, String)>, Error> {
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
            let spots = places.map(|place| (Spot::InFlight(place.clone()), place.id));
            found.extend(spots.filter(|(spot, _)| begin.takes(spot)));
        }
        found.sort();
        if begin.way == Way::Down {
            found.reverse();
        }
        Ok(found)
    }

    /// Takes those that have ended, from a gap. Returns where the reading was stopped, if it was before
    /// the page is over.
    async fn ended<T: Send + 'static>(
        &self,
        filter: &TransactionFilter,
        mut begin: Begin<LinePlace>,
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
            let piece = || Piece::read(self.store(), lines, filter, &begin, wanted);
            let piece = self.insist(piece).await?;
            if let Some(line) = &piece.bad {
                return Err(journal::unreadable(line));
            }
            bytes += piece.bytes;
            count += piece.entries.len();
            let read_to = piece.read_to;
            self.take_ended(room, filter, piece.entries, tell).await?;
            let is_enough = bytes > BYTES_MAX || count > ENTRIES_MAX;
            let is_last = read_to.is_none() || room.is_over() || is_enough;
            match (looking.step(room.left(), is_last), read_to) {
                (Step::Ends | Step::Stops, read_to) => return Ok(read_to),
                (Step::GoesOn, Some(gap)) => begin.gap = Some(gap),
                (Step::GoesOn, None) => return Ok(None),
            }
            wanted = (room.left() + 1).max(ENTRIES_AT_ONCE);
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
