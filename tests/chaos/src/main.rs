//! Runs chaos on servers that `deploy/chaos` has started.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use chaos::run::{Options, run};
use chaos::timeline::timeline;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

/// Submits transactions for minutes while workers, producers, servers and links fail by a schedule;
/// then checks that everything is as everybody was told.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  deploy/chaos --minutes 2            starts servers, and runs this on them
  chaos --servers servers.json --minutes 30 --seed 7 --json chaos.json

Exit codes: 0 no violation, 1 a violation was found, or the run could not be carried out,
2 bad usage, 130 interrupted.")]
struct Args {
    /// The description of the servers, as deploy/chaos writes it
    #[arg(long)]
    servers: PathBuf,
    /// How long to submit: a tenth (15 s to 120 s) in calm, then for a while only workers die
    #[arg(long, default_value_t = 2.0)]
    minutes: f64,
    /// What decides faults and transactions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rows a second that are submitted
    #[arg(long, default_value_t = 400)]
    rate: u32,
    /// Where logs and files go
    #[arg(long)]
    home: PathBuf,
    /// Have a careless neighbour insert odd documents, spoil accounts of its own and publish odd
    /// messages all the time
    #[arg(long)]
    neighbour: bool,
    /// Where to write the report as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where to draw the timeline, without ending; default: chaos in the home
    #[arg(long)]
    figure: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if !(0.5..=600.0).contains(&args.minutes) {
        eprintln!("--minutes is {}; it must be between 0.5 and 600", args.minutes);
        return ExitCode::from(2);
    }
    let mut told_to_end = signal(SignalKind::terminate()).expect("signals can be listened to");
    tokio::select! {
        code = chaos(args) => code,
        _ = tokio::signal::ctrl_c() => ExitCode::from(130),
        _ = told_to_end.recv() => ExitCode::from(130),
    }
}

async fn chaos(args: Args) -> ExitCode {
    let options = Options {
        servers: args.servers,
        length: Duration::from_secs_f64(60.0 * args.minutes),
        seed: args.seed,
        rate: args.rate,
        home: args.home,
        neighbour: args.neighbour,
    };
    let report = match run(&options).await {
        Ok(report) => report,
        Err(problem) => {
            eprintln!("chaos: {problem}");
            return ExitCode::FAILURE;
        }
    };
    println!("{report}");
    let figure = args.figure.unwrap_or_else(|| options.home.join("chaos"));
    let drawn = timeline(&report).write(&figure);
    let written =
        args.json.map_or(Ok(()), |path| std::fs::write(&path, format!("{:#}\n", report.json())));
    if let Err(problem) = drawn.and(written) {
        eprintln!("chaos: {problem}");
        return ExitCode::FAILURE;
    }
    println!("timeline: {0}.svg, {0}.png", figure.display());
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
