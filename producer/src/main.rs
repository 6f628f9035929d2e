//! The binary: parses, runs, and turns the outcome into an exit code.

use std::io::{BufWriter, Write};

use clap::Parser;
use producer::cli::{Cli, run};
use producer::error::{Error, Exit};

fn main() {
    let cli = Cli::parse();
    let exit = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let exit = runtime.block_on(run_or_interrupt(&cli));
            // Never dropped: that would wait for a thread that reads standard input, and end the
            // tasks by which the database driver says goodbye in the middle, with a panic.
            std::mem::forget(runtime);
            exit
        }
        Err(error) => {
            say(&format!("no threads: {error}"));
            Exit::Failed
        }
    };
    std::process::exit(exit.code().into());
}

async fn run_or_interrupt(cli: &Cli) -> Exit {
    if let Err(problem) = common::config::init_logging(&cli.log) {
        say(&problem);
        return Exit::BadInput;
    }
    let mut out = BufWriter::new(std::io::stdout());
    let ran = tokio::select! {
        ran = run(cli, &mut out) => ran,
        _ = tokio::signal::ctrl_c() => {
            say("interrupted; running the same command again resumes");
            return Exit::Interrupted;
        }
    };
    match ran {
        Ok(exit) => exit,
        Err(error) => {
            if !matches!(error, Error::OutputClosed) {
                say(&error.to_string());
            }
            error.exit()
        }
    }
}

/// A closed standard error must not end the process in a panic.
fn say(problem: &str) {
    drop(writeln!(std::io::stderr(), "producer: {problem}"));
}
