//! Batches of one queue in flight; each has one of a limited number of lanes.
//!
//! Owns how deliveries become batches. Promises that a batch closes when it is full, or when the
//! linger time is over; that no delivery waits for others while no batch is in flight; that the
//! number of batches in flight is limited; and that a panic in one of them leaves the others as
//! they are. While settlement is paused, or this worker drained, no batch begins: what was delivered
//! and is in no batch is requeued, and those in flight come to their end.

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
use crate::decide::{Cause, together_max};
use crate::isolation_lock::IsolationLock;
use crate::job::Job;
use crate::lanes::{Lane, Lanes};
use crate::metrics::Metrics;
use crate::paused::Paused;
use crate::suspects::Suspects;
use crate::trace::TracedBatch;

/// A batch that has ended keeps its turn until its messages are acknowledged, but no longer: while
/// the broker takes nothing, those that need a publication wait.
const TURN_AFTER_END_MAX: Duration = Duration::from_secs(1);

/// How many jobs are requeued together when the worker stops, or settlement is paused.
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
        // Otherwise somebody has given up the wait for what is being formed.
        if self.forming.is_empty() {
            let first = match self.carried.take() {
                Some(carried) => carried,
                None => self.jobs.recv().await?,
            };
            self.add(first);
        }
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
        while let Some(jobs) = self.rest().await {
            acknowledger.requeue(Cause::Shutdown, jobs).await;
        }
    }

    /// Some of what is in no batch yet, as soon as there is something; `None` when there will be no
    /// more. Giving up the wait for it loses nothing.
    async fn rest(&mut self) -> Option<Vec<Job<R>>> {
        self.size = 0;
        let mut rest = std::mem::take(&mut self.forming);
        rest.extend(self.carried.take());
        if rest.is_empty() && self.jobs.recv_many(&mut rest, REQUEUED_TOGETHER).await == 0 {
            return None;
        }
        Some(rest)
    }
}

/// Ids of a batch that has not ended, however it ends.
pub(crate) struct IdsInBatches {
    gauge: IntGauge,
    ids: i64,
}

impl IdsInBatches {
    pub(crate) fn new(metrics: &Metrics, ids: usize) -> IdsInBatches {
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

/// What batches are run with.
pub struct Running<L, E, B, S> {
    /// Settles.
    pub engine: Arc<Engine<L, E>>,
    /// Ends deliveries.
    pub acknowledger: Arc<Acknowledger<B, S>>,
    /// Who runs beside whom.
    pub turns: IsolationLock,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Whether a batch may begin.
    pub paused: Paused,
}

impl<L, E, B, S> Running<L, E, B, S>
where
    L: Ledger + 'static,
    E: Environment + 'static,
    B: Broker + 'static,
    S: Suspects + 'static,
{
    /// Runs batches until the collector ends or `stop` says so, then waits for those in flight.
    /// Returns what was not begun.
    pub async fn run(
        self,
        mut collector: Collector<B::Receipt>,
        (settings, lanes): (BatchSettings, Lanes),
        stop: CancellationToken,
    ) -> Collector<B::Receipt> {
        let (mut batches, mut paused) = (JoinSet::new(), self.paused.clone());
        loop {
            while batches.try_join_next().is_some() {}
            if paused.is_on() {
                let given_back = self.give_back(&mut paused, &mut collector, &mut batches);
                match stop.run_until_cancelled(given_back).await {
                    Some(Next::Goes) => continue,
                    Some(Next::Ended) | None => break,
                }
            }
            let next = async {
                let lane = lanes.take().await?;
                let ids_max = settings.ids_max.min(self.engine.fits().max(1));
                let fitting = BatchSettings { ids_max, ..settings };
                let jobs = collector.next(fitting, || lanes.is_only(&lane)).await?;
                Some((lane, jobs))
            };
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = paused.on() => continue,
                next = next => next,
            };
            let Some((lane, jobs)) = next else { break };
            let ids = jobs.iter().map(|job| job.message.ids.len()).sum();
            // Counted first: a worker that says that it is paused, and has nothing in a batch,
            // begins none.
            let held = IdsInBatches::new(&self.metrics, ids);
            match paused.is_on() {
                true => self.requeue(jobs, &mut batches),
                false => self.begin((lane, held), jobs, &mut batches),
            }
        }
        while batches.join_next().await.is_some() {}
        collector
    }

    /// Requeues what comes while settlement is paused. Nobody waits for that here: while the broker
    /// takes no publications, settlement may go on.
    async fn give_back(
        &self,
        paused: &mut Paused,
        collector: &mut Collector<B::Receipt>,
        requeueing: &mut JoinSet<()>,
    ) -> Next {
        loop {
            let jobs = tokio::select! {
                biased;
                () = paused.over() => return Next::Goes,
                jobs = collector.rest() => jobs,
            };
            let Some(jobs) = jobs else { return Next::Ended };
            self.requeue(jobs, requeueing);
        }
    }

    fn requeue(&self, jobs: Vec<Job<B::Receipt>>, requeueing: &mut JoinSet<()>) {
        let acknowledger = self.acknowledger.clone();
        requeueing.spawn(async move { acknowledger.requeue(Cause::Paused, jobs).await });
    }

    fn begin(
        &self,
        (lane, held): (Lane, IdsInBatches),
        jobs: Vec<Job<B::Receipt>>,
        batches: &mut JoinSet<()>,
    ) {
        let (engine, acknowledger) = (self.engine.clone(), self.acknowledger.clone());
        let (turns, metrics) = (self.turns.clone(), self.metrics.clone());
        let ids: Vec<TransactionId> =
            jobs.iter().flat_map(|job| job.message.ids.iter().cloned()).collect();
        metrics.batch_size.observe(ids.len() as f64);
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
}

/// What follows when settlement was paused.
enum Next {
    /// It goes on.
    Goes,
    /// Nothing will come any more.
    Ended,
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
    async fn what_is_in_no_batch_is_given_back_whole_and_giving_up_the_wait_for_it_loses_nothing() {
        let (send, jobs) = mpsc::channel(8);
        let mut collector = Collector::new(jobs);
        for ids in [&["one", "two"][..], &["three", "four"], &["five"]] {
            send.send(job(ids)).await.expect("room");
        }
        assert_eq!(sizes(collector.next(SETTINGS, || false).await), [2], "the next one is carried");
        assert_eq!(sizes(collector.rest().await), [2]);
        assert_eq!(sizes(collector.rest().await), [1]);
        assert!(collector.rest().now_or_never().is_none(), "nothing is there");
        send.send(job(&["six"])).await.expect("room");
        assert!(collector.next(SETTINGS, || false).now_or_never().is_none(), "it is being formed");
        assert_eq!(sizes(collector.rest().await), [1]);
        send.send(job(&["seven"])).await.expect("room");
        drop(send);
        assert_eq!(sizes(collector.next(SETTINGS, || false).await), [1], "a batch begins anew");
        assert!(collector.rest().await.is_none());
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
