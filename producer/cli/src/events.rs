//! `events`: what ended, by numbers, as it comes, and of the past; and publishing that once more.

use std::io::Write;
use std::time::{Duration, SystemTime};

use clap::Args;
use client::{ActEnd, ActSubject, EndFilter, Ended, LIMIT_MAX, NumberedEnd, Outcome};
use futures_util::TryStreamExt;
use ledger::event::End;
use ledger::limits::echo;

use crate::acting::{Acting, why};
use crate::advice::Todo;
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::moment::{self, moment};

/// How often it looks whether something has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(crate) const HELP: &str = "\
Each end has a number, from 1 on, without a gap, and --after tells what ended after a number, in an
order that never changes: whoever only follows the numbers misses nothing. With --since, the events
are made anew from the documents, which are all read, in no order; with --follow as well, what ends
meanwhile may be told twice, and whoever counts them drops repeats by the id.
A subscriber of your own binds a queue to the exchange <prefix>.events, with the keys
transaction.done and transaction.canceled.

Examples:
  producer events --follow
  producer events --after 0 --json                          all of them, with their numbers
  producer events --after 4711 --follow --account alice     go on where you stopped
  producer events --since 2h --json | jq 'select(.state == \"canceled\")'
  producer events --replay --since 2026-11-01T00:00:00Z     for a subscriber whose queue was lost";

/// Which events.
#[derive(Args, Clone, Debug)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true)
    .args(["follow", "since", "after"]))]
pub struct EventsArgs {
    /// Tell of each end as it comes, until interrupted
    #[arg(long)]
    follow: bool,
    /// What has ended since a moment (2026-11-01T00:00:00Z) or within a time (90s, 30m, 12h, 7d)
    #[arg(long, value_parser = moment, value_name = moment::NAME)]
    since: Option<SystemTime>,
    /// What has ended after the end with this number; 0 is the beginning
    #[arg(long, value_name = "NUMBER", conflicts_with = "since")]
    after: Option<u64>,
    /// Only this end
    #[arg(long, value_name = "done|canceled", value_parser = end, conflicts_with = "since")]
    state: Option<End>,
    /// Only ends of transactions that name this account
    #[arg(long, conflicts_with = "since")]
    account: Option<String>,
    /// Only ends of transactions in this currency
    #[arg(long, conflicts_with = "since")]
    currency: Option<String>,
    /// Only ends of transactions whose metadata has this field with this value
    #[arg(long, value_name = "NAME=VALUE", value_parser = field, conflicts_with = "since")]
    metadata: Vec<(String, String)>,
    /// Publish those events once more, and print how many
    #[arg(long, requires = "since", conflicts_with = "follow")]
    replay: bool,
    /// Why they are published once more; `producer acts` shows it
    #[arg(long, value_name = "TEXT", value_parser = why, requires = "replay")]
    reason: Option<String>,
    /// Print JSON: the bodies of the events, one a line; by numbers also `number` and `at`, the
    /// moment of the end
    #[arg(long)]
    json: bool,
}

fn end(name: &str) -> Result<End, String> {
    End::parse(name).ok_or_else(|| "must be done or canceled".to_owned())
}

fn field(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("must be NAME=VALUE".to_owned()),
    }
}

impl EventsArgs {
    fn filter(&self) -> EndFilter {
        EndFilter {
            end: self.state,
            account: self.account.as_deref().map(Into::into),
            currency: self.currency.clone(),
            metadata: self.metadata.clone(),
            prefixes: Vec::new(),
        }
    }
}

/// Prints events, or publishes them once more.
///
/// # Errors
/// When a server stays away.
pub async fn run(
    context: &Context,
    args: &EventsArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let client = &context.client;
    if let (Some(since), true) = (args.since, args.replay) {
        return replay(context, since, args, out).await;
    }
    // First, so that nothing ends unheard between the two.
    let after = match args.after {
        None if args.follow => Some(client.last_end().await?),
        after => after,
    };
    if let Some(since) = args.since {
        let ended = client.ended_since(since).await?;
        let mut ended = std::pin::pin!(ended);
        while let Some(ended) = ended.try_next().await? {
            print(&ended, args.json, out)?;
        }
    }
    match after {
        Some(after) => by_numbers(context, args, after, out).await,
        None => Ok(Exit::Ok),
    }
}

/// Prints what ended after a number: all there is, or whatever comes.
async fn by_numbers(
    context: &Context,
    args: &EventsArgs,
    mut after: u64,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let (client, filter) = (&context.client, args.filter());
    let advise = |after| {
        let todo = "nothing was written; run it again with";
        context.advice.set(Todo::with(todo, format!("--after {after}")));
    };
    advise(after);
    loop {
        let page = client.ended_after(after, LIMIT_MAX, &filter).await?;
        for NumberedEnd { number, at, ended } in &page.items {
            if args.json {
                let mut line = ended.event.clone();
                line["number"] = (*number).into();
                line["at"] = ledger::json::timestamp(*at).into();
                writeln!(out, "{line}").map_err(Error::output)?;
            } else {
                write!(out, "{number} ").map_err(Error::output)?;
                print(ended, false, out)?;
            }
        }
        // Whoever reads a pipe wants each as it comes, and goes on after what was told.
        out.flush().map_err(Error::output)?;
        after = page.next;
        advise(after);
        if page.is_last && !args.follow {
            return Ok(Exit::Ok);
        }
        if page.is_last {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

fn print(ended: &Ended, json: bool, out: &mut (dyn Write + Send)) -> Result<(), Error> {
    if json {
        return writeln!(out, "{}", ended.event).map_err(Error::output);
    }
    let id = echo(&ended.id);
    match &ended.outcome {
        Outcome::Held => writeln!(out, "{id}: held"),
        Outcome::Done => writeln!(out, "{id}: done"),
        Outcome::Canceled { code, message } => {
            writeln!(out, "{id}: canceled ({}: {})", echo(code), echo(message))
        }
    }
    .map_err(Error::output)
}

async fn replay(
    context: &Context,
    since: SystemTime,
    args: &EventsArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.advice.set("run the same command again: a repeated event is the same event");
    let begun = std::time::Instant::now();
    let progress = context.console.progress("published", None);
    let told = |count| progress.at(count, &rate(count, begun.elapsed()));
    let work = async { Ok(context.client.replay_events(since, told).await?) };
    let on = ActSubject::ledger();
    let acting = Acting { what: "events.replay", on, reason: args.reason.as_deref() };
    let noted = |(published, _): &(u64, u64)| ActEnd::ok(format!("{published} were published"));
    let (published, unrouted) = context.act_in_steps(acting, work, noted).await?;
    drop(progress);
    if args.json {
        let report = serde_json::json!({ "published": published, "unrouted": unrouted });
        writeln!(out, "{report}").map_err(Error::output)?;
    } else {
        let nobody = match unrouted {
            0 => String::new(),
            _ => format!("; nobody has bound a queue for {unrouted} of them"),
        };
        writeln!(out, "published {published} events{nobody}").map_err(Error::output)?;
    }
    Ok(Exit::Ok)
}

fn rate(count: u64, elapsed: Duration) -> String {
    format!("{:.0}/s", crate::console::per_second(count, elapsed))
}
