//! How a batch moves its transactions from one state to the next, and what it learns from that.
//!
//! Owns the steps between the states. Promises that a step is believed only where every document
//! was written, or a look shows it: a reply was lost, the client has canceled, a successor has
//! taken over, a moment has passed, or the server refuses to write a document. None of these stops
//! the others.

use std::collections::BTreeMap;

use ledger::transaction::{ParkCode, Parked, Reason, ReasonCode, State, TransactionId};
use ledger::{
    BYTES_MAX, CALL_IDS_MAX, Cancelation, Commit, Ledger, POSTINGS_MAX, ServerMs, Written,
};

use super::batch::Batch;
use super::halving::cut;
use super::owned::Owned;
use super::{Environment, Outcome};

impl<L: Ledger, E: Environment> Batch<'_, L, E> {
    /// Lets holds rest whose debits are posted. Nobody owns them from then on. A post that may
    /// still arrive keeps others away until it is surely dead.
    pub(super) async fn rest(&mut self) {
        let posted = self.ids_where(|owned| owned.is_posted() && owned.awaits_confirmation());
        if posted.is_empty() {
            return;
        }
        let _timer = self.engine.observer.phase(State::Held.as_str());
        let mut rests: BTreeMap<ServerMs, Vec<TransactionId>> = BTreeMap::new();
        for id in posted {
            let not_before = self.owned.get(&id).map_or(0, |owned| self.surely_dead(owned));
            rests.entry(not_before).or_default().push(id);
        }
        for (not_before, ids) in rests {
            let rest = |ids| self.engine.ledger.rest(ids, &self.claim, not_before);
            let rested = self.engine.in_pieces(ids.chunks(CALL_IDS_MAX), rest).await;
            for (ids, left) in rested.failed {
                self.leave(ids, left);
            }
            for (ids, written) in rested.answered {
                self.moved((State::Pending, State::Held), ids, written).await;
            }
        }
    }

    pub(super) async fn commit(&mut self) {
        let posted = |owned: &Owned| owned.is_posted() && !owned.awaits_confirmation();
        let (expiring, lasting): (Vec<_>, Vec<_>) =
            self.ids_where(posted).into_iter().partition(|id| self.expires(id));
        self.commit_if(Commit::AnyTime, lasting).await;
        self.commit_if(Commit::InTime, expiring).await;
    }

    /// Whether it has to be applied before some moment.
    fn expires(&self, id: &TransactionId) -> bool {
        let body = self.owned.get(id).and_then(Owned::body);
        body.is_some_and(|body| body.expires_at().is_some())
    }

    /// The moment at which every post for it whose outcome is unknown is surely dead.
    pub(super) fn surely_dead(&self, owned: &Owned) -> ServerMs {
        owned.doubt.map_or(0, |doubt| doubt + self.engine.settings.grace_ms)
    }

    pub(super) async fn cancel(&mut self) {
        let refused: Vec<Cancelation> =
            self.owned.iter().filter_map(|(id, owned)| owned.cancelation(id)).collect();
        if refused.is_empty() {
            return;
        }
        for Cancelation { id, reason, .. } in &refused {
            self.engine.observer.refused(reason.code);
            if reason.code.is_fault() {
                let attempt = self.owned.get(id).map_or(0, |owned| owned.attempts);
                tracing::warn!(transaction = %id, state = %State::Pending, attempt,
                    claim = self.claim.token, worker = self.claim.application, trace = self.engine.observer.trace_id(id),
                    code = reason.code.as_str(), why = reason.message, "canceled");
            }
        }
        let bytes = |cancelation: &Cancelation| cancelation.reason.message.len();
        let pieces = cut(&refused, POSTINGS_MAX, BYTES_MAX, bytes);
        let cancel = |refused| self.engine.ledger.cancel(refused, &self.claim);
        let canceled = self.engine.in_pieces(pieces, cancel).await;
        for (refused, left) in canceled.failed {
            self.leave(refused.iter().map(|refused| &refused.id), left);
        }
        for (refused, written) in canceled.answered {
            let ids: Vec<_> = refused.iter().map(|refused| refused.id.clone()).collect();
            self.moved((State::Pending, State::Canceling), &ids, written).await;
        }
    }

    async fn commit_if(&mut self, guard: Commit, ids: Vec<TransactionId>) {
        if ids.is_empty() {
            return;
        }
        debug_assert!(
            ids.iter().all(|id| self.owned.get(id).is_some_and(Owned::may_commit)),
            "a commit of a transaction that is not ready for it"
        );
        let _timer = self.engine.observer.phase(State::Applied.as_str());
        let commit = |ids| self.engine.ledger.commit(guard, ids, &self.claim);
        let committed = self.engine.in_pieces(ids.chunks(CALL_IDS_MAX), commit).await;
        for (ids, left) in committed.failed {
            self.leave(ids, left);
        }
        for (ids, written) in committed.answered {
            self.moved((State::Pending, State::Applied), ids, written).await;
        }
    }

    /// Believes a full count; otherwise looks what became of each: a reply was lost, the client
    /// canceled, a successor took over, it has expired, or the server refuses to write its
    /// document.
    async fn moved(&mut self, step: (State, State), ids: &[TransactionId], written: Written) {
        let (from, to) = step;
        if written.count == ids.len() {
            self.engine.observer.moved(to, ids.len());
            ids.iter().for_each(|id| self.now_in(id.clone(), to));
            return;
        }
        self.look_again(to, ids).await;
        for refused in written.refused {
            let owned = self.owned.get_mut(&ids[refused.item]);
            if let Some(owned) = owned.filter(|owned| owned.state == from) {
                refused_to_move(owned, to, &refused.problem);
            }
        }
    }

    /// Reads what became of transactions that may have moved to this state.
    pub(super) async fn look_again(&mut self, to: State, ids: &[TransactionId]) {
        let read = self.engine.in_pieces([ids], |ids| self.engine.ledger.read(ids)).await;
        for (ids, left) in read.failed {
            self.leave(ids, left);
        }
        for seen in read.answered.into_iter().flat_map(|(_, seen)| seen) {
            let is_known = |owned: &Owned| !owned.may_be_confirmed_since(&seen);
            let ours = seen.claim.as_deref() == Some(&self.claim.token)
                && self.owned.get(&seen.id).is_none_or(is_known);
            if seen.state == to {
                self.engine.observer.moved(to, 1);
                if to.is_final() {
                    let mut created = std::iter::once(seen.created_at);
                    self.engine.observer.ended(to, &mut created, seen.server_now);
                }
            }
            if ours || seen.state.is_final() || seen.state.is_resting() {
                self.now_in(seen.id.clone(), seen.state);
                if to == State::Applied
                    && let Some(owned) = self.owned.get_mut(&seen.id)
                {
                    owned.look_at_the_clock(seen.server_now);
                }
            } else {
                self.owned.remove(&seen.id);
                self.outcomes.push((seen.id.clone(), Outcome::of_other(&seen)));
            }
        }
    }

    pub(super) fn now_in(&mut self, id: TransactionId, state: State) {
        if state.is_final() || state.is_resting() {
            self.owned.remove(&id);
            let outcome = if state.is_final() { Outcome::Final } else { Outcome::Resting };
            self.outcomes.push((id, outcome));
        } else if let Some(owned) = self.owned.get_mut(&id) {
            owned.state = state;
        }
    }
}

/// What follows when the server refuses to write a transaction's new state: before the commit point
/// it may still be possible to cancel it; otherwise it is set apart.
pub(super) fn refused_to_move(owned: &mut Owned, to: State, problem: &str) {
    let message = format!("the database refuses to move it to {to}: {problem}");
    match to {
        State::Applied => {
            owned.posted = false;
            owned.refused = Some(Reason::new(ReasonCode::Invalid, message));
        }
        State::Scheduled
        | State::Initial
        | State::Pending
        | State::Held
        | State::Done
        | State::Canceling
        | State::Canceled => {
            owned.parking = Some(Parked::new(ParkCode::TransactionUnwritable, message));
        }
    }
}
