//! The broker of the real world: RabbitMQ for deliveries, the outbox in MongoDB for parking.
//!
//! Promises that an acknowledgement does not take for ever: on a connection that died, the client's
//! answer may never come. A failed acknowledgement is only logged, because the delivery comes
//! again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lapin::options::{BasicAckOptions, BasicNackOptions};
use queue::{Outgoing, QueueError, answered};

use crate::acknowledge::Broker;
use crate::deliveries::{Acknowledge, Deliveries, Patience, Receipt};
use crate::publications::Publications;

/// How long many acknowledgements wait for those of earlier deliveries: as long as settlements wait
/// for a ride. A batch that takes longer must not keep the broker from delivering more.
const BEHIND_OTHERS: Duration = Duration::from_secs(1);

/// RabbitMQ as the acknowledger sees it.
pub struct Rabbit {
    room: Arc<Publications>,
}

impl Rabbit {
    /// A broker to which publications go through `publications`.
    #[must_use]
    pub fn new(room: Arc<Publications>) -> Rabbit {
        Rabbit { room }
    }
}

impl Broker for Rabbit {
    type Receipt = Receipt;

    async fn publish(&self, messages: &[Outgoing]) -> Result<(), QueueError> {
        self.room.publish(messages).await
    }

    async fn ack(&self, receipts: &[&Receipt]) {
        let same_channel =
            |one: &&Receipt, other: &&Receipt| Arc::ptr_eq(&one.channel, &other.channel);
        // A channel's deliveries come one after the other, so most batches are of one channel.
        join_all(receipts.chunk_by(same_channel).map(ack_on_channel)).await;
    }

    async fn nack(&self, receipt: &Receipt) {
        give_back(receipt, true).await;
    }

    async fn lost(&self, receipt: &Receipt) {
        receipt.channel.lost().await;
    }

    async fn reject(&self, receipt: &Receipt) {
        give_back(receipt, false).await;
    }
}

/// Gives a delivery back to the broker, which delivers it again or moves it to the dead letters.
async fn give_back(receipt: &Receipt, requeue: bool) {
    let Receipt { acker, number, channel, .. } = receipt;
    let _turn = channel.turn().await;
    let options = BasicNackOptions { requeue, ..Default::default() };
    match answered("nacking", acker.nack(options)).await {
        Ok(_) => channel.give_back(*number),
        // It stays open: an acknowledgement for many must never cover it.
        Err(error) => tracing::debug!(%error, "nacking"),
    }
}

/// Acknowledges deliveries of one channel, those that can at once; many that stand behind others
/// wait for them.
async fn ack_on_channel(receipts: &[&Receipt]) {
    let Some(last) = receipts.iter().max_by_key(|receipt| receipt.number) else { return };
    let channel = &last.channel;
    let numbers: Vec<u64> = receipts.iter().map(|receipt| receipt.number).collect();
    channel.end(&numbers);
    if ack_now(channel, receipts, &numbers, Patience::Some).await {
        return;
    }
    let waited = tokio::time::timeout(BEHIND_OTHERS, channel.until_first(last.number)).await;
    tracing::trace!(deliveries = numbers.len(), in_time = waited.is_ok(), "waited for others");
    ack_now(channel, receipts, &numbers, Patience::None).await;
}

/// Returns whether none is left for later.
async fn ack_now(
    channel: &Deliveries,
    receipts: &[&Receipt],
    numbers: &[u64],
    patience: Patience,
) -> bool {
    let _turn = channel.turn().await;
    let hows = channel.acknowledge(numbers, patience);
    let acknowledge = async |(receipt, how): (&Receipt, &Acknowledge)| {
        let multiple = match how {
            Acknowledge::Alone => false,
            Acknowledge::WithAllBefore => true,
            Acknowledge::Covered | Acknowledge::Later => return,
        };
        match answered("acknowledging", receipt.acker.ack(BasicAckOptions { multiple })).await {
            Ok(true) => {}
            Ok(false) => tracing::debug!("too late to acknowledge; it will be delivered again"),
            Err(error) => tracing::debug!(%error, "acknowledging"),
        }
    };
    join_all(receipts.iter().copied().zip(&hows).map(acknowledge)).await;
    !hows.contains(&Acknowledge::Later)
}
