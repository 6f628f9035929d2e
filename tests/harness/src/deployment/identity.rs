//! Processes: recognises them later, signals and stops them.
//!
//! A process is remembered as pid, start time and boot. So a pid that the kernel has given to
//! another program is never taken for ours, and never signalled: the signal goes through a pidfd
//! that was opened before the check. A zombie counts as dead once its last thread has ended,
//! because until then its files are locked and its ports are taken. Stopping is bounded: SIGTERM, a
//! limit, SIGKILL; it fails only when even that leaves a process (stuck in the kernel).

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use procfs::process::Process;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::daemon;
use crate::console::Failure;

const KILL_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// A process, told apart from any later one with its pid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its process id.
    pub pid: u32,
    started: u64,
    boot: String,
}

impl Identity {
    /// The living process with this pid.
    #[must_use]
    pub fn of(pid: u32) -> Option<Identity> {
        Identity::read(pid).filter(|(_, lives)| *lives).map(|(identity, _)| identity)
    }

    /// The process with this pid, and whether it lives or is a zombie.
    pub(super) fn read(pid: u32) -> Option<(Identity, bool)> {
        let stat = Process::new(i32::try_from(pid).ok()?).ok()?.stat().ok()?;
        let boot = procfs::sys::kernel::random::boot_id().ok()?.trim().to_owned();
        let ended = matches!(stat.state, 'Z' | 'X') && stat.num_threads <= 1;
        Some((Identity { pid, started: stat.starttime, boot }, !ended))
    }

    /// Whether exactly this process still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Identity::of(self.pid).is_some_and(|now| now == *self)
    }

    /// A short name for messages.
    #[must_use]
    pub fn name(&self) -> String {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.pid));
        name.map_or_else(|_| "process".to_owned(), |name| name.trim().to_owned())
    }

    /// Kills exactly this process at once; `false` when it is gone.
    ///
    /// # Errors
    /// When it belongs to another user.
    pub fn kill(&self) -> Result<bool, Failure> {
        self.send(Signal::Kill)
    }

    /// Asks exactly this process to end; `false` when it is gone.
    ///
    /// # Errors
    /// When it belongs to another user.
    pub fn terminate(&self) -> Result<bool, Failure> {
        self.send(Signal::Term)
    }

    fn send(&self, signal: Signal) -> Result<bool, Failure> {
        let Some(handle) = self.handle() else { return Ok(false) };
        match pidfd_send_signal(&handle, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(Errno::PERM) => Err(Failure(format!(
                "process {} belongs to another user: run this as the user who started it",
                self.pid
            ))),
            Err(error) => Err(Failure(format!("process {}: {error}", self.pid))),
        }
    }

    /// Opened before the check, so that what is signalled is what was checked.
    fn handle(&self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        self.is_alive().then_some(handle)
    }
}

/// Waits for processes to end; returns those that have not within the limit.
#[must_use]
pub fn wait_gone(stopping: &[Identity], limit: Duration) -> Vec<Identity> {
    let begun = Instant::now();
    loop {
        daemon::reap();
        let left: Vec<_> = stopping.iter().filter(|one| one.is_alive()).cloned().collect();
        if left.is_empty() || begun.elapsed() >= limit {
            return left;
        }
        std::thread::sleep(POLL);
    }
}

/// Ends processes: SIGTERM, then SIGKILL after the limit (at once when it is zero).
///
/// Returns those that ran.
///
/// # Errors
/// When one belongs to another user, or survives SIGKILL.
pub fn stop(stopping: &[Identity], limit: Duration) -> Result<Vec<Identity>, Failure> {
    let running: Vec<_> = stopping.iter().filter(|one| one.is_alive()).cloned().collect();
    if !limit.is_zero() {
        for process in &running {
            process.terminate()?;
        }
    }
    let left = wait_gone(&running, limit);
    for process in &left {
        process.kill()?;
    }
    match wait_gone(&left, KILL_LIMIT).first() {
        None => Ok(running),
        Some(stuck) => {
            Err(Failure(format!("cannot end process {}, not even by SIGKILL", stuck.pid)))
        }
    }
}
