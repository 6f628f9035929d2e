//! The directory of one run, with everything that runs for it.
//!
//! The servers and programs of a run are marked with its directory. When the value goes, they are
//! killed and the directory is removed. A run that was itself killed is cleaned up after by the
//! next one. Fails when another run holds a directory that only one may have.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harness::console::{Failure, say};
use harness::deployment::directory::Lock;
use harness::deployment::{self, Keep, sweep};

/// The directory of one run; it goes with the value.
pub struct RunDirectory {
    path: PathBuf,
    _lock: Lock,
}

impl RunDirectory {
    /// A directory in `base` that no other run has. What is left there of runs of this kind that
    /// were killed is removed first.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn fresh(base: &Path, kind: &str) -> Result<RunDirectory, Failure> {
        let prefix = format!("{kind}-");
        for left in fs::read_dir(base).into_iter().flatten().flatten() {
            let name = left.file_name().to_string_lossy().into_owned();
            if !(name.starts_with(&prefix) && name.ends_with("-dir")) {
                continue;
            }
            if let Some(lock) = Lock::look(&lock_of(&left.path()))? {
                say(format!("cleaning up after a run that was killed: {}", left.path().display()));
                drop(RunDirectory { path: left.path(), _lock: lock });
            }
        }
        let unique = uuid::Uuid::new_v4().simple().to_string();
        RunDirectory::only(&base.join(format!("{prefix}{}-dir", &unique[..8])))
    }

    /// The directory of a run of which there is one at a time. What is left in it is removed first.
    ///
    /// # Errors
    /// When another run has it, or it can't be made.
    pub fn only(path: &Path) -> Result<RunDirectory, Failure> {
        let made = std::path::absolute(path).and_then(|path| {
            fs::create_dir_all(&path)?;
            Ok(path)
        });
        let path = made.map_err(|error| Failure(format!("{}: {error}", path.display())))?;
        require_ours(&path)?;
        let lock = Lock::take(&lock_of(&path))?;
        let directory = RunDirectory { path, _lock: lock };
        directory.end_all();
        Ok(directory)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Copies the logs of all servers away before the directory goes.
    pub fn keep_logs(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let kept = deployment::local().join("test-logs").join(now.as_secs().to_string());
        match copy_logs(&self.path, &kept) {
            Ok(()) => say(format!("logs of the servers: {}", kept.display())),
            Err(error) => say(format!("the servers' logs are lost: {error}")),
        }
    }

    /// Kills what runs for this directory, and removes what is in it.
    fn end_all(&self) {
        if let Err(failure) = self.try_end_all() {
            say(failure);
        }
    }

    fn try_end_all(&self) -> Result<(), Failure> {
        deployment::down(&self.path, Duration::ZERO, Keep::Nothing)?;
        for process in sweep(&self.path)? {
            say(format!("killed a process that was left: {process}"));
        }
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            if path != lock_of(&self.path) {
                // What can't be removed is in nobody's way.
                let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
            }
        }
        Ok(())
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        self.end_all();
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// What is in a directory is removed before a run, so nobody else's may be in it.
fn require_ours(path: &Path) -> Result<(), Failure> {
    let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    if is_empty || lock_of(path).exists() {
        return Ok(());
    }
    let path = path.display();
    Err(Failure(format!("{path} holds files that are not a run's: choose another --dir")))
}

fn lock_of(path: &Path) -> PathBuf {
    path.join("run.lock")
}

/// Copies every directory `logs` below `from`, of whatever server.
fn copy_logs(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)?.flatten().filter(|entry| entry.path().is_dir()) {
        let (path, name) = (entry.path(), entry.file_name());
        if name == "logs" {
            copy_all(&path, to)?;
        } else {
            copy_logs(&path, &to.join(name))?;
        }
    }
    Ok(())
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)?.flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
