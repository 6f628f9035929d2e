//! Confirming and releasing holds.
//!
//! Promises that the same request again changes nothing and is answered with how it stands. The
//! broker may be away: what was confirmed or released is durable, and a sweeper finds it.

use axum::http::HeaderValue;
use client::{Capture, Decided};
use input::{CAPTURE, Record, parse_capture};
use ledger::notation::Notation;
use ledger::transaction::State;

use super::access::Debited;
use super::answer::Answer;
use super::call::Call;
use super::problem::Problem;
use super::received::{Received, Wait};
use super::submissions::{REPLAYED, stands};
use super::transactions::require_moves;

/// `POST /v1/transactions/{id}/confirm`
pub async fn confirm(call: Call) -> Result<Answer, Problem> {
    let (id, wait) = (call.name()?, call.wait()?);
    let capture = capture(&call, &call.api.client.store().notation())?;
    require_moves(&call, id, Debited::ByIt).await?;
    let decided = call.api.client.confirm(id, &capture).await?;
    answer(&call, decided, wait).await
}

/// `POST /v1/transactions/{id}/release`
pub async fn release(call: Call) -> Result<Answer, Problem> {
    let (id, wait) = (call.name()?, call.wait()?);
    require_moves(&call, id, Debited::ByIt).await?;
    let decided = call.api.client.release(id).await?;
    answer(&call, decided, wait).await
}

/// How much a request captures: all, if it has no body.
pub fn capture(received: &Received, notation: &Notation) -> Result<Capture, Problem> {
    match received.body.is_empty() {
        true => Ok(Capture::All),
        false => Ok(parse_capture(Record::from_value(received.json()?, CAPTURE)?, notation)?),
    }
}

async fn answer(call: &Call, decided: Decided, wait: Option<Wait>) -> Result<Answer, Problem> {
    call.api.note_unpublished(decided.unpublished.as_ref());
    let state = decided.standing.state.unwrap_or(State::Pending);
    let answer = stands(&call.api, call.name()?, state, wait).await?;
    Ok(match decided.known {
        true => answer.with(REPLAYED, HeaderValue::from_static("true")),
        false => answer,
    })
}
