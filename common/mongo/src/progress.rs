//! How far the sweepers have come: one document that all of them share.
//!
//! Owns `{_id: "open"}` in the collection `tandem.progress`. Its `mark` is a place in the index by
//! creation: whatever has a date and stands before it is final, or a small index of its own shows
//! it. That stays true, since whoever brings something back stamps it; so a mark only moves on, and
//! one that a stalled sweeper writes late is as true as it was. `near` and `far` are where the two
//! looks below the mark go on. Losing the document loses nothing: the walk begins anew. Fails with
//! an error of the command.

use ledger::LedgerError;
use mongodb::bson::{Document, RawBson, RawDocument, RawDocumentBuf, rawdoc};

use super::names::PROGRESS;
use super::open::Place;
use super::own::SWEEP_PROGRESS;
use super::raw::raw_id;
use super::read::cstr;
use super::write::none_refused;
use super::{MongoOutbox, Store};

/// The `_id` of the document.
const ID: &str = "open";

/// How far the sweepers have come. A field that makes no sense counts as none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Whatever stands before this place needs no walk.
    pub mark: Option<Place>,
    /// Where the look at what lies closely below the mark goes on.
    pub near: Option<Place>,
    /// Where the look at everything below the mark goes on.
    pub far: Option<Place>,
}

/// One of the two looks below the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// At what lies closely below it.
    Near,
    /// At everything.
    Far,
}

impl Below {
    fn field(self) -> &'static str {
        match self {
            Below::Near => "near",
            Below::Far => "far",
        }
    }
}

impl Progress {
    /// The filter for the document, for whoever reads it in a session of his own.
    #[must_use]
    pub fn filter() -> Document {
        SWEEP_PROGRESS.named(ID)
    }

    /// What the document says.
    #[must_use]
    pub fn read(found: &RawDocument) -> Progress {
        let place = |field| found.get_document(field).ok().and_then(Place::read);
        let mark = place("mark").filter(|mark| mark.date().is_some());
        Progress { mark, near: place("near"), far: place("far") }
    }
}

impl Store {
    /// How far the sweepers have come.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn progress(&self) -> Result<Progress, LedgerError> {
        let command = rawdoc! {
            "find": PROGRESS, "filter": SWEEP_PROGRESS.with_id(raw_id(ID)), "limit": 1_i64,
        };
        let read = |found: &RawDocument| Some(Progress::read(found));
        Ok(self.find("progress", command, read).await?.pop().unwrap_or_default())
    }
}

impl MongoOutbox {
    /// How far the sweepers have come.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn progress(&self) -> Result<Progress, LedgerError> {
        self.store.progress().await
    }

    /// Moves the mark on, never back, and notes where a look below it goes on: from the beginning
    /// where no place is given.
    ///
    /// # Errors
    /// When the server is away, or refuses.
    pub async fn advance(
        &self,
        mark: &Place,
        below: (Below, Option<&Place>),
    ) -> Result<(), LedgerError> {
        let written = self.store.change("progress", PROGRESS, vec![advance(mark, below)]).await?;
        none_refused("progress", written.refused)
    }
}

/// Documents compare field by field, so of two marks the later place is the greater.
fn advance(mark: &Place, (below, at): (Below, Option<&Place>)) -> RawDocumentBuf {
    let mut set = rawdoc! { "kind": SWEEP_PROGRESS.kind };
    set.append(cstr(below.field()), at.map_or(RawBson::Null, |at| at.to_raw().into()));
    rawdoc! {
        "q": SWEEP_PROGRESS.with_id(raw_id(ID)),
        "u": { "$max": { "mark": mark.to_raw() }, "$set": set },
        "upsert": true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_makes_no_sense_counts_as_none() {
        let (mark, near) = (Place::before(7), Place::first());
        let found = rawdoc! { "mark": mark.to_raw(), "near": near.to_raw(), "far": null };
        let read = Progress { mark: Some(mark), near: Some(near.clone()), far: None };
        assert_eq!(Progress::read(&found), read);
        assert_eq!(
            Progress::read(&rawdoc! { "mark": near.to_raw(), "near": 7 }),
            Progress::default()
        );
    }
}
