//! `events`: outcomes as they come, outcomes of the past, and publishing those once more.

use std::io::Write;
use std::time::{Duration, SystemTime};

use clap::Args;
use client::{Ended, Outcome};
use futures_util::TryStreamExt;
use ledger::limits::echo;

use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::moment::{self, moment};

pub(crate) const HELP: &str = "\
An event is told at least once, and in no order: whoever counts them drops repeats by the id. With
--since, the events are made anew from the documents, which are all read; with --follow as well, what
ends meanwhile may be told twice. A subscriber of your own binds a queue to the exchange
<prefix>.events, with the keys transaction.done and transaction.canceled.

Examples:
  producer events --follow
  producer events --since 2h --json | jq 'select(.state == \"canceled\")'
  producer events --replay --since 2026-11-01T00:00:00Z     for a subscriber whose queue was lost";

/// Which events.
#[derive(Args, Clone, Debug)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true)
    .args(["follow", "since"]))]
pub struct EventsArgs {
    /// Tell of each end as it comes, until interrupted
    #[arg(long)]
    follow: bool,
    /// What has ended since a moment (2026-11-01T00:00:00Z) or within a time (90s, 30m, 12h, 7d)
    #[arg(long, value_parser = moment, value_name = moment::NAME)]
    since: Option<SystemTime>,
    /// Publish those events once more, and print how many
    #[arg(long, requires = "since", conflicts_with = "follow")]
    replay: bool,
    /// Print JSON: the bodies of the events, one a line
    #[arg(long)]
    json: bool,
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
        return replay(context, since, args.json, out).await;
    }
    // First, so that nothing ends unheard between the two.
    let mut outcomes = if args.follow { Some(client.outcomes().await?) } else { None };
    if let Some(since) = args.since {
        let ended = client.ended_since(since).await?;
        let mut ended = std::pin::pin!(ended);
        while let Some(ended) = ended.try_next().await? {
            print(&ended, args.json, out)?;
        }
    }
    while let Some(listening) = &mut outcomes {
        match listening.next().await {
            Ok(ended) => {
                print(&ended, args.json, out)?;
                // Whoever reads a pipe wants each as it comes.
                out.flush().map_err(Error::output)?;
            }
            Err(error) => {
                context
                    .console
                    .note(format!("{error}; listening again; --since tells what ended meanwhile"));
                outcomes = Some(client.outcomes().await?);
            }
        }
    }
    Ok(Exit::Ok)
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
    json: bool,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.advice.set("run the same command again: a repeated event is the same event");
    let begun = std::time::Instant::now();
    let progress = context.console.progress("published", None);
    let told = |count| progress.at(count, &rate(count, begun.elapsed()));
    let (published, unrouted) = context.client.replay_events(since, told).await?;
    drop(progress);
    if json {
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
