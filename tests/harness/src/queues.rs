//! The broker's side as a test sees it: raw messages, dead letters, queues that vanish.
//!
//! Every call has a connection of its own: tests call rarely, and a call that closes its channel
//! must not affect another.

use std::time::Duration;

use lapin::message::BasicGetMessage;
use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions,
    ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection};
use queue::{DEAD, DELAYS_MS, QueueError, SOLO, TURN, Topology, WORK};

use crate::wait::{eventually, s, wait_until};

/// One ledger's queues.
pub struct Queues {
    url: String,
    topology: Topology,
}

/// A message from the dead-letter queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The header `tandem-reason`.
    pub reason: Option<String>,
    /// The body, byte by byte.
    pub body: Vec<u8>,
}

impl Queues {
    /// The queues of a prefix.
    #[must_use]
    pub fn new(url: &str, prefix: &str) -> Queues {
        Queues { url: url.to_owned(), topology: Topology::new(prefix) }
    }

    async fn connect(&self) -> Result<(Connection, Channel), QueueError> {
        let connection = queue::connect(&self.url, "test").await?;
        let channel = connection.create_channel().await?;
        Ok((connection, channel))
    }

    /// A connection to a broker that is there; a busy machine may need longer than a worker's limit.
    async fn open(&self) -> (Connection, Channel) {
        eventually("the broker takes a connection", s(30), async || self.connect().await.ok()).await
    }

    /// Publishes a body unchanged to the queue of a routing key, with a confirm.
    ///
    /// # Panics
    /// When the broker does not take it.
    pub async fn publish_raw(&self, key: &str, body: &[u8]) {
        self.publish(key, body, BasicProperties::default()).await;
    }

    /// Publishes a body with these headers to the work queue.
    ///
    /// # Panics
    /// When the broker does not take it.
    pub async fn publish_with(&self, headers: FieldTable, body: &[u8]) {
        self.publish(WORK, body, BasicProperties::default().with_headers(headers)).await;
    }

    async fn publish(&self, key: &str, body: &[u8], properties: BasicProperties) {
        let (_connection, channel) = self.open().await;
        let published = self.publish_on(&channel, key, body, properties);
        published.await.expect("the broker takes it");
    }

    /// The same, for a broker that may be away.
    ///
    /// # Errors
    /// When it is.
    pub async fn try_publish_raw(&self, key: &str, body: &[u8]) -> Result<(), QueueError> {
        let (_connection, channel) = self.connect().await?;
        self.publish_on(&channel, key, body, BasicProperties::default()).await
    }

    async fn publish_on(
        &self,
        channel: &Channel,
        key: &str,
        body: &[u8],
        properties: BasicProperties,
    ) -> Result<(), QueueError> {
        const PERSISTENT: u8 = 2;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let properties = properties.with_delivery_mode(PERSISTENT);
        let exchange = self.topology.exchange();
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let exchange = exchange.as_str().into();
        let publishing = channel.basic_publish(exchange, key.into(), options, body, properties);
        match publishing.await?.await?.is_nack() {
            true => Err(QueueError::NotTaken("the broker refused it".to_owned())),
            false => Ok(()),
        }
    }

    /// Takes the binding of a queue away, as somebody does in the broker's management.
    ///
    /// # Panics
    /// When the broker is away.
    pub async fn unbind(&self, key: &str) {
        let (connection, channel) = self.open().await;
        let (queue, exchange) = (self.topology.queue(key), self.topology.exchange());
        let (queue, exchange, none) = (queue.into(), exchange.into(), FieldTable::default());
        channel.queue_unbind(queue, exchange, key.into(), none).await.expect("it is unbound");
        queue::close(&connection).await;
    }

    /// Whether a queue is bound for what is published with a routing key. Publishes a message.
    ///
    /// # Panics
    /// When the broker is away.
    pub async fn takes(&self, key: &str) -> bool {
        let (connection, channel) = self.open().await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("the channel is open");
        let (exchange, properties) = (self.topology.exchange(), BasicProperties::default());
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let sent = channel.basic_publish(exchange.into(), key.into(), options, b"x", properties);
        let confirmed = sent.await.expect("the channel is open").await.expect("an answer");
        queue::close(&connection).await;
        matches!(confirmed, Confirmation::Ack(None))
    }

    /// Publishes many bodies unchanged to the queue of a routing key, a few at once.
    ///
    /// # Panics
    /// When the broker does not take them.
    pub async fn publish_all_raw(&self, key: &str, bodies: &[Vec<u8>]) {
        const AT_ONCE: usize = 16;
        let (connection, channel) = self.open().await;
        let confirms = channel.confirm_select(ConfirmSelectOptions::default()).await;
        confirms.expect("the channel is open");
        let exchange = self.topology.exchange();
        for bodies in bodies.chunks(AT_ONCE) {
            let mut confirms = Vec::new();
            for body in bodies {
                let (options, properties) =
                    (BasicPublishOptions::default(), BasicProperties::default());
                let (exchange, key) = (exchange.as_str().into(), key.into());
                let sent = channel.basic_publish(exchange, key, options, body, properties).await;
                confirms.push(sent.expect("the channel is open"));
            }
            for confirm in confirms {
                assert!(!confirm.await.expect("an answer").is_nack(), "the broker refused it");
            }
        }
        queue::close(&connection).await;
    }

    /// Takes so many messages of a queue and goes away without an acknowledgement, as a worker that
    /// dies.
    ///
    /// # Panics
    /// When there are fewer, or the broker is away.
    pub async fn deliver_and_die(&self, key: &str, count: usize) {
        let taken = self.deliver_to(self.open().await, key, count).await;
        let taken = taken.expect("the broker is there");
        assert_eq!(taken, count, "messages in {key}");
    }

    /// The same with at most so many, for a broker that may be away; returns how many there were.
    ///
    /// # Errors
    /// When it is.
    pub async fn try_deliver_and_die(&self, key: &str, most: usize) -> Result<usize, QueueError> {
        self.deliver_to(self.connect().await?, key, most).await
    }

    async fn deliver_to(
        &self,
        (connection, channel): (Connection, Channel),
        key: &str,
        most: usize,
    ) -> Result<usize, QueueError> {
        let (queue, mut taken) = (self.topology.queue(key), 0);
        while taken < most {
            let got = channel.basic_get(queue.as_str().into(), BasicGetOptions::default()).await?;
            if got.is_none() {
                break;
            }
            taken += 1;
        }
        queue::close(&connection).await;
        Ok(taken)
    }

    /// Waits for so many dead letters, takes them out and returns them.
    ///
    /// # Panics
    /// When there are fewer within `limit`.
    pub async fn dead_letters(&self, count: usize, limit: Duration) -> Vec<DeadLetter> {
        let letters = self.dead_letters_and_headers(count, limit).await;
        letters.into_iter().map(|(letter, _)| letter).collect()
    }

    /// The same, each with the text headers as bytes.
    ///
    /// # Panics
    /// When there are fewer within `limit`.
    pub async fn dead_letters_and_headers(
        &self,
        count: usize,
        limit: Duration,
    ) -> Vec<(DeadLetter, usize)> {
        let (_connection, channel) = self.open().await;
        let mut letters = Vec::new();
        while letters.len() < count {
            let what = format!("dead letter {} of {count} comes", letters.len() + 1);
            letters.push(eventually(&what, limit, async || self.take(&channel, DEAD).await).await);
        }
        letters
    }

    async fn take(&self, channel: &Channel, key: &str) -> Option<(DeadLetter, usize)> {
        let queue = self.topology.queue(key);
        let got = channel.basic_get(queue.as_str().into(), BasicGetOptions::default()).await;
        let message = got.expect("the queue is there")?;
        message.ack(BasicAckOptions::default()).await.expect("the channel is open");
        let bytes = texts(&message).map(|(_, text)| text.len()).sum();
        Some((DeadLetter { reason: reason(&message), body: message.delivery.data }, bytes))
    }

    /// How many messages wait in a queue; `None` when it, or the broker, is away.
    pub async fn depth(&self, key: &str) -> Option<u32> {
        let (_connection, channel) = self.connect().await.ok()?;
        self.topology.depth(&channel, key).await.ok()
    }

    /// Waits until so many messages wait in a queue: a broker tells the depth as it was a moment
    /// ago.
    ///
    /// # Panics
    /// When there are more or fewer within `limit`.
    pub async fn wait_depth(&self, key: &str, messages: u32, limit: Duration) {
        let what = format!("{messages} messages wait in {key}");
        wait_until(&what, limit, async || self.depth(key).await == Some(messages)).await;
    }

    /// How many messages wait in a queue of a subscriber's, by what follows the prefix in its name.
    pub async fn depth_named(&self, name: &str) -> Option<u32> {
        let (_connection, channel) = self.connect().await.ok()?;
        let queue = format!("{}.{name}", self.topology.exchange());
        let passive = QueueDeclareOptions { passive: true, ..Default::default() };
        let declared = channel.queue_declare(queue.into(), passive, FieldTable::default()).await;
        Some(declared.ok()?.message_count())
    }

    /// Whether the broker accepts a login.
    pub async fn answers(&self) -> bool {
        self.connect().await.is_ok()
    }

    /// How many consumers the work queue has; `None` when it, or the broker, is away.
    pub async fn consumers(&self) -> Option<u32> {
        let (_connection, channel) = self.connect().await.ok()?;
        let passive = QueueDeclareOptions { passive: true, ..Default::default() };
        let queue = self.topology.queue(WORK);
        let declared = channel.queue_declare(queue.into(), passive, FieldTable::default()).await;
        Some(declared.ok()?.consumer_count())
    }

    /// Deletes the queue of a routing key with everything in it.
    ///
    /// # Panics
    /// When the broker is away.
    pub async fn delete(&self, key: &str) {
        let (_connection, channel) = self.open().await;
        self.delete_on(&channel, key).await.expect("the broker deletes it");
    }

    /// The same, for a broker that may be away.
    ///
    /// # Errors
    /// When it is.
    pub async fn try_delete(&self, key: &str) -> Result<(), QueueError> {
        let (_connection, channel) = self.connect().await?;
        self.delete_on(&channel, key).await
    }

    async fn delete_on(&self, channel: &Channel, key: &str) -> Result<(), QueueError> {
        let queue = self.topology.queue(key);
        channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await?;
        Ok(())
    }

    /// Declares a subscriber's durable queue, with a name that begins with the prefix, and binds it
    /// to events.
    ///
    /// # Panics
    /// When the broker is away.
    pub async fn bind_named(&self, name: &str, key: &str) {
        let (_connection, channel) = self.open().await;
        let queue = format!("{}.{name}", self.topology.exchange());
        let mut quorum = FieldTable::default();
        quorum.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        let durable = QueueDeclareOptions { durable: true, ..Default::default() };
        let declared = channel.queue_declare(queue.as_str().into(), durable, quorum).await;
        declared.expect("the broker declares it");
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        let exchange = self.topology.events_exchange();
        let bound = channel.queue_bind(queue.into(), exchange.into(), key.into(), options, none);
        bound.await.expect("the broker binds it");
    }

    /// Deletes a queue of a subscriber's, if it is there, by what follows the prefix in its name.
    ///
    /// # Panics
    /// When the broker is away.
    pub async fn delete_named(&self, name: &str) {
        let (_connection, channel) = self.open().await;
        let queue = format!("{}.{name}", self.topology.exchange());
        let deleted = channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await;
        deleted.expect("the broker deletes it");
    }

    /// Declares whatever is missing.
    ///
    /// # Panics
    /// When the broker is away.
    pub async fn declare(&self) {
        let what = "the broker declares what is missing";
        eventually(what, s(30), async || self.try_declare().await.ok()).await;
    }

    /// The same, for a broker that may be away.
    ///
    /// # Errors
    /// When it is.
    pub async fn try_declare(&self) -> Result<(), QueueError> {
        let (connection, _channel) = self.connect().await?;
        self.topology.declare(&connection).await
    }

    /// Deletes the queue of a routing key with everything in it, and declares it anew at once.
    ///
    /// # Panics
    /// When the broker is away.
    pub async fn replace(&self, key: &str) {
        let what = "the broker deletes and declares it";
        eventually(what, s(30), async || self.try_replace(key).await.ok()).await;
    }

    /// The same, for a broker that may be away.
    ///
    /// # Errors
    /// When it is.
    pub async fn try_replace(&self, key: &str) -> Result<(), QueueError> {
        let (connection, channel) = self.connect().await?;
        self.delete_on(&channel, key).await?;
        self.topology.declare(&connection).await
    }

    /// Deletes everything of this ledger.
    ///
    /// # Panics
    /// When the broker is away.
    pub async fn delete_all(&self) {
        let (_connection, channel) = self.open().await;
        let retries = DELAYS_MS.iter().map(|delay_ms| format!("retry.{delay_ms}"));
        for key in [WORK, SOLO, DEAD, TURN].map(str::to_owned).into_iter().chain(retries) {
            self.delete_on(&channel, &key).await.expect("the broker deletes it");
        }
        let topology = &self.topology;
        for exchange in [topology.exchange(), topology.retry_exchange(), topology.events_exchange()]
        {
            let options = ExchangeDeleteOptions::default();
            channel.exchange_delete(exchange.into(), options).await.expect("it is deleted");
        }
    }
}

/// The headers that are text, by name.
fn texts(message: &BasicGetMessage) -> impl Iterator<Item = (&str, String)> {
    let headers = message.delivery.properties.headers().iter().flat_map(FieldTable::inner);
    headers.filter_map(|(name, value)| match value {
        AMQPValue::LongString(text) => Some((name.as_str(), text.to_string())),
        _ => None,
    })
}

fn reason(message: &BasicGetMessage) -> Option<String> {
    texts(message).find_map(|(name, text)| (name == "tandem-reason").then_some(text))
}
