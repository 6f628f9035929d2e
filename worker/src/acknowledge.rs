//! The one place that acknowledges.
//!
//! Owns what happens to a delivery at its end. Promises that nothing is acknowledged before what
//! follows from it (a retry, a dead letter) is confirmed by the broker, and nothing is forgotten:
//! what can't be published is given back and will be delivered again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use common::message::Message;
use common::mongo::MongoOutbox;
use common::queue::{Outgoing, Publisher};
use common::retry::{Policy, jitter};
use common::transaction::TransactionId;
use lapin::Acker;
use lapin::options::{BasicAckOptions, BasicNackOptions};

use crate::decide::{Cause, DeadReason, Intake, Leftovers, Source, leftovers};
use crate::engine::Outcome;
use crate::metrics::Metrics;

/// How often a publication is tried before the delivery is given back to the broker.
const PUBLISH_TRIES: u32 = 4;

/// A delivery in processing.
pub struct Job {
    /// What it says.
    pub message: Message,
    /// Where it came from.
    pub source: Source,
    delivery: Delivered,
}

struct Delivered {
    acker: Acker,
    body: Vec<u8>,
}

/// See the module.
#[derive(Clone)]
pub struct Acknowledger {
    publisher: Arc<Publisher>,
    outbox: MongoOutbox,
    metrics: Arc<Metrics>,
}

impl Acknowledger {
    /// An acknowledger that publishes what follows.
    #[must_use]
    pub fn new(
        publisher: Arc<Publisher>,
        outbox: MongoOutbox,
        metrics: Arc<Metrics>,
    ) -> Acknowledger {
        Acknowledger { publisher, outbox, metrics }
    }

    /// Takes a delivery in: a job to process, or nothing because it was dealt with at once.
    pub async fn admit(&self, source: Source, delivery: lapin::message::Delivery) -> Option<Job> {
        self.metrics.in_flight.inc();
        let intake = crate::decide::intake(source, delivery.redelivered, &delivery.data);
        let delivered = Delivered { acker: delivery.acker, body: delivery.data };
        match intake {
            Intake::Process(message) => Some(Job { message, source, delivery: delivered }),
            Intake::Isolate(messages) => {
                let outgoing: Vec<_> = messages.iter().map(Outgoing::solo).collect();
                self.conclude(&delivered, &outgoing).await;
                None
            }
            Intake::Dead(reason, detail) => {
                self.bury(&delivered, reason, detail).await;
                None
            }
        }
    }

    /// Ends jobs whose ids have their outcomes.
    pub async fn finish(&self, jobs: Vec<Job>, outcomes: Vec<(TransactionId, Outcome)>) {
        let outcomes: HashMap<_, _> = outcomes.into_iter().collect();
        for job in jobs {
            let left = leftovers(&job.message, &outcomes);
            let outgoing = self.outgoing(job.source, left);
            self.conclude(&job.delivery, &outgoing).await;
        }
    }

    /// Hands jobs that were not begun to the other workers, at once.
    pub async fn hand_back(&self, jobs: Vec<Job>) {
        for job in jobs {
            self.count(Cause::HandedBack, &job.message);
            let outgoing = match job.source {
                Source::Work => Outgoing::work(&job.message),
                Source::Solo => Outgoing::solo(&job.message),
            };
            self.conclude(&job.delivery, &[outgoing]).await;
        }
    }

    /// Gives jobs back whose processing broke down: the broker delivers them again.
    pub async fn give_back(&self, jobs: Vec<Job>) {
        for job in jobs {
            self.nack(&job.delivery).await;
        }
    }

    fn outgoing(&self, source: Source, left: Leftovers) -> Vec<Outgoing> {
        let mut outgoing = Vec::new();
        for (message, delay, cause) in &left.retries {
            self.count(*cause, message);
            outgoing.push(Outgoing::retry(message, source.key(), *delay));
        }
        if let Some((message, reason, detail)) = left.dead {
            self.metrics.dead_letters.with_label_values(&[reason.as_str()]).inc();
            tracing::warn!(reason = reason.as_str(), detail, ids = ?message.ids, "dead letter");
            outgoing.push(Outgoing::dead(message.to_bytes(), reason.as_str(), detail));
        }
        outgoing
    }

    async fn bury(&self, delivered: &Delivered, reason: DeadReason, detail: String) {
        match reason {
            DeadReason::KillsWorker => {
                // Otherwise the sweeper would bring it back to kill again.
                let ids = Message::parse(&delivered.body).map(|m| m.ids).unwrap_or_default();
                if let Err(error) = self.outbox.park(&ids).await {
                    tracing::warn!(%error, "could not keep the sweeper away; trying later");
                    return self.nack(delivered).await;
                }
            }
            DeadReason::Malformed | DeadReason::UnknownTransaction => {}
        }
        self.metrics.dead_letters.with_label_values(&[reason.as_str()]).inc();
        tracing::warn!(reason = reason.as_str(), detail, "dead letter");
        let dead = Outgoing::dead(delivered.body.clone(), reason.as_str(), detail);
        self.conclude(delivered, &[dead]).await;
    }

    /// Publishes what follows, waits for the confirms, and only then acknowledges.
    async fn conclude(&self, delivered: &Delivered, outgoing: &[Outgoing]) {
        for attempt in 1..=PUBLISH_TRIES {
            match self.publisher.publish(outgoing).await {
                Ok(()) => return self.ack(delivered).await,
                Err(error) => {
                    tracing::debug!(%error, attempt, "publishing again");
                    let delay = Policy::RECONNECT.delay(attempt, jitter());
                    tokio::time::sleep(delay.min(Duration::from_secs(1))).await;
                }
            }
        }
        tracing::warn!("could not publish what follows from a message; giving it back");
        self.nack(delivered).await;
    }

    async fn ack(&self, delivered: &Delivered) {
        self.metrics.in_flight.dec();
        // A lost acknowledgement means one more delivery, which finds everything done.
        match delivered.acker.ack(BasicAckOptions::default()).await {
            Ok(true) => {}
            Ok(false) => tracing::debug!("too late to acknowledge; it will be delivered again"),
            Err(error) => tracing::debug!(%error, "acknowledging"),
        }
    }

    async fn nack(&self, delivered: &Delivered) {
        self.metrics.in_flight.dec();
        let options = BasicNackOptions { requeue: true, ..Default::default() };
        if let Err(error) = delivered.acker.nack(options).await {
            tracing::debug!(%error, "giving back");
        }
    }

    fn count(&self, cause: Cause, message: &Message) {
        let requeues = self.metrics.requeues.with_label_values(&[cause.as_str()]);
        requeues.inc_by(message.ids.len() as u64);
    }
}
