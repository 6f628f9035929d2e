//! Hearing of outcome events: a queue of one's own, for as long as one listens.
//!
//! Owns a connection and an exclusive queue that ends with it. Promises that every event that the
//! broker takes from the moment [`Subscription::open`] returns comes through until the connection
//! ends; what comes between two subscriptions is in neither. Fails with the broker's error; then
//! open another one.

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicQosOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Acker, Connection, Consumer};
use settings::AmqpSettings;

use super::{EVENT_KEY, QueueError, Topology, answered, channel, close, connect};

/// How many events the broker sends ahead.
const AHEAD: u16 = 1_000;

/// One listener.
pub struct Subscription {
    connection: Connection,
    consumer: Consumer,
    /// The last event, which is acknowledged when the next one is asked for.
    last: Option<Acker>,
}

impl Subscription {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the broker is away, or does not let this user listen.
    pub async fn open(args: &AmqpSettings, name: &str) -> Result<Subscription, QueueError> {
        let topology = Topology::new(&args.queue_prefix);
        let connection = connect(&args.amqp_url, &format!("{name} events")).await?;
        topology.declare_events(&connection).await?;
        let channel = channel(&connection).await?;
        // A name of the ledger's, since a user may be allowed to declare only those.
        let queue = topology.listener(&format!("{:032x}", rand::random::<u128>()));
        let (own, none) =
            (QueueDeclareOptions { exclusive: true, ..Default::default() }, FieldTable::default);
        answered("declaring a queue", channel.queue_declare(queue.as_str().into(), own, none()))
            .await?;
        let (exchange, key) = (topology.events_exchange(), format!("{EVENT_KEY}.*"));
        let options = QueueBindOptions::default();
        let bound =
            channel.queue_bind(queue.as_str().into(), exchange.into(), key.into(), options, none());
        answered("binding a queue", bound).await?;
        answered("limiting what comes", channel.basic_qos(AHEAD, BasicQosOptions::default()))
            .await?;
        let options = BasicConsumeOptions { exclusive: true, ..Default::default() };
        let consuming = channel.basic_consume(queue.as_str().into(), "".into(), options, none());
        let consumer = answered("listening", consuming).await?;
        Ok(Subscription { connection, consumer, last: None })
    }

    /// The body of the next event. `None` when the broker has ended the queue. A call may be
    /// dropped without losing an event.
    ///
    /// # Errors
    /// When the connection is lost.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, QueueError> {
        if let Some(last) = &self.last {
            last.ack(BasicAckOptions::default()).await?;
            self.last = None;
        }
        let Some(delivered) = self.consumer.next().await else { return Ok(None) };
        let Delivery { data, acker, .. } = delivered?;
        self.last = Some(acker);
        Ok(Some(data))
    }

    /// Ends it.
    pub async fn close(self) {
        close(&self.connection).await;
    }
}
