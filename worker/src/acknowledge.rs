//! The one place that acknowledges.
//!
//! Owns what happens to a delivery at its end. Promises that nothing is acknowledged before what
//! follows from it (a retry, a dead letter) is confirmed by the broker, and nothing is forgotten:
//! a delivery whose consequences can't be published is nacked, and will be delivered again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::ledger::{LedgerError, ServerMs};
use common::limits::echo_bytes;
use common::message::{BadId, Message};
use common::queue::{Outgoing, QueueError, SOLO};
use common::trace::Traces;
use common::transaction::{ParkCode, TransactionId};
use futures_util::future::{join, join_all};

use crate::decide::{Admission, Cause, DeadReason, Leftovers, Origin, admission, leftovers};
use crate::engine::Outcome;
use crate::metrics::Metrics;

/// What ends a delivery at the broker.
pub trait Broker: Send + Sync {
    /// A delivery's handle.
    type Receipt: Send + Sync;

    /// Publishes all of them; `Ok` means that the broker has confirmed every one.
    fn publish(&self, messages: &[Outgoing])
    -> impl Future<Output = Result<(), QueueError>> + Send;

    /// Acknowledges all of them. When that gets lost, the deliveries come again and find their work
    /// done.
    fn ack(&self, receipts: &[&Self::Receipt]) -> impl Future<Output = ()> + Send;

    /// Has the broker deliver it again.
    fn nack(&self, receipt: &Self::Receipt) -> impl Future<Output = ()> + Send;
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

/// How many deliveries that were nacked are remembered.
const NACKED_MAX: usize = 100;

/// A delivery in processing.
pub struct Job<R> {
    /// What it says.
    pub message: Message,
    /// Where it came from.
    pub origin: Origin,
    /// The traces of its transactions.
    pub traces: Traces,
    pub(crate) receipt: R,
}

/// Takes deliveries in, and ends every one of them.
pub struct Acknowledger<B, P> {
    broker: B,
    parking: P,
    metrics: Arc<Metrics>,
    /// Deliveries of the work queue and of the solo queue that have not been dealt with.
    held: [AtomicUsize; 2],
    /// When the markers were published that have come through the work queue since the last question.
    markers: Mutex<Vec<ServerMs>>,
    /// Solo deliveries that were nacked because nothing could be published: their next
    /// delivery is no sign of a death.
    nacked: Mutex<HashSet<Message>>,
}

impl<B: Broker, P: Parking> Acknowledger<B, P> {
    /// An acknowledger on a broker, and on what parks.
    pub fn new(broker: B, parking: P, metrics: Arc<Metrics>) -> Acknowledger<B, P> {
        Acknowledger {
            broker,
            parking,
            metrics,
            held: [AtomicUsize::new(0), AtomicUsize::new(0)],
            markers: Mutex::default(),
            nacked: Mutex::default(),
        }
    }

    /// Takes a delivery in: a job to process, or nothing because it was dealt with at once.
    pub async fn admit(
        &self,
        origin: Origin,
        redelivered: bool,
        body: Vec<u8>,
        receipt: B::Receipt,
    ) -> Option<Job<B::Receipt>> {
        self.metrics.in_flight.inc();
        self.held(origin).fetch_add(1, Ordering::Relaxed);
        self.metrics.redeliveries.inc_by(u64::from(redelivered));
        let redelivered = redelivered && !self.was_nacked(origin, &body);
        match admission(origin, redelivered, &body) {
            Admission::Process(message) => {
                return Some(Job { message, origin, traces: Traces::default(), receipt });
            }
            Admission::Marker(published) => {
                self.came_through(published);
                self.conclude(origin, &receipt, None, &[]).await;
            }
            Admission::SortOut(good, to, bad) => {
                let mut outgoing = vec![self.dead_ids(&bad)];
                outgoing.extend(good.map(|good| again(to, &good, &Traces::default())));
                self.conclude(origin, &receipt, None, &outgoing).await;
            }
            Admission::Isolate(messages) => {
                let outgoing: Vec<_> = messages.iter().map(Outgoing::solo).collect();
                self.conclude(origin, &receipt, None, &outgoing).await;
            }
            Admission::Dead(reason, detail) => {
                self.bury(origin, &receipt, body, reason, detail).await;
            }
        }
        None
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

    fn was_nacked(&self, origin: Origin, body: &[u8]) -> bool {
        let mut nacked = self.nacked.lock().unwrap_or_else(|broken| broken.into_inner());
        origin == Origin::Solo
            && !nacked.is_empty()
            && Message::parse(body).is_ok_and(|parsed| nacked.remove(&parsed.message))
    }

    /// Whether every delivery of this queue so far has been dealt with.
    pub fn holds_nothing(&self, origin: Origin) -> bool {
        self.held(origin).load(Ordering::Relaxed) == 0
    }

    fn held(&self, origin: Origin) -> &AtomicUsize {
        match origin {
            Origin::Work => &self.held[0],
            Origin::Solo => &self.held[1],
        }
    }

    /// Ends jobs whose ids have their outcomes.
    pub async fn finish(
        &self,
        jobs: Vec<Job<B::Receipt>>,
        outcomes: Vec<(TransactionId, Outcome)>,
    ) {
        let outcomes: HashMap<_, _> = outcomes.into_iter().collect();
        let (mut at_an_end, mut going_on) = (Vec::new(), Vec::new());
        for job in &jobs {
            let left = leftovers(&job.message, &outcomes);
            let outgoing = self.outgoing(job.origin, left, &job.traces);
            match outgoing.is_empty() {
                true => at_an_end.push((job.origin, &job.receipt)),
                false => going_on.push((job, outgoing)),
            }
        }
        // Side by side: on a connection that died, each of them waits for its time limit. Those at
        // an end don't wait for the confirms of the others.
        let following = going_on.iter().map(async |(job, outgoing)| {
            let message = Some(&job.message);
            let confirmed = self.follow(job.origin, &job.receipt, message, outgoing).await;
            confirmed.then_some((job.origin, &job.receipt))
        });
        let follow = async {
            let confirmed: Vec<_> = join_all(following).await.into_iter().flatten().collect();
            self.ack(&confirmed).await;
        };
        join(self.ack(&at_an_end), follow).await;
    }

    /// Requeues jobs that were not begun, for the other workers, at once.
    pub async fn requeue(&self, jobs: Vec<Job<B::Receipt>>) {
        for job in jobs {
            self.count(Cause::Shutdown, &job.message);
            let outgoing = again(job.origin, &job.message, &job.traces);
            self.conclude(job.origin, &job.receipt, Some(&job.message), &[outgoing]).await;
        }
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

    async fn bury(
        &self,
        origin: Origin,
        receipt: &B::Receipt,
        body: Vec<u8>,
        reason: DeadReason,
        detail: String,
    ) {
        match reason {
            DeadReason::KillsWorker => {
                // Otherwise the sweeper would bring it back to kill again.
                let ids =
                    Message::parse(&body).map(|parsed| parsed.message.ids).unwrap_or_default();
                if let Err(error) = self.parking.park_killers(&ids).await {
                    tracing::warn!(%error, "could not keep the sweeper away; trying later");
                    return self.nack(origin, receipt).await;
                }
                ids.iter().for_each(|_| self.metrics.parked(ParkCode::KillsWorker));
            }
            DeadReason::Malformed | DeadReason::UnknownTransaction => {}
        }
        let dead = self.dead(body, reason, detail);
        self.conclude(origin, receipt, None, &[dead]).await;
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

    /// Publishes what follows, waits for the confirms, and only then acknowledges.
    async fn conclude(
        &self,
        origin: Origin,
        receipt: &B::Receipt,
        message: Option<&Message>,
        outgoing: &[Outgoing],
    ) {
        if self.follow(origin, receipt, message, outgoing).await {
            self.ack(&[(origin, receipt)]).await;
        }
    }

    /// Publishes what follows and waits for the confirms; nacks without them, and says so.
    async fn follow(
        &self,
        origin: Origin,
        receipt: &B::Receipt,
        message: Option<&Message>,
        outgoing: &[Outgoing],
    ) -> bool {
        let Err(error) = self.broker.publish(outgoing).await else { return true };
        tracing::warn!(%error, "could not publish what follows from a message");
        if let (Origin::Solo, Some(message)) = (origin, message) {
            let mut nacked = self.nacked.lock().unwrap_or_else(|broken| broken.into_inner());
            // A few at most come back here; the others go to another worker, and would fill the
            // memory with what is never asked for.
            if nacked.len() >= NACKED_MAX {
                nacked.clear();
            }
            nacked.insert(message.clone());
        }
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

/// The message once more, to the queue that it came from.
fn again(origin: Origin, message: &Message, traces: &Traces) -> Outgoing {
    let again = match origin {
        Origin::Work => Outgoing::work(message),
        Origin::Solo => Outgoing::solo(message),
    };
    again.traced(&message.ids, traces)
}
