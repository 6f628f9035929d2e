//! A program in the foreground of a run.
//!
//! It has a process group of its own, so that ^C in the terminal reaches this program only, which
//! then ends it. It carries the run's mark, by which whatever it has started is found in the end.

use std::path::Path;
use std::process::Stdio;

use harness::console::Failure;
use harness::deployment::MARK;
use harness::process::exit_code;
use tokio::process::Command;

/// Runs a program to its end; its exit code. It is killed when the future is dropped.
///
/// # Errors
/// When it can't be started.
pub async fn run(command: &mut Command, mark: &Path) -> Result<i32, Failure> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let failed = |error: std::io::Error| Failure(format!("cannot start {program}: {error}"));
    command.stdin(Stdio::null()).env(MARK, mark).process_group(0).kill_on_drop(true);
    let ended = command.spawn().map_err(failed)?.wait().await.map_err(failed)?;
    Ok(exit_code(ended))
}
