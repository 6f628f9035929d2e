//! `accounts`: creating, showing, freezing and closing them, their floors, and what was booked on
//! them.
//!
//! Every change is one guarded update, so it is right whatever workers do at the same moment.

mod absorb;
mod create;
mod floor;
mod import;
mod statement;
mod status;

use std::io::Write;

use bson::{Document, doc};
use clap::{Args, Subcommand, ValueEnum};
use client::{Change, Reserved, readable};
use ledger::account::{Account, Status};
use ledger::json;
use ledger::limits::echo;
use ledger::visible::alike_told;

pub use import::import;
pub use statement::why;

use crate::acting::WhyArgs;
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::files::ReadArgs;
use crate::listing::print_all;
use client::holds;

/// The subcommands of `accounts`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Create one account; doing it again changes nothing
    #[command(after_help = create::HELP)]
    Create(create::CreateArgs),
    /// Create accounts from a CSV or JSON-lines file
    #[command(after_help = IMPORT_HELP)]
    Import(ImportArgs),
    /// Show accounts
    Show(ShowArgs),
    /// List accounts, by name
    List(ListArgs),
    /// List what was booked on an account, with the balance after each entry
    #[command(after_help = statement::HELP)]
    Statement(statement::StatementArgs),
    /// Book what other programs have moved, with a reason
    #[command(after_help = absorb::HELP)]
    Absorb(absorb::AbsorbArgs),
    /// Change the lowest balance that a debit may leave
    #[command(after_help = floor::HELP)]
    SetFloor(floor::SetFloorArgs),
    /// Refuse new postings until unfrozen
    Freeze(Ids),
    /// Take postings again
    Unfreeze(Ids),
    /// Refuse postings for good; only with nothing left on the account
    Close(Ids),
}

const IMPORT_HELP: &str = "\
Columns (or names in JSON lines): account, balance, floor, currency, status. An empty floor is 0,
`none` is no floor at all (an outside world that money comes from).

Examples:
  producer accounts import accounts.csv
  printf 'account,balance,floor\\nbank,0,none\\nalice,1000,\\n' | producer accounts import -";

/// True for one account and for a file of them: see the library's `opening`.
const REPEAT_OPENING: &str = "run the same command again on the same input: an account that exists \
                              with the same opening content is left as it is";

/// An account's status on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatusArg {
    /// Takes postings.
    Open,
    /// Refuses them until it is unfrozen.
    Frozen,
    /// Refuses them for good.
    Closed,
}

impl From<StatusArg> for Status {
    fn from(status: StatusArg) -> Status {
        match status {
            StatusArg::Open => Status::Open,
            StatusArg::Frozen => Status::Frozen,
            StatusArg::Closed => Status::Closed,
        }
    }
}

/// A file of accounts.
#[derive(Args, Clone, Debug)]
pub struct ImportArgs {
    /// The file, or - for standard input
    pub file: String,
    #[command(flatten)]
    pub why: WhyArgs,
    #[command(flatten)]
    pub reading: ReadArgs,
}

/// Which accounts to show.
#[derive(Args, Clone, Debug)]
pub struct ShowArgs {
    /// Their names
    #[arg(required = true)]
    pub ids: Vec<String>,
    /// Print JSON, one account a line
    #[arg(long)]
    pub json: bool,
}

/// Which accounts to list.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Only those with this status
    #[arg(long, value_enum, ignore_case = true)]
    pub status: Option<StatusArg>,
    /// At most so many
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
    /// Print JSON, one account a line
    #[arg(long)]
    pub json: bool,
}

/// Which accounts to change.
#[derive(Args, Clone, Debug)]
pub struct Ids {
    /// Their names
    #[arg(required = true)]
    pub ids: Vec<String>,
    #[command(flatten)]
    pub why: WhyArgs,
}

/// Runs a subcommand.
///
/// # Errors
/// As the subcommand's function.
pub async fn run(
    context: &Context,
    command: &Command,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    match command {
        Command::Create(args) => create::create(context, args, out).await,
        Command::Import(args) => {
            let imported = import(context, args).await?;
            writeln!(out, "{imported}").map_err(Error::output)?;
            Ok(if imported.conflicts > 0 { Exit::Failed } else { Exit::Ok })
        }
        Command::Show(args) => show(context, args, out).await,
        Command::List(args) => list(context, args, out).await,
        Command::Statement(args) => statement::statement(context, args, out).await,
        Command::Absorb(args) => absorb::run(context, args, out).await,
        Command::SetFloor(args) => floor::run(context, args, out).await,
        Command::Freeze(ids) => status::run(context, Change::Freeze, ids, out).await,
        Command::Unfreeze(ids) => status::run(context, Change::Unfreeze, ids, out).await,
        Command::Close(ids) => status::run(context, Change::Close, ids, out).await,
    }
}

async fn show(
    context: &Context,
    args: &ShowArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let mut exit = Exit::Ok;
    for id in &args.ids {
        match context.client.account_document(id).await {
            Ok(document) => {
                let document = readable(&document);
                let reserved = context.client.reserved(&document).await?;
                print(&document, &reserved, args.json, out)?;
            }
            Err(client::Error::NotFound { .. }) => {
                context.console.note(no_such_account(context, id).await);
                exit = Exit::Failed;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(exit)
}

/// That an account is missing, and which one is there that looks like it.
async fn no_such_account(context: &Context, id: &str) -> String {
    // A courtesy: that it is missing is known, whatever comes of this.
    let like = context.client.accounts_like(&[id]).await.unwrap_or_default();
    let like = like.get(id).map(|other| format!("; {}", alike_told(other)));
    format!("{id}: no such account{}", like.unwrap_or_default())
}

async fn list(
    context: &Context,
    args: &ListArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let listing = context.client.list_accounts(args.status.map(Status::from), args.limit);
    print_all(listing, |document| {
        let reserved = Reserved { holds: holds(document), amount: None };
        print(document, &reserved, args.json, out)
    })
    .await
}

/// Prints an account. What is reserved by holds is a part of what is held.
fn print(
    document: &Document,
    reserved: &Reserved,
    as_json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    if as_json {
        let mut line = json::from_document(document);
        if let Some(amount) = reserved.amount.filter(|_| reserved.holds > 0) {
            line["onHold"] = json::amount(amount).into();
        }
        return writeln!(out, "{line}").map_err(Error::output);
    }
    // What is missing means nothing of it, and is shown so.
    let read = Account::from_document(document).ok();
    let read = read.map(|account| account.to_document(bson::DateTime::from_millis(0)));
    let document = read.as_ref().unwrap_or(document);
    let field = |name: &str| match document.get(name) {
        None => "-".to_owned(),
        Some(value) => match json::from_document(&doc! { "field": value })["field"].take() {
            serde_json::Value::String(text) => echo(&text).into_owned(),
            other => echo(&other.to_string()).into_owned(),
        },
    };
    let floor = Some(field("floor")).filter(|floor| floor != "null");
    let by_holds = match reserved {
        Reserved { holds: 0, .. } => String::new(),
        Reserved { holds, amount: None } => format!(" (by {holds} holds and others)"),
        Reserved { holds, amount: Some(amount) } => {
            format!(" ({} by {holds} holds)", json::amount(*amount))
        }
    };
    writeln!(
        out,
        "{}  balance {}  held {}{by_holds}  coming {}  floor {}  currency {}  {}",
        field("_id"),
        field("balance"),
        field("pendingDebits"),
        field("pendingCredits"),
        floor.as_deref().unwrap_or("none"),
        field("currency"),
        field("status"),
    )
    .map_err(Error::output)
}
