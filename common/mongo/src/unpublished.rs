//! What was inserted and never published: transactions whose document says so itself.
//!
//! Owns the field `unpublished` and its index. Who inserts an `initial` document and sends no
//! message writes `unpublished: true` into it; a worker takes the field away and publishes the id.
//! Promises that of several workers one takes up each document, and that sweepers find it when that
//! worker dies before it has published: by its date, or by a stamp where it was not created just
//! now. A document of which the field means nothing any more, since it is claimed, canceled,
//! scheduled or parked, loses the field, so that many of them hide nothing. What is no submission
//! keeps it. Fails with an error of the whole command; doing it again is harmless.

use ledger::LedgerError;
use ledger::transaction::{State, TransactionId, UNPUBLISHED};
use mongodb::bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

use super::dates::is_date;
use super::names::{INSERTED, TRANSACTIONS};
use super::raw::RawId;
use super::read::cstr;
use super::statements::{dated, literal, names};
use super::submissions::foreign;
use super::write::{Counts, each_alone};
use super::{MongoOutbox, Swept};

/// How far from now a date of creation may be that sweepers have not walked past, in milliseconds:
/// their mark stays ten seconds behind.
const NEW_MS: i64 = 5_000;

/// What the index shows and nobody has to publish.
fn meaningless() -> RawDocumentBuf {
    let further = State::ALL.into_iter().filter(|state| *state != State::Initial);
    let further: RawArrayBuf = further.map(State::as_str).collect();
    let either: RawArrayBuf = [
        rawdoc! { "state": { "$in": further } },
        rawdoc! { "state": State::Initial.as_str(), "parked": { "$ne": null } },
    ]
    .into_iter()
    .collect();
    let mut filter = rawdoc! { "$or": either, "$nor": foreign() };
    filter.append(cstr(UNPUBLISHED), true);
    filter
}

/// What nobody else has taken up, claimed or parked since it was found.
fn waiting(ids: &[&TransactionId]) -> RawDocumentBuf {
    let mut filter = rawdoc! {
        "_id": { "$in": names(ids) },
        "state": State::Initial.as_str(),
        "parked": null,
    };
    filter.append(cstr(UNPUBLISHED), true);
    filter
}

/// Takes up what was created just now. It lies where the sweepers' walk comes by, so it needs no
/// stamp, which would be one more entry of an index that its end has to change.
fn take_up_new(ids: &[&TransactionId], worker: &str) -> RawDocumentBuf {
    let mut filter = waiting(ids);
    // Comparisons only: they fail for no document, whatever its date is.
    let after = rawdoc! { "$gt": ["$createdAt", { "$subtract": ["$$NOW", NEW_MS] }] };
    let before = rawdoc! { "$lt": ["$createdAt", { "$add": ["$$NOW", NEW_MS] }] };
    filter.append(cstr("$expr"), rawdoc! { "$and": [is_date("$createdAt"), after, before] });
    let mut gone = RawDocumentBuf::new();
    gone.append(cstr(UNPUBLISHED), "");
    let update = rawdoc! { "$set": { "application": worker }, "$unset": gone };
    rawdoc! { "q": filter, "u": update, "multi": true }
}

/// Takes up whatever else was found, and stamps it for so long from now.
fn take_up_stamped(ids: &[&TransactionId], worker: &str, stamp_ms: i64) -> RawDocumentBuf {
    let set = rawdoc! {
        "createdAt": dated(),
        "sweepAfter": { "$add": ["$$NOW", stamp_ms] },
        "application": literal(worker),
    };
    rawdoc! { "q": waiting(ids), "u": [{ "$set": set }, { "$unset": UNPUBLISHED }], "multi": true }
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
        self.found("unpublished", command, limit).await
    }

    /// Takes up transactions to publish them; returns those that this worker has taken up, and
    /// perhaps some that another one of its name has. All sweepers leave them alone for a while:
    /// those that were created just now until they count as forgotten, the others for `stamp_ms`.
    ///
    /// # Errors
    /// When the server is away; any of them may be taken up, and the sweeper publishes those.
    pub async fn take_up(
        &self,
        ids: &[TransactionId],
        worker: &str,
        stamp_ms: i64,
    ) -> Result<Vec<TransactionId>, LedgerError> {
        let new = self.move_on("take_up", ids, |ids| take_up_new(ids, worker)).await?;
        if new.count == ids.len() {
            return Ok(ids.to_vec());
        }
        let statement = |ids: &[&TransactionId]| take_up_stamped(ids, worker, stamp_ms);
        let stamped = self.move_on("take_up", ids, statement).await?;
        self.note_refused(ids, &stamped, "move it on").await?;
        match new.count + stamped.count {
            0 => Ok(Vec::new()),
            all if all == ids.len() => Ok(ids.to_vec()),
            _ => self.initial_among(ids, rawdoc! { "application": worker }).await,
        }
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
