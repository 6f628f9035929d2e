//! `accounts statement`: what was booked on an account, with the balance after each entry.

use std::io::Write;
use std::time::{Duration, SystemTime};

use bson::Bson;
use clap::{Args, ValueEnum};
use client::{Adjusted, Amount, Entry, Period, Statement, StatementOrder};
use ledger::json;
use ledger::limits::echo;

use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::moment::{self, moment};

pub(super) const HELP: &str = "\
Lists the done transactions of the account in the order in which they ended, or from the newest back,
with the balance after each. Money of transactions in flight is not in it. The ledger needs its indexes for statements:
`producer init --apply --history on` adds them.

Examples:
  producer accounts statement alice
  producer accounts statement alice --order newest --limit 20
  producer accounts statement alice --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z --limit 100000
  producer accounts statement alice --from 7d --json | jq 'select(.amount < 0)'";

/// The most entries of one page: what the library gives at once.
const PAGE: u32 = 1_000;
/// The pause before a page is asked for again of which nothing is certain yet.
const PAUSE: Duration = Duration::from_secs(1);

/// Which entries come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderArg {
    /// The oldest.
    Oldest,
    /// The newest.
    Newest,
}

impl From<OrderArg> for StatementOrder {
    fn from(order: OrderArg) -> StatementOrder {
        match order {
            OrderArg::Oldest => StatementOrder::Oldest,
            OrderArg::Newest => StatementOrder::Newest,
        }
    }
}

/// Which statement.
#[derive(Args, Clone, Debug)]
pub struct StatementArgs {
    /// The account
    pub id: String,
    /// From a moment (2026-11-01T00:00:00Z) or from so long ago (90s, 30m, 12h, 7d) on
    #[arg(long, value_parser = moment, value_name = moment::NAME)]
    pub from: Option<SystemTime>,
    /// Up to a moment, which is not part of it
    #[arg(long, value_parser = moment, value_name = moment::NAME)]
    pub to: Option<SystemTime>,
    /// Which entries come first
    #[arg(long, value_enum, default_value_t = OrderArg::Oldest)]
    pub order: OrderArg,
    /// At most so many entries
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
    /// Print JSON, one entry a line
    #[arg(long)]
    pub json: bool,
}

/// Prints a statement.
///
/// # Errors
/// When there is no such account, the ledger has no history, or the server stays away.
pub async fn statement(
    context: &Context,
    args: &StatementArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let period = Period { from: args.from, to: args.to };
    let order = args.order.into();
    let mut left = args.limit as usize;
    let mut cursor: Option<String> = None;
    loop {
        let page =
            context.client.statement_ordered(&args.id, &period, order, PAGE, cursor.as_deref());
        let page = page.await?;
        let [first, last] = ends(order, &page);
        if cursor.is_none() && !args.json {
            line(out, &first)?;
        }
        for entry in page.entries.iter().take(left) {
            print(entry, args.json, out)?;
        }
        let is_whole = page.next.is_none() && page.entries.len() <= left;
        left = left.saturating_sub(page.entries.len());
        if is_whole && !args.json {
            line(out, &last)?;
        }
        if !is_whole && left == 0 {
            context.console.note("there is more: raise --limit, or give --from or --to");
        }
        if is_whole || left == 0 {
            return Ok(Exit::Ok);
        }
        // What ended a few seconds ago is not certain yet. The same cursor asks for it again.
        if page.next == cursor {
            tokio::time::sleep(PAUSE).await;
        }
        cursor = page.next;
    }
}

/// The balances that are told before the first page of a statement and behind its last one.
fn ends(order: StatementOrder, page: &Statement) -> [String; 2] {
    let opening = format!("opening balance {}", in_currency(page.opening, page));
    let closing = format!("closing balance {}", in_currency(page.closing, page));
    match order {
        StatementOrder::Oldest => [opening, closing],
        StatementOrder::Newest => [closing, opening],
    }
}

fn in_currency(amount: Amount, statement: &Statement) -> String {
    let currency = statement.currency.as_deref().map(echo).unwrap_or_default();
    format!("{amount} {currency}").trim_end().to_owned()
}

fn print(entry: &Entry, as_json: bool, out: &mut (dyn Write + Send)) -> Result<(), Error> {
    let Entry { id, booked_at, amount, balance, counterparties, adjusted } = entry;
    let booked_at = json::timestamp(*booked_at);
    if as_json {
        let amount_of = |amount: &Amount| json::from_bson(&Bson::from(*amount));
        let mut entry = serde_json::json!({
            "id": id, "bookedAt": booked_at, "amount": amount_of(amount),
            "balance": amount_of(balance), "counterparties": counterparties,
        });
        if let Some(Adjusted { reason, by }) = adjusted {
            entry["adjustment"] = serde_json::json!({ "reason": reason, "by": by });
        }
        return line(out, &entry.to_string());
    }
    let others: Vec<_> = counterparties.iter().map(|other| echo(other)).collect();
    let with = adjusted.as_ref().map_or_else(|| others.join(", "), why);
    line(out, &format!("{booked_at}  {}  {amount}  {balance}  {with}", echo(id)))
}

/// Why something was booked that no transaction has moved.
pub fn why(Adjusted { reason, by }: &Adjusted) -> String {
    format!("adjusted by {}: {}", echo(by), echo(reason))
}

fn line(out: &mut (dyn Write + Send), line: &str) -> Result<(), Error> {
    writeln!(out, "{line}").map_err(Error::output)
}
