//! Ends what the demo has started, whatever becomes of it.
//!
//! Owns the directory's processes from the demo's beginning to its end: what a killed run has left
//! is ended before, everything else with the value. Logs stay. What can't be ended is told.

use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::console::{Failure, say};
use harness::deployment::directory::{Directory, State};
use harness::deployment::{Keep, down, sweep};

/// What marks the demo's own programs, and not its servers, which may be kept.
pub(super) fn mark(home: &Path) -> PathBuf {
    home.join("programs")
}

/// The processes of a demo's directory, which end with the value.
pub(super) struct Leftovers {
    home: PathBuf,
    /// Whether the servers are left running.
    pub(super) keep_servers: bool,
}

impl Leftovers {
    /// Ends what an earlier run has left, except servers that it was told to keep.
    ///
    /// # Errors
    /// When something can't be ended, or it is not known what runs.
    pub(super) fn of_earlier_runs(home: &Path) -> Result<Leftovers, Failure> {
        sweep(&mark(home))?;
        let directory = Directory::new(home);
        if directory.load()? == State::default() {
            // No servers run that write to the last run's logs.
            directory.wipe(false);
        }
        Ok(Leftovers { home: home.to_owned(), keep_servers: false })
    }

    fn end(&self) -> Result<(), Failure> {
        sweep(&mark(&self.home))?;
        if self.keep_servers {
            let home = self.home.display();
            say(format!(
                "servers are left running; stop them with: deploy/down --dir {home} --wipe"
            ));
            return Ok(());
        }
        down(&self.home, Duration::ZERO, Keep::Logs).map(drop)
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        if let Err(failure) = self.end() {
            say(failure);
        }
    }
}
