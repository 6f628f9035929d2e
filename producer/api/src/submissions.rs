//! Submitting transactions; `bulk` is about many of them.
//!
//! Promises that an accepted transaction is durable, and that sending the same again, as a whole or
//! in part, changes nothing. Requests at the same time share inserts and publishes, in the client.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use client::{Error, Origin, Outcome, Receipt, Rules, Standing, Submission};
use input::{Defaults, Flaw, Record, TRANSFER, Transfer, parse_transfer};
use ledger::transaction::State;
use ledger::uri;
use serde_json::Value;

use super::Api;
use super::access::Access;
use super::answer::Answer;
use super::call::Call;
use super::keys::{Form, Key};
use super::problem::{Code, Problem};
use super::received::{Received, Wait};
use super::settlement;
use super::view::Stands;

/// Says that the wish to wait was heard.
pub const APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// `POST /v1/transactions`
pub async fn submit(call: Call) -> Result<Answer, Problem> {
    let wait = call.wait()?;
    let one = one(&call, &call.access, &call.api.client.rules())?;
    single(&call, one, wait).await
}

/// Reads the transaction of a request. It must have an id of its own or a key, because a caller
/// whose answer gets lost has to send it again, and without an id that would be paid twice.
pub fn one(received: &Received, access: &Access, rules: &Rules) -> Result<Submission, Problem> {
    let submitter = access.submitter();
    let key = received.key()?.map(|key| Key::new(Form::Single, submitter, key));
    if received.is_array() {
        let problem = "is an array; send arrays to POST /v1/batch".to_owned();
        return Err(Flaw { field: None, problem }.into());
    }
    let Transfer { id, body } = transfer(received.json()?, access, rules)?;
    let id_from_key = id.is_none();
    let id = match (id, &key) {
        (Some(id), None) => id,
        (None, Some(key)) => rules.made(key.id())?,
        (Some(_), Some(_)) => {
            let problem = "stands beside an Idempotency-Key; give one of them";
            return Err(Problem::field("id", problem));
        }
        (None, None) => return Err(without_id()),
    };
    let origin = (submitter.is_some() || key.is_some()).then(|| {
        let request = key.map(|key| key.request());
        let submitted_by = submitter.cloned();
        Arc::new(Origin { submitted_by, request, id_from_key, array: None })
    });
    Ok(Submission::of(body).with_id(id).with_origin(origin))
}

/// Reads a transaction that the caller may submit.
pub(super) fn transfer(value: Value, access: &Access, rules: &Rules) -> Result<Transfer, Problem> {
    let as_legs = value.get("legs").is_some_and(|legs| !legs.is_null());
    let record = Record::from_value(value, TRANSFER)?;
    let defaults = Defaults { currency: None, notation: rules.notation().clone() };
    let transfer = parse_transfer(record, &defaults)?;
    access.require_debits(transfer.body.legs(), as_legs)?;
    Ok(transfer)
}

pub(super) fn without_id() -> Problem {
    let problem = "is missing; give an id of your own here, or an Idempotency-Key, so that it is safe to \
                   send this again";
    Problem::field("id", problem)
}

async fn single(
    call: &Call,
    submission: Submission,
    wait: Option<Wait>,
) -> Result<Answer, Problem> {
    let (id, id_from_key) = (submission.id().to_owned(), submission.has_id_from_key());
    call.api.take(1)?;
    let receipt = call.api.client.submit(submission).await;
    let receipt = receipt.map_err(|error| refusal(call, &id, id_from_key, error))?;
    taken(&call.api, &receipt, wait).await
}

/// The answer for a transaction that was taken.
pub async fn taken(api: &Api, receipt: &Receipt, wait: Option<Wait>) -> Result<Answer, Problem> {
    api.note_unpublished(receipt.unpublished.as_ref());
    let answer = stands(api, &receipt.id, receipt.state, wait).await?;
    Ok(answer.replayed_if(receipt.known.is_some()))
}

/// The answer that says how a transaction stands, after waiting for its end, or until it is held,
/// if that is wished for: 200 if it has come to that, else 202. It was taken; if how it stands
/// can't be read, it stands as it was taken.
pub async fn stands(
    api: &Api,
    id: &str,
    state: State,
    wait: Option<Wait>,
) -> Result<Answer, Problem> {
    let (standing, note) = standing(api, id, state, wait).await;
    let status = status_of(standing.state);
    let mut answer = Answer::json(status, &Stands { note, ..Stands::new(id, &standing) });
    if let Ok(address) = HeaderValue::try_from(address(id)) {
        answer = answer.with(header::LOCATION, address);
    }
    Ok(applied(answer, wait))
}

/// How a transaction stands that was taken in this state, after waiting for it, and why it has not
/// come to its end while it was waited for, if that is known.
pub async fn standing(
    api: &Api,
    id: &str,
    state: State,
    wait: Option<Wait>,
) -> (Standing, Option<String>) {
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
    let note = match status_of(standing.state) {
        StatusCode::ACCEPTED if !limit.is_zero() => settlement::note(api).await,
        _ => None,
    };
    (standing, note)
}

/// The answer, which says that the wish to wait was met, if the caller wants to know.
pub fn applied(answer: Answer, wait: Option<Wait>) -> Answer {
    let Some(Wait { limit, preferred: true }) = wait else { return answer };
    let applied = format!("wait={}", limit.as_secs());
    answer.with(APPLIED, HeaderValue::try_from(applied).expect("plain text"))
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

/// Why a submission was not taken. Of an id that is made from a key nothing is told that did not
/// come under that key: it may be somebody else's. Who is bound to accounts is told nothing of what
/// is in the way, which may be about others.
pub(super) fn refusal(call: &Call, id: &str, id_from_key: bool, error: Error) -> Problem {
    if matches!(error, Error::KeyInUse { .. }) {
        call.api.metrics.keys_in_use.inc();
    }
    match error {
        Error::KeyInUse { id, key, .. } if call.access.is_bound() => {
            let detail = format!("{id}: exclusiveKey {key:?} is in use by another transaction");
            Problem::new(Code::KeyInUse, detail)
        }
        Error::Conflict { id, .. } if call.access.is_bound() && !id_from_key => {
            Problem::new(Code::Conflict, format!("{id}: is in use, with other content"))
        }
        Error::Conflict { differs, .. } if id_from_key && !differs.is_empty() => {
            let detail = format!(
                "under this Idempotency-Key came {id} with other content; send it as it was, or under \
                 another key"
            );
            let (others, differs) = ([id.to_owned()].into(), differs.into());
            let problem = Problem::new(Code::KeyReused, detail).existing(address(id));
            Problem { others, differs, ..problem }
        }
        error @ Error::Conflict { .. } if id_from_key => error.into(),
        error @ Error::Conflict { .. } => Problem::from(error).existing(address(id)),
        error => error.into(),
    }
}

/// The address of a transaction.
pub fn address(id: &str) -> String {
    format!("/v1/transactions/{}", uri::segment(id))
}
