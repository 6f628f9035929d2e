//! Marks: finds whatever a run has started, directly or not.
//!
//! A mark is a path in a process's environment, which its children inherit: the directory that it
//! works for. A sweep of a path ends every process that is marked with it or with something below
//! it, also what nobody has written down. Other users' processes are not seen.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use procfs::process::{Process, all_processes};

use super::identity::{Identity, stop};
use crate::console::Failure;

/// The environment variable that carries the mark.
pub const MARK: &str = "TANDEM_DEPLOY_OWNER";

/// How long a process may show no environment, as it does for a moment during exec.
const EXEC_LIMIT: Duration = Duration::from_millis(200);
const POLL: Duration = Duration::from_millis(2);
/// How often to look again: what is killed may just have started something.
const ROUNDS: usize = 10;

/// All living processes that are marked with this path, or one below it, except this one.
#[must_use]
pub fn owned(path: &Path) -> Vec<Identity> {
    let own = std::process::id();
    let processes = all_processes().into_iter().flatten().flatten();
    let marked = processes.filter(|process| mark_of(process).is_some_and(|m| m.starts_with(path)));
    let pids = marked.filter_map(|process| u32::try_from(process.pid()).ok());
    pids.filter(|pid| *pid != own).filter_map(Identity::of).collect()
}

/// Kills whatever is marked with this path, or one below it; returns the names of what was killed.
///
/// # Errors
/// When a process can't be killed.
pub fn sweep(path: &Path) -> Result<Vec<String>, Failure> {
    let mut killed = Vec::new();
    for _ in 0..ROUNDS {
        let left = owned(path);
        if left.is_empty() {
            break;
        }
        killed.extend(left.iter().map(|process| format!("{} ({})", process.name(), process.pid)));
        stop(&left, Duration::ZERO)?;
    }
    Ok(killed)
}

fn mark_of(process: &Process) -> Option<std::path::PathBuf> {
    let begun = Instant::now();
    loop {
        let environment = process.environ().ok()?;
        // Fails for what never has an environment: kernel threads and zombies.
        process.exe().ok()?;
        if !environment.is_empty() || begun.elapsed() >= EXEC_LIMIT {
            return environment.get(OsStr::new(MARK)).map(Into::into);
        }
        std::thread::sleep(POLL);
    }
}
