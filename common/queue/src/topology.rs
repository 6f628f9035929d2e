//! Queues and exchanges of one ledger.
//!
//! Promises that every queue is a durable quorum queue and every dead-letter step is
//! at-least-once. Names carry a version, because queue arguments can't be changed later. What is
//! missing is declared; where the user may not configure, it is only checked.
//!
//! ```text
//! publish ──"work"──▶ exchange P ──▶ P.work.v1 ──▶ workers, in batches
//!                        │  ▲ ▲ └──▶ P.solo.v1 ──▶ workers, one message at a time
//!                        │  │ └───── P.retry.<ms>.v1 (expires back with its routing key)
//!                        ▼  └─ exchange P.retry ◀── "<ms>.work", "<ms>.solo"
//!                     P.dead.v1
//!
//! where workers stand by for one another, also:
//! publish ──"turn"──▶ exchange P ──▶ P.turn.v1 ──▶ the one worker whose turn it is
//!
//! workers ──"transaction.done"──▶ exchange P.events ──▶ queues of subscribers
//! ```

use futures_util::TryFutureExt;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{Channel, Connection, ExchangeKind};

use super::{
    DEAD, DELAYS_MS, NOT_FOUND, PRECONDITION_FAILED, QueueError, SOLO, TURN, WORK, answered,
    channel, close_channel, code,
};

/// How often the broker redelivers from the work queue before it dead-letters by itself. Workers
/// move what was delivered three times to the solo queue, so this only ends a loop of crashes so
/// fast that nobody lives to do it.
const DELIVERY_LIMIT: i32 = 1_000;

/// How often a dead letter may be looked at. Each look is a delivery that is not acknowledged, and
/// from RabbitMQ 4.0 on a queue without a limit drops what was delivered 20 times.
const LOOKS_LIMIT: i32 = i32::MAX;

/// The names of one ledger's queues and exchanges.
#[derive(Clone, Debug)]
pub struct Topology {
    prefix: String,
}

/// A queue as it is declared.
struct Queue {
    name: String,
    exchange: String,
    pattern: String,
    arguments: FieldTable,
}

/// How full a queue is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Its routing key, or `retry.` and the delay in milliseconds.
    pub key: String,
    /// Its name.
    pub name: String,
    /// Messages that wait; those that were delivered are not counted.
    pub messages: u32,
    /// How many consume it.
    pub consumers: u32,
}

/// A declaration or a check that failed, and of what.
struct Failed {
    name: String,
    error: lapin::Error,
}

impl Failed {
    fn declaring(self) -> QueueError {
        match code(&self.error) {
            Some(PRECONDITION_FAILED) => QueueError::Differs { name: self.name, said: self.error },
            // A queue whose node is down is not found, too, and comes back with it.
            Some(_) | None => self.error.into(),
        }
    }

    fn checking(self) -> QueueError {
        match code(&self.error) {
            Some(NOT_FOUND) => QueueError::Missing { name: self.name, said: self.error },
            Some(_) | None => self.error.into(),
        }
    }
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

    /// The exchange to which workers publish outcome events.
    #[must_use]
    pub fn events_exchange(&self) -> String {
        format!("{}.events", self.prefix)
    }

    /// The queue of a program that listens to events.
    pub(super) fn listener(&self, unique: &str) -> String {
        format!("{}.events.{unique}", self.prefix)
    }

    /// The queue of a routing key: [`WORK`], [`SOLO`], [`DEAD`] or [`TURN`].
    #[must_use]
    pub fn queue(&self, key: &str) -> String {
        format!("{}.{key}.v1", self.prefix)
    }

    /// Declares what is missing. Safe to repeat, from any number of processes. A user who may not
    /// configure gets it checked only; bindings can't be checked.
    ///
    /// # Errors
    /// When the broker is away, something exists with other arguments, or is missing and can't be
    /// declared.
    pub async fn declare(&self, connection: &Connection) -> Result<(), QueueError> {
        ensure(connection, &self.exchanges(), &self.queues()).await
    }

    /// The same for the exchange of events only.
    ///
    /// # Errors
    /// As [`Topology::declare`].
    pub async fn declare_events(&self, connection: &Connection) -> Result<(), QueueError> {
        ensure(connection, &[self.events_exchange()], &[]).await
    }

    /// Declares the queue of the turn, with a single active consumer: the broker delivers to one
    /// consumer only, and to the next one when that one is gone.
    ///
    /// # Errors
    /// As [`Topology::declare`].
    pub async fn declare_turn(&self, connection: &Connection) -> Result<(), QueueError> {
        let mut arguments = quorum();
        arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
        // Each death of a worker is a delivery that was not acknowledged.
        let turn = self.looked_at(TURN, arguments);
        ensure(connection, &[self.exchange()], &[turn]).await
    }

    /// The queue of a key whose messages may come again any number of times.
    fn looked_at(&self, key: &str, mut arguments: FieldTable) -> Queue {
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(LOOKS_LIMIT));
        let (name, exchange) = (self.queue(key), self.exchange());
        Queue { name, exchange, pattern: key.to_owned(), arguments }
    }

    fn exchanges(&self) -> [String; 3] {
        [self.exchange(), self.retry_exchange(), self.events_exchange()]
    }

    fn queues(&self) -> Vec<Queue> {
        let dead = self.looked_at(DEAD, quorum());
        let working = [WORK, SOLO].map(|key| {
            let mut arguments = quorum();
            arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(DELIVERY_LIMIT));
            dead_letter_to(&mut arguments, &self.exchange(), Some(DEAD));
            Queue {
                name: self.queue(key),
                exchange: self.exchange(),
                // `#` also stands for nothing: it takes "work" and what comes back as "4000.work".
                pattern: format!("#.{key}"),
                arguments,
            }
        });
        let retrying = DELAYS_MS.map(|delay_ms| {
            let mut arguments = quorum();
            arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(delay_ms.into()));
            dead_letter_to(&mut arguments, &self.exchange(), None);
            Queue {
                name: format!("{}.retry.{delay_ms}.v1", self.prefix),
                exchange: self.retry_exchange(),
                pattern: format!("{delay_ms}.*"),
                arguments,
            }
        });
        [dead].into_iter().chain(working).chain(retrying).collect()
    }

    /// How many messages wait in the queue of a routing key. Also shows that channel and queue
    /// are alive: a channel that was closed may stay silent otherwise.
    ///
    /// # Errors
    /// When the channel or the queue is gone.
    pub async fn depth(&self, channel: &Channel, key: &str) -> Result<u32, QueueError> {
        Ok(self.look(channel, key).await?.message_count())
    }

    /// All queues of the ledger: the work queue, the solo queue, those for retries by their delay,
    /// and that of dead letters.
    pub(super) fn keys() -> Vec<String> {
        let retrying = DELAYS_MS.iter().map(|delay_ms| format!("retry.{delay_ms}"));
        let first = [WORK, SOLO].into_iter().map(str::to_owned);
        first.chain(retrying).chain([DEAD.to_owned()]).collect()
    }

    /// How many messages wait in each queue, and how many consume it.
    pub(super) async fn levels(&self, channel: &Channel) -> Result<Vec<Level>, QueueError> {
        let mut levels = Vec::new();
        for key in Topology::keys() {
            let queue = self.look(channel, &key).await?;
            let (messages, consumers) = (queue.message_count(), queue.consumer_count());
            levels.push(Level { name: self.queue(&key), key, messages, consumers });
        }
        Ok(levels)
    }

    /// How many consume the queue of a routing key. Shows the same as [`depth`](Self::depth).
    ///
    /// # Errors
    /// When the channel or the queue is gone.
    pub async fn consumers(&self, channel: &Channel, key: &str) -> Result<u32, QueueError> {
        Ok(self.look(channel, key).await?.consumer_count())
    }

    async fn look(&self, channel: &Channel, key: &str) -> Result<lapin::Queue, QueueError> {
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        let declared =
            channel.queue_declare(self.queue(key).into(), options, FieldTable::default());
        answered("looking at the queue", declared).await
    }
}

/// Declares what is missing, or checks that it is there where the user may not declare.
async fn ensure(
    connection: &Connection,
    exchanges: &[String],
    queues: &[Queue],
) -> Result<(), QueueError> {
    let declaring = channel(connection).await?;
    let declared = declare_all(&declaring, exchanges, queues).map_err(Failed::declaring);
    match answered("declaring the topology", declared).await {
        Ok(()) => {
            close_channel(&declaring).await;
            Ok(())
        }
        // The refusal has closed the channel.
        Err(QueueError::Refused(error)) => {
            tracing::debug!(%error, "may not declare; checking what is there");
            let checking = channel(connection).await?;
            let checked = check_all(&checking, exchanges, queues).map_err(Failed::checking);
            answered("checking the topology", checked).await?;
            close_channel(&checking).await;
            Ok(())
        }
        Err(error) => Err(error),
    }
}

async fn declare_all(
    channel: &Channel,
    exchanges: &[String],
    queues: &[Queue],
) -> Result<(), Failed> {
    for name in exchanges {
        let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
        declare_exchange(channel, name, options).await?;
    }
    for Queue { name, exchange, pattern, arguments } in queues {
        declare_queue(channel, name, QueueDeclareOptions::durable(), arguments.clone()).await?;
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        let (queue, exchange) = (name.as_str().into(), exchange.as_str().into());
        let bound = channel.queue_bind(queue, exchange, pattern.as_str().into(), options, none);
        bound.await.map_err(|error| Failed { name: name.clone(), error })?;
    }
    Ok(())
}

/// A passive declaration asks for no right, and compares nothing but the name.
async fn check_all(
    channel: &Channel,
    exchanges: &[String],
    queues: &[Queue],
) -> Result<(), Failed> {
    for name in exchanges {
        let options = ExchangeDeclareOptions { passive: true, ..Default::default() };
        declare_exchange(channel, name, options).await?;
    }
    for queue in queues {
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        declare_queue(channel, &queue.name, options, FieldTable::default()).await?;
    }
    Ok(())
}

async fn declare_exchange(
    channel: &Channel,
    name: &str,
    options: ExchangeDeclareOptions,
) -> Result<(), Failed> {
    let (kind, arguments) = (ExchangeKind::Topic, FieldTable::default());
    let declared = channel.exchange_declare(name.into(), kind, options, arguments).await;
    declared.map_err(|error| Failed { name: name.to_owned(), error })
}

async fn declare_queue(
    channel: &Channel,
    name: &str,
    options: QueueDeclareOptions,
    arguments: FieldTable,
) -> Result<(), Failed> {
    match channel.queue_declare(name.into(), options, arguments).await {
        Ok(_) => Ok(()),
        Err(error) => Err(Failed { name: name.to_owned(), error }),
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

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::limits::{AMQP_NAME_BYTES_MAX, QUEUE_PREFIX_BYTES_MAX};

    #[test]
    fn every_queue_has_a_key() {
        let topology = Topology::new("t");
        let mut declared: Vec<_> = topology.queues().into_iter().map(|queue| queue.name).collect();
        let mut named: Vec<_> = Topology::keys().iter().map(|key| topology.queue(key)).collect();
        declared.sort();
        named.sort();
        assert_eq!(named, declared);
    }

    #[test]
    fn the_longest_prefix_makes_names_that_amqp_takes() {
        let topology = Topology::new(&"q".repeat(QUEUE_PREFIX_BYTES_MAX));
        let queues = topology.queues().into_iter().map(|queue| queue.name);
        for name in topology.exchanges().into_iter().chain(queues) {
            assert!(name.len() <= AMQP_NAME_BYTES_MAX, "{name}");
        }
    }
}
