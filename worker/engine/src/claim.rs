//! How a batch gets what it works on: the claim, and as much of it as one batch may hold.
//!
//! Ids say nothing about how much work they are. So a batch claims first, keeps as many as its
//! limits of legs and bytes allow, and gives the rest back at once ([`Left::Surplus`]). Promises
//! that it keeps at least one, and that contents are loaded only of what it keeps.

use std::collections::BTreeSet;

use ledger::remedy::Remedy;
use ledger::transaction::{ParkCode, Parked, State, TransactionId};
use ledger::{BYTES_MAX, CALL_IDS_MAX, Claimed, Ledger, Parking, Seen};

use super::batch::Batch;
use super::halving::cut;
use super::owned::{Left, Owned};
use super::{Environment, Outcome};

impl<L: Ledger, E: Environment> Batch<'_, L, E> {
    pub(super) async fn claim(&mut self, ids: &[TransactionId]) {
        let timer = self.engine.observer.phase("claim");
        let unique: BTreeSet<_> = ids.iter().cloned().collect();
        let ids: Vec<_> = unique.into_iter().collect();
        let claim = |ids| self.engine.ledger.claim(ids, &self.claim);
        let claimed = self.engine.in_pieces(ids.chunks(CALL_IDS_MAX), claim).await;
        for (ids, left) in claimed.failed {
            let after_ms = self.delay_ms(1);
            let outcome = match left {
                Left::Later | Left::Surplus => Outcome::Retry { after_ms },
                Left::Apart => Outcome::Apart { after_ms },
            };
            self.outcomes.extend(ids.iter().map(|id| (id.clone(), outcome)));
        }
        let mut parkings = Vec::new();
        for (ids, claimed) in claimed.answered {
            parkings.extend(self.take_in(ids, claimed));
        }
        self.set_apart(parkings).await;
        self.choose();
        self.load().await;
        drop(timer);
    }

    /// Notes what became of a claim. Returns those that can't be claimed because the server refuses
    /// to write them.
    fn take_in(&mut self, ids: &[TransactionId], claimed: Claimed) -> Vec<Parking> {
        let now_ms = self.engine.environment.now_ms();
        let refused: Vec<(&TransactionId, String)> =
            claimed.refused.into_iter().map(|r| (&ids[r.item], r.problem)).collect();
        let mut parkings = Vec::new();
        let mut missing: BTreeSet<_> = ids.iter().cloned().collect();
        for seen in claimed.seen {
            missing.remove(&seen.id);
            self.server_offset = self.server_offset.max(seen.server_now - now_ms);
            let refusal = refused.iter().find(|(id, _)| **id == seen.id);
            if seen.claim.as_deref() == Some(&self.claim.token) && !seen.state.is_final() {
                self.hold(seen);
            } else if let Some((_, problem)) = refusal.filter(|_| !seen.state.is_final()) {
                let Seen { id, state, claim, .. } = seen;
                let why = unwritable(&id, problem);
                parkings.push(Parking { id, state, claim, why });
            } else {
                self.outcomes.push((seen.id.clone(), Outcome::of_other(&seen)));
            }
        }
        for (id, problem) in refused {
            // Its document is there, and says no state that we know.
            if missing.remove(id) {
                let why = unwritable(id, &problem);
                parkings.push(Parking { id: id.clone(), state: State::Initial, claim: None, why });
            }
        }
        self.outcomes.extend(missing.into_iter().map(|id| (id, Outcome::Missing)));
        parkings
    }

    fn hold(&mut self, seen: Seen) {
        // A claim that was tried again in place may have won some at its first try, some later.
        self.lease_until = self.lease_until.min(seen.lease_until);
        self.lease_ms = self.lease_ms.max(seen.lease_until - seen.server_now);
        if seen.attempts > 1 && !seen.is_confirmed_now() {
            self.engine.observer.took_over();
        } else {
            self.engine.observer.moved(State::Pending, 1);
        }
        self.owned.insert(seen.id.clone(), Owned::claimed(seen, self.attempts_max()));
    }

    /// Keeps as many as one batch may hold.
    fn choose(&mut self) {
        let (mut load, mut all_fit) = (self.engine.capacity.load(), true);
        for (id, owned) in &mut self.owned {
            // What is decided by now is no work.
            if owned.is_work() && !load.takes(id, owned.size) {
                owned.left = Some(Left::Surplus);
                all_fit = false;
            }
        }
        self.engine.capacity.learn_size(load, all_fit);
        self.legs = load.legs();
    }

    /// Reads the contents that did not come along with the claim because they are large.
    async fn load(&mut self) {
        let unread = self.ids_where(|owned| owned.goes_on() && owned.is_unread());
        let bytes = |id: &TransactionId| self.owned.get(id).map_or(0, |owned| owned.size.bytes);
        let pieces = cut(&unread, CALL_IDS_MAX, BYTES_MAX, bytes);
        let read = self.engine.in_pieces(pieces, |ids| self.engine.ledger.bodies(ids)).await;
        for (ids, left) in read.failed {
            self.leave(ids, left);
        }
        let (attempts_max, now) = (self.attempts_max(), self.server_now());
        for (id, body) in read.answered.into_iter().flat_map(|(_, bodies)| bodies) {
            if let Some(owned) = self.owned.get_mut(&id) {
                owned.load(body, attempts_max, now);
            }
        }
        // One that was deleted by hand in between is claimed no more.
        let gone = self.ids_where(|owned| owned.goes_on() && owned.is_unread());
        self.leave(&gone, Left::Later);
    }
}

/// Why a transaction is set apart that can't be claimed, and how it goes on.
fn unwritable(id: &TransactionId, problem: &str) -> Parked {
    let message = format!(
        "the database refuses its claim: {problem}; correct it, then run {}",
        Remedy::Unpark(id)
    );
    Parked::new(ParkCode::TransactionUnwritable, message)
}
