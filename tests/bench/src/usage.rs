//! What processes cost: CPU seconds and memory, as the kernel counts them.

use std::collections::HashMap;

use serde::Serialize;

/// The kernel's clock ticks per second in `/proc`; the same on all supported Linux platforms.
const TICKS_PER_S: f64 = 100.0;

/// CPU seconds by process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
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
        let own = Stat::read(std::process::id()).unwrap_or_default();
        Cpu {
            mongod: seconds_of(self.mongod),
            rabbitmq: seconds_of_tree(self.rabbitmq),
            worker: workers.iter().map(|pid| seconds_of(*pid)).sum(),
            producer: own.children_s,
            client: own.own_s,
        }
    }
}

fn seconds_of(pid: u32) -> f64 {
    if pid == 0 { 0.0 } else { Stat::read(pid).unwrap_or_default().own_s }
}

/// A process and all its descendants.
fn seconds_of_tree(root: u32) -> f64 {
    if root == 0 {
        return 0.0;
    }
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let stats: HashMap<u32, Stat> = pids.filter_map(|pid| Some((pid, Stat::read(pid)?))).collect();
    let in_tree = |pid: &u32| {
        let mut at = *pid;
        // A chain of parents is short; the limit protects against a process table that changed
        // while it was read.
        for _ in 0..64 {
            if at == root {
                return true;
            }
            match stats.get(&at) {
                Some(stat) => at = stat.parent,
                None => return false,
            }
        }
        false
    };
    // The root's own record includes what its ended children have used.
    let ended = stats.get(&root).map_or(0.0, |stat| stat.children_s);
    ended + stats.iter().filter(|(pid, _)| in_tree(pid)).map(|(_, stat)| stat.own_s).sum::<f64>()
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Stat {
    parent: u32,
    own_s: f64,
    children_s: f64,
}

impl Stat {
    fn read(pid: u32) -> Option<Stat> {
        Stat::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The fields after the name, which may itself hold spaces and brackets.
    fn parse(text: &str) -> Option<Stat> {
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok().map(|t| t / TICKS_PER_S);
        Some(Stat {
            parent: fields.get(1)?.parse().ok()?,
            own_s: ticks(11)? + ticks(12)?,
            children_s: ticks(13)? + ticks(14)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let text = "7 (a) b) S 3 7 7 0 -1 4194304 96 0 0 0 150 50 30 20 20 0 1 0 0 0 0";
        assert_eq!(Stat::parse(text), Some(Stat { parent: 3, own_s: 2.0, children_s: 0.5 }));
        assert_eq!(Stat::parse("7 (a"), None);
    }

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
