//! Measures how much the HTTP API takes in.

use std::path::PathBuf;
use std::process::ExitCode;

use bench::args::History;
use bench::load::{Part, Plan, measure};
use clap::Parser;

/// Loads the HTTP API on real servers, with a worker that settles beside it.
#[derive(Parser)]
#[command(
    override_usage = "deploy/load [OPTIONS]",
    after_help = "\
Servers, API, worker and the load generator (wrk) share the machine.

Examples:
  deploy/load
  deploy/load --seconds 60 --connections 256 --json out.json
  deploy/load --history off                         what lists and statements cost

Exit codes: 0 every request was answered with 2xx and the books balance; 1 otherwise; 2 bad usage."
)]
struct Args {
    /// How long each of the three parts lasts, in seconds
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Connections that submit one transfer in each request
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Connections that submit arrays
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    bulk_connections: u32,
    /// Transfers in an array
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    items: u32,
    /// Accounts
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(2..))]
    accounts: u32,
    /// Whether the database has the indexes of lists and statements
    #[arg(long, value_enum, value_name = "HOW", default_value_t = History::Default)]
    history: History,
    /// Write the figures to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let plan = Plan {
        seconds: args.seconds,
        connections: args.connections,
        bulk_connections: args.bulk_connections,
        items: args.items,
        accounts: args.accounts,
        history: args.history,
    };
    let wrk = std::env::var("TANDEM_WRK").unwrap_or_else(|_| "wrk".to_owned());
    let report = measure(plan, &wrk, |part| eprintln!("load: {part}")).await;
    println!("{:<36}{:>14}{:>10}{:>10}{:>9}", "", "transfers/s", "p50 ms", "p99 ms", "failed");
    let single = format!("single, {} connections", plan.connections);
    let arrays = format!("arrays of {}, {} connections", plan.items, plan.bulk_connections);
    let client = format!("submit_all of {}, {} callers", plan.items, plan.bulk_connections);
    for (name, part) in
        [(single, report.single), (arrays, report.arrays), (client, report.submit_all)]
    {
        let Part { transfers_per_second, p50_ms, p99_ms, failed } = part;
        println!("{name:<36}{transfers_per_second:>14.0}{p50_ms:>10.1}{p99_ms:>10.1}{failed:>9}");
    }
    report.problems.iter().for_each(|problem| println!("{problem}"));
    println!("problems at rest: {}", report.problems.len());
    if let Some(file) = args.json {
        let figures = serde_json::json!(&report);
        if let Err(error) = std::fs::write(&file, format!("{figures:#}\n")) {
            eprintln!("{}: {error}", file.display());
            return ExitCode::FAILURE;
        }
    }
    let failed = report.single.failed + report.arrays.failed;
    if failed == 0 && report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
