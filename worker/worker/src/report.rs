//! What a worker says of itself every few seconds, so that operators see it: one document in the
//! database.
//!
//! Promises that nothing of the worker waits for it or fails with it: it runs in a task that nobody
//! watches, and a report that can't be written is dropped, because the next one says everything
//! again. The numbers are those of the metrics, so nothing is counted twice or by another rule. The
//! last report, after the drain, says that the worker has stopped. When settlement is paused or
//! goes on, or somebody drains or resumes this worker, it says so at once, and then again and again
//! until it has finished what it had begun.

use std::sync::Arc;
use std::time::Duration;

use engine::EngineKind;
use mongo::{Store, WorkerReport};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::components::pause;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::turn::Turn;

/// How often a worker reports. An overview looks as often.
pub const EVERY: Duration = Duration::from_secs(2);

/// How often one reports that stands by: before it would be taken for silent.
const EVERY_IN_STANDBY: Duration = Duration::from_secs(5);

/// How often one reports that finishes what it had begun when settlement was paused, or it was
/// drained: somebody waits to hear that it is done.
const EVERY_UNTIL_FINISHED: Duration = Duration::from_millis(250);

/// How long the end of a worker waits for its last report.
const LAST_LIMIT: Duration = Duration::from_secs(3);

/// Tells which way batches go now.
pub(crate) type Way = Box<dyn Fn() -> EngineKind + Send + Sync>;

/// Reports until it is told that the worker has ended.
pub(crate) struct Reporter {
    store: Store,
    metrics: Arc<Metrics>,
    way: Way,
    turn: Turn,
    /// What does not change.
    identity: WorkerReport,
}

/// The task that reports.
pub(crate) struct Reporting {
    task: JoinHandle<()>,
    ended: CancellationToken,
}

impl Reporter {
    pub(crate) fn new(
        store: Store,
        metrics: Arc<Metrics>,
        config: &Config,
        life: String,
        (way, turn): (Way, Turn),
    ) -> Reporter {
        let identity = WorkerReport {
            id: life,
            name: config.application(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine: config.engine.as_str().to_owned(),
            lanes: config.lanes.into(),
            batch_size: config.batch_size.into(),
            ..WorkerReport::default()
        };
        Reporter { store, metrics, way, turn, identity }
    }

    /// Starts it. `draining` is cancelled when the worker is told to stop.
    pub(crate) fn start(self, draining: CancellationToken) -> Reporting {
        let ended = CancellationToken::new();
        Reporting { task: tokio::spawn(self.run(draining, ended.clone())), ended }
    }

    async fn run(self, draining: CancellationToken, ended: CancellationToken) {
        let mut paused = self.turn.paused().clone();
        while !draining.is_cancelled() {
            let (activity, every) = match self.turn.is_standby() {
                true => ("standby", EVERY_IN_STANDBY),
                false => ("working", EVERY),
            };
            let report = self.report(activity).await;
            let is_finishing = (report.paused || report.drained) && report.holds > 0;
            let every = if is_finishing { EVERY_UNTIL_FINISHED } else { every };
            tokio::select! {
                _ = pause(&draining, every) => {}
                () = paused.changed() => {}
            }
        }
        while !ended.is_cancelled() {
            self.report("draining").await;
            pause(&ended, EVERY).await;
        }
        self.report("stopped").await;
    }

    /// Returns what it has reported.
    async fn report(&self, activity: &str) -> WorkerReport {
        // Before the numbers are read: what is begun is counted before its batch looks whether
        // something may begin, so nothing begins that this report does not hold.
        let (paused, drained) =
            (self.turn.paused().is_of_ledger(), self.turn.paused().is_drained());
        let report = WorkerReport {
            engine_now: (self.way)().as_str().to_owned(),
            activity: activity.to_owned(),
            paused,
            drained,
            ..self.metrics.report(self.identity.clone())
        };
        if let Err(error) = self.store.report(&report).await {
            tracing::debug!(%error, "can't say how it is");
        }
        report
    }
}

impl Reporting {
    /// Reports for the last time, if the database takes it soon.
    pub(crate) async fn end(self) {
        self.ended.cancel();
        drop(tokio::time::timeout(LAST_LIMIT, self.task).await);
    }
}
