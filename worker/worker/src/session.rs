//! One session at the broker: its connection, and a consumer for each queue.
//!
//! Promises that what is delivered when a consumer is stopped is taken in, however much it is.
//! Fails with the broker's error; then the session is no good any more, and what it delivered comes
//! again.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::BasicCancelOptions;
use lapin::{Channel, Connection, Consumer};
use queue::{Gate, QueueError, Topology, answered, close};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::decide::Origin;
use crate::deliveries::Deliveries;
use crate::intake::Intake;

/// An answer of the broker comes soon when no more than so many bytes are unread.
pub const LITTLE: usize = 1 << 20;

/// What the broker sends beside a message's body, about.
pub const ENVELOPE: usize = 200;

/// How long a session that takes nothing more is held for what it has: longer than lease and grace
/// as they are by default. What is left then is delivered again.
const DONE_LIMIT: Duration = Duration::from_secs(60);

/// How often to look whether a session that takes nothing more has nothing left.
const DONE_EVERY: Duration = Duration::from_millis(100);

/// What is there between two losses of the broker.
pub struct Session {
    pub connection: Connection,
    /// In front of the connection.
    pub gate: Arc<Gate>,
    pub topology: Topology,
    pub work: QueueConsumer,
    pub solo: QueueConsumer,
}

/// The last session of a worker that stops, or one that is given up. Its deliveries can be
/// acknowledged until it is closed. It holds the channels, because a channel that nobody holds is
/// closed, and its deliveries go back to the queue.
pub struct LastSession {
    connection: Connection,
    gate: Arc<Gate>,
    lost: [Arc<Deliveries>; 2],
    _channels: [Channel; 2],
}

impl LastSession {
    /// Waits until all that it has delivered is acknowledged or given back, it is lost, or it has
    /// taken long.
    pub async fn until_done(&self) {
        let done = async {
            let is_left = |deliveries: &Arc<Deliveries>| !deliveries.are_done();
            while self.connection.status().connected() && self.lost.iter().any(is_left) {
                tokio::time::sleep(DONE_EVERY).await;
            }
            // The last acknowledgement may be on its way.
            for deliveries in &self.lost {
                drop(deliveries.turn().await);
            }
        };
        drop(tokio::time::timeout(DONE_LIMIT, done).await);
    }

    /// Ends it.
    pub async fn close(self) {
        self.lost.iter().for_each(|deliveries| deliveries.lose());
        close(&self.connection).await;
        // The broker has not been heard, if much was on its way. It must not take a lost session
        // for a living one.
        self.gate.end();
    }
}

/// One queue's consumer.
pub struct QueueConsumer {
    pub channel: Channel,
    pub consumer: Consumer,
    pub deliveries: Arc<Deliveries>,
    /// The broker delivers so many to this consumer before the first is acknowledged.
    pub window: u16,
    /// How many deliveries of consumers before this one waited for a publication when it began.
    pub waited_before: usize,
    /// Whether something came since the last look at the queue.
    pub has_delivered: bool,
    /// Looks in a row without a delivery. Of each queue apart: while one is silenced the other may
    /// be busy.
    pub quiet_looks: u32,
}

/// What comes next of a consumer that is being stopped.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it goes on at once")]
enum Next {
    /// The broker has stopped it.
    Canceled,
    /// Nothing is to be taken in: what is on its way may be larger than what may be unread.
    Unread,
    /// A delivery, or the end of them.
    Delivery(Option<Delivery>),
}

impl Session {
    /// The consumer of a queue.
    pub fn consumer(&mut self, origin: Origin) -> &mut QueueConsumer {
        match origin {
            Origin::Work => &mut self.work,
            Origin::Solo => &mut self.solo,
        }
    }

    /// Without its consumers: nothing more is delivered.
    pub fn last(self) -> LastSession {
        let lost = [self.work.deliveries.clone(), self.solo.deliveries.clone()];
        let Session { connection, gate, work, solo, .. } = self;
        LastSession { connection, gate, lost, _channels: [work.channel, solo.channel] }
    }

    /// Stops a queue's deliveries and takes in those already here. The broker's answer comes after
    /// all that it has sent before, so these are taken in meanwhile. False when that takes longer
    /// than until then; what is being taken in is taken in.
    pub async fn drain(
        &mut self,
        origin: Origin,
        intake: &mut Intake,
        stop: &CancellationToken,
        until: Option<Instant>,
    ) -> Result<bool, QueueError> {
        let gate = self.gate.clone();
        let QueueConsumer { channel, consumer, deliveries, .. } = self.consumer(origin);
        let cancel = channel.basic_cancel(consumer.tag(), BasicCancelOptions::default());
        let (mut cancel, mut canceled) = (pin!(cancel), false);
        loop {
            let next = async {
                tokio::select! {
                    biased;
                    answer = &mut cancel, if !canceled => answer.map(|()| Next::Canceled),
                    delivery = consumer.next() => delivery.transpose().map(Next::Delivery),
                    () = std::future::ready(()), if gate.has_untaken() => Ok(Next::Unread),
                }
            };
            let next = answered("stopping the consumer", next);
            let next = match until {
                None => next.await,
                Some(until) => match tokio::time::timeout_at(until, next).await {
                    Ok(next) => next,
                    Err(_) => return Ok(false),
                },
            };
            match next? {
                Next::Canceled => canceled = true,
                Next::Unread => gate.took_all(),
                Next::Delivery(None) => return Ok(true),
                Next::Delivery(Some(delivery)) => {
                    let seen = intake.take(origin, delivery, deliveries, stop).await;
                    gate.took(seen.bytes + ENVELOPE);
                }
            }
        }
    }
}
