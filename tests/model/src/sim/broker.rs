//! A model of the broker: a queue that delivers at least once, in any order.

use std::collections::BTreeMap;

use ledger::message::Message;
use ledger::transaction::TransactionId;
use queue::{DEAD, Outgoing, SOLO};

use super::client::Owner;

/// A message in the queue.
#[derive(Clone, Debug)]
pub struct Queued {
    /// Its body.
    pub body: Vec<u8>,
    /// Whether it must be processed alone.
    pub solo: bool,
    /// How often it was delivered before.
    pub deliveries: u32,
    /// It is not delivered before this time.
    pub due: i64,
}

/// The model of the queues.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: Vec<Queued>,
    unacked: BTreeMap<u64, (Owner, Queued)>,
    dead: Vec<Vec<u8>>,
    receipts: u64,
    /// How often a message with this id alone was delivered from the solo queue and came back.
    died_alone: BTreeMap<TransactionId, u32>,
}

impl Queue {
    /// Stores what was published. Returns the transactions that it stands for.
    pub fn store(&mut self, outgoing: &Outgoing, now: i64) -> Vec<TransactionId> {
        let (key, delay) = outgoing.destination();
        let body = outgoing.body().to_vec();
        let stands_for = ids(&body);
        if key == DEAD {
            self.dead.push(body);
            return stands_for;
        }
        // The broker's delays are for seconds; the simulation's leases are shorter.
        let due = now + i64::from(delay.unwrap_or(0) / 100);
        self.waiting.push(Queued { body, solo: key == SOLO, deliveries: 0, due });
        stands_for
    }

    /// The messages that may be delivered now, as indices.
    #[must_use]
    pub fn ready(&self, now: i64, solo: bool) -> Vec<usize> {
        let due = |(_, queued): &(usize, &Queued)| queued.due <= now && queued.solo == solo;
        self.waiting.iter().enumerate().filter(due).map(|(index, _)| index).collect()
    }

    /// Delivers one to a worker; returns its receipt.
    pub fn deliver(&mut self, index: usize, owner: Owner) -> (u64, Queued) {
        let queued = self.waiting.swap_remove(index);
        self.receipts += 1;
        self.unacked.insert(self.receipts, (owner, queued.clone()));
        (self.receipts, queued)
    }

    /// A delivery is acknowledged. Returns its ids, if the receipt was still valid.
    pub fn acknowledge(&mut self, receipt: u64) -> Option<Vec<TransactionId>> {
        let (_, queued) = self.unacked.remove(&receipt)?;
        Some(ids(&queued.body))
    }

    /// A delivery returns to the queue.
    pub fn nack(&mut self, receipt: u64) {
        if let Some((_, queued)) = self.unacked.remove(&receipt) {
            if let (true, [alone]) = (queued.solo, ids(&queued.body).as_slice()) {
                *self.died_alone.entry(alone.clone()).or_default() += 1;
            }
            let deliveries = queued.deliveries + 1;
            self.waiting.push(Queued { deliveries, ..queued });
        }
    }

    /// A worker's connection is gone: all its deliveries return to the queue.
    pub fn disconnect(&mut self, worker: usize) {
        let lost: Vec<_> = self
            .unacked
            .iter()
            .filter(|(_, (owner, _))| owner.0 == worker)
            .map(|(receipt, _)| *receipt)
            .collect();
        lost.into_iter().for_each(|receipt| self.nack(receipt));
    }

    /// How often this transaction, alone, was delivered from the solo queue and came back.
    #[must_use]
    pub fn died_alone(&self, id: &TransactionId) -> u32 {
        self.died_alone.get(id).copied().unwrap_or(0)
    }

    /// Whether some message still contains this transaction, also a dead letter.
    #[must_use]
    pub fn stands_for(&self, id: &TransactionId) -> bool {
        self.will_deliver(id) || self.dead.iter().any(|body| ids(body).contains(id))
    }

    /// Whether some message for this transaction will be delivered.
    #[must_use]
    pub fn will_deliver(&self, id: &TransactionId) -> bool {
        let waiting = self.waiting.iter().map(|queued| &queued.body);
        let unacked = self.unacked.values().map(|(_, queued)| &queued.body);
        waiting.chain(unacked).any(|body| ids(body).contains(id))
    }

    /// Whether the queue is empty, except for dead letters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.unacked.is_empty()
    }

    /// The next time at which a message becomes due.
    #[must_use]
    pub fn next_due(&self, now: i64) -> Option<i64> {
        self.waiting.iter().map(|queued| queued.due).filter(|due| *due > now).min()
    }
}

fn ids(body: &[u8]) -> Vec<TransactionId> {
    Message::parse(body).map(|parsed| parsed.message.ids).unwrap_or_default()
}
