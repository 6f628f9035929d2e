//! `accounts`: creating, showing, freezing and closing them, their floors, and what was booked on
//! them.
//!
//! Every change is one guarded update, so it is right whatever workers do at the same moment.

mod absorb;
mod floor;
mod import;
mod statement;
mod status;

use std::io::Write;

use bson::{Document, doc};
use clap::{Args, Subcommand, ValueEnum};
use client::{ActEnd, Change, Opened, Reserved, SubjectKind, readable};
use ledger::account::{Account, Status};
use ledger::json;
use ledger::limits::echo;
use ledger::visible::alike_told;

pub use import::import;
pub use statement::why;

use client::holds;
use input::{Record, parse_account};

use crate::acting::{Acting, WhyArgs};
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::files::ReadArgs;
use crate::listing::print_all;
use input::files::{ACCOUNTS, Column};

/// The subcommands of `accounts`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Create one account; doing it again changes nothing
    Create(CreateArgs),
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

/// A new account.
#[derive(Args, Clone, Debug)]
pub struct CreateArgs {
    /// Its name
    pub id: String,
    /// What it starts with
    #[arg(long, default_value = "0", allow_hyphen_values = true)]
    pub balance: String,
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
    pub why: WhyArgs,
}

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
        Command::Create(args) => create(context, args, out).await,
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

/// Creates one account; one with the same opening content is left as it is.
///
/// # Errors
/// When an argument is wrong, the account exists with other content, or the server is away.
pub async fn create(
    context: &Context,
    args: &CreateArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let header = ACCOUNTS.columns.iter().map(|name| Column::Field((*name).to_owned()));
    let header: Vec<Column> = header.collect();
    let status = Status::from(args.status).as_str().to_owned();
    let currency = args.currency.clone().unwrap_or_default();
    let cells = vec![args.id.clone(), args.balance.clone(), args.floor.clone(), currency, status];
    context.advice.set(REPEAT_OPENING);
    context.client.ensure_schema().await?;
    let notation = context.client.store().notation();
    let account = Record::from_cells(&header, cells)
        .and_then(|record| parse_account(record, &notation))
        .map_err(|flaw| Error::BadInput(flaw.to_string()))?;
    let acting = Acting::one("account.open", (SubjectKind::Account, &args.id), &args.why);
    let accounts = [account];
    let work = async { context.client.create_accounts(&accounts).await?.remove(0) };
    match context.act(acting, work, opened).await? {
        Opened::Created => writeln!(out, "{}: created", args.id),
        Opened::Unchanged => writeln!(out, "{}: exists, unchanged", args.id),
    }
    .map_err(Error::output)?;
    Ok(Exit::Ok)
}

/// What is noted of it.
fn opened(opened: &Opened) -> ActEnd {
    ActEnd::ok(match opened {
        Opened::Created => "it is open",
        Opened::Unchanged => "it was there before, with the same opening content",
    })
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
