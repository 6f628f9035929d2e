//! `transfer`: one transfer from the command line.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use common::transaction::{Body, State, check_name};
use mongodb::bson::{DateTime, Document};
use serde_json::json;

use super::{publish, reason_text, state_of, wait_for};
use crate::advice::typed;
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::follow::WaitArgs;
use crate::input::Kind;
use crate::json;
use crate::submission::{Answer, Expect, Order, insert};

/// A transfer.
#[derive(Args, Clone, Debug)]
pub struct TransferArgs {
    /// The account that pays
    pub source: String,
    /// The account that is paid
    pub destination: String,
    /// How much: minor units like 1250, or a decimal like 12.50
    pub value: String,
    /// Its id, which makes a repeat harmless; default: a new UUIDv7, shown before anything is sent
    #[arg(long)]
    pub id: Option<String>,
    /// The currency, which both accounts must have
    #[arg(long)]
    pub currency: Option<String>,
    /// Read the value as a decimal, even without a point
    #[arg(long)]
    pub decimal: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented by its type")]
    pub wait: WaitArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Submits a transfer and prints its id; with `--wait` also how it ended. An id that it made is
/// noted on standard error first.
///
/// # Errors
/// When an argument is wrong, the id is taken, or a server stays away.
pub async fn transfer(
    context: &Context,
    args: &TransferArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let order = order(args)?;
    advise(context, args, &order.id);
    context.ensure_schema().await?;
    let answer = submit_one(context, &order).await?;
    let outcome = match &answer {
        Answer::Submitted => "submitted",
        Answer::Unchanged(_) => "unchanged",
        Answer::Conflict(other) => {
            return Err(Error::Refused(format!(
                "{}: the id is taken by {other}; submit this transfer under another id",
                order.id
            )));
        }
        Answer::Refused(problem) => {
            return Err(Error::Refused(format!("{}: {problem}", order.id)));
        }
    };
    let ended = match args.wait.wait {
        true => wait_for(context, &order.id, &args.wait).await?,
        false => None,
    };
    print(args, &order.id, outcome, ended.as_ref(), out)?;
    match ended {
        None if args.wait.wait => Ok(Exit::WaitLimit),
        Some(document) if state_of(&document)? == State::Canceled => Ok(Exit::Canceled),
        Some(_) | None => Ok(Exit::Ok),
    }
}

/// Says the id before anything is sent: whatever happens from here on, the user can repeat the
/// transfer under it. Standard output stays what scripts expect, the result alone.
fn advise(context: &Context, args: &TransferArgs, id: &str) {
    let flag = typed("--id", id);
    if args.id.is_none() {
        context.console.note(format!(
            "id {id}: should this command not come to its end, run it again with {flag}"
        ));
    }
    context.advice.set(format!(
        "run the same command with {flag}: it goes on where this one stopped and pays only once"
    ));
}

fn order(args: &TransferArgs) -> Result<Order, Error> {
    let value = Kind::from_flag(args.decimal)
        .parse(&args.value)
        .map_err(|error| Error::BadInput(format!("value: {error}")))?;
    if let Some(currency) = &args.currency {
        check_name("currency", currency)?;
    }
    let body = Body::transfer(&args.source, &args.destination, value)?;
    let id = args.id.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    check_name("id", &id)?;
    Ok(Order { id: id.into(), body: body.in_currency(args.currency.clone()) })
}

/// Inserts one order and publishes its id, in this order.
pub(super) async fn submit_one(context: &Context, order: &Order) -> Result<Answer, Error> {
    Ok(submit_orders(context, std::slice::from_ref(order)).await?.remove(0))
}

/// Inserts orders and publishes the ids of those that wait, in this order; an answer for each.
///
/// # Errors
/// When a server stays away; a repeat with the same ids resumes.
pub async fn submit_orders(context: &Context, orders: &[Order]) -> Result<Vec<Answer>, Error> {
    let (now, begun) = (context.insist(|| context.store.server_now()).await?, Instant::now());
    let created_at = at(now, begun.elapsed());
    let answers =
        context.insist(|| insert(&context.store, orders, created_at, Expect::New)).await?;
    let waiting = answers.iter().zip(orders).filter(|(answer, _)| answer.is_waiting());
    let waiting: Vec<_> = waiting.map(|(_, order)| order.id.clone()).collect();
    if !waiting.is_empty() {
        publish(context, &waiting).await?;
    }
    Ok(answers)
}

/// The server's time, a while after it was asked for.
pub(crate) fn at(server_now: i64, elapsed: Duration) -> DateTime {
    let elapsed = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
    DateTime::from_millis(server_now.saturating_add(elapsed))
}

fn print(
    args: &TransferArgs,
    id: &str,
    outcome: &str,
    ended: Option<&Document>,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let state = ended.map(state_of).transpose()?;
    let outcome = state.map_or(outcome, |state| state.as_str());
    if args.json {
        let reason = ended.and_then(|document| document.get_document("reason").ok());
        let reason = reason.map(json::from_document);
        let line = json!({ "id": id, "outcome": outcome, "reason": reason });
        return writeln!(out, "{line}").map_err(Error::output);
    }
    match ended {
        None => writeln!(out, "{id}"),
        Some(document) => writeln!(out, "{id}: {outcome}{}", reason_text(document)),
    }
    .map_err(Error::output)
}
