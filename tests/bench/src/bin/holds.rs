//! Measures holds, schedules, expiry and exclusive keys.

use std::path::PathBuf;
use std::process::ExitCode;

use bench::holds::{Plan, Report, measure};
use clap::Parser;

/// Measures holds, schedules, expiry and exclusive keys on real servers: how many a second, and what they cost others.
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
    /// Holds that are made, confirmed, and made again to expire
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    holds: u32,
    /// Holds that are open on one merchant while others settle
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    open: u32,
    /// Transactions that are due at one moment
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    due: u32,
    /// Submissions with an exclusive key
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    keyed: u32,
    /// Transfers of others beside the open holds, in each of six runs
    #[arg(long, value_name = "N", default_value_t = 40_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    others: u32,
    /// The worker's engine
    #[arg(long, value_name = "ENGINE", default_value = "two-phase")]
    engine: String,
    /// Write the figures to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let plan = Plan {
        holds: args.holds,
        open: args.open,
        due: args.due,
        keyed: args.keyed,
        others: args.others,
        engine: args.engine.clone(),
    };
    let report = measure(&plan, |part| eprintln!("holds: {part}")).await;
    print(&report);
    if let Some(file) = args.json {
        let figures = serde_json::json!(&report);
        if let Err(error) = std::fs::write(&file, format!("{figures:#}\n")) {
            eprintln!("{}: {error}", file.display());
            return ExitCode::FAILURE;
        }
    }
    if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(report: &Report) {
    let rates = [
        ("holds made", report.holds_per_second),
        ("holds confirmed and settled", report.confirms_per_second),
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
