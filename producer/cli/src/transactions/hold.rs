//! `confirm` and `release`: what becomes of a hold.

use std::io::Write;

use clap::Args;
use client::{ActEnd, Capture, Decided, Leg, State, SubjectKind, in_words};
use ledger::json;
use ledger::notation::{Notation, NotationError};
use ledger::transaction::check_name;
use serde_json::{Value, json};

use super::captures::confirm_file;
use super::{note_unpublished, reason_text, report_end};
use crate::acting::{Acting, WhyArgs};
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::files::ReadArgs;
use crate::follow::WaitArgs;

pub const CONFIRM_HELP: &str = "\
What is held and not captured goes home. A hold is confirmed once: the same again changes nothing, and
another capture is refused.

A file confirms many holds. CSV has a header with id and value, or with id only to capture all of each.
JSON lines have the same names, or captured instead of value; without both, all of the hold is captured:
  {\"id\":\"order-7\"}
  {\"id\":\"order-8\",\"value\":3000}
  {\"id\":\"split-7\",\"captured\":[{\"account\":\"alice\",\"amount\":-30},{\"account\":\"bob\",\"amount\":30}]}
A row that can't be confirmed is named with its line and the reason, and the others go on; the exit code
is 1 then. Running the same command again goes on where it was interrupted.

Examples:
  producer confirm order-7                            all that is held
  producer confirm order-7 --value 3000 --wait        a part of a transfer
  producer confirm split-7 --capture alice=-30 --capture bob=10 --capture carol=20
  producer confirm --file captures.csv --wait
  generate | producer confirm --file - --format jsonl --json";

pub const RELEASE_HELP: &str = "\
All that is held goes home. Doing it again changes nothing.

Example:
  producer release order-7 --wait";

/// Which hold to confirm, and how much of it.
#[derive(Args, Clone, Debug)]
pub struct ConfirmArgs {
    /// Its id
    #[arg(required_unless_present = "file")]
    pub id: Option<String>,
    /// Capture so much of a transfer, in place of all
    #[arg(long, value_name = "AMOUNT", conflicts_with = "capture")]
    pub value: Option<String>,
    /// Capture so much of an account, in place of all; one for each account, with the sign of its
    /// leg
    #[arg(long, value_name = "ACCOUNT=AMOUNT", value_parser = part)]
    pub capture: Vec<Part>,
    /// Confirm all holds of this file, or of standard input for -
    #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "value", "capture"])]
    pub file: Option<String>,
    #[command(flatten)]
    pub why: WhyArgs,
    #[command(flatten)]
    pub of_file: ReadArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Which hold to release.
#[derive(Args, Clone, Debug)]
pub struct ReleaseArgs {
    /// Its id
    pub id: String,
    #[command(flatten)]
    pub why: WhyArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// An account, and how much is captured of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    account: String,
    amount: String,
}

/// `ACCOUNT=AMOUNT`. A name may have `=` in it, an amount has none.
fn part(text: &str) -> Result<Part, String> {
    let (account, amount) = text.rsplit_once('=').ok_or("must be ACCOUNT=AMOUNT, like bob=10")?;
    check_name("account", account).map_err(|error| error.to_string())?;
    Ok(Part { account: account.to_owned(), amount: amount.to_owned() })
}

/// What the flags capture. The currency is that of the hold.
fn capture(args: &ConfirmArgs, notation: &Notation) -> Result<Capture, Error> {
    let read = |flag: &str, text: &str| {
        let bad = |error: NotationError| Error::BadInput(format!("{flag}: {error}"));
        notation.read_part(text).map_err(bad)
    };
    if let Some(value) = &args.value {
        return read("--value", value).map(Capture::Value);
    }
    if args.capture.is_empty() {
        return Ok(Capture::All);
    }
    let leg = |part: &Part| {
        let amount = read("--capture", &part.amount)?;
        Ok(Leg { account: part.account.as_str().into(), amount })
    };
    args.capture.iter().map(leg).collect::<Result<_, Error>>().map(Capture::Legs)
}

/// Confirms a hold and says what was captured, or many of a file.
///
/// # Errors
/// When it can't be confirmed, was confirmed with another capture, or a server stays away.
pub async fn confirm(
    context: &Context,
    args: &ConfirmArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let how = (&args.wait, args.json);
    if let Some(file) = &args.file {
        return confirm_file(context, (file, &args.why), &args.of_file, how, out).await;
    }
    context.advice.set("run the same command again: a hold is confirmed once");
    context.client.ensure_schema().await?;
    let id = args.id.as_deref().unwrap_or_default();
    let capture = capture(args, &context.client.store().notation())?;
    let acting = Acting::one("hold.confirm", (SubjectKind::Transaction, id), &args.why);
    let told = |decided: &Decided| ActEnd::ok(format!("captured {}", in_words(&decided.captured)));
    let decided = context.act(acting, context.client.confirm(id, &capture), told).await;
    let decided = decided.map_err(refused)?;
    let captured = in_words(&decided.captured);
    let words = if decided.known { "is already confirmed, captured" } else { "captured" };
    end(context, id, decided, &format!("{words} {captured}"), how, out).await
}

/// Releases a hold and says how it stands.
///
/// # Errors
/// When there is nothing to release, or a server stays away.
pub async fn release(
    context: &Context,
    args: &ReleaseArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.advice.set("run the same command again: releasing twice changes nothing more");
    context.client.ensure_schema().await?;
    let acting = Acting::one("hold.release", (SubjectKind::Transaction, &args.id), &args.why);
    let told = |_: &Decided| ActEnd::ok("it is released");
    let decided = context.act(acting, context.client.release(&args.id), told).await;
    let decided = decided.map_err(refused)?;
    let reason = reason_text(&decided.standing);
    let exit =
        end(context, &args.id, decided, reason.trim_start(), (&args.wait, args.json), out).await?;
    // Canceled is what was asked for.
    Ok(if exit == Exit::Canceled { Exit::Ok } else { exit })
}

/// Says what became of a hold, and waits for its end if that is wished for.
async fn end(
    context: &Context,
    id: &str,
    decided: Decided,
    words: &str,
    (wait, as_json): (&WaitArgs, bool),
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let state = decided.standing.state.map_or("unknown", |state| state.as_str());
    match as_json {
        true => writeln!(out, "{}", told(id, state, &decided)),
        false => writeln!(out, "{id}: {state}; {words}"),
    }
    .map_err(Error::output)?;
    note_unpublished(context, decided.unpublished.as_ref());
    match wait.wait {
        true => report_end(context, id, wait, out).await,
        false if decided.standing.state == Some(State::Canceled) => Ok(Exit::Canceled),
        false => Ok(Exit::Ok),
    }
}

fn told(id: &str, state: &str, decided: &Decided) -> Value {
    let leg = |leg: &Leg| json!({ "account": &*leg.account, "amount": json::amount(leg.amount) });
    let captured: Vec<Value> = decided.captured.iter().map(leg).collect();
    let reason = decided.standing.reason.as_ref();
    let reason = reason.map(|(code, message)| json!({ "code": code, "message": message }));
    json!({
        "id": id, "state": state, "captured": captured, "known": decided.known, "reason": reason,
    })
}

/// The error of a hold says what to do by itself: what is advised for other transactions does not
/// fit.
fn refused(error: client::Error) -> Error {
    match error {
        client::Error::WrongState { .. } => Error::Refused(error.to_string()),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_of_an_account_is_read_whatever_its_name() {
        let read = |text| part(text).map(|part| (part.account, part.amount));
        assert_eq!(read("alice=-30"), Ok(("alice".to_owned(), "-30".to_owned())));
        assert_eq!(read("a=b=7"), Ok(("a=b".to_owned(), "7".to_owned())));
        for wrong in ["alice", "=5"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
