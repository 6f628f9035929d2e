//! Whose turn it is to settle, where workers stand by for one another.
//!
//! Owns this worker's [`Standing`], and a connection to the broker that shows it. All workers
//! consume the queue of the turn, and the broker delivers to one of them only. Whoever gets a
//! message has the turn. It keeps the newest message and acknowledges the one before, so that none
//! is kept for longer than a broker allows. When its connection is gone, because it died, hung or
//! stopped, the broker makes the next worker the one, and gives it that message. Each worker
//! publishes a message now and then: so there is one, also after somebody has purged or deleted the
//! queue. The connection publishes nothing, because a broker with an alarm reads nothing from
//! connections that do. A worker that has not reached a server for a while gives its turn up, and
//! does not ask for it while the database is away. One that is drained gives it up at once, and does
//! not ask for it until somebody resumes it.
//!
//! Promises that the turn is in one hand, as far as the broker can tell. Two may have it for a
//! moment, for example while one hangs; the ledger is safe with any number of workers at work, and
//! the turn only makes the work cheaper. While the broker is away, nobody knows whose turn it is. A
//! lost connection is made anew. Where the broker refuses the queue of the turn for good, the
//! worker says so once and is at work, as if workers shared it. Never fails.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, Consumer};
use ledger::retry::Reconnect;
use queue::{
    Outgoing, Publisher, QueueError, TURN, Topology, answered, channel, connect_with_heartbeat,
};
use settings::AmqpSettings;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use crate::components::{PartEnd, pause};
use crate::health::Health;
use crate::metrics::{Metrics, Server};
use crate::paused::{Paused, until};

/// The heartbeat of the connection that shows the turn, in seconds: RabbitMQ takes a worker that
/// hangs for gone after two or three of them.
const HEARTBEAT_S: u16 = 3;

/// The same of the one that consumes: while much of it is unread, it hears no heartbeat, and after
/// two it takes the broker for gone.
const HEARTBEAT_OF_CONSUMER_S: u16 = 4;

/// How often to look whether the broker still knows the queue and somebody who consumes it.
const LOOK_EVERY: Duration = Duration::from_secs(4);

/// Whoever has not reached the database, or got no messages to settle from the broker, in so many
/// looks gives its turn up.
const LOOKS_UNABLE_MAX: u32 = 3;

/// Whoever can't publish a message for so many looks, for example during an alarm of the broker, is
/// at work until it can: perhaps nobody has one.
const LOOKS_UNKNOWN_MAX: u32 = 3;

/// How often a worker that does not reach the database looks whether it does.
const DATABASE_EVERY: Duration = Duration::from_millis(500);

/// After so long without a message it is somebody else's turn, if the one that this worker has
/// published has arrived.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// How often each worker makes sure that somebody has a message, and a new one.
const KNOCK_EVERY: Duration = Duration::from_secs(30);

/// How many messages are delivered ahead: one that is kept, and those of other workers.
const AHEAD: u16 = 20;

/// What a worker may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is not known: it takes no messages, and does everything else.
    Unknown,
    /// It takes messages, and looks for what was forgotten.
    Active,
    /// Another one does; it waits.
    Standby,
}

/// What this worker may begin, for those who act by it: nothing while settlement is paused or it is
/// drained, and where workers stand by for one another, only what its standing allows.
#[derive(Clone, Debug)]
pub struct Turn {
    standing: watch::Receiver<Standing>,
    standby: watch::Receiver<bool>,
    paused: Paused,
}

impl Turn {
    /// Whether it leaves all work to others: another worker is at work, or this one is drained.
    #[must_use]
    pub fn is_standby(&self) -> bool {
        *self.standing.borrow() == Standing::Standby || self.paused.is_drained()
    }

    /// Whether workers stand by for one another, so that one is at work at a time.
    #[must_use]
    pub fn is_of_one(&self) -> bool {
        *self.standby.borrow()
    }

    /// How often the consuming connection has to say that it lives, in seconds, if more often than
    /// is usual: where others stand by, what this worker has must come back soon when it hangs.
    #[must_use]
    pub fn heartbeat_s(&self) -> Option<u16> {
        self.is_of_one().then_some(HEARTBEAT_OF_CONSUMER_S)
    }

    /// Whether it is at work.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.has_turn() && !self.paused.is_on()
    }

    /// Whether it would be at work, or ask for its turn, if settlement were not paused and it were
    /// not drained.
    #[must_use]
    pub fn waits_for_resume(&self) -> bool {
        (self.has_turn() && self.paused.is_on()) || self.paused.is_drained()
    }

    /// Whether settlement is paused, or this worker drained.
    #[must_use]
    pub fn paused(&self) -> &Paused {
        &self.paused
    }

    fn has_turn(&self) -> bool {
        *self.standing.borrow() == Standing::Active
    }

    /// Waits until messages are to be taken. False when told to stop before.
    pub async fn come(&mut self, stop: &CancellationToken) -> bool {
        let active = async {
            while !self.is_active() {
                until(&mut self.standing, |standing| *standing == Standing::Active).await;
                self.paused.over().await;
            }
        };
        stop.run_until_cancelled(active).await.is_some()
    }

    /// Waits until no more messages are to be taken.
    pub async fn gone(&mut self) {
        tokio::select! {
            () = until(&mut self.standing, |standing| *standing != Standing::Active) => {}
            () = self.paused.on() => {}
        }
    }

    /// Waits until it is this worker's turn, whether settlement is paused or not; never, if it is
    /// already.
    pub async fn begins(&mut self) {
        match self.has_turn() {
            true => std::future::pending().await,
            false => until(&mut self.standing, |standing| *standing == Standing::Active).await,
        }
    }
}

/// Keeps this worker's standing up to date.
pub struct TurnKeeper {
    /// The broker.
    pub amqp: AmqpSettings,
    /// Shows in the broker's management.
    pub name: String,
    /// What publishes.
    pub publisher: Arc<Publisher>,
    /// What readiness is told.
    pub health: Arc<Health>,
    /// Shows the standing.
    pub metrics: Arc<Metrics>,
    /// Whether workers stand by for one another; else it is everybody's turn.
    pub standby: watch::Receiver<bool>,
    /// Whether this worker is drained, so that it does not ask for the turn.
    pub paused: Paused,
    /// Where the standing is told.
    pub standing: watch::Sender<Standing>,
}

/// Why the turn is not asked for any more, for now.
enum Over {
    Stopped,
    /// Workers share the work now.
    Shared,
    /// A server is away, perhaps for this worker only.
    Unable,
    /// Somebody has drained this worker.
    Drained,
    /// The queue may be another one.
    Unheard,
}

/// A worker that has the turn is delivered its own messages, too. After so many without one its
/// queue is another one.
const UNHEARD_MAX: u32 = 2;

/// A worker that stands by hears nothing, so after so many messages it consumes anew, in case its
/// queue is another one.
const UNHEARD_IN_STANDBY_MAX: u32 = 10;

/// Looks in a row that have found the same.
#[derive(Default)]
struct Looks {
    unable: u32,
    /// Without knowing whose turn it is, since the last message was published.
    unknown: u32,
    /// Messages published, since one was delivered.
    unheard: u32,
}

/// Whether a worker could work.
#[derive(PartialEq)]
enum Able {
    Yes,
    No,
}

/// What is there between two losses of the broker.
struct Session {
    /// A connection that nobody holds is closed.
    _connection: Connection,
    channel: Channel,
    consumer: Consumer,
    topology: Topology,
    /// The message that says that it is this worker's turn.
    turn: Option<Delivery>,
}

impl TurnKeeper {
    /// Its standing before anything is known, and the way to hear of it.
    #[must_use]
    pub fn standing(
        standby: watch::Receiver<bool>,
        paused: Paused,
    ) -> (watch::Sender<Standing>, Turn) {
        let (told, standing) = watch::channel(Standing::Unknown);
        (told, Turn { standing, standby, paused })
    }

    /// Keeps it until `stop`.
    pub async fn run(mut self, stop: CancellationToken) -> PartEnd {
        let (mut reconnect, mut told) = (Reconnect::default(), None);
        loop {
            if !*self.standby.borrow() {
                self.stand(Standing::Active);
                let standby = until(&mut self.standby, |standby| *standby);
                if stop.run_until_cancelled(standby).await.is_none() {
                    return Ok(None);
                }
                continue;
            }
            if self.paused.is_drained() {
                if !self.sit_out(&stop).await {
                    return Ok(None);
                }
                continue;
            }
            // Whoever can't ask for good is at work.
            if told != Some(true) {
                self.stand(Standing::Unknown);
            }
            if !self.is_able(&stop).await {
                return Ok(None);
            }
            let error = match self.open().await {
                Ok(session) => {
                    told = None;
                    reconnect.reached();
                    match self.keep(session, &stop).await {
                        Ok(Over::Stopped) => return Ok(None),
                        Ok(Over::Shared | Over::Unheard | Over::Drained) => continue,
                        Ok(Over::Unable) => {
                            tracing::warn!("a server is away; any other worker may take the turn");
                            continue;
                        }
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            let delay = reconnect.wait();
            let lasts = error.lasts();
            match told.replace(lasts) == Some(lasts) {
                true => tracing::debug!(%error, ?delay, "whose turn it is will be asked again"),
                false => tracing::warn!(%error, "whose turn it is can't be asked; trying again"),
            }
            // Nobody may be told for a long time, and any number of workers at work is safe.
            self.stand(if lasts { Standing::Active } else { Standing::Unknown });
            if !lasts {
                self.is_there(false);
            }
            if !pause(&stop, delay).await {
                return Ok(None);
            }
        }
    }

    /// Leaves the turn to others until this worker is not drained any more, or workers share the work.
    /// False when told to stop before.
    async fn sit_out(&mut self, stop: &CancellationToken) -> bool {
        self.stand(Standing::Standby);
        let over = async {
            tokio::select! {
                () = self.paused.undrained() => {}
                () = until(&mut self.standby, |standby| !standby) => {}
            }
        };
        stop.run_until_cancelled(over).await.is_some()
    }

    /// Waits until this worker could work if it had the turn. False when told to stop before.
    async fn is_able(&self, stop: &CancellationToken) -> bool {
        while !self.health.has_database() {
            if !pause(stop, DATABASE_EVERY).await {
                return false;
            }
        }
        true
    }

    fn stand(&self, standing: Standing) {
        let before = self.standing.send_replace(standing);
        self.metrics.standing_by(standing == Standing::Standby);
        if before != standing && *self.standby.borrow() {
            match standing {
                Standing::Active => tracing::info!("it is this worker's turn"),
                Standing::Standby if self.paused.is_drained() => {
                    tracing::info!("leaving the turn to other workers: this one is drained");
                }
                Standing::Standby => tracing::info!("another worker is at work; standing by"),
                Standing::Unknown => tracing::debug!("whose turn it is is not known"),
            }
        }
    }

    fn is_there(&self, there: bool) {
        self.health.broker(there);
        self.metrics.server(Server::Broker, there);
    }

    async fn open(&self) -> Result<Session, QueueError> {
        let topology = Topology::new(&self.amqp.queue_prefix);
        let name = format!("{} standing by", self.name);
        let connection = connect_with_heartbeat(&self.amqp.amqp_url, &name, HEARTBEAT_S).await?;
        topology.declare_turn(&connection).await?;
        let channel = channel(&connection).await?;
        let prefetch = channel.basic_qos(AHEAD, BasicQosOptions::default());
        answered("setting the prefetch", prefetch).await?;
        let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
        let consumed = channel.basic_consume(topology.queue(TURN).into(), "".into(), options, none);
        let consumer = answered("consuming", consumed).await?;
        Ok(Session { _connection: connection, channel, consumer, topology, turn: None })
    }

    /// Until told to stop, or workers share the work; fails when the session is no good any more.
    async fn keep(
        &self,
        mut session: Session,
        stop: &CancellationToken,
    ) -> Result<Over, QueueError> {
        let (mut standby, mut paused) = (self.standby.clone(), self.paused.clone());
        let mut look = interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A task of its own: whoever stops in the midst of publishing keeps others from it.
        let mut knocking = JoinSet::new();
        knocking.spawn(knock(self.publisher.clone(), Duration::ZERO));
        let mut looks = Looks::default();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(Over::Stopped),
                () = until(&mut standby, |standby| !standby) => return Ok(Over::Shared),
                () = paused.drained() => return Ok(Over::Drained),
                delivery = session.consumer.next() => {
                    session.take(delivery).await?;
                    looks.unheard = 0;
                    // From here on the consumer tells whether the broker is there.
                    self.stand(Standing::Active);
                }
                _ = knocking.join_next() => {
                    looks.unheard += 1;
                    if session.turn.is_none() {
                        self.is_there(true);
                        self.stand(Standing::Standby);
                    }
                    if looks.is_unheard(session.turn.is_some()) {
                        return Ok(Over::Unheard);
                    }
                    looks.unknown = 0;
                    knocking.spawn(knock(self.publisher.clone(), KNOCK_EVERY));
                }
                _ = look.tick() => {
                    if self.look(&session, &mut looks).await? == Able::No {
                        return Ok(Over::Unable);
                    }
                }
            }
        }
    }

    /// Whether this worker could work if it had the turn.
    async fn look(&self, session: &Session, looks: &mut Looks) -> Result<Able, QueueError> {
        let consumers = session.look().await?;
        if session.turn.is_none() {
            self.health.workers(consumers);
        }
        looks.unknown += u32::from(*self.standing.borrow() == Standing::Unknown);
        if looks.unknown == LOOKS_UNKNOWN_MAX {
            self.stand(Standing::Active);
        }
        if *self.standing.borrow() == Standing::Standby {
            // Its consumer may have told otherwise, which has lost another connection.
            self.is_there(true);
        }
        // Of whoever has the turn the consumer tells whether the broker is there.
        let has_broker = session.turn.is_none() || self.health.has_broker();
        let is_able = self.health.has_database() && has_broker;
        looks.unable = if is_able { 0 } else { looks.unable + 1 };
        Ok(if looks.unable < LOOKS_UNABLE_MAX { Able::Yes } else { Able::No })
    }
}

impl Looks {
    /// Whether the queue may be another one.
    fn is_unheard(&self, has_turn: bool) -> bool {
        self.unheard >= if has_turn { UNHEARD_MAX } else { UNHEARD_IN_STANDBY_MAX }
    }
}

impl Session {
    /// Keeps the newest message, and acknowledges the one before.
    async fn take(
        &mut self,
        delivery: Option<Result<Delivery, lapin::Error>>,
    ) -> Result<(), QueueError> {
        let canceled = || QueueError::NotTaken("the consumer was canceled by the broker".into());
        let delivery = delivery.ok_or_else(canceled)??;
        let Some(before) = self.turn.replace(delivery) else { return Ok(()) };
        let acknowledged = before.acker.ack(BasicAckOptions::default());
        answered("acknowledging", acknowledged).await.map(drop)
    }

    /// How many workers consume the queue. Fails if channel or queue are gone, or nobody does: when
    /// a queue is deleted and declared again at once, RabbitMQ 3.10 may tell no consumer.
    async fn look(&self) -> Result<u32, QueueError> {
        match self.topology.consumers(&self.channel, TURN).await? {
            0 => Err(QueueError::NotTaken("the queue of the turn is another one".into())),
            consumers => Ok(consumers),
        }
    }
}

/// Publishes a message for whoever has the turn, after a while; ends when it has had the time to
/// arrive.
async fn knock(publisher: Arc<Publisher>, wait: Duration) {
    tokio::time::sleep(wait).await;
    let mut again_after = SETTLED_AFTER;
    while let Err(error) = publisher.publish_through_alarms(&[Outgoing::turn()]).await {
        tracing::debug!(%error, "a message for whoever has the turn is not published");
        tokio::time::sleep(again_after).await;
        // Each failure ends the publications of others on this connection.
        again_after = (again_after * 2).min(KNOCK_EVERY);
        // The queue, or its binding, may be what is missing.
        if let Err(error) = publisher.ensure_turn().await {
            tracing::debug!(%error, "the queue of the turn is not declared again");
        }
    }
    tokio::time::sleep(SETTLED_AFTER).await;
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::paused::{PauseTeller, said_of_ledger, said_of_worker};

    fn turn() -> (watch::Sender<Standing>, watch::Sender<bool>, PauseTeller, Turn) {
        let (teller, paused) = PauseTeller::new(Arc::default(), Arc::default());
        let (way, standby) = watch::channel(true);
        let (told, turn) = TurnKeeper::standing(standby, paused);
        (told, way, teller, turn)
    }

    #[test]
    fn nobody_is_at_work_while_settlement_is_paused_whoever_has_the_turn() {
        let (told, _way, teller, mut turn) = turn();
        let stop = CancellationToken::new();
        told.send_replace(Standing::Active);
        assert!(turn.is_active() && turn.gone().now_or_never().is_none());
        teller.tell(&said_of_ledger("one", true));
        assert!(!turn.is_active() && turn.waits_for_resume());
        assert!(turn.gone().now_or_never().is_some());
        assert!(turn.come(&stop).now_or_never().is_none());
        told.send_replace(Standing::Standby);
        teller.tell(&said_of_ledger("two", false));
        assert!(turn.come(&stop).now_or_never().is_none(), "another one is at work");
        told.send_replace(Standing::Active);
        assert_eq!(turn.come(&stop).now_or_never(), Some(true));
    }

    #[test]
    fn a_drained_worker_leaves_all_work_to_others_whoever_has_the_turn() {
        let (told, _way, teller, mut turn) = turn();
        let stop = CancellationToken::new();
        for standing in [Standing::Active, Standing::Standby, Standing::Unknown] {
            told.send_replace(standing);
            teller.tell(&said_of_worker("one", true));
            assert!(turn.is_standby() && !turn.is_active(), "{standing:?}");
            assert!(turn.waits_for_resume(), "{standing:?}: it tells whether the broker is there");
            assert!(turn.gone().now_or_never().is_some(), "{standing:?}");
            assert!(turn.come(&stop).now_or_never().is_none(), "{standing:?}");
            teller.tell(&said_of_worker("two", false));
            assert_eq!(turn.is_active(), standing == Standing::Active);
        }
    }

    #[test]
    fn whoever_gets_the_turn_hears_of_it_once() {
        let (told, _way, _teller, mut turn) = turn();
        let mut listener = turn.clone();
        let mut begins = std::pin::pin!(listener.begins());
        assert!(begins.as_mut().now_or_never().is_none());
        told.send_replace(Standing::Active);
        assert!(begins.now_or_never().is_some());
        assert!(turn.begins().now_or_never().is_none(), "it has the turn by now");
    }
}
