//! `pause` and `resume`: stop settlement of the ledger, and let it go on; and what these have in
//! common with draining one worker ([`crate::workers`]).
//!
//! Promises to say who has paused since when and why, also where somebody else was first, and, unless
//! told otherwise, to wait until every live worker says that it does as it is told, and to name those
//! that do not. What is said is durable before anything is waited for.

use std::io::Write;
use std::time::{Duration, Instant};

use bson::DateTime;
use clap::Args;
use client::{ActEnd, ActSubject, Client, Lagging, Settlement, SubjectKind, Switched, Whose};
use ledger::json::timestamp;
use ledger::limits::echo;
use ledger::remedy::Remedy;
use serde_json::{Value, json};

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
    pub(crate) fn by(&self) -> &str {
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
    let pausing = context.client.pause(args.how.by(), &args.reason);
    let asked = Asked { whose: Whose::Ledger, paused: true };
    asked.carry_out(context, (pausing, Some(&args.reason)), &args.how, out).await
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
    let reason = args.reason.as_deref();
    let resuming = context.client.resume(args.how.by(), reason);
    let asked = Asked { whose: Whose::Ledger, paused: false };
    asked.carry_out(context, (resuming, reason), &args.how, out).await
}

/// Looks whether the ledger is set up, before something is said of its settlement.
///
/// # Errors
/// When MongoDB stays away or refuses.
pub async fn begin(context: &Context) -> Result<(), Error> {
    context.advice.set("run the same command again: what is so already is not changed");
    Ok(context.client.ensure_schema().await?)
}

/// What was asked for.
pub struct Asked {
    /// Of all workers, or of one.
    pub whose: Whose,
    /// Whether they are to begin nothing more; if not, to go on.
    pub paused: bool,
}

impl Asked {
    /// Does it, notes it as an act with its reason, waits for the workers, and says how it stands.
    ///
    /// # Errors
    /// As `switching`; when MongoDB stays away, or nobody reads the output.
    pub async fn carry_out(
        &self,
        context: &Context,
        (switching, reason): (impl Future<Output = Result<Switched, client::Error>>, Option<&str>),
        how: &HowArgs,
        out: &mut (dyn Write + Send),
    ) -> Result<Exit, Error> {
        let told = |Switched { settlement, changed }: &Switched| {
            ActEnd::ok(self.told(settlement.as_ref(), *changed))
        };
        let switched = context.act(self.acting(reason), switching, told).await?;
        self.end(context, switched, how, out).await
    }

    /// The act that it is.
    fn acting<'a>(&self, reason: Option<&'a str>) -> Acting<'a> {
        let what = match (&self.whose, self.paused) {
            (Whose::Ledger, true) => "settlement.pause",
            (Whose::Ledger, false) => "settlement.resume",
            (Whose::Worker(_), true) => "worker.drain",
            (Whose::Worker(_), false) => "worker.resume",
        };
        let on = match &self.whose {
            Whose::Ledger => ActSubject::ledger(),
            Whose::Worker(name) => ActSubject::of(SubjectKind::Worker, [name.as_str()]),
        };
        Acting { what, on, reason }
    }

    async fn end(
        &self,
        context: &Context,
        Switched { settlement, changed }: Switched,
        how: &HowArgs,
        out: &mut (dyn Write + Send),
    ) -> Result<Exit, Error> {
        if !how.json {
            let line = self.told(settlement.as_ref(), changed);
            writeln!(out, "{line}").map_err(Error::output)?;
        }
        let left = match settlement.as_ref().filter(|_| !how.no_wait) {
            None => vec![],
            Some(said) => {
                let limit = Duration::from_secs(how.wait_limit.into());
                let waited = self.wait(&context.client, said, limit).await;
                waited.map_err(|error| Error::from(error).after_a_write())?
            }
        };
        if how.json {
            let line = self.as_json(settlement.as_ref(), changed, (how.no_wait, &left));
            writeln!(out, "{line}").map_err(Error::output)?;
        }
        for lagging in &left {
            context.console.note(lagging.to_string());
        }
        if !left.is_empty() {
            context.console.note(self.not_all());
            return Ok(Exit::WaitLimit);
        }
        if self.paused && !how.json {
            writeln!(out, "{}", self.todo(how.no_wait)).map_err(Error::output)?;
        }
        Ok(Exit::Ok)
    }

    /// How it goes on, when nothing is left to wait for.
    fn todo(&self, no_wait: bool) -> Todo {
        let (finished, goes_on, remedy) = match &self.whose {
            Whose::Ledger => {
                ("no live worker has more to finish; ", "settlement goes on", Remedy::Resume)
            }
            Whose::Worker(name) => {
                ("it has nothing more to finish; ", "it settles again", Remedy::ResumeWorker(name))
            }
        };
        let finished = if no_wait { "" } else { finished };
        Todo::with(format!("{finished}{goes_on} by"), remedy.command())
    }

    /// Those that are not there yet when the time is over; none as soon as all are.
    async fn wait(
        &self,
        client: &Client,
        said: &Settlement,
        limit: Duration,
    ) -> Result<Vec<Lagging>, client::Error> {
        let deadline = Instant::now() + limit;
        loop {
            let left = client.not_there_yet(&self.whose, said).await?;
            if left.is_empty() || Instant::now() >= deadline {
                return Ok(left);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// How it stands, in a sentence.
    fn told(&self, settlement: Option<&Settlement>, changed: bool) -> String {
        let [paused, goes_on] = match self.whose {
            Whose::Ledger => ["paused", "goes on"],
            Whose::Worker(_) => ["drained", "settles"],
        };
        let what = match &self.whose {
            Whose::Ledger => "settlement".to_owned(),
            Whose::Worker(name) => format!("worker {}", echo(name)),
        };
        let Some(said) = settlement else { return format!("{what} was never {paused}") };
        let told = said.told();
        match (self.paused, changed) {
            (true, true) => format!("{what} is {paused} {told}"),
            (true, false) => format!("{what} was {paused} already, {told}"),
            (false, true) => format!("{what} {goes_on} {told}"),
            (false, false) => format!("{what} was not {paused}; it {goes_on} {told}"),
        }
    }

    fn not_all(&self) -> &'static str {
        match (&self.whose, self.paused) {
            (Whose::Ledger, true) => {
                "settlement is paused, and these workers have not stopped settling, as far as they \
                 have said; run the same command again to wait for them"
            }
            (Whose::Ledger, false) => {
                "settlement goes on, and these workers have not said so yet; run the same command \
                 again to wait for them"
            }
            (Whose::Worker(_), true) => {
                "it is to be drained, and has not stopped settling, as far as it has said; run the \
                 same command again to wait for it"
            }
            (Whose::Worker(_), false) => {
                "it is to settle again, and has not said so yet; run the same command again to wait \
                 for it"
            }
        }
    }

    fn as_json(
        &self,
        settlement: Option<&Settlement>,
        changed: bool,
        (no_wait, left): (bool, &[Lagging]),
    ) -> String {
        let since = settlement.map(|said| timestamp(DateTime::from_millis(said.since)));
        let left: Vec<String> = left.iter().map(ToString::to_string).collect();
        let mut told = json!({
            "changed": changed,
            "since": since,
            "by": settlement.map(|said| &said.by),
            "reason": settlement.and_then(|said| said.reason.as_ref()),
            // Nobody knows when nobody has waited.
            "workersDoSo": (!no_wait).then_some(left.is_empty()),
            "workersLeft": left,
        });
        let paused = Value::from(self.paused);
        match &self.whose {
            Whose::Ledger => told["paused"] = paused,
            Whose::Worker(name) => {
                told["worker"] = name.as_str().into();
                told["drained"] = paused;
            }
        }
        told.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(paused: bool) -> Settlement {
        let (id, by, reason) = ("c".to_owned(), "ada".to_owned(), Some("why".to_owned()));
        Settlement { id, paused, since: 1_780_000_000_000, by, reason }
    }

    fn pause() -> Asked {
        Asked { whose: Whose::Ledger, paused: true }
    }

    fn resume() -> Asked {
        Asked { whose: Whose::Ledger, paused: false }
    }

    fn of_worker(asked: Asked) -> Asked {
        Asked { whose: Whose::Worker("settle-1".to_owned()), ..asked }
    }

    #[test]
    fn whoever_comes_second_is_told_who_was_first() {
        let of = |changed| pause().told(Some(&said(true)), changed);
        assert_eq!(of(true), "settlement is paused since 2026-05-28T20:26:40Z by ada: why");
        assert!(of(false).starts_with("settlement was paused already, since"), "{}", of(false));
        assert_eq!(resume().told(None, false), "settlement was never paused");
        let resumed = resume().told(Some(&said(false)), false);
        assert!(resumed.starts_with("settlement was not paused"), "{resumed}");
    }

    #[test]
    fn a_worker_is_named_wherever_something_is_said_of_it() {
        let drained = of_worker(pause()).told(Some(&said(true)), true);
        assert_eq!(drained, "worker settle-1 is drained since 2026-05-28T20:26:40Z by ada: why");
        let never = of_worker(resume()).told(None, false);
        assert_eq!(never, "worker settle-1 was never drained");
        let line = of_worker(pause()).as_json(Some(&said(true)), true, (false, &[]));
        assert!(line.contains(r#""drained":true"#), "{line}");
        assert!(line.contains(r#""worker":"settle-1""#), "{line}");
        let todo = of_worker(pause()).todo(false).to_string();
        assert!(todo.contains("producer workers resume settle-1"), "{todo}");
    }

    #[test]
    fn what_nobody_has_waited_for_is_told_as_unknown() {
        let of = |no_wait| pause().as_json(Some(&said(true)), true, (no_wait, &[]));
        assert!(of(true).contains(r#""workersDoSo":null"#), "{}", of(true));
        assert!(of(false).contains(r#""workersDoSo":true"#), "{}", of(false));
    }
}
