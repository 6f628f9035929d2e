//! Publishing with confirms.
//!
//! Owns one connection, made anew when it fails, and declares the topology with it. Calls at the
//! same time have a channel each, so that none waits for the confirms of another. Promises that
//! `Ok` means every message is in a queue on disk; `Err` means that any of them may be or not be,
//! so the caller publishes all of them again: duplicates are harmless. Events are confirmed one by
//! one ([`Publisher::publish_each`]), because nobody waits for their subscribers.

use std::pin::pin;
use std::sync::{Arc, Mutex as BlockingMutex};
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{Channel, Confirmation, Connection};
use settings::AmqpSettings;
use tokio::sync::{Mutex, Semaphore};

use super::outgoing::{Outgoing, Through};
use super::topology::Level;
use super::{QueueError, Topology, answered, channel, close, connect};

/// How long one call may take; a blocked connection would hold it for ever.
const PUBLISH_LIMIT: Duration = Duration::from_secs(30);

/// The most channels of a connection, which is the most calls at once; others wait.
const CHANNELS_MAX: usize = 8;

/// How often to look whether the broker still blocks a connection.
const BLOCKED_LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a call may take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// So long.
    Always(Duration),
    /// So long, but for the time in which the broker blocks the connection.
    WhileNotBlocked(Duration),
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is on disk in every queue that is bound for it.
    Queued,
    /// No queue is bound for it, so it is nowhere.
    Unrouted,
    /// A queue, or the broker, did not take it; other queues may have it.
    Refused,
    /// There was no answer in time.
    Unknown,
}

/// A connection with its channels. A call has one of them to itself: a returned message attaches to
/// any confirm of its channel, so two calls on one could not tell whose message found no queue.
struct Session {
    connection: Connection,
    idle: BlockingMutex<Vec<Channel>>,
    /// A permit for each channel that may be in use.
    calls: Semaphore,
}

/// A publishing connection, shared by all who publish.
pub struct Publisher {
    url: String,
    topology: Topology,
    name: String,
    /// Whether it publishes events and nothing else.
    only_events: bool,
    // Held while connecting, so that only one call does; not while publishing.
    session: Mutex<Option<Arc<Session>>>,
}

impl Publisher {
    /// A publisher that connects when it is first used.
    #[must_use]
    pub fn new(args: &AmqpSettings, name: &str) -> Publisher {
        Publisher {
            url: args.amqp_url.clone(),
            topology: Topology::new(&args.queue_prefix),
            name: name.to_owned(),
            only_events: false,
            session: Mutex::new(None),
        }
    }

    /// One that publishes events and nothing else; it needs no queue, and declares none.
    #[must_use]
    pub fn of_events(args: &AmqpSettings, name: &str) -> Publisher {
        Publisher { only_events: true, ..Publisher::new(args, name) }
    }

    /// Publishes all of them and waits for every confirm.
    ///
    /// # Errors
    /// When one of them is not known to be in a queue; publish all of them again.
    pub async fn publish(&self, messages: &[Outgoing]) -> Result<(), QueueError> {
        self.publish_in(messages, Limit::Always(PUBLISH_LIMIT)).await
    }

    /// The same, but waits for as long as the broker blocks the connection, because of an alarm: it
    /// has got some of the messages, and takes them when the alarm ends. Sent again they would be
    /// there twice.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub async fn publish_through_alarms(&self, messages: &[Outgoing]) -> Result<(), QueueError> {
        self.publish_in(messages, Limit::WhileNotBlocked(PUBLISH_LIMIT)).await
    }

    /// Whether the broker takes nothing on the connection now, because of an alarm.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        // Whoever holds it connects: nothing is known of the new connection yet.
        let Ok(session) = self.session.try_lock() else { return false };
        session.as_ref().is_some_and(|session| session.is_blocked())
    }

    async fn publish_in(&self, messages: &[Outgoing], limit: Limit) -> Result<(), QueueError> {
        if messages.is_empty() {
            return Ok(());
        }
        let session = self.session().await?;
        let mut taken = Vec::with_capacity(messages.len());
        let published = session.publish(&self.topology, messages, &mut taken, limit).await;
        let all_taken = published.and_then(|()| {
            let problem = match taken.iter().find(|taken| **taken != Taken::Queued) {
                None => return Ok(()),
                Some(Taken::Unrouted) => "no queue is bound for it",
                Some(_) => "the broker refused it",
            };
            Err(QueueError::NotTaken(problem.to_owned()))
        });
        self.settle(session, all_taken).await
    }

    /// Publishes all of them and says for each what became of it within the limit, beside the error
    /// that has ended the call, if one has.
    pub async fn publish_each(
        &self,
        messages: &[Outgoing],
        limit: Duration,
    ) -> (Vec<Taken>, Result<(), QueueError>) {
        let mut taken = Vec::with_capacity(messages.len());
        let publishing = async {
            let session = self.session().await?;
            let always = Limit::Always(limit);
            let published = session.publish(&self.topology, messages, &mut taken, always).await;
            self.settle(session, published).await
        };
        let published = tokio::time::timeout(limit * 2, publishing).await;
        let published = published.unwrap_or(Err(QueueError::Silent(limit, "publishing")));
        taken.resize(messages.len(), Taken::Unknown);
        (taken, published)
    }

    /// Connects and declares the topology, if not yet done.
    ///
    /// # Errors
    /// When the broker is away.
    pub async fn ensure(&self) -> Result<(), QueueError> {
        self.session().await.map(drop)
    }

    /// The same for the queue of the turn.
    ///
    /// # Errors
    /// When the broker is away, or the queue is there with other arguments.
    pub async fn ensure_turn(&self) -> Result<(), QueueError> {
        let session = self.session().await?;
        let declared = self.topology.declare_turn(&session.connection).await;
        self.settle(session, declared).await
    }

    /// How many messages wait in the queue of a routing key.
    ///
    /// # Errors
    /// When the broker is away.
    pub async fn depth(&self, key: &str) -> Result<u32, QueueError> {
        let session = self.session().await?;
        let depth = session.depth(&self.topology, key).await;
        self.settle(session, depth).await
    }

    /// How full each queue of the ledger is.
    ///
    /// # Errors
    /// When the broker is away.
    pub async fn levels(&self) -> Result<Vec<Level>, QueueError> {
        let session = self.session().await?;
        let levels = session.levels(&self.topology).await;
        self.settle(session, levels).await
    }

    /// Closes the connection; a later call opens it again. Calls under way fail. While the broker
    /// blocks the connection it would not hear of it: then it is only dropped.
    pub async fn close(&self) {
        let session = self.session.lock().await.take();
        if let Some(session) = session
            && !session.is_blocked()
        {
            close(&session.connection).await;
        }
    }

    /// The connection, made anew if it is lost.
    async fn session(&self) -> Result<Arc<Session>, QueueError> {
        let mut session = self.session.lock().await;
        match &*session {
            Some(open) if open.connection.status().connected() => Ok(open.clone()),
            Some(_) | None => {
                *session = None;
                let connection = connect(&self.url, &self.name).await?;
                match self.only_events {
                    true => self.topology.declare_events(&connection).await?,
                    false => self.topology.declare(&connection).await?,
                }
                Ok(session.insert(Arc::new(Session::new(connection))).clone())
            }
        }
    }

    /// After an error the next call connects anew, and declares the topology: a queue may be what
    /// is missing. A connection that the broker blocks is kept, because others wait for their
    /// confirms on it.
    async fn settle<T>(
        &self,
        session: Arc<Session>,
        called: Result<T, QueueError>,
    ) -> Result<T, QueueError> {
        if called.is_err() && !session.is_blocked() {
            let mut current = self.session.lock().await;
            // Unless another call has made a new one already.
            if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &session)) {
                *current = None;
            }
            drop(current);
            // Ends the calls of others as well, which try again.
            close(&session.connection).await;
        }
        called
    }
}

impl Session {
    fn new(connection: Connection) -> Session {
        let calls = Semaphore::new(CHANNELS_MAX);
        Session { connection, idle: BlockingMutex::default(), calls }
    }

    async fn publish(
        &self,
        topology: &Topology,
        messages: &[Outgoing],
        taken: &mut Vec<Taken>,
        limit: Limit,
    ) -> Result<(), QueueError> {
        let _call = self.calls.acquire().await.expect("it is never closed");
        if matches!(limit, Limit::WhileNotBlocked(_)) {
            self.until_not_blocked().await;
        }
        let channel = self.take_channel().await?;
        self.within(limit, send(&channel, topology, messages, taken)).await?;
        self.put_back(channel);
        Ok(())
    }

    /// Waits, because on a blocked connection no channel can be made, and what is sent is taken
    /// later, also if nobody waits for it any more.
    async fn until_not_blocked(&self) {
        while self.is_blocked() {
            tokio::time::sleep(BLOCKED_LOOK_EVERY).await;
        }
    }

    async fn within(
        &self,
        limit: Limit,
        sending: impl Future<Output = Result<(), QueueError>>,
    ) -> Result<(), QueueError> {
        let mut sending = pin!(sending);
        loop {
            let (Limit::Always(time) | Limit::WhileNotBlocked(time)) = limit;
            match tokio::time::timeout(time, &mut sending).await {
                Ok(sent) => return sent,
                Err(_) if limit == Limit::WhileNotBlocked(time) && self.is_blocked() => {}
                Err(_) => return Err(QueueError::Silent(time, "publishing")),
            }
        }
    }

    /// Whether the broker takes nothing on this connection, which is alive.
    fn is_blocked(&self) -> bool {
        let status = self.connection.status();
        status.connected() && status.blocked()
    }

    async fn depth(&self, topology: &Topology, key: &str) -> Result<u32, QueueError> {
        let _call = self.calls.acquire().await.expect("it is never closed");
        let channel = self.take_channel().await?;
        let depth = topology.depth(&channel, key).await?;
        self.put_back(channel);
        Ok(depth)
    }

    async fn levels(&self, topology: &Topology) -> Result<Vec<Level>, QueueError> {
        let _call = self.calls.acquire().await.expect("it is never closed");
        let channel = self.take_channel().await?;
        let levels = topology.levels(&channel).await?;
        self.put_back(channel);
        Ok(levels)
    }

    /// An idle channel, or a new one.
    async fn take_channel(&self) -> Result<Channel, QueueError> {
        let idle = self.idle.lock().expect("no holder panics").pop();
        if let Some(channel) = idle {
            return Ok(channel);
        }
        let channel = channel(&self.connection).await?;
        answered("asking for confirms", channel.confirm_select(ConfirmSelectOptions::default()))
            .await?;
        Ok(channel)
    }

    /// Keeps a channel on which nothing is under way any more. One whose call has failed, or was
    /// dropped midway, is not put back, which closes it: confirms may still be on their way to it.
    fn put_back(&self, channel: Channel) {
        self.idle.lock().expect("no holder panics").push(channel);
    }
}

/// Sends all, then waits for every confirm and notes what became of each message.
async fn send(
    channel: &Channel,
    topology: &Topology,
    messages: &[Outgoing],
    taken: &mut Vec<Taken>,
) -> Result<(), QueueError> {
    let (main, retry, events) =
        (topology.exchange(), topology.retry_exchange(), topology.events_exchange());
    let mut confirms = Vec::with_capacity(messages.len());
    for message in messages {
        let exchange = match message.through {
            Through::Main => &main,
            Through::Retry => &retry,
            Through::Events => &events,
        };
        let options = BasicPublishOptions { mandatory: message.mandatory, ..Default::default() };
        let confirm = channel
            .basic_publish(
                exchange.as_str().into(),
                message.routing_key.as_str().into(),
                options,
                &message.body,
                message.properties(),
            )
            .await?;
        confirms.push(confirm);
    }
    for confirm in confirms {
        taken.push(match confirm.await? {
            Confirmation::Ack(None) => Taken::Queued,
            Confirmation::Ack(Some(_)) | Confirmation::Nack(Some(_)) => Taken::Unrouted,
            Confirmation::Nack(None) => Taken::Refused,
            Confirmation::NotRequested => {
                return Err(QueueError::NotTaken("the channel has no confirms".into()));
            }
        });
    }
    Ok(())
}
