//! `list --parked` and `unpark`: transactions that were set apart, and bringing them back.
//!
//! Doing it again changes nothing. Fails when a server stays away, or the database still refuses to write one of
//! them; those before it are back.

use std::io::Write;

use clap::Args;
use common::message::IDS_MAX;
use common::transaction::{State, TransactionId};
use mongodb::bson::DateTime;
use producer::ParkedEntry;
use serde_json::json;

use crate::cli::context::Context;
use crate::cli::exit::{Error, Exit};
use crate::cli::json;

/// The most that `unpark --all` brings back in one step.
const STEP: u32 = IDS_MAX as u32;

/// Which parked transactions to bring back.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
A transaction is parked when nobody can go on with it: its document or an account that holds money
for it can't be read or written, or it kills its workers. Mend the cause first; `producer list
--parked` names it. What still can't go on is parked again.

Examples:
  producer list --parked
  producer unpark payroll-7
  producer unpark --all")]
pub struct UnparkArgs {
    /// Their ids
    #[arg(required_unless_present = "all")]
    pub ids: Vec<String>,
    /// Bring all of them back
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
    /// Print JSON, one transaction a line
    #[arg(long)]
    pub json: bool,
}

/// Prints the parked transactions, at most so many.
///
/// # Errors
/// When the server stays away.
pub(super) async fn list(
    context: &Context,
    limit: u32,
    as_json: bool,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let parked = context.client.parked(limit).await?;
    for entry in parked {
        print(&entry, as_json, out)?;
    }
    Ok(Exit::Ok)
}

fn print(entry: &ParkedEntry, as_json: bool, out: &mut (dyn Write + Send)) -> Result<(), Error> {
    let ParkedEntry { id, state, code, message, at } = entry;
    let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    let state = state.map(State::as_str);
    let at = at.map(|at| json::timestamp(DateTime::from_millis(at)));
    if as_json {
        let line = json!({ "id": id, "state": state, "code": code, "message": message, "at": at });
        return writeln!(out, "{line}").map_err(Error::output);
    }
    let (state, at) = (state.unwrap_or("-"), at.as_deref().unwrap_or("-"));
    writeln!(out, "{id}  {state}  {code}: {message}  {at}").map_err(Error::output)
}

/// Brings parked transactions back and publishes them.
///
/// # Errors
/// When a server stays away, or the database refuses to write one of them.
pub async fn unpark(
    context: &Context,
    args: &UnparkArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.client.ensure_queue().await?;
    if !args.all {
        let ids: Vec<TransactionId> = args.ids.iter().map(|id| id.as_str().into()).collect();
        let back = bring_back(context, &ids, args.json, out).await?;
        let mut exit = Exit::Ok;
        for id in ids.iter().filter(|id| !back.contains(id)) {
            context.console.note(format!("{id}: is not parked"));
            exit = Exit::Failed;
        }
        return Ok(exit);
    }
    let progress = context.console.progress("unparked", None);
    let mut count = 0;
    loop {
        let parked = context.client.parked(STEP).await?;
        let ids: Vec<TransactionId> =
            parked.iter().filter_map(|entry| entry.id.as_str().map(Into::into)).collect();
        let back = bring_back(context, &ids, args.json, out).await?;
        count += back.len() as u64;
        progress.at(count, "");
        // What is left has an id that is no text: nobody can publish it.
        if back.is_empty() {
            for entry in parked {
                context.console.note(format!("{}: its _id can't be published", entry.id));
            }
            return Ok(Exit::Ok);
        }
    }
}

async fn bring_back(
    context: &Context,
    ids: &[TransactionId],
    as_json: bool,
    out: &mut (dyn Write + Send),
) -> Result<Vec<TransactionId>, Error> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let back = context.client.unpark(ids).await?;
    for id in &back {
        let said = match as_json {
            true => writeln!(out, "{}", json!({ "id": &**id, "outcome": "unparked" })),
            false => writeln!(out, "{id}: unparked"),
        };
        said.map_err(Error::output)?;
    }
    Ok(back)
}
