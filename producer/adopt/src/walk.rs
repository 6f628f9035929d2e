//! Goes over a collection in pieces, and writes what a plan says of each document.
//!
//! Owns the order: read a piece, plan, write in commands of some documents, read again what did not
//! match. Promises that each write is a guarded update of one document. So a walk that was killed
//! needs no memory of how far it was, and what somebody else has changed meanwhile is planned anew
//! from what it is then. What is changed by others each time is left, and counted as busy. Fails
//! when the server stays away; then what was written stays written.

use std::time::{Duration, Instant};

use client::Client;
use mongodb::bson::{RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, rawdoc};

use super::counts::Counts;
use super::looked::{Looked, Stored};
use super::pages::{Pages, place_of};
use super::plan::{Change, Plan};
use super::rate::Bucket;
use super::{Error, stored};

/// How many documents are written with one command where no rate is asked for. Measured beside other
/// writers: 25 leave the slowest hundredth of their writes within one and a half times of what they
/// are without; 100 are nearly twice as fast, and do not.
pub const AT_ONCE: usize = 25;

/// The same at the highest rates.
pub const AT_ONCE_MAX: usize = 250;

/// How often a document is read again that others have changed between reading and writing.
pub const ROUNDS_MAX: u32 = 20;

/// Says what becomes of a document.
pub(super) type Planner<'a> = &'a (dyn Fn(Stored<'_>) -> (Looked, Plan) + Sync);

/// A collection, and how it is gone over.
pub(super) struct Walk<'a> {
    pub(super) client: &'a Client,
    /// What the writes are called in the server's logs.
    pub(super) operation: &'static str,
    pub(super) pages: Pages<'a>,
    pub(super) plan: Planner<'a>,
    pub(super) pace: &'a mut Pace,
}

/// How fast is written.
pub(super) struct Pace {
    bucket: Option<Bucket>,
    begun: Instant,
}

/// A document that is to be written.
struct Planned {
    /// `{_id: …}`.
    place: RawDocumentBuf,
    looked: Looked,
    change: Change,
}

impl Pace {
    pub(super) fn new(rate: Option<u32>) -> Pace {
        Pace { bucket: rate.map(Bucket::new), begun: Instant::now() }
    }

    /// How many documents go into one command.
    fn at_once(&self) -> usize {
        self.bucket.map_or(AT_ONCE, |bucket| bucket.at_once(AT_ONCE_MAX))
    }

    /// Waits until so many may be written.
    async fn wait(&mut self, count: usize) {
        let Some(bucket) = &mut self.bucket else { return };
        let wait = bucket.take(count, self.begun.elapsed());
        if wait > Duration::ZERO {
            tokio::time::sleep(wait).await;
        }
    }
}

impl Walk<'_> {
    /// Goes over all of it. `progress` is told after each piece how many documents were read.
    pub(super) async fn run(&mut self, progress: impl Fn(u64)) -> Result<Counts, Error> {
        let mut counts = Counts::default();
        let mut place: Option<RawDocumentBuf> = None;
        while let Some(found) = self.pages.next(&mut place).await? {
            counts.read += found.len() as u64;
            let planned = found.iter().filter_map(|found| self.planned(found, &mut counts, false));
            let planned = planned.collect();
            drop(found);
            self.write(planned, &mut counts).await?;
            progress(counts.read);
        }
        Ok(counts)
    }

    /// What is to be written of a document; what becomes of any other is counted. `is_again` says
    /// that it was written, and it is not known with what success.
    fn planned(&self, found: &RawDocument, counts: &mut Counts, is_again: bool) -> Option<Planned> {
        let (looked, plan) = (self.plan)(stored(found));
        match plan {
            Plan::Write(change) => Some(Planned { place: place_of(found)?, looked, change }),
            Plan::Done => {
                counts.done_before += u64::from(!is_again);
                None
            }
            Plan::Left => {
                counts.leave(looked);
                None
            }
        }
    }

    /// Writes a piece, and tries again what did not match.
    async fn write(&mut self, planned: Vec<Planned>, counts: &mut Counts) -> Result<(), Error> {
        let mut open = planned;
        for _ in 0..ROUNDS_MAX {
            if open.is_empty() {
                return Ok(());
            }
            let missed = self.send_all(open, counts).await?;
            open = self.look_again(missed, counts).await?;
        }
        open.into_iter().for_each(|planned| counts.busy(planned.looked.id));
        Ok(())
    }

    /// Sends all of it. Returns those documents of which it is not known whether they matched.
    async fn send_all(
        &mut self,
        open: Vec<Planned>,
        counts: &mut Counts,
    ) -> Result<Vec<Planned>, Error> {
        let (mut missed, mut open) = (Vec::new(), open.into_iter().peekable());
        while open.peek().is_some() {
            let some: Vec<Planned> = open.by_ref().take(self.pace.at_once()).collect();
            self.pace.wait(some.len()).await;
            let statements: Vec<_> =
                some.iter().map(|planned| planned.change.statement.clone()).collect();
            let (store, collection) = (self.client.store(), self.pages.collection);
            let send = || store.change_stored(self.operation, collection, &statements);
            let written = self.client.insist(send).await?;
            let is_refused = |at: usize| written.refused.iter().find(|refused| refused.item == at);
            let all_matched = written.count + written.refused.len() == some.len();
            for (at, planned) in some.into_iter().enumerate() {
                match is_refused(at) {
                    Some(refused) => counts.refuse(planned.looked.id, refused.problem.clone()),
                    None if all_matched => counts.write(&planned.change.repaired),
                    None => missed.push(planned),
                }
            }
        }
        Ok(missed)
    }

    /// Reads documents again that may not have matched, and plans them anew. One of which the plan
    /// says now that it is done was written: nobody else does that.
    async fn look_again(
        &self,
        missed: Vec<Planned>,
        counts: &mut Counts,
    ) -> Result<Vec<Planned>, Error> {
        let mut open = Vec::new();
        for some in missed.chunks(AT_ONCE_MAX) {
            let ids = some.iter().filter_map(|planned| planned.place.get("_id").ok()?);
            let ids: RawArrayBuf = ids.map(RawBson::from).collect();
            let found = self.pages.named(rawdoc! { "_id": { "$in": ids } }).await?;
            for planned in some {
                let again =
                    found.iter().find(|found| place_of(found).as_deref() == Some(&*planned.place));
                // One that is gone needs nothing.
                let Some(again) = again else { continue };
                if (self.plan)(stored(again)).1 == Plan::Done {
                    counts.write(&planned.change.repaired);
                    continue;
                }
                open.extend(self.planned(again, counts, true));
            }
        }
        Ok(open)
    }
}
