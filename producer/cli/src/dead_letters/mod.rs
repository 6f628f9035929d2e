//! `dead-letters`: what workers have given up, and bringing it back.
//!
//! Promises that nothing is taken out of the queue by looking, and that a command that was
//! interrupted can be repeated. Fails when a server stays away.

mod list;
mod replay;

use std::io::Write;
use std::time::{Duration, SystemTime};

use bson::DateTime;
use clap::{Args, Subcommand};
use client::{Asked, DeadLetter, Fate, HeldLetter, State};
use ledger::json;
use ledger::limits::echo_bytes;
use serde_json::{Value, json};

use crate::acting::why;
use crate::context::Context;
use crate::exit::{Error, Exit};

const REPEAT: &str = "run the same command again: what was done is not done twice";

/// The subcommands of `dead-letters`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Count the letters by their reason, or list each
    #[command(after_help = "\
Examples:
  producer dead-letters list
  producer dead-letters list --each --reason malformed --older-than 1d
  producer dead-letters list --json | jq -r .reason | sort | uniq -c")]
    List(ListArgs),
    /// Show one letter, and how its transactions stand
    Show(ShowArgs),
    /// Bring the transactions of letters back; a letter goes when nothing of it is left
    #[command(after_help = "\
Each transaction is looked at first. One that waits is published, a parked one is unparked and
published, one in flight is left to its worker. A letter whose transactions are all final, or of which
one is unknown, stays: discard it when it is of no use.

Examples:
  producer dead-letters replay 5f1c0a9be2d34c77
  producer dead-letters replay --reason unknown_transaction --dry-run
  producer dead-letters replay --all")]
    Replay(ChangeArgs),
    /// Take letters out of the queue for good; their transactions stay as they are
    #[command(after_help = "\
Examples:
  producer dead-letters discard 5f1c0a9be2d34c77
  producer dead-letters discard --reason malformed --older-than 30d")]
    Discard(ChangeArgs),
}

/// Which letters to list.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    #[command(flatten)]
    filter: Filter,
    /// Print each letter rather than one line for each reason
    #[arg(long)]
    each: bool,
    /// Print JSON, one letter a line
    #[arg(long)]
    json: bool,
}

/// Which letter to show.
#[derive(Args, Clone, Debug)]
pub struct ShowArgs {
    /// Its id, as `list` prints it
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Which letters to replay or to discard.
#[derive(Args, Clone, Debug)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true)
    .args(["ids", "all", "reason", "older_than"]))]
pub struct ChangeArgs {
    /// Their ids, as `list` prints them
    #[arg(conflicts_with = "all")]
    ids: Vec<String>,
    /// All of them
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: Filter,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Why you do it; `producer acts` shows it
    #[arg(long, value_name = "TEXT", value_parser = why)]
    why: Option<String>,
    /// Print JSON, one letter a line
    #[arg(long)]
    json: bool,
}

/// What a letter has to be like.
#[derive(Args, Clone, Debug, Default)]
struct Filter {
    /// Only letters with this reason: malformed, unknown_transaction, kills_worker, delivery_limit,
    /// …
    #[arg(long)]
    reason: Option<String>,
    /// Only letters that were given up so long ago: 90s, 30m, 12h, 7d
    #[arg(long, value_parser = humantime::parse_duration, value_name = "AGE")]
    older_than: Option<Duration>,
}

impl Filter {
    /// Whether a letter is meant, at this moment. One without a date is older than any age.
    fn takes(&self, letter: &DeadLetter, now: SystemTime) -> bool {
        let age = |died_at| {
            let died_at = SystemTime::UNIX_EPOCH + Duration::from_secs(died_at);
            now.duration_since(died_at).unwrap_or_default()
        };
        let is_old = |limit: &Duration| letter.died_at.is_none_or(|at| age(at) >= *limit);
        self.reason.as_ref().is_none_or(|reason| *reason == letter.reason)
            && self.older_than.as_ref().is_none_or(is_old)
    }
}

impl ChangeArgs {
    fn takes(&self, letter: &DeadLetter, now: SystemTime) -> bool {
        (self.ids.is_empty() || self.ids.contains(&letter.id)) && self.filter.takes(letter, now)
    }
}

/// Runs a subcommand.
///
/// # Errors
/// When a server stays away, or the letter that is asked for is not there.
pub async fn run(
    context: &Context,
    command: &Command,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.advice.set(REPEAT);
    match command {
        Command::List(args) => list::list(context, args, out).await,
        Command::Show(args) => list::show(context, args, out).await,
        Command::Replay(args) => replay::replay(context, args, out).await,
        Command::Discard(args) => replay::discard(context, args, out).await,
    }
}

/// Goes through the queue; `each` gets every letter, and says whether to go on.
async fn look(
    context: &Context,
    label: &'static str,
    mut each: impl AsyncFnMut(HeldLetter) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut letters = context.client.dead_letters().await?;
    let total = u64::from(letters.left());
    let progress = context.console.progress(label, Some(total));
    let gone_through = async {
        while let Some(held) = letters.next().await.map_err(client::Error::from)? {
            if !each(held).await? {
                break;
            }
            progress.at(total - u64::from(letters.left()), "");
        }
        Ok(())
    };
    let ended = gone_through.await;
    letters.close().await;
    ended
}

fn died_at(letter: &DeadLetter) -> Option<String> {
    let millis = i64::try_from(letter.died_at?.checked_mul(1_000)?).ok()?;
    Some(json::timestamp(DateTime::from_millis(millis)))
}

fn letter_json(letter: &DeadLetter) -> Value {
    let DeadLetter { id, reason, detail, body, .. } = letter;
    let body = String::from_utf8_lossy(body);
    json!({ "id": id, "reason": reason, "detail": detail, "diedAt": died_at(letter), "body": body })
}

fn line(letter: &DeadLetter) -> String {
    let DeadLetter { id, reason, body, .. } = letter;
    let at = died_at(letter).unwrap_or_else(|| "-".to_owned());
    format!("{id}  {at}  {reason}  {}", echo_bytes(body))
}

fn fates_json(asked: &Asked) -> Value {
    let one = |(id, fate): &(client::TransactionId, Fate)| {
        let state = fate.state().map(State::as_str);
        json!({ "id": &**id, "is": fate.as_str(), "state": state, "problem": fate.problem() })
    };
    asked.transactions.iter().map(one).collect()
}

/// What a transaction is, for people.
fn told(fate: &Fate) -> String {
    match fate {
        Fate::Waiting => "waits for a message".to_owned(),
        Fate::Parked => "is parked".to_owned(),
        Fate::InFlight(state) => format!("is {state}, and left to its worker"),
        Fate::Final(state) => format!("is {state}; there is nothing to replay"),
        Fate::Unknown => "is not in the database".to_owned(),
        Fate::Stuck(problem) => format!("can't be brought back: {problem}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_takes_letters_by_reason_and_age() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let letter = |reason: &str, died_at| DeadLetter {
            id: "1".to_owned(),
            reason: reason.to_owned(),
            detail: String::new(),
            died_at,
            body: Vec::new(),
        };
        let filter = |reason: Option<&str>, seconds: Option<u64>| Filter {
            reason: reason.map(str::to_owned),
            older_than: seconds.map(Duration::from_secs),
        };
        let dead = letter("malformed", Some(900));
        assert!(filter(None, None).takes(&dead, now));
        assert!(filter(Some("malformed"), Some(100)).takes(&dead, now));
        assert!(!filter(Some("kills_worker"), None).takes(&dead, now));
        assert!(!filter(None, Some(101)).takes(&dead, now));
        assert!(filter(None, Some(101)).takes(&letter("malformed", None), now));
        // A clock that was ahead makes no letter old.
        assert!(!filter(None, Some(1)).takes(&letter("malformed", Some(2_000)), now));
    }
}
