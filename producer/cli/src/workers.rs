//! `workers drain` and `workers resume`: take one worker out of settlement, and let it settle again.
//!
//! Promises as `pause` does: to say who has drained it since when and why, also where somebody else
//! was first, and, unless told otherwise, to wait until the worker says that it does as it is told. A
//! name that no worker had within a day is refused, with those that there were.

use std::io::Write;

use clap::{Args, Subcommand};
use client::Whose;

use crate::acting::why;
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::settlement::{Asked, HowArgs, begin};

const DRAIN_HELP: &str = "\
The worker sees it within a second. It begins nothing more, gives back the messages that it has not
begun, finishes the transactions that it has, and stands by doing nothing; other workers settle what
comes. Where workers stand by for one another, it hands its turn on. It stays ready, and stays drained
when it is started again under the same name. When all workers are drained, nothing is settled.

It waits until the worker says that it has nothing left in flight. Draining a worker that is drained
changes nothing and says who has drained it. `producer top --once` shows the names of the workers.

Examples:
  producer workers drain settle-1 --reason 'its machine is to be replaced'
  producer workers resume settle-1 --reason 'the machine is replaced'";

const RESUME_HELP: &str = "\
The worker sees it within a second and settles again. Where it is not drained, nothing changes.

Example:
  producer workers resume settle-1 --reason 'the machine is replaced'";

/// The subcommands of `workers`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Take one worker out of settlement: it begins nothing more, and finishes what it has begun
    #[command(after_help = DRAIN_HELP)]
    Drain(DrainArgs),
    /// Let a worker settle again that was drained
    #[command(after_help = RESUME_HELP)]
    Resume(ResumeArgs),
}

/// Which worker to drain, and why.
#[derive(Args, Clone, Debug)]
pub struct DrainArgs {
    /// Its name, as its TANDEM_NAME says it
    pub name: String,
    /// Why; everybody is shown it while the worker is drained
    #[arg(long, value_name = "TEXT", value_parser = why)]
    pub reason: String,
    #[command(flatten)]
    pub how: HowArgs,
}

/// Which worker is to settle again.
#[derive(Args, Clone, Debug)]
pub struct ResumeArgs {
    /// Its name
    pub name: String,
    /// Why; the log of the worker has it
    #[arg(long, value_name = "TEXT", value_parser = why)]
    pub reason: Option<String>,
    #[command(flatten)]
    pub how: HowArgs,
}

/// Runs a subcommand.
///
/// # Errors
/// When no worker has this name, and when MongoDB stays away or refuses.
pub async fn run(
    context: &Context,
    command: &Command,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    begin(context).await?;
    match command {
        Command::Drain(args) => drain(context, args, out).await,
        Command::Resume(args) => resume(context, args, out).await,
    }
}

async fn drain(
    context: &Context,
    args: &DrainArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let draining = context.client.drain(&args.name, args.how.by(), &args.reason);
    let asked = Asked { whose: Whose::Worker(args.name.clone()), paused: true };
    asked.carry_out(context, (draining, Some(&args.reason)), &args.how, out).await
}

async fn resume(
    context: &Context,
    args: &ResumeArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let reason = args.reason.as_deref();
    let resuming = context.client.resume_worker(&args.name, args.how.by(), reason);
    let asked = Asked { whose: Whose::Worker(args.name.clone()), paused: false };
    asked.carry_out(context, (resuming, reason), &args.how, out).await
}
