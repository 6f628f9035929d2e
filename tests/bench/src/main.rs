//! Runs the benchmark and writes its results.

use std::process::ExitCode;

use bench::args::Args;
use bench::report::Report;
use bench::{Bench, markdown, picture};
use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let bench = match Bench::new(args.clone()) {
        Ok(bench) => bench,
        Err(problem) => {
            eprintln!("bench: {problem}");
            return ExitCode::from(2);
        }
    };
    let report = bench.run().await;
    println!("{}", markdown::tables(&report));
    if let Err(problem) = write(&args, &report) {
        eprintln!("bench: {problem}");
        return ExitCode::FAILURE;
    }
    if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write(args: &Args, report: &Report) -> Result<(), String> {
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(report).map_err(|error| error.to_string())?;
        std::fs::write(path, text + "\n")
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(directory) = &args.picture {
        let path = directory.join("bench");
        let written = picture::figure(report).write(&path);
        written.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
