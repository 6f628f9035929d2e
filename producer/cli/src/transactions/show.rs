//! `status` and `list`: transactions as they stand.
//!
//! Unfinished states are read through the partial indexes that the sweeper uses, so that listing
//! them costs the same however large the collection is. Lists by account or age are those of the library,
//! which need a ledger with history.

use std::io::Write;
use std::time::SystemTime;

use bson::{Bson, DateTime, Document, doc};
use clap::Args;
use client::{Standing, TransactionFilter, readable};
use ledger::json;
use ledger::limits::echo;
use ledger::transaction::{Body, DUE_AT, Leg, State, Terms};
use mongodb::options::Hint;

use super::reason_text;
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::moment::{self, moment};

/// The most transactions of one page of the library.
const PAGE_MAX: u32 = 1_000;

pub const LIST_HELP: &str = "\
With --account or --since the list is newest first, and the ledger needs its indexes for lists:
`producer init --history on --apply` adds them.

With --held, the hold that expires first comes first, and with --scheduled what is due first.

Examples:
  producer list --state pending,applied,canceling --json
  producer list --held --limit 1000
  producer list --held --account alice
  producer list --scheduled --limit 10
  producer list --account alice --since 7d
  producer list --since 2026-11-01T00:00:00Z --state canceled --limit 1000";

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
    /// Only those with a leg on this account
    #[arg(long, value_name = "NAME", conflicts_with = "application")]
    pub account: Option<String>,
    /// Only those created since a moment (2026-11-01T00:00:00Z) or within a time (90s, 30m, 12h, 7d)
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
    /// Only those that are scheduled, those that are due first at the beginning, each with the moment
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
    let mut exit = Exit::Ok;
    for id in &args.ids {
        match context.client.transaction(id).await? {
            Some(document) => print(&document, args.json, out)?,
            None => {
                context.console.note(format!("{id}: no such transaction"));
                exit = Exit::Failed;
            }
        }
    }
    Ok(exit)
}

/// Prints transactions: those in flight, then those waiting, oldest first; then those scheduled, soonest
/// first; then final ones by descending id.
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
    let transactions = context.client.store().transactions();
    let mut left = i64::from(args.limit);
    let states = if args.scheduled { vec![State::Scheduled] } else { args.states() };
    let waiting = context.client.store().waiting_index().await?;
    for Query { mut filter, sort, hint } in queries(&states, waiting) {
        if left == 0 {
            break;
        }
        if let Some(application) = &args.application {
            filter.insert("application", application);
        }
        let mut find = transactions.find(filter).sort(sort).limit(left);
        if !args.json {
            // Only the fields that are printed: the user's own fields may be large.
            find = find.projection(printed_fields());
        }
        if let Some(hint) = hint {
            find = find.hint(Hint::Name(hint.to_owned()));
        }
        let mut found = find.await?;
        // Raw bytes, one document at a time: a document that can't be read does not end the list.
        while found.advance().await? {
            print(&readable(found.current()), args.json, out)?;
            left -= 1;
        }
    }
    Ok(Exit::Ok)
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
        left -= limit;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(Exit::Ok)
}

#[derive(Debug, PartialEq)]
struct Query {
    filter: Document,
    sort: Document,
    hint: Option<&'static str>,
}

/// One query for each index.
fn queries(states: &[State], waiting: &'static str) -> Vec<Query> {
    let newest_first = doc! { "_id": -1 };
    if states.is_empty() {
        return vec![Query { filter: doc! {}, sort: newest_first, hint: None }];
    }
    let chosen = |wanted: fn(State) -> bool| -> Option<Document> {
        let chosen = states.iter().copied().filter(|state| wanted(*state));
        let chosen: Vec<Bson> = chosen.map(Bson::from).collect();
        (!chosen.is_empty()).then(|| doc! { "state": { "$in": chosen } })
    };
    let in_flight = chosen(|state| State::IN_FLIGHT.contains(&state)).map(|filter| Query {
        filter,
        sort: doc! { "takeoverAt": 1 },
        hint: Some("in_flight"),
    });
    // The same condition as in the index; otherwise the server would not use it.
    let initial = states.contains(&State::Initial).then(|| Query {
        filter: doc! { "state": State::Initial },
        sort: doc! { "createdAt": 1 },
        hint: Some(waiting),
    });
    // Those that are due or expire, the first of them first.
    let resting: Vec<State> =
        State::RESTING.into_iter().filter(|state| states.contains(state)).collect();
    let resting = (!resting.is_empty()).then(|| Query {
        filter: doc! {
            "state": { "$in": resting.into_iter().map(Bson::from).collect::<Vec<_>>() },
            DUE_AT: { "$type": "date" },
        },
        sort: doc! { DUE_AT: 1 },
        hint: Some("due"),
    });
    let ended =
        chosen(State::is_final).map(|filter| Query { filter, sort: newest_first, hint: None });
    [in_flight, initial, resting, ended].into_iter().flatten().collect()
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

fn printed_fields() -> Document {
    doc! {
        "state": 1, "reason": 1, "lastModified": 1,
        "source": 1, "destination": 1, "value": 1, "legs": 1, "currency": 1,
        "hold": 1, "holdExpiresAt": 1, "captured": 1, "notBefore": 1, "submittedNotBefore": 1,
        "expiresAt": 1, "exclusiveKey": 1,
    }
}

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

    #[test]
    fn unfinished_states_are_read_through_their_index() {
        let hints = |states: &[State]| -> Vec<Option<&str>> {
            queries(states, "unclaimed").iter().map(|query| query.hint).collect()
        };
        assert_eq!(hints(&[]), [None]);
        assert_eq!(hints(&[State::Applied, State::Pending]), [Some("in_flight")]);
        assert_eq!(hints(&[State::Initial]), [Some("unclaimed")]);
        assert_eq!(hints(&[State::Scheduled]), [Some("due")]);
        assert_eq!(hints(&[State::Done]), [None]);
        assert_eq!(hints(&[State::Held]), [Some("due")]);
        let all = [Some("in_flight"), Some("unclaimed"), Some("due"), None];
        assert_eq!(hints(&State::ALL), all);
    }
}
