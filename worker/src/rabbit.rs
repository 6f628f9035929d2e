//! The broker of the real world: RabbitMQ for deliveries, the outbox in MongoDB for parking.
//!
//! Promises that a publication is tried again while the broker is briefly away, and that nothing
//! takes for ever: on a connection that died, the client's acknowledgement may never resolve.
//! Fails with the last error; a failed acknowledgement is only logged, because the delivery comes
//! again.

use std::sync::Arc;
use std::time::Duration;

use common::ledger::LedgerError;
use common::mongo::MongoOutbox;
use common::queue::{Outgoing, Publisher, QueueError, answered};
use common::retry::Reconnect;
use common::transaction::TransactionId;
use lapin::Acker;
use lapin::options::{BasicAckOptions, BasicNackOptions};

use crate::acknowledge::{Broker, Parking};

/// How often a publication is tried before its delivery is nacked.
const PUBLISH_TRIES: u32 = 4;

/// RabbitMQ as the acknowledger sees it.
pub struct Rabbit {
    publisher: Arc<Publisher>,
}

impl Rabbit {
    /// A broker that publishes through `publisher`.
    #[must_use]
    pub fn new(publisher: Arc<Publisher>) -> Rabbit {
        Rabbit { publisher }
    }
}

impl Broker for Rabbit {
    type Receipt = Acker;

    async fn publish(&self, messages: &[Outgoing]) -> Result<(), QueueError> {
        let (mut attempt, mut reconnect) = (1, Reconnect::default());
        loop {
            match self.publisher.publish(messages).await {
                Err(error) if attempt < PUBLISH_TRIES => {
                    tracing::debug!(%error, attempt, "publishing again");
                    tokio::time::sleep(reconnect.wait().min(Duration::from_secs(1))).await;
                    attempt += 1;
                }
                published => return published,
            }
        }
    }

    async fn ack(&self, receipt: &Acker) {
        match answered("acknowledging", receipt.ack(BasicAckOptions::default())).await {
            Ok(true) => {}
            Ok(false) => tracing::debug!("too late to acknowledge; it will be delivered again"),
            Err(error) => tracing::debug!(%error, "acknowledging"),
        }
    }

    async fn nack(&self, receipt: &Acker) {
        let options = BasicNackOptions { requeue: true, ..Default::default() };
        if let Err(error) = answered("nacking", receipt.nack(options)).await {
            tracing::debug!(%error, "nacking");
        }
    }
}

impl Parking for MongoOutbox {
    async fn park_killers(&self, ids: &[TransactionId]) -> Result<(), LedgerError> {
        MongoOutbox::park_killers(self, ids).await
    }
}
