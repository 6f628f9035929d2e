//! Consuming: connection, channels and topology under our own supervision.
//!
//! Owns the consuming connection. Promises that after a broker restart, a closed channel or
//! connection, or a deleted queue it is consuming again within seconds, without help: whatever
//! looks odd ends the session, and a new one is built from nothing. Deliveries of an old session
//! can't be acknowledged any more; they come again and find their work done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection};
use ledger::retry::Reconnect;
use queue::{Gate, Publisher, QueueError, Topology, WORK, answered, channel, connect_through};
use settings::AmqpSettings;
use tokio::time::{Instant as Deadline, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::acknowledge::Acknowledger;
use crate::components::pause;
use crate::decide::Origin;
use crate::deliveries::Deliveries;
use crate::health::Health;
use crate::intake::Intake;
use crate::lanes::are_many;
use crate::metrics::{Metrics, Server};
use crate::prefetch::{Beside, Prefetch};
use crate::publications::Publications;
use crate::rabbit::Rabbit;
use crate::session::{ENVELOPE, LITTLE, LastSession, QueueConsumer, Session};
use crate::suspects::MongoSuspects;
use crate::turn::Turn;
use crate::window::{is_taken, window};

/// So many bytes are read from the broker before they are taken in.
pub const UNREAD_MAX: usize = 32 << 20;

/// How long a worker that stops takes in what it was sent.
const WIND_UP_MAX: Duration = Duration::from_secs(2);

/// How often to look how fast messages end, and whether some wait for a publication in the place of
/// new deliveries.
const WINDOW_EVERY: Duration = Duration::from_millis(100);

/// How often to look whether channel and queue are still there. When the broker has closed a
/// channel, the client may never hear of it.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// After so many looks without any delivery of a queue its channel is made anew. When a queue is
/// deleted and declared again at once, RabbitMQ 3.10 keeps the consumer, tells nobody, and drops
/// what the new queue delivers, because its message numbers start again below those seen before.
/// Nothing that a client can ask shows it.
const QUIET_LOOKS_MAX: u32 = 2;

/// What a consumer needs.
pub struct Consuming {
    /// The broker.
    pub amqp: AmqpSettings,
    /// Shows in the broker's management.
    pub name: String,
    /// Where deliveries are admitted.
    pub acknowledger: Arc<Acknowledger<Rabbit, MongoSuspects>>,
    /// Whether the broker takes publications.
    pub room: Arc<Publications>,
    /// Tells whether the broker is there while nobody consumes.
    pub publisher: Arc<Publisher>,
    /// What readiness is told.
    pub health: Arc<Health>,
    /// Counts reconnects.
    pub metrics: Arc<Metrics>,
    /// Messages are taken only while it is this worker's turn, settlement is not paused and this
    /// worker is not drained.
    pub turn: Turn,
}

/// Why a session ends that is still good.
enum Over {
    Stopped,
    /// It is another worker's turn, settlement is paused, or this worker is drained.
    TurnGone,
}

impl Consuming {
    /// Consumes until `stop`, whatever happens to the broker. Returns the last session, if there is
    /// one.
    ///
    /// # Errors
    /// When the first session can't be made for a reason that does not pass by itself. Later the
    /// same reason is waited for: an administrator may be at work.
    pub async fn run(
        mut self,
        mut intake: Intake,
        mut ahead: Prefetch,
        stop: CancellationToken,
    ) -> Result<Option<LastSession>, QueueError> {
        let last = self.until_stopped(&mut intake, &mut ahead, &stop).await?;
        // At once, because the broker gives back whatever a session has that is not acknowledged.
        intake.end().await;
        Ok(last)
    }

    async fn until_stopped(
        &mut self,
        intake: &mut Intake,
        ahead: &mut Prefetch,
        stop: &CancellationToken,
    ) -> Result<Option<LastSession>, QueueError> {
        let (mut reconnect, mut has_consumed) = (Reconnect::default(), false);
        // The kind of the failure that was told last. A failure is told once, however often the
        // broker is tried.
        let mut told = None;
        loop {
            if !self.may_consume(has_consumed, stop).await? {
                return Ok(None);
            }
            let opened = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(None),
                opened = self.open(ahead) => opened,
            };
            let error = match opened {
                Ok(mut session) => {
                    (has_consumed, told) = (true, None);
                    reconnect.reached();
                    self.is_there(true);
                    tracing::info!(queue = session.topology.queue(WORK), "consuming");
                    match self.consume(&mut session, intake, ahead, stop).await {
                        Ok(Over::Stopped) => {
                            return Ok(Some(self.wind_up(session, intake, stop).await.0));
                        }
                        Ok(Over::TurnGone) => {
                            self.hand_on(session, intake, stop).await;
                            continue;
                        }
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
            let kind = (error.lasts(), error.is_internal());
            match told.replace(kind) == Some(kind) {
                true => tracing::debug!(%error, ?delay, "still not consuming"),
                false => tracing::warn!(%error, "not consuming; connecting again until it works"),
            }
            if !pause(stop, delay).await {
                return Ok(None);
            }
        }
    }

    /// Waits until messages are to be taken. While settlement is paused, or this worker is drained, it
    /// does not consume, so this tells whether the broker is there. False when told to stop before.
    ///
    /// # Errors
    /// When the broker refuses for a reason that does not pass by itself, and never did otherwise.
    async fn may_consume(
        &mut self,
        has_consumed: bool,
        stop: &CancellationToken,
    ) -> Result<bool, QueueError> {
        loop {
            if self.turn.waits_for_resume() {
                // During an alarm the broker reads nothing from a connection that publishes.
                let asked = async {
                    match self.publisher.is_blocked() {
                        true => Ok(0),
                        false => self.publisher.depth(WORK).await,
                    }
                };
                let Some(reached) = stop.run_until_cancelled(asked).await else {
                    return Ok(false);
                };
                self.is_there(reached.is_ok() || self.publisher.is_blocked());
                if let Err(error) = reached {
                    if error.lasts() && !has_consumed {
                        return Err(error);
                    }
                    tracing::debug!(%error, "the broker is away while nothing is begun");
                }
            }
            let came = tokio::time::timeout(LOOK_EVERY, self.turn.come(stop)).await;
            if let Ok(came) = came {
                return Ok(came);
            }
        }
    }

    /// Takes no more messages, and leaves what is begun to those who process it.
    async fn hand_on(&self, session: Session, intake: &mut Intake, stop: &CancellationToken) {
        let paused = self.turn.paused();
        tracing::info!(
            "taking no more messages: {}",
            match (paused.is_drained(), paused.is_on()) {
                (true, _) => "this worker is drained",
                (false, true) => "settlement is paused",
                (false, false) => "it is another worker's turn",
            }
        );
        let (last, is_drained) = self.wind_up(session, intake, stop).await;
        tokio::spawn(async move {
            if is_drained {
                last.until_done().await;
            }
            last.close().await;
        });
    }

    fn is_there(&self, there: bool) {
        self.health.broker(there);
        self.metrics.server(Server::Broker, there);
    }

    async fn open(&self, ahead: &Prefetch) -> Result<Session, QueueError> {
        let topology = Topology::new(&self.amqp.queue_prefix);
        let (gate, name) = (Gate::new(UNREAD_MAX), format!("{} consuming", self.name));
        let connection =
            connect_through(&gate, &self.amqp.amqp_url, &name, self.turn.heartbeat_s()).await?;
        topology.declare(&connection).await?;
        // First: a message with a strike comes before the batches that may kill this worker.
        let solo = self.subscribe(&connection, &topology, Origin::Solo, ahead).await?;
        let work = self.subscribe(&connection, &topology, Origin::Work, ahead).await?;
        Ok(Session { connection, gate, topology, work, solo })
    }

    async fn subscribe(
        &self,
        connection: &Connection,
        topology: &Topology,
        origin: Origin,
        ahead: &Prefetch,
    ) -> Result<QueueConsumer, QueueError> {
        let channel = channel(connection).await?;
        self.consume_through((channel, Arc::default()), topology, origin, ahead).await
    }

    async fn consume_through(
        &self,
        (channel, deliveries): (Channel, Arc<Deliveries>),
        topology: &Topology,
        origin: Origin,
        ahead: &Prefetch,
    ) -> Result<QueueConsumer, QueueError> {
        let window = window(origin, ahead.messages());
        answered("setting the prefetch", channel.basic_qos(window, BasicQosOptions::default()))
            .await?;
        deliveries.delivers_ahead(window);
        let queue = topology.queue(origin.key());
        let options = BasicConsumeOptions::default();
        let consumed =
            channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
        let consumer = answered("consuming", consumed).await?;
        let waited_before = self.waiting(origin);
        Ok(QueueConsumer {
            channel,
            consumer,
            deliveries,
            window,
            waited_before,
            has_delivered: false,
            quiet_looks: 0,
        })
    }

    /// How many deliveries wait for a publication, while the broker takes none.
    fn waiting(&self, origin: Origin) -> usize {
        if self.room.is_open() { 0 } else { self.acknowledger.unpublished(origin) }
    }

    /// Who works beside this worker.
    fn beside(&self) -> Beside {
        match (self.turn.is_of_one(), are_many(self.health.known_workers() as usize)) {
            (true, _) => Beside::Nobody,
            (false, true) => Beside::Many,
            (false, false) => Beside::Few,
        }
    }

    /// Consumes anew when too many wait for a publication in the place of new deliveries.
    async fn fit_window(
        &self,
        session: &mut Session,
        origin: Origin,
        intake: &mut Intake,
        (ahead, stop): (&Prefetch, &CancellationToken),
    ) -> Result<(), QueueError> {
        let waiting = self.waiting(origin);
        let consumer = session.consumer(origin);
        // When the broker takes publications again, those of before end.
        consumer.waited_before = consumer.waited_before.min(waiting);
        if !is_taken(consumer.window, waiting - consumer.waited_before) {
            return Ok(());
        }
        tracing::debug!(waiting, queue = origin.key(), "room for what can't be published");
        self.consume_anew(session, origin, intake, (ahead, stop)).await
    }

    /// Looks whether a queue and its channel are there. A queue that has been quiet for a while is
    /// consumed through a new channel; what is delivered to the old one meanwhile comes again. What
    /// has delivered is there, and the answer would stand behind what is unread.
    async fn look(
        &self,
        session: &mut Session,
        origin: Origin,
        ahead: &Prefetch,
    ) -> Result<(), QueueError> {
        let is_behind = session.gate.untaken() > LITTLE;
        if std::mem::take(&mut session.consumer(origin).has_delivered) && is_behind {
            return Ok(());
        }
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
            std::mem::replace(session.consumer(origin), renewed).deliveries.lose();
            tracing::debug!(queue = origin.key(), "quiet; consuming through a new channel");
        }
        Ok(())
    }

    /// Ends with an error when the session is no good any more.
    async fn consume(
        &self,
        session: &mut Session,
        intake: &mut Intake,
        ahead: &mut Prefetch,
        stop: &CancellationToken,
    ) -> Result<Over, QueueError> {
        let mut turn = self.turn.clone();
        let (mut look, mut fit) = (interval(LOOK_EVERY), interval(WINDOW_EVERY));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        fit.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (origin, delivery) = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(Over::Stopped),
                () = turn.gone() => return Ok(Over::TurnGone),
                _ = look.tick() => {
                    self.look(session, Origin::Work, ahead).await?;
                    self.look(session, Origin::Solo, ahead).await?;
                    // Whoever asks for the turn may have told otherwise meanwhile.
                    self.is_there(true);
                    continue;
                }
                _ = fit.tick() => {
                    let progress = session.work.deliveries.progress();
                    if ahead.looked(Instant::now(), progress, self.beside()) {
                        self.consume_anew(session, Origin::Work, intake, (ahead, stop)).await?;
                    }
                    for origin in [Origin::Work, Origin::Solo] {
                        self.fit_window(session, origin, intake, (ahead, stop)).await?;
                    }
                    continue;
                }
                delivery = session.solo.consumer.next() => (Origin::Solo, delivery),
                delivery = session.work.consumer.next() => (Origin::Work, delivery),
                () = std::future::ready(()), if session.gate.has_untaken() => {
                    session.gate.took_all();
                    continue;
                }
            };
            let consumer = session.consumer(origin);
            (consumer.quiet_looks, consumer.has_delivered) = (0, true);
            let ended = || QueueError::NotTaken("the consumer was canceled by the broker".into());
            let delivery = delivery.ok_or_else(ended)??;
            let deliveries = consumer.deliveries.clone();
            let seen = intake.take(origin, delivery, &deliveries, stop).await;
            session.gate.took(seen.bytes + ENVELOPE);
            if origin == Origin::Work && ahead.saw(seen) {
                tracing::debug!(messages = ahead.messages(), "another number is delivered ahead");
                self.consume_anew(session, Origin::Work, intake, (ahead, stop)).await?;
            }
        }
    }

    /// Consumes a queue with another prefetch, which the broker applies to new consumers only.
    /// What is here already can still be acknowledged, because the channel stays.
    async fn consume_anew(
        &self,
        session: &mut Session,
        origin: Origin,
        intake: &mut Intake,
        (ahead, stop): (&Prefetch, &CancellationToken),
    ) -> Result<(), QueueError> {
        session.drain(origin, intake, stop, None).await?;
        let consumer = session.consumer(origin);
        let through = (consumer.channel.clone(), consumer.deliveries.clone());
        let anew = self.consume_through(through, &session.topology, origin, ahead).await?;
        *session.consumer(origin) = anew;
        Ok(())
    }

    /// Stops the deliveries and takes in those already here, so that they can be requeued. Says
    /// whether all of them were.
    async fn wind_up(
        &self,
        mut session: Session,
        intake: &mut Intake,
        stop: &CancellationToken,
    ) -> (LastSession, bool) {
        let until = Some(Deadline::now() + WIND_UP_MAX);
        let mut is_drained = true;
        for origin in [Origin::Work, Origin::Solo] {
            is_drained &= match session.drain(origin, intake, stop, until).await {
                Ok(is_all) => is_all,
                Err(error) => {
                    tracing::debug!(%error, "the broker gives back what it delivered");
                    false
                }
            };
        }
        (session.last(), is_drained)
    }
}
