//! How much is waiting and how old it is: the figures of the ledger as a whole, for metrics.
//!
//! Owns the questions behind the gauges of the backlog. Each of them reads through an index and
//! stops at [`BACKLOG_MAX`] where the answer could be large, so that asking every few seconds costs
//! the server little, however long the backlog is. What is parked is left out: it has metrics of
//! its own. Promises nothing about one moment: the questions are asked one after another. Fails
//! with an error of the command, and then nothing is known.

use ledger::transaction::State;
use ledger::{LedgerError, ServerMs};
use mongodb::bson::{DateTime, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, rawdoc};

use super::MongoOutbox;
use super::dates::is_date;
use super::names::TRANSACTIONS;
use super::submissions::foreign;
use super::unfinished::since;

/// Nothing is counted beyond this: a gauge that shows it means "so many, or more".
pub const BACKLOG_MAX: u32 = 10_000;

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
    /// How many events are due by the server's clock, at most those of the first thousand batches.
    pub events_due: u32,
}

impl MongoOutbox {
    /// What waits, or is on its way.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn backlog(&self) -> Result<Backlog, LedgerError> {
        let waiting = self.store.waiting_index().await?;
        let (initial, oldest_initial) = self.counted(&[State::Initial], waiting).await?;
        let (in_flight, oldest_in_flight) = self.counted(&State::IN_FLIGHT, "in_flight").await?;
        let (events_due, _) = self.store.events_due().await?;
        let events_due = u32::try_from(events_due).unwrap_or(u32::MAX);
        Ok(Backlog { oldest_initial, oldest_in_flight, initial, in_flight, events_due })
    }

    /// How many transactions are in these states, and since when the oldest of those that were
    /// counted waits for workers.
    async fn counted(
        &self,
        states: &[State],
        index: &str,
    ) -> Result<(u32, Option<ServerMs>), LedgerError> {
        let states: RawArrayBuf = states.iter().map(|state| state.as_str()).collect();
        let date = rawdoc! { "$cond": [is_date("$createdAt"), since(), null] };
        let pipeline = [
            rawdoc! { "$match": {
                "state": { "$in": states }, "parked": null, "$nor": foreign(),
            } },
            rawdoc! { "$limit": i64::from(BACKLOG_MAX) },
            rawdoc! { "$group": { "_id": null, "count": { "$sum": 1 }, "oldest": { "$min": date } } },
        ];
        let found = self.grouped("backlog", TRANSACTIONS, pipeline, Some(index)).await?;
        Ok(found.map_or((0, None), |(count, oldest)| (count, oldest)))
    }

    /// The one group that a pipeline ends with: its `count`, and its date `oldest`.
    async fn grouped(
        &self,
        operation: &'static str,
        collection: &str,
        pipeline: [RawDocumentBuf; 3],
        index: Option<&str>,
    ) -> Result<Option<(u32, Option<ServerMs>)>, LedgerError> {
        let pipeline: RawArrayBuf = pipeline.into_iter().collect();
        let mut command = rawdoc! { "aggregate": collection, "pipeline": pipeline, "cursor": {} };
        if let Some(index) = index {
            command.append(super::read::cstr("hint"), RawBson::from(index));
        }
        let group = |document: &RawDocument| {
            let count = document.get("count").ok()??;
            let count = count.as_i64().or_else(|| count.as_i32().map(i64::from))?;
            Some((u32::try_from(count).unwrap_or(u32::MAX), moment(document, "oldest")))
        };
        Ok(self.store.find(operation, command, group).await?.pop())
    }
}

fn moment(document: &RawDocument, field: &str) -> Option<ServerMs> {
    document.get_datetime(field).ok().map(DateTime::timestamp_millis)
}
