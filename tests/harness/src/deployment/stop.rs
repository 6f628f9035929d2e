//! Stops what was started in a directory.
//!
//! Promises that nothing of the directory's servers runs any more, also what nobody has written
//! down. Fails when a process belongs to another user, or can't be ended even by SIGKILL.

use std::path::Path;
use std::time::Duration;

use super::directory::{Directory, Lock};
use super::identity::{Identity, stop};
use super::{Server, mark, rabbitmq, sweep};
use crate::console::Failure;

/// How long servers may take to end by themselves.
pub const STOP_LIMIT: Duration = Duration::from_secs(20);
/// The same for what a RabbitMQ node leaves behind, which ends with the node.
const HELPERS_LIMIT: Duration = Duration::from_secs(2);

/// What [`down`] leaves in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Data, logs and state.
    Everything,
    /// Logs.
    Logs,
    /// Nothing that the servers have written.
    Nothing,
}

/// Stops what was started in a directory; returns the names of what ran.
///
/// # Errors
/// When something can't be stopped.
pub fn down(path: &Path, limit: Duration, keep: Keep) -> Result<Vec<String>, Failure> {
    let directory = Directory::new(path);
    if !directory.path.is_dir() {
        return Ok(Vec::new());
    }
    let _lock = Lock::wait_blocking(&directory.lock_file())?;
    let state = directory.load()?;
    let mut stopped = Vec::new();
    if let Some(node) = state.rabbitmq {
        let helpers = mark::owned(&rabbitmq::home(&directory));
        stopped.extend(stop_named(Server::Rabbitmq, node.process.as_slice(), limit)?);
        // The node's helpers end with it by themselves; its epmd has no reason to stay.
        let others = [helpers, node.epmd.into_iter().collect()].concat();
        stopped.extend(stop_named(Server::Rabbitmq, &others, limit.min(HELPERS_LIMIT))?);
    }
    if let Some(set) = state.mongodb {
        let members = set.members.into_iter().filter_map(|member| member.process);
        stopped.extend(stop_named(Server::Mongodb, &members.collect::<Vec<_>>(), limit)?);
    }
    // What was started and never written down.
    sweep(&directory.data)?;
    if keep != Keep::Everything {
        directory.wipe(keep == Keep::Logs);
        directory.remove_if_empty();
    }
    Ok(stopped)
}

fn stop_named(
    server: Server,
    recorded: &[Identity],
    limit: Duration,
) -> Result<Vec<String>, Failure> {
    let named: Vec<_> = recorded.iter().map(|process| (process, process.name())).collect();
    let stopped = stop(recorded, limit)?;
    let ran = named.into_iter().filter(|(process, _)| stopped.contains(process));
    Ok(ran.map(|(process, name)| format!("{}: {name} ({})", server.name(), process.pid)).collect())
}
