//! The guarded updates, as pure functions from the ledger's vocabulary to MongoDB statements.
//!
//! Every statement that moves money filters on `_id` alone (the server's fast path) and carries its
//! guard inside the update pipeline, so check and write are one atomic step. Strings from outside
//! always stand in `$literal`: a `$` in an id must never become a field path.

use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::amount::Amount;
use crate::ledger::{Advance, Claim, Posting, Removal, ServerMs};
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

/// Posts all legs of a batch on one account, or none: open, same currency and kind, enough money,
/// no mark there yet, and the server's clock before the fence.
pub(super) fn post(posting: &Posting, before: ServerMs) -> Document {
    let marks = ids_bson(&posting.transactions);
    let currency = posting.currency.as_deref().map_or(Bson::Null, |c| literal(c).into());
    let kinds = if posting.is_int() { vec!["long", "int"] } else { vec!["decimal"] };
    let mut guards = vec![
        doc! { "$eq": ["$status", "open"] },
        doc! { "$lt": ["$$NOW", DateTime::from_millis(before)] },
        doc! { "$eq": [{ "$ifNull": ["$currency", Bson::Null] }, currency] },
        doc! { "$in": [{ "$type": "$balance" }, kinds] },
        doc! { "$eq": [
            { "$setIntersection": ["$pendingTransactions", { "$literal": &marks }] },
            [],
        ] },
    ];
    let mut changed = doc! {};
    if !posting.debits.is_zero() {
        let after = doc! { "$subtract": ["$balance", posting.debits] };
        // A missing floor must not read as unlimited, so only an explicit null is.
        guards.push(doc! { "$or": [
            { "$eq": [{ "$type": "$floor" }, "null"] },
            { "$and": [{ "$isNumber": "$floor" }, { "$gte": [&after, "$floor"] }] },
        ] });
        guards.push(doc! { "$gte": [&after, -Amount::MAX] });
        changed.insert("balance", after);
        changed.insert("pendingDebits", doc! { "$add": ["$pendingDebits", posting.debits] });
    }
    if !posting.credits.is_zero() {
        let holdings =
            doc! { "$add": ["$balance", "$pendingDebits", "$pendingCredits", posting.credits] };
        guards.push(doc! { "$lte": [holdings, Amount::MAX] });
        changed.insert("pendingCredits", doc! { "$add": ["$pendingCredits", posting.credits] });
    }
    changed.insert(
        "pendingTransactions",
        doc! { "$concatArrays": ["$pendingTransactions", { "$literal": &marks }] },
    );
    guarded(posting, doc! { "$and": guards }, changed)
}

/// Removes the marks of a batch from one account where all of them are there, with what they held.
pub(super) fn remove(removal: Removal, posting: &Posting) -> Document {
    let marks = doc! { "$literal": ids_bson(&posting.transactions) };
    let comes_back = match removal {
        Removal::Settle => posting.credits,
        Removal::Undo => posting.debits,
    };
    let mut changed = doc! {
        "pendingTransactions": { "$setDifference": ["$pendingTransactions", &marks] },
    };
    if !comes_back.is_zero() {
        changed.insert("balance", doc! { "$add": ["$balance", comes_back] });
    }
    if !posting.debits.is_zero() {
        changed.insert("pendingDebits", doc! { "$subtract": ["$pendingDebits", posting.debits] });
    }
    if !posting.credits.is_zero() {
        changed
            .insert("pendingCredits", doc! { "$subtract": ["$pendingCredits", posting.credits] });
    }
    guarded(posting, doc! { "$setIsSubset": [marks, "$pendingTransactions"] }, changed)
}

fn guarded(posting: &Posting, guard: Document, changed: Document) -> Document {
    let changed = doc! { "$mergeObjects": ["$$ROOT", changed] };
    doc! {
        "q": { "_id": posting.account.as_ref() },
        "u": [{ "$replaceWith": { "$cond": [guard, changed, "$$ROOT"] } }],
    }
}

/// The fields that only mean something while a transaction is in flight.
pub(super) const OWNERSHIP: [&str; 4] = ["claim", "leaseUntil", "takeoverAt", "sweepAfter"];

/// Moves a batch from one state to the next, where still in it and under this claim.
pub(super) fn advance(step: Advance, ids: &[TransactionId], claim: &Claim) -> Document {
    let (from, to) = step.states();
    let mut pipeline = vec![doc! { "$set": { "state": to, "lastModified": "$$NOW" } }];
    if to.is_final() {
        pipeline.push(doc! { "$unset": OWNERSHIP.to_vec() });
    }
    doc! {
        "q": { "_id": { "$in": ids_bson(ids) }, "state": from, "claim": &claim.token },
        "u": pipeline,
        "multi": true,
    }
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
        let gone = OWNERSHIP.map(|field| (field.to_owned(), Bson::from("")));
        doc! {
            "$set": set,
            "$inc": { "attempts": 1 },
            "$unset": Document::from_iter(gone),
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
