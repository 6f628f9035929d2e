//! Parses the settings, listens for signals, runs the worker.

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use worker::Failure;
use worker::settings::Settings;

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
    let settings = Settings::parse();
    if let Err(problem) = common::config::init_logging(&settings.logging) {
        eprintln!("worker: {problem}");
        return EXIT_SETTINGS;
    }
    let (teller, stop) = worker::stop::stop();
    let signals = tokio::spawn(async move {
        let (Ok(mut terminate), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            return;
        };
        for told_before in [false, true] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if told_before {
                tracing::warn!("told twice: leaving at once");
                std::process::exit(EXIT_FAILED);
            }
            teller.tell();
        }
    });
    let ran = worker::run(settings, stop).await;
    signals.abort();
    match ran {
        Ok(()) => 0,
        Err(failure) => {
            eprintln!("worker: {failure}");
            match failure {
                Failure::Settings(_) | Failure::Http(..) => EXIT_SETTINGS,
                Failure::NotReady(_) | Failure::Ended(..) | Failure::Unfinished(_) => EXIT_FAILED,
            }
        }
    }
}
