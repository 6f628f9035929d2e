//! Publishing with confirms.
//!
//! Owns one connection, made anew when it fails, and declares the topology with it. Calls at the same
//! time have a channel each, so that none waits for the confirms of another. Promises that
//! `Ok` means every message is in a queue on disk; `Err` means that any of them may be or not be,
//! so the caller publishes all of them again: duplicates are harmless. Events are confirmed one by
//! one ([`Publisher::publish_each`]), because nobody waits for their subscribers.

use std::sync::{Arc, Mutex as BlockingMutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{BasicProperties, Channel, Confirmation, Connection};
use tokio::sync::{Mutex, Semaphore};

use super::dead::{DETAIL, REASON};
use super::{
    DEAD, EVENT_KEY, QueueError, SOLO, Topology, WORK, answered, channel, close, connect,
    delay_class,
};
use crate::config::AmqpArgs;
use crate::event::{Event, SCHEMA};
use crate::limits::echo;
use crate::message::Message;

/// How long one call may take; a blocked connection would hold it for ever.
const PUBLISH_LIMIT: Duration = Duration::from_secs(30);

/// The most channels of a connection, which is the most calls at once; others wait.
const CHANNELS_MAX: usize = 8;

/// The exchange that a message goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Through {
    /// The one in front of the queues of work.
    Main,
    /// The one in front of the retry queues.
    Retry,
    /// The one that subscribers bind their queues to.
    Events,
}

/// A message on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    through: Through,
    routing_key: String,
    /// Same for the same message, where its consumers drop repeats by it.
    id: Option<String>,
    /// Whether it has to find a queue.
    mandatory: bool,
    body: Vec<u8>,
    headers: Vec<(&'static str, String)>,
}

impl Outgoing {
    /// Work that anybody may take now.
    #[must_use]
    pub fn work(message: &Message) -> Outgoing {
        Outgoing::direct(WORK, message.to_bytes())
    }

    /// Work that is to be processed alone.
    #[must_use]
    pub fn solo(message: &Message) -> Outgoing {
        Outgoing::direct(SOLO, message.to_bytes())
    }

    /// Work that comes back to the queue of `key` after about `delay`.
    #[must_use]
    pub fn retry(message: &Message, key: &str, delay: Duration) -> Outgoing {
        let routing_key = format!("{}.{key}", delay_class(delay));
        Outgoing { through: Through::Retry, ..Outgoing::direct(&routing_key, message.to_bytes()) }
    }

    /// A dead letter: the body as it came, with the reason beside it. The detail is cut: headers
    /// that do not fit one frame would close the connection.
    #[must_use]
    pub fn dead(body: Vec<u8>, reason: &str, detail: &str) -> Outgoing {
        let detail = echo(detail).into_owned();
        let headers = vec![(REASON, reason.to_owned()), (DETAIL, detail)];
        Outgoing { headers, ..Outgoing::direct(DEAD, body) }
    }

    /// An outcome event in the binary content mode of CloudEvents. `source` names the ledger.
    /// If it is `mandatory`, [`Taken::Unrouted`] tells that nobody has bound a queue for it.
    #[must_use]
    pub fn event(event: &Event, source: &str, mandatory: bool) -> Outgoing {
        let (id, end) = (event.id(), event.about.end.as_str());
        let headers = vec![
            ("cloudEvents_specversion", "1.0".to_owned()),
            ("cloudEvents_id", id.clone()),
            ("cloudEvents_source", source.to_owned()),
            ("cloudEvents_type", format!("tandem.transaction.{end}")),
            ("cloudEvents_subject", event.about.id.to_string()),
            ("cloudEvents_dataschema", SCHEMA.to_owned()),
        ];
        let (through, routing_key) = (Through::Events, format!("{EVENT_KEY}.{end}"));
        let body = event.body.to_string().into_bytes();
        Outgoing { through, routing_key, id: Some(id), mandatory, body, headers }
    }

    /// What it is: its body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Where it goes, and through which detour: the key of the queue it ends in, and the delay
    /// class in milliseconds if it waits first.
    #[must_use]
    pub fn destination(&self) -> (&str, Option<u32>) {
        match self.routing_key.split_once('.') {
            Some((delay, key)) if self.through == Through::Retry => (key, delay.parse().ok()),
            _ => (&self.routing_key, None),
        }
    }

    fn direct(routing_key: &str, body: Vec<u8>) -> Outgoing {
        Outgoing {
            through: Through::Main,
            routing_key: routing_key.to_owned(),
            id: None,
            mandatory: true,
            body,
            headers: vec![],
        }
    }

    fn properties(&self) -> BasicProperties {
        const PERSISTENT: u8 = 2;
        let mut headers = FieldTable::default();
        for (name, value) in &self.headers {
            headers.insert((*name).into(), AMQPValue::LongString(LongString::from(value.as_str())));
        }
        let properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_content_type("application/json".into())
            .with_headers(headers);
        let properties = match &self.id {
            Some(id) => properties.with_message_id(id.as_str().into()),
            None => properties,
        };
        // When it was given up: who looks at dead letters asks for their age.
        if self.routing_key == DEAD { properties.with_timestamp(now_s()) } else { properties }
    }
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

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
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
    pub fn new(args: &AmqpArgs, name: &str) -> Publisher {
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
    pub fn of_events(args: &AmqpArgs, name: &str) -> Publisher {
        Publisher { only_events: true, ..Publisher::new(args, name) }
    }

    /// Publishes all of them and waits for every confirm.
    ///
    /// # Errors
    /// When one of them is not known to be in a queue; publish all of them again.
    pub async fn publish(&self, messages: &[Outgoing]) -> Result<(), QueueError> {
        if messages.is_empty() {
            return Ok(());
        }
        let session = self.session().await?;
        let mut taken = Vec::with_capacity(messages.len());
        let published = session.publish(&self.topology, messages, &mut taken, PUBLISH_LIMIT).await;
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
            let published = session.publish(&self.topology, messages, &mut taken, limit).await;
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

    /// How many messages wait in the queue of a routing key.
    ///
    /// # Errors
    /// When the broker is away.
    pub async fn depth(&self, key: &str) -> Result<u32, QueueError> {
        let session = self.session().await?;
        let depth = session.depth(&self.topology, key).await;
        self.settle(session, depth).await
    }

    /// Closes the connection; a later call opens it again. Calls under way fail.
    pub async fn close(&self) {
        let session = self.session.lock().await.take();
        if let Some(session) = session {
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

    /// After an error the next call connects anew, and declares the topology: a queue may be what is
    /// missing.
    async fn settle<T>(
        &self,
        session: Arc<Session>,
        called: Result<T, QueueError>,
    ) -> Result<T, QueueError> {
        if called.is_err() {
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
        limit: Duration,
    ) -> Result<(), QueueError> {
        let _call = self.calls.acquire().await.expect("it is never closed");
        let channel = self.take_channel().await?;
        let sending = tokio::time::timeout(limit, send(&channel, topology, messages, taken));
        sending.await.unwrap_or(Err(QueueError::Silent(limit, "publishing")))?;
        self.put_back(channel);
        Ok(())
    }

    async fn depth(&self, topology: &Topology, key: &str) -> Result<u32, QueueError> {
        let _call = self.calls.acquire().await.expect("it is never closed");
        let channel = self.take_channel().await?;
        let depth = topology.depth(&channel, key).await?;
        self.put_back(channel);
        Ok(depth)
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
