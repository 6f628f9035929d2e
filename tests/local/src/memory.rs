//! Where the tests' servers keep their data: in memory, where there is room.
//!
//! A test's promise never depends on a disk: it ends processes, not machines. Servers sync each
//! majority write, so on a slow disk most of a run's time is waiting for it. Nothing is promised
//! where the machine has no such file system or little memory left: then there is no directory.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use harness::process::available_memory;
use rustix::fs::statvfs;

/// Linux's file system in memory that every user may write to.
const FILE_SYSTEM: &str = "/dev/shm";
/// Three times what a run of all tests has been seen to write.
const ROOM: u64 = 8 << 30;
/// What servers, tests and compilers need beside that.
const MEMORY: u64 = ROOM + (6 << 30);

/// A directory in memory that is this user's alone; none where a run would not fit.
pub fn directory() -> Option<PathBuf> {
    let room = statvfs(FILE_SYSTEM).ok()?;
    if room.f_bavail.saturating_mul(room.f_frsize) < ROOM || available_memory()? < MEMORY {
        return None;
    }
    let user = rustix::process::getuid().as_raw();
    let path = Path::new(FILE_SYSTEM).join(format!("tandem-{user}"));
    // It may be there from the run before.
    let _ = fs::DirBuilder::new().mode(0o700).create(&path);
    // Anybody may make a directory of this name first, or a link.
    let made = fs::symlink_metadata(&path).ok()?;
    (made.is_dir() && made.uid() == user).then_some(path)
}
