//! Parses the settings, listens for signals, runs the worker.

use clap::Parser;
use ledger::shell::laid_out;
use settings::secret_files;
use tokio::signal::unix::{SignalKind, signal};
use worker::{Failure, Worker};
use worker_cli::Cli;

/// Bad settings, as of the usual convention for usage errors.
const EXIT_SETTINGS: i32 = 2;
const EXIT_FAILED: i32 = 1;

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
    if let Err(problem) = flags::init_logging(&logging) {
        eprintln!("worker: {problem}");
        return EXIT_SETTINGS;
    }
    let worker = Worker::new(config.into()).start();
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
