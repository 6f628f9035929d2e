//! Publishing with confirms.
//!
//! Owns one connection, made anew when it fails, and declares the topology with it. Promises that
//! `Ok` means every message is in a queue on disk; `Err` means that any of them may be or not be,
//! so the caller publishes all of them again: duplicates are harmless.

use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{BasicProperties, Channel, Confirmation, Connection};
use tokio::sync::Mutex;

use super::{DEAD, QueueError, SOLO, Topology, WORK, answered, channel, connect, delay_class};
use crate::config::AmqpArgs;
use crate::limits::echo;
use crate::message::Message;

/// How long one call may take; a blocked connection would hold it for ever.
const PUBLISH_LIMIT: Duration = Duration::from_secs(30);

/// A message on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Through the retry exchange rather than the main one.
    delayed: bool,
    routing_key: String,
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
        Outgoing { delayed: true, ..Outgoing::direct(&routing_key, message.to_bytes()) }
    }

    /// A dead letter: the body as it came, with the reason beside it. The detail is cut: headers
    /// that do not fit one frame would close the connection.
    #[must_use]
    pub fn dead(body: Vec<u8>, reason: &str, detail: &str) -> Outgoing {
        let detail = echo(detail).into_owned();
        let headers = vec![("tandem-reason", reason.to_owned()), ("tandem-detail", detail)];
        Outgoing { headers, ..Outgoing::direct(DEAD, body) }
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
            Some((delay, key)) if self.delayed => (key, delay.parse().ok()),
            _ => (&self.routing_key, None),
        }
    }

    fn direct(routing_key: &str, body: Vec<u8>) -> Outgoing {
        Outgoing { delayed: false, routing_key: routing_key.to_owned(), body, headers: vec![] }
    }

    fn properties(&self) -> BasicProperties {
        const PERSISTENT: u8 = 2;
        let mut headers = FieldTable::default();
        for (name, value) in &self.headers {
            headers.insert((*name).into(), AMQPValue::LongString(LongString::from(value.as_str())));
        }
        BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_content_type("application/json".into())
            .with_headers(headers)
    }
}

struct Session {
    connection: Connection,
    channel: Channel,
}

/// See the module.
pub struct Publisher {
    url: String,
    topology: Topology,
    name: String,
    // Held for a whole call: a returned message attaches to any confirm of its channel, so two
    // calls at once could not tell whose message found no queue.
    session: Mutex<Option<Session>>,
}

impl Publisher {
    /// A publisher that connects when it is first used.
    #[must_use]
    pub fn new(args: &AmqpArgs, name: &str) -> Publisher {
        Publisher {
            url: args.amqp_url.clone(),
            topology: Topology::new(&args.queue_prefix),
            name: name.to_owned(),
            session: Mutex::new(None),
        }
    }

    /// Publishes all of them and waits for every confirm.
    ///
    /// # Errors
    /// When one of them is not known to be in a queue; publish all of them again.
    pub async fn publish(&self, messages: &[Outgoing]) -> Result<(), QueueError> {
        if messages.is_empty() {
            return Ok(());
        }
        let mut session = self.session.lock().await;
        let published = match session.take() {
            Some(open) => Ok(open),
            None => self.open().await,
        };
        let open = published?;
        // While the session is taken out, a cancelled caller leaves a fresh start behind.
        let sent = tokio::time::timeout(PUBLISH_LIMIT, self.send(&open.channel, messages)).await;
        match sent.unwrap_or(Err(QueueError::Silent(PUBLISH_LIMIT, "publishing"))) {
            Ok(()) => {
                *session = Some(open);
                Ok(())
            }
            Err(error) => {
                close(open).await;
                Err(error)
            }
        }
    }

    /// Connects and declares the topology, if not yet done.
    ///
    /// # Errors
    /// When the broker is away.
    pub async fn ensure(&self) -> Result<(), QueueError> {
        let mut session = self.session.lock().await;
        if session.as_ref().is_none_or(|open| !open.connection.status().connected()) {
            *session = None;
            *session = Some(self.open().await?);
        }
        Ok(())
    }

    /// How many messages wait in the queue of a routing key.
    ///
    /// # Errors
    /// When the broker is away.
    pub async fn depth(&self, key: &str) -> Result<u32, QueueError> {
        let mut session = self.session.lock().await;
        let open = match session.take() {
            Some(open) => open,
            None => self.open().await?,
        };
        let depth = self.topology.depth(&open.channel, key).await;
        match depth {
            Ok(_) => *session = Some(open),
            Err(_) => close(open).await,
        }
        depth
    }

    /// Closes the connection; a later call opens it again.
    pub async fn close(&self) {
        if let Some(open) = self.session.lock().await.take() {
            close(open).await;
        }
    }

    async fn open(&self) -> Result<Session, QueueError> {
        let connection = connect(&self.url, &self.name).await?;
        self.topology.declare(&connection).await?;
        let channel = channel(&connection).await?;
        answered("asking for confirms", channel.confirm_select(ConfirmSelectOptions::default()))
            .await?;
        Ok(Session { connection, channel })
    }

    async fn send(&self, channel: &Channel, messages: &[Outgoing]) -> Result<(), QueueError> {
        let (main, retry) = (self.topology.exchange(), self.topology.retry_exchange());
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let mut confirms = Vec::with_capacity(messages.len());
        for message in messages {
            let exchange = if message.delayed { &retry } else { &main };
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
            match confirm.await? {
                Confirmation::Ack(None) => {}
                Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned)) => {
                    return Err(QueueError::NotTaken(returned.reply_text.to_string()));
                }
                Confirmation::Nack(None) => {
                    return Err(QueueError::NotTaken("the broker refused it".into()));
                }
                Confirmation::NotRequested => {
                    return Err(QueueError::NotTaken("the channel has no confirms".into()));
                }
            }
        }
        Ok(())
    }
}

/// Says goodbye if the broker still listens. A lost connection is simply dropped.
async fn close(session: Session) {
    let goodbye = session.connection.close(200, "done".into());
    if let Err(error) = answered("closing", goodbye).await {
        tracing::debug!(%error, "the connection was already gone");
    }
}
