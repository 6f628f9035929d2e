//! A program in the foreground of a run.
//!
//! It has a process group of its own, so that ^C in the terminal reaches this program only, which
//! then ends it. It carries the run's mark, by which whatever it has started is found in the end.

use std::path::Path;
use std::process::Stdio;

use std::os::unix::process::ExitStatusExt;

use harness::console::Failure;
use harness::deployment::MARK;
use tokio::process::Command;

/// Added to the number of the signal that ended a program, as shells do.
const SIGNALED: i32 = 128;

/// Runs a program to its end; its exit code. It is killed when the future is dropped.
///
/// # Errors
/// When it can't be started.
pub async fn run(command: &mut Command, mark: &Path) -> Result<i32, Failure> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let failed = |error: std::io::Error| Failure(format!("cannot start {program}: {error}"));
    command.stdin(Stdio::null()).env(MARK, mark).process_group(0).kill_on_drop(true);
    let ended = command.spawn().map_err(failed)?.wait().await.map_err(failed)?;
    let signaled = SIGNALED + ended.signal().unwrap_or(0);
    Ok(ended.code().unwrap_or(signaled))
}
