//! `deploy/down`: stops what `deploy/up` has started in a directory.
//!
//! Only processes that are still those recorded are signalled. Exit code 0 means that none of them
//! runs any more; data is kept unless `--wipe`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use harness::console::Failure;
use harness::deployment::{self, Deployment, Keep, STOP_LIMIT};

/// Stops the servers that deploy/up has started.
#[derive(Debug, Parser)]
#[command(
    override_usage = "deploy/down [OPTIONS]",
    after_help = "\
Examples:
  deploy/down                          stop, keep the data
  deploy/down --wipe                   stop, remove data and logs (fetched programs stay)
  deploy/down --dir /tmp/rs --wipe     the servers of another directory"
)]
pub struct Args {
    /// As given to deploy/up [default: .local]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Remove data, logs and state as well
    #[arg(long)]
    wipe: bool,
    /// Seconds between SIGTERM and SIGKILL; 0: SIGKILL at once
    #[arg(long, value_name = "SECONDS", default_value_t = STOP_LIMIT.as_secs())]
    limit_s: u64,
}

/// Stops the servers, and prints what was stopped.
///
/// # Errors
/// When something can't be stopped.
///
/// # Panics
/// When the runtime ends meanwhile.
pub async fn down(args: &Args) -> Result<i32, Failure> {
    let directory = args.dir.clone().unwrap_or_else(deployment::local);
    let keep = if args.wipe { Keep::Nothing } else { Keep::Everything };
    let limit = Duration::from_secs(args.limit_s);
    let stopped = Deployment::new(&directory).down(limit, keep).await?;
    for line in &stopped {
        println!("stopped {line}");
    }
    if stopped.is_empty() {
        println!("nothing was running");
    }
    Ok(0)
}
