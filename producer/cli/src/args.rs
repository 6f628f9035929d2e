//! The command line: flags, and which function runs.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use client::{Client, Config};
use flags::{AmqpFlags, LogFlags, MongoFlags, TraceFlags};
use futures_util::future::LocalBoxFuture;
use observe::Tracing;
use settings::{AmqpSettings, MongoSettings, TraceSettings};

#[cfg(feature = "serve")]
use super::serve;
#[cfg(feature = "top")]
use super::top;
use super::{
    accounts, acts, adopt, audit, dead_letters, events, init, roles, settlement, submit,
    transactions, workers,
};
use crate::advice::Advice;
use crate::console::Console;
use crate::context::Context;
use crate::exit::{Error, Exit};

const HELP: &str = "\
Exit codes:
  0    all is well (refused transfers are results, not failures)
  1    something was refused or could not be done, or the audit found something
  2    the input or the command line is wrong; nothing was written
  3    --wait-limit was reached
  4    the transfer that was waited for is canceled
  5    it is not known whether it was done, wholly or in part; the same command, with the same id, tells
  130  interrupted by SIGINT (Ctrl-C)
  143  interrupted by SIGTERM

A command that was interrupted, or that gave up because a server stayed away, says how to complete it
without doing anything twice, or that nothing was written. A second signal ends a command at once.

Examples:
  producer accounts create world --floor none
  producer accounts create alice
  producer transfer world alice 1000 --wait
  producer submit transfers.csv --wait
  producer audit";

/// Submits transfers, and shows, cancels, reverses and audits them.
#[derive(Debug, Parser)]
#[command(name = "producer", version, after_help = HELP)]
pub struct Cli {
    /// The database.
    #[command(flatten)]
    pub mongo: MongoFlags,
    /// The broker.
    #[command(flatten)]
    pub amqp: AmqpFlags,
    /// What is traced.
    #[command(flatten)]
    pub trace: TraceFlags,
    /// How to log.
    #[command(flatten)]
    pub log: LogFlags,
    /// How long a server may be away before the command fails, in seconds
    #[arg(long, env = "TANDEM_GIVE_UP_AFTER", default_value_t = 60, global = true)]
    pub give_up_after: u32,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Set up a fresh database and the queues, or say what an existing database lacks
    #[command(after_help = init::HELP)]
    Init(init::InitArgs),
    /// Make a ledger of accounts and transactions that you already have, after a look; or go back
    #[command(after_help = adopt::HELP)]
    Adopt(adopt::AdoptArgs),
    /// Show the rights that each program needs, as roles and users of both servers
    #[command(after_help = roles::HELP)]
    Roles(roles::RolesArgs),
    /// Create, import, show, list, freeze, unfreeze or close accounts, set floors, or list what was
    /// booked
    #[command(subcommand)]
    Accounts(accounts::Command),
    /// Submit a file of transfers
    #[command(after_help = submit::HELP)]
    Submit(submit::SubmitArgs),
    /// Submit one transfer and print its id
    #[command(after_help = transactions::TRANSFER_HELP)]
    Transfer(transactions::TransferArgs),
    /// Show transactions
    Status(transactions::StatusArgs),
    /// List transactions
    #[command(after_help = transactions::LIST_HELP)]
    List(transactions::ListArgs),
    /// Count transactions by state and reason
    #[command(after_help = transactions::STATS_HELP)]
    Stats(transactions::StatsArgs),
    /// Show how fast it goes, what waits, who works and what is wrong, as it changes
    #[cfg(feature = "top")]
    #[command(after_help = top::HELP)]
    Top(top::TopArgs),
    /// Cancel a transaction that is not yet applied
    Cancel(transactions::CancelArgs),
    /// Confirm a hold: what is captured is paid, the rest goes home
    #[command(after_help = transactions::CONFIRM_HELP)]
    Confirm(transactions::ConfirmArgs),
    /// Release a hold: all that is held goes home
    #[command(after_help = transactions::RELEASE_HELP)]
    Release(transactions::ReleaseArgs),
    /// Change when a scheduled transaction is due
    #[command(after_help = transactions::RESCHEDULE_HELP)]
    Reschedule(transactions::RescheduleArgs),
    /// Bring parked transactions back, once what was wrong is mended
    Unpark(transactions::UnparkArgs),
    /// List, show, replay or discard the messages that workers have given up
    #[command(subcommand)]
    DeadLetters(dead_letters::Command),
    /// Tell of outcomes as they come, of those of the past, or publish those once more
    #[command(after_help = events::HELP)]
    Events(events::EventsArgs),
    /// Stop settlement of the ledger: workers begin nothing more, and finish what they have begun
    #[command(after_help = settlement::PAUSE_HELP)]
    Pause(settlement::PauseArgs),
    /// Let settlement go on that was paused
    #[command(after_help = settlement::RESUME_HELP)]
    Resume(settlement::ResumeArgs),
    /// Take one worker out of settlement, or let it settle again
    #[command(subcommand)]
    Workers(workers::Command),
    /// Take an applied or done transaction back, by a new one with its legs turned round
    Reverse(transactions::ReverseArgs),
    /// Serve the HTTP API
    #[cfg(feature = "serve")]
    #[command(after_help = serve::HELP)]
    Serve(serve::ServeArgs),
    /// Make a token for a caller of the HTTP API, and print its line for the file of tokens
    #[cfg(feature = "serve")]
    #[command(after_help = serve::TOKEN_HELP)]
    Token(serve::TokenArgs),
    /// Show who did what, why, and what became of it
    #[command(after_help = acts::HELP)]
    Acts(acts::ActsArgs),
    /// Check every rule of the ledger on every document
    #[command(after_help = audit::HELP)]
    Audit(audit::AuditArgs),
}

/// What is looked at before a command runs.
enum Check {
    /// The whole database.
    Database,
    /// Only whether this version knows the ledger's settings, and nothing removes its documents.
    Ground,
    /// Nothing: the command does that itself.
    Own,
}

impl Cli {
    /// Whether the command takes the whole terminal over, so that nothing else may be written to
    /// it.
    #[must_use]
    pub fn draws(&self) -> bool {
        match &self.command {
            #[cfg(feature = "top")]
            Command::Top(args) => args.draws(),
            _ => false,
        }
    }
}

impl Command {
    fn check(&self) -> Check {
        match self {
            Command::Status(_)
            | Command::List(_)
            | Command::Stats(_)
            | Command::Unpark(_)
            | Command::DeadLetters(_)
            | Command::Acts(_)
            | Command::Events(_) => Check::Database,
            // A database that lacks something is when an audit is wanted most.
            Command::Audit(_) => Check::Ground,
            #[cfg(feature = "serve")]
            Command::Serve(_) | Command::Token(_) => Check::Own,
            // Shows what is wrong, also when a server is away.
            #[cfg(feature = "top")]
            Command::Top(_) => Check::Own,
            // Those that write set a fresh database up when they have read their input.
            Command::Init(_)
            // Looks at databases without a ledger, too.
            | Command::Adopt(_)
            | Command::Roles(_)
            | Command::Submit(_)
            | Command::Transfer(_)
            | Command::Cancel(_)
            | Command::Confirm(_)
            | Command::Release(_)
            | Command::Reschedule(_)
            | Command::Pause(_)
            | Command::Resume(_)
            | Command::Workers(_)
            | Command::Reverse(_) => Check::Own,
            Command::Accounts(command) => match command {
                accounts::Command::Create(_) | accounts::Command::Import(_) => Check::Own,
                accounts::Command::Show(_)
                | accounts::Command::List(_)
                | accounts::Command::Statement(_)
                | accounts::Command::Absorb(_)
                | accounts::Command::SetFloor(_)
                | accounts::Command::Freeze(_)
                | accounts::Command::Unfreeze(_)
                | accounts::Command::Close(_) => Check::Database,
            },
        }
    }
}

/// Connects and runs the command, which sets `advice` for the case that it fails or is interrupted.
///
/// # Errors
/// As the command's function.
pub fn run<'a>(
    cli: &'a Cli,
    advice: &'a Advice,
    out: &'a mut (dyn Write + Send),
) -> LocalBoxFuture<'a, Result<Exit, Error>> {
    // Boxed here, or else the binary would be compiled with all commands once more.
    Box::pin(connect_and_run(cli, advice, out))
}

async fn connect_and_run(
    cli: &Cli,
    advice: &Advice,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let console = Arc::<Console>::default();
    let TraceSettings { otlp_endpoint, trace_sample } = cli.trace.clone().into();
    let instance = format!("producer-{}", std::process::id());
    let service = ("tandem-producer", instance.as_str());
    let tracing = Tracing::start(otlp_endpoint.as_deref(), trace_sample, service);
    let tracing = tracing.map_err(Error::BadInput)?;
    let config = config(cli, &console).tracing(tracing.clone());
    let config = match &cli.command {
        Command::Init(args) => args.schema_of(config)?,
        Command::Adopt(args) => args.schema_of(config)?,
        _ => config,
    };
    let client = Client::open(&config).await?;
    let context = Context { client, console, advice: advice.clone() };
    let ran = dispatch(&context, cli, out).await;
    context.client.close().await;
    tracing.stop().await;
    let flushed = out.flush().map_err(Error::output);
    ran.and_then(|exit| flushed.map(|()| exit))
}

fn config(cli: &Cli, console: &Arc<Console>) -> Config {
    let give_up_after = Duration::from_secs(cli.give_up_after.into());
    let console = console.clone();
    let (mongo, amqp) =
        (MongoSettings::from(cli.mongo.clone()), AmqpSettings::from(cli.amqp.clone()));
    let config = Config::new(mongo.mongodb_uri, amqp.amqp_url)
        .queue_prefix(amqp.queue_prefix)
        .one_document_statements(mongo.one_document_statements)
        .accept_indexes(mongo.accept_index)
        .give_up_after(give_up_after)
        .notes(move |note| console.note(note));
    let config = match mongo.database {
        Some(database) => config.database(database),
        None => config,
    };
    if let Command::Submit(args) = &cli.command {
        // A file may have more rows than should pile up while the broker is away. What other
        // commands do has its effect without the broker, so they don't wait for it for long.
        return config.publish_within(give_up_after).ids_per_message(args.batch_ids.into());
    }
    config
}

async fn dispatch(
    context: &Context,
    cli: &Cli,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let command = &cli.command;
    match command.check() {
        Check::Database => context.client.check_schema().await?,
        Check::Ground => context.client.check_ground().await?,
        Check::Own => {}
    }
    match command {
        Command::Init(args) => init::run(context, args, out).await,
        Command::Adopt(args) => adopt::run(context, args, out).await,
        Command::Roles(args) => {
            let AmqpSettings { amqp_url, queue_prefix } = cli.amqp.clone().into();
            roles::run(context, args, (&amqp_url, &queue_prefix), out).await
        }
        Command::Accounts(command) => accounts::run(context, command, out).await,
        Command::Submit(args) => submit::run(context, args, out).await,
        Command::Transfer(args) => transactions::transfer(context, args, out).await,
        Command::Status(args) => transactions::status(context, args, out).await,
        Command::List(args) => transactions::list(context, args, out).await,
        Command::Stats(args) => transactions::stats(context, args, out).await,
        #[cfg(feature = "top")]
        Command::Top(args) => top::run(context, args, out).await,
        Command::Cancel(args) => transactions::cancel(context, args, out).await,
        Command::Confirm(args) => transactions::confirm(context, args, out).await,
        Command::Release(args) => transactions::release(context, args, out).await,
        Command::Reschedule(args) => transactions::reschedule(context, args, out).await,
        Command::Unpark(args) => transactions::unpark(context, args, out).await,
        Command::DeadLetters(command) => dead_letters::run(context, command, out).await,
        Command::Events(args) => events::run(context, args, out).await,
        Command::Pause(args) => settlement::pause(context, args, out).await,
        Command::Resume(args) => settlement::resume(context, args, out).await,
        Command::Workers(command) => workers::run(context, command, out).await,
        Command::Reverse(args) => transactions::reverse(context, args, out).await,
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::serve(context, args, out).await,
        #[cfg(feature = "serve")]
        Command::Token(args) => serve::token(context, args, out),
        Command::Acts(args) => acts::run(context, args, out).await,
        Command::Audit(args) => audit::run(context, args, out).await,
    }
}

#[cfg(test)]
mod tests {
    use ledger::remedy::KINDS;
    use std::path::Path;

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The code of all files below a directory, without comments, each string on one line.
    fn code_below(directory: &Path, found: &mut String) {
        for entry in std::fs::read_dir(directory).expect("it can be read") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                code_below(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("it can be read");
                let text = text.split("mod tests {").next().unwrap_or_default();
                for line in text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"))
                {
                    match line.strip_suffix('\\') {
                        Some(goes_on) => found.push_str(goes_on),
                        None => found.extend([line, "\n"]),
                    }
                }
            }
        }
    }

    #[test]
    fn every_command_in_a_message_is_one_that_the_program_takes() {
        let mut code = String::new();
        for part in ["../../producer", "../../worker", "../../common"] {
            code_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join(part), &mut code);
        }
        let mut count = 0;
        for (at, _) in code.match_indices("`producer ") {
            let command = code[at + 1..].split('`').next().expect("some");
            let words = command.split_whitespace();
            // A value of the message; one that each flag that is advised takes.
            let words = words.map(|word| match word {
                "{}" => "on",
                "{since}" => "2026-11-22T10:00:00Z",
                word => word,
            });
            if let Err(refused) = Cli::try_parse_from(words) {
                panic!("{command}: {refused}");
            }
            count += 1;
        }
        assert!(count > 5, "only {count} were found");
        for kind in KINDS {
            // As a shell reads it, with a value of the reader's.
            let command = kind.example().command().replace("PLACES", "2").replace('\'', "");
            if let Err(refused) = Cli::try_parse_from(command.split_whitespace()) {
                panic!("{command}: {refused}");
            }
        }
    }
}
