//! Consuming: connection, channels and topology under our own supervision.
//!
//! Owns the consuming connection. Promises that after a broker restart, a closed channel or
//! connection, or a deleted queue it is consuming again within seconds, without help: whatever
//! looks odd ends the session, and a new one is built from nothing. Deliveries of an old session
//! can't be acknowledged any more; they come again and find their work done.

use std::sync::Arc;
use std::time::Duration;

use common::config::AmqpArgs;
use common::queue::{QueueError, SOLO, Topology, WORK, answered, connect};
use common::retry::{Policy, jitter};
use futures_util::StreamExt;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Acker, Channel, Connection, Consumer};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::acknowledge::{Acknowledger, Job};
use crate::decide::Source;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::rabbit::Rabbit;
use crate::stop::Stop;

/// How often to look whether channel and queue are still there. A channel that the broker closed
/// may stay silent for ever.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// After so many looks without any delivery the channels are made anew. When a queue is deleted and
/// declared again at once, RabbitMQ 3.10 keeps the consumer, tells nobody, and drops what the new
/// queue delivers, because its message numbers start again below those seen before. Nothing that
/// a client can ask shows it.
const QUIET_LOOKS_MAX: u32 = 2;

/// What a consumer needs.
pub struct Consuming {
    /// The broker.
    pub amqp: AmqpArgs,
    /// Shows in the broker's management.
    pub name: String,
    /// Messages delivered ahead of their acknowledgement.
    pub prefetch: u16,
    /// Where deliveries are admitted.
    pub acknowledger: Arc<Acknowledger<Rabbit>>,
    /// Where jobs of the work queue go.
    pub work: mpsc::Sender<Job<Acker>>,
    /// Where jobs of the solo queue go.
    pub solo: mpsc::Sender<Job<Acker>>,
    /// What readiness is told.
    pub health: Arc<Health>,
    /// Counts reconnects.
    pub metrics: Arc<Metrics>,
}

struct Session {
    connection: Connection,
    topology: Topology,
    work: (Channel, Consumer),
    solo: (Channel, Consumer),
}

impl Consuming {
    /// Consumes until `stop`, whatever happens to the broker. Returns the last session: its
    /// deliveries can be acknowledged until it is closed.
    pub async fn run(self, mut stop: Stop) -> Option<Connection> {
        let mut attempt = 0;
        loop {
            let opened = tokio::select! {
                biased;
                () = stop.told() => return None,
                opened = self.open() => opened,
            };
            let error = match opened {
                Ok(mut session) => {
                    attempt = 0;
                    self.health.broker(true);
                    tracing::info!(queue = session.topology.queue(WORK), "consuming");
                    match self.consume(&mut session, &mut stop).await {
                        Ok(()) => return Some(self.wind_up(session).await),
                        Err(error) => {
                            tokio::spawn(close(session.connection));
                            error
                        }
                    }
                }
                Err(error) => error,
            };
            self.health.broker(false);
            self.metrics.reconnects.inc();
            attempt += 1;
            let delay = Policy::RECONNECT.delay(attempt, jitter());
            tracing::warn!(%error, ?delay, "not consuming; connecting again");
            if !stop.not_for(delay).await {
                return None;
            }
        }
    }

    async fn open(&self) -> Result<Session, QueueError> {
        let topology = Topology::new(&self.amqp.queue_prefix);
        let connection = connect(&self.amqp.amqp_url, &format!("{} consuming", self.name)).await?;
        topology.declare(&channel(&connection).await?).await?;
        let work = consumer(&connection, &topology.queue(WORK), self.prefetch).await?;
        let solo = consumer(&connection, &topology.queue(SOLO), 1).await?;
        Ok(Session { connection, topology, work, solo })
    }

    /// Consumes through new channels. What is delivered to the old ones meanwhile comes again.
    async fn renew(&self, session: &mut Session) -> Result<(), QueueError> {
        for (channel, _) in [&session.work, &session.solo] {
            answered("closing a channel", channel.close(200, "renewed".into())).await?;
        }
        let Session { connection, topology, .. } = session;
        session.work = consumer(connection, &topology.queue(WORK), self.prefetch).await?;
        session.solo = consumer(connection, &topology.queue(SOLO), 1).await?;
        tracing::debug!("quiet for a while; consuming through new channels");
        Ok(())
    }

    /// Ends with `Ok` when told to stop, with an error when the session is no good any more.
    async fn consume(&self, session: &mut Session, stop: &mut Stop) -> Result<(), QueueError> {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut quiet_looks = 0;
        loop {
            let (source, delivery) = tokio::select! {
                biased;
                () = stop.told() => return Ok(()),
                _ = look.tick() => {
                    session.topology.depth(&session.work.0, WORK).await?;
                    session.topology.depth(&session.solo.0, SOLO).await?;
                    // Every delivery sets it back.
                    quiet_looks = if self.acknowledger.holds_nothing() { quiet_looks + 1 } else { 0 };
                    if quiet_looks >= QUIET_LOOKS_MAX {
                        self.renew(session).await?;
                        quiet_looks = 0;
                    }
                    continue;
                }
                delivery = session.solo.1.next() => (Source::Solo, delivery),
                delivery = session.work.1.next() => (Source::Work, delivery),
            };
            quiet_looks = 0;
            let ended = || QueueError::NotTaken("the consumer was canceled by the broker".into());
            let delivery = delivery.ok_or_else(ended)??;
            self.admit(source, delivery).await;
        }
    }

    async fn admit(&self, source: Source, delivery: lapin::message::Delivery) {
        let lapin::message::Delivery { redelivered, data, acker, .. } = delivery;
        let admitted = self.acknowledger.admit(source, redelivered, data, acker);
        let Some(job) = admitted.await else { return };
        let lane = match source {
            Source::Work => &self.work,
            Source::Solo => &self.solo,
        };
        // The lanes outlive the consumer, so this only fails when they broke down; then the
        // connection's end gives the message back.
        if lane.send(job).await.is_err() {
            tracing::error!("nobody takes deliveries any more");
        }
    }

    /// Stops the deliveries and takes in those already here, so that they can be handed back.
    async fn wind_up(&self, mut session: Session) -> Connection {
        for (source, (channel, consumer)) in
            [(Source::Work, &mut session.work), (Source::Solo, &mut session.solo)]
        {
            let canceled = channel.basic_cancel(consumer.tag(), BasicCancelOptions::default());
            if let Err(error) = answered("stopping the consumer", canceled).await {
                tracing::debug!(%error, "the broker gives back what it delivered");
                continue;
            }
            while let Some(Ok(delivery)) = consumer.next().await {
                self.admit(source, delivery).await;
            }
        }
        session.connection
    }
}

async fn channel(connection: &Connection) -> Result<Channel, QueueError> {
    answered("opening a channel", connection.create_channel()).await
}

async fn consumer(
    connection: &Connection,
    queue: &str,
    prefetch: u16,
) -> Result<(Channel, Consumer), QueueError> {
    let channel = channel(connection).await?;
    answered("setting the prefetch", channel.basic_qos(prefetch, BasicQosOptions::default()))
        .await?;
    let options = BasicConsumeOptions::default();
    let consumed = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
    let consumer = answered("consuming", consumed).await?;
    Ok((channel, consumer))
}

/// Says goodbye to the broker, if it still listens.
pub async fn close(connection: Connection) {
    if let Err(error) = answered("closing", connection.close(200, "done".into())).await {
        tracing::debug!(%error, "the connection was already gone");
    }
}
