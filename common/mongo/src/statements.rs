//! The guarded updates of transactions, as pure functions from the ledger's vocabulary to MongoDB
//! statements; those of accounts are in [`super::postings`].
//!
//! Each update compares the state that it leaves, and the claim. Strings from outside always stand
//! in `$literal`: a `$` in an id must never become a field path.

use std::collections::HashSet;

use ledger::event::End;
use ledger::journal::Heading;
use ledger::netting::Change;
use ledger::transaction::{DECIDED_KEY, DUE_AT, Reason, State, TransactionId};
use ledger::{Cancelation, Claim, Commit, LeaseMs, ServerMs, Verdict};
use mongodb::bson::{DateTime, Document, RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};

use super::dates::is_date;
use super::native::Statement;
use super::read::cstr;

/// How long sweepers leave alone what somebody has brought back who publishes or ends it himself,
/// in milliseconds.
const SOON_MS: i64 = 5_000;

/// The stamp of whatever is brought back to a state in which it needs a worker: the sweepers' mark
/// may have passed it, and then only its stamp shows it to them.
pub(super) fn stamped_soon() -> RawDocumentBuf {
    rawdoc! { "$add": ["$$NOW", SOON_MS] }
}

/// The date of creation; this moment, where others have written none.
pub(super) fn dated() -> RawDocumentBuf {
    rawdoc! { "$cond": [is_date("$createdAt"), "$createdAt", "$$NOW"] }
}

pub(super) fn literal(text: &str) -> RawDocumentBuf {
    rawdoc! { "$literal": text }
}

pub(super) fn names(ids: &[&TransactionId]) -> RawArrayBuf {
    ids.iter().map(|id| id.as_ref()).collect()
}

pub(super) fn states<const N: usize>(states: [State; N]) -> RawArrayBuf {
    states.iter().map(|state| state.as_str()).collect()
}

/// Claims transactions that are `initial`, or in flight past their takeover time, unless they are
/// parked. The clock is the server's. `alone` means that the claim is for one transaction only.
/// Such a claim counts in `attemptsAlone` unless it is the first: a transaction that fails alone
/// fails by itself. What has no date of creation gets one, so that the final ones among such do not
/// pile up where sweepers look for what has none.
pub(super) fn claim(
    ids: &[&TransactionId],
    claim: &Claim,
    lease: LeaseMs,
    alone: bool,
) -> RawDocumentBuf {
    let is_first = rawdoc! { "$eq": ["$state", "initial"] };
    let mut set = rawdoc! {
        "state": { "$cond": [is_first.clone(), "pending", "$state"] },
        "claimedAt": { "$cond": [is_first.clone(), "$$NOW", "$claimedAt"] },
        "createdAt": dated(),
        "claim": literal(&claim.token),
        "application": literal(&claim.application),
        "attempts": one_more("$attempts"),
        "leaseUntil": { "$add": ["$$NOW", lease.lease] },
        "takeoverAt": { "$add": ["$$NOW", lease.lease + lease.grace] },
        "lastModified": "$$NOW",
    };
    if alone {
        let counted = rawdoc! { "$cond": [is_first, "$$REMOVE", one_more("$attemptsAlone")] };
        set.append(cstr("attemptsAlone"), counted);
    }
    rawdoc! {
        "q": {
            "_id": { "$in": names(ids) },
            "parked": null,
            "$or": [
                { "state": State::Initial.as_str() },
                {
                    "state": { "$in": states(State::IN_FLIGHT) },
                    "$expr": { "$gt": ["$$NOW", "$takeoverAt"] },
                    // Without this condition, a text or a number would count as earlier than every
                    // date.
                    "$or": [{ "takeoverAt": { "$type": "date" } }, { "takeoverAt": null }],
                },
            ],
        },
        "u": [{ "$set": set }],
        "multi": true,
    }
}

/// A count plus one. Whatever somebody has written into the field, the result is a whole number
/// that the validator accepts; otherwise the claim would fail.
fn one_more(field: &str) -> RawDocumentBuf {
    let whole = rawdoc! { "$in": [{ "$type": field }, ["int", "long"]] };
    let in_range =
        rawdoc! { "$and": [{ "$gte": [field, 0] }, { "$lt": [field, i32::MAX] }, whole] };
    let counted = rawdoc! { "$cond": [in_range, { "$add": [field, 1] }, i32::MAX] };
    // The field is missing or null.
    rawdoc! { "$cond": [{ "$lte": [field, null] }, 1, counted] }
}

/// The fields that only mean something while a transaction is not final.
pub(super) const UNFINISHED: [&str; 6] =
    ["claim", "leaseUntil", "takeoverAt", "sweepAfter", "parked", DUE_AT];

/// The field of an exclusive key; a decision moves it to [`DECIDED_KEY`].
const KEY: &str = "exclusiveKey";

/// The stages of an update that decides a transaction. It frees the exclusive key by moving it to a
/// field of its own, and removes `gone`, which means nothing from now on.
pub(super) fn decision(mut set: RawDocumentBuf, gone: &[&str]) -> RawArrayBuf {
    let key = rawdoc! { "$ifNull": [format!("${KEY}"), format!("${DECIDED_KEY}")] };
    set.append(cstr(DECIDED_KEY), key);
    let gone: RawArrayBuf = gone.iter().copied().chain([KEY]).collect();
    [rawdoc! { "$set": set }, rawdoc! { "$unset": gone }].into_iter().collect()
}

/// Commits the transactions of a batch, where they are still pending and under this claim. It uses
/// plain operators: a pipeline with `$$NOW` costs the server a sixth more. The commit of what
/// expires is a pipeline all the same: `$currentDate` is a clock that runs on after the guard was
/// evaluated, and would show a decision after `expiresAt`.
pub(super) fn commit(guard: Commit, ids: &[&TransactionId], claim: &Claim) -> RawDocumentBuf {
    let mut filter = owned(State::Pending, ids, claim);
    let state = State::Applied.as_str();
    let update = match guard {
        Commit::AnyTime => {
            let now = rawdoc! { "decidedAt": true, "lastModified": true };
            let update = rawdoc! {
                "$set": { "state": state }, "$currentDate": now, "$rename": key_is_decided(),
            };
            RawBson::from(update)
        }
        Commit::InTime => {
            filter.append(cstr("$expr"), in_time());
            let set = rawdoc! { "state": state, "decidedAt": "$$NOW", "lastModified": "$$NOW" };
            RawBson::from(decision(set, &[]))
        }
    };
    rawdoc! { "q": filter, "u": update, "multi": true }
}

/// Those that are in this state and under this claim.
fn owned(state: State, ids: &[&TransactionId], claim: &Claim) -> RawDocumentBuf {
    rawdoc! {
        "_id": { "$in": names(ids) }, "state": state.as_str(), "claim": claim.token.as_str(),
    }
}

/// Moves an exclusive key to the field of keys that are free.
fn key_is_decided() -> RawDocumentBuf {
    RawDocumentBuf::from_iter([(cstr(KEY), RawBson::from(DECIDED_KEY))])
}

/// Ends transactions of a batch in two phases, under the name of their line. They were decided
/// before, so their keys are free already, save where somebody has written one by hand.
pub(super) fn end(end: End, ids: &[&TransactionId], claim: &Claim, line: &str) -> RawDocumentBuf {
    let gone = UNFINISHED.iter().map(|field| (cstr(field), RawBson::from("")));
    let update = rawdoc! {
        "$set": { "state": end.as_str(), "line": line },
        "$currentDate": { "lastModified": true },
        "$unset": RawDocumentBuf::from_iter(gone),
        "$rename": key_is_decided(),
    };
    rawdoc! { "q": owned(end.leaves(), ids, claim), "u": update, "multi": true }
}

/// Whether a transaction that expires has not expired yet, on the server's clock.
fn in_time() -> RawDocumentBuf {
    rawdoc! { "$lt": ["$$NOW", "$expiresAt"] }
}

/// Turns a pending transaction towards its undoing, with the reason.
pub(super) fn cancel(cancelation: &Cancelation, claim: &Claim) -> RawDocumentBuf {
    let mut filter = rawdoc! {
        "_id": cancelation.id.as_ref(),
        "state": State::Pending.as_str(),
        "claim": claim.token.as_str(),
    };
    if cancelation.unconfirmed {
        filter.append(cstr("captured"), RawBson::Null);
    }
    let set = canceling(&cancelation.reason, cancelation.never_posted);
    rawdoc! { "q": filter, "u": decision(set, &[]) }
}

/// What every update sets that turns a transaction towards its undoing.
pub(super) fn canceling(reason: &Reason, never_posted: bool) -> RawDocumentBuf {
    let mut reason = reason.to_document();
    if never_posted {
        reason.insert("neverPosted", true);
    }
    rawdoc! {
        "state": State::Canceling.as_str(),
        "reason": { "$literal": raw(&reason) },
        "decidedAt": "$$NOW",
        "lastModified": "$$NOW",
    }
}

/// A document as bytes.
///
/// # Panics
/// When the name of a field has a zero byte.
#[must_use]
pub fn raw(document: &Document) -> RawDocumentBuf {
    document.try_into().expect("no name of a field has a NUL")
}

/// Releases a claim: removes the token, and sets the takeover time to the later of a delay from now
/// and a given moment.
pub(super) fn release(
    ids: &[&TransactionId],
    claim: &Claim,
    after_ms: i64,
    not_before: ServerMs,
) -> RawDocumentBuf {
    rawdoc! {
        "q": { "_id": { "$in": names(ids) }, "claim": claim.token.as_str() },
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

/// Takes a first claim back, as if the transaction had never been claimed, and stamps it.
pub(super) fn unclaim(ids: &[&TransactionId], claim: &Claim) -> RawDocumentBuf {
    rawdoc! {
        "q": {
            "_id": { "$in": names(ids) },
            "state": State::Pending.as_str(),
            "claim": claim.token.as_str(),
            "attempts": 1,
        },
        "u": [
            { "$set": {
                "state": State::Initial.as_str(),
                "sweepAfter": stamped_soon(),
                "lastModified": "$$NOW",
            } },
            { "$unset": [
                "claim", "leaseUntil", "takeoverAt", "application", "attempts", "claimedAt",
            ] },
        ],
        "multi": true,
    }
}

/// Changes a balance within a native transaction. It needs no guard, because the server compares
/// the document with the snapshot. Also returns how many documents it has to match.
pub(super) fn add(account: &str, change: Change) -> Statement {
    let update = match change {
        Change::Add(amount) => rawdoc! { "$inc": { "balance": RawBson::from(amount) } },
        Change::Set { balance, opening } => {
            let (balance, opening) = (RawBson::from(balance), RawBson::from(opening));
            rawdoc! { "$set": { "balance": balance, "openingBalance": opening } }
        }
    };
    (rawdoc! { "q": { "_id": account }, "u": update }, 1)
}

/// Moves `initial` transactions to their ends within a native transaction. With each statement
/// comes the number of documents that it has to match: fewer match when one of those that `expire`
/// and are to be done has expired meanwhile.
pub(super) fn ends(
    verdicts: &[Verdict],
    expire: &HashSet<&TransactionId>,
    heading: &Heading,
) -> Vec<Statement> {
    let end_of = |state: State, reason: Option<&Reason>| {
        let mut set = rawdoc! {
            "state": state.as_str(),
            "lastModified": "$$NOW",
            "createdAt": dated(),
            "line": literal(&heading.id),
            "application": literal(&heading.application),
            "attempts": one_more("$attempts"),
        };
        if let Some(reason) = reason {
            set.append(cstr("reason"), rawdoc! { "$literal": raw(&reason.to_document()) });
        }
        decision(set, &UNFINISHED)
    };
    let done = verdicts.iter().filter(|verdict| verdict.refused.is_none());
    let (expiring, lasting): (Vec<&TransactionId>, Vec<_>) =
        done.map(|verdict| &verdict.id).partition(|id| expire.contains(id));
    let mut statements = Vec::new();
    for (done, expires) in [(lasting, false), (expiring, true)] {
        if done.is_empty() {
            continue;
        }
        let count = done.len();
        let mut filter = rawdoc! {
            "_id": { "$in": names(&done) }, "state": State::Initial.as_str(), "parked": null,
        };
        if expires {
            filter.append(cstr("$expr"), in_time());
        }
        let statement = rawdoc! { "q": filter, "u": end_of(State::Done, None), "multi": true };
        statements.push((statement, count));
    }
    for verdict in verdicts {
        if let Some(reason) = &verdict.refused {
            let filter = rawdoc! {
                "_id": verdict.id.as_ref(), "state": State::Initial.as_str(), "parked": null,
            };
            let statement = rawdoc! { "q": filter, "u": end_of(State::Canceled, Some(reason)) };
            statements.push((statement, 1));
        }
    }
    statements
}
