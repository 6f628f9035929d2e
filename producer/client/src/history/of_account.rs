//! The list of an account's transactions.
//!
//! First come those in flight that have posted on the account, by its marks, newest created first;
//! then those that have ended and name it, by the lines of the journal: newest line first, and
//! within a line from its last entry to its first, which has those that were canceled before those
//! that are done. A line never changes, so a page after a cursor has only what ended earlier. One
//! that ends while somebody goes from page to page may be met twice. Of a line only the ids are
//! told: the transactions are read by these, and one whose document is gone, or is no longer what
//! has ended there, is left out. So is one in flight whose `_id` is no text, or that lacks
//! `createdAt`. A line that makes no sense ends the list with [`Error::Refused`], which names it.
//!
//! A page reads no more than so many bytes of lines ([`BYTES_MAX`]) and so many documents. Then it
//! may have fewer than it has room for, and goes on from there.

use std::collections::{BTreeMap, HashMap};

use ledger::LedgerError;
use ledger::account::marks_from_raw;
use ledger::event::End;
use ledger::transaction::State;
use mongo::{
    ACCOUNTS, BY_ACCOUNT, BadLine, Fields, JOURNAL, Line, Mention, Store, TRANSACTIONS, lines_of,
};
use mongodb::bson::{DateTime, Document, RawDocument, RawDocumentBuf, doc, rawdoc};
use serde::{Deserialize, Serialize};

use super::Page;
use super::cursor::{self, LinePlace, Place};
use super::journal::{self, BYTES_MAX};
use super::room::{AT_ONCE, Room, Tell};
use super::transactions::{CREATED, TransactionFilter, place};
use crate::client::Client;
use crate::error::Error;
use crate::readable::readable;

/// States in which nothing is posted on an account or has ended there.
const UNLISTED: [(State, &str); 2] = [
    (State::Initial, "initial transactions are not listed by account; leave one of them out"),
    (State::Scheduled, "scheduled transactions are not listed by account; leave one of them out"),
];
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
    /// A page of the list of an account.
    pub(super) async fn transactions_of<T: Send + 'static>(
        &self,
        account: &str,
        filter: &TransactionFilter,
        limit: usize,
        cursor: Option<&str>,
        tell: Tell<T>,
    ) -> Result<Page<T>, Error> {
        for (state, problem) in UNLISTED {
            if filter.states.contains(&state) {
                return Err(Error::invalid("state", problem));
            }
        }
        let of = filter.list();
        let after: Option<Spot> = cursor.map(|cursor| cursor::read(&of, cursor)).transpose()?;
        self.needs_history().await?;
        let mut room = Room::new(limit);
        let in_flight = self.in_flight_on(account, filter, after.as_ref()).await?;
        let is_it = |document: &Document, _: &Spot| filter.wants(document);
        self.take_documents(&mut room, in_flight, is_it, tell).await?;
        let behind = match after {
            Some(Spot::Ended(place)) => Some(place),
            Some(Spot::InFlight(_)) | None => None,
        };
        let mut stopped = None;
        if !room.is_over() {
            stopped = self.ended_on(account, filter, behind, &mut room, tell).await?;
        }
        Ok(room.page(stopped.map(Spot::Ended), |spot| cursor::write(&of, spot)))
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
            let fields = Fields::Only(&["state", CREATED]);
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

    /// Takes those that have ended and name the account, after a place. Returns where the reading was
    /// stopped, if it was before the page is over.
    async fn ended_on<T: Send + 'static>(
        &self,
        account: &str,
        filter: &TransactionFilter,
        mut after: Option<LinePlace>,
        room: &mut Room<Spot, T>,
        tell: Tell<T>,
    ) -> Result<Option<LinePlace>, Error> {
        let (mut bytes, mut count) = (0, 0);
        if filter.ends().is_empty() {
            return Ok(None);
        }
        self.insist(|| undated(self.store(), account)).await??;
        // One more than there is room for tells that the list goes on.
        let mut wanted = room.left() + 1;
        loop {
            let piece = || Piece::read(self.store(), account, filter, after.as_ref(), wanted);
            let piece = self.insist(piece).await?;
            if let Some(line) = &piece.bad {
                return Err(journal::unreadable(line));
            }
            bytes += piece.bytes;
            count += piece.entries.len();
            after = piece.read_to;
            self.take_ended(room, filter, piece.entries, tell).await?;
            if after.is_none() || room.is_over() {
                return Ok(None);
            }
            if bytes > BYTES_MAX || count > ENTRIES_MAX {
                return Ok(after);
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
                state == ends.get(place).map(|end| end.as_str()) && filter.is_since(document)
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

/// An entry of a line that names the account.
struct Ended {
    place: LinePlace,
    id: String,
    end: End,
}

/// What was read of the lines at once.
#[derive(Default)]
struct Piece {
    /// Newest first.
    entries: Vec<Ended>,
    /// So many bytes of lines were read.
    bytes: usize,
    /// Where the next piece begins; none where there are no more lines.
    read_to: Option<LinePlace>,
    /// The line that has ended the reading.
    bad: Option<BadLine>,
}

impl Piece {
    /// Reads lines after a place until there are so many entries, or so many bytes.
    async fn read(
        store: &Store,
        account: &str,
        filter: &TransactionFilter,
        after: Option<&LinePlace>,
        wanted: usize,
    ) -> Result<Piece, LedgerError> {
        let command = rawdoc! {
            "find": JOURNAL,
            "filter": raw(&filter.lines(account, after))?,
            "sort": { "at": -1, "_id": -1 },
            "hint": BY_ACCOUNT,
        };
        let (account, ends, after) = (account.to_owned(), filter.ends(), after.cloned());
        let more = move |piece: &mut Piece, line: &RawDocument| {
            let added = piece.add(line, &account, &ends, after.as_ref(), wanted);
            added.unwrap_or_else(|line| {
                piece.bad = Some(line);
                false
            })
        };
        store.read_while("transactions", command, Piece::default(), more).await
    }

    /// Adds the entries of a line, from the last to the first. Returns whether there is room for
    /// more.
    fn add(
        &mut self,
        line: &RawDocument,
        account: &str,
        ends: &[End],
        after: Option<&LinePlace>,
        wanted: usize,
    ) -> Result<bool, BadLine> {
        self.bytes += line.as_bytes().len();
        let line = Line::from_raw(line)?;
        let place = |entry| LinePlace { at: line.at, line: line.id.to_owned(), entry };
        for Mention { entry, id, end } in line.naming(account, ends)?.into_iter().rev() {
            let place = place(entry);
            if after.is_some_and(|after| place >= *after) {
                continue;
            }
            if self.entries.len() == wanted {
                self.read_to = self.entries.last().map(|last| last.place.clone());
                return Ok(false);
            }
            self.entries.push(Ended { place, id: id.to_owned(), end });
        }
        let is_enough = self.bytes > BYTES_MAX;
        self.read_to = is_enough.then(|| place(0));
        Ok(!is_enough)
    }
}

impl TransactionFilter {
    /// The ends that are meant.
    fn ends(&self) -> Vec<End> {
        let meant = |end: &End| self.states.is_empty() || self.states.contains(&end.state());
        End::ALL.into_iter().filter(meant).collect()
    }

    /// Whether a document of a transaction in flight is meant.
    fn wants(&self, document: &Document) -> bool {
        let state = document.get_str("state").ok().and_then(State::parse);
        let is_meant = |state: State| {
            !state.is_final() && (self.states.is_empty() || self.states.contains(&state))
        };
        state.is_some_and(is_meant) && self.is_since(document)
    }

    fn is_since(&self, document: &Document) -> bool {
        let created = document.get_datetime(CREATED).map(|at| at.to_system_time());
        self.since.is_none_or(|since| created.is_ok_and(|created| created >= since))
    }

    /// The lines of an account, from a place on. Nothing ends before it is created.
    fn lines(&self, account: &str, after: Option<&LinePlace>) -> Document {
        let since = self.since.map_or(DateTime::MIN, DateTime::from_system_time);
        let to = after.map_or(DateTime::MAX, |place| DateTime::from_millis(place.at));
        let mut filter = lines_of(account);
        filter.insert("at", doc! { "$gte": since, "$lte": to });
        if let Some(after) = after {
            // Under `$nor` the server takes it for no condition of the index, whose bounds are
            // above.
            filter.insert("$nor", [doc! { "at": to, "_id": { "$gt": &after.line } }]);
        }
        filter
    }
}

/// A line without a moment has no place in the list.
async fn undated(store: &Store, account: &str) -> Result<Result<(), Error>, LedgerError> {
    let command = rawdoc! {
        "find": JOURNAL,
        "filter": raw(&journal::undated(account))?,
        "projection": { "_id": 1 },
        "hint": BY_ACCOUNT,
        "limit": 1,
    };
    let found = store.find("transactions", command, |line| Some(Line::undated(line))).await?;
    Ok(found.first().map_or(Ok(()), |line| Err(journal::unreadable(line))))
}

fn raw(document: &Document) -> Result<RawDocumentBuf, LedgerError> {
    RawDocumentBuf::try_from(document)
        .map_err(|error| LedgerError::lasting("transactions", error.to_string()))
}
