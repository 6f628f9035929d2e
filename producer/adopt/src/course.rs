//! Both collections, gone over one after the other, and how far that is.
//!
//! Owns the progress that is told, and the pace that all walks of a run share. Fails as a walk does.

use std::time::Instant;

use client::Client;
use mongodb::bson::{RawDocument, RawDocumentBuf};

use super::counts::Counts;
use super::look::At;
use super::pages::Pages;
use super::walk::{Pace, Planner, Walk};
use super::{Error, remaining};

/// How collections are gone over.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// What the writes are called in the server's logs.
    pub(super) operation: &'static str,
    /// How many documents are read at a time.
    pub(super) piece: u32,
    /// How many documents are written in a second at most; none is no limit.
    pub(super) rate: Option<u32>,
    /// How many documents will be read in all walks, about.
    pub(super) of: u64,
}

/// One walk after the other.
pub(super) struct Course<'a, P> {
    client: &'a Client,
    how: How,
    pace: Pace,
    begun: Instant,
    read: u64,
    progress: P,
}

impl<'a, P: Fn(At)> Course<'a, P> {
    /// `progress` is told after each piece how far it is.
    pub(super) fn new(client: &'a Client, how: How, progress: P) -> Course<'a, P> {
        let (pace, begun) = (Pace::new(how.rate), Instant::now());
        Course { client, how, pace, begun, read: 0, progress }
    }

    /// Goes over the next collection; `what` is what its documents are called.
    pub(super) async fn walk(
        &mut self,
        what: &'static str,
        collection: &str,
        projection: RawDocumentBuf,
        plan: Planner<'_>,
    ) -> Result<Counts, Error> {
        let Course { client, how: How { operation, piece, of, .. }, begun, .. } = *self;
        let (before, progress) = (self.read, &self.progress);
        let pages = Pages { client, collection, projection, most: piece };
        let mut walk = Walk { client, operation, pages, plan, pace: &mut self.pace };
        let told =
            |read| tell(progress, begun, At { read: before + read, of, what, remaining: None });
        let counts = walk.run(told).await?;
        self.read += counts.read;
        Ok(counts)
    }

    /// Reads the next collection, and does something with each document.
    pub(super) async fn each(
        &mut self,
        what: &'static str,
        collection: &str,
        projection: RawDocumentBuf,
        mut one: impl AsyncFnMut(&RawDocument) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let Course { client, how: How { piece, of, .. }, begun, read: before, .. } = *self;
        let pages = Pages { client, collection, projection, most: piece };
        let mut place: Option<RawDocumentBuf> = None;
        while let Some(found) = pages.next(&mut place).await? {
            for document in &found {
                one(document).await?;
                self.read += 1;
            }
            tell(&self.progress, begun, At { read: self.read, of, what, remaining: None });
        }
        Ok(self.read - before)
    }
}

/// Tells how far it is, and how long the rest takes at this speed.
fn tell(progress: &impl Fn(At), begun: Instant, at: At) {
    let remaining = remaining(begun.elapsed(), at.read, at.of.saturating_sub(at.read));
    progress(At { remaining, ..at });
}
