//! Draining one worker, letting it settle again, and how it stands.
//!
//! Promises as pausing does (`settlement`): it is stored with the name of the token, doing it again
//! changes nothing and says who was first, and the answer does not wait for the worker: it says what
//! that still does. A name that no worker had within a day is not there.

use axum::http::StatusCode;
use client::{Error, Settlement as Said, Switched, Whose};
use ledger::limits::echo;
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::answer::Answer;
use super::call::Call;
use super::problem::Problem;
use super::settlement::{Settlement, by, needed_reason, reason, stands};

/// Whether a worker is drained.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerSettlement {
    /// Its name.
    worker: String,
    /// Whether it is drained: it begins nothing, and stands by.
    drained: bool,
    /// Since when, by the database's clock. Absent where nobody has ever drained it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    since: Option<String>,
    /// Who has said so: the name of a token, or of a user as claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    by: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    reason: Option<String>,
    /// What live workers of this name still do if they do not do so yet, as they have said last; ask
    /// again until it is empty.
    workers_left: Vec<String>,
}

impl WorkerSettlement {
    fn new(worker: &str, settlement: Settlement) -> WorkerSettlement {
        let Settlement { paused, since, by, reason, workers_left } = settlement;
        let worker = echo(worker).into_owned();
        WorkerSettlement { worker, drained: paused, since, by, reason, workers_left }
    }
}

/// `GET /v1/workers/{id}`
pub async fn show(call: Call) -> Result<Answer, Problem> {
    let worker = call.name()?;
    let said = call.api.client.drain_of(worker).await?;
    Ok(told(&call.api, worker, said.as_ref()).await?)
}

/// `POST /v1/workers/{id}/drain`
pub async fn drain(call: Call) -> Result<Answer, Problem> {
    let (worker, reason) = (call.name()?, needed_reason(&call)?);
    let switched = call.api.client.drain(worker, by(&call), &reason).await?;
    switched_to(&call.api, worker, switched).await
}

/// `POST /v1/workers/{id}/resume`
pub async fn resume(call: Call) -> Result<Answer, Problem> {
    let (worker, reason) = (call.name()?, reason(&call)?);
    let switched = call.api.client.resume_worker(worker, by(&call), reason.as_deref()).await?;
    switched_to(&call.api, worker, switched).await
}

async fn switched_to(api: &Api, worker: &str, switched: Switched) -> Result<Answer, Problem> {
    let answer = told(api, worker, switched.settlement.as_ref()).await;
    let answer = answer.map_err(Error::after_a_write)?;
    Ok(answer.replayed_if(!switched.changed))
}

async fn told(api: &Api, worker: &str, said: Option<&Said>) -> Result<Answer, Error> {
    let settlement = stands(api, &Whose::Worker(worker.to_owned()), said).await?;
    Ok(Answer::json(StatusCode::OK, &WorkerSettlement::new(worker, settlement)))
}
