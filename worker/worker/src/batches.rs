//! Batches of one queue in flight; each has one of a limited number of lanes.
//!
//! Owns how deliveries become batches. Promises that a batch closes when it is full, or when the
//! linger time is over; that no delivery waits for others while no batch is in flight; that the
//! number of batches in flight is limited; and that a panic in one of them leaves the others as
//! they are.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, Environment};
use ledger::Ledger;
use ledger::transaction::TransactionId;
use observe::FutureExt;
use prometheus::IntGauge;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::acknowledge::{Acknowledger, Broker};
use crate::decide::together_max;
use crate::isolation_lock::IsolationLock;
use crate::job::Job;
use crate::lanes::Lanes;
use crate::metrics::Metrics;
use crate::suspects::Suspects;
use crate::trace::TracedBatch;

/// A batch that has ended keeps its turn until its messages are acknowledged, but no longer: while
/// the broker takes nothing, those that need a publication wait.
const TURN_AFTER_END_MAX: Duration = Duration::from_secs(1);

/// How many jobs are requeued together when the worker stops.
const REQUEUED_TOGETHER: usize = 2_000;

/// How batches are collected.
#[derive(Clone, Copy, Debug)]
pub struct BatchSettings {
    /// The most ids of a batch; one message with more is a batch of its own.
    pub ids_max: usize,
    /// How long to wait for more while other batches are under way.
    pub linger: Duration,
    /// The most batches in flight.
    pub lanes: usize,
}

/// Deliveries on their way into batches.
pub struct Collector<R> {
    jobs: mpsc::Receiver<Job<R>>,
    /// The batch that is being collected, and its ids. Kept here, so that giving up the wait for
    /// it loses nothing.
    forming: Vec<Job<R>>,
    size: usize,
    /// A job that did not fit into the last batch.
    carried: Option<Job<R>>,
}

impl<R> Collector<R> {
    /// Reads from a channel; its end ends the batches.
    #[must_use]
    pub fn new(jobs: mpsc::Receiver<Job<R>>) -> Collector<R> {
        Collector { jobs, forming: Vec::new(), size: 0, carried: None }
    }

    /// The next batch, or `None` when there will be no more. Begins at once with what is there when
    /// `idle` says so as the first of it comes.
    pub async fn next(
        &mut self,
        settings: BatchSettings,
        idle: impl Fn() -> bool,
    ) -> Option<Vec<Job<R>>> {
        let first = match self.carried.take() {
            Some(carried) => carried,
            None => self.jobs.recv().await?,
        };
        self.add(first);
        // No timer at all when idle: even the shortest time limit would take a millisecond.
        let deadline = (!idle()).then(|| Instant::now() + settings.linger);
        while self.size < self.ids_max(settings) {
            let next = match deadline {
                None => self.jobs.try_recv().ok(),
                Some(deadline) => {
                    tokio::time::timeout_at(deadline, self.jobs.recv()).await.ok().flatten()
                }
            };
            let Some(job) = next else { break };
            let with_it = self.ids_max(settings).min(together_max(job.message.deliveries));
            if self.size + job.message.ids.len() > with_it {
                self.carried = Some(job);
                break;
            }
            self.add(job);
        }
        self.size = 0;
        Some(std::mem::take(&mut self.forming))
    }

    /// The most ids of this batch: what was delivered before is in small ones.
    fn ids_max(&self, settings: BatchSettings) -> usize {
        let together = self.forming.iter().map(|job| together_max(job.message.deliveries)).min();
        settings.ids_max.min(together.unwrap_or(usize::MAX))
    }

    fn add(&mut self, job: Job<R>) {
        self.size += job.message.ids.len();
        self.forming.push(job);
    }

    /// Requeues what was not begun, until nothing comes any more.
    pub async fn requeue<B: Broker<Receipt = R>, S: Suspects>(
        mut self,
        acknowledger: &Acknowledger<B, S>,
    ) {
        self.forming.extend(self.carried);
        acknowledger.requeue(self.forming).await;
        let mut jobs = Vec::new();
        while self.jobs.recv_many(&mut jobs, REQUEUED_TOGETHER).await > 0 {
            acknowledger.requeue(std::mem::take(&mut jobs)).await;
        }
    }
}

/// Ids of a batch that has not ended, however it ends.
struct IdsInBatches {
    gauge: IntGauge,
    ids: i64,
}

impl IdsInBatches {
    fn new(metrics: &Metrics, ids: usize) -> IdsInBatches {
        let (gauge, ids) = (metrics.ids_in_batches.clone(), i64::try_from(ids).unwrap_or(i64::MAX));
        gauge.add(ids);
        IdsInBatches { gauge, ids }
    }
}

impl Drop for IdsInBatches {
    fn drop(&mut self) {
        self.gauge.sub(self.ids);
    }
}

/// Runs batches until the collector ends or `stop` says so, then waits for those in flight. Returns
/// what was not begun.
pub async fn run<L, E, B, S>(
    mut collector: Collector<B::Receipt>,
    (settings, lanes): (BatchSettings, Lanes),
    engine: Arc<Engine<L, E>>,
    acknowledger: Arc<Acknowledger<B, S>>,
    turns: IsolationLock,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> Collector<B::Receipt>
where
    L: Ledger + 'static,
    E: Environment + 'static,
    B: Broker + 'static,
    S: Suspects + 'static,
{
    let mut batches = JoinSet::new();
    loop {
        let Some(lane) = lanes.take().await else { break };
        let idle = || lanes.is_only(&lane);
        let fitting =
            BatchSettings { ids_max: settings.ids_max.min(engine.fits().max(1)), ..settings };
        let batch = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            batch = collector.next(fitting, idle) => batch,
        };
        let Some(jobs) = batch else { break };
        let (engine, acknowledger, turns) = (engine.clone(), acknowledger.clone(), turns.clone());
        let metrics = metrics.clone();
        let ids: Vec<TransactionId> =
            jobs.iter().flat_map(|job| job.message.ids.iter().cloned()).collect();
        metrics.batch_size.observe(ids.len() as f64);
        while batches.try_join_next().is_some() {}
        let held = IdsInBatches::new(&metrics, ids.len());
        batches.spawn(async move {
            let turn = turns.take(&jobs).await;
            let alone = acknowledger.begin_alone(&jobs).await;
            let traced = TracedBatch::begin(&metrics.tracing(), &jobs);
            let running = async move {
                let decided = engine.begin(&ids).await;
                // The next batch may post, and take the settlements of this one along.
                drop(lane);
                decided.end().await
            };
            let running = running.with_context(TracedBatch::context(traced.as_ref()));
            match tokio::spawn(running).await {
                Ok(outcomes) => {
                    acknowledger.survived(alone).await;
                    traced.into_iter().for_each(|traced| traced.end(&outcomes));
                    let mut finishing = pin!(acknowledger.finish(jobs, outcomes));
                    let finished = tokio::time::timeout(TURN_AFTER_END_MAX, &mut finishing).await;
                    drop((turn, held));
                    if finished.is_err() {
                        finishing.await;
                    }
                }
                Err(panic) => {
                    tracing::error!(%panic, "a batch broke down; its messages are nacked");
                    acknowledger.nack_all(jobs).await;
                }
            }
        });
    }
    while batches.join_next().await.is_some() {}
    collector
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use ledger::message::Message;

    use super::*;
    use crate::decide::{Origin, SUSPECTS_TOGETHER};

    const SETTINGS: BatchSettings =
        BatchSettings { ids_max: 3, linger: Duration::from_secs(3_600), lanes: 2 };

    fn job(ids: &[&str]) -> Job<()> {
        delivered_before(0, ids)
    }

    fn delivered_before(deliveries: u32, ids: &[&str]) -> Job<()> {
        let ids = ids.iter().map(|id| TransactionId::from(*id)).collect();
        Job::of(Message { deliveries, ..Message::new(ids) }, Origin::Work, ())
    }

    fn sizes(batch: Option<Vec<Job<()>>>) -> Vec<usize> {
        batch.into_iter().flatten().map(|job| job.message.ids.len()).collect()
    }

    #[tokio::test]
    async fn a_lone_transfer_starts_at_once() {
        let (send, jobs) = mpsc::channel(8);
        let mut collector = Collector::new(jobs);
        send.send(job(&["one"])).await.expect("room");
        let batch = collector.next(SETTINGS, || true).now_or_never().expect("no wait for company");
        assert_eq!(sizes(batch), [1]);
    }

    #[tokio::test]
    async fn a_batch_waits_for_company_while_others_are_under_way() {
        let (send, jobs) = mpsc::channel(8);
        let mut collector = Collector::new(jobs);
        send.send(job(&["one"])).await.expect("room");
        assert!(collector.next(SETTINGS, || false).now_or_never().is_none(), "went alone");
        send.send(job(&["two", "three"])).await.expect("room");
        // Full: what was collected before the wait was given up is in it.
        assert_eq!(sizes(collector.next(SETTINGS, || false).now_or_never().flatten()), [1, 2]);
    }

    #[tokio::test]
    async fn a_message_that_does_not_fit_opens_the_next_batch() {
        let (send, jobs) = mpsc::channel(8);
        let mut collector = Collector::new(jobs);
        for ids in [&["one", "two"][..], &["three", "four"]] {
            send.send(job(ids)).await.expect("room");
        }
        drop(send);
        assert_eq!(sizes(collector.next(SETTINGS, || false).now_or_never().flatten()), [2]);
        assert_eq!(sizes(collector.next(SETTINGS, || false).now_or_never().flatten()), [2]);
        assert!(collector.next(SETTINGS, || false).await.is_none());
    }

    #[tokio::test]
    async fn what_was_delivered_before_is_in_batches_that_get_smaller_with_each_time() {
        const WIDE: BatchSettings = BatchSettings { ids_max: 1_000, ..SETTINGS };
        let (send, jobs) = mpsc::channel(1_000);
        let mut collector = Collector::new(jobs);
        for (deliveries, count) in [(1, 600), (2, 20), (1, 5), (3, 2), (0, 1)] {
            for _ in 0..count {
                send.send(delivered_before(deliveries, &["one"])).await.expect("room");
            }
        }
        send.send(delivered_before(2, &["many"; 50])).await.expect("room");
        drop(send);
        let mut counts = Vec::new();
        while let Some(batch) = collector.next(WIDE, || false).await {
            counts.push(sizes(Some(batch)).into_iter().sum::<usize>());
        }
        let [first, second] = SUSPECTS_TOGETHER;
        assert_eq!(counts, [first, 600 - first, second, 9, 1, 1, 1, 50]);
    }
}
