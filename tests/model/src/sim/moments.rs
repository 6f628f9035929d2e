//! The model of moments: when a scheduled transaction is due, and when a transaction expires.
//!
//! Owns the semantics of `mongo::schedules`, in plain code. What becomes of a hold when it
//! expires is in `super::holds`.

use ledger::ServerMs;
use ledger::transaction::{Body, State, Terms, expired};
use mongodb::bson::DateTime;

use super::model::Transaction;
use super::planted::Planted;

pub(super) fn expires_at(doc: &Transaction) -> Option<ServerMs> {
    doc.body.as_ref().ok().and_then(Body::expires_at)
}

/// Whether it can't be applied any more at this moment.
#[must_use]
pub fn has_expired(doc: &Transaction, now: ServerMs) -> bool {
    expires_at(doc).is_some_and(|expires_at| expires_at <= now)
}

/// What is noted of an application, where it has to be in time.
#[must_use]
pub fn applied_at(doc: &Transaction, now: ServerMs) -> Option<ServerMs> {
    expires_at(doc).map(|_| now)
}

/// Makes a scheduled transaction due whose moment has come; true if it matched.
pub fn make_due(doc: &mut Transaction, now: ServerMs) -> bool {
    let not_before = doc.body.as_ref().ok().and_then(|body| body.terms().not_before);
    let is_due = not_before.is_none_or(|not_before| not_before.timestamp_millis() <= now);
    let moves = doc.state == State::Scheduled && doc.parked.is_none() && is_due;
    if moves {
        doc.state = State::Initial;
        doc.due_at = expires_at(doc);
    }
    moves
}

/// Changes when a scheduled transaction is due, as a client's command does it; true if it matched.
pub fn reschedule(doc: &mut Transaction, not_before: ServerMs) -> bool {
    let Ok(body) = &doc.body else { return false };
    let moment = DateTime::from_millis(not_before);
    let terms = body.terms().clone();
    let is_late = |end: Option<DateTime>| end.is_some_and(|end| end <= moment);
    let always_expires = is_late(terms.expires_at) || is_late(terms.hold_expires_at);
    if doc.state != State::Scheduled || always_expires {
        return false;
    }
    let submitted_not_before = terms.submitted_not_before.or(terms.not_before);
    let terms = Terms { not_before: Some(moment), submitted_not_before, ..terms };
    doc.body = body.clone().with_terms(terms).map_err(|error| error.to_string());
    doc.due_at = Some(not_before);
    true
}

/// Cancels what has expired before anybody claimed it; true if it matched.
pub fn expire(doc: &mut Transaction, now: ServerMs, planted: Option<Planted>) -> bool {
    let waits = match planted {
        Some(Planted::ExpiryWithoutTheState) => !doc.state.is_final(),
        _ => matches!(doc.state, State::Scheduled | State::Initial),
    };
    let moves = waits && doc.parked.is_none() && has_expired(doc, now);
    if moves {
        doc.state = State::Canceling;
        doc.takeover_at = now;
        doc.never_posted = true;
        doc.reason = Some(expired());
        doc.due_at = None;
    }
    moves
}
