//! The one place that acknowledges.
//!
//! Owns what happens to a delivery at its end. Promises that nothing is acknowledged before what
//! follows from it (a retry, a dead letter) is confirmed by the broker, and nothing is forgotten:
//! a delivery whose consequences can't be published stays unacknowledged, is nacked when the worker stops,
//! and will be delivered again. Taking a delivery in never waits for anything.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::ledger::{LedgerError, ServerMs};
use common::limits::echo_bytes;
use common::message::{BadId, Message};
use common::queue::{Outgoing, QueueError, SOLO};
use common::trace::Traces;
use common::transaction::{ParkCode, TransactionId};
use futures_util::future::{join, join_all};

use crate::decide::{
    Admission, Cause, DeadReason, Leftovers, Origin, Publishing, admission, leftovers,
};
use crate::engine::Outcome;
use crate::metrics::Metrics;

/// What ends a delivery at the broker.
pub trait Broker: Send + Sync {
    /// A delivery's handle.
    type Receipt: Send + Sync;

    /// Publishes all of them; `Ok` means that the broker has confirmed every one. Waits while the broker
    /// takes nothing, and fails when the worker stops meanwhile.
    fn publish(&self, messages: &[Outgoing])
    -> impl Future<Output = Result<(), QueueError>> + Send;

    /// Acknowledges all of them. When that gets lost, the deliveries come again and find their work
    /// done.
    fn ack(&self, receipts: &[&Self::Receipt]) -> impl Future<Output = ()> + Send;

    /// Has the broker deliver it again.
    fn nack(&self, receipt: &Self::Receipt) -> impl Future<Output = ()> + Send;

    /// Has the broker move it to the dead letters by itself, which it does also while it takes no
    /// publications.
    fn reject(&self, receipt: &Self::Receipt) -> impl Future<Output = ()> + Send;
}

/// Where transactions are parked that kill their workers.
pub trait Parking: Send + Sync {
    /// Parks these transactions, so that the sweeper leaves them alone.
    fn park_killers(
        &self,
        ids: &[TransactionId],
    ) -> impl Future<Output = Result<(), LedgerError>> + Send;
}

/// How many markers are kept until the sweeper asks for them. Workers publish fewer; only a stranger
/// publishes more.
const MARKERS_MAX: usize = 1_000;

/// A delivery in processing.
pub struct Job<R> {
    /// What it says.
    pub message: Message,
    /// Where it came from.
    pub origin: Origin,
    /// The traces of its transactions.
    pub traces: Traces,
    pub(crate) receipt: R,
    /// The dead letter of those of its ids that no transaction can have.
    letter: Option<Outgoing>,
}

impl<R> Job<R> {
    /// A job without traces, all of whose ids are ones that a transaction can have.
    #[cfg(test)]
    pub(crate) fn of(message: Message, origin: Origin, receipt: R) -> Job<R> {
        Job { message, origin, traces: Traces::default(), receipt, letter: None }
    }
}

/// A delivery that is not processed: it ends when something is published.
pub struct Debt<R> {
    origin: Origin,
    pub(crate) receipt: R,
    outgoing: Vec<Outgoing>,
    /// Transactions to be parked first.
    killers: Vec<TransactionId>,
    is_foreign: bool,
    /// What is processed in its place while the broker takes no publications.
    instead: Option<(Message, Vec<BadId>)>,
}

impl<R> Debt<R> {
    /// Whether nothing of it can be used, so that it may be rejected.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Whether it can be processed while the broker takes no publications.
    pub fn can_be_processed(&self) -> bool {
        self.instead.is_some()
    }
}

/// A delivery that was taken in.
pub enum Admitted<R> {
    /// To be processed.
    Job(Job<R>),
    /// To be [paid](Acknowledger::pay).
    Debt(Debt<R>),
}

/// Takes deliveries in, and ends every one of them.
pub struct Acknowledger<B, P> {
    broker: B,
    parking: P,
    metrics: Arc<Metrics>,
    /// Deliveries of the work queue and of the solo queue that have not been dealt with.
    held: [AtomicUsize; 2],
    /// Those of them that wait for a publication.
    unpublished: [AtomicUsize; 2],
    /// When the markers were published that have come through the work queue since the last question.
    markers: Mutex<Vec<ServerMs>>,
}

impl<B: Broker, P: Parking> Acknowledger<B, P> {
    /// An acknowledger on a broker, and on what parks.
    pub fn new(broker: B, parking: P, metrics: Arc<Metrics>) -> Acknowledger<B, P> {
        Acknowledger {
            broker,
            parking,
            metrics,
            held: Default::default(),
            unpublished: Default::default(),
            markers: Mutex::default(),
        }
    }

    /// Takes a delivery in, which was delivered so often before.
    pub fn admit(
        &self,
        origin: Origin,
        deliveries: u32,
        room: Publishing,
        body: Vec<u8>,
        receipt: B::Receipt,
    ) -> Admitted<B::Receipt> {
        self.metrics.in_flight.inc();
        self.held(origin).fetch_add(1, Ordering::Relaxed);
        self.metrics.redeliveries.inc_by(u64::from(deliveries > 0));
        let debt = |receipt, outgoing| Debt {
            origin,
            receipt,
            outgoing,
            killers: vec![],
            is_foreign: false,
            instead: None,
        };
        Admitted::Debt(match admission(origin, deliveries, room, &body) {
            Admission::Process(message, bad) => {
                let letter = (!bad.is_empty()).then(|| self.dead_ids(&bad));
                return Admitted::Job(Job {
                    traces: Traces::default(),
                    message,
                    origin,
                    receipt,
                    letter,
                });
            }
            Admission::Marker(published) => {
                self.came_through(published);
                debt(receipt, vec![])
            }
            Admission::Unusable(bad) => {
                Debt { is_foreign: true, ..debt(receipt, vec![self.dead_ids(&bad)]) }
            }
            Admission::Isolate(messages, bad) => {
                let mut outgoing: Vec<_> = messages.iter().map(Outgoing::solo).collect();
                outgoing.extend((!bad.is_empty()).then(|| self.dead_ids(&bad)));
                let instead = match admission(origin, deliveries, Publishing::Shut, &body) {
                    Admission::Process(message, bad) => Some((message, bad)),
                    Admission::Marker(_)
                    | Admission::Unusable(_)
                    | Admission::Isolate(..)
                    | Admission::Dead(..) => None,
                };
                Debt { instead, ..debt(receipt, outgoing) }
            }
            Admission::Dead(reason, detail) => {
                let killers = match reason {
                    // Otherwise the sweeper would bring it back to kill again.
                    DeadReason::KillsWorker => Message::parse(&body).map(|read| read.message.ids),
                    DeadReason::Malformed | DeadReason::UnknownTransaction => Ok(vec![]),
                };
                let (killers, is_foreign) =
                    (killers.unwrap_or_default(), reason == DeadReason::Malformed);
                let outgoing = vec![self.dead(body, reason, detail)];
                Debt { killers, is_foreign, ..debt(receipt, outgoing) }
            }
        })
    }

    /// Ends a delivery that is not processed.
    pub async fn pay(&self, debt: &Debt<B::Receipt>) {
        let Debt { origin, receipt, outgoing, killers, .. } = debt;
        if !killers.is_empty() {
            if let Err(error) = self.parking.park_killers(killers).await {
                tracing::warn!(%error, "could not keep the sweeper away; trying later");
                return self.nack(*origin, receipt).await;
            }
            killers.iter().for_each(|_| self.metrics.parked(ParkCode::KillsWorker));
        }
        if self.follow(*origin, receipt, outgoing).await {
            self.ack(&[(*origin, receipt)]).await;
        }
    }

    /// Has a delivery processed by this worker that was to be isolated. What was to be published for it may still
    /// arrive; then it finds the work done.
    pub fn process_instead(&self, debt: Debt<B::Receipt>) -> Option<Job<B::Receipt>> {
        let Debt { origin, receipt, instead, .. } = debt;
        let (message, bad) = instead?;
        let letter = (!bad.is_empty()).then(|| self.dead_ids(&bad));
        Some(Job { message, origin, traces: Traces::default(), receipt, letter })
    }

    /// Leaves a delivery of which nothing can be used to the broker, which moves it to the dead letters.
    pub async fn reject(&self, debt: Debt<B::Receipt>) {
        self.dealt_with(debt.origin);
        self.broker.reject(&debt.receipt).await;
    }

    fn came_through(&self, marker: ServerMs) {
        let mut markers = self.markers.lock().unwrap_or_else(|broken| broken.into_inner());
        if markers.len() < MARKERS_MAX {
            markers.push(marker);
        }
    }

    /// When the markers were published that have come through the work queue since the last call, on
    /// the database's clock: what was published before has been delivered.
    pub fn markers(&self) -> Vec<ServerMs> {
        std::mem::take(&mut *self.markers.lock().unwrap_or_else(|broken| broken.into_inner()))
    }

    /// Whether every delivery of this queue so far has been dealt with.
    pub fn holds_nothing(&self, origin: Origin) -> bool {
        self.held(origin).load(Ordering::Relaxed) == 0
    }

    /// How many deliveries of this queue wait for a publication. The broker counts them as delivered.
    pub fn unpublished(&self, origin: Origin) -> usize {
        self.unpublished[index(origin)].load(Ordering::Relaxed)
    }

    fn held(&self, origin: Origin) -> &AtomicUsize {
        &self.held[index(origin)]
    }

    /// Ends jobs whose ids have their outcomes.
    pub async fn finish(
        &self,
        jobs: Vec<Job<B::Receipt>>,
        outcomes: Vec<(TransactionId, Outcome)>,
    ) {
        let outcomes: HashMap<_, _> = outcomes.into_iter().collect();
        let (mut at_an_end, mut going_on) = (Vec::new(), Vec::new());
        for mut job in jobs {
            let left = leftovers(&job.message, &outcomes);
            let mut outgoing = self.outgoing(job.origin, left, &job.traces);
            outgoing.extend(job.letter.take());
            match outgoing.is_empty() {
                true => at_an_end.push(job),
                false => going_on.push((job, outgoing)),
            }
        }
        // Side by side: each of them may wait for the broker. Those at an end don't wait for the confirms of
        // the others.
        let following = going_on.iter().map(async |(job, outgoing)| {
            let confirmed = self.follow(job.origin, &job.receipt, outgoing).await;
            confirmed.then_some((job.origin, &job.receipt))
        });
        let follow = async {
            let confirmed: Vec<_> = join_all(following).await.into_iter().flatten().collect();
            self.ack(&confirmed).await;
        };
        let at_an_end: Vec<_> = at_an_end.iter().map(|job| (job.origin, &job.receipt)).collect();
        join(self.ack(&at_an_end), follow).await;
    }

    /// Requeues jobs that were not begun, for the other workers, at once.
    pub async fn requeue(&self, jobs: Vec<Job<B::Receipt>>) {
        let requeueing = jobs.into_iter().map(async |mut job| {
            self.count(Cause::Shutdown, &job.message);
            let mut outgoing = vec![again(job.origin, &job.message, &job.traces)];
            outgoing.extend(job.letter.take());
            let confirmed = self.follow(job.origin, &job.receipt, &outgoing).await;
            confirmed.then_some((job.origin, job.receipt))
        });
        let confirmed: Vec<_> = join_all(requeueing).await.into_iter().flatten().collect();
        let confirmed: Vec<_> =
            confirmed.iter().map(|(origin, receipt)| (*origin, receipt)).collect();
        self.ack(&confirmed).await;
    }

    /// Nacks jobs whose processing broke down: the broker delivers them again.
    pub async fn nack_all(&self, jobs: Vec<Job<B::Receipt>>) {
        for job in jobs {
            self.nack(job.origin, &job.receipt).await;
        }
    }

    fn outgoing(&self, origin: Origin, left: Leftovers, traces: &Traces) -> Vec<Outgoing> {
        let mut outgoing = Vec::new();
        for (message, delay, cause) in &left.retries {
            self.count(*cause, message);
            let retry = Outgoing::retry(message, origin.key(), *delay);
            outgoing.push(retry.traced(&message.ids, traces));
        }
        for (message, delay) in &left.apart {
            self.count(Cause::Apart, message);
            outgoing.push(Outgoing::retry(message, SOLO, *delay).traced(&message.ids, traces));
        }
        for message in &left.surplus {
            self.count(Cause::Surplus, message);
            outgoing.push(again(origin, message, traces));
        }
        if let Some((message, reason, detail)) = left.dead {
            let dead = self.dead(message.to_bytes(), reason, detail);
            outgoing.push(dead.traced(&message.ids, traces));
        }
        outgoing
    }

    fn dead(&self, body: Vec<u8>, reason: DeadReason, detail: String) -> Outgoing {
        let reason = reason.as_str();
        self.metrics.dead_letters.with_label_values(&[reason]).inc();
        tracing::warn!(reason, detail, body = echo_bytes(&body), "dead letter");
        Outgoing::dead(body, reason, &detail)
    }

    /// The dead letter of ids that no transaction can have.
    fn dead_ids(&self, bad: &[BadId]) -> Outgoing {
        let problems: BTreeSet<&str> = bad.iter().map(|bad| bad.problem.as_str()).collect();
        let problems = problems.into_iter().collect::<Vec<_>>().join("; ");
        let ids: Vec<&str> = bad.iter().map(|bad| bad.id.as_str()).collect();
        let body = format!("{{\"ids\":[{}]}}", ids.join(",")).into_bytes();
        self.dead(body, DeadReason::Malformed, problems)
    }

    /// Publishes what follows and waits for the confirms; nacks without them, and says so.
    async fn follow(&self, origin: Origin, receipt: &B::Receipt, outgoing: &[Outgoing]) -> bool {
        let waiting = Counted::new(&self.unpublished[index(origin)]);
        let published = self.broker.publish(outgoing).await;
        drop(waiting);
        let Err(error) = published else { return true };
        tracing::debug!(%error, "what follows from a message is not published; it is nacked");
        self.nack(origin, receipt).await;
        false
    }

    async fn ack(&self, ended: &[(Origin, &B::Receipt)]) {
        ended.iter().for_each(|(origin, _)| self.dealt_with(*origin));
        let receipts: Vec<_> = ended.iter().map(|(_, receipt)| *receipt).collect();
        self.broker.ack(&receipts).await;
    }

    fn dealt_with(&self, origin: Origin) {
        self.metrics.in_flight.dec();
        self.held(origin).fetch_sub(1, Ordering::Relaxed);
    }

    async fn nack(&self, origin: Origin, receipt: &B::Receipt) {
        self.dealt_with(origin);
        self.broker.nack(receipt).await;
    }

    fn count(&self, cause: Cause, message: &Message) {
        let requeues = self.metrics.requeues.with_label_values(&[cause.as_str()]);
        requeues.inc_by(message.ids.len() as u64);
    }
}

/// The place of a queue's count.
fn index(origin: Origin) -> usize {
    match origin {
        Origin::Work => 0,
        Origin::Solo => 1,
    }
}

/// Counts one for as long as it lives, also where its owner is dropped midway.
struct Counted<'c>(&'c AtomicUsize);

impl<'c> Counted<'c> {
    fn new(count: &'c AtomicUsize) -> Counted<'c> {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The message once more, to the queue that it came from.
fn again(origin: Origin, message: &Message, traces: &Traces) -> Outgoing {
    let again = match origin {
        Origin::Work => Outgoing::work(message),
        Origin::Solo => Outgoing::solo(message),
    };
    again.traced(&message.ids, traces)
}
