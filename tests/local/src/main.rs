//! The command line of what the scripts in `deploy/` run.

use clap::{Parser, Subcommand};
use harness::console::conclude;
use local::{demo, down, run, test, up};

/// Starts servers for development, and runs programs on servers of their own.
#[derive(Parser)]
#[command(
    name = "local",
    after_help = "Each command has a script in deploy/, which also finds the \
                                        servers' programs."
)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(up::Args),
    Down(down::Args),
    Demo(demo::Args),
    Test(test::Args),
    Run(run::Args),
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    conclude(async {
        match args.command {
            Command::Up(args) => up::up(&args).await,
            Command::Down(args) => down::down(&args).await,
            Command::Demo(args) => demo::demo(&args).await,
            Command::Test(args) => test::test(&args).await,
            Command::Run(args) => run::run(&args).await,
        }
    })
    .await
}
