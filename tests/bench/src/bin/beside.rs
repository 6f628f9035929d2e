//! Measures how long updates of other programs take beside workers.

use std::process::ExitCode;

use bench::beside::{Plan, Situation, measure};
use bench::output::Output;
use clap::Parser;

/// Adds to balances as an old program does, and measures how long each update takes: alone, beside
/// a worker of each engine with a full queue, and after a worker was killed in the middle of a native
/// transaction.
#[derive(Parser)]
#[command(
    override_usage = "deploy/beside [OPTIONS]",
    after_help = "\
Servers, workers and the old program share the machine. The old program sends one update after the
other, with a pause of 2 ms between two of them.

Examples:
  deploy/beside                                       about six minutes
  deploy/beside --json out.json
  deploy/beside --transfers 20000 --kills 1           a look, not a figure

Exit codes: 0 everything was settled, and what the old program has added was absorbed; 1 otherwise;
2 bad usage."
)]
struct Args {
    #[command(flatten)]
    plan: Plan,
    #[command(flatten)]
    output: Output,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let [p50, p99, max] = ["p50 ms", "p99 ms", "max ms"];
    println!("{:<48}{:>9}{p50:>10}{p99:>10}{max:>10}", "beside", "updates");
    match measure(args.plan, print).await {
        Ok(report) => {
            report.problems.iter().for_each(|problem| println!("{problem}"));
            let is_sound = report.problems.is_empty();
            args.output.conclude(&report, is_sound)
        }
        Err(problem) => {
            eprintln!("beside: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn print(situation: &Situation) {
    let Situation { beside, updates, p50_ms, p99_ms, max_ms } = situation;
    println!("{beside:<48}{updates:>9}{p50_ms:>10.1}{p99_ms:>10.1}{max_ms:>10.1}");
}
