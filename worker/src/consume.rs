//! Consuming: connection, channels and topology under our own supervision.
//!
//! Owns the consuming connection. Promises that after a broker restart, a closed channel or
//! connection, or a deleted queue it is consuming again within seconds, without help: whatever
//! looks odd ends the session, and a new one is built from nothing. Deliveries of an old session
//! can't be acknowledged any more; they come again and find their work done.

use std::sync::Arc;
use std::time::Duration;

use common::config::AmqpArgs;
use common::mongo::MongoOutbox;
use common::queue::{QueueError, Topology, WORK, answered, channel, close, connect, traces};
use common::retry::Reconnect;
use common::trace::Tracing;
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, Consumer};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::acknowledge::{Acknowledger, Job};
use crate::ahead::Ahead;
use crate::decide::Origin;
use crate::deliveries::{Deliveries, Receipt};
use crate::health::Health;
use crate::metrics::{Metrics, Server};
use crate::parts::pause;
use crate::rabbit::Rabbit;

/// How often to look whether channel and queue are still there. When the broker has closed a channel,
/// the client may never hear of it.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// After so many looks without any delivery of a queue its channel is made anew. When a queue is deleted and
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
    /// Where deliveries are admitted.
    pub acknowledger: Arc<Acknowledger<Rabbit, MongoOutbox>>,
    /// Where jobs of the work queue go.
    pub work: mpsc::Sender<Job<Receipt>>,
    /// Where jobs of the solo queue go.
    pub solo: mpsc::Sender<Job<Receipt>>,
    /// What readiness is told.
    pub health: Arc<Health>,
    /// Counts reconnects.
    pub metrics: Arc<Metrics>,
    /// Whether the traces of transactions are looked for.
    pub tracing: Tracing,
}

struct Session {
    connection: Connection,
    topology: Topology,
    work: QueueConsumer,
    solo: QueueConsumer,
}

/// The last session of a worker that stops. Its deliveries can be acknowledged until it is closed. It holds the
/// channels, because a channel that nobody holds is closed, and its deliveries go back to the queue.
pub struct LastSession {
    connection: Connection,
    _channels: [Channel; 2],
}

impl LastSession {
    /// Ends it.
    pub async fn close(self) {
        close(&self.connection).await;
    }
}

/// One queue's consumer.
struct QueueConsumer {
    channel: Channel,
    consumer: Consumer,
    deliveries: Arc<Deliveries>,
    /// Looks in a row without a delivery. Of each queue apart: while one is silenced the other may
    /// be busy.
    quiet_looks: u32,
}

impl Session {
    fn consumer(&mut self, origin: Origin) -> &mut QueueConsumer {
        match origin {
            Origin::Work => &mut self.work,
            Origin::Solo => &mut self.solo,
        }
    }

    /// Without its consumers: nothing more is delivered.
    fn last(self) -> LastSession {
        let Session { connection, work, solo, .. } = self;
        LastSession { connection, _channels: [work.channel, solo.channel] }
    }
}

impl Consuming {
    /// Consumes until `stop`, whatever happens to the broker. Returns the last session, if there is one.
    ///
    /// # Errors
    /// When the first session can't be made for a reason that does not pass by itself. Later the
    /// same reason is waited for: an administrator may be at work.
    pub async fn run(
        self,
        mut ahead: Ahead,
        stop: CancellationToken,
    ) -> Result<Option<LastSession>, QueueError> {
        let (mut reconnect, mut has_consumed) = (Reconnect::default(), false);
        // Whether the failure that was told last lasts. A failure is told once, however often the broker is tried.
        let mut told = None;
        loop {
            let opened = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(None),
                opened = self.open(&ahead) => opened,
            };
            let error = match opened {
                Ok(mut session) => {
                    (has_consumed, told) = (true, None);
                    reconnect.reached();
                    self.is_there(true);
                    tracing::info!(queue = session.topology.queue(WORK), "consuming");
                    match self.consume(&mut session, &mut ahead, &stop).await {
                        Ok(()) => return Ok(Some(self.wind_up(session).await)),
                        Err(error) => {
                            tokio::spawn(session.last().close());
                            error
                        }
                    }
                }
                Err(error) if error.lasts() && !has_consumed => return Err(error),
                Err(error) => error,
            };
            self.is_there(false);
            self.metrics.reconnects.inc();
            let delay = reconnect.wait();
            match told.replace(error.lasts()) == Some(error.lasts()) {
                true => tracing::debug!(%error, ?delay, "still not consuming"),
                false => tracing::warn!(%error, "not consuming; connecting again until it works"),
            }
            if !pause(&stop, delay).await {
                return Ok(None);
            }
        }
    }

    fn is_there(&self, there: bool) {
        self.health.broker(there);
        self.metrics.server(Server::Broker, there);
    }

    async fn open(&self, ahead: &Ahead) -> Result<Session, QueueError> {
        let topology = Topology::new(&self.amqp.queue_prefix);
        let connection = connect(&self.amqp.amqp_url, &format!("{} consuming", self.name)).await?;
        topology.declare(&connection).await?;
        // First: a message with a strike comes before the batches that may kill this worker.
        let solo = self.subscribe(&connection, &topology, Origin::Solo, ahead).await?;
        let work = self.subscribe(&connection, &topology, Origin::Work, ahead).await?;
        Ok(Session { connection, topology, work, solo })
    }

    async fn subscribe(
        &self,
        connection: &Connection,
        topology: &Topology,
        origin: Origin,
        ahead: &Ahead,
    ) -> Result<QueueConsumer, QueueError> {
        let channel = channel(connection).await?;
        self.consume_through((channel, Arc::default()), topology, origin, ahead).await
    }

    async fn consume_through(
        &self,
        (channel, deliveries): (Channel, Arc<Deliveries>),
        topology: &Topology,
        origin: Origin,
        ahead: &Ahead,
    ) -> Result<QueueConsumer, QueueError> {
        let prefetch = match origin {
            Origin::Work => ahead.messages(),
            Origin::Solo => 1,
        };
        answered("setting the prefetch", channel.basic_qos(prefetch, BasicQosOptions::default()))
            .await?;
        deliveries.delivers_ahead(prefetch);
        let queue = topology.queue(origin.key());
        let options = BasicConsumeOptions::default();
        let consumed =
            channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
        let consumer = answered("consuming", consumed).await?;
        Ok(QueueConsumer { channel, consumer, deliveries, quiet_looks: 0 })
    }

    /// Looks whether a queue and its channel are there. A queue that has been quiet for a while is
    /// consumed through a new channel; what is delivered to the old one meanwhile comes again.
    async fn look(
        &self,
        session: &mut Session,
        origin: Origin,
        ahead: &Ahead,
    ) -> Result<(), QueueError> {
        let channel = session.consumer(origin).channel.clone();
        let consumers = session.topology.consumers(&channel, origin.key()).await?;
        if origin == Origin::Work {
            self.health.workers(consumers);
        }
        let consumer = session.consumer(origin);
        let quiet = self.acknowledger.holds_nothing(origin);
        consumer.quiet_looks = if quiet { consumer.quiet_looks + 1 } else { 0 };
        if consumer.quiet_looks >= QUIET_LOOKS_MAX {
            answered("closing a channel", channel.close(200, "renewed".into())).await?;
            let renewed =
                self.subscribe(&session.connection, &session.topology, origin, ahead).await?;
            *session.consumer(origin) = renewed;
            tracing::debug!(queue = origin.key(), "quiet; consuming through a new channel");
        }
        Ok(())
    }

    /// Ends with `Ok` when told to stop, with an error when the session is no good any more.
    async fn consume(
        &self,
        session: &mut Session,
        ahead: &mut Ahead,
        stop: &CancellationToken,
    ) -> Result<(), QueueError> {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (origin, delivery) = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                _ = look.tick() => {
                    self.look(session, Origin::Work, ahead).await?;
                    self.look(session, Origin::Solo, ahead).await?;
                    continue;
                }
                delivery = session.solo.consumer.next() => (Origin::Solo, delivery),
                delivery = session.work.consumer.next() => (Origin::Work, delivery),
            };
            session.consumer(origin).quiet_looks = 0;
            let ended = || QueueError::NotTaken("the consumer was canceled by the broker".into());
            let delivery = delivery.ok_or_else(ended)??;
            let deliveries = session.consumer(origin).deliveries.clone();
            let ids = self.admit(origin, delivery, &deliveries).await;
            if origin == Origin::Work && ids > 0 && ahead.saw(ids) {
                tracing::debug!(messages = ahead.messages(), "another number is delivered ahead");
                self.consume_anew(session, ahead).await?;
            }
        }
    }

    /// Consumes the work queue with another prefetch, which the broker applies to new consumers only.
    /// What is here already can still be acknowledged, because the channel stays.
    async fn consume_anew(&self, session: &mut Session, ahead: &Ahead) -> Result<(), QueueError> {
        self.drain(&mut session.work, Origin::Work).await?;
        let through = (session.work.channel.clone(), session.work.deliveries.clone());
        session.work =
            self.consume_through(through, &session.topology, Origin::Work, ahead).await?;
        Ok(())
    }

    /// Takes a delivery in; returns how many ids are to be processed.
    async fn admit(
        &self,
        origin: Origin,
        delivery: Delivery,
        deliveries: &Arc<Deliveries>,
    ) -> usize {
        let Delivery { redelivered, data, acker, delivery_tag, properties, .. } = delivery;
        let receipt = deliveries.receipt(acker, delivery_tag);
        let admitted = self.acknowledger.admit(origin, redelivered, data, receipt);
        let Some(mut job) = admitted.await else { return 0 };
        if self.tracing.is_on() {
            job.traces = traces(properties.headers().as_ref(), &job.message.ids);
        }
        let ids = job.message.ids.len();
        let jobs = match origin {
            Origin::Work => &self.work,
            Origin::Solo => &self.solo,
        };
        // The batches outlive the consumer, so this only fails when they broke down; then the
        // broker delivers the message again when the connection ends.
        if jobs.send(job).await.is_err() {
            tracing::error!("nobody takes deliveries any more");
        }
        ids
    }

    /// Stops the deliveries and takes in those already here, so that they can be requeued.
    async fn wind_up(&self, mut session: Session) -> LastSession {
        for origin in [Origin::Work, Origin::Solo] {
            if let Err(error) = self.drain(session.consumer(origin), origin).await {
                tracing::debug!(%error, "the broker gives back what it delivered");
            }
        }
        session.last()
    }

    /// Stops a queue's deliveries and takes in those already here.
    async fn drain(&self, queue: &mut QueueConsumer, origin: Origin) -> Result<(), QueueError> {
        let tag = queue.consumer.tag();
        let canceled = queue.channel.basic_cancel(tag, BasicCancelOptions::default());
        answered("stopping the consumer", canceled).await?;
        while let Some(delivery) = queue.consumer.next().await {
            self.admit(origin, delivery?, &queue.deliveries).await;
        }
        Ok(())
    }
}
