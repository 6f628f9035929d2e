//! The programs under chaos as processes that are killed, stopped and started again.
//!
//! Promises to report a process that ends although nobody has killed it: that is a finding.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Mutex;

use harness::deployment::MARK;
use harness::process::{Process, Signal, program};

/// How much of a log is quoted.
const LAST_LINES: usize = 5;

/// A slot in which one process runs at a time.
pub struct Place {
    /// Its name: of the process, and of its logs.
    pub name: String,
    program: PathBuf,
    env: BTreeMap<String, String>,
    logs: PathBuf,
    starts: AtomicU32,
    running: Mutex<Option<Process>>,
}

impl Place {
    /// An empty place for a program of this workspace.
    #[must_use]
    pub fn new(name: &str, of: &str, mut env: BTreeMap<String, String>, logs: &Path) -> Place {
        // By which the next run ends it, should this one be killed.
        env.insert(MARK.to_owned(), logs.display().to_string());
        Place {
            name: name.to_owned(),
            program: program(of),
            env,
            logs: logs.to_owned(),
            starts: AtomicU32::new(0),
            running: Mutex::new(None),
        }
    }

    /// Starts the program, with a log of its own that keeps the number of the start.
    pub async fn start(&self, arguments: &[&str]) {
        let start = self.starts.fetch_add(1, Ordering::Relaxed) + 1;
        let mut command = Command::new(&self.program);
        command.args(arguments).envs(&self.env);
        *self.running.lock().await = Some(Process::start(&mut command, self.log_of(start)));
    }

    /// Kills the process that runs here; `false` if none does.
    pub async fn kill(&self) -> bool {
        match self.running.lock().await.take() {
            Some(mut process) => {
                process.kill();
                true
            }
            None => false,
        }
    }

    /// Sends a signal to the process that runs here, or only to the process with this number;
    /// returns the number of the process that got it.
    pub async fn signal(&self, kind: Signal, only: Option<u32>) -> Option<u32> {
        let mut running = self.running.lock().await;
        let process = running.as_mut()?;
        let pid = process.pid();
        if process.exited().is_some() || only.is_some_and(|only| only != pid) {
            return None;
        }
        process.signal(kind);
        Some(pid)
    }

    /// How the process has ended; `None` while it runs. An ended process leaves the slot empty.
    pub async fn ended(&self) -> Option<Ended> {
        let mut running = self.running.lock().await;
        let Some(process) = running.as_mut() else {
            return Some(Ended { status: None, last_words: String::new() });
        };
        let status = process.exited()?;
        let log = process.log();
        *running = None;
        let lines: Vec<&str> = log.lines().collect();
        let last_words = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        Some(Ended { status: Some(status), last_words })
    }

    /// How a process that was started here has ended, although nobody has killed it.
    pub async fn ended_unasked(&self) -> Option<String> {
        let runs = self.running.lock().await.is_some();
        let ended = if runs { self.ended().await? } else { return None };
        let status = ended.status?;
        Some(format!("{} ended by itself ({status}):\n{}", self.name, ended.last_words))
    }

    /// Removes the log of the last start; it is not needed any more.
    pub fn forget_log(&self) {
        // Fails only if there is no log.
        let _ = std::fs::remove_file(self.log_of(self.starts.load(Ordering::Relaxed)));
    }

    fn log_of(&self, start: u32) -> PathBuf {
        self.logs.join(format!("{}.{start:05}.log", self.name))
    }
}

/// How a process ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How it exited; `None` when it was killed by us.
    pub status: Option<ExitStatus>,
    /// The end of its log.
    pub last_words: String,
}
