//! The model of holds: how a transaction comes to rest, is confirmed, and expires.
//!
//! Owns the semantics of `mongo::holds`, in plain code. A release is `model::request_cancel`.

use ledger::transaction::{Leg, Reason, ReasonCode, State, Terms};
use ledger::{CONFIRMED_ATTEMPTS, Claim, ServerMs};
use mongodb::bson::DateTime;

use super::model::{Transaction, end_ownership};
use super::moments::expires_at;
use super::planted::Planted;

/// When a hold is due that never expires.
const NEVER_MS: ServerMs = 253_402_300_799_999;

/// Until when a hold may be confirmed.
fn end_of(doc: &Transaction) -> ServerMs {
    let end = doc.body.as_ref().ok().and_then(|body| body.terms().confirm_before());
    end.map_or(NEVER_MS, DateTime::timestamp_millis)
}

/// Lets a pending hold rest; true if it matched.
pub fn rest(
    doc: &mut Transaction,
    claim: &Claim,
    not_before: ServerMs,
    now: ServerMs,
    planted: Option<Planted>,
) -> bool {
    let ours = doc.claim.as_deref() == Some(&claim.token);
    let matches = match planted {
        Some(Planted::LateRestRevivesAHold) => State::IN_FLIGHT.contains(&doc.state),
        Some(Planted::RestForgetsTheConfirmation) => ours && doc.state == State::Pending,
        _ => ours && doc.state == State::Pending && !doc.is_confirmed(),
    } && doc.is_hold();
    if matches {
        end_ownership(doc);
        doc.state = State::Held;
        doc.takeover_at = match planted {
            Some(Planted::RestForgetsTheDoubt) => now,
            _ => not_before.max(now),
        };
        doc.due_at = Some(end_of(doc));
    }
    matches
}

/// Confirms a hold, as a client's command does it; true if it matched.
pub fn confirm(
    doc: &mut Transaction,
    captured: &[Leg],
    now: ServerMs,
    planted: Option<Planted>,
) -> bool {
    let Ok(body) = &doc.body else { return false };
    if doc.state != State::Held || !doc.is_hold() || now >= end_of(doc) {
        return false;
    }
    let terms = Terms { captured: Some(captured.to_vec()), ..body.terms().clone() };
    doc.body = body.clone().with_terms(terms).map_err(|error| error.to_string());
    doc.state = State::Pending;
    doc.attempts = CONFIRMED_ATTEMPTS;
    doc.attempts_alone = 0;
    doc.takeover_at = match planted {
        Some(Planted::ConfirmLowersTheTakeover) => now,
        _ => doc.takeover_at.max(now),
    };
    doc.due_at = expires_at(doc);
    true
}

/// Ends a hold that nobody has confirmed in time, as a sweeper does it; true if it matched.
pub fn expire_hold(doc: &mut Transaction, now: ServerMs, planted: Option<Planted>) -> bool {
    let rests = match planted {
        Some(Planted::HoldExpiryWithoutTheState) => !doc.state.is_final(),
        _ => doc.state == State::Held,
    };
    if !rests || !doc.is_hold() || now < end_of(doc) {
        return false;
    }
    doc.state = State::Canceling;
    doc.takeover_at = doc.takeover_at.max(now);
    doc.reason = Some(Reason::new(ReasonCode::HoldExpired, "its hold has expired"));
    doc.due_at = None;
    true
}
