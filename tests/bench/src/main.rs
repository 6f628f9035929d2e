//! Runs the benchmark and writes its results.

use std::process::ExitCode;

use bench::args::Args;
use bench::report::Report;
use bench::{Bench, markdown, picture};
use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let report = match measure(args.clone()).await {
        Ok(report) => report,
        Err(problem) => {
            eprintln!("bench: {problem}");
            return ExitCode::from(2);
        }
    };
    println!("{}", markdown::tables(&report));
    if let Err(problem) = write(&args, &report) {
        eprintln!("bench: {problem}");
        return ExitCode::FAILURE;
    }
    if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn measure(args: Args) -> Result<Report, String> {
    Bench::new(args)?.run().await
}

fn write(args: &Args, report: &Report) -> Result<(), String> {
    if let Some(path) = &args.json {
        report.write(path)?;
    }
    if let Some(directory) = &args.picture {
        let path = directory.join("bench");
        let written = picture::figure(report).write(&path);
        written.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
