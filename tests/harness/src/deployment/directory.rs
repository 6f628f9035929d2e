//! What one deployment keeps on disk.
//!
//! A directory holds `data/`, `logs/`, `run/` (pid files and generated configuration) and
//! `state.json`, which names ports and processes and is replaced atomically. Whoever changes any
//! of it holds the lock; a second program waits for it. A state file that cannot be read is a
//! failure, never taken for an empty one, because servers could be running.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::mongodb::ReplicaSet;
use super::rabbitmq::Node;
use crate::console::{Failure, say};

/// Between two looks at a lock that somebody else holds.
const LOCK_POLL: Duration = Duration::from_millis(50);

/// What is known about the servers of a directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The replica set, once it was planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mongodb: Option<ReplicaSet>,
    /// The RabbitMQ node, once it was planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rabbitmq: Option<Node>,
}

/// One deployment's directory.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Where it is.
    pub path: PathBuf,
    /// The servers' data.
    pub data: PathBuf,
    /// Their logs.
    pub logs: PathBuf,
    /// Pid files and generated configuration.
    pub run: PathBuf,
}

impl Directory {
    /// The directory at this path, which need not exist.
    #[must_use]
    pub fn new(path: &Path) -> Directory {
        // Fails only for an empty path, or without a working directory.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let [data, logs, run] = ["data", "logs", "run"].map(|name| path.join(name));
        Directory { path, data, logs, run }
    }

    /// Makes the directories.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn create(&self) -> Result<(), Failure> {
        for path in [&self.data, &self.logs, &self.run] {
            std::fs::create_dir_all(path).map_err(|error| {
                let path = self.path.display();
                Failure(format!("cannot write to {path}: {error}; choose another --dir"))
            })?;
        }
        Ok(())
    }

    /// The state; empty when nothing was ever started here.
    ///
    /// # Errors
    /// When there is one that can't be read.
    pub fn load(&self) -> Result<State, Failure> {
        let file = self.state_file();
        let failed = |error: &dyn std::fmt::Display| {
            Failure(format!("cannot read {}: {error}", file.display()))
        };
        match std::fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| failed(&error)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(State::default()),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Replaces the state.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn save(&self, state: &State) -> Result<(), Failure> {
        let (file, new) = (self.state_file(), self.path.join("state.new"));
        let text = serde_json::to_string_pretty(state).expect("a state has a text") + "\n";
        let saved = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &file));
        saved.map_err(|error| Failure(format!("cannot write {}: {error}", file.display())))
    }

    /// Removes everything that servers have written here, and nothing else.
    pub fn wipe(&self, keep_logs: bool) {
        let logs = (!keep_logs).then_some(&self.logs);
        for path in [&self.data, &self.run].into_iter().chain(logs) {
            // Fails when there is none; what can't be removed is in nobody's way.
            let _ = std::fs::remove_dir_all(path);
        }
        let _ = std::fs::remove_file(self.state_file());
    }

    /// Removes the directory when only the lock is left in it.
    pub fn remove_if_empty(&self) {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        if entries.into_iter().all(|entry| entry.file_name() == "lock") {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }

    /// The file that is locked while something changes.
    #[must_use]
    pub fn lock_file(&self) -> PathBuf {
        self.path.join("lock")
    }

    fn state_file(&self) -> PathBuf {
        self.path.join("state.json")
    }
}

/// An exclusive lock on a file, held until the value goes.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits until it has the lock.
    ///
    /// # Errors
    /// When the file can't be made.
    pub async fn wait(path: &Path) -> Result<Lock, Failure> {
        let mut said = false;
        loop {
            if let Some(lock) = Lock::look(path)? {
                return Ok(lock);
            }
            say_once(path, &mut said);
            tokio::time::sleep(LOCK_POLL).await;
        }
    }

    /// Waits until it has the lock, and keeps its thread meanwhile.
    ///
    /// # Errors
    /// When the file can't be made.
    pub fn wait_blocking(path: &Path) -> Result<Lock, Failure> {
        let mut said = false;
        loop {
            if let Some(lock) = Lock::look(path)? {
                return Ok(lock);
            }
            say_once(path, &mut said);
            std::thread::sleep(LOCK_POLL);
        }
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// When somebody else holds it, or the file can't be made.
    pub fn take(path: &Path) -> Result<Lock, Failure> {
        Lock::look(path)?.ok_or_else(|| {
            Failure(format!("another run holds {}: wait for it, or stop it", path.display()))
        })
    }

    /// Takes the lock; `None` when somebody else holds it.
    ///
    /// # Errors
    /// When the file can't be made.
    pub fn look(path: &Path) -> Result<Option<Lock>, Failure> {
        let failed =
            |error: std::io::Error| Failure(format!("cannot lock {}: {error}", path.display()));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // The holder before may have removed the file: then this lock protects nothing.
        let (locked, there) = (file.metadata().map_err(failed)?, std::fs::metadata(path));
        let same =
            there.is_ok_and(|there| (there.dev(), there.ino()) == (locked.dev(), locked.ino()));
        Ok(same.then_some(Lock { _file: file }))
    }
}

fn say_once(path: &Path, said: &mut bool) {
    if !*said {
        say(format!("waiting for another run that holds {}", path.display()));
    }
    *said = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> Directory {
        Directory::new(&crate::servers::directory(&format!("state-{}", uuid::Uuid::new_v4())))
    }

    #[test]
    fn a_broken_state_file_is_not_taken_for_an_empty_one() {
        let directory = scratch();
        assert_eq!(directory.load().expect("nothing is there"), State::default());
        directory.create().expect("it can be made");
        let state = State { rabbitmq: Some(Node::at([1, 2, 3])), ..State::default() };
        directory.save(&state).expect("it can be written");
        assert_eq!(directory.load().expect("it can be read"), state);
        std::fs::write(directory.state_file(), "{").expect("it can be written");
        let failure = directory.load().expect_err("it is broken").to_string();
        assert!(failure.contains("cannot read"), "{failure}");
        std::fs::remove_dir_all(directory.path).expect("it is ours");
    }

    #[test]
    fn a_lock_keeps_others_out_until_it_goes() {
        let directory = scratch();
        let lock = Lock::take(&directory.lock_file()).expect("nobody holds it");
        let failure = Lock::take(&directory.lock_file()).expect_err("it is held").to_string();
        assert!(failure.contains("another run holds"), "{failure}");
        drop(lock);
        // A process that another test of this program starts has a copy of the file until its exec.
        let again = (0..500).find_map(|_| {
            let taken = Lock::take(&directory.lock_file()).ok();
            if taken.is_none() {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            taken
        });
        drop(again.expect("nobody holds it"));
        directory.remove_if_empty();
        assert!(!directory.path.exists());
    }

    #[test]
    fn a_wiped_directory_keeps_what_servers_have_not_written() {
        let directory = scratch();
        directory.create().expect("it can be made");
        directory.save(&State::default()).expect("it can be written");
        std::fs::write(directory.path.join("mine"), "").expect("it can be written");
        directory.wipe(true);
        assert!(directory.logs.exists() && !directory.data.exists());
        directory.wipe(false);
        directory.remove_if_empty();
        let left = std::fs::read_dir(&directory.path).expect("it is there").count();
        assert_eq!(left, 1);
        std::fs::remove_dir_all(directory.path).expect("it is ours");
    }
}
