//! A worker inside a program: start it, watch it, stop it.
//!
//! Owns nothing but the way in. Promises that a worker whose handle is dropped is told to stop, and
//! that [`WorkerHandle::wait`] returns only when everything that was begun is finished or left to
//! the leases. Fails as [`Failure`] says; a server that is away is waited for.

use std::sync::Arc;

use engine::Environment;
use ledger::Ledger;
use mongo::MongoLedger;
use prometheus::Registry;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::components::Component;
use crate::config::Config;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::run::{Given, run};
use crate::start::{Failure, SystemEnvironment};

/// A worker that does not run yet.
///
/// ```no_run
/// # async fn example() -> Result<(), worker::Failure> {
/// let config = worker::Config::new("mongodb://127.0.0.1:27017/shop", "amqp://127.0.0.1:5672/%2f");
/// let worker = worker::Worker::new(config).start();
/// tokio::signal::ctrl_c().await.expect("signals can be heard");
/// worker.stop();
/// worker.wait().await
/// # }
/// ```
pub struct Worker {
    config: Config,
    given: Given,
}

impl Worker {
    /// A worker with this configuration.
    #[must_use]
    pub fn new(config: Config) -> Worker {
        let (health, metrics) = (Arc::default(), Arc::default());
        Worker { config, given: Given { health, metrics, started: Box::new(|_, _| {}) } }
    }

    /// Puts the worker's metrics into a registry of the program's.
    ///
    /// # Errors
    /// When one of their names is taken there, as by another worker: give that one a registry with
    /// labels of its own.
    pub fn registry(mut self, registry: &Registry) -> Result<Worker, prometheus::Error> {
        self.given.metrics = Arc::new(Metrics::in_registry(registry.clone())?);
        Ok(self)
    }

    /// Has each part told when it is started, so that it can be ended from outside: for tests.
    #[must_use]
    pub fn observed(
        mut self,
        started: impl FnMut(Component, AbortHandle) + Send + 'static,
    ) -> Worker {
        self.given.started = Box::new(started);
        self
    }

    /// Starts it, on the runtime that this is called on.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(self) -> WorkerHandle {
        // Compiled here, and not once more in each program: what is generic below is most of a
        // worker.
        self.start_with(|ledger| ledger, SystemEnvironment::default())
    }

    /// Starts it with something between the engine and MongoDB, and with a clock and a randomness
    /// of the program's own.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start_with<L: Ledger + 'static, E: Environment + 'static>(
        self,
        wrap: impl FnOnce(MongoLedger) -> L + Send + 'static,
        environment: E,
    ) -> WorkerHandle {
        let stop = CancellationToken::new();
        let (health, metrics) = (self.given.health.clone(), self.given.metrics.clone());
        let running = run(self.config, self.given, wrap, environment, stop.clone());
        WorkerHandle { running: tokio::spawn(running), health, metrics, stop: stop.drop_guard() }
    }
}

/// A worker that runs. Dropping it tells the worker to stop.
#[must_use = "dropping it tells the worker to stop"]
pub struct WorkerHandle {
    running: JoinHandle<Result<(), Failure>>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    stop: DropGuard,
}

impl WorkerHandle {
    /// Tells it to stop: it begins nothing new, finishes what it can within `drain_ms`, and
    /// requeues the rest.
    pub fn stop(&self) {
        self.token().cancel();
    }

    /// What [`WorkerHandle::stop`] cancels, to hand to others.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.stop.token().clone()
    }

    /// Whether both servers are there and all parts of it run.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.health.is_ready()
    }

    /// Its metrics, as Prometheus reads them.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.metrics.page()
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.running.is_finished()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it did not start, or ended otherwise than it was told to.
    ///
    /// # Panics
    /// When it has panicked outside of its watched parts.
    pub async fn wait(self) -> Result<(), Failure> {
        self.running.await.expect("the worker does not panic")
    }
}
