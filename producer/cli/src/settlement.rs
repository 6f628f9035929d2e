//! `pause` and `resume`: stop settlement of the ledger, and let it go on.
//!
//! Promises to say who has paused since when and why, also where somebody else was first, and, unless
//! told otherwise, to wait until every live worker says that it does as it is told, and to name those
//! that do not. What is said is durable before anything is waited for.

use std::io::Write;
use std::time::{Duration, Instant};

use bson::DateTime;
use clap::Args;
use client::{ActEnd, ActSubject, Client, Lagging, Settlement, Switched};
use ledger::json::timestamp;
use ledger::remedy::Remedy;
use serde_json::json;

use crate::acting::{Acting, why};
use crate::advice::Todo;
use crate::context::Context;
use crate::exit::{Error, Exit};

pub const PAUSE_HELP: &str = "\
Workers see it within a second. They begin nothing more, give back the messages that they have not
begun, and finish the transactions that they have. What is submitted meanwhile is accepted and waits;
accounts, transactions and statements can be read, and holds confirmed, released and canceled: what a
worker has to do for that is done when settlement goes on. Workers stay ready, and one that is started
meanwhile begins nothing.

It waits until every live worker says that it has nothing left in flight, and names those that have
not. A pause of a ledger that is paused changes nothing and says who has paused it.

Examples:
  producer pause --reason 'the price list is wrong'
  producer pause --reason 'the price list is wrong' --by ada --json
  producer resume --reason 'the price list is right'";

pub const RESUME_HELP: &str = "\
Workers see it within a second and take up what waits. Where settlement is not paused, nothing changes.

Examples:
  producer resume
  producer resume --reason 'the price list is right' --by ada --json";

/// How often to look whether workers do as they are told.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Who says so when nobody has a name.
const NOBODY: &str = "an unknown user";

/// Why to pause.
#[derive(Args, Clone, Debug)]
pub struct PauseArgs {
    /// Why; everybody is shown it while settlement is paused
    #[arg(long, value_name = "TEXT", value_parser = why)]
    pub reason: String,
    #[command(flatten)]
    pub how: HowArgs,
}

/// How to let settlement go on.
#[derive(Args, Clone, Debug)]
pub struct ResumeArgs {
    /// Why; the logs of the workers have it
    #[arg(long, value_name = "TEXT", value_parser = why)]
    pub reason: Option<String>,
    #[command(flatten)]
    pub how: HowArgs,
}

/// What both have.
#[derive(Args, Clone, Debug)]
pub struct HowArgs {
    /// Who says so [default: the name of the user]
    #[arg(long, value_name = "NAME", env = "USER")]
    pub by: Option<String>,
    /// Do not wait for the workers
    #[arg(long)]
    pub no_wait: bool,
    /// Wait for the workers at most so many seconds, then exit with 3
    #[arg(long, value_name = "SECONDS", default_value_t = 10, conflicts_with = "no_wait")]
    pub wait_limit: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl HowArgs {
    fn by(&self) -> &str {
        self.by.as_deref().filter(|by| !by.trim().is_empty()).unwrap_or(NOBODY)
    }
}

/// Pauses settlement.
///
/// # Errors
/// When MongoDB stays away or refuses.
pub async fn pause(
    context: &Context,
    args: &PauseArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    begin(context).await?;
    let switching = context.client.pause(args.how.by(), &args.reason);
    let acting = acting("settlement.pause", Some(&args.reason));
    let switched = context.act(acting, switching, |switched| ended(true, switched)).await?;
    end(context, true, switched, &args.how, out).await
}

/// Lets settlement go on.
///
/// # Errors
/// When MongoDB stays away or refuses.
pub async fn resume(
    context: &Context,
    args: &ResumeArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    begin(context).await?;
    let switching = context.client.resume(args.how.by(), args.reason.as_deref());
    let acting = acting("settlement.resume", args.reason.as_deref());
    let switched = context.act(acting, switching, |switched| ended(false, switched)).await?;
    end(context, false, switched, &args.how, out).await
}

fn acting<'a>(what: &'static str, reason: Option<&'a str>) -> Acting<'a> {
    Acting { what, on: ActSubject::ledger(), reason }
}

fn ended(paused: bool, Switched { settlement, changed }: &Switched) -> ActEnd {
    ActEnd::ok(told(paused, settlement.as_ref(), *changed))
}

async fn begin(context: &Context) -> Result<(), Error> {
    context.advice.set("run the same command again: what is so already is not changed");
    Ok(context.client.ensure_schema().await?)
}

/// Waits for the workers, and says how it stands.
async fn end(
    context: &Context,
    paused: bool,
    Switched { settlement, changed }: Switched,
    how: &HowArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    if !how.json {
        let line = told(paused, settlement.as_ref(), changed);
        writeln!(out, "{line}").map_err(Error::output)?;
    }
    let left = match settlement.as_ref().filter(|_| !how.no_wait) {
        None => vec![],
        Some(said) => {
            let limit = Duration::from_secs(how.wait_limit.into());
            let waited = wait(&context.client, said, limit).await;
            waited.map_err(|error| Error::from(error).after_a_write())?
        }
    };
    if how.json {
        let line = as_json(paused, settlement.as_ref(), changed, (how.no_wait, &left));
        writeln!(out, "{line}").map_err(Error::output)?;
    }
    for lagging in &left {
        context.console.note(lagging.to_string());
    }
    if !left.is_empty() {
        context.console.note(not_all(paused));
        return Ok(Exit::WaitLimit);
    }
    if paused && !how.json {
        let finished = if how.no_wait { "" } else { "no live worker has more to finish; " };
        let todo = format!("{finished}settlement goes on by");
        let todo = Todo::with(todo, Remedy::Resume.command());
        writeln!(out, "{todo}").map_err(Error::output)?;
    }
    Ok(Exit::Ok)
}

/// Those that are not there yet when the time is over; none as soon as all are.
async fn wait(
    client: &Client,
    said: &Settlement,
    limit: Duration,
) -> Result<Vec<Lagging>, client::Error> {
    let deadline = Instant::now() + limit;
    loop {
        let left = client.not_there_yet(said).await?;
        if left.is_empty() || Instant::now() >= deadline {
            return Ok(left);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// How it stands, in a sentence.
fn told(paused: bool, settlement: Option<&Settlement>, changed: bool) -> String {
    let Some(said) = settlement else { return "settlement was never paused".to_owned() };
    let told = said.told();
    match (paused, changed) {
        (true, true) => format!("settlement is paused {told}"),
        (true, false) => format!("settlement was paused already, {told}"),
        (false, true) => format!("settlement goes on {told}"),
        (false, false) => format!("settlement was not paused; it goes on {told}"),
    }
}

fn not_all(paused: bool) -> &'static str {
    match paused {
        true => {
            "settlement is paused, and these workers have not stopped settling, as far as they have \
             said; run the same command again to wait for them"
        }
        false => {
            "settlement goes on, and these workers have not said so yet; run the same command again to \
             wait for them"
        }
    }
}

fn as_json(
    paused: bool,
    settlement: Option<&Settlement>,
    changed: bool,
    (no_wait, left): (bool, &[Lagging]),
) -> String {
    let since = settlement.map(|said| timestamp(DateTime::from_millis(said.since)));
    let left: Vec<String> = left.iter().map(ToString::to_string).collect();
    json!({
        "paused": paused,
        "changed": changed,
        "since": since,
        "by": settlement.map(|said| &said.by),
        "reason": settlement.and_then(|said| said.reason.as_ref()),
        // Nobody knows when nobody has waited.
        "workersDoSo": (!no_wait).then_some(left.is_empty()),
        "workersLeft": left,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(paused: bool) -> Settlement {
        let (id, by, reason) = ("c".to_owned(), "ada".to_owned(), Some("why".to_owned()));
        Settlement { id, paused, since: 1_780_000_000_000, by, reason }
    }

    #[test]
    fn whoever_comes_second_is_told_who_was_first() {
        let paused = said(true);
        let of = |changed| told(true, Some(&paused), changed);
        assert_eq!(of(true), "settlement is paused since 2026-05-28T20:26:40Z by ada: why");
        assert!(of(false).starts_with("settlement was paused already, since"), "{}", of(false));
        assert_eq!(told(false, None, false), "settlement was never paused");
        let resumed = told(false, Some(&said(false)), false);
        assert!(resumed.starts_with("settlement was not paused"), "{resumed}");
    }

    #[test]
    fn what_nobody_has_waited_for_is_told_as_unknown() {
        let of = |no_wait| as_json(true, Some(&said(true)), true, (no_wait, &[]));
        assert!(of(true).contains(r#""workersDoSo":null"#), "{}", of(true));
        assert!(of(false).contains(r#""workersDoSo":true"#), "{}", of(false));
    }
}
