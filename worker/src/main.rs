//! Parses the settings, listens for signals, runs the worker.

use clap::Parser;
use common::config::LogArgs;
use common::secret_files;
use common::shell::laid_out;
use tokio::signal::unix::{SignalKind, signal};
use worker::{Config, Failure, Worker};

/// Bad settings, as of the usual convention for usage errors.
const EXIT_SETTINGS: i32 = 2;
const EXIT_FAILED: i32 = 1;

const EXAMPLES: &str = "\
Examples:
  worker
  TANDEM_MONGODB_URI='mongodb://db1,db2,db3/bank?replicaSet=rs0' worker --name settle-1
  worker --http 0.0.0.0:9464 --log-format json --log debug
  worker --engine auto                    the fastest where it is the only worker
  worker --batch-size 1 --lanes 32        one transaction at a time, for comparison

Every flag has an environment variable, shown beside it.

Exit codes:
  0    stopped as told; nothing of it is left in flight
  1    the database or the broker refuses it for good (rights, password, another setup or version),
       a part of it ended by itself, or it was not finished within --drain-ms; what is in flight is
       taken over by others when its lease ends
  2    bad settings
A server that is away is waited for: see /readyz.";

/// Settles transactions: consumes their ids and runs the two-phase commit, or native transactions.
#[derive(Parser)]
#[command(name = "worker", version, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    config: Config,
    #[command(flatten)]
    logging: LogArgs,
}

#[tokio::main]
async fn main() {
    let code = start().await;
    // The database driver ends its sessions in the background and may panic when the runtime goes
    // before it does; there is nothing left to wait for.
    std::process::exit(code);
}

async fn start() -> i32 {
    let Cli { config, logging } = match secret_files::of_process() {
        Ok(arguments) => Cli::parse_from(arguments),
        Err(problem) => {
            eprintln!("worker: {problem}");
            return EXIT_SETTINGS;
        }
    };
    if let Err(problem) = common::config::init_logging(&logging) {
        eprintln!("worker: {problem}");
        return EXIT_SETTINGS;
    }
    let worker = Worker::new(config).start();
    let stop = worker.token();
    let signals = tokio::spawn(async move {
        let (Ok(mut terminate), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            return;
        };
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stop.is_cancelled() {
                tracing::warn!("told twice: leaving at once");
                std::process::exit(EXIT_FAILED);
            }
            stop.cancel();
        }
    });
    let ended = worker.wait().await;
    signals.abort();
    match ended {
        Ok(()) => 0,
        Err(failure) => {
            eprintln!("worker: {}", laid_out(&failure.to_string()));
            match failure {
                Failure::Settings(_) | Failure::Http(..) => EXIT_SETTINGS,
                Failure::NotReady(_) | Failure::Ended(..) | Failure::Unfinished(_) => EXIT_FAILED,
            }
        }
    }
}
