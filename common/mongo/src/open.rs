//! Where what is not final is found: in the index by creation from a mark on, and below the mark in
//! small indexes of its own.
//!
//! Owns places in the index by creation, reading that index in pieces of so many entries, and which
//! queries together have everything that is not final. A piece is bounded by what the server reads,
//! not by what it finds: however much is final, or is no submission, a piece costs the same. An
//! index entry says where a document is, whatever its `createdAt` and its `_id` hold; so the bounds
//! are entries as the server has sent them, and a document with a list of dates has a place for
//! each of them. Nothing asks for an order: bounds and hint already give that of the index, and the
//! server would sort all of it if one such document were there. Only a router needs to be told, as
//! it merges the answers of several servers. Fails with an error of the command.

use ledger::transaction::{DUE_AT, State};
use ledger::{LedgerError, ServerMs};
use mongodb::bson::{
    DateTime, Document, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, doc, rawdoc,
};

use super::dates::{date_or_null, is_date};
use super::names::{BY_CREATION, PARKED, SWEPT, TRANSACTIONS};
use super::raw::RawId;
use super::read::cstr;
use super::submissions::foreign;
use super::{MongoOutbox, Store};

/// A place in the index by creation: an entry `{createdAt, _id}`, or a bound between two.
#[derive(Clone, Debug, PartialEq)]
pub struct Place(RawDocumentBuf);

impl Place {
    fn of(created: impl Into<RawBson>, id: RawBson) -> Place {
        let (created, mut place) = (created.into(), RawDocumentBuf::new());
        place.append(cstr("createdAt"), created);
        place.append(cstr("_id"), id);
        Place(place)
    }

    /// Before everything.
    #[must_use]
    pub fn first() -> Place {
        Place::of(RawBson::MinKey, RawBson::MinKey)
    }

    /// After everything.
    #[must_use]
    pub fn last() -> Place {
        Place::of(RawBson::MaxKey, RawBson::MaxKey)
    }

    /// Before everything that is dated at this moment or later.
    #[must_use]
    pub fn before(moment: ServerMs) -> Place {
        Place::of(DateTime::from_millis(moment), RawBson::MinKey)
    }

    /// After everything that has a date.
    #[must_use]
    pub fn after_dates() -> Place {
        Place::of(DateTime::MAX, RawBson::MaxKey)
    }

    /// Its date; none where other types stand in the index.
    #[must_use]
    pub fn date(&self) -> Option<ServerMs> {
        self.0.get_datetime("createdAt").ok().map(DateTime::timestamp_millis)
    }

    /// As it was written; none where that is no place.
    pub(super) fn read(document: &RawDocument) -> Option<Place> {
        let fields: Vec<&str> =
            document.iter_elements().flatten().map(|e| e.key().as_str()).collect();
        (fields == ["createdAt", "_id"]).then(|| Place(document.to_owned()))
    }

    pub(super) fn to_raw(&self) -> RawDocumentBuf {
        self.0.clone()
    }
}

/// When a transaction in flight may be taken over, as its document says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// Nothing, or null: at any time.
    Nothing,
    /// Not a date, so nobody knows.
    OtherType,
    /// After this moment of the server's clock.
    At(ServerMs),
}

/// A transaction that is not final, and neither parked nor a stranger's document.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// Its `_id`, of whatever text.
    pub id: RawId,
    /// Its state.
    pub state: State,
    /// When it was created, by the clock of whoever did so; none if that is no date.
    pub created: Option<ServerMs>,
    /// When others may take it over.
    pub takeover: Takeover,
    /// Whether the index of what is due has it.
    pub has_moment: bool,
    /// When sweepers look at it again.
    pub stamp: Option<ServerMs>,
}

impl Open {
    /// Its place in the index; none where it has no date, and so perhaps several.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        // The bytes of its `_id` may be no valid text.
        let mut place = RawDocumentBuf::new();
        place.append(cstr("createdAt"), DateTime::from_millis(self.created?));
        let mut bytes = place.into_bytes();
        let id = self.id.as_bytes();
        bytes.truncate(bytes.len() - 1);
        bytes.extend_from_slice(&id[4..]);
        let length = i32::try_from(bytes.len()).ok()?;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        RawDocumentBuf::from_bytes(bytes).ok().map(Place)
    }
}

/// A piece of the index by creation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// What is open in it, in the order of the index.
    pub open: Vec<Open>,
    /// Where the next piece begins; none when there is none.
    pub next: Option<Place>,
}

impl MongoOutbox {
    /// What is open among the first `most` entries from one place to before another.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn piece(&self, from: &Place, to: &Place, most: u32) -> Result<Piece, LedgerError> {
        let next = self.store.skipped(from, to, most).await?;
        let resting: RawArrayBuf = State::RESTING.iter().map(|state| state.as_str()).collect();
        let no_moment = rawdoc! { "$not": { "$type": "date" } };
        let filter = rawdoc! {
            "$or": [
                { "state": { "$in": unfinished() } },
                // What rests is seen to by its moment, if it has one.
                { "state": { "$in": resting }, "dueAt": no_moment },
            ],
            "parked": null,
            "$nor": foreign(),
        };
        let to = next.as_ref().unwrap_or(to);
        let mut command = self.store.between(from, to, filter).await?;
        command.append(cstr("projection"), projection());
        let open = self.store.find("open", command, open).await?;
        Ok(Piece { open: self.unnoted_among(open).await?, next })
    }

    /// What is open, stamped for this moment or before, and in these states: at most so many,
    /// those first that are stamped for the earliest moment.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn stamped(
        &self,
        until: ServerMs,
        states: &[State],
        most: usize,
    ) -> Result<Vec<Open>, LedgerError> {
        let states: RawArrayBuf = states.iter().map(|state| state.as_str()).collect();
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": {
                "sweepAfter": { "$type": "date", "$lte": DateTime::from_millis(until) },
                "state": { "$in": states },
                "parked": null,
                "$nor": foreign(),
            },
            "sort": { "sweepAfter": 1 },
            "hint": SWEPT,
            "projection": projection(),
        };
        let with_id = |document: &RawDocument| open(document).map(|open| (open.id.clone(), open));
        let found = self.store.unnoted("stamped", command, most, with_id).await?;
        Ok(found.into_iter().map(|(_, open)| open).collect())
    }

    /// Those that are not noted as parked beside themselves.
    async fn unnoted_among(&self, open: Vec<Open>) -> Result<Vec<Open>, LedgerError> {
        let ids: Vec<RawId> = open.iter().map(|open| open.id.clone()).collect();
        let noted = self.store.noted(&ids).await?;
        Ok(open.into_iter().filter(|open| !noted.contains(open.id.as_bytes())).collect())
    }
}

impl Store {
    /// The entry after the first `most` of them; none if there is none before `to`. The server
    /// reads no document for it.
    async fn skipped(
        &self,
        from: &Place,
        to: &Place,
        most: u32,
    ) -> Result<Option<Place>, LedgerError> {
        let mut command = self.between(from, to, rawdoc! {}).await?;
        command.append(cstr("returnKey"), true);
        command.append(cstr("skip"), i64::from(most));
        command.append(cstr("limit"), 1_i64);
        Ok(self.find("skip", command, Place::read).await?.pop())
    }

    /// The command that finds what the filter wants between two places.
    async fn between(
        &self,
        from: &Place,
        to: &Place,
        filter: RawDocumentBuf,
    ) -> Result<RawDocumentBuf, LedgerError> {
        let mut command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": filter,
            "hint": BY_CREATION,
            "min": from.to_raw(),
            "max": to.to_raw(),
        };
        if self.one_document_a_statement().await? {
            command.append(cstr("sort"), rawdoc! { "createdAt": 1, "_id": 1 });
        }
        Ok(command)
    }

    /// The queries that together have everything that is not final, each transaction in one of
    /// them: those created since the mark, at most so many of them; those that are stamped; those
    /// that are parked. What rests is in the index of what is due. A document without a date, and
    /// one that came late with an old date, is in none of them until a sweeper has found it.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn open_sources(&self, most: u32) -> Result<OpenSources, LedgerError> {
        let mark = self.progress().await?.mark;
        let start = mark.clone().unwrap_or_else(|| Place::before(i64::MIN));
        let end = self.skipped(&start, &Place::after_dates(), most).await?;
        let until = end.as_ref().and_then(Place::date);
        Ok(OpenSources { sources: open_sources(mark.as_ref(), until), until })
    }

    /// The query for the last of those that were created, at most so many, within so many
    /// milliseconds before now and after a moment.
    pub(super) async fn newest(
        &self,
        after: ServerMs,
        within_ms: i64,
        most: u32,
    ) -> Result<OpenSource, LedgerError> {
        let from = after.saturating_add(1).max(self.server_now().await? - within_ms);
        let end = self.skipped(&Place::before(from), &Place::after_dates(), most).await?;
        Ok(created(from, end.as_ref().and_then(Place::date)))
    }
}

/// The queries that together have everything that is not final and does not rest, where the
/// sweepers' mark is this; of what was created since, only that until a moment, if one is given.
#[must_use]
pub fn open_sources(mark: Option<&Place>, until: Option<ServerMs>) -> Vec<OpenSource> {
    let from = mark.and_then(Place::date).unwrap_or(i64::MIN);
    let since = doc! { "createdAt": { "$gte": DateTime::from_millis(from) } };
    let is_stamped = doc! { "sweepAfter": { "$type": "date" } };
    let mut stamped = is_stamped.clone();
    stamped.insert("$nor", [since.clone()]);
    let parked = doc! {
        "parked": { "$exists": true, "$ne": null }, "$nor": [since, is_stamped],
    };
    vec![
        created(from, until),
        OpenSource { filter: stamped, hint: SWEPT },
        OpenSource { filter: parked, hint: PARKED },
    ]
}

fn created(from: ServerMs, until: Option<ServerMs>) -> OpenSource {
    let to = until.map_or(DateTime::MAX, DateTime::from_millis);
    let filter = doc! { "createdAt": { "$gte": DateTime::from_millis(from), "$lte": to } };
    OpenSource { filter, hint: BY_CREATION }
}

/// The queries for what is not final.
#[derive(Clone, Debug, Default)]
pub struct OpenSources {
    /// The queries.
    pub sources: Vec<OpenSource>,
    /// Only what was created until this moment is read, where more was created since the mark.
    pub until: Option<ServerMs>,
}

/// One of the queries for what is not final.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenSource {
    /// The filter; the state is to be added.
    pub filter: Document,
    /// The index.
    pub hint: &'static str,
}

fn unfinished() -> RawArrayBuf {
    State::UNFINISHED.iter().map(|state| state.as_str()).collect()
}

/// The fields of [`Open`], of which none is large, whatever others have written.
fn projection() -> RawDocumentBuf {
    let nothing = rawdoc! { "$lte": ["$takeoverAt", null] };
    let no_date = rawdoc! { "$cond": [nothing, null, false] };
    rawdoc! {
        "_id": 0,
        // What is no id of the ledger's kind is parked by what is stored.
        "id": { "_id": { "$ifNull": ["$_id", "$$ROOT._id"] } },
        "state": 1,
        "created": date_or_null("$createdAt"),
        "takeover": { "$cond": [is_date("$takeoverAt"), "$takeoverAt", no_date] },
        "due": is_date(&super::read::path(DUE_AT)),
        "stamp": date_or_null("$sweepAfter"),
    }
}

fn open(document: &RawDocument) -> Option<Open> {
    let date = |field| document.get_datetime(field).ok().map(DateTime::timestamp_millis);
    let no_date = || match document.get_bool("takeover") {
        Ok(_) => Takeover::OtherType,
        Err(_) => Takeover::Nothing,
    };
    Some(Open {
        id: document.get_document("id").ok()?.to_owned(),
        state: State::parse(document.get_str("state").ok()?)?,
        created: date("created"),
        takeover: date("takeover").map_or_else(no_date, Takeover::At),
        has_moment: document.get_bool("due").unwrap_or_default(),
        stamp: date("stamp"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::raw_id;

    #[test]
    fn the_place_of_a_transaction_is_its_entry_in_the_index() {
        let open = Open {
            id: raw_id("t"),
            state: State::Initial,
            created: Some(7),
            takeover: Takeover::Nothing,
            has_moment: false,
            stamp: None,
        };
        let place = open.place().expect("it has a date");
        let entry = rawdoc! { "createdAt": DateTime::from_millis(7), "_id": "t" };
        assert_eq!((place.to_raw(), place.date()), (entry.clone(), Some(7)));
        assert_eq!(Place::read(&entry), Some(place));
        assert_eq!(Place::read(&rawdoc! { "_id": "t", "createdAt": 7 }), None);
        assert_eq!(Open { created: None, ..open }.place(), None);
    }
}
