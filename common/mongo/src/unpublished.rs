//! What was inserted and never published: transactions whose document says so itself.
//!
//! Owns the field `unpublished` and its index. Who inserts an `initial` document and sends no
//! message writes `unpublished: true` into it; a worker takes the field away and publishes the id.
//! Promises that of several workers one takes up each document, and that it leaves a stamp by which
//! the sweeper finds the document when that worker dies before it has published. A document of
//! which the field means nothing any more, since it is claimed, canceled, scheduled or parked, loses
//! the field, so that many of them hide nothing. What is no submission of Tandem's keeps it. Fails
//! with an error of the whole command; doing it again is harmless.

use ledger::transaction::{State, TransactionId, UNPUBLISHED};
use ledger::{LedgerError, ServerMs};
use mongodb::bson::{DateTime, RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use super::names::{INSERTED, TRANSACTIONS};
use super::raw::RawId;
use super::read::cstr;
use super::statements::{dated, names};
use super::submissions::foreign;
use super::write::{Counts, each_alone};
use super::{MongoOutbox, Swept};

/// What the index shows and nobody has to publish.
fn meaningless() -> RawDocumentBuf {
    let elsewhere: RawArrayBuf = [
        rawdoc! { "state": { "$ne": State::Initial.as_str() } },
        rawdoc! { "parked": { "$ne": null } },
    ]
    .into_iter()
    .collect();
    let mut filter = rawdoc! { "$or": elsewhere, "$nor": foreign() };
    filter.append(cstr(UNPUBLISHED), true);
    filter
}

/// Takes up what nobody else has taken up, claimed or parked since it was found.
fn take_up(ids: &[&TransactionId], sweep_after: ServerMs) -> RawDocumentBuf {
    let mut filter = rawdoc! {
        "_id": { "$in": names(ids) },
        "state": State::Initial.as_str(),
        "parked": null,
    };
    filter.append(cstr(UNPUBLISHED), true);
    let stamp = DateTime::from_millis(sweep_after);
    rawdoc! {
        "q": filter,
        "u": [
            { "$set": { "createdAt": dated(), "sweepAfter": stamp } },
            { "$unset": UNPUBLISHED },
        ],
        "multi": true,
    }
}

impl MongoOutbox {
    /// At most `limit` ids of those that are inserted, durable and not published, those first that
    /// were inserted first. An id that no message can hold is parked by this.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn unpublished(&self, limit: usize) -> Result<Swept, LedgerError> {
        let mut filter = rawdoc! {
            "state": State::Initial.as_str(), "parked": null, "$nor": foreign(),
        };
        filter.append(cstr(UNPUBLISHED), true);
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": filter,
            "hint": INSERTED,
            "projection": { "_id": 1 },
        };
        let id = |found: &RawDocument| Some((found.to_owned(), ()));
        let found = self.store.unnoted("unpublished", command, limit, id).await?;
        self.publishable(found.into_iter().map(|(id, ())| id)).await
    }

    /// Takes up transactions to publish them; returns those that this call has taken up. All
    /// sweepers leave them alone until `sweep_after`, by which this call also knows its own.
    ///
    /// # Errors
    /// When the server is away; any of them may be taken up, and the sweeper publishes those.
    pub async fn take_up(
        &self,
        ids: &[TransactionId],
        sweep_after: ServerMs,
    ) -> Result<Vec<TransactionId>, LedgerError> {
        let written = self.move_on("take_up", ids, |ids| take_up(ids, sweep_after)).await?;
        let taken = self.moved(ids, sweep_after, &written).await?;
        self.note_refused(ids, &written).await?;
        Ok(taken)
    }

    /// Takes the field away where it means nothing any more, of at most so many; returns of how
    /// many.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn forget_unpublished(&self, most: u32) -> Result<usize, LedgerError> {
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": meaningless(),
            "hint": INSERTED,
            "limit": i64::from(most),
            "projection": { "_id": 1 },
        };
        let found = self.store.find("unpublished", command, |id| Some(id.to_owned())).await?;
        let statement = |group: &[&RawId]| {
            let both: RawArrayBuf = [group[0].clone(), meaningless()].into_iter().collect();
            rawdoc! { "q": { "$and": both }, "u": [{ "$unset": UNPUBLISHED }] }
        };
        let groups = each_alone(0..found.len());
        let written = self.store.write(
            "unpublished",
            TRANSACTIONS,
            &found,
            groups,
            Counts::Matched,
            statement,
        );
        Ok(written.await?.count)
    }
}
