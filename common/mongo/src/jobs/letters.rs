//! Whose turn it is to look at the dead letters.
//!
//! Owns the document `letters` of the collection `tandem.jobs`. A look holds the letters that it
//! has come to, and another one would not see them; so one server looks at a time. Promises that a
//! turn is taken by one update that compares the server's clock, that a turn of somebody who says
//! nothing for [`LETTER_LEASE`] is over, and that who waits comes before who comes later. Fails
//! with an error of the command, and where somebody else's document stands in its place.

use std::time::Duration;

use ledger::LedgerError;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::ReturnDocument;

use super::tagged;
use crate::Store;
use crate::names::JOBS;
use crate::own::JOB;
use crate::schema::code;
use crate::write::DUPLICATE_KEY;

const OPERATION: &str = "letters";

/// The `_id` of the document.
const ID: &str = "letters";

/// How long a server has its turn without saying again that it looks. Longer than the broker waits
/// for a client that says nothing (two heartbeats of 8 s): then it has put back what a server held
/// that stalls, and the next one sees all letters.
pub const LETTER_LEASE: Duration = Duration::from_secs(20);

/// How long somebody who waits is the next one without asking again, in milliseconds.
const WAITS_MS: i64 = 1_000;

/// Takes the turn where nobody has it and nobody else waited before, or keeps it; else waits for
/// it. `holder` is of one look alone.
fn take(holder: &str) -> Document {
    let lease_ms = i64::try_from(LETTER_LEASE.as_millis()).expect("seconds");
    let me = doc! { "$literal": holder };
    let is_over = |until: &str| doc! { "$not": [{ "$gt": [until, "$$NOW"] }] };
    let from_now = |ms: i64| doc! { "$add": ["$$NOW", ms] };
    let waits = doc! { "$eq": ["$waits", &me] };
    // Else a server that looks again and again would leave the others no turn.
    let is_next = doc! { "$or": [is_over("$waitsUntil"), &waits] };
    let is_free = doc! { "$and": [is_over("$leaseUntil"), &is_next] };
    let may = doc! { "$or": [{ "$eq": ["$holder", &me] }, is_free] };
    let waiting = |field: &str, value: Document| {
        let stays = doc! { "$cond": [&waits, Bson::Null, field] };
        doc! { "$cond": [&may, stays, { "$cond": [&is_next, value, field] }] }
    };
    doc! { "$set": {
        "kind": JOB.kind,
        "holder": { "$cond": [&may, &me, "$holder"] },
        "leaseUntil": { "$cond": [&may, from_now(lease_ms), "$leaseUntil"] },
        "waits": waiting("$waits", me.clone()),
        "waitsUntil": waiting("$waitsUntil", from_now(WAITS_MS)),
    } }
}

impl Store {
    /// Takes the turn to look at the dead letters, or keeps it. Returns whether this look has it.
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away or refuses. A turn that was taken
    /// unknowingly is over after [`LETTER_LEASE`].
    pub async fn take_letters(&self, holder: &str) -> Result<bool, LedgerError> {
        let collection: Collection<Document> = self.database.collection(JOBS);
        let update = vec![take(holder)];
        let write = async move {
            let write = async |is_first: bool| {
                let written = collection.find_one_and_update(JOB.named(ID), update.clone());
                let written = written.upsert(is_first).comment(tagged(OPERATION));
                written.return_document(ReturnDocument::After).await
            };
            match write(true).await {
                // Somebody else has made the document at the same moment.
                Err(error) if code(&error) == Some(DUPLICATE_KEY) => write(false).await,
                written => written,
            }
        };
        let foreign = || {
            let what = "the document \"letters\" of the collection `tandem.jobs` was not made by \
                        Tandem; move it away";
            LedgerError::lasting(OPERATION, what).without_effect()
        };
        let written = self.limited(OPERATION, write).await?.ok_or_else(foreign)?;
        Ok(written.get_str("holder").ok() == Some(holder))
    }

    /// Gives the turn back. Where another look has it, nothing changes.
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away or refuses.
    pub async fn leave_letters(&self, holder: &str) -> Result<(), LedgerError> {
        let mut filter = JOB.named(ID);
        filter.insert("holder", holder);
        let set = doc! { "leaseUntil": Bson::Null };
        self.change_job(OPERATION, filter, set, doc! { "_id": 1 }).await.map(drop)
    }
}
