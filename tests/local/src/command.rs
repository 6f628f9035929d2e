//! A program in the foreground of a run.
//!
//! It has a process group of its own, so that ^C in the terminal reaches this program only, which
//! then ends it. It carries the run's mark, by which whatever it has started is found in the end.

use std::path::Path;
use std::process::Stdio;

use std::time::Duration;

use harness::console::Failure;
use harness::deployment::MARK;
use harness::process::exit_code;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// How long the output of a program is read after its end, where others hold it open.
const OUTPUT_AFTER: Duration = Duration::from_secs(1);

/// Runs a program to its end; its exit code. It is killed when the future is dropped.
///
/// # Errors
/// When it can't be started.
pub async fn run(command: &mut Command, mark: &Path) -> Result<i32, Failure> {
    let ended = spawn(command, mark)?.wait().await;
    Ok(exit_code(ended.map_err(|error| cannot_start(command, &error))?))
}

/// Runs a program to its end, and prints and hands on each line of its output; its exit code. Its
/// process group is ended when the future is dropped.
///
/// # Errors
/// When it can't be started.
pub async fn read(
    command: &mut Command,
    mark: &Path,
    mut each: impl FnMut(&str),
) -> Result<i32, Failure> {
    let mut program = Group(spawn(command.stdout(Stdio::piped()), mark)?);
    let output = program.0.stdout.take().expect("it is piped");
    let mut lines = BufReader::new(output).split(b'\n');
    let mut copy = async || {
        while let Ok(Some(line)) = lines.next_segment().await {
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            each(&line);
        }
    };
    let ended = tokio::select! {
        ended = program.0.wait() => ended,
        () = copy() => program.0.wait().await,
    };
    // What was written before the end may still be on its way.
    let _ = tokio::time::timeout(OUTPUT_AFTER, copy()).await;
    Ok(exit_code(ended.map_err(|error| cannot_start(command, &error))?))
}

fn spawn(command: &mut Command, mark: &Path) -> Result<Child, Failure> {
    command.stdin(Stdio::null()).env(MARK, mark).process_group(0).kill_on_drop(true);
    command.spawn().map_err(|error| cannot_start(command, &error))
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Failure {
    let program = command.as_std().get_program().to_string_lossy();
    Failure(format!("cannot start {program}: {error}"))
}

/// A program with what it has started in its process group.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // Without an id it has ended, and with it what it had waited for.
        let id = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(id) = id {
            let _ = kill_process_group(id, Signal::Term);
        }
    }
}
