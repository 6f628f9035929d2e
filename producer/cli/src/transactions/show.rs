//! `status` and `list`: transactions as they stand.
//!
//! Unfinished states are read through the partial indexes that the sweeper uses, so that listing
//! them costs the same however large the collection is. Lists by account or age are those of the
//! library, which need a ledger with history.

use std::io::Write;
use std::time::SystemTime;

use bson::{Bson, DateTime, Document};
use clap::Args;
use client::{Adjustment, Listed, Standing, TransactionFilter};
use ledger::json;
use ledger::limits::echo;
use ledger::transaction::{Body, DECIDED_KEY, Leg, ReasonCode, State, Terms};
use ledger::visible::alike_told;

use super::reason_text;
use crate::accounts::why;
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::listing::print_all;
use crate::moment::{self, moment};

/// Of how many missing accounts it is said which ones look the same.
const EXAMPLES_MAX: usize = 10;

/// The most transactions of one page of the library.
const PAGE_MAX: u32 = 1_000;

pub const LIST_HELP: &str = "\
With --account or --since the list is newest first. With --account the ledger needs its index for
that: `producer init --apply --history on` adds it. Of an account there are first those in flight,
then the others by their ends: newest first, and of those that a worker has ended together the
canceled ones before those that are done.

Else those that wait or are in flight come first, the oldest created first, and before them those that
sweepers had to look after; then those that rest; then final ones by descending id.

With --held, the hold that expires first comes first, and with --scheduled what is due first.

Examples:
  producer list --state pending,applied,canceling --json
  producer list --held --limit 1000
  producer list --held --account alice
  producer list --scheduled --limit 10
  producer list --account alice --since 7d
  producer list --since 2026-11-01T00:00:00Z --state canceled --limit 1000";

/// What is said where not all could be looked at.
const CAPPED: &str = "so many transactions were created lately that not all of them were looked at; some of \
                      those that wait or are in flight may be missing";

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

/// Which transactions to list.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Only those in these states, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = parse_state)]
    pub state: Vec<State>,
    /// Only those with a leg on this account: those in flight, then those that workers have ended
    #[arg(long, value_name = "NAME", conflicts_with = "application")]
    pub account: Option<String>,
    /// Only those created since a moment (2026-11-01T00:00:00Z) or within a time (90s, 30m, 12h,
    /// 7d)
    #[arg(long, value_parser = moment, value_name = moment::NAME, conflicts_with = "application")]
    pub since: Option<SystemTime>,
    /// Only those whose last owner was the worker of this name
    #[arg(long, value_name = "NAME")]
    pub application: Option<String>,
    /// Only those on hold, those that expire first at the beginning
    #[arg(long, conflicts_with_all = ["state", "application"])]
    pub held: bool,
    /// Only those that are parked, with the reason
    #[arg(long, conflicts_with_all = ["state", "held", "application", "account", "since"])]
    pub parked: bool,
    /// Only those that are scheduled, those that are due first at the beginning, each with the
    /// moment
    #[arg(long, conflicts_with_all = ["state", "application", "account", "since", "held", "parked"])]
    pub scheduled: bool,
    /// At most so many
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
    /// Print JSON, one transaction a line
    #[arg(long)]
    pub json: bool,
}

impl ListArgs {
    fn states(&self) -> Vec<State> {
        if self.held { vec![State::Held] } else { self.state.clone() }
    }
}

fn parse_state(name: &str) -> Result<State, String> {
    State::parse(name)
        .ok_or_else(|| format!("is not one of {}", State::ALL.map(State::as_str).join(", ")))
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

/// Prints transactions: those that wait or are in flight, oldest first, and before them those that
/// sweepers have passed; then those that rest, soonest first; then final ones by descending id.
///
/// # Errors
/// When the server is away.
pub async fn list(
    context: &Context,
    args: &ListArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    if args.parked {
        return super::parked::list(context, args.limit, args.json, out).await;
    }
    if args.account.is_some() || args.since.is_some() {
        return list_newest(context, args, out).await;
    }
    let states = if args.scheduled { vec![State::Scheduled] } else { args.states() };
    let listed = Listed {
        states,
        application: args.application.clone(),
        // Only the fields that are printed: the user's own fields may be large.
        fields: if args.json { Vec::new() } else { PRINTED.to_vec() },
        limit: args.limit,
    };
    let listing = context.client.list_transactions(&listed).await?;
    if listing.is_capped() {
        context.console.note(CAPPED);
    }
    print_all(listing, |document| print(document, args.json, out)).await
}

/// Prints transactions by account or age, newest first.
async fn list_newest(
    context: &Context,
    args: &ListArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let (states, account) = (args.states(), args.account.clone());
    let filter = TransactionFilter { states, account, since: args.since };
    let (mut left, mut cursor) = (args.limit, None);
    while left > 0 {
        let limit = left.min(PAGE_MAX);
        let page = context.client.transactions(&filter, limit, cursor.as_deref()).await?;
        for document in &page.items {
            print(document, args.json, out)?;
        }
        // A page may have fewer, and the list still goes on.
        left = left.saturating_sub(u32::try_from(page.items.len()).unwrap_or(u32::MAX));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(Exit::Ok)
}

fn print(document: &Document, as_json: bool, out: &mut (dyn Write + Send)) -> Result<(), Error> {
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
const PRINTED: [&str; 16] = [
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
