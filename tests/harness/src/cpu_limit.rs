//! A bound for the CPU of a process, by a control group of its own.
//!
//! Works for whoever may make control groups, of version 1 or 2: as a rule root. The group is removed
//! when the bound is dropped; then the process should have ended, else it goes back to where all
//! are.

use std::fs;
use std::path::{Path, PathBuf};

/// Where control groups of version 1 have the one for CPU, and where those of version 2 are.
const VERSION_1: &str = "/sys/fs/cgroup/cpu";
const VERSION_2: &str = "/sys/fs/cgroup";
/// In microseconds: in each such time a process may run for its part of it.
const PERIOD_US: u32 = 100_000;
const PROCESSES: &str = "cgroup.procs";

/// A bound; it lasts as long as this.
#[derive(Debug)]
pub struct CpuLimit {
    group: PathBuf,
}

impl CpuLimit {
    /// Has a process use no more than so many hundredths of one core.
    ///
    /// # Errors
    /// When control groups can't be made here, and why.
    pub fn of(pid: u32, percent: u32) -> Result<CpuLimit, String> {
        let is_first = Path::new(VERSION_1).join("cpu.cfs_quota_us").exists();
        let root = Path::new(if is_first { VERSION_1 } else { VERSION_2 });
        let group = root.join(format!("tandem-{pid}"));
        let quota = PERIOD_US / 100 * percent;
        let write = |path: PathBuf, text: String| {
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        if !is_first {
            write(root.join("cgroup.subtree_control"), "+cpu".to_owned())?;
        }
        fs::create_dir(&group).map_err(|error| format!("{}: {error}", group.display()))?;
        let limit = CpuLimit { group };
        let group = &limit.group;
        match is_first {
            true => {
                write(group.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
                write(group.join("cpu.cfs_quota_us"), quota.to_string())?;
            }
            false => write(group.join("cpu.max"), format!("{quota} {PERIOD_US}"))?,
        }
        write(group.join(PROCESSES), pid.to_string())?;
        Ok(limit)
    }
}

impl Drop for CpuLimit {
    fn drop(&mut self) {
        let Some(root) = self.group.parent() else { return };
        // Whoever has ended is not there any more; of a group that stays nothing depends.
        for pid in fs::read_to_string(self.group.join(PROCESSES)).unwrap_or_default().lines() {
            drop(fs::write(root.join(PROCESSES), pid));
        }
        drop(fs::remove_dir(&self.group));
    }
}
