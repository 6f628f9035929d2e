//! How much is waiting and how old it is: the figures of the ledger as a whole, for metrics.
//!
//! Owns the questions behind the gauges of the backlog. Each of them reads through an index, and no
//! more than the first [`READ_MAX`] that were created since the sweepers' mark, so that asking
//! every few seconds costs the server little, however long the backlog is and however fast it
//! moves. What is parked is left out: it has metrics of its own. Promises nothing about one moment:
//! the questions are asked one after another. Fails with an error of the command, and then nothing
//! is known.

use ledger::transaction::State;
use ledger::{LedgerError, ServerMs};
use mongodb::bson::{DateTime, RawArrayBuf, RawDocument, rawdoc};

use super::dates::is_date;
use super::names::TRANSACTIONS;
use super::open::{OpenSource, OpenSources};
use super::raw::number;
use super::statements::{raw, states};
use super::submissions::foreign;
use super::unfinished::since;
use super::{MongoOutbox, Store};

/// Nothing is counted beyond this: a gauge that shows it means "so many, or more".
pub const BACKLOG_MAX: u32 = 10_000;

/// How many transactions that were created since the sweepers' mark are read for the gauges. Where
/// there are more, most of them are final; the last ones are read as well, which workers are busy
/// with.
const READ_MAX: u32 = 40_000;

/// How many of the last ones are read, and how long ago they were created at most.
const NEWEST_MAX: u32 = 10_000;
const NEWEST_MS: i64 = 2_000;

/// What waits, or is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Since when the oldest `initial` transaction waits for workers: since it was created, by the
    /// clock of its producer, or since it was due. Of those that were counted, which are the first
    /// created.
    pub oldest_initial: Option<ServerMs>,
    /// The same of those in flight; what was on hold counts from its confirmation or its end.
    pub oldest_in_flight: Option<ServerMs>,
    /// How many are `initial`, at most [`BACKLOG_MAX`].
    pub initial: u32,
    /// How many are in flight, at most [`BACKLOG_MAX`].
    pub in_flight: u32,
    /// Whether more were created since the sweepers' mark than were read: there may be more of
    /// both.
    pub capped: bool,
    /// How many events are due by the server's clock, at most those of the first thousand batches.
    pub events_due: u32,
}

impl MongoOutbox {
    /// What waits, or is on its way.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn backlog(&self) -> Result<Backlog, LedgerError> {
        let OpenSources { mut sources, until } = self.store.open_sources(READ_MAX).await?;
        let mut backlog = Backlog { capped: until.is_some(), ..Backlog::default() };
        if let Some(until) = until {
            sources.push(self.store.newest(until, NEWEST_MS, NEWEST_MAX).await?);
        }
        for source in &sources {
            for Counted { in_flight, count, oldest } in self.store.counted(source).await? {
                backlog.add(in_flight, count, oldest);
            }
        }
        let (events_due, _) = self.store.events_due().await?;
        backlog.events_due = u32::try_from(events_due).unwrap_or(u32::MAX);
        Ok(backlog)
    }
}

impl Backlog {
    fn add(&mut self, in_flight: bool, count: u32, oldest: Option<ServerMs>) {
        let (all, first) = match in_flight {
            true => (&mut self.in_flight, &mut self.oldest_in_flight),
            false => (&mut self.initial, &mut self.oldest_initial),
        };
        *all = all.saturating_add(count).min(BACKLOG_MAX);
        *first = first.iter().copied().chain(oldest).min();
    }

    /// Since when the oldest of all that were counted waits.
    #[must_use]
    pub fn oldest(&self) -> Option<ServerMs> {
        self.oldest_initial.into_iter().chain(self.oldest_in_flight).min()
    }
}

/// How many of a source wait, or are in flight.
struct Counted {
    in_flight: bool,
    count: u32,
    /// Since when the oldest of them waits for workers.
    oldest: Option<ServerMs>,
}

impl Store {
    /// What of a source waits, and what is in flight; neither is there where there is none of it.
    async fn counted(&self, source: &OpenSource) -> Result<Vec<Counted>, LedgerError> {
        let in_flight = states(State::IN_FLIGHT);
        let mut wanted = in_flight.clone();
        wanted.push(State::Initial.as_str());
        let date = rawdoc! { "$cond": [is_date("$createdAt"), since(), null] };
        let ours = rawdoc! { "state": { "$in": wanted }, "parked": null, "$nor": foreign() };
        let pipeline: RawArrayBuf = [
            rawdoc! { "$match": { "$and": [raw(&source.filter), ours] } },
            rawdoc! { "$limit": i64::from(READ_MAX) },
            rawdoc! { "$group": {
                "_id": { "$in": ["$state", in_flight] },
                "count": { "$sum": 1_i64 },
                "oldest": { "$min": date },
            } },
        ]
        .into_iter()
        .collect();
        let command = rawdoc! {
            "aggregate": TRANSACTIONS, "pipeline": pipeline, "cursor": {}, "hint": source.hint,
        };
        let group = |group: &RawDocument| {
            Some(Counted {
                in_flight: group.get_bool("_id").ok()?,
                count: u32::try_from(number(group, "count")).unwrap_or(u32::MAX),
                oldest: moment(group, "oldest"),
            })
        };
        self.find("backlog", command, group).await
    }
}

fn moment(document: &RawDocument, field: &str) -> Option<ServerMs> {
    document.get_datetime(field).ok().map(DateTime::timestamp_millis)
}
