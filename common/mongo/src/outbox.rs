//! The outbox: transactions that should be on the queue and may not be.
//!
//! The transactions collection is the outbox: a producer that dies between insert and publish
//! leaves `initial` documents, a worker that dies leaves expired leases. Owns the stamps by which
//! sweepers find again what they have passed, and the query for what is due; `open` has those for
//! the rest. Promises to leave out parked transactions and what is no submission, to park those
//! that can never be published, and to go past any number of all of these: nothing of them holds up
//! others. A transaction found here may be on the queue as well: publishing an id twice is
//! harmless.

use layout::{Collection, IdKind};
use ledger::transaction::{ParkCode, Parked, State, TransactionId, check_name};
use ledger::{LedgerError, ServerMs};
use mongodb::bson::{DateTime, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, rawdoc};

use super::Store;
use super::dates::is_date;
use super::names::{DUE, SWEPT, TRANSACTIONS};
use super::raw::{RawId, raw_id};
use super::read::cstr;
use super::statements::dated;
use super::submissions::foreign;
use super::write::{Counts, each_alone, together};

/// Which transactions of the index of what is due to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranded {
    /// `scheduled`, and its moment has come by this one.
    Scheduled {
        /// Server time.
        now: ServerMs,
    },
    /// Waiting, `scheduled` or `initial`, and expired by this moment.
    Expired {
        /// Server time.
        now: ServerMs,
    },
    /// A hold that has expired by this moment.
    HoldExpired {
        /// Server time.
        now: ServerMs,
    },
}

impl Stranded {
    fn filter(self) -> RawDocumentBuf {
        let (states, now): (&[State], ServerMs) = match self {
            Stranded::Scheduled { now } => (&[State::Scheduled], now),
            Stranded::Expired { now } => (&[State::Scheduled, State::Initial], now),
            Stranded::HoldExpired { now } => (&[State::Held], now),
        };
        let states: RawArrayBuf = states.iter().map(|state| state.as_str()).collect();
        let now = DateTime::from_millis(now);
        let mut filter = rawdoc! {
            "dueAt": { "$lte": now }, "state": { "$in": states }, "parked": null, "$nor": foreign(),
        };
        if let Stranded::Expired { .. } = self {
            filter.append(cstr("expiresAt"), rawdoc! { "$lte": now });
        }
        filter
    }
}

/// What a look for transactions to be published found.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Those that can be published.
    pub ids: Vec<TransactionId>,
    /// How many were parked, and why.
    pub parked: Option<(usize, ParkCode)>,
}

/// Finds and stamps what is stranded.
#[derive(Clone, Debug)]
pub struct MongoOutbox {
    pub(super) store: Store,
}

impl MongoOutbox {
    /// An outbox over the store's transactions.
    #[must_use]
    pub fn new(store: Store) -> MongoOutbox {
        MongoOutbox { store }
    }

    /// At most `limit` ids of those that are due, those first that are due for the longest time,
    /// leaving out what is parked. An id that no message can hold is parked by this.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn stranded(&self, which: Stranded, limit: usize) -> Result<Swept, LedgerError> {
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": which.filter(),
            "sort": { "dueAt": 1 },
            "hint": DUE,
            "projection": { "_id": 1 },
        };
        self.found("stranded", command, limit).await
    }

    /// At most so many of those that a command finds and that no note names as parked. An id that
    /// no message can hold is parked by this.
    pub(super) async fn found(
        &self,
        operation: &'static str,
        command: RawDocumentBuf,
        limit: usize,
    ) -> Result<Swept, LedgerError> {
        let id = |found: &RawDocument| Some((found.to_owned(), ()));
        let found = self.store.unnoted(operation, command, limit, id).await?;
        self.publishable(found.into_iter().map(|(id, ())| id)).await
    }

    /// The ids that a message can hold; parks the others.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn publishable(
        &self,
        found: impl IntoIterator<Item = RawId>,
    ) -> Result<Swept, LedgerError> {
        let (mut ids, mut invalid) = (Vec::new(), Vec::new());
        for id in found {
            match id.get_str("_id").ok().filter(|id| check_name("_id", id).is_ok()) {
                Some(id) => ids.push(id.into()),
                None => invalid.push(id),
            }
        }
        if !invalid.is_empty() {
            tracing::warn!(transactions = invalid.len(), "parked: no message can hold their ids");
            let kind = self.store.stored(TRANSACTIONS).map(Collection::id_kind).unwrap_or_default();
            let message = match kind {
                IdKind::Text => {
                    "its _id is not a text of 1 to 200 bytes without control characters"
                }
                IdKind::ObjectId | IdKind::Int64 => {
                    "its _id is not of the kind of the ledger's ids"
                }
            };
            let why = Parked::new(ParkCode::InvalidId, message);
            self.store.park_by_id(&invalid, &why).await?;
        }
        let parked = (!invalid.is_empty()).then_some((invalid.len(), ParkCode::InvalidId));
        Ok(Swept { ids, parked })
    }

    /// Parks transactions without a sensible takeover time: nobody may claim them, because an owner
    /// may still be alive.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn park_timeless(&self, ids: &[RawId], problem: &str) -> Result<(), LedgerError> {
        let message = format!("its takeoverAt {problem}, so nobody knows when it may be claimed");
        let why = Parked::new(ParkCode::TransactionUnreadable, message);
        self.store.park_by_id(ids, &why).await
    }

    /// Keeps all sweepers away from the ids to be published until `sweep_after`, from when on the
    /// index of stamps shows them until they are final. One without a date of creation gets one, so
    /// that it lies where the walk comes by. What can't be written is noted as parked, and is not
    /// to be published: whoever sees the note mends the document and brings it back at once, and a
    /// worker that had read the document before that would park it again.
    ///
    /// # Errors
    /// When the server is away; any of them may be stamped.
    pub async fn stamp(
        &self,
        ids: &[TransactionId],
        sweep_after: ServerMs,
    ) -> Result<Swept, LedgerError> {
        let stamp = RawBson::DateTime(DateTime::from_millis(sweep_after));
        self.set_stamp(ids, &State::UNFINISHED, stamp).await
    }

    /// Stamps transactions in flight for when they may be taken over. What can't be written is
    /// noted as parked.
    ///
    /// # Errors
    /// When the server is away; any of them may be stamped.
    pub async fn stamp_for_takeover(&self, ids: &[TransactionId]) -> Result<Swept, LedgerError> {
        let at = rawdoc! { "$cond": [is_date("$takeoverAt"), "$takeoverAt", "$$NOW"] };
        self.set_stamp(ids, &State::IN_FLIGHT, at.into()).await
    }

    async fn set_stamp(
        &self,
        ids: &[TransactionId],
        states: &[State],
        stamp: RawBson,
    ) -> Result<Swept, LedgerError> {
        let states: RawArrayBuf = states.iter().map(|state| state.as_str()).collect();
        let statement = |ids: &[&TransactionId]| {
            let ids: RawArrayBuf = ids.iter().map(|id| id.as_ref()).collect();
            let mut set = rawdoc! { "createdAt": dated() };
            set.append(cstr("sweepAfter"), stamp.clone());
            rawdoc! {
                "q": { "_id": { "$in": ids }, "state": { "$in": states.clone() }, "parked": null },
                "u": [{ "$set": set }],
                "multi": true,
            }
        };
        let groups = together(ids.len());
        let written =
            self.store.write("stamp", TRANSACTIONS, ids, groups, Counts::Matched, statement);
        let written = written.await?;
        self.note_refused(ids, &written, "stamp it").await?;
        let is_noted = |item: &usize| written.refused.iter().any(|refused| refused.item == *item);
        let stamped = (0..ids.len()).filter(|item| !is_noted(item)).map(|item| ids[item].clone());
        let parked = (written.refused.len(), ParkCode::TransactionUnwritable);
        Ok(Swept { ids: stamped.collect(), parked: Some(parked) })
    }

    /// Takes the stamps away that have come and mean nothing: of what rests, is parked or is final.
    /// Tandem leaves none on these; those that others have written would hide the rest.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn tidy_stamps(&self, now: ServerMs, most: u32) -> Result<(), LedgerError> {
        let working: RawArrayBuf = State::UNFINISHED.iter().map(|state| state.as_str()).collect();
        let meaningless = rawdoc! {
            "sweepAfter": { "$type": "date", "$lte": DateTime::from_millis(now) },
            "$or": [{ "state": { "$nin": working } }, { "parked": { "$ne": null } }],
            "$nor": foreign(),
        };
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": meaningless.clone(),
            "hint": SWEPT,
            "limit": i64::from(most),
            "projection": { "_id": 1 },
        };
        let found = self.store.find("tidy", command, |id| Some(id.to_owned())).await?;
        let statement = |group: &[&RawId]| {
            let both: RawArrayBuf = [group[0].clone(), meaningless.clone()].into_iter().collect();
            rawdoc! { "q": { "$and": both }, "u": { "$unset": { "sweepAfter": "" } } }
        };
        let groups = each_alone(0..found.len());
        let written =
            self.store.write("tidy", TRANSACTIONS, &found, groups, Counts::Matched, statement);
        written.await.map(|_| ())
    }

    /// Parks transactions that kill their workers: only a person should bring them back.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn park_killers(&self, ids: &[TransactionId]) -> Result<(), LedgerError> {
        let ids: Vec<RawId> = ids.iter().map(|id| raw_id(id)).collect();
        let message = "its workers died with it, again and again, while it was alone";
        self.store.park_by_id(&ids, &Parked::new(ParkCode::KillsWorker, message)).await
    }
}
