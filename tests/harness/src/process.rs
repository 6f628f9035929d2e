//! A program under test as a process: started with a log file, signalled, and never left behind.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use procfs::Current;
pub use procfs::process::Stat;
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

use crate::wait::eventually;

/// How much of a log is printed when a test fails.
const LOG_LINES_SHOWN: usize = 60;

/// How many bytes programs may still use without the machine having to swap.
#[must_use]
pub fn available_memory() -> Option<u64> {
    procfs::Meminfo::current().ok()?.mem_available
}

/// A running program. It is killed when the value is dropped.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it with everything it writes going to `log`.
    ///
    /// # Panics
    /// When it can't be started.
    #[must_use]
    pub fn start(command: &mut Command, log: PathBuf) -> Process {
        let parent = log.parent().expect("a log is in a directory");
        std::fs::create_dir_all(parent).expect("the log's directory can be made");
        let out = File::create(&log).expect("the log can be written");
        let err = out.try_clone().expect("a file has two handles");
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Process { child, log }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&self, kind: Signal) {
        assert!(signal(self.pid(), kind), "process {} should be there for {kind:?}", self.pid());
    }

    /// Kills it and waits for its end: it can't send anything after that.
    ///
    /// # Panics
    /// When it can't be killed.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a killed child ends");
    }

    /// Its exit, if it has ended.
    ///
    /// # Panics
    /// When the system does not know the child.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be asked for")
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it has not ended within `limit`.
    pub async fn exit(&mut self, limit: Duration) -> ExitStatus {
        eventually("the process ends", limit, async || self.exited()).await
    }

    /// Asks it to end, as an operator does, and waits until it has finished what it began.
    ///
    /// # Panics
    /// When it has not ended within `limit`, or without success.
    pub async fn drain(&mut self, limit: Duration) {
        self.signal(Signal::Term);
        let exit = self.exit(limit).await;
        assert!(exit.success(), "{exit}: {}", self.log());
    }

    /// Everything it has written so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let shown = lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n");
            eprintln!("--- {} (its last lines)\n{shown}", self.log.display());
        }
    }
}

/// Sends a signal; returns whether there was such a process.
#[must_use]
pub fn signal(pid: u32, kind: Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, kind).is_ok())
}

/// The exit code as a shell tells it: 128 and the signal's number for a program that a signal
/// ended.
#[must_use]
pub fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// The path of a program of this workspace, built beside the tests.
///
/// # Panics
/// When it has not been built.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a program knows where it is");
    let beside = own.parent().expect("a program is in a directory");
    // A test is in `deps`, one below the programs; a program is beside them.
    let built = if beside.ends_with("deps") { beside.parent() } else { Some(beside) };
    let program = built.expect("deps is in a directory").join(name);
    assert!(
        program.exists(),
        "{} is not built: run the tests by deploy/test, which builds all programs",
        program.display()
    );
    program
}

/// What the kernel says of a process; `None` when there is none.
#[must_use]
pub fn stat(pid: u32) -> Option<Stat> {
    procfs::process::Process::new(i32::try_from(pid).ok()?).ok()?.stat().ok()
}

/// The most memory a process has had so far (its high-water mark), in bytes.
#[must_use]
pub fn memory_max(pid: u32) -> Option<u64> {
    let process = procfs::process::Process::new(i32::try_from(pid).ok()?).ok()?;
    Some(process.status().ok()?.vmhwm? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::directory;
    use crate::wait::s;

    #[tokio::test]
    async fn a_process_is_logged_signalled_and_waited_for() {
        let home = directory(&format!("process-{}", uuid::Uuid::new_v4()));
        let mut sh = Command::new("sh");
        sh.args(["-c", "echo started; exec sleep 60"]);
        let mut process = Process::start(&mut sh, home.join("logs").join("sh.log"));
        crate::wait::wait_until("it has started", s(10), async || {
            process.log().contains("started")
        })
        .await;
        assert!(memory_max(process.pid()).is_some_and(|bytes| bytes > 0));
        assert!(process.exited().is_none());
        process.signal(Signal::Term);
        assert!(!process.exit(s(10)).await.success());
        drop(process);
        std::fs::remove_dir_all(home).expect("the directory is ours");
    }
}
