//! One batch on its way through the protocol.
//!
//! A transaction that can't go on is left ([`Left`]) or set apart, and the others go on: nothing
//! stops a batch as a whole.

use std::collections::{BTreeMap, BTreeSet};

use ledger::remedy::Remedy;
use ledger::transaction::{Body, State, TransactionId};
use ledger::{
    BYTES_MAX, CALL_IDS_MAX, Claim, Ledger, LedgerError, POSTINGS_MAX, Parking, ServerMs,
};

use super::announce::Untold;
use super::halving::{Pieces, cut};
use super::news::tell;
use super::owned::{Left, Owned};
use super::{Engine, Environment, Outcome};

/// From so many claims on, what fails in passing goes on with fewer others: perhaps it does not
/// pass by itself, but because of one of them.
const APART_FROM: u32 = 3;

/// The transactions that one run of the protocol has claimed.
pub(super) struct Batch<'a, L, E> {
    pub(super) engine: &'a Engine<L, E>,
    pub(super) claim: Claim,
    pub(super) owned: BTreeMap<TransactionId, Owned>,
    pub(super) outcomes: Vec<(TransactionId, Outcome)>,
    /// Lines whose events are to be announced.
    pub(super) committed: Vec<Untold>,
    /// The earliest end of a lease among those held.
    pub(super) lease_until: ServerMs,
    /// How long its lease was when it was claimed, in milliseconds.
    pub(super) lease_ms: i64,
    /// The legs of those that it keeps.
    pub(super) legs: usize,
    /// In place of how many batches it is.
    pub(super) stands_for: u32,
    /// The server's clock less ours, or a little less: it was read before the answer came. Errs
    /// towards refusing our own postings early, never late.
    pub(super) server_offset: ServerMs,
}

impl<'a, L: Ledger, E: Environment> Batch<'a, L, E> {
    pub(super) fn new(engine: &'a Engine<L, E>) -> Batch<'a, L, E> {
        let token = engine.environment.token();
        let application = engine.settings.application.clone();
        Batch {
            engine,
            claim: Claim { token, application },
            owned: BTreeMap::new(),
            outcomes: Vec::new(),
            committed: Vec::new(),
            lease_until: ServerMs::MAX,
            lease_ms: 0,
            legs: 0,
            stands_for: 1,
            server_offset: ServerMs::MIN,
        }
    }

    /// The protocol up to its commit point. Each step acts on the transactions in the state that
    /// it leaves.
    pub(super) async fn begin(mut self, ids: &[TransactionId]) -> Batch<'a, L, E> {
        self.claim(ids).await; // initial → pending    or in flight, when its owner is gone
        self.post().await; //     pending:             hold the money, or learn why not
        self.rest().await; //     pending → held        a hold waits for its confirmation
        self.commit().await; //   pending → applied    when every leg is posted: the commit point
        self.cancel().await; //   pending → canceling  when one was refused
        self.undo().await; //     canceling:           debits go home, marks go
        self
    }

    /// The protocol from its commit point on; says for each transaction what became of it.
    pub(super) async fn end(mut self) -> Vec<(TransactionId, Outcome)> {
        self.abandon().await; //  canceling → canceled nothing of it is left
        self.settle().await; //   applied → done       credits become spendable
        self.park().await; //     what can't go on is set apart
        self.release_rest().await; // what is not final is given up, for now
        self.announce().await; // the world is told of what is final
        debug_assert!(self.owned.is_empty(), "every transaction that it owns has its outcome");
        debug_assert!(each_once(&self.outcomes), "no transaction has two outcomes");
        self.outcomes
    }

    /// Sets apart what nobody can go on with. It keeps its state, its marks and its takeover time.
    async fn park(&mut self) {
        let parkings: Vec<Parking> = self
            .owned
            .iter()
            .filter_map(|(id, owned)| {
                let (claim, why) = (Some(self.claim.token.clone()), owned.parking.clone()?);
                Some(Parking { id: id.clone(), state: owned.state, claim, why })
            })
            .collect();
        self.set_apart(parkings).await;
    }

    /// Sets transactions apart; one that has changed meanwhile is somebody else's, for now.
    pub(super) async fn set_apart(&mut self, parkings: Vec<Parking>) {
        if parkings.is_empty() {
            return;
        }
        let bytes = |parking: &Parking| parking.why.message.len();
        let pieces = cut(&parkings, POSTINGS_MAX, BYTES_MAX, bytes);
        let park = |parkings| self.engine.ledger.park(parkings);
        let Pieces { answered, .. } = self.engine.in_pieces(pieces, park).await;
        let parked: BTreeSet<_> = answered.into_iter().flat_map(|(_, parked)| parked).collect();
        for Parking { id, state, why, .. } in parkings {
            let owned = self.owned.remove(&id);
            let attempt = owned.as_ref().map_or(0, |owned| owned.attempts);
            if parked.contains(&id) {
                self.engine.observer.parked(why.code);
                tracing::error!(transaction = %id, %state, attempt, claim = self.claim.token,
                    worker = self.claim.application, trace = self.engine.observer.trace_id(&id),
                    code = why.code.as_str(), why = why.message,
                    "parked: somebody should look, then {}", Remedy::Unpark(&id));
                self.outcomes.push((id, Outcome::Parked));
            } else {
                tracing::debug!(transaction = %id, %state, attempt, claim = self.claim.token,
                    "not parked; looking again later");
                let after_ms = self.delay_ms(1);
                self.outcomes.push((id, Outcome::Apart { after_ms }));
            }
        }
    }

    /// Gives up what is not final, so that it can be claimed again after a delay, and never before
    /// a posting in doubt is surely dead. A lost release only means waiting for the lease's end.
    async fn release_rest(&mut self) {
        // Each waits by its own attempts: one that has failed for long must not hold up the others.
        let attempts: BTreeSet<u32> = self.owned.values().map(|owned| owned.attempts).collect();
        let delays: BTreeMap<u32, i64> =
            attempts.into_iter().map(|attempts| (attempts, self.delay_ms(attempts))).collect();
        let server_now = self.server_now();
        let mut releases: BTreeMap<(i64, ServerMs), Vec<TransactionId>> = BTreeMap::new();
        let mut untouched = Vec::new();
        for (id, owned) in std::mem::take(&mut self.owned) {
            let not_before = self.surely_dead(&owned);
            let is_surplus = owned.left == Some(Left::Surplus);
            let delay_ms = if is_surplus { 0 } else { delays[&owned.attempts] };
            let after_ms = delay_ms.max(not_before - server_now);
            self.outcomes.push((id.clone(), self.goes_on_as(&id, &owned, after_ms)));
            if owned.left == Some(Left::Surplus) && owned.attempts == 1 {
                untouched.push(id);
            } else {
                releases.entry((delay_ms, not_before)).or_default().push(id);
            }
        }
        for ids in untouched.chunks(CALL_IDS_MAX) {
            if let Err(error) = self.engine.ledger.unclaim(ids, &self.claim).await {
                self.not_released(&error, ids.len());
            }
        }
        for ((delay_ms, not_before), ids) in releases {
            for ids in ids.chunks(CALL_IDS_MAX) {
                let ledger = &self.engine.ledger;
                let released = ledger.release(ids, &self.claim, delay_ms, not_before).await;
                if let Err(error) = released {
                    self.not_released(&error, ids.len());
                    return;
                }
            }
        }
    }

    fn not_released(&self, error: &LedgerError, transactions: usize) {
        tell!(self.engine.news, error, %error, transactions, "their lease has to run out");
    }

    fn goes_on_as(&self, id: &TransactionId, owned: &Owned, after_ms: i64) -> Outcome {
        if owned.state != State::Pending && owned.attempts > self.attempts_max() {
            self.engine.observer.overdue();
            tracing::error!(transaction = %id, state = %owned.state, attempt = owned.attempts,
                claim = self.claim.token, worker = self.claim.application, trace = self.engine.observer.trace_id(id), after_ms,
                "still not finished; it is never given up, but somebody should look");
        } else if owned.left != Some(Left::Surplus) && owned.attempts >= APART_FROM {
            // The first failures pass by themselves, and are told once for the whole piece.
            tracing::warn!(transaction = %id, state = %owned.state, attempt = owned.attempts,
                claim = self.claim.token, worker = self.claim.application, trace = self.engine.observer.trace_id(id), after_ms,
                "not finished; trying again later");
        }
        match owned.left {
            Some(Left::Surplus) => Outcome::Surplus { fits: self.engine.capacity.fits() },
            Some(Left::Apart) => Outcome::Apart { after_ms },
            Some(Left::Later) if owned.attempts >= APART_FROM => Outcome::Apart { after_ms },
            Some(Left::Later) | None => Outcome::Retry { after_ms },
        }
    }

    /// These take no further part in this run.
    pub(super) fn leave<'b>(
        &mut self,
        ids: impl IntoIterator<Item = &'b TransactionId>,
        left: Left,
    ) {
        for id in ids {
            if let Some(owned) = self.owned.get_mut(id) {
                owned.left.get_or_insert(left);
            }
        }
    }

    pub(super) fn delay_ms(&self, attempts: u32) -> i64 {
        let jitter = self.engine.environment.jitter();
        let delay = self.engine.settings.retry.delay(attempts, jitter);
        i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)
    }

    pub(super) fn attempts_max(&self) -> u32 {
        self.engine.settings.attempts_max
    }

    /// The server's clock, or a little less.
    pub(super) fn server_now(&self) -> ServerMs {
        self.engine.environment.now_ms().saturating_add(self.server_offset)
    }

    pub(super) fn ids_where(&self, wanted: impl Fn(&Owned) -> bool) -> Vec<TransactionId> {
        self.owned.iter().filter(|(_, owned)| wanted(owned)).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn bodies<'b>(
        &'b self,
        ids: &'b [TransactionId],
    ) -> impl Iterator<Item = (&'b TransactionId, &'b Body)> {
        ids.iter().filter_map(|id| Some((id, self.owned.get(id)?.body()?)))
    }
}

fn each_once(outcomes: &[(TransactionId, Outcome)]) -> bool {
    let ids: BTreeSet<_> = outcomes.iter().map(|(id, _)| id).collect();
    ids.len() == outcomes.len()
}
