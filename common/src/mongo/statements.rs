//! The guarded updates, as pure functions from the ledger's vocabulary to MongoDB statements.
//!
//! Every statement that moves money filters on `_id` alone (the server's fast path) and carries its
//! guard inside the update pipeline, so check and write are one atomic step. Strings from outside
//! always stand in `$literal`: a `$` in an id must never become a field path. A batch has thousands
//! of them, so they are built as bytes at once: as trees of `Document` they cost a worker more than
//! all the rest.

use mongodb::bson::{
    Bson, DateTime, Document, RawArrayBuf, RawBson, RawDocumentBuf, doc, raw::cstr, rawbson, rawdoc,
};

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
/// no mark there yet, and the server's clock before the fence. A ride leaves with it: what its
/// settlement changes and what the post changes is one sum for each field.
pub(super) fn post(posting: &Posting, before: ServerMs) -> RawDocumentBuf {
    let marks = marks(&posting.transactions);
    let currency =
        posting.currency.as_deref().map_or(RawBson::Null, |c| rawbson!({ "$literal": c }));
    let kinds = if posting.is_int() { rawbson!(["long", "int"]) } else { rawbson!(["decimal"]) };
    let there = rawdoc! { "$setIntersection": ["$pendingTransactions", marks.clone()] };
    let mut guards = RawArrayBuf::new();
    guards.push(rawdoc! { "$eq": ["$status", "open"] });
    guards.push(rawdoc! { "$lt": ["$$NOW", DateTime::from_millis(before)] });
    guards.push(rawdoc! { "$eq": [{ "$ifNull": ["$currency", null] }, currency] });
    guards.push(rawdoc! { "$in": [{ "$type": "$balance" }, kinds] });
    guards.push(rawdoc! { "$eq": [there, []] });
    let mut left = RawBson::from("$pendingTransactions");
    let (mut settled_debits, mut settled_credits) = (Amount::ZERO, Amount::ZERO);
    if let Some(ride) = &posting.ride {
        (settled_debits, settled_credits) = (ride.debits, ride.credits);
        let leaving = self::marks(&ride.transactions);
        guards.push(rawdoc! { "$setIsSubset": [leaving.clone(), "$pendingTransactions"] });
        left = rawbson!({ "$setDifference": [left, leaving] });
    }
    let balance = plus("$balance", [settled_credits, posting.debits.negated()]);
    let debits = plus("$pendingDebits", [posting.debits, settled_debits.negated()]);
    let credits = plus("$pendingCredits", [posting.credits, settled_credits.negated()]);
    if !posting.debits.is_zero() {
        // A missing floor must not read as unlimited, so only an explicit null is.
        guards.push(rawdoc! { "$or": [
            { "$eq": [{ "$type": "$floor" }, "null"] },
            { "$and": [{ "$isNumber": "$floor" }, { "$gte": [balance.clone(), "$floor"] }] },
        ] });
        guards.push(rawdoc! { "$gte": [balance.clone(), -Amount::MAX] });
        // A negative balance makes room for sums beyond what an amount may be, and an account with
        // such a sum could not be read.
        guards.push(rawdoc! { "$lte": [debits.clone(), Amount::MAX] });
    }
    if !posting.credits.is_zero() {
        // The holdings before the debit, which only moves them about.
        let pending = plus("$pendingCredits", [posting.credits, settled_debits.negated()]);
        let holdings = rawdoc! { "$add": ["$balance", "$pendingDebits", pending] };
        guards.push(rawdoc! { "$lte": [holdings, Amount::MAX] });
        guards.push(rawdoc! { "$lte": [credits.clone(), Amount::MAX] });
    }
    let marks = rawdoc! { "$concatArrays": [left, marks] };
    guarded(posting, rawdoc! { "$and": guards }, Changed { balance, debits, credits, marks })
}

/// Removes the marks of a batch from one account where all of them are there, with what they held.
pub(super) fn remove(removal: Removal, posting: &Posting) -> RawDocumentBuf {
    let marks = marks(&posting.transactions);
    let comes_back = match removal {
        Removal::Settle => posting.credits,
        Removal::Undo => posting.debits,
    };
    guarded(
        posting,
        rawdoc! { "$setIsSubset": [marks.clone(), "$pendingTransactions"] },
        Changed {
            balance: plus("$balance", [comes_back, Amount::ZERO]),
            debits: plus("$pendingDebits", [posting.debits.negated(), Amount::ZERO]),
            credits: plus("$pendingCredits", [posting.credits.negated(), Amount::ZERO]),
            marks: rawdoc! { "$setDifference": ["$pendingTransactions", marks] },
        },
    )
}

/// An account after an update, as expressions.
struct Changed {
    balance: RawBson,
    debits: RawBson,
    credits: RawBson,
    marks: RawDocumentBuf,
}

fn guarded(posting: &Posting, guard: RawDocumentBuf, changed: Changed) -> RawDocumentBuf {
    let mut fields = rawdoc! { "pendingTransactions": changed.marks };
    for (field, sum) in [
        (cstr!("balance"), changed.balance),
        (cstr!("pendingDebits"), changed.debits),
        (cstr!("pendingCredits"), changed.credits),
    ] {
        // A field that stays as it is need not be written.
        if sum.as_document().is_some() {
            fields.append(field, sum);
        }
    }
    let changed = rawdoc! { "$mergeObjects": ["$$ROOT", fields] };
    rawdoc! {
        "q": { "_id": posting.account.as_ref() },
        "u": [{ "$replaceWith": { "$cond": [guard, changed, "$$ROOT"] } }],
    }
}

/// A field plus amounts; the field itself when all of them are zero.
fn plus(field: &str, amounts: [Amount; 2]) -> RawBson {
    let mut terms = RawArrayBuf::new();
    terms.push(field);
    let mut changes = amounts.into_iter().filter(|amount| !amount.is_zero()).peekable();
    if changes.peek().is_none() {
        return field.into();
    }
    changes.for_each(|amount| terms.push(RawBson::from(amount)));
    rawbson!({ "$add": terms })
}

fn marks(transactions: &[TransactionId]) -> RawDocumentBuf {
    let mut ids = RawArrayBuf::new();
    transactions.iter().for_each(|id| ids.push(id.as_ref()));
    rawdoc! { "$literal": ids }
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
