//! Taking deliveries in: to the batches, or to what has to be published for them.
//!
//! Owns how much of the memory deliveries take, and the tasks that wait for publications. Promises
//! that no delivery waits for a publication, and that a stop is seen while one waits for memory.
//! When too much waits and the broker takes no publications, it moves by itself to the dead letters
//! what nobody can use.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lapin::message::Delivery;
use observe::Tracing;
use queue::{deliveries_before, traces};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::acknowledge::Acknowledger;
use crate::decide::{Origin, Publishing};
use crate::deliveries::{Deliveries, Receipt};
use crate::job::{Admitted, Debt, Job};
use crate::prefetch::Delivered;
use crate::publications::Publications;
use crate::rabbit::Rabbit;
use crate::suspects::MongoSuspects;

/// So many bytes of deliveries may be in processing, or wait for a publication.
pub const BYTES_MAX: usize = 48 << 20;

/// A delivery takes so many bytes at least, also with a short body.
const LEAST: usize = 1 << 10;

/// So many bytes of messages that nobody can use may wait for a publication: apart, so that they
/// never take the room of others.
pub const FOREIGN_BYTES_MAX: usize = 16 << 20;

/// Such a message counts as so many bytes at least, so that no more than some thousand wait.
const FOREIGN_LEAST: usize = FOREIGN_BYTES_MAX / 2_000;

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
    acknowledger: Arc<Acknowledger<Rabbit, MongoSuspects>>,
    jobs: Jobs,
    room: Arc<Publications>,
    /// Whether the traces of transactions are looked for.
    tracing: Tracing,
    bytes: Arc<Semaphore>,
    foreign_bytes: Arc<Semaphore>,
    /// They wait for publications.
    debts: JoinSet<()>,
}

impl Intake {
    /// Takes in for these batches.
    pub fn new(
        acknowledger: Arc<Acknowledger<Rabbit, MongoSuspects>>,
        jobs: Jobs,
        room: Arc<Publications>,
        tracing: Tracing,
    ) -> Intake {
        let (bytes, foreign_bytes) = (Semaphore::new(BYTES_MAX), Semaphore::new(FOREIGN_BYTES_MAX));
        let (bytes, foreign_bytes) = (Arc::new(bytes), Arc::new(foreign_bytes));
        Intake { acknowledger, jobs, room, tracing, bytes, foreign_bytes, debts: JoinSet::new() }
    }

    /// Takes a delivery in. What finds no memory before a stop is left to the broker.
    pub async fn take(
        &mut self,
        origin: Origin,
        delivery: Delivery,
        deliveries: &Arc<Deliveries>,
        stop: &CancellationToken,
    ) -> Delivered {
        let Delivery { redelivered, data, acker, delivery_tag, properties, .. } = delivery;
        let before = deliveries_before(redelivered, properties.headers().as_ref());
        let receipt = deliveries.receipt(acker, delivery_tag);
        let mut seen = Delivered { ids: 0, bytes: data.len(), deliveries: before };
        match self.acknowledger.admit(origin, before, self.publishing(), data, receipt) {
            Admitted::Job(mut job) => {
                seen.ids = job.message.ids.len();
                if self.tracing.is_on() {
                    job.traces = traces(properties.headers().as_ref(), &job.message.ids);
                }
                job.receipt.bytes = self.memory(seen.bytes, stop).await;
                self.jobs.send(job).await;
            }
            Admitted::Debt(mut debt) => {
                let is_foreign = debt.is_foreign();
                debt.receipt.bytes = match is_foreign {
                    true => self.foreign_memory(seen.bytes, stop).await,
                    false => self.memory(seen.bytes, stop).await,
                };
                let has_memory = debt.receipt.bytes.is_some();
                if !has_memory && stop.is_cancelled() {
                    return seen;
                }
                while self.debts.try_join_next().is_some() {}
                let acknowledger = self.acknowledger.clone();
                match is_foreign && !has_memory {
                    true => self.debts.spawn(async move { acknowledger.reject(debt).await }),
                    false => {
                        let (room, jobs) = (self.room.clone(), self.jobs.clone());
                        self.debts.spawn(pay(acknowledger, room, jobs, debt))
                    }
                };
            }
        }
        seen
    }

    fn publishing(&self) -> Publishing {
        if self.room.is_open() { Publishing::Open } else { Publishing::Shut }
    }

    /// Waits for the memory that a delivery takes. None after a stop.
    async fn memory(&self, bytes: usize, stop: &CancellationToken) -> Option<OwnedSemaphorePermit> {
        let acquiring = self.bytes.clone().acquire_many_owned(permits(bytes, LEAST, BYTES_MAX));
        stop.run_until_cancelled(acquiring).await?.ok()
    }

    /// The same for what nobody can use, of which less may wait. None also when it can be rejected,
    /// because the broker takes no publications.
    async fn foreign_memory(
        &self,
        bytes: usize,
        stop: &CancellationToken,
    ) -> Option<OwnedSemaphorePermit> {
        let permits = permits(bytes, FOREIGN_LEAST, FOREIGN_BYTES_MAX);
        let mut acquiring = pin!(self.foreign_bytes.clone().acquire_many_owned(permits));
        loop {
            tokio::select! {
                biased;
                acquired = &mut acquiring => return acquired.ok(),
                () = stop.cancelled() => return None,
                () = std::future::ready(()), if !self.room.is_open() => return None,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Waits for what is published, until the last of it is confirmed or given back.
    pub async fn end(mut self) {
        while self.debts.join_next().await.is_some() {}
    }
}

/// Has published what ends a delivery, or has the delivery processed where it is, if that is
/// possible and the broker takes no publications: that shows only when something is published.
async fn pay(
    acknowledger: Arc<Acknowledger<Rabbit, MongoSuspects>>,
    room: Arc<Publications>,
    jobs: Jobs,
    debt: Debt<Receipt>,
) {
    let until_shut = async {
        match debt.can_be_processed() {
            true => room.until_shut().await,
            false => std::future::pending().await,
        }
    };
    let confirmed = tokio::select! {
        biased;
        confirmed = acknowledger.pay(&debt) => Some(confirmed),
        () = until_shut => None,
    };
    if let Some(confirmed) = confirmed {
        acknowledger.paid(debt, confirmed).await;
    } else if let Some(job) = acknowledger.process_instead(debt) {
        jobs.send(job).await;
    }
}

/// The memory that a delivery counts for.
fn permits(bytes: usize, least: usize, most: usize) -> u32 {
    u32::try_from(bytes.clamp(least, most)).unwrap_or(u32::MAX)
}
