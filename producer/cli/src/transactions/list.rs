//! `list`: transactions, newest first, or what waits in the order in which it waits.
//!
//! States that are not final are read through the small indexes that the sweeper uses, so that
//! listing them costs the same however large the collection is. All other lists are those of the
//! library: page by page, and where no index knows what is asked for, the command looks on by itself
//! and says how far back it is.

use std::io::Write;
use std::time::SystemTime;

use clap::Args;
use client::{LIMIT_MAX, LOOK_FOR, Listed, Page, ReasonCode, State, Told, TransactionFilter};
use ledger::json;

use super::show::{PRINTED, print};
use crate::console::Progress;
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::listing::print_all;
use crate::moment::{self, moment};

pub const HELP: &str = "\
The list is newest created first. With --account or --ended-since or --ended-until it is of what has
ended, and the ledger needs its index for that: `producer init --apply --history on` adds it. Then it
is newest ended first; of those that a worker has ended together, the canceled ones come before those
that are done. Of an account there are first those in flight, unless the time of the end is asked for.

No index knows states that are final, reasons and workers. The command looks for them from the newest
on, until it has found --limit or has seen all, and says on standard error how far back it is.

With --state and only states that are not final, and without an account, a time or a reason, the list
is of what waits: those that wait or are in flight come first, the oldest created first, and before
them those that sweepers had to look after; then those that rest. With --held, the hold that expires
first comes first, and with --scheduled what is due first.

Examples:
  producer list --state pending,applied,canceling --json
  producer list --held --limit 1000
  producer list --held --account alice
  producer list --scheduled --limit 10
  producer list --account alice --since 7d
  producer list --reason insufficient_funds --since 1h
  producer list --state canceled --ended-since 2026-11-01T00:00:00Z --ended-until 2026-11-02T00:00:00Z
  producer list --since 2026-11-01T00:00:00Z --state canceled --limit 1000";

/// What is said where not all could be looked at.
const CAPPED: &str = "so many transactions were created lately that not all of them were looked at; some of \
                      those that wait or are in flight may be missing";

/// Which transactions to list.
#[derive(Args, Clone, Debug, Default)]
pub struct ListArgs {
    /// Only those in these states, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = parse_state)]
    pub state: Vec<State>,
    /// Only those with a leg on this account: those in flight, then those that workers have ended
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// Only those created since a moment (2026-11-01T00:00:00Z) or within a time (90s, 30m, 12h,
    /// 7d)
    #[arg(long, value_parser = moment, value_name = moment::NAME)]
    pub since: Option<SystemTime>,
    /// Only those created before a moment
    #[arg(long, value_parser = moment, value_name = moment::NAME)]
    pub until: Option<SystemTime>,
    /// Only those that workers have ended since a moment
    #[arg(long, value_parser = moment, value_name = moment::NAME)]
    pub ended_since: Option<SystemTime>,
    /// Only those that workers have ended before a moment
    #[arg(long, value_parser = moment, value_name = moment::NAME)]
    pub ended_until: Option<SystemTime>,
    /// Only those that are canceled for this reason, like insufficient_funds
    #[arg(long, value_name = "CODE", value_parser = parse_reason)]
    pub reason: Option<ReasonCode>,
    /// Only those whose last owner was the worker of this name
    #[arg(long, value_name = "NAME")]
    pub application: Option<String>,
    /// Only those on hold, those that expire first at the beginning
    #[arg(long, conflicts_with_all = ["state", "application"])]
    pub held: bool,
    /// Only those that are parked, with the reason
    #[arg(long, conflicts_with_all = ["state", "held", "application", "account", "since", "until",
        "ended_since", "ended_until", "reason"])]
    pub parked: bool,
    /// Only those that are scheduled, those that are due first at the beginning, each with the
    /// moment
    #[arg(long, conflicts_with_all = ["state", "application", "account", "since", "until",
        "ended_since", "ended_until", "reason", "held", "parked"])]
    pub scheduled: bool,
    /// At most so many
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
    /// Print JSON, one transaction a line
    #[arg(long)]
    pub json: bool,
}

/// How a list is read.
#[derive(Debug, PartialEq)]
enum Way {
    /// What waits for people.
    Parked,
    /// What is not final, in the order in which it waits.
    Waiting(Vec<State>),
    /// What is newest comes first.
    Newest(TransactionFilter),
}

impl ListArgs {
    fn way(&self) -> Way {
        if self.parked {
            return Way::Parked;
        }
        let states = match (self.scheduled, self.held) {
            (true, _) => vec![State::Scheduled],
            (false, true) => vec![State::Held],
            (false, false) => self.state.clone(),
        };
        let filter = TransactionFilter {
            states,
            account: self.account.clone(),
            since: self.since,
            until: self.until,
            ended_since: self.ended_since,
            ended_until: self.ended_until,
            reason: self.reason,
            application: self.application.clone(),
        };
        let of_states = TransactionFilter {
            states: filter.states.clone(),
            application: filter.application.clone(),
            ..TransactionFilter::default()
        };
        let waits =
            |states: &[State]| !states.is_empty() && states.iter().all(|state| !state.is_final());
        match filter == of_states && waits(&filter.states) {
            true => Way::Waiting(filter.states),
            false => Way::Newest(filter),
        }
    }
}

fn parse_state(name: &str) -> Result<State, String> {
    State::parse(name)
        .ok_or_else(|| format!("is not one of {}", State::ALL.map(State::as_str).join(", ")))
}

fn parse_reason(code: &str) -> Result<ReasonCode, String> {
    let known = || ReasonCode::ALL.map(ReasonCode::as_str).join(", ");
    ReasonCode::parse(code).ok_or_else(|| format!("is not one of {}", known()))
}

/// Prints transactions.
///
/// # Errors
/// When the server is away, and where the ledger lacks what the list needs.
pub async fn list(
    context: &Context,
    args: &ListArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    match args.way() {
        Way::Parked => super::parked::list(context, args.limit, args.json, out).await,
        Way::Waiting(states) => list_waiting(context, args, states, out).await,
        Way::Newest(filter) => list_newest(context, args, &filter, out).await,
    }
}

/// Prints what is not final, in the order in which it waits.
async fn list_waiting(
    context: &Context,
    args: &ListArgs,
    states: Vec<State>,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
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

/// Prints what is newest first, and looks on until there are enough.
async fn list_newest(
    context: &Context,
    args: &ListArgs,
    filter: &TransactionFilter,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let (mut found, mut cursor) = (0, None::<String>);
    // On the terminal while nothing is found only, because what is found is printed there, too.
    let mut looking: Option<Progress<'_>> = None;
    while found < args.limit {
        let limit = (args.limit - found).min(LIMIT_MAX);
        let page = context.client.transactions_told(
            filter,
            limit,
            cursor.as_deref(),
            LOOK_FOR,
            Told::whole,
        );
        let Page { items, next, looked_until, .. } = page.await?;
        if !items.is_empty() {
            looking = None;
        }
        for document in &items {
            print(document, args.json, out)?;
        }
        // A page may have fewer, and the list still goes on.
        found = found.saturating_add(u32::try_from(items.len()).unwrap_or(u32::MAX));
        if let Some(back_to) = looked_until {
            let progress = looking.get_or_insert_with(|| context.console.progress("looking", None));
            progress.at(found.into(), &format!("back to {}", json::timestamp(back_to)));
        }
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_final_is_listed_as_it_waits_and_everything_else_newest_first() {
        let args = ListArgs::default();
        let of = |state: &[State]| ListArgs { state: state.to_vec(), ..args.clone() };
        let waiting = |args: &ListArgs| match args.way() {
            Way::Waiting(states) => Some(states),
            Way::Parked | Way::Newest(_) => None,
        };
        let open = [State::Initial, State::Held];
        assert_eq!(waiting(&of(&open)), Some(open.to_vec()));
        let of_worker = ListArgs { application: Some("w".to_owned()), ..of(&open) };
        assert_eq!(waiting(&of_worker), Some(open.to_vec()));
        let held = ListArgs { held: true, ..args.clone() };
        assert_eq!(waiting(&held), Some(vec![State::Held]));
        assert_eq!(
            waiting(&ListArgs { scheduled: true, ..args.clone() }),
            Some(vec![State::Scheduled])
        );
        assert_eq!(ListArgs { parked: true, ..args.clone() }.way(), Way::Parked);
        let of_a = Some("a".to_owned());
        let now = Some(SystemTime::UNIX_EPOCH);
        for newest in [
            args.clone(),
            of(&[State::Done]),
            of(&[State::Initial, State::Canceled]),
            ListArgs { application: Some("w".to_owned()), ..args.clone() },
            ListArgs { account: of_a, ..held.clone() },
            ListArgs { since: now, ..held.clone() },
            ListArgs { until: now, ..held.clone() },
            ListArgs { ended_since: now, ..held.clone() },
            ListArgs { ended_until: now, ..held.clone() },
            ListArgs { reason: Some(ReasonCode::Released), ..held },
        ] {
            assert_eq!(waiting(&newest), None, "{newest:?}");
        }
    }
}
