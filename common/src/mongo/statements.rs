//! The guarded updates of transactions, as pure functions from the ledger's vocabulary to MongoDB
//! statements; those of accounts are in [`super::postings`].
//!
//! Each is compared with the state it leaves and the claim. Strings from outside always stand in
//! `$literal`: a `$` in an id must never become a field path.

use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::amount::Amount;
use crate::ledger::{Advance, Claim, ServerMs};
use crate::netting::Verdict;
use crate::transaction::{Reason, State, TransactionId};

/// How long a claim lasts; see [`crate::config::TimingArgs`].
#[derive(Clone, Copy, Debug)]
pub struct LeaseMs {
    /// The owner may post for so long.
    pub lease: i64,
    /// After that, others wait for so long.
    pub grace: i64,
}

fn literal(text: &str) -> Document {
    doc! { "$literal": text }
}

fn ids_bson(ids: &[TransactionId]) -> Vec<&str> {
    ids.iter().map(AsRef::as_ref).collect()
}

/// Claims what is `initial`, or in flight past its takeover time. The clock is the server's.
pub(super) fn claim(ids: &[TransactionId], claim: &Claim, lease: LeaseMs) -> Document {
    let in_flight = State::IN_FLIGHT.map(Bson::from).to_vec();
    doc! {
        "q": {
            "_id": { "$in": ids_bson(ids) },
            "$or": [
                { "state": State::Initial },
                {
                    "state": { "$in": in_flight },
                    "$expr": { "$gt": ["$$NOW", "$takeoverAt"] },
                },
            ],
        },
        "u": [{ "$set": {
            "state": { "$cond": [{ "$eq": ["$state", "initial"] }, "pending", "$state"] },
            "claim": literal(&claim.token),
            "application": literal(&claim.application),
            "attempts": { "$add": [{ "$ifNull": ["$attempts", 0] }, 1] },
            "leaseUntil": { "$add": ["$$NOW", lease.lease] },
            "takeoverAt": { "$add": ["$$NOW", lease.lease + lease.grace] },
            "lastModified": "$$NOW",
        } }],
        "multi": true,
    }
}

/// The fields that only mean something while a transaction is in flight.
pub(super) const OWNERSHIP: [&str; 4] = ["claim", "leaseUntil", "takeoverAt", "sweepAfter"];

/// Moves a batch from one state to the next, where still in it and under this claim. Plain operators:
/// a pipeline with `$$NOW` costs the server a sixth more.
pub(super) fn advance(step: Advance, ids: &[TransactionId], claim: &Claim) -> Document {
    let (from, to) = step.states();
    let mut update = doc! {
        "$set": { "state": to },
        "$currentDate": { "lastModified": true },
    };
    if to.is_final() {
        update.insert("$unset", gone());
    }
    doc! {
        "q": { "_id": { "$in": ids_bson(ids) }, "state": from, "claim": &claim.token },
        "u": update,
        "multi": true,
    }
}

/// The operand of `$unset` for what a final transaction no longer has.
fn gone() -> Document {
    OWNERSHIP.iter().map(|field| ((*field).to_owned(), Bson::from(""))).collect()
}

/// Turns a pending transaction towards its undoing, with the reason.
pub(super) fn cancel(id: &str, reason: &Reason, claim: &Claim) -> Document {
    doc! {
        "q": { "_id": id, "state": State::Pending, "claim": &claim.token },
        "u": [{ "$set": {
            "state": State::Canceling,
            "reason": { "$literal": reason.to_document() },
            "lastModified": "$$NOW",
        } }],
    }
}

/// Gives a claim up: the token goes, and the takeover time becomes the later of a delay from now
/// and a given moment.
pub(super) fn release(
    ids: &[TransactionId],
    claim: &Claim,
    after_ms: i64,
    not_before: ServerMs,
) -> Document {
    doc! {
        "q": { "_id": { "$in": ids_bson(ids) }, "claim": &claim.token },
        "u": [
            { "$set": {
                "takeoverAt": {
                    "$max": [{ "$add": ["$$NOW", after_ms] }, DateTime::from_millis(not_before)],
                },
                "lastModified": "$$NOW",
            } },
            { "$unset": ["claim"] },
        ],
        "multi": true,
    }
}

/// Adds to a balance, within a native transaction: one that compares nothing, since the server
/// compares the document with what was read. With it, how many documents it has to match.
pub(super) fn add(account: &str, change: Amount) -> (Document, usize) {
    (doc! { "q": { "_id": account }, "u": { "$inc": { "balance": change } } }, 1)
}

/// Moves `initial` transactions to their ends, within a native transaction. With each statement,
/// how many documents it has to match.
pub(super) fn ends(verdicts: &[Verdict], application: &str) -> Vec<(Document, usize)> {
    let end = |state: State, reason: Option<&Reason>| {
        let mut set = doc! { "state": state, "application": application };
        set.extend(reason.map(|reason| ("reason".to_owned(), reason.to_document().into())));
        doc! {
            "$set": set,
            "$inc": { "attempts": 1 },
            "$unset": gone(),
            "$currentDate": { "lastModified": true },
        }
    };
    let done: Vec<&str> =
        verdicts.iter().filter(|v| v.refused.is_none()).map(|v| v.id.as_ref()).collect();
    let mut statements = Vec::new();
    if !done.is_empty() {
        let count = done.len();
        let filter = doc! { "_id": { "$in": done }, "state": State::Initial };
        let statement = doc! { "q": filter, "u": end(State::Done, None), "multi": true };
        statements.push((statement, count));
    }
    for verdict in verdicts {
        if let Some(reason) = &verdict.refused {
            let filter = doc! { "_id": verdict.id.as_ref(), "state": State::Initial };
            let statement = doc! { "q": filter, "u": end(State::Canceled, Some(reason)) };
            statements.push((statement, 1));
        }
    }
    statements
}
