//! Submitting transactions; `bulk` is about many of them.
//!
//! Promises that an accepted transaction is durable, and that sending the same again, as a whole or in
//! part, changes nothing. Requests at the same time share inserts and publishes, in the client.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use common::transaction::State;
use common::uri;
use serde_json::Value;

use super::answer::Answer;
use super::call::Call;
use super::problem::{Code, Problem};
use super::received::{Received, Wait};
use super::view::Stands;
use super::{Api, bulk};
use crate::error::Error;
use crate::input::{Defaults, Kind, Record, TRANSFER, parse_transfer};
use crate::submission::{Receipt, Submission};
use crate::watch::{Outcome, Standing};

/// Says that nothing was inserted, because it was there already.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Says that the wish to wait was heard.
pub const APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// `POST /v1/transactions`
pub async fn submit(call: Call) -> Result<Answer, Problem> {
    let wait = call.wait()?;
    match transactions(&call, call.api.settings.items_max)? {
        Transactions::Many(items) => bulk::submit(&call, items, wait).await,
        Transactions::One(one) => single(&call, one, wait).await,
    }
}

/// What a body asks for.
pub enum Transactions {
    /// One transaction.
    One(Submission),
    /// An array: each item, or what is wrong with it.
    Many(Vec<Result<Submission, Problem>>),
}

/// Reads the transactions of a request.
pub fn transactions(received: &Received, most: usize) -> Result<Transactions, Problem> {
    let key = received.key()?;
    let of_item = |at: usize| key.as_ref().map(|key| format!("{key}:{at}"));
    let items = received.items(most, |at, item| submission(item?, of_item(at)))?;
    match items {
        None => submission(received.json()?, key).map(Transactions::One),
        Some(items) if items.count > most => {
            let problem = format!("the array has {} items; the limit is {most}", items.count);
            Err(Problem::new(Code::TooLarge, problem))
        }
        Some(items) => Ok(Transactions::Many(items.read)),
    }
}

async fn single(
    call: &Call,
    submission: Submission,
    wait: Option<Wait>,
) -> Result<Answer, Problem> {
    let id = submission.id().to_owned();
    call.api.gate.check()?;
    let receipt = call.api.client.submit(submission).await;
    let receipt = receipt.map_err(|error| refusal(&call.api, &id, error))?;
    taken(&call.api, &receipt, wait).await
}

/// The answer for a transaction that was taken.
pub async fn taken(api: &Api, receipt: &Receipt, wait: Option<Wait>) -> Result<Answer, Problem> {
    api.note_unpublished(receipt.unpublished.as_ref());
    let answer = stands(api, &receipt.id, receipt.state, wait).await?;
    Ok(match receipt.known {
        Some(_) => answer.with(REPLAYED, HeaderValue::from_static("true")),
        None => answer,
    })
}

/// The answer that says how a transaction stands, after waiting for its end, or until it is held, if
/// that is wished for: 200 if it has come to that, else 202. It was taken; if how it stands can't be read, it
/// stands as it was taken.
pub async fn stands(
    api: &Api,
    id: &str,
    state: State,
    wait: Option<Wait>,
) -> Result<Answer, Problem> {
    let limit = wait.map_or(Duration::ZERO, |wait| wait.limit);
    let standing = match state {
        // Its reason is in its document.
        State::Canceled | State::Canceling if limit.is_zero() => {
            let found = api.client.standings(&[id]).await.ok();
            found.and_then(|mut found| found.remove(id)).unwrap_or(Standing::in_state(state))
        }
        state if limit.is_zero() || state == State::Done => Standing::in_state(state),
        state => match tokio::time::timeout(limit, api.client.outcome(id)).await {
            Ok(Ok(outcome)) => of_outcome(outcome),
            Ok(Err(_)) | Err(_) => Standing::in_state(state),
        },
    };
    let status = status_of(standing.state);
    let mut answer = Answer::json(status, &Stands::new(id, &standing));
    if let Ok(address) = HeaderValue::try_from(address(id)) {
        answer = answer.with(header::LOCATION, address);
    }
    if let Some(Wait { limit, preferred: true }) = wait {
        let applied = format!("wait={}", limit.as_secs());
        answer = answer.with(APPLIED, HeaderValue::try_from(applied).expect("plain text"));
    }
    Ok(answer)
}

impl Standing {
    /// A transaction in a state, of which no reason is known.
    pub(super) fn in_state(state: State) -> Standing {
        Standing { state: Some(state), reason: None }
    }
}

fn of_outcome(outcome: Outcome) -> Standing {
    match outcome {
        Outcome::Held => Standing::in_state(State::Held),
        Outcome::Done => Standing::in_state(State::Done),
        Outcome::Canceled { code, message } => {
            Standing { state: Some(State::Canceled), reason: Some((code, message)) }
        }
    }
}

pub(super) fn status_of(state: Option<State>) -> StatusCode {
    match state {
        Some(State::Held | State::Done | State::Canceled) => StatusCode::OK,
        Some(
            State::Scheduled | State::Initial | State::Pending | State::Applied | State::Canceling,
        )
        | None => StatusCode::ACCEPTED,
    }
}

/// Reads a transaction. It must have an id of its own or a key, because a caller whose answer gets
/// lost has to send it again, and without an id that would be paid twice.
fn submission(value: Value, key: Option<String>) -> Result<Submission, Problem> {
    let record = Record::from_value(value, TRANSFER)?;
    let defaults = Defaults { currency: None, kind: Kind::ByPoint };
    let transfer = parse_transfer(record, &defaults)?;
    let id = match (transfer.id, key) {
        (Some(id), Some(key)) if id != key => {
            let problem = format!("is not the Idempotency-Key ({key}); give one of them");
            return Err(Problem::field("id", problem));
        }
        (Some(id), _) | (None, Some(id)) => id,
        (None, None) => {
            let problem = "is missing; give an id of your own, here or as Idempotency-Key, so that \
                           it is safe to send this again";
            return Err(Problem::field("id", problem));
        }
    };
    Ok(Submission::of(transfer.body).with_id(id))
}

pub(super) fn refusal(api: &Api, id: &str, error: Error) -> Problem {
    if matches!(error, Error::KeyInUse { .. }) {
        api.metrics.keys_in_use.inc();
    }
    match error {
        error @ Error::Conflict { .. } => Problem::from(error).existing(address(id)),
        error => error.into(),
    }
}

/// The address of a transaction.
pub fn address(id: &str) -> String {
    format!("/v1/transactions/{}", uri::segment(id))
}
