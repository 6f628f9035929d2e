//! The outbox: transactions that should be on the queue and may not be.
//!
//! The transactions collection is the outbox: a producer that dies between insert and publish
//! leaves `initial` documents, a worker that dies leaves expired leases. Owns the queries that find
//! them. Promises to leave out parked transactions and what is no submission, to park those that
//! can never be published, and to go past any number of all of these: nothing of them holds up
//! others. A transaction found here may be on the queue as well: publishing an id twice is
//! harmless.

use ledger::transaction::{DUE_AT, ParkCode, Parked, State, TransactionId, check_name};
use ledger::{LedgerError, ServerMs};
use mongodb::bson::{DateTime, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, rawdoc};

use super::Store;
use super::names::{DUE, IN_FLIGHT, TRANSACTIONS};
use super::raw::{RawId, raw_id};
use super::read::cstr;
use super::submissions::foreign;
use super::write::{Counts, together};

/// How far from now a takeover time or a sweep's stamp may be, in milliseconds. The longest lease
/// is an hour, so a time more than a day away was not written by Tandem.
const SENSIBLE_MS: i64 = 24 * 3_600_000;

/// Which transactions to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranded {
    /// `initial` and created before this moment.
    Unclaimed {
        /// Server time.
        created_before: ServerMs,
    },
    /// `initial` and created after this moment, which is in the future: the clock of the writer was
    /// wrong, so the document's age is unknown.
    FromTheFuture {
        /// Server time.
        created_after: ServerMs,
    },
    /// `initial`, with no creation date or with another type in its place.
    Undated(NoDate),
    /// In flight, with a takeover time before this moment.
    InFlight {
        /// Server time.
        takeover_before: ServerMs,
    },
    /// In flight, with a takeover time that is days ahead, which no worker writes.
    FarAhead {
        /// Server time.
        now: ServerMs,
    },
    /// In flight, with no takeover time or with another type in its place.
    Timeless(NoDate),
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

/// What a field holds that should be a date. Comparisons with a date find neither of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDate {
    /// Nothing, or null.
    Nothing,
    /// A value of another type.
    OtherType,
}

impl NoDate {
    fn bound(self) -> RawDocumentBuf {
        // Not `array`: the index has an entry for each element of a list, so this would read all of
        // it.
        const OTHER_TYPES: [&str; 18] = [
            "double",
            "string",
            "object",
            "binData",
            "undefined",
            "objectId",
            "bool",
            "regex",
            "javascript",
            "int",
            "long",
            "decimal",
            "timestamp",
            "symbol",
            "dbPointer",
            "javascriptWithScope",
            "minKey",
            "maxKey",
        ];
        match self {
            NoDate::Nothing => rawdoc! { "$eq": null },
            NoDate::OtherType => {
                let types: RawArrayBuf = OTHER_TYPES.into_iter().collect();
                rawdoc! { "$type": types }
            }
        }
    }
}

impl Stranded {
    /// The index that finds them, the field that it sorts by, and the condition on this field.
    fn query(
        self,
        waiting: &'static str,
    ) -> (&'static str, &'static str, RawDocumentBuf, RawArrayBuf) {
        let date = DateTime::from_millis;
        let (hint, field, bound) = match self {
            Stranded::Unclaimed { created_before } => {
                (waiting, "createdAt", rawdoc! { "$lt": date(created_before) })
            }
            Stranded::FromTheFuture { created_after } => {
                (waiting, "createdAt", rawdoc! { "$gt": date(created_after) })
            }
            Stranded::Undated(no_date) => (waiting, "createdAt", no_date.bound()),
            Stranded::InFlight { takeover_before } => {
                (IN_FLIGHT, "takeoverAt", rawdoc! { "$lt": date(takeover_before) })
            }
            Stranded::FarAhead { now } => {
                let far = date(now.saturating_add(SENSIBLE_MS));
                (IN_FLIGHT, "takeoverAt", rawdoc! { "$gt": far })
            }
            Stranded::Timeless(no_date) => (IN_FLIGHT, "takeoverAt", no_date.bound()),
            Stranded::Scheduled { now }
            | Stranded::Expired { now }
            | Stranded::HoldExpired { now } => (DUE, DUE_AT, rawdoc! { "$lte": date(now) }),
        };
        let states: RawArrayBuf = match self {
            Stranded::Unclaimed { .. } | Stranded::FromTheFuture { .. } | Stranded::Undated(_) => {
                [State::Initial.as_str()].into_iter().collect()
            }
            Stranded::InFlight { .. } | Stranded::FarAhead { .. } | Stranded::Timeless(_) => {
                State::IN_FLIGHT.iter().map(|s| s.as_str()).collect()
            }
            Stranded::Scheduled { .. } => [State::Scheduled.as_str()].into_iter().collect(),
            Stranded::Expired { .. } => {
                [State::Scheduled, State::Initial].iter().map(|s| s.as_str()).collect()
            }
            Stranded::HoldExpired { .. } => [State::Held.as_str()].into_iter().collect(),
        };
        (hint, field, bound, states)
    }

    /// Conditions on other fields. What a sweeper has published lately is left alone, unless it has
    /// expired: then it comes to its end wherever its message is.
    fn more(self, now: ServerMs) -> RawDocumentBuf {
        match self {
            Stranded::Expired { now } => {
                rawdoc! { "expiresAt": { "$lte": DateTime::from_millis(now) } }
            }
            Stranded::Scheduled { .. } | Stranded::HoldExpired { .. } => rawdoc! {},
            Stranded::Unclaimed { .. }
            | Stranded::FromTheFuture { .. }
            | Stranded::Undated(_)
            | Stranded::InFlight { .. }
            | Stranded::FarAhead { .. }
            | Stranded::Timeless(_) => rawdoc! {
                "sweepAfter": { "$not": {
                    "$gt": DateTime::from_millis(now),
                    "$lt": DateTime::from_millis(now.saturating_add(SENSIBLE_MS)),
                } },
            },
        }
    }
}

/// What a look for stranded transactions found.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Those that can be published.
    pub ids: Vec<TransactionId>,
    /// How many were parked, and why: no message can hold their ids, or nobody can claim them.
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

    /// At most `limit` stranded ids, oldest first, leaving out those stamped for later than `now`
    /// (unless they have expired) and those that are parked. An id that no message can hold is
    /// parked by this.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn stranded(
        &self,
        which: Stranded,
        now: ServerMs,
        limit: usize,
    ) -> Result<Swept, LedgerError> {
        let (mut ids, mut invalid) = (Vec::new(), Vec::new());
        for id in self.find_unnoted(which, now, limit).await? {
            match id.get_str("_id").ok().filter(|id| check_name("_id", id).is_ok()) {
                Some(id) => ids.push(id.into()),
                None => invalid.push(id),
            }
        }
        if !invalid.is_empty() {
            tracing::warn!(transactions = invalid.len(), "parked: no message can hold their ids");
            let message = "its _id is not a text of 1 to 200 bytes without control characters";
            let why = Parked::new(ParkCode::InvalidId, message);
            self.store.park_by_id(&invalid, &why).await?;
        }
        let parked = (!invalid.is_empty()).then_some((invalid.len(), ParkCode::InvalidId));
        let no_time = match which {
            Stranded::Timeless(NoDate::OtherType) => "is not a date",
            Stranded::FarAhead { .. } => "is more than a day ahead, which no worker writes",
            _ => return Ok(Swept { ids, parked }),
        };
        if ids.is_empty() {
            return Ok(Swept { ids, parked });
        }
        self.park_timeless(&ids, no_time).await
    }

    /// Parks transactions without a sensible takeover time: nobody may claim them, because an owner
    /// may still be alive.
    async fn park_timeless(
        &self,
        ids: &[TransactionId],
        problem: &str,
    ) -> Result<Swept, LedgerError> {
        let raw: Vec<RawId> = ids.iter().map(|id| raw_id(id)).collect();
        let message = format!("its takeoverAt {problem}, so nobody knows when it may be claimed");
        let why = Parked::new(ParkCode::TransactionUnreadable, message);
        self.store.park_by_id(&raw, &why).await?;
        Ok(Swept { ids: Vec::new(), parked: Some((ids.len(), why.code)) })
    }

    /// Those that are not noted as parked. A noted document can't be stamped, so each look finds it
    /// first again; it must not hide the others.
    async fn find_unnoted(
        &self,
        which: Stranded,
        now: ServerMs,
        limit: usize,
    ) -> Result<Vec<RawId>, LedgerError> {
        let (hint, field, bound, states) = which.query(self.store.waiting_index().await?);
        let mut filter = which.more(now);
        filter.append(cstr("state"), rawdoc! { "$in": states });
        filter.append(cstr("parked"), RawBson::Null);
        filter.append(cstr("$nor"), foreign());
        filter.append(cstr(field), bound);
        let mut sort = RawDocumentBuf::new();
        sort.append(cstr(field), 1);
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": filter,
            "sort": sort,
            "hint": hint,
            "projection": { "_id": 1 },
        };
        let id = |found: &RawDocument| Some((found.to_owned(), ()));
        let found = self.store.unnoted("stranded", command, limit, id).await?;
        Ok(found.into_iter().map(|(id, ())| id).collect())
    }

    /// Keeps all sweepers away from the ids to be published until `sweep_after`. A document that
    /// the server refuses to write can't be stamped. It is published all the same; the worker that
    /// claims it then parks it.
    ///
    /// # Errors
    /// When the server is away; any of them may be stamped.
    pub async fn stamp(
        &self,
        ids: &[TransactionId],
        sweep_after: ServerMs,
    ) -> Result<(), LedgerError> {
        let unfinished: RawArrayBuf = State::UNFINISHED.iter().map(|s| s.as_str()).collect();
        let statement = |ids: &[&TransactionId]| {
            let ids: RawArrayBuf = ids.iter().map(|id| id.as_ref()).collect();
            rawdoc! {
                "q": { "_id": { "$in": ids }, "state": { "$in": unfinished.clone() } },
                "u": { "$set": { "sweepAfter": DateTime::from_millis(sweep_after) } },
                "multi": true,
            }
        };
        let groups = together(ids.len());
        self.store
            .write("stamp", TRANSACTIONS, ids, groups, Counts::Matched, statement)
            .await
            .map(|_| ())
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
