//! A subscriber of outcome events, as a program of somebody else's is one.
//!
//! It speaks AMQP itself and knows nothing of Tandem but the exchange's name. Its queue lives as
//! long as the test. It keeps what it gets in the order in which it comes, repeats too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lapin::message::BasicGetMessage;
use lapin::options::{BasicAckOptions, BasicGetOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{Channel, Connection, ConnectionProperties};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::wait::eventually;
use crate::world::World;

/// An event as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// The property `message_id`.
    pub message_id: String,
    /// The property `content_type`.
    pub content_type: String,
    /// The routing key.
    pub routing_key: String,
    /// The headers, which are all texts.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Value,
}

/// A queue that is bound to the events of a ledger.
pub struct Subscriber {
    _connection: Connection,
    channel: Channel,
    queue: String,
    received: Mutex<Vec<Received>>,
}

impl Subscriber {
    /// Binds a queue of its own to these keys, with these arguments.
    ///
    /// # Panics
    /// When the broker is away.
    pub async fn with(world: &World, key: &str, arguments: FieldTable) -> Subscriber {
        let connection =
            Connection::connect(&world.servers.amqp_url, ConnectionProperties::default())
                .await
                .expect("the broker is there");
        world.queues.declare().await;
        let channel = connection.create_channel().await.expect("a channel");
        let queue = format!("{}.test.{}", world.name, uuid::Uuid::new_v4().simple());
        let options = QueueDeclareOptions { exclusive: true, ..Default::default() };
        let declared = channel.queue_declare(queue.as_str().into(), options, arguments).await;
        declared.expect("the queue is declared");
        let exchange = format!("{}.events", world.name);
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        let bound =
            channel.queue_bind(queue.as_str().into(), exchange.into(), key.into(), options, none);
        bound.await.expect("the queue is bound");
        Subscriber { _connection: connection, channel, queue, received: Mutex::default() }
    }

    /// Hears of every end.
    ///
    /// # Panics
    /// When the broker is away.
    pub async fn new(world: &World) -> Subscriber {
        Subscriber::with(world, "transaction.*", FieldTable::default()).await
    }

    /// One whose queue holds so many events, and then takes no more.
    ///
    /// # Panics
    /// When the broker is away.
    pub async fn full_after(world: &World, events: i64) -> Subscriber {
        let mut arguments = FieldTable::default();
        arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(events));
        let overflow = AMQPValue::LongString(LongString::from("reject-publish"));
        arguments.insert("x-overflow".into(), overflow);
        Subscriber::with(world, "transaction.*", arguments).await
    }

    /// Everything that has come so far.
    ///
    /// # Panics
    /// When the broker is away.
    pub async fn received(&self) -> Vec<Received> {
        let mut received = self.received.lock().await;
        loop {
            let get =
                self.channel.basic_get(self.queue.as_str().into(), BasicGetOptions::default());
            let Some(message) = get.await.expect("the queue is there") else { break };
            message.ack(BasicAckOptions::default()).await.expect("the channel is open");
            received.push(read(&message));
        }
        received.clone()
    }

    /// Waits until events of so many transactions have come, and returns all that has come.
    ///
    /// # Panics
    /// When they do not come in time.
    pub async fn of(&self, transactions: usize, limit: Duration) -> Vec<Received> {
        eventually(&format!("{transactions} events come"), limit, async || {
            let received = self.received().await;
            let ids: BTreeSet<_> = received.iter().map(|event| &event.message_id).collect();
            (ids.len() >= transactions).then_some(received)
        })
        .await
    }
}

fn read(message: &BasicGetMessage) -> Received {
    let properties = &message.delivery.properties;
    let header = |(name, value): (&lapin::types::ShortString, &AMQPValue)| match value {
        AMQPValue::LongString(text) => (name.to_string(), text.to_string()),
        other => panic!("the header {name} is no text: {other:?}"),
    };
    let headers = properties.headers().iter().flat_map(FieldTable::inner).map(header).collect();
    let text = |text: &Option<lapin::types::ShortString>| {
        text.as_ref().map(ToString::to_string).unwrap_or_default()
    };
    Received {
        message_id: text(properties.message_id()),
        content_type: text(properties.content_type()),
        routing_key: message.delivery.routing_key.to_string(),
        headers,
        body: serde_json::from_slice(&message.delivery.data).expect("the body is JSON"),
    }
}
