//! `status`: transactions as they stand, by their ids; and how one is printed.

use std::io::Write;

use bson::{Bson, DateTime, Document};
use clap::Args;
use client::{Adjustment, Standing};
use ledger::json;
use ledger::limits::echo;
use ledger::transaction::{Body, DECIDED_KEY, Leg, ReasonCode, Terms};
use ledger::visible::alike_told;

use super::reason_text;
use crate::accounts::why;
use crate::context::Context;
use crate::exit::{Error, Exit};

/// Of how many missing accounts it is said which ones look the same.
const EXAMPLES_MAX: usize = 10;

/// Which transactions to show.
#[derive(Args, Clone, Debug)]
pub struct StatusArgs {
    /// Their ids
    #[arg(required = true)]
    pub ids: Vec<String>,
    /// Print JSON, one transaction a line
    #[arg(long)]
    pub json: bool,
}

/// Prints transactions by id.
///
/// # Errors
/// When the server stays away. An unknown id is an exit code.
pub async fn status(
    context: &Context,
    args: &StatusArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let (mut exit, mut some_wait) = (Exit::Ok, false);
    for id in &args.ids {
        match context.client.transaction(id).await? {
            Some(document) => {
                print(&document, args.json, out)?;
                note_lookalikes(context, &document).await;
                let state = Standing::of(&document).state;
                some_wait |= state.is_some_and(|state| !state.is_final());
            }
            None if adjustment(context, id, args.json, out).await? => {}
            None => {
                context.console.note(format!("{id}: no such transaction"));
                exit = Exit::Failed;
            }
        }
    }
    if some_wait {
        context.note_pause().await;
    }
    Ok(exit)
}

/// Says where an account that a transaction has not found looks like one that there is.
async fn note_lookalikes(context: &Context, document: &Document) {
    let not_found = ReasonCode::AccountNotFound.as_str();
    let is_one = Standing::of(document).reason.is_some_and(|(code, _)| code == not_found);
    let body = Body::from_document(document).ok().filter(|_| is_one);
    let Some(body) = body else { return };
    let names: Vec<&str> = body.legs().iter().map(|leg| leg.account.as_ref()).collect();
    // A courtesy: what is known of the transaction was told.
    let there = context.client.accounts_named(&names).await.unwrap_or_default();
    let missing: Vec<&str> =
        names.into_iter().filter(|name| !there.contains_key(*name)).take(EXAMPLES_MAX).collect();
    let alike = context.client.accounts_like(&missing).await.unwrap_or_default();
    for (name, other) in alike {
        let told = alike_told(&other);
        context.console.note(format!("{}: no such account; {told}", echo(&name)));
    }
}

/// Prints an adjustment, which has a transaction's place in a statement; whether there is one.
async fn adjustment(
    context: &Context,
    id: &str,
    as_json: bool,
    out: &mut (dyn Write + Send),
) -> Result<bool, Error> {
    let Some(found) = context.client.adjustment(id).await? else { return Ok(false) };
    let Adjustment { id, account, amount, booked_at, adjusted } = found;
    let booked_at = json::timestamp(booked_at);
    let line = if as_json {
        let amount = json::from_bson(&Bson::from(amount));
        serde_json::json!({
            "_id": id, "account": account, "amount": amount, "bookedAt": booked_at,
            "adjustment": { "reason": adjusted.reason, "by": adjusted.by },
        })
        .to_string()
    } else {
        let (id, account, why) = (echo(&id), echo(&account), why(&adjusted));
        format!("{id}  {account} {amount}; {why}  {booked_at}")
    };
    writeln!(out, "{line}").map_err(Error::output)?;
    Ok(true)
}

/// Prints a transaction on one line.
pub(super) fn print(
    document: &Document,
    as_json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    if as_json {
        return writeln!(out, "{}", json::from_document(document)).map_err(Error::output);
    }
    let text = |field: &str| match document.get(field) {
        None => "-".to_owned(),
        Some(Bson::String(text)) => echo(text).into_owned(),
        Some(other) => echo(&other.to_string()).into_owned(),
    };
    let modified = document.get_datetime("lastModified").map(|moment| json::timestamp(*moment));
    writeln!(
        out,
        "{}  {}{}  {}  {}",
        text("_id"),
        text("state"),
        reason_text(&Standing::of(document)),
        content(document),
        modified.as_deref().unwrap_or("-"),
    )
    .map_err(Error::output)
}

/// The fields that a line is made of, beside the id.
pub(super) const PRINTED: [&str; 16] = [
    "state",
    "reason",
    "lastModified",
    "source",
    "destination",
    "value",
    "legs",
    "currency",
    "hold",
    "holdExpiresAt",
    "captured",
    "notBefore",
    "submittedNotBefore",
    "expiresAt",
    "exclusiveKey",
    DECIDED_KEY,
];

fn content(document: &Document) -> String {
    match Body::from_document(document) {
        Err(problem) => format!("invalid: {problem}"),
        Ok(body) => {
            let currency = body.currency.as_deref().unwrap_or_default();
            let legs = format!("{} {currency}", legs(body.legs()));
            [vec![legs.trim_end().to_owned()], terms(body.terms())].concat().join("; ")
        }
    }
}

fn legs(legs: &[Leg]) -> String {
    let legs = legs.iter().map(|leg| format!("{} {}", leg.account, leg.amount));
    legs.collect::<Vec<_>>().join(", ")
}

/// What it asks for beside its legs, and what was captured of it.
fn terms(terms: &Terms) -> Vec<String> {
    let until = |words: &str, moment: Option<DateTime>| {
        moment.map(|moment| format!("{words} {}", json::timestamp(moment)))
    };
    let captured = terms.captured.as_deref().map(|captured| format!("captured {}", legs(captured)));
    let told = [
        terms.hold.then(|| "a hold".to_owned()),
        until("hold expires at", terms.hold_expires_at),
        captured,
        until("not before", terms.not_before),
        until("expires at", terms.expires_at),
        terms.exclusive_key.as_ref().map(|key| format!("exclusive key {}", echo(key))),
    ];
    told.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn a_transaction_is_printed_with_its_terms() {
        let at = |ms| DateTime::from_millis(ms);
        let document = doc! {
            "_id": "t", "source": "a", "destination": "b", "value": 5_i64, "currency": "EUR",
            "state": "held", "hold": true, "holdExpiresAt": at(0), "expiresAt": at(1_000),
            "exclusiveKey": "a-for-b",
        };
        assert_eq!(
            content(&document),
            "a -5, b 5 EUR; a hold; hold expires at 1970-01-01T00:00:00Z; \
             expires at 1970-01-01T00:00:01Z; exclusive key a-for-b"
        );
        let plain = doc! { "source": "a", "destination": "b", "value": 5_i64 };
        assert_eq!(content(&plain), "a -5, b 5");
    }
}
