//! Parked transactions: looking at them, bringing them back, giving them up.

use axum::http::StatusCode;
use bson::{Bson, DateTime};
use client::{Canceled, Error};
use ledger::limits::echo;
use ledger::transaction::{ParkCode, State};
use mongo::ParkedEntry;
use serde::Serialize;
use utoipa::ToSchema;

use super::answer::Answer;
use super::call::Call;
use super::problem::{Code, Problem};
use super::submissions::stands;
use super::words::{self, ParkedCode};

/// A parked transaction.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ParkedTransaction)]
pub struct Parked {
    /// Its id. An `_id` that is no text is shown as text.
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, value_type = words::State)]
    state: Option<&'static str>,
    /// Why, as a word.
    #[schema(value_type = ParkedCode)]
    code: &'static str,
    /// Why, as a sentence.
    message: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    at: Option<String>,
}

/// Parked transactions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ParkedTransactions)]
pub struct AllParked {
    items: Vec<Parked>,
}

/// `GET /v1/parked`
pub async fn list(call: Call) -> Result<Answer, Problem> {
    let item = |entry: ParkedEntry| Parked {
        id: match entry.id {
            Bson::String(id) => id,
            other => other.to_string(),
        },
        state: entry.state.map(|state| state.as_str()),
        code: ParkCode::told(&entry.code),
        message: entry.message,
        at: entry.at.and_then(|at| DateTime::from_millis(at).try_to_rfc3339_string().ok()),
    };
    let entries = call.api.client.parked(call.limit()?).await?;
    let items = entries.into_iter().map(item).collect();
    Ok(Answer::json(StatusCode::OK, &AllParked { items }))
}

/// `POST /v1/parked/{id}/replay`
pub async fn replay(call: Call) -> Result<Answer, Problem> {
    let (id, wait) = (call.name()?, call.wait()?);
    bring_back(&call, id).await?;
    let standings = call.api.client.standings(&[id]).await.map_err(Error::after_a_write)?;
    let state = standings.get(id).and_then(|standing| standing.state);
    let gone = || Problem::new(Code::NotFound, "it is gone");
    stands(&call.api, id, state.ok_or_else(gone)?, wait).await
}

/// `POST /v1/parked/{id}/discard`: gives the transaction up; a worker undoes what it has posted.
pub async fn discard(call: Call) -> Result<Answer, Problem> {
    let (id, wait) = (call.name()?, call.wait()?);
    // First, so that no worker goes on with it in between. One that is no longer parked is not
    // touched.
    if !call.api.client.is_parked(id).await? {
        return Err(not_parked(id));
    }
    let Canceled { standing, unpublished } = call.api.client.cancel(id).await?;
    call.api.note_unpublished(unpublished.as_ref());
    let unparked = call.api.client.unpark(&[id.into()]).await.map_err(Error::after_a_write)?;
    call.api.note_unpublished(unparked.unpublished.as_ref());
    if let Some((_, problem)) = unparked.refused.into_iter().next() {
        let problem = format!("{}: it is canceled, and stays parked: {problem}", echo(id));
        return Err(Problem::new(Code::Unknown, problem));
    }
    let state = standing.state.unwrap_or(State::Canceling);
    stands(&call.api, id, state, wait).await
}

async fn bring_back(call: &Call, id: &str) -> Result<(), Problem> {
    let unparked = call.api.client.unpark(&[id.into()]).await?;
    call.api.note_unpublished(unparked.unpublished.as_ref());
    if let Some((_, problem)) = unparked.refused.into_iter().next() {
        return Err(Problem::new(Code::Refused, problem));
    }
    if unparked.back.is_empty() { Err(not_parked(id)) } else { Ok(()) }
}

fn not_parked(id: &str) -> Problem {
    Problem::new(Code::NotFound, format!("{}: is not parked", echo(id)))
}
