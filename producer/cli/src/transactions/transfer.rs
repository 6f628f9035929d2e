//! `transfer`: one transfer from the command line.

use std::io::Write;

use bson::Document;
use clap::Args;
use client::{Receipt, Standing, Submission};
use ledger::json;
use ledger::notation::Notation;
use ledger::transaction::{Body, State, check_name};
use serde_json::json;

use super::terms::TermsArgs;
use super::{note_unpublished, reason_text, state_of, wait_for};
use crate::advice::{Todo, typed};
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::follow::WaitArgs;

/// Help that stands below the options.
pub const HELP: &str = "\
A transfer on hold reserves the money; with --wait, the command ends with exit code 0 when it is held.

Examples:
  producer transfer alice bob 1250 --currency EUR --wait
  producer transfer alice shop 4990 --hold --hold-expires-at +15m --wait
  producer transfer alice bob 1250 --not-before 2026-12-01T08:00:00Z
  producer transfer alice bob 1250 --expires-at +1h --exclusive-key alice-for-bob";

/// A transfer.
#[derive(Args, Clone, Debug)]
pub struct TransferArgs {
    /// The account that pays
    pub source: String,
    /// The account that is paid
    pub destination: String,
    /// How much: minor units like 1250, or where the ledger has decimals, a decimal like 12.50
    pub value: String,
    /// Its id, which makes a repeat harmless; default: a new UUIDv7, shown before anything is sent
    #[arg(long)]
    pub id: Option<String>,
    /// The currency, which both accounts must have
    #[arg(long)]
    pub currency: Option<String>,
    #[command(flatten)]
    pub terms: TermsArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Submits a transfer and prints its id; with `--wait` also how it ended, or that it is held. If
/// the id was made here, it is first printed on standard error.
///
/// # Errors
/// When an argument is wrong, the id is taken, or MongoDB stays away.
pub async fn transfer(
    context: &Context,
    args: &TransferArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.client.ensure_schema().await?;
    let body = body(args, &context.client.store().notation())?;
    let id = match &args.id {
        Some(id) => id.clone(),
        None => context.client.rules().made(uuid::Uuid::now_v7().to_string())?,
    };
    advise(context, args, &id);
    let receipt = submit(context, Submission::of(body).with_id(id.as_str())).await?;
    note_unpublished(context, receipt.unpublished.as_ref());
    let outcome = match receipt.known {
        None => "submitted",
        Some(_) => "unchanged",
    };
    let ended = match args.wait.wait {
        true => wait_for(context, &id, &args.wait).await?,
        false => None,
    };
    print(args, &id, outcome, ended.as_ref(), out)?;
    match ended {
        None if args.wait.wait => Ok(Exit::WaitLimit),
        Some(document) if state_of(&document)? == State::Canceled => Ok(Exit::Canceled),
        Some(_) | None => Ok(Exit::Ok),
    }
}

/// Prints the id before anything is sent, so that the user can repeat the transfer under this id
/// whatever happens next. It goes to standard error: scripts expect only the result on standard
/// output.
fn advise(context: &Context, args: &TransferArgs, id: &str) {
    let flags = typed("--id", id) + &args.terms.typed_moments();
    if args.id.is_none() {
        let todo = "should this command not come to its end, run it again with";
        context.console.note(Todo::with(todo, &flags).to_string());
    }
    let todo = "run the same command with the following; it goes on where this one stopped and pays \
                only once:";
    context.advice.set(Todo::with(todo, flags));
}

fn body(args: &TransferArgs, notation: &Notation) -> Result<Body, Error> {
    let value = notation.read(&args.value, args.currency.as_deref());
    let value = value.map_err(|error| Error::BadInput(format!("value: {error}")))?;
    if let Some(currency) = &args.currency {
        check_name("currency", currency)?;
    }
    let body = Body::transfer(&args.source, &args.destination, value)?;
    if let Some(id) = &args.id {
        check_name("id", id)?;
    }
    Ok(body.in_currency(args.currency.clone()).with_terms(args.terms.terms())?)
}

async fn submit(context: &Context, submission: Submission) -> Result<Receipt, Error> {
    match context.client.submit(submission).await {
        Err(client::Error::Conflict { id, problem, .. }) => Err(Error::Refused(format!(
            "{id}: the id {problem}; submit this transfer under another id"
        ))),
        submitted => Ok(submitted?),
    }
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
        Some(document) => {
            writeln!(out, "{id}: {outcome}{}", reason_text(&Standing::of(document)))
        }
    }
    .map_err(Error::output)
}
