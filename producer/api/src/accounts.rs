//! Accounts: creating them, looking at them, their statements, and changing their status and floor.

use axum::http::{HeaderValue, StatusCode, header};
use bson::Document;
use client::{
    ActEnd, Adjusted, Change, Entry, Error, NewFloor, Opened, OpenedFrom, Origin, Period,
    StatementOrder, Told, readable,
};
use input::{FLOOR, OPENING, Record, parse_floor, parse_opening};
use ledger::account::Account as Stored;
use ledger::limits::echo;
use ledger::notation::Notation;
use ledger::visible::alike_told;
use ledger::{json, uri};
use serde::Serialize;
use utoipa::ToSchema;

use super::answer::Answer;
use super::call::Call;
use super::problem::Problem;
use super::received::{Received, Wait};
use super::submissions::{applied, refusal, standing};
use super::view::{Account, Money, OpeningTransfer, Stands};

/// The parameter with the order of a statement.
pub const ORDER: &str = "order";

/// A page of accounts.
#[derive(Debug, Serialize, ToSchema)]
pub struct Accounts {
    /// The accounts, by name. A page of large documents is short and has a next one all the same.
    items: Vec<Account>,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    next: Option<String>,
    /// The cursor of the page before, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    prev: Option<String>,
}

/// What has happened to an account: its transactions that are done, in the order in which they were
/// booked, or from the newest back. It is exact while others are in flight: a transaction stands on it
/// when it is done.
#[derive(Debug, Serialize, ToSchema)]
pub struct Statement {
    /// The account.
    account: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    currency: Option<String>,
    /// The balance before the oldest item.
    opening: Money,
    /// The transactions, in the order that was asked for.
    items: Vec<Booked>,
    /// The balance after the newest item.
    closing: Money,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    next: Option<String>,
    /// The cursor of the page before, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    prev: Option<String>,
}

/// A transaction on a statement.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Booked {
    /// The transaction, or the name of an adjustment.
    id: String,
    /// When it was done.
    #[schema(format = DateTime)]
    booked_at: String,
    /// What it brought; below zero is a debit.
    amount: Money,
    /// The balance after it.
    balance: Money,
    /// The other accounts of it, at most ten.
    counterparties: Vec<String>,
    /// If it is no transaction, but what a person has booked because another program had moved the
    /// balance: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    adjustment: Option<Adjustment>,
}

/// Why something was booked that no transaction has moved.
#[derive(Debug, Serialize, ToSchema)]
pub struct Adjustment {
    /// The reason that was given.
    reason: String,
    /// Who has given it.
    by: String,
}

impl From<Entry> for Booked {
    fn from(entry: Entry) -> Booked {
        Booked {
            id: entry.id.to_string(),
            booked_at: json::timestamp(entry.booked_at),
            amount: entry.amount.into(),
            balance: entry.balance.into(),
            counterparties: entry.counterparties.iter().map(ToString::to_string).collect(),
            adjustment: entry.adjusted.map(|Adjusted { reason, by }| Adjustment { reason, by }),
        }
    }
}

/// `POST /v1/accounts`
pub async fn create(call: Call) -> Result<Answer, Problem> {
    let wait = call.wait()?;
    let (account, from) = account(&call, &call.api.client.store().notation())?;
    call.access.require_creates(&account, from.as_deref())?;
    if let Some(from) = from {
        return create_from(&call, account, &from, wait).await;
    }
    let id = account.id.clone();
    let address = format!("/v1/accounts/{}", uri::segment(&id));
    let opened = call.api.client.create_accounts(&[account]).await?.remove(0);
    let opened = opened.map_err(|error| Problem::from(error).existing(address.clone()))?;
    let account = find(&call, &id).await.map_err(Error::after_a_write)?;
    Ok(answered(opened, opened == Opened::Unchanged, &address, &account))
}

/// The answer to who opens an account.
fn answered(opened: Opened, is_replayed: bool, address: &str, account: &Account) -> Answer {
    let status = match opened {
        Opened::Created => StatusCode::CREATED,
        Opened::Unchanged => StatusCode::OK,
    };
    let address = HeaderValue::try_from(address).expect("it is percent-encoded");
    let answer = Answer::json(status, account).with(header::LOCATION, address);
    answer.replayed_if(is_replayed)
}

/// The account that a body describes, and the one that is to pay its opening balance.
pub fn account(
    received: &Received,
    notation: &Notation,
) -> Result<(Stored, Option<String>), Problem> {
    let record = Record::from_value(received.json()?, OPENING)?;
    Ok(parse_opening(record, notation)?)
}

/// Opens an account whose opening balance another one pays. Once the account is open, the answer
/// says what became of the transfer, also where that is refused.
async fn create_from(
    call: &Call,
    account: Stored,
    from: &str,
    wait: Option<Wait>,
) -> Result<Answer, Problem> {
    call.api.take(1)?;
    let address = format!("/v1/accounts/{}", uri::segment(&account.id));
    let origin = Origin::of(call.access.submitter());
    let opened = call.api.client.open_from(&account, from, origin).await;
    let OpenedFrom { opened, transfer, receipt } = opened.map_err(|error| match error {
        Error::Conflict { ref id, .. } if **id != *account.id => {
            refusal(call, &id.clone(), false, error)
        }
        error => Problem::from(error).existing(address.clone()),
    })?;
    let is_known = matches!(&receipt, Ok(receipt) if receipt.known.is_some());
    let paid = match receipt {
        Ok(receipt) => {
            call.api.note_unpublished(receipt.unpublished.as_ref());
            let (standing, note) = standing(&call.api, &transfer, receipt.state, wait).await;
            OpeningTransfer::taken(Stands { note, ..Stands::new(&transfer, &standing) })
        }
        Err(error) => OpeningTransfer::refused(&transfer, &refusal(call, &transfer, false, error)),
    };
    let ended = ActEnd::ok(paid.told());
    let account = find(call, &account.id).await.map_err(Error::after_a_write)?;
    let account = account.opened_with(paid);
    let is_replayed = is_known && opened == Opened::Unchanged;
    let mut answer = answered(opened, is_replayed, &address, &account);
    answer.ended = Some(ended);
    Ok(applied(answer, wait))
}

/// The time that a statement is about.
pub fn period(received: &Received) -> Result<Period, Problem> {
    Ok(Period { from: received.moment("from")?, to: received.moment("to")? })
}

/// The order of a statement.
pub fn order(received: &Received) -> Result<StatementOrder, Problem> {
    match received.text(ORDER) {
        None | Some("oldest") => Ok(StatementOrder::Oldest),
        Some("newest") => Ok(StatementOrder::Newest),
        Some(other) => {
            let problem = format!("{:?} is neither oldest nor newest", echo(other));
            Err(Problem::invalid(ORDER, problem))
        }
    }
}

/// `GET /v1/accounts/{id}`
pub async fn show(call: Call) -> Result<Answer, Problem> {
    let name = call.name()?;
    match find(&call, name).await {
        Ok(found) => Ok(Answer::json(StatusCode::OK, &found)),
        Err(error) => Err(with_alike(&call, name, error).await),
    }
}

/// The problem; of an account that is missing with one that is there and looks like it.
async fn with_alike(call: &Call, name: &str, error: Error) -> Problem {
    let is_missing = matches!(error, Error::NotFound { .. });
    let mut problem = Problem::from(error);
    if is_missing && !call.access.is_bound() {
        // A courtesy: that it is missing is known, whatever comes of this. Not to who is bound to
        // accounts: it would be told of others.
        let alike = call.api.client.accounts_like(&[name]).await.unwrap_or_default();
        problem.detail +=
            &alike.get(name).map_or_else(String::new, |it| format!("; {}", alike_told(it)));
    }
    problem
}

/// `GET /v1/accounts`
pub async fn list(call: Call) -> Result<Answer, Problem> {
    let prefixes = call.access.accounts();
    // What is told of an account is short, whatever else its document has.
    let tell = |one: Document| Told { item: Account::listed(&one), bytes: 0 };
    let (limit, cursor) = (call.limit()?, call.text("cursor"));
    let _room = call.api.room_for_a_list().await;
    let page = call.api.client.accounts_told(prefixes, limit, cursor, tell).await?;
    let told = |problem| call.api.client.wrong_with_account(problem);
    let items = page.items.into_iter().map(|one| one.told(told)).collect();
    Ok(Answer::json(StatusCode::OK, &Accounts { items, next: page.next, prev: page.prev }))
}

/// `GET /v1/accounts/{id}/statement`
pub async fn statement(call: Call) -> Result<Answer, Problem> {
    let (period, order) = (period(&call)?, order(&call)?);
    call.access.require_seen(call.name()?)?;
    let (limit, cursor) = (call.limit()?, call.text("cursor"));
    let client = &call.api.client;
    let statement = client.statement_ordered(call.name()?, &period, order, limit, cursor).await;
    let statement = statement.map_err(|error| Problem::from(error).of_parameters())?;
    let statement = Statement {
        account: statement.account.to_string(),
        currency: statement.currency,
        opening: statement.opening.into(),
        items: statement.entries.into_iter().map(Booked::from).collect(),
        closing: statement.closing.into(),
        next: statement.next,
        prev: statement.prev,
    };
    Ok(Answer::json(StatusCode::OK, &statement))
}

/// `POST /v1/accounts/{id}/freeze`
pub async fn freeze(call: Call) -> Result<Answer, Problem> {
    change(&call, Change::Freeze).await
}

/// `POST /v1/accounts/{id}/unfreeze`
pub async fn unfreeze(call: Call) -> Result<Answer, Problem> {
    change(&call, Change::Unfreeze).await
}

/// `POST /v1/accounts/{id}/close`
pub async fn close(call: Call) -> Result<Answer, Problem> {
    change(&call, Change::Close).await
}

/// `POST /v1/accounts/{id}/floor`
pub async fn set_floor(call: Call) -> Result<Answer, Problem> {
    let id = call.name()?;
    call.access.require_seen(id)?;
    let wanted = floor(&call, &call.api.client.store().notation())?;
    let by = call.access.submitter().map(ToString::to_string);
    let set = match call.api.client.set_floor(id, &NewFloor { by, ..wanted }).await {
        Ok(set) => set,
        Err(error) => return Err(with_alike(&call, id, error).await),
    };
    let account = find(&call, id).await.map_err(Error::after_a_write)?;
    Ok(Answer::json(StatusCode::OK, &account).replayed_if(set.known))
}

/// The floor that a body asks for.
pub fn floor(received: &Received, notation: &Notation) -> Result<NewFloor, Problem> {
    let record = Record::from_value(received.json()?, FLOOR)?;
    Ok(parse_floor(record, notation)?)
}

async fn change(call: &Call, change: Change) -> Result<Answer, Problem> {
    let id = call.name()?;
    call.access.require_seen(id)?;
    call.api.client.change_status(change, id).await?;
    let account = find(call, id).await.map_err(Error::after_a_write)?;
    Ok(Answer::json(StatusCode::OK, &account))
}

async fn find(Call { api, access, .. }: &Call, id: &str) -> Result<Account, Error> {
    access.require_seen(id)?;
    let document = readable(&api.client.account_document(id).await?);
    let reserved = api.client.reserved(&document).await?;
    Ok(Account::of(&document, &reserved).told(|problem| api.client.wrong_with_account(problem)))
}
