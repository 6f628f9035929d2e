//! Measures how much the HTTP API takes in.

use std::process::ExitCode;

use bench::load::{Part, Plan, measure};
use bench::output::Output;
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
    #[command(flatten)]
    plan: Plan,
    #[command(flatten)]
    output: Output,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Args { plan, output } = Args::parse();
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
    let failed = report.single.failed + report.arrays.failed;
    output.conclude(&report, failed == 0 && report.problems.is_empty())
}
