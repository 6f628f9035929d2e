//! Parses the command, runs it, and turns the outcome into an exit code.

use clap::{Parser, Subcommand};
use harness::console::{Failure, conclude};
use local::demo;

/// Exit code of a command line that makes no sense.
const EXIT_USAGE: i32 = 2;

/// Tandem's servers, tests and demo on one machine.
#[derive(Parser)]
#[command(name = "local", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Settles transfers on real servers while a worker is killed
    Demo(demo::Options),
}

#[tokio::main]
async fn main() {
    conclude(run(Cli::parse().command)).await
}

async fn run(command: Command) -> Result<i32, Failure> {
    match command {
        Command::Demo(options) => match options.validate() {
            Ok(()) => demo::demo(&options).await,
            Err(problem) => {
                eprintln!("deploy/demo: {problem}");
                Ok(EXIT_USAGE)
            }
        },
    }
}
