//! `list --parked` and `unpark`: parked transactions, and bringing them back.
//!
//! Promises that a transaction which the database still refuses to write stays parked, is named,
//! and does not keep others from coming back. Doing it again changes nothing. Fails when a server
//! stays away.

use std::collections::HashSet;
use std::io::Write;

use bson::DateTime;
use clap::Args;
use client::{ActEnd, ActSubject, ParkedEntry, State, SubjectKind, TransactionId, Unparked};
use ledger::json;
use ledger::limits::echo;
use ledger::message::MESSAGE_IDS_MAX;
use ledger::transaction::check_name;
use serde_json::json;

use super::note_unpublished;
use crate::acting::{Acting, WhyArgs, so_many};
use crate::context::Context;
use crate::exit::{Error, Exit};

/// The most that `unpark --all` brings back in one step.
const STEP: u32 = MESSAGE_IDS_MAX as u32;

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
    #[command(flatten)]
    pub why: WhyArgs,
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
    let ParkedEntry { state, code, message, at, .. } = entry;
    let id = id_text(entry);
    let state = state.map(State::as_str);
    let at = at.map(|at| json::timestamp(DateTime::from_millis(at)));
    if as_json {
        let line = json!({ "id": id, "state": state, "code": code, "message": message, "at": at });
        return writeln!(out, "{line}").map_err(Error::output);
    }
    let (state, at) = (state.unwrap_or("-"), at.as_deref().unwrap_or("-"));
    writeln!(out, "{id}  {state}  {code}: {message}  {at}").map_err(Error::output)
}

fn id_text(entry: &ParkedEntry) -> String {
    let id = entry.id.as_str().map_or_else(|| entry.id.to_string(), str::to_owned);
    echo(&id).into_owned()
}

/// Brings parked transactions back and publishes them.
///
/// # Errors
/// When MongoDB stays away.
pub async fn unpark(
    context: &Context,
    args: &UnparkArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.advice.set("run the same command again: what is back already stays as it is");
    context.client.ensure_schema().await?;
    let (what, reason) = ("transaction.unpark", args.why.reason.as_deref());
    if args.all {
        let on = ActSubject::unnamed(SubjectKind::Transaction, None);
        let work = unpark_all(context, args.json, out);
        let told = |(_, count): &(Exit, u64)| ActEnd::ok(format!("{count} are back"));
        return Ok(context.act_in_steps(Acting { what, on, reason }, work, told).await?.0);
    }
    let on = ActSubject::of(SubjectKind::Transaction, args.ids.iter().map(String::as_str));
    let ids: Vec<TransactionId> = args.ids.iter().map(|id| id.as_str().into()).collect();
    let work = bring_back(context, &ids, args.json, out);
    let told = |unparked: &Unparked| so_many(unparked.back.len(), ids.len(), "are back");
    let unparked = context.act_in_steps(Acting { what, on, reason }, work, told).await?;
    let Unparked { back, refused, unpublished } = unparked;
    note_unpublished(context, unpublished.as_ref());
    let mut exit = Exit::Ok;
    for id in ids.iter().filter(|id| !back.contains(id)) {
        let problem = refused.iter().find(|(of, _)| of == id);
        let problem = problem.map_or("is not parked", |(_, problem)| problem);
        context.console.note(format!("{}: {problem}", echo(id)));
        exit = Exit::Failed;
    }
    Ok(exit)
}

/// Brings back every transaction that can be brought back, and names the others. Fails if the
/// database refuses any. A transaction whose `_id` fits no message can't be brought back, and is
/// only named. Returns how many are back, too.
async fn unpark_all(
    context: &Context,
    as_json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(Exit, u64), Error> {
    let progress = context.console.progress("unparked", None);
    let (mut count, mut stuck, mut exit) = (0, HashSet::new(), Exit::Ok);
    let mut is_noted = false;
    loop {
        // Transactions that stay parked are found again by each query.
        let limit = STEP.saturating_add(u32::try_from(stuck.len()).unwrap_or(u32::MAX));
        let mut parked = context.client.parked(limit).await?;
        parked.retain(|entry| !stuck.contains(&entry.id.to_string()));
        if parked.is_empty() {
            return Ok((exit, count));
        }
        let is_text =
            |entry: &ParkedEntry| entry.id.as_str().is_some_and(|id| check_name("id", id).is_ok());
        let (texts, others): (Vec<_>, Vec<_>) = parked.into_iter().partition(is_text);
        for entry in others {
            context.console.note(format!("{}: its _id can't be published", id_text(&entry)));
            stuck.insert(entry.id.to_string());
        }
        let ids: Vec<TransactionId> =
            texts.iter().filter_map(|entry| entry.id.as_str().map(Into::into)).collect();
        let brought = bring_back(context, &ids, as_json, out).await;
        // Those of the steps before this one are back.
        let brought = brought.map_err(|e| if count == 0 { e } else { e.after_a_write() });
        let Unparked { back, refused, unpublished } = brought?;
        note_unpublished(context, unpublished.as_ref().filter(|_| !is_noted));
        is_noted |= unpublished.is_some();
        for (id, problem) in refused {
            context.console.note(format!("{id}: {problem}"));
            exit = Exit::Failed;
        }
        let still = texts.into_iter().map(|entry| entry.id);
        let still = still.filter(|id| !back.iter().any(|back| id.as_str() == Some(back)));
        stuck.extend(still.map(|id| id.to_string()));
        count += back.len() as u64;
        progress.at(count, "");
    }
}

async fn bring_back(
    context: &Context,
    ids: &[TransactionId],
    as_json: bool,
    out: &mut (dyn Write + Send),
) -> Result<Unparked, Error> {
    if ids.is_empty() {
        return Ok(Unparked::default());
    }
    let unparked = context.client.unpark(ids).await?;
    for id in &unparked.back {
        let said = match as_json {
            true => writeln!(out, "{}", json!({ "id": &**id, "outcome": "unparked" })),
            false => writeln!(out, "{id}: unparked"),
        };
        said.map_err(Error::output)?;
    }
    Ok(unparked)
}
