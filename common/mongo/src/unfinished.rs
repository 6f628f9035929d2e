//! What is not final, counted for people: by state, with what is parked and the oldest.
//!
//! Owns the questions of the overview about transactions. Each reads through an index and stops at
//! a limit of what it reads, and says so. But the server looks at each document that it counts, so
//! an answer about many costs it something: whoever asks again and again should pause for a
//! multiple of the time that the answer took. Promises nothing about one moment: the questions are
//! asked one after another. Fails with an error of the command, and then nothing is known.

use std::collections::BTreeMap;

use ledger::transaction::State;
use ledger::{LedgerError, ServerMs};
use mongodb::bson::{DateTime, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, rawdoc};

use super::Store;
use super::dates::{date_or_null, is_date};
use super::names::{EVENTS, NOTES, TRANSACTIONS};
use super::open::OpenSource;
use super::own::{DUE_EVENTS, PARKED_NOTE};
use super::raw::{number, shown};
use super::statements::raw;
use super::submissions::foreign;

/// The longest `_id` that is told, in bytes of BSON with what surrounds it. No transaction has a
/// longer one.
const ID_BYTES_MAX: i32 = 300;

/// The most notes, of parked transactions or of due events, that are looked at.
const NOTES_MAX: i64 = 1_000;

/// What is not final.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unfinished {
    /// How many there are in each state, those that are parked included.
    pub states: BTreeMap<State, u64>,
    /// Whether there may be more than were counted, because not all could be read.
    pub capped: bool,
    /// How many of those that were counted are parked.
    pub parked: u64,
    /// The oldest that is not parked, if it has a date.
    pub oldest: Option<OldestOne>,
}

/// A transaction that is not final, and the oldest of them.
#[derive(Clone, Debug, PartialEq)]
pub struct OldestOne {
    /// Its `_id`, as text.
    pub id: String,
    /// Its state.
    pub state: State,
    /// Since when it waits for workers: when it was created, by the clock of whoever did so, or
    /// when what had rested was to go on, or when its end was decided.
    pub since: ServerMs,
}

/// One state: how many are in it, how many of these are parked, and the oldest that is not.
struct InState {
    state: State,
    count: u64,
    parked: u64,
    oldest: Option<OldestOne>,
}

impl Store {
    /// What waits for workers or is in flight: of what was created since the sweepers' mark, so
    /// many are read at most; of what they have stamped, and of what is parked, so many are
    /// counted.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn unfinished(&self, most: u64) -> Result<Unfinished, LedgerError> {
        let open = self.open_sources(u32::try_from(most).unwrap_or(u32::MAX)).await?;
        let mut unfinished = Unfinished {
            capped: open.until.is_some(),
            states: State::UNFINISHED.into_iter().map(|state| (state, 0)).collect(),
            ..Unfinished::default()
        };
        for source in &open.sources {
            let found = self.in_states(source, most).await?;
            unfinished.capped |= found.iter().map(|one| one.count).sum::<u64>() >= most;
            for found in found {
                *unfinished.states.entry(found.state).or_default() += found.count;
                unfinished.parked += found.parked;
                let older = |one: &OldestOne| one.since;
                let both = unfinished.oldest.into_iter().chain(found.oldest);
                unfinished.oldest = both.min_by_key(older);
            }
        }
        Ok(unfinished)
    }

    async fn in_states(&self, source: &OpenSource, most: u64) -> Result<Vec<InState>, LedgerError> {
        let states: RawArrayBuf = State::UNFINISHED.iter().map(|state| state.as_str()).collect();
        let ours = rawdoc! { "state": { "$in": states }, "$nor": foreign() };
        let pipeline: RawArrayBuf = [
            rawdoc! { "$match": { "$and": [raw(&source.filter), ours] } },
            rawdoc! { "$limit": i64::try_from(most).unwrap_or(i64::MAX) },
            rawdoc! { "$group": {
                "_id": "$state",
                "count": { "$sum": 1_i64 },
                "parked": { "$sum": { "$cond": [is_parked(), 1_i64, 0_i64] } },
                // Compared field by field, so first by the date.
                "oldest": { "$min": { "$cond": [counts_for_oldest(), oldest(), null] } },
            } },
        ]
        .into_iter()
        .collect();
        let command = rawdoc! {
            "aggregate": TRANSACTIONS, "pipeline": pipeline, "cursor": {}, "hint": source.hint,
        };
        self.find("unfinished", command, in_state).await
    }

    /// How many unfinished transactions are noted as parked beside their documents, of the first
    /// thousand notes.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn noted_as_parked(&self) -> Result<u64, LedgerError> {
        let mut pipeline = RawArrayBuf::new();
        pipeline.push(rawdoc! { "$match": PARKED_NOTE.all() });
        pipeline.push(rawdoc! { "$limit": NOTES_MAX });
        for stage in self.unfinished_notes(NOTES_MAX).into_iter().flatten() {
            pipeline.push(stage);
        }
        pipeline.push(rawdoc! { "$count": "count" });
        let counted = self.aggregate("parked", NOTES, pipeline, 1, count).await?;
        Ok(counted.into_iter().sum())
    }

    /// How many batches have events that no broker has confirmed and that are due by now, of the
    /// first thousand; and how many events that are.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn events_due(&self) -> Result<(u64, bool), LedgerError> {
        let is_count = rawdoc! { "$in": [{ "$type": "$events" }, ["int", "long"]] };
        let events = rawdoc! { "$cond": [is_count, "$events", 0_i64] };
        let is_due = rawdoc! { "$lte": ["$dueAt", "$$NOW"] };
        let pipeline: RawArrayBuf = [
            rawdoc! { "$match": {
                "kind": DUE_EVENTS.raw_condition(), "dueAt": { "$type": "date" }, "$expr": is_due,
            } },
            rawdoc! { "$limit": NOTES_MAX },
            rawdoc! { "$group": {
                "_id": null, "count": { "$sum": events }, "notes": { "$sum": 1_i64 },
            } },
        ]
        .into_iter()
        .collect();
        let parse = |group: &RawDocument| {
            let notes = number(group, "notes");
            Some((count(group)?, notes >= NOTES_MAX as u64))
        };
        let counted = self.aggregate("events_due", EVENTS, pipeline, 1, parse).await?;
        Ok(counted.into_iter().next().unwrap_or_default())
    }
}

/// The same as the filter `parked: {$ne: null}`.
pub(super) fn is_parked() -> RawDocumentBuf {
    rawdoc! { "$not": { "$in": [{ "$type": "$parked" }, ["missing", "null", "undefined"]] } }
}

fn counts_for_oldest() -> RawDocumentBuf {
    rawdoc! { "$and": [is_date("$createdAt"), { "$not": is_parked() }] }
}

fn oldest() -> RawDocumentBuf {
    let is_short = rawdoc! { "$lte": [{ "$bsonSize": { "id": "$_id" } }, ID_BYTES_MAX] };
    rawdoc! { "at": since(), "id": { "$cond": [is_short, "$_id", "an id that is too long"] } }
}

/// Since when workers have something to do. What was scheduled or held for days has not waited for
/// them.
pub(super) fn since() -> RawDocumentBuf {
    let is_undone = rawdoc! { "$eq": ["$state", State::Canceling.as_str()] };
    // What is canceled before its moment does not wait for that.
    let (decided, due) = (date_or_null("$decidedAt"), date_or_null("$notBefore"));
    let last = rawdoc! { "$cond": [is_undone, decided, due] };
    rawdoc! { "$max": ["$createdAt", last, date_or_null("$confirmedAt")] }
}

fn in_state(group: &RawDocument) -> Option<InState> {
    let state = State::parse(group.get_str("_id").ok()?)?;
    let oldest = group.get_document("oldest").ok().and_then(|oldest| {
        let id = RawBson::from(oldest.get("id").ok()??.to_owned());
        Some(OldestOne {
            id: shown(id),
            state,
            since: oldest.get_datetime("at").ok().map(DateTime::timestamp_millis)?,
        })
    });
    Some(InState { state, count: count(group)?, parked: number(group, "parked"), oldest })
}

fn count(group: &RawDocument) -> Option<u64> {
    Some(number(group, "count"))
}
