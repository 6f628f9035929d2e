//! Taking deliveries in: to the batches, or to what has to be published for them.
//!
//! Owns how much of the memory deliveries take, and the tasks that wait for publications. Promises that no
//! delivery waits for a publication, and that a stop is seen while one waits for memory. When too much waits
//! and the broker takes no publications, it moves by itself to the dead letters what nobody can use.

use std::sync::Arc;
use std::time::Duration;

use common::mongo::MongoOutbox;
use common::queue::{deliveries_before, traces};
use common::trace::Tracing;
use lapin::message::Delivery;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::acknowledge::{Acknowledger, Admitted, Job};
use crate::ahead::Seen;
use crate::decide::{Origin, Publishing};
use crate::deliveries::{Deliveries, Receipt};
use crate::rabbit::Rabbit;
use crate::room::Room;

/// So many bytes of deliveries may be in processing, or wait for a publication.
const BYTES_MAX: usize = 48 << 20;

/// A message that nobody can use counts as so many bytes at least, so that no more than some thousand wait.
const FOREIGN_BYTES_LEAST: usize = BYTES_MAX / 2_000;

/// How often whoever waits for memory looks whether the broker takes publications.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Where jobs go.
#[derive(Clone)]
pub struct Jobs {
    /// Those of the work queue.
    pub work: mpsc::Sender<Job<Receipt>>,
    /// Those of the work queue that were delivered before.
    pub suspects: mpsc::Sender<Job<Receipt>>,
    /// Those of the solo queue.
    pub solo: mpsc::Sender<Job<Receipt>>,
}

impl Jobs {
    async fn send(&self, job: Job<Receipt>) {
        let jobs = match (job.origin, job.message.deliveries) {
            (Origin::Work, 0) => &self.work,
            (Origin::Work, _again) => &self.suspects,
            (Origin::Solo, _any) => &self.solo,
        };
        // The batches outlive the consumer, so this only fails when they broke down; then the
        // broker delivers the message again when the connection ends.
        if jobs.send(job).await.is_err() {
            tracing::error!("nobody takes deliveries any more");
        }
    }
}

/// Takes deliveries in.
pub struct Intake {
    acknowledger: Arc<Acknowledger<Rabbit, MongoOutbox>>,
    jobs: Jobs,
    room: Arc<Room>,
    /// Whether the traces of transactions are looked for.
    tracing: Tracing,
    bytes: Arc<Semaphore>,
    /// They wait for publications.
    debts: JoinSet<()>,
}

impl Intake {
    /// Takes in for these batches.
    pub fn new(
        acknowledger: Arc<Acknowledger<Rabbit, MongoOutbox>>,
        jobs: Jobs,
        room: Arc<Room>,
        tracing: Tracing,
    ) -> Intake {
        let (bytes, debts) = (Arc::new(Semaphore::new(BYTES_MAX)), JoinSet::new());
        Intake { acknowledger, jobs, room, tracing, bytes, debts }
    }

    /// Takes a delivery in. What finds no memory before a stop is left to the broker.
    pub async fn take(
        &mut self,
        origin: Origin,
        delivery: Delivery,
        deliveries: &Arc<Deliveries>,
        stop: &CancellationToken,
    ) -> Seen {
        let Delivery { redelivered, data, acker, delivery_tag, properties, .. } = delivery;
        let before = deliveries_before(redelivered, properties.headers().as_ref());
        let receipt = deliveries.receipt(acker, delivery_tag);
        let mut seen = Seen { ids: 0, bytes: data.len(), deliveries: before };
        match self.acknowledger.admit(origin, before, self.publishing(), data, receipt) {
            Admitted::Job(mut job) => {
                seen.ids = job.message.ids.len();
                if self.tracing.is_on() {
                    job.traces = traces(properties.headers().as_ref(), &job.message.ids);
                }
                job.receipt.bytes = self.memory(seen.bytes, false, stop).await;
                self.jobs.send(job).await;
            }
            Admitted::Debt(mut debt) => {
                let acknowledger = self.acknowledger.clone();
                let (room, jobs) = (self.room.clone(), self.jobs.clone());
                let is_foreign = debt.is_foreign();
                debt.receipt.bytes = self.memory(seen.bytes, is_foreign, stop).await;
                let has_memory = debt.receipt.bytes.is_some();
                if !has_memory && stop.is_cancelled() {
                    return seen;
                }
                while self.debts.try_join_next().is_some() {}
                self.debts.spawn(async move {
                    if is_foreign && !has_memory {
                        acknowledger.reject(debt).await;
                    } else if debt.can_be_processed() {
                        // Whether the broker takes publications shows only when something is published.
                        let is_shut = tokio::select! {
                            biased;
                            () = acknowledger.pay(&debt) => false,
                            () = room.until_shut() => true,
                        };
                        if let Some(job) =
                            is_shut.then(|| acknowledger.process_instead(debt)).flatten()
                        {
                            jobs.send(job).await;
                        }
                    } else {
                        acknowledger.pay(&debt).await;
                    }
                });
            }
        }
        seen
    }

    fn publishing(&self) -> Publishing {
        if self.room.is_open() { Publishing::Open } else { Publishing::Shut }
    }

    /// Waits for the memory that a body takes. None after a stop, and for what can be rejected when the
    /// broker takes no publications.
    async fn memory(
        &self,
        bytes: usize,
        is_foreign: bool,
        stop: &CancellationToken,
    ) -> Option<OwnedSemaphorePermit> {
        let least = if is_foreign { FOREIGN_BYTES_LEAST } else { 0 };
        let bytes = bytes.clamp(least, BYTES_MAX);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Ok(memory) = self.bytes.clone().try_acquire_many_owned(bytes) {
            return Some(memory);
        }
        let mut acquiring = std::pin::pin!(self.bytes.clone().acquire_many_owned(bytes));
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                acquired = &mut acquiring => return acquired.ok(),
                () = tokio::time::sleep(LOOK_EVERY) => {
                    if is_foreign && !self.room.is_open() {
                        return None;
                    }
                }
            }
        }
    }

    /// Waits for what is published, until the last of it is confirmed or given back.
    pub async fn end(mut self) {
        while self.debts.join_next().await.is_some() {}
    }
}
