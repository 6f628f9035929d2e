//! What processes cost: CPU seconds and memory, as the kernel counts them.

use std::collections::HashMap;
use std::iter::successors;

use harness::process::{Stat, stat};
use procfs::process::all_processes;
use procfs::ticks_per_second;
use serde::{Deserialize, Serialize};

/// CPU seconds by process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// The database.
    pub mongod: f64,
    /// The broker with all its child processes.
    pub rabbitmq: f64,
    /// All workers.
    pub worker: f64,
    /// The producer.
    pub producer: f64,
    /// This program, if it is the client.
    pub client: f64,
}

impl Cpu {
    /// What was used since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Cpu) -> Cpu {
        Cpu {
            mongod: self.mongod - earlier.mongod,
            rabbitmq: self.rabbitmq - earlier.rabbitmq,
            worker: self.worker - earlier.worker,
            producer: self.producer - earlier.producer,
            client: self.client - earlier.client,
        }
    }

    /// Multiplies every part by a factor.
    #[must_use]
    pub fn times(self, factor: f64) -> Cpu {
        Cpu {
            mongod: self.mongod * factor,
            rabbitmq: self.rabbitmq * factor,
            worker: self.worker * factor,
            producer: self.producer * factor,
            client: self.client * factor,
        }
    }

    /// The sum of all parts.
    #[must_use]
    pub fn total(self) -> f64 {
        self.mongod + self.rabbitmq + self.worker + self.producer + self.client
    }

    /// The share of worker and producer.
    #[must_use]
    pub fn client_share(self) -> f64 {
        (self.worker + self.producer) / self.total()
    }
}

/// The servers' processes; 0 if a process is not known.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerPids {
    /// The database.
    pub mongod: u32,
    /// The broker's node.
    pub rabbitmq: u32,
}

impl ServerPids {
    /// What the servers and these workers have used so far; the producer's part is that of the
    /// children that this program has waited for.
    #[must_use]
    pub fn cpu(self, workers: &[u32]) -> Cpu {
        let this = stat(std::process::id());
        Cpu {
            mongod: seconds_of(self.mongod),
            rabbitmq: seconds_of_tree(self.rabbitmq),
            worker: workers.iter().map(|pid| seconds_of(*pid)).sum(),
            producer: this.as_ref().map_or(0.0, of_ended_children),
            client: this.as_ref().map_or(0.0, own),
        }
    }
}

fn seconds_of(pid: u32) -> f64 {
    stat(pid).map_or(0.0, |stat| own(&stat))
}

/// A process and all its descendants.
fn seconds_of_tree(root: u32) -> f64 {
    // Processes come and go while the table is read.
    let processes = all_processes().into_iter().flatten().flatten();
    let stats = processes.filter_map(|process| process.stat().ok());
    let stats: HashMap<u32, Stat> =
        stats.filter_map(|stat| Some((u32::try_from(stat.pid).ok()?, stat))).collect();
    let in_tree = |pid: u32| {
        let parent = |pid: &u32| u32::try_from(stats.get(pid)?.ppid).ok();
        // A chain of parents is short; the limit protects against a process table that changed
        // while it was read.
        successors(Some(pid), parent).take(64).any(|at| at == root)
    };
    // The root's own record includes what its ended children have used.
    let ended = stats.get(&root).map_or(0.0, of_ended_children);
    ended + stats.iter().filter(|(pid, _)| in_tree(**pid)).map(|(_, stat)| own(stat)).sum::<f64>()
}

fn own(stat: &Stat) -> f64 {
    (stat.utime + stat.stime) as f64 / ticks_per_second() as f64
}

fn of_ended_children(stat: &Stat) -> f64 {
    (stat.cutime + stat.cstime) as f64 / ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_counts_what_its_parts_use() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .expect("sh runs");
        let begun = std::time::Instant::now();
        while seconds_of(child.id()) < 0.05 && begun.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let (part, whole) = (seconds_of(child.id()), seconds_of_tree(std::process::id()));
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(part >= 0.05 && whole >= part, "{part} of {whole}");
    }
}
