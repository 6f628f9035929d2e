//! A submission that waits for its group, and who waits for the answer.
//!
//! Owns what a group has room for. Promises that a job is answered once, and with it all that have
//! submitted the same later.

use std::sync::Arc;
use std::time::Instant;

use mongodb::bson::DateTime;
use observe::Span;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::error::Error;
use crate::submission::{Order, Receipt};

/// The most submissions of one group.
pub(crate) const GROUP_MAX: usize = 1_000;
/// The most bytes of one group, estimated: a quarter of the most that one command may hold.
pub(super) const GROUP_BYTES_MAX: usize = 4 << 20;

/// Whose turn it is that a submission waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    /// Who submits, where that has a name.
    pub caller: Option<Arc<str>>,
    /// The number of a large call, which has a lane of its own. Small ones of a caller share one.
    pub large: Option<u64>,
}

/// A submission that waits for its answer.
pub(super) struct Job {
    pub order: Order,
    pub bytes: usize,
    pub arrived: Instant,
    pub lane: Lane,
    pub caller: Caller,
}

/// Who waits for the answer to a submission.
pub(super) struct Caller {
    answer: oneshot::Sender<Result<Receipt, Error>>,
    /// Ends with the answer.
    pub span: Option<Span>,
    /// Its place in the waiting room.
    _room: Option<OwnedSemaphorePermit>,
    /// Those who have submitted the same later.
    pub also: Vec<Caller>,
}

impl Caller {
    pub fn new(
        answer: oneshot::Sender<Result<Receipt, Error>>,
        span: Option<Span>,
        room: Option<OwnedSemaphorePermit>,
    ) -> Caller {
        Caller { answer, span, _room: room, also: Vec::new() }
    }

    pub fn answer(self, result: Result<Receipt, Error>) {
        if let (Some(span), Err(error)) = (&self.span, &result) {
            span.fail(error.to_string());
        }
        for also in self.also {
            let known = |receipt: Receipt| Receipt {
                known: receipt.known.or(Some(receipt.state)),
                ..receipt
            };
            also.answer(result.clone().map(known));
        }
        // Sending fails only if the caller has gone away.
        drop(self.answer.send(result));
    }
}

impl Job {
    pub fn new(order: Order, arrived: Instant, lane: Lane, caller: Caller) -> Job {
        Job { bytes: bytes(&order), order, arrived, lane, caller }
    }
}

/// The estimated size of the order's document.
fn bytes(order: &Order) -> usize {
    let legs = order.body.legs().iter().map(|leg| leg.account.len() + 64);
    let metadata = order.body.metadata.as_ref().map_or(0, |raw| raw.as_bytes().len());
    256 + order.id.len() + legs.sum::<usize>() + metadata
}

/// What would be inserted, as a digest.
pub(super) fn content(order: &Order) -> [u8; 32] {
    Sha256::digest(order.to_raw(DateTime::from_millis(0)).as_bytes()).into()
}
