//! The demo's workers: daemons that each listen on a port of their own.
//!
//! Promises that a worker that ends unasked is noticed: it is a [`Failure`] with the end of its
//! log. Does not end the workers with the value: whoever starts them sweeps by their mark.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::console::{Failure, say, tail};
use harness::deployment::identity::{Identity, stop, wait_gone};
use harness::deployment::{answers, daemon, ports};
use tokio::time::{Instant, sleep};

use super::programs::Programs;

const READY_LIMIT: Duration = Duration::from_secs(30);
/// More than the workers' own limit for draining, which is 20 s.
const STOP_LIMIT: Duration = Duration::from_secs(25);
const POLL: Duration = Duration::from_millis(20);

/// A running worker.
struct Worker {
    name: String,
    process: Identity,
    port: u16,
    log: PathBuf,
    killed: bool,
}

/// All workers of the demo.
pub struct Workers {
    all: Vec<Worker>,
}

impl Workers {
    /// Starts workers and waits until each listens for HTTP.
    ///
    /// # Errors
    /// When one can't be started, ends, or does not listen in time.
    pub async fn start(programs: &Programs, count: usize, logs: &Path) -> Result<Workers, Failure> {
        let mut workers = Workers { all: Vec::new() };
        // Each port is reserved until the worker listens on it.
        let reserved = ports::choose(count)?;
        for (number, port) in (1..).zip(&reserved) {
            let name = format!("demo-worker-{number}");
            let log = logs.join(format!("{name}.log"));
            // Fails when there is none of an earlier run.
            let _ = std::fs::remove_file(&log);
            let address = format!("{}:{}", Ipv4Addr::LOCALHOST, port.port);
            let mut command = programs.command("worker");
            command.args(["--name", &name, "--http", &address]);
            let process = daemon::start(&mut command, &log, &programs.mark)?;
            workers.all.push(Worker { name, process, port: port.port, log, killed: false });
        }
        for worker in &workers.all {
            workers.wait_for(worker).await?;
        }
        Ok(workers)
    }

    async fn wait_for(&self, worker: &Worker) -> Result<(), Failure> {
        let begun = Instant::now();
        while begun.elapsed() < READY_LIMIT {
            self.require_all()?;
            if answers(worker.port).await {
                return Ok(());
            }
            sleep(POLL).await;
        }
        let Worker { name, port, log, .. } = worker;
        Err(Failure(format!("{name} does not listen on port {port}:\n{}", tail(log))))
    }

    /// How many were started.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Kills a worker at once; its name.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub fn kill(&mut self, index: usize) -> Result<String, Failure> {
        let worker = &mut self.all[index];
        worker.killed = true;
        worker.process.kill()?;
        Ok(worker.name.clone())
    }

    /// Checks that all workers run that were not killed.
    ///
    /// # Errors
    /// When one has ended by itself.
    pub fn require_all(&self) -> Result<(), Failure> {
        match self.all.iter().find(|worker| !worker.killed && !worker.process.is_alive()) {
            None => Ok(()),
            Some(Worker { name, log, .. }) => {
                Err(Failure(format!("{name} has ended by itself:\n{}", tail(log))))
            }
        }
    }

    /// Asks the workers to drain and end; kills those that do not, and says so.
    ///
    /// # Errors
    /// When one survives that.
    pub async fn stop(self) -> Result<(), Failure> {
        let processes: Vec<Identity> = self.all.iter().map(|one| one.process.clone()).collect();
        for process in &processes {
            process.terminate()?;
        }
        let begun = Instant::now();
        let mut left = wait_gone(&processes, Duration::ZERO);
        while !left.is_empty() && begun.elapsed() < STOP_LIMIT {
            sleep(POLL).await;
            left = wait_gone(&processes, Duration::ZERO);
        }
        for Worker { name, .. } in self.all.iter().filter(|one| left.contains(&one.process)) {
            let limit_s = STOP_LIMIT.as_secs();
            say(format!("{name} did not end within {limit_s} s of SIGTERM: killed"));
        }
        stop(&left, Duration::ZERO).map(drop)
    }
}
