//! What becomes of a hold: the guarded updates by which it comes to rest, is confirmed, or is
//! released.
//!
//! Owns the statements that enter and leave the state `held`. Each compares the state that it
//! leaves, so of a confirmation, a release and an expiry that meet, the first counts. Promises that
//! `takeoverAt` is never lowered: a post of the first stage whose outcome is unknown may arrive
//! until then, and until then nobody removes the mark that it would set again. Fails with an error
//! of the whole command.

use ledger::transaction::{DUE_AT, Leg, MOMENT_MAX_MS, Reason, State, TransactionId, legs_to_bson};
use ledger::{CONFIRMED_ATTEMPTS, Claim, LedgerError, ServerMs, Written};
use mongodb::bson::{Bson, DateTime, Document, RawArrayBuf, RawDocumentBuf, doc, rawdoc};

use super::Store;
use super::dates::date_or_null;
use super::names::TRANSACTIONS;
use super::read::cstr;
use super::statements::{self, decision, names, raw, stamped_soon};

/// The moments after which a hold can't be confirmed any more; a field that is no date sets no
/// limit.
const ENDS: [&str; 2] = ["$holdExpiresAt", "$expiresAt"];

/// When a sweeper has to look at a hold next: at the first of its ends. A hold without an end has
/// the last moment of all, so that the index of what is due has all holds.
pub(super) fn due_of_hold() -> RawDocumentBuf {
    let [first, second] = ENDS.map(date_or_null);
    rawdoc! { "$min": [first, second, DateTime::from_millis(MOMENT_MAX_MS)] }
}

/// Lets pending holds rest that nobody has confirmed, under this claim. Nobody owns them from then
/// on, and nobody may take them over before `not_before`, whatever becomes of them. A claim that
/// arrives twice, the second time after the confirmation, makes its owner the owner again: so the
/// claim alone says too little.
pub(super) fn rest(ids: &[&TransactionId], claim: &Claim, not_before: ServerMs) -> RawDocumentBuf {
    rawdoc! {
        "q": {
            "_id": { "$in": names(ids) },
            "state": State::Pending.as_str(),
            "claim": claim.token.as_str(),
            "hold": true,
            "captured": null,
        },
        "u": [
            { "$set": {
                "state": State::Held.as_str(),
                "takeoverAt": { "$max": ["$$NOW", DateTime::from_millis(not_before)] },
                "dueAt": due_of_hold(),
                "lastModified": "$$NOW",
            } },
            // The index of what is due shows it, so the one of stamps does not have to.
            { "$unset": ["claim", "leaseUntil", "sweepAfter"] },
        ],
        "multi": true,
    }
}

/// Confirms a hold that has not expired. Its attempts begin anew, as if it had been claimed once:
/// its debits have marks, so it is no transaction of which nothing was posted.
fn confirm(id: &str, captured: &[Leg]) -> Document {
    let in_time = ENDS.map(|end| {
        let is_date = doc! { "$eq": [{ "$type": end }, "date"] };
        doc! { "$cond": [is_date, { "$lt": ["$$NOW", end] }, true] }
    });
    let expires = doc! { "$eq": [{ "$type": "$expiresAt" }, "date"] };
    let stamp = Document::try_from(stamped_soon()).expect("it was just made");
    doc! {
        "q": {
            "_id": id,
            "state": State::Held,
            "hold": true,
            "$expr": { "$and": in_time.map(Bson::from).to_vec() },
        },
        "u": [
            { "$set": {
                "state": State::Pending,
                "captured": { "$literal": legs_to_bson(captured) },
                "confirmedAt": "$$NOW",
                "attempts": CONFIRMED_ATTEMPTS,
                "takeoverAt": not_lowered(),
                DUE_AT: { "$cond": [expires, "$expiresAt", "$$REMOVE"] },
                "sweepAfter": stamp,
                "lastModified": "$$NOW",
            } },
            { "$unset": ["attemptsAlone"] },
        ],
    }
}

/// Releases a hold: whoever claims it next undoes it.
pub(super) fn release(id: &str, reason: &Reason) -> RawDocumentBuf {
    rawdoc! { "q": { "_id": id, "state": State::Held.as_str() }, "u": canceling(reason) }
}

/// The update that turns a held transaction towards its undoing.
pub(super) fn canceling(reason: &Reason) -> RawArrayBuf {
    let mut set = statements::canceling(reason, false);
    set.append(cstr("takeoverAt"), raw(&not_lowered()));
    set.append(cstr("sweepAfter"), stamped_soon());
    decision(set, &[DUE_AT])
}

/// The later of now and the takeover time.
fn not_lowered() -> Document {
    doc! { "$max": ["$$NOW", "$takeoverAt"] }
}

impl Store {
    /// Confirms holds with what they capture, those that are held and have not expired, in one
    /// command. The answer says how many did; if these are fewer than were given, their documents
    /// show which.
    ///
    /// # Errors
    /// When the server is away, or refuses; any of them may be confirmed.
    pub async fn confirm_holds(
        &self,
        holds: &[(TransactionId, Vec<Leg>)],
    ) -> Result<Written, LedgerError> {
        let statements = holds.iter().map(|(id, captured)| confirm(id, captured)).collect();
        self.change("confirm", TRANSACTIONS, statements).await
    }

    /// Releases holds, those that are held, with one command.
    ///
    /// # Errors
    /// When the server is away, or refuses; any of them may be released.
    pub async fn release_holds(
        &self,
        ids: &[&str],
        reason: &Reason,
    ) -> Result<Written, LedgerError> {
        let statements = ids.iter().map(|id| release(id, reason)).collect();
        self.change("release", TRANSACTIONS, statements).await
    }
}
