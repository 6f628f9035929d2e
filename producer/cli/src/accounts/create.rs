//! `accounts create`: one account, with nothing on it, with money of its own, or with money from
//! another account.
//!
//! Promises that doing it again changes nothing, and that what another account pays is a transfer
//! whose id is told. Fails when an argument is wrong, the account or the transfer exists with other
//! content, or a server is away.

use std::io::Write;

use clap::Args;
use client::{ActEnd, Opened, OpenedFrom, SubjectKind};
use input::files::{ACCOUNTS, Column};
use input::{Record, parse_account};
use ledger::account::{Account, Status};
use ledger::limits::echo;

use super::{REPEAT_OPENING, StatusArg};
use crate::acting::{Acting, WhyArgs};
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::follow::WaitArgs;
use crate::transactions::{note_unpublished, report_end};

pub(super) const HELP: &str = "\
An opening balance makes money that no other account has paid. With --from another account pays it:
the account is opened with 0, and a transfer pays the balance in, above the floor of that account. If
it is refused, the account stays open with 0.

Examples:
  producer accounts create capital --floor none
  producer accounts create alice --balance 1000 --from capital --wait
  producer accounts create bob --currency EUR";

/// A new account.
#[derive(Args, Clone, Debug)]
pub struct CreateArgs {
    /// Its name
    pub id: String,
    /// What it starts with
    #[arg(long, default_value = "0", allow_hyphen_values = true)]
    pub balance: String,
    /// The account that pays what it starts with, by a transfer
    #[arg(long, value_name = "ACCOUNT")]
    pub from: Option<String>,
    /// The lowest allowed balance, or `none`
    #[arg(long, default_value = "0", allow_hyphen_values = true)]
    pub floor: String,
    /// The currency that a transaction must have
    #[arg(long)]
    pub currency: Option<String>,
    /// Whether it takes postings
    #[arg(long, value_enum, ignore_case = true, default_value = "open")]
    pub status: StatusArg,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub why: WhyArgs,
}

/// Creates one account; one with the same opening content is left as it is.
///
/// # Errors
/// When an argument is wrong, the account exists with other content, or the server is away.
pub async fn create(
    context: &Context,
    args: &CreateArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    if args.from.is_none() && args.wait.wait {
        let problem = "--wait: nothing is waited for without --from; leave it out".to_owned();
        return Err(Error::BadInput(problem));
    }
    context.advice.set(REPEAT_OPENING);
    context.client.ensure_schema().await?;
    let account = account(context, args)?;
    let acting = Acting::one("account.open", (SubjectKind::Account, &args.id), &args.why);
    let Some(from) = &args.from else {
        let accounts = [account];
        let work = async { context.client.create_accounts(&accounts).await?.remove(0) };
        let opened = context.act(acting, work, |opened| ActEnd::ok(noted(*opened))).await?;
        return tell(&args.id, opened, out).map(|()| Exit::Ok);
    };
    let work = async { Ok(context.client.open_from(&account, from, None).await?) };
    let paid = context.act_in_steps(acting, work, noted_paid).await?;
    tell(&args.id, paid.opened, out)?;
    let receipt = paid.receipt.map_err(|error| {
        let id = echo(&args.id);
        Error::Refused(format!("{id} is open with 0; its opening balance was refused: {error}"))
    })?;
    note_unpublished(context, receipt.unpublished.as_ref());
    match args.wait.wait {
        true => report_end(context, &receipt.id, &args.wait, out).await,
        false => {
            let (id, from) = (echo(&receipt.id), echo(from));
            writeln!(out, "{id}: pays {} from {from}", account.balance).map_err(Error::output)?;
            Ok(Exit::Ok)
        }
    }
}

/// The account that the arguments describe.
fn account(context: &Context, args: &CreateArgs) -> Result<Account, Error> {
    let header = ACCOUNTS.columns.iter().map(|name| Column::Field((*name).to_owned()));
    let header: Vec<Column> = header.collect();
    let status = Status::from(args.status).as_str().to_owned();
    let currency = args.currency.clone().unwrap_or_default();
    let cells = vec![args.id.clone(), args.balance.clone(), args.floor.clone(), currency, status];
    let notation = context.client.store().notation();
    Record::from_cells(&header, cells)
        .and_then(|record| parse_account(record, &notation))
        .map_err(|flaw| Error::BadInput(flaw.to_string()))
}

fn tell(id: &str, opened: Opened, out: &mut (dyn Write + Send)) -> Result<(), Error> {
    match opened {
        Opened::Created => writeln!(out, "{id}: created"),
        Opened::Unchanged => writeln!(out, "{id}: exists, unchanged"),
    }
    .map_err(Error::output)
}

/// What is noted of it.
fn noted(opened: Opened) -> &'static str {
    match opened {
        Opened::Created => "it is open",
        Opened::Unchanged => "it was there before, with the same opening content",
    }
}

fn noted_paid(paid: &OpenedFrom) -> ActEnd {
    let (opened, id) = (noted(paid.opened), echo(&paid.transfer));
    ActEnd::ok(match &paid.receipt {
        Ok(_) => format!("{opened}; the transfer {id} pays its opening balance"),
        Err(error) => format!("{opened}, with 0; the transfer {id} was refused: {error}"),
    })
}
