//! The one place that acknowledges.
//!
//! Owns what happens to a delivery at its end. Promises that nothing is acknowledged before what
//! follows from it (a retry, a dead letter) is confirmed by the broker, and nothing is forgotten: a
//! delivery whose consequences can't be published stays unacknowledged, is nacked when the worker
//! stops, and will be delivered again. Taking a delivery in never waits for anything.

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use futures_util::future::{Either, join, select};
use futures_util::stream::FuturesUnordered;
use ledger::limits::echo_bytes;
use ledger::message::{BadId, Message};
use ledger::transaction::{ParkCode, TransactionId};
use ledger::{LedgerError, ServerMs};
use observe::Traces;
use queue::{Outgoing, QueueError, SOLO};

use engine::{Counted, Observer, Outcome};

use crate::decide::{
    Admission, Cause, DeadReason, Isolation, Leftovers, Origin, Publishing, STRIKES_MAX, Suspect,
    admission, leftovers, runs_alone,
};
use crate::job::{Admitted, Debt, Job, alone};
use crate::metrics::Metrics;
use crate::suspects::Suspects;

/// What ends a delivery at the broker.
pub trait Broker: Send + Sync {
    /// A delivery's handle.
    type Receipt: Send + Sync;

    /// Publishes all of them; `Ok` means that the broker has confirmed every one. Waits while the
    /// broker takes nothing, and fails when the worker stops meanwhile.
    fn publish(&self, messages: &[Outgoing])
    -> impl Future<Output = Result<(), QueueError>> + Send;

    /// Acknowledges all of them. When that gets lost, the deliveries come again and find their work
    /// done.
    fn ack(&self, receipts: &[&Self::Receipt]) -> impl Future<Output = ()> + Send;

    /// Has the broker deliver it again.
    fn nack(&self, receipt: &Self::Receipt) -> impl Future<Output = ()> + Send;

    /// Waits until this delivery can't be ended any more, because its channel is gone. It comes
    /// again.
    fn lost(&self, receipt: &Self::Receipt) -> impl Future<Output = ()> + Send;

    /// Has the broker move it to the dead letters by itself, which it does also while it takes no
    /// publications.
    fn reject(&self, receipt: &Self::Receipt) -> impl Future<Output = ()> + Send;
}

/// How many markers are kept until the sweeper asks for them. Workers publish fewer; only a
/// stranger publishes more.
const MARKERS_MAX: usize = 1_000;

/// How many deliveries whose consequences were confirmed are acknowledged together.
const ENDED_TOGETHER_MAX: usize = 2_000;

/// Takes deliveries in, and ends every one of them.
pub struct Acknowledger<B, S> {
    broker: B,
    suspects: S,
    metrics: Arc<Metrics>,
    /// Deliveries of the work queue and of the solo queue that have not been dealt with.
    held: [AtomicUsize; 2],
    /// Those of them that wait for a publication.
    unpublished: [AtomicUsize; 2],
    /// When the markers were published that have come through the work queue since the last
    /// question.
    markers: Mutex<Vec<ServerMs>>,
}

impl<B: Broker, S: Suspects> Acknowledger<B, S> {
    /// An acknowledger on a broker, and on what is known of suspects.
    pub fn new(broker: B, suspects: S, metrics: Arc<Metrics>) -> Acknowledger<B, S> {
        Acknowledger {
            broker,
            suspects,
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
            deliveries,
            receipt,
            outgoing,
            suspect: None,
            is_foreign: false,
            instead: None,
        };
        Admitted::Debt(match admission(origin, deliveries, room, &body) {
            Admission::Process(message, bad) => {
                let letter = self.letter(&bad);
                return Admitted::Job(job((origin, deliveries), message, letter, receipt));
            }
            Admission::Marker(published) => {
                self.came_through(published);
                debt(receipt, vec![])
            }
            Admission::Unusable(bad) => {
                Debt { is_foreign: true, ..debt(receipt, vec![self.dead_ids(&bad)]) }
            }
            Admission::Isolate(Isolation { messages, instead }, bad) => {
                let mut outgoing: Vec<_> = messages.iter().map(Outgoing::solo).collect();
                let letter = self.letter(&bad);
                outgoing.extend(letter.clone());
                let instead = instead.map(|message| (message, letter));
                Debt { instead, ..debt(receipt, outgoing) }
            }
            Admission::Suspect(suspect, bad) => {
                let letter = self.letter(&bad);
                Debt { suspect: Some(suspect), ..debt(receipt, letter.into_iter().collect()) }
            }
            Admission::Malformed(detail) => {
                let outgoing = vec![self.dead(body, DeadReason::Malformed, detail)];
                Debt { is_foreign: true, ..debt(receipt, outgoing) }
            }
        })
    }

    /// Publishes what ends a delivery that is not processed. Returns whether the broker has
    /// confirmed it. May be dropped midway.
    pub async fn pay(&self, debt: &Debt<B::Receipt>) -> bool {
        let Debt { origin, receipt, outgoing, suspect, .. } = debt;
        let Some(suspect) = suspect else {
            return self.publish(*origin, receipt, outgoing).await;
        };
        match self.judge(suspect).await {
            Ok(judged) => {
                let outgoing: Vec<_> = outgoing.iter().cloned().chain([judged]).collect();
                self.publish(*origin, receipt, &outgoing).await
            }
            Err(error) => {
                tracing::warn!(%error, "can't tell whether a transaction kills its workers; trying later");
                false
            }
        }
    }

    /// Parks the transaction and returns its dead letter, or returns its message for another turn
    /// alone.
    async fn judge(&self, suspect: &Suspect) -> Result<Outgoing, LedgerError> {
        let Suspect { id, message } = suspect;
        // Before the letter: otherwise the sweeper would bring it back to kill again.
        if !self.suspects.park_killer(id).await? {
            tracing::debug!(%id, "its workers died while it waited for its turn");
            return Ok(Outgoing::solo(message));
        }
        self.metrics.parked(ParkCode::KillsWorker);
        let problem = format!("its worker died with it {STRIKES_MAX} times");
        Ok(self.dead(message.to_bytes(), DeadReason::KillsWorker, problem))
    }

    /// Notes which transaction a batch is going to process while nothing else is. A note that is
    /// lost costs a worker more, if the transaction kills it.
    pub async fn begin_alone(&self, jobs: &[Job<B::Receipt>]) -> Option<TransactionId> {
        let id = alone(jobs)?;
        if let Err(error) = self.suspects.begin_alone(id).await {
            tracing::debug!(%error, %id, "can't note what is processed alone");
        }
        Some(id.clone())
    }

    /// Takes the note of [`begin_alone`](Self::begin_alone) back.
    pub async fn survived(&self, alone: Option<TransactionId>) {
        let Some(id) = alone else { return };
        if let Err(error) = self.suspects.survived(&id).await {
            tracing::debug!(%error, %id, "can't take back what was noted");
        }
    }

    /// Ends a delivery that was paid; gives back one that could not be.
    pub async fn paid(&self, debt: Debt<B::Receipt>, confirmed: bool) {
        self.end(vec![(debt.origin, debt.receipt, confirmed)]).await;
    }

    /// Has a delivery processed by this worker that was to be isolated. What was to be published
    /// for it may still arrive; then it finds the work done.
    pub fn process_instead(&self, debt: Debt<B::Receipt>) -> Option<Job<B::Receipt>> {
        let Debt { origin, deliveries, receipt, instead, .. } = debt;
        let (message, letter) = instead?;
        Some(job((origin, deliveries), message, letter, receipt))
    }

    /// Leaves a delivery of which nothing can be used to the broker, which moves it to the dead
    /// letters.
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

    /// When the markers were published that have come through the work queue since the last call,
    /// on the database's clock: what was published before has been delivered.
    pub fn markers(&self) -> Vec<ServerMs> {
        std::mem::take(&mut *self.markers.lock().unwrap_or_else(|broken| broken.into_inner()))
    }

    /// Whether every delivery of this queue so far has been dealt with.
    pub fn holds_nothing(&self, origin: Origin) -> bool {
        self.held(origin).load(Ordering::Relaxed) == 0
    }

    /// How many deliveries of this queue wait for a publication. The broker counts them as
    /// delivered.
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
        // Those at an end, and the memory that they take, don't wait for the confirms of the
        // others.
        let at_an_end = async move {
            let ended = at_an_end.into_iter().map(|job: Job<_>| (job.origin, job.receipt, true));
            self.end(ended.collect()).await;
        };
        join(at_an_end, self.follow(going_on)).await;
    }

    /// Requeues jobs that were not begun, at once: for the other workers, or until settlement goes
    /// on.
    pub async fn requeue(&self, cause: Cause, jobs: Vec<Job<B::Receipt>>) {
        let requeueing = jobs.into_iter().map(|mut job| {
            self.count(cause, &job.message);
            let mut outgoing = vec![again(job.origin, &job.message, &job.traces)];
            outgoing.extend(job.letter.take());
            (job, outgoing)
        });
        self.follow(requeueing.collect()).await;
    }

    /// Publishes what follows from jobs, side by side, because each of them may wait for the
    /// broker. Those that are confirmed together end together.
    async fn follow(&self, jobs: Vec<(Job<B::Receipt>, Vec<Outgoing>)>) {
        let following = jobs.into_iter().map(|(job, outgoing)| async move {
            let confirmed = self.publish(job.origin, &job.receipt, &outgoing).await;
            (job.origin, job.receipt, confirmed)
        });
        let following: FuturesUnordered<_> = following.collect();
        let mut together = following.ready_chunks(ENDED_TOGETHER_MAX);
        while let Some(ended) = together.next().await {
            self.end(ended).await;
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

    fn dead(&self, body: Vec<u8>, reason: DeadReason, detail: String) -> Outgoing {
        let reason = reason.as_str();
        self.metrics.dead_letters.with_label_values(&[reason]).inc();
        tracing::warn!(reason, detail, body = echo_bytes(&body), "dead letter");
        Outgoing::dead(body, reason, &detail)
    }

    /// The dead letter of those ids of a message that no transaction can have, if it has any.
    fn letter(&self, bad: &[BadId]) -> Option<Outgoing> {
        (!bad.is_empty()).then(|| self.dead_ids(bad))
    }

    /// The dead letter of ids that no transaction can have.
    fn dead_ids(&self, bad: &[BadId]) -> Outgoing {
        let problems: BTreeSet<&str> = bad.iter().map(|bad| bad.problem.as_str()).collect();
        let problems = problems.into_iter().collect::<Vec<_>>().join("; ");
        let ids: Vec<&str> = bad.iter().map(|bad| bad.id.as_str()).collect();
        let body = format!("{{\"ids\":[{}]}}", ids.join(",")).into_bytes();
        self.dead(body, DeadReason::Malformed, problems)
    }

    /// Publishes what follows from a delivery. Returns whether the broker has confirmed it. Gives
    /// up when the delivery is lost, because then it comes again.
    async fn publish(&self, origin: Origin, receipt: &B::Receipt, outgoing: &[Outgoing]) -> bool {
        let _waiting = Counted::up(&self.unpublished[index(origin)]);
        let published = async { self.broker.publish(outgoing).await };
        let (published, lost) = (pin!(published), pin!(self.broker.lost(receipt)));
        match select(published, lost).await {
            Either::Left((Ok(()), _)) => true,
            Either::Left((Err(error), _)) => {
                tracing::debug!(%error, "what follows from a message is not published");
                false
            }
            Either::Right(((), _)) => false,
        }
    }

    /// Acknowledges deliveries whose consequences are confirmed, and gives the others back.
    async fn end(&self, ended: Vec<(Origin, B::Receipt, bool)>) {
        let (confirmed, others): (Vec<_>, Vec<_>) = ended.iter().partition(|(.., done)| *done);
        let confirmed: Vec<_> =
            confirmed.into_iter().map(|(origin, receipt, _)| (*origin, receipt)).collect();
        self.ack(&confirmed).await;
        for (origin, receipt, _) in others {
            self.nack(*origin, receipt).await;
        }
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

fn job<R>(
    (origin, deliveries): (Origin, u32),
    message: Message,
    letter: Option<Outgoing>,
    receipt: R,
) -> Job<R> {
    let runs_alone = runs_alone(origin, deliveries, &message);
    Job { message, origin, traces: Traces::default(), receipt, runs_alone, letter }
}

/// The place of a queue's count.
fn index(origin: Origin) -> usize {
    match origin {
        Origin::Work => 0,
        Origin::Solo => 1,
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
