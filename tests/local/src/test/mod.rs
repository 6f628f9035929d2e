//! `deploy/test`: runs the workspace's tests against servers of their own.
//!
//! The servers live in a fresh directory, in memory where there is room and under `.local/` where not.
//! It is removed at the end, with every process that the tests have left behind, whatever the outcome.
//! Logs are kept under `.local/` when tests fail.
//! When a server ends by itself or the broker serves no more, so does the run.
//! A run that was itself killed is cleaned up after by the next one. The exit code is cargo's.

mod paced;
mod tally;

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, SystemTime};

use clap::Parser;
use harness::console::{Failure, Timings};
use harness::deployment::{self, Deployment, health};
use tokio::process::Command;

use crate::command::run;
use crate::memory;
use crate::run_directory::RunDirectory;

/// The tests mostly wait for leases and deadlines, so more of them run than there are cores.
const TEST_THREADS: &str = "8";

/// Runs all tests on real servers, which it starts and stops.
#[derive(Debug, Parser)]
#[command(
    override_usage = "deploy/test [--rabbitmq 4] [ARGUMENT...]",
    after_help = "\
Examples:
  deploy/test                       all tests of the workspace
  deploy/test killed_worker         those whose names contain this
  deploy/test --test-threads 1      what comes after `cargo test --workspace --no-fail-fast --`
  deploy/test --rabbitmq 4 broker:: on RabbitMQ 4 of Debian 13, which is fetched once, as root
  deploy/test --until 1796119200    those for which there is time, what moves money first, for CI on
                                    machines that may be slow: what fails is repeated once, alone

TANDEM_MONGOD, TANDEM_RABBITMQ_SERVER and TANDEM_MONGOSH name programs of other versions than those
that are found.

A server named by TANDEM_MONGODB_URI or TANDEM_AMQP_URL is used instead of an own one.
Tests see these variables, and
  TANDEM_TEST_DIR       a directory for servers of their own, which are stopped at the end
  TANDEM_TEST_PATIENCE  how many times as long as is promised things may take (1 if it is not set)

Servers' data is kept in memory (/dev/shm) where there is room, else under .local/."
)]
pub struct Args {
    /// End at this moment, in seconds since 1970 (`date +%s`), say which tests were not run, and
    /// repeat those that fail, each alone
    #[arg(long, value_name = "MOMENT", conflicts_with = "arguments")]
    until: Option<u64>,
    /// What comes after `cargo test --workspace --no-fail-fast --`
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Runs the tests; cargo's exit code.
///
/// # Errors
/// When servers do not start, or the build fails.
pub async fn test(args: &Args) -> Result<i32, Failure> {
    let mut timings = Timings::default();
    let base = memory::directory().unwrap_or_else(deployment::local);
    let directory = RunDirectory::fresh(&base, "test")?;
    let tested = on_servers(args, &directory, &mut timings).await;
    if !matches!(tested, Ok(0)) {
        directory.keep_logs();
    }
    tested
}

/// Builds while the servers boot, then tests.
async fn on_servers(
    args: &Args,
    directory: &RunDirectory,
    timings: &mut Timings,
) -> Result<i32, Failure> {
    let mut servers = Deployment::new(directory.path());
    let ready = async { tokio::try_join!(servers.up(), build(directory.path())) };
    timings.part("servers and build", ready).await?;
    let tests = async {
        tokio::select! {
            code = tests(args, directory.path(), &servers) => code,
            // Each test would wait for its deadline, and blame what it tests.
            ill = health::until_ill(&servers) => Err(ill),
        }
    };
    timings.part("tests", tests).await
}

async fn tests(args: &Args, directory: &Path, servers: &Deployment) -> Result<i32, Failure> {
    if let Some(until) = args.until {
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(until);
        let left = until.duration_since(SystemTime::now()).unwrap_or_default();
        return paced::tests(left, directory, servers).await;
    }
    let mut tests = cargo(directory, &["test", "--workspace", "--no-fail-fast", "--"]);
    tests.args(&args.arguments).envs(servers.environment());
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        tests.env("RUST_TEST_THREADS", TEST_THREADS);
    }
    run(&mut tests, directory).await
}

async fn build(directory: &Path) -> Result<(), Failure> {
    let mut build = cargo(directory, &["build", "--workspace", "--bins", "--examples"]);
    match run(&mut build, directory).await? {
        0 => Ok(()),
        _ => Err(Failure("cargo build failed".to_owned())),
    }
}

fn cargo(directory: &Path, arguments: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(arguments).current_dir(deployment::root());
    cargo.env("TANDEM_TEST_DIR", directory);
    cargo
}
