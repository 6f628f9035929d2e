//! What a native batch reads of its transactions, and which of them it takes.
//!
//! Owns the look before an attempt: what is `initial` and fits is returned with its content, and
//! everything else has its outcome, or goes the other way. Promises no more than one batch may
//! hold. Nothing is claimed by it: what changes after the look is a conflict. Fails by leaving to a
//! later time what could not be read.

use std::collections::{BTreeSet, HashMap};

use ledger::transaction::{State, TransactionId};
use ledger::{BYTES_MAX, CALL_IDS_MAX, Ledger, Seen, ServerMs};

use super::NativeBatch;
use crate::halving::cut;
use crate::{Environment, Outcome};

/// Transactions that are `initial`.
pub(super) struct Read {
    pub initial: Vec<Seen>,
    /// When they were read, by the engine's clock.
    pub at_ms: i64,
}

impl Read {
    /// The server's clock now.
    pub fn server_ms(&self, now_ms: i64) -> ServerMs {
        let then = self.initial.iter().map(|seen| seen.server_now).max().unwrap_or(now_ms);
        then.saturating_add(now_ms.saturating_sub(self.at_ms))
    }
}

impl<L: Ledger, E: Environment> NativeBatch<'_, L, E> {
    /// Reads transactions and returns those that are `initial`, in order, and no more than one
    /// batch may hold. What is final, parked, not there or owned by somebody has its outcome; what
    /// its owner has left goes the other way.
    pub(super) async fn look(&mut self, ids: &[TransactionId], after_failure: bool) -> Read {
        let read = |ids| self.engine.ledger.read(ids);
        let read = self.engine.in_pieces(ids.chunks(CALL_IDS_MAX), read).await;
        let at_ms = self.engine.environment.now_ms();
        for (ids, left) in read.failed {
            self.leave(ids, left);
        }
        let mut initial = Vec::new();
        for (ids, seen) in read.answered {
            let mut missing: BTreeSet<_> = ids.iter().cloned().collect();
            for seen in seen {
                missing.remove(&seen.id);
                initial.extend(self.sort_out(seen, after_failure));
            }
            self.outcomes.extend(missing.into_iter().map(|id| (id, Outcome::Missing)));
        }
        initial.sort_by(|a: &Seen, b| a.id.cmp(&b.id));
        self.choose(&mut initial);
        self.load(&mut initial).await;
        // A hold comes to rest between its debits and its credits, so it goes in two phases.
        let holds = initial.extract_if(.., |seen| seen.is_hold());
        self.in_phases.extend(holds.map(|seen| seen.id));
        Read { initial, at_ms }
    }

    fn sort_out(&mut self, seen: Seen, after_failure: bool) -> Option<Seen> {
        match seen.state {
            State::Initial if !seen.parked => return Some(seen),
            State::Done | State::Canceled if after_failure => {
                self.engine.observer.moved(seen.state, 1);
            }
            State::Pending | State::Applied | State::Canceling
                if !seen.parked && seen.server_now > seen.takeover_at =>
            {
                self.in_phases.push(seen.id);
                return None;
            }
            State::Scheduled
            | State::Initial
            | State::Held
            | State::Done
            | State::Canceled
            | State::Pending
            | State::Applied
            | State::Canceling => {}
        }
        self.outcomes.push((seen.id.clone(), Outcome::of_other(&seen)));
        None
    }

    /// Keeps as many as one batch may hold.
    fn choose(&mut self, initial: &mut Vec<Seen>) {
        let mut load = self.engine.capacity.load();
        let surplus: Vec<Seen> =
            initial.extract_if(.., |seen| !load.takes(&seen.id, seen.size)).collect();
        self.engine.capacity.learn_size(load, surplus.is_empty());
        let fits = self.engine.capacity.fits();
        self.outcomes.extend(surplus.into_iter().map(|seen| (seen.id, Outcome::Surplus { fits })));
    }

    /// Reads the contents that did not come along because they are large.
    async fn load(&mut self, initial: &mut Vec<Seen>) {
        let large = |seen: &&Seen| seen.body.is_none();
        let unread: Vec<(TransactionId, usize)> =
            initial.iter().filter(large).map(|seen| (seen.id.clone(), seen.size.bytes)).collect();
        if unread.is_empty() {
            return;
        }
        let ids: Vec<TransactionId> = unread.iter().map(|(id, _)| id.clone()).collect();
        let sizes: HashMap<TransactionId, usize> = unread.into_iter().collect();
        let pieces = cut(&ids, CALL_IDS_MAX, BYTES_MAX, |id| sizes[id]);
        let read = self.engine.in_pieces(pieces, |ids| self.engine.ledger.bodies(ids)).await;
        for (ids, left) in read.failed {
            self.leave(ids, left);
            initial.retain(|seen| !ids.contains(&seen.id));
        }
        let mut bodies: HashMap<_, _> =
            read.answered.into_iter().flat_map(|(_, bodies)| bodies).collect();
        for seen in initial {
            if seen.body.is_none() {
                seen.body = bodies.remove(&seen.id);
            }
        }
    }
}
