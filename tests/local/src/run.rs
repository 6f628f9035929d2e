//! `local run`: runs a program on servers of its own, and takes them down whatever happens.
//!
//! The servers live in a directory of which there is one run at a time; it starts empty and is
//! removed at the end, with every process of the run. The exit code is the program's.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use harness::console::{Failure, Timings};
use harness::deployment::Deployment;
use harness::deployment::mongodb::Member;
use tokio::process::Command;

use crate::command;
use crate::run_directory::RunDirectory;
use crate::up::Only;

/// Starts fresh servers, runs a program on them, and takes them down.
#[derive(Debug, Parser)]
#[command(
    override_usage = "local run --dir DIR [OPTIONS] -- PROGRAM [ARGUMENT...]",
    after_help = "\
Examples:
  local run --dir /tmp/r -- sh -c 'echo $TANDEM_MONGODB_URI $TANDEM_AMQP_URL'
  local run --dir /tmp/b --measured -- target/release/bench --quick

The program sees
  TANDEM_MONGODB_URI, TANDEM_AMQP_URL       where the servers are
  TANDEM_MONGODB_PID, TANDEM_RABBITMQ_PID   the processes of servers that were started
  TANDEM_TEST_DIR                           a directory for files and servers of its own
Another run with the same directory is refused. What is in the directory is removed before and after."
)]
pub struct Args {
    /// Where the servers live meanwhile
    #[arg(long)]
    dir: PathBuf,
    /// Just one of the servers
    #[arg(long)]
    only: Option<Only>,
    /// For figures: with MongoDB's own memory settings, with none of the shell's TANDEM_ settings,
    /// and never with servers that the environment names
    #[arg(long)]
    measured: bool,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

/// Runs the program; its exit code.
///
/// # Errors
/// When the servers or the program can't be started.
pub async fn run(args: &Args) -> Result<i32, Failure> {
    let mut timings = Timings::default();
    let directory = RunDirectory::only(&args.dir)?;
    let mut servers = Deployment::new(directory.path());
    if let Some(only) = args.only {
        servers = servers.only(only.into());
    }
    if args.measured {
        servers = servers.private().with_full_memory();
    }
    let ran = async {
        timings.part("servers", servers.up()).await?;
        let mut program = program(args, &servers);
        program.env("TANDEM_TEST_DIR", directory.path().join("work"));
        timings.part("program", command::run(&mut program, directory.path())).await
    };
    let ran = ran.await;
    if !matches!(ran, Ok(0)) {
        directory.keep_logs();
    }
    ran
}

fn program(args: &Args, servers: &Deployment) -> Command {
    let (name, arguments) = args.program.split_first().expect("clap requires a program");
    let mut program = Command::new(name);
    program.args(arguments);
    if args.measured {
        let settings = std::env::vars_os().map(|(name, _)| name);
        for name in settings.filter(|name| name.to_string_lossy().starts_with("TANDEM_")) {
            program.env_remove(name);
        }
    }
    program.envs(servers.environment());
    if let Some(pid) = servers.mongodb().and_then(|set| set.members.first()).map(Member::pid) {
        program.env("TANDEM_MONGODB_PID", pid.to_string());
    }
    if let Some(node) = servers.rabbitmq() {
        program.env("TANDEM_RABBITMQ_PID", node.pid().to_string());
    }
    program
}
