//! Measures how soon workers consume again after the return of a broker that was killed.

use std::process::ExitCode;
use std::time::Duration;

use bench::output::Output;
use bench::returns::{LIMIT, Return, measure};
use clap::Parser;
use harness::figures::percentile;
use serde_json::json;

/// Kills and restarts a broker under load, and measures the recovery.
#[derive(Parser)]
#[command(
    override_usage = "deploy/broker-returns [OPTIONS]",
    after_help = "\
Examples:
  deploy/broker-returns                               50 times, about 15 minutes
  deploy/broker-returns --times 3 --json out.json

Exit codes: 0 each time all workers consumed again, and a transfer submitted since was done, within
10 s of the first login that the broker accepted, and at rest the audit found nothing; 1 otherwise;
2 bad usage."
)]
struct Args {
    /// How many times
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = 1..)]
    times: i64,
    #[command(flatten)]
    output: Output,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    println!("{:>6}{:>14}{:>14}", "return", "consuming s", "settled s");
    let times = usize::try_from(args.times).unwrap_or(usize::MAX);
    let returns = measure(times, |number, one| {
        let (consuming, settled) = (one.consuming.as_secs_f64(), one.settled.as_secs_f64());
        println!("{:>6}{consuming:>14.2}{settled:>14.2}", number + 1);
    })
    .await;
    let late = returns.each.iter().filter(|one| one.settled > LIMIT).count();
    let (consuming, settled) =
        (sorted(&returns.each, |one| one.consuming), sorted(&returns.each, |one| one.settled));
    let at = |times: &[f64], percent| percentile(times, percent).unwrap_or(0.0);
    for (what, times) in [("consuming again", &consuming), ("settled", &settled)] {
        let [p50, p99, max] = [50, 99, 100].map(|percent| at(times, percent));
        println!("{what}: p50 {p50:.2} s, p99 {p99:.2} s, max {max:.2} s");
    }
    println!("{} transfers, {late} returns later than {LIMIT:?}", returns.transfers);
    returns.problems.iter().for_each(|problem| println!("{problem}"));
    println!("problems at rest: {}", returns.problems.len());
    let figures = json!({
        "times": returns.each.len(), "limit_s": LIMIT.as_secs_f64(), "late": late,
        "transfers": returns.transfers, "problems": returns.problems,
        "consuming_p50_s": at(&consuming, 50), "consuming_p99_s": at(&consuming, 99),
        "consuming_max_s": at(&consuming, 100),
        "settled_p50_s": at(&settled, 50), "settled_p99_s": at(&settled, 99),
        "settled_max_s": at(&settled, 100), "settled_s": settled,
    });
    args.output.conclude(&figures, late == 0 && returns.problems.is_empty())
}

fn sorted(each: &[Return], time: impl Fn(&Return) -> Duration) -> Vec<f64> {
    let mut times: Vec<f64> = each.iter().map(|one| time(one).as_secs_f64()).collect();
    times.sort_by(f64::total_cmp);
    times
}
