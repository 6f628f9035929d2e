//! `accounts absorb`: books what other programs have moved, with a reason.
//!
//! Owns the command's flags, the question, and how the result looks to people. The crate `audit`
//! finds the differences and books them.

use std::io::Write;

use ::audit::{AbsorbError, Absorbed, Differences, Unexplained};
use clap::Args;
use client::{ActEnd, ActSubject, SubjectKind};
use ledger::limits::echo;

use crate::acting::Acting;
use crate::agree::Question;
use crate::audit::unexplained;
use crate::context::Context;
use crate::exit::{Error, Exit};

pub(super) const HELP: &str = "\
In collections that other programs write, too, an audit tells what they have moved as `unexplained`.
This audits the ledger and books each difference, as a line of the journal with reason and name, which
the account's statement shows. No balance changes. Afterwards the audit finds nothing unexplained,
except what was moved since.

It books nothing while a rule of the ledger is broken. It may be repeated: nothing is booked twice.
The user needs the rights of tandem-auditor, to insert and update in tandem.journal, and to insert
in tandem.acts.

Exit code 0 means that all is booked, or there was nothing; 1 that it was refused or something is left.

Examples:
  producer accounts absorb --reason 'top-ups by the old shop' --dry-run
  producer accounts absorb --reason 'top-ups by the old shop' --by ada
  producer accounts absorb alice bob --reason 'refund 4711' --by ada --yes --json";

/// What to book, and why.
#[derive(Args, Clone, Debug)]
pub struct AbsorbArgs {
    /// Only the differences of these accounts
    #[arg(value_name = "ACCOUNT")]
    pub ids: Vec<String>,
    /// Why the balances were moved; the statement shows it
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Who says so [default: the name of the user]
    #[arg(long, value_name = "NAME", env = "USER")]
    pub by: Option<String>,
    /// Only show what would be booked
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl From<AbsorbError> for Error {
    fn from(error: AbsorbError) -> Error {
        match error {
            AbsorbError::Client(error) => error.into(),
            AbsorbError::NotNow(problem) => Error::Refused(problem),
        }
    }
}

/// Finds the differences, asks, and books them.
///
/// # Errors
/// When a server is away, nobody agrees, or something has to be seen to first.
pub async fn run(
    context: &Context,
    args: &AbsorbArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let AbsorbArgs { ids, reason, by, .. } = args;
    let nobody =
        || Error::BadInput("this machine does not say who you are: say --by NAME".to_owned());
    let by = by.as_deref().ok_or_else(nobody)?;
    ::audit::check_reason(reason, by).map_err(|error| Error::BadInput(error.to_string()))?;
    let found = {
        let progress = context.console.progress("audit", None);
        Differences::find(&context.client, ids, |read, what| progress.at(read, what)).await?
    };
    for account in &found.without {
        context.console.note(format!("{}: nothing is unexplained there", echo(account)));
    }
    let to_book = found.unexplained.clone();
    if args.dry_run || to_book.accounts == 0 {
        print(&Absorbed { left: to_book, ..Absorbed::default() }, args, out)?;
        return Ok(Exit::Ok);
    }
    if !args.yes {
        ask(context, &to_book)?;
    }
    context.advice.set("run the same command again: it books what is left, and nothing twice");
    let named = ids.iter().map(String::as_str);
    let on = match ids.is_empty() {
        true => ActSubject::unnamed(SubjectKind::Account, Some(to_book.accounts)),
        false => ActSubject::of(SubjectKind::Account, named),
    };
    let acting = Acting { what: "account.absorb", on, reason: Some(reason) };
    let work = async { Ok(found.absorb(&context.client, reason, by).await?) };
    let told = |absorbed: &Absorbed| ActEnd::ok(format!("booked: {}", sums(&absorbed.booked)));
    let absorbed = context.act_in_steps(acting, work, told).await?;
    print(&absorbed, args, out)?;
    Ok(if absorbed.left.accounts > 0 { Exit::Failed } else { Exit::Ok })
}

fn ask(context: &Context, to_book: &Unexplained) -> Result<(), Error> {
    let question = Question {
        asked: format!(
            "This books {} in `{}`, for good.",
            sums(to_book),
            context.client.database()
        ),
        nobody: "what is booked cannot be taken back; say --yes to agree, or --dry-run to look",
        declined: "nothing was booked",
    };
    question.ask(context)
}

fn print(
    absorbed: &Absorbed,
    args: &AbsorbArgs,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let Absorbed { booked, left, .. } = absorbed;
    if args.json {
        let line = serde_json::to_string(absorbed).expect("numbers and texts always serialize");
        return writeln!(out, "{line}").map_err(Error::output);
    }
    let mut line = |line: String| writeln!(out, "{line}").map_err(Error::output);
    for (what, moved) in [("booked", booked), ("left", left)] {
        for one in &moved.first {
            line(format!("{what}  {}  {}", one.amount, echo(&one.account)))?;
        }
        let more = moved.accounts - moved.first.len() as u64;
        if more > 0 {
            line(format!("… and {more} more"))?;
        }
    }
    match (booked.accounts, left.accounts) {
        (0, 0) => line("nothing is unexplained".to_owned()),
        (0, _) if args.dry_run => line(format!("to book: {}", sums(left))),
        (_, 0) => line(format!("booked: {}", sums(booked))),
        _ => line(format!(
            "booked: {}; left, because they have changed meanwhile or are too large: {}",
            sums(booked),
            sums(left)
        )),
    }
}

fn sums(moved: &Unexplained) -> String {
    if moved.accounts == 0 { "nothing".to_owned() } else { unexplained(moved) }
}
