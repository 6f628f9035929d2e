//! RabbitMQ: names, topology and connections.
//!
//! Owns the queues and what they promise: every queue is a durable quorum queue, every dead-letter
//! step is at-least-once. Names carry a version, because queue arguments can't be changed later.
//!
//! ```text
//! publish ──"work"──▶ exchange P ──▶ P.work.v1 ──▶ workers, in batches
//!                        │  ▲ ▲ └──▶ P.solo.v1 ──▶ workers, one message at a time
//!                        │  │ └───── P.retry.<ms>.v1 (expires back with its routing key)
//!                        ▼  └─ exchange P.retry ◀── "<ms>.work", "<ms>.solo"
//!                     P.dead.v1
//! ```

mod publisher;

use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};

pub use publisher::{Outgoing, Publisher};

/// The delays that a retry queue exists for, in milliseconds. Messages expire only at a queue's
/// head, so every queue has one delay. Halving steps let a wait be composed of a few of them.
pub const DELAYS_MS: [u32; 10] =
    [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000];

/// How often the broker redelivers from the work queue before it dead-letters by itself. Workers
/// move what is redelivered to the solo queue at once, so this only ends a loop of crashes so fast
/// that nobody lives to do it.
const DELIVERY_LIMIT: i32 = 1_000;

/// How long to wait for the broker's answer before the connection counts as lost.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Seconds between heartbeats, unless the URL says otherwise. The broker gives up on a silent
/// consumer, and delivers what it had to others, after about two of them.
const HEARTBEAT_S: u16 = 8;

/// The routing key of ordinary messages.
pub const WORK: &str = "work";
/// The routing key of messages that are processed alone.
pub const SOLO: &str = "solo";
/// The routing key of dead letters.
pub const DEAD: &str = "dead";

/// A failed broker operation; the connection is given up and made anew.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The broker or the network said no.
    #[error("RabbitMQ: {0}")]
    Broker(#[from] lapin::Error),
    /// `TANDEM_AMQP_URL` does not parse.
    #[error("TANDEM_AMQP_URL: {0}; write it like amqp://user:password@host:5672/%2f")]
    Url(String),
    /// Nothing came back in time: a half-open connection, or a blocked one.
    #[error("RabbitMQ: no answer within {0:?} to {1}")]
    Silent(Duration, &'static str),
    /// A message was not confirmed, or no queue took it.
    #[error("RabbitMQ: a message was not taken: {0}")]
    NotTaken(String),
}

/// The names of one ledger's queues and exchanges.
#[derive(Clone, Debug)]
pub struct Topology {
    prefix: String,
}

impl Topology {
    /// Names under a prefix.
    #[must_use]
    pub fn new(prefix: &str) -> Topology {
        Topology { prefix: prefix.to_owned() }
    }

    /// The exchange that producers publish to and retries come back through.
    #[must_use]
    pub fn exchange(&self) -> String {
        self.prefix.clone()
    }

    /// The exchange in front of the retry queues.
    #[must_use]
    pub fn retry_exchange(&self) -> String {
        format!("{}.retry", self.prefix)
    }

    /// The queue of a routing key: [`WORK`], [`SOLO`] or [`DEAD`].
    #[must_use]
    pub fn queue(&self, key: &str) -> String {
        format!("{}.{key}.v1", self.prefix)
    }

    fn retry_queue(&self, delay_ms: u32) -> String {
        format!("{}.retry.{delay_ms}.v1", self.prefix)
    }

    /// Declares everything. Safe to repeat, from any number of processes.
    ///
    /// # Errors
    /// When the broker is away, or a queue of that name exists with other arguments.
    pub async fn declare(&self, channel: &Channel) -> Result<(), QueueError> {
        answered("declaring the topology", self.declare_all(channel)).await
    }

    async fn declare_all(&self, channel: &Channel) -> Result<(), lapin::Error> {
        for exchange in [self.exchange(), self.retry_exchange()] {
            let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
            channel
                .exchange_declare(
                    exchange.into(),
                    ExchangeKind::Topic,
                    options,
                    FieldTable::default(),
                )
                .await?;
        }
        self.queue_and_binding(channel, &self.queue(DEAD), &self.exchange(), DEAD, quorum())
            .await?;
        for key in [WORK, SOLO] {
            let mut arguments = quorum();
            arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(DELIVERY_LIMIT));
            dead_letter_to(&mut arguments, &self.exchange(), Some(DEAD));
            // `#` also stands for nothing: it takes "work" and what comes back as "4000.work".
            let pattern = format!("#.{key}");
            self.queue_and_binding(
                channel,
                &self.queue(key),
                &self.exchange(),
                &pattern,
                arguments,
            )
            .await?;
        }
        for delay_ms in DELAYS_MS {
            let mut arguments = quorum();
            arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(delay_ms.into()));
            dead_letter_to(&mut arguments, &self.exchange(), None);
            let (queue, pattern) = (self.retry_queue(delay_ms), format!("{delay_ms}.*"));
            self.queue_and_binding(channel, &queue, &self.retry_exchange(), &pattern, arguments)
                .await?;
        }
        Ok(())
    }

    async fn queue_and_binding(
        &self,
        channel: &Channel,
        queue: &str,
        exchange: &str,
        pattern: &str,
        arguments: FieldTable,
    ) -> Result<(), lapin::Error> {
        channel.queue_declare(queue.into(), QueueDeclareOptions::durable(), arguments).await?;
        channel
            .queue_bind(
                queue.into(),
                exchange.into(),
                pattern.into(),
                QueueBindOptions::default(),
                FieldTable::default(),
            )
            .await
    }

    /// How many messages wait in the queue of a routing key. Also shows that channel and queue
    /// are alive: a channel that was closed may stay silent otherwise.
    ///
    /// # Errors
    /// When the channel or the queue is gone.
    pub async fn depth(&self, channel: &Channel, key: &str) -> Result<u32, QueueError> {
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        let declared =
            channel.queue_declare(self.queue(key).into(), options, FieldTable::default());
        Ok(answered("looking at the queue", declared).await?.message_count())
    }
}

fn quorum() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), long_string("quorum"));
    arguments
}

fn dead_letter_to(arguments: &mut FieldTable, exchange: &str, key: Option<&str>) {
    arguments.insert("x-dead-letter-exchange".into(), long_string(exchange));
    if let Some(key) = key {
        arguments.insert("x-dead-letter-routing-key".into(), long_string(key));
    }
    arguments.insert("x-dead-letter-strategy".into(), long_string("at-least-once"));
    arguments.insert("x-overflow".into(), long_string("reject-publish"));
}

fn long_string(text: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(text))
}

/// Waits for the broker's answer, but not for ever.
///
/// # Errors
/// The broker's own, or [`QueueError::Silent`].
pub async fn answered<T>(
    what: &'static str,
    answer: impl Future<Output = Result<T, lapin::Error>>,
) -> Result<T, QueueError> {
    match tokio::time::timeout(ANSWER_LIMIT, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(QueueError::Silent(ANSWER_LIMIT, what)),
    }
}

/// Opens a connection. `name` shows in the broker's management.
///
/// # Errors
/// When the broker is away, silent, or refuses the user, or the URL does not parse.
pub async fn connect(url: &str, name: &str) -> Result<Connection, QueueError> {
    let uri = parse_url(url)?;
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    answered("connecting", Connection::connect_uri(uri, properties)).await
}

/// Reads a connection string; call it early, so that a typing error is no endless wait.
///
/// # Errors
/// When it does not parse.
pub fn parse_url(url: &str) -> Result<AMQPUri, QueueError> {
    let mut uri: AMQPUri = url.parse().map_err(QueueError::Url)?;
    uri.query.heartbeat.get_or_insert(HEARTBEAT_S);
    Ok(uri)
}

/// The longest delay class that is not longer than the wish, so that a wait is composed of ever
/// shorter ones and ends within the shortest of the wished time.
#[must_use]
pub fn delay_class(wish: Duration) -> u32 {
    let fits = |delay: &&u32| Duration::from_millis((**delay).into()) <= wish;
    DELAYS_MS.iter().rev().find(fits).copied().unwrap_or(DELAYS_MS[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_never_longer_than_wished_but_for_the_shortest() {
        for (wish, expected) in [
            (0, 500),
            (499, 500),
            (500, 500),
            (1_999, 1_000),
            (14_000, 8_000),
            (9_999_999, 256_000),
        ] {
            assert_eq!(delay_class(Duration::from_millis(wish)), expected, "{wish} ms");
        }
    }
}
