//! The directory of a run: its servers, its logs, and that nothing is left running.
//!
//! There is one run at a time. What a run that was killed has left is ended before the next one.
//! When the value goes, every process of the run is killed; the servers' data stays for a look
//! unless all was well, the logs stay in any case.

use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::console::{Failure, say};
use harness::deployment::directory::{Directory, Lock};
use harness::deployment::{Keep, down, sweep};

/// The most brokers of a run.
pub const BROKERS_MAX: usize = 3;

/// The directory of one run. What is started in it ends with the value.
pub struct Home {
    path: PathBuf,
    /// Whether there is nothing to look at afterwards.
    pub well: bool,
    _lock: Lock,
}

impl Home {
    /// Takes the directory for a run, and ends what is left in it.
    ///
    /// # Errors
    /// When another run has it, or something in it can't be ended.
    pub fn take(path: &Path) -> Result<Home, Failure> {
        let Directory { path, .. } = Directory::new(path);
        let lock = Lock::take(&path.with_extension("lock"))?;
        let home = Home { path, well: false, _lock: lock };
        home.end_all(Keep::Nothing)?;
        Directory::new(&home.path).wipe(false);
        Ok(home)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the replica set is.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.path.join("mongodb")
    }

    /// Where so many brokers are.
    #[must_use]
    pub fn brokers(&self, count: usize) -> Vec<PathBuf> {
        (1..=count).map(|number| self.path.join(format!("rabbitmq-{number}"))).collect()
    }

    fn end_all(&self, keep: Keep) -> Result<(), Failure> {
        sweep(&self.path)?;
        for path in self.brokers(BROKERS_MAX).iter().chain([&self.database()]) {
            down(path, Duration::ZERO, keep)?;
        }
        // What was just being started when the first sweep looked.
        sweep(&self.path).map(|_| ())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let keep = if self.well { Keep::Logs } else { Keep::Everything };
        if let Err(failure) = self.end_all(keep) {
            say(failure);
        }
        if !self.well {
            say(format!("data and logs are kept until the next run: {}", self.path.display()));
        }
    }
}
