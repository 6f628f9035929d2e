//! Runs the simulator: many seeds, or one with its trace.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use model::sim::{self, Coverage, Planted};
use worker::metrics::Metrics;

/// Simulates the protocol: the real engine over a model of database and queue, one seed a schedule.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  simulate --seeds 100000             100,000 schedules
  simulate --seed 4711 --trace        replay one, turn by turn
  simulate --plant no-fence           see the simulator find a planted fault

Exit codes: 0 no violation, 1 a violation was found, 2 bad usage.")]
struct Args {
    /// How many seeds to run
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print every turn
    #[arg(long)]
    trace: bool,
    /// Plant a fault, by name; `list` names them
    #[arg(long)]
    plant: Option<String>,
    /// Threads
    #[arg(long, default_value_t = 2)]
    threads: u64,
}

/// The results of one thread.
#[derive(Default)]
struct Tally {
    schedules: u64,
    turns: u64,
    violations: Vec<(u64, Vec<String>)>,
    coverage: Coverage,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let planted = match args.plant.as_deref() {
        None => None,
        Some(name) => match Planted::parse(name) {
            Some(planted) => Some(planted),
            None => {
                eprintln!("--plant: {name:?} is none of:");
                Planted::ALL.iter().for_each(|planted| eprintln!("  {}", planted.name()));
                return ExitCode::from(2);
            }
        },
    };
    let started = Instant::now();
    let threads = args.threads.clamp(1, args.seeds.max(1));
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let run = |thread| {
            let seeds = (args.seed + thread..args.seed + args.seeds).step_by(threads as usize);
            scope.spawn(move || tally(seeds, planted, args.trace))
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        running.into_iter().map(|thread| thread.join().expect("a schedule panicked")).collect()
    });
    report(tallies, started.elapsed().as_secs_f64(), args.plant.as_deref())
}

fn tally(seeds: impl Iterator<Item = u64>, planted: Option<Planted>, trace: bool) -> Tally {
    let metrics = Arc::new(Metrics::new());
    let mut tally = Tally::default();
    for seed in seeds {
        let report = sim::run(seed, planted, trace, &metrics);
        report.trace.iter().for_each(|line| println!("{line}"));
        tally.schedules += 1;
        tally.turns += report.turns;
        for (key, count) in report.coverage {
            *tally.coverage.entry(key).or_default() += count;
        }
        if !report.violations.is_empty() {
            tally.violations.push((seed, report.violations));
        }
    }
    tally
}

fn report(tallies: Vec<Tally>, seconds: f64, plant: Option<&str>) -> ExitCode {
    let mut total = Tally::default();
    for tally in tallies {
        total.schedules += tally.schedules;
        total.turns += tally.turns;
        total.violations.extend(tally.violations);
        for (key, count) in tally.coverage {
            *total.coverage.entry(key).or_default() += count;
        }
    }
    print_coverage(&total.coverage);
    println!(
        "schedules: {}, turns: {}, seconds: {seconds:.1}, schedules a second: {:.0}",
        total.schedules,
        total.turns,
        total.schedules as f64 / seconds
    );
    total.violations.sort();
    for (seed, violations) in total.violations.iter().take(5) {
        let plant = plant.map(|name| format!(" --plant {name}")).unwrap_or_default();
        println!("seed {seed}: {}", violations.join("; "));
        println!(
            "  replay: cargo run --release -p model --bin simulate -- --seed {seed} --trace{plant}"
        );
    }
    println!("violations: {}", total.violations.len());
    if total.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print_coverage(coverage: &Coverage) {
    let faults: BTreeSet<_> = coverage.keys().map(|(fault, _)| *fault).collect();
    let operations: BTreeSet<_> = coverage.keys().map(|(_, operation)| *operation).collect();
    print!("{:<16}", "how often");
    faults.iter().for_each(|fault| print!("{fault:>14}"));
    println!();
    for operation in operations {
        print!("{operation:<16}");
        for fault in &faults {
            print!("{:>14}", coverage.get(&(*fault, operation)).copied().unwrap_or(0));
        }
        println!();
    }
}
