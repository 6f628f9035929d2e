//! Measures holds, schedules, expiry and exclusive keys.

use std::process::ExitCode;

use bench::holds::{Plan, Report, measure};
use bench::output::Output;
use clap::Parser;

/// Measures holds, schedules, expiry and exclusive keys on real servers: how many a second, and
/// what they cost others.
#[derive(Parser)]
#[command(
    override_usage = "deploy/holds [OPTIONS]",
    after_help = "\
Servers, worker and clients share the machine.

Examples:
  deploy/holds
  deploy/holds --engine auto --json out.json
  deploy/holds --holds 2000 --open 5000 --due 5000 --keyed 500    a look, not a figure

Exit codes: 0 everything came to its end and the books balance; 1 otherwise; 2 bad usage."
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
    let report = measure(&args.plan, |part| eprintln!("holds: {part}")).await;
    print(&report);
    args.output.conclude(&report, report.problems.is_empty())
}

fn print(report: &Report) {
    let rates = [
        ("holds made", report.holds_per_second),
        ("confirmed one by one and settled", report.confirms_per_second),
        ("confirmed with one call and settled", report.confirms_together_per_second),
        ("holds expired and undone", report.expired_per_second),
        ("scheduled, then due and settled", report.due_per_second),
        ("submitted with an exclusive key", report.keyed_per_second),
        ("submitted without", report.plain_per_second),
    ];
    for (name, rate) in rates {
        println!("{name:<36}{rate:>10.0}/s");
    }
    let told = |rates: &[f64]| {
        let rates: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
        rates.join(", ")
    };
    println!("others, beside no holds             {:>10}/s", told(&report.others_alone));
    println!("others, beside open holds           {:>10}/s", told(&report.others_beside_holds));
    println!("their ratio (median of the turns)   {:>10.3}", report.beside_holds_ratio);
    for (name, [p50, p99]) in
        [("alone", report.alone_ms), ("while many become due", report.while_due_ms)]
    {
        println!("a single transfer, {name:<22} p50 {p50:.0} ms, p99 {p99:.0} ms");
    }
    report.problems.iter().for_each(|problem| println!("{problem}"));
    println!("problems: {}", report.problems.len());
}
