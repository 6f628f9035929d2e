//! Looking at transactions, canceling and reversing them.

use std::time::SystemTime;

use axum::http::StatusCode;
use bson::{DateTime, Document};
use client::{Canceled, Error, LOOK_FOR, Origin, Page, TransactionFilter};
use ledger::json::timestamp;
use ledger::limits::echo;
use ledger::transaction::{ReasonCode, State};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::access::Debited;
use super::answer::{Answer, as_text};
use super::call::Call;
use super::problem::{Code, Problem};
use super::received::{Received, Wait};
use super::submissions::{applied, stands, taken};
use super::view::Transaction;

/// A page of transactions.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Transactions {
    /// The transactions, newest first. A page of large ones is short and has a next one all the
    /// same, and so is one that looks for what no index knows, which may be empty, too.
    #[schema(value_type = Vec<Transaction>)]
    items: Vec<Box<RawValue>>,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    next: Option<String>,
    /// The cursor of the page before, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    prev: Option<String>,
    /// If the page ends because it has looked long enough: the moment back to which it has, or up to
    /// which on the way back. What lies behind that comes with the next page on that way. It is the moment of creation, and in a list by ends that of
    /// the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    looked_until: Option<String>,
}

/// `GET /v1/transactions/{id}`
pub async fn show(call: Call) -> Result<Answer, Problem> {
    let (id, wait) = (call.name()?, call.wait()?);
    let find = async || {
        let found = call.api.client.transaction(id).await?;
        Ok::<_, Problem>(found.filter(|found| call.access.sees(found)))
    };
    if let Some(Wait { limit, .. }) = wait.filter(|wait| !wait.limit.is_zero()) {
        // How long it takes must not tell of a transaction that the caller may not see.
        if call.access.is_limited() {
            shown(id, find().await?.as_ref())?;
        }
        // Whatever it says, what is stored says it, too, and a server that is away is told below.
        drop(tokio::time::timeout(limit, call.api.client.outcome(id)).await);
    }
    Ok(applied(shown(id, find().await?.as_ref())?, wait))
}

fn shown(id: &str, found: Option<&Document>) -> Result<Answer, Problem> {
    let missing = || Problem::new(Code::NotFound, format!("{}: no such transaction", echo(id)));
    let transaction = found.map(Transaction::of).ok_or_else(missing)?;
    Ok(Answer::json(StatusCode::OK, &transaction))
}

/// `GET /v1/transactions`
pub async fn list(call: Call) -> Result<Answer, Problem> {
    let Some(filter) = asked(&call)? else {
        return Ok(Answer::json(StatusCode::OK, &Transactions::default()));
    };
    let (limit, cursor) = (call.limit()?, call.text("cursor"));
    let _room = call.api.room_for_a_list().await;
    let tell = |document: Document| as_text(&Transaction::of(&document));
    let page = call.api.client.transactions_told(&filter, limit, cursor, LOOK_FOR, tell).await;
    let page = page.map_err(|error| Problem::from(error).of_parameters())?;
    let Page { items, next, prev, looked_until } = page;
    let looked_until = looked_until.map(timestamp);
    Ok(Answer::json(StatusCode::OK, &Transactions { items, next, prev, looked_until }))
}

/// Which transactions a caller asks for; none if it asks for those of an account that is not there
/// for it.
///
/// # Errors
/// When the filter can't be read, and when it names no account and the token is bound to some.
pub fn asked(call: &Call) -> Result<Option<TransactionFilter>, Problem> {
    let filter = filter(call)?;
    if !call.access.is_bound() {
        return Ok(Some(filter));
    }
    let Some(account) = &filter.account else {
        let problem = "is missing; the token is bound to accounts, so name one of them";
        return Err(Problem::invalid("account", problem).forbidden());
    };
    Ok(call.access.has(account).then_some(filter))
}

/// Which transactions a list is about.
pub fn filter(received: &Received) -> Result<TransactionFilter, Problem> {
    Ok(TransactionFilter {
        states: states(received.text("state"))?,
        account: received.named("account")?,
        since: received.moment("since")?,
        until: received.moment("until")?,
        ended_since: received.moment("endedSince")?,
        ended_until: received.moment("endedUntil")?,
        reason: reason(received.text("reason"))?,
        application: None,
    })
}

fn reason(text: Option<&str>) -> Result<Option<ReasonCode>, Problem> {
    let Some(text) = text else { return Ok(None) };
    ReasonCode::parse(text).map(Some).ok_or_else(|| {
        let known = ReasonCode::ALL.map(ReasonCode::as_str).join(", ");
        Problem::invalid("reason", format!("{:?} is not one of {known}", echo(text)))
    })
}

fn states(text: Option<&str>) -> Result<Vec<State>, Problem> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let state = |name: &str| {
        State::parse(name).ok_or_else(|| {
            let known = State::ALL.map(State::as_str).join(", ");
            Problem::invalid("state", format!("{:?} is not one of {known}", echo(name)))
        })
    };
    text.split(',').map(state).collect()
}

/// Refuses to act on a transaction that the caller may not see, or whose money is not its own. What
/// is looked at never changes, so it stands for the write that follows.
pub async fn require_moves(call: &Call, id: &str, debited: Debited) -> Result<(), Problem> {
    if !call.access.is_limited() {
        return Ok(());
    }
    let found = call.api.client.transaction(id).await?;
    call.access.require_moves(id, found.as_ref(), debited).map(drop)
}

/// `POST /v1/transactions/{id}/cancel`
pub async fn cancel(call: Call) -> Result<Answer, Problem> {
    let (id, wait) = (call.name()?, call.wait()?);
    if call.access.is_limited() {
        let found = call.api.client.transaction(id).await?;
        let found = call.access.require_moves(id, found.as_ref(), Debited::ByIt)?;
        call.access.require_cancels(id, found)?;
    }
    let Canceled { standing, unpublished } = call.api.client.cancel(id).await?;
    call.api.note_unpublished(unpublished.as_ref());
    let state = standing.state.unwrap_or(State::Canceling);
    stands(&call.api, id, state, wait).await
}

/// Another moment for a scheduled transaction.
#[derive(ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(dead_code, reason = "requests are read field by field, so that errors name the field")]
pub struct Reschedule {
    /// Nobody settles it before this moment. One that has passed makes it due now.
    #[schema(value_type = String, format = DateTime)]
    not_before: (),
}

/// `POST /v1/transactions/{id}/reschedule`
pub async fn reschedule(call: Call) -> Result<Answer, Problem> {
    let id = call.name()?;
    let not_before = moment_of(&call.json()?)?;
    require_moves(&call, id, Debited::ByIt).await?;
    call.api.client.reschedule(id, not_before).await?;
    let found = call.api.client.transaction(id).await.map_err(Error::after_a_write)?;
    shown(id, found.as_ref())
}

/// The one field of a request to reschedule.
fn moment_of(body: &Value) -> Result<SystemTime, Problem> {
    const FIELD: &str = "notBefore";
    let Value::Object(fields) = body else {
        return Err(Problem::field(FIELD, "is missing: the body is not an object"));
    };
    if let Some(other) = fields.keys().find(|field| *field != FIELD) {
        return Err(Problem::field(&echo(other), "is not known here; only notBefore is"));
    }
    let moment = fields.get(FIELD).and_then(Value::as_str);
    let moment = moment.and_then(|text| DateTime::parse_rfc3339_str(text).ok());
    let moment = moment.ok_or_else(|| {
        Problem::field(FIELD, "is missing or not a moment like 2026-11-01T00:00:00Z")
    })?;
    Ok(moment.to_system_time())
}

/// `POST /v1/transactions/{id}/reverse`
pub async fn reverse(call: Call) -> Result<Answer, Problem> {
    let (id, wait) = (call.name()?, call.wait()?);
    require_moves(&call, id, Debited::ByItsReversal).await?;
    call.api.take(1)?;
    let origin = Origin::of(call.access.submitter());
    let receipt = call.api.client.reverse_from(id, origin).await?;
    taken(&call.api, &receipt, wait).await
}
