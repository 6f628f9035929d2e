//! Plays an incident on servers of its own.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use harness::console::{Failure, conclude};
use incident::run::{Options, run};

/// Plays an incident through on real servers: the broker is away while clients and operators go on.
#[derive(Parser)]
#[command(
    override_usage = "deploy/incident [OPTIONS]",
    after_help = "\
Examples:
  deploy/incident                              ten minutes without the broker
  deploy/incident --minutes 1 --waiting 20000  a short one
  deploy/incident --out incident.md            the report as a file, too

Two workers, and two replicas of the API as one console behind one address. Settlement is paused until so
many transactions wait; then the broker is killed. In the middle of its absence a replica and a worker are
killed, and stay away. The broker comes back with what it had. All the time clients submit, decide and
read, and two operators in real browsers look, pause, resume and cancel.

The report is in Markdown, on stdout: what each kind of request and each page was answered in each
phase, how soon, and in which words. Then what everybody was told is compared with the ledger at rest, and
the books are audited.

Exit codes: 0 every promise was kept, 1 one was broken, or the run could not be carried out, 2 bad
usage, 128 + signal when interrupted."
)]
struct Args {
    /// How long the broker is away, in minutes
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=120))]
    minutes: u64,
    /// How many transactions wait when it goes away
    #[arg(long, value_name = "N", default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(100..=9_999_999))]
    waiting: u64,
    /// How many clients there are
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    clients: u64,
    /// Write the report to this file as well
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[tokio::main]
async fn main() {
    conclude(incident(Args::parse())).await
}

async fn incident(args: Args) -> Result<i32, Failure> {
    let small = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let options = Options {
        away: Duration::from_secs(60 * args.minutes),
        waiting: small(args.waiting),
        clients: small(args.clients),
    };
    let report = run(&options).await.map_err(Failure)?;
    let text = report.markdown();
    println!("{text}");
    if let Some(path) = &args.out {
        let written = std::fs::write(path, &text);
        written.map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    }
    Ok(i32::from(!report.is_well()))
}
