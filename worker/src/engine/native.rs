//! One batch in one native transaction: the second engine.
//!
//! Owns what happens around [`Ledger::transact`]: who is `initial`, what follows from a conflict,
//! and what is left to the two-phase protocol ([`Batch`]): whatever is in flight already, and
//! whatever a native transaction can't settle. So both engines run side by side on the same data.
//! Promises nothing beyond what the ledger does: it only looks, tries, and looks again. It claims
//! nothing, so a crash leaves nothing to wait for but the server's memory of the transaction.
//!
//! Conflicts come from other processes; lanes of this one take turns. The batch is tried again
//! after a moment, then in halves, since a smaller one is open for a shorter time and has fewer
//! accounts to lose; a single one that still conflicts goes the other way, which never has to start
//! from the beginning.

use std::collections::BTreeSet;
use std::time::Duration;

use common::ledger::{Ledger, LedgerError, Seen, Transacted};
use common::netting::{Order, Verdict};
use common::retry::Policy;
use common::transaction::{State, TransactionId};

use super::batch::Batch;
use super::{Engine, Environment, Outcome, Underway};

/// How often a batch is tried as it is, before it is halved.
const CONFLICTS_MAX: u32 = 3;

/// After so many conflicts in a row what is left goes the way of two phases: it waits for single
/// documents, not for all of them at once.
const CONFLICTS_IN_A_ROW_MAX: u32 = 4 * CONFLICTS_MAX;

/// How long to leave the documents to somebody else: about as long as a batch takes.
const AFTER_CONFLICT: Policy =
    Policy { first: Duration::from_millis(10), max: Duration::from_millis(80) };

pub(super) struct NativeBatch<'a, L, E> {
    engine: &'a Engine<L, E>,
    outcomes: Vec<(TransactionId, Outcome)>,
    /// What goes the way of two phases.
    in_phases: Vec<TransactionId>,
    /// Conflicts since the last commit.
    conflicts: u32,
}

impl<'a, L: Ledger, E: Environment> NativeBatch<'a, L, E> {
    pub(super) fn new(engine: &'a Engine<L, E>) -> NativeBatch<'a, L, E> {
        NativeBatch { engine, outcomes: Vec::new(), in_phases: Vec::new(), conflicts: 0 }
    }

    pub(super) async fn begin(mut self, ids: &[TransactionId]) -> Underway<'a, L, E> {
        let unique: BTreeSet<_> = ids.iter().cloned().collect();
        let mut pieces = vec![unique.into_iter().collect()];
        while let Some(piece) = pieces.pop() {
            let mut first: Vec<_> = self.settle(piece).await;
            match first.len() {
                0 => {}
                1 => self.in_phases.extend(first),
                several => {
                    // The first half comes first: the order of the ids is kept.
                    pieces.push(first.split_off(several.div_ceil(2)));
                    pieces.push(first);
                }
            }
        }
        let batch = match self.in_phases.as_slice() {
            [] => None,
            in_phases => Some(Batch::new(self.engine).begin(in_phases).await),
        };
        Underway { outcomes: self.outcomes, batch }
    }

    /// Settles a piece; returns what is too much at once for what others do at this moment.
    async fn settle(&mut self, mut open: Vec<TransactionId>) -> Vec<TransactionId> {
        let (mut conflicts, mut failures) = (0, 0);
        loop {
            let initial = match self.look(&open, failures > 0).await {
                Ok(initial) => initial,
                Err(error) => return self.hand_on(open, &error),
            };
            open = initial.iter().map(|seen| seen.id.clone()).collect();
            if open.is_empty() {
                return open;
            }
            let newest = initial.iter().map(|seen| seen.created_at).max();
            match self.transact(initial).await {
                Ok(Transacted::Committed(verdicts)) => {
                    self.conflicts = 0;
                    newest.into_iter().for_each(|at| self.engine.saw_first_claim(at));
                    verdicts.into_iter().for_each(|verdict| self.ended(verdict));
                    return Vec::new();
                }
                Ok(Transacted::Conflict) => {
                    conflicts += 1;
                    self.conflicts += 1;
                    self.engine.metrics.retries.with_label_values(&["transact"]).inc();
                    if self.conflicts >= CONFLICTS_IN_A_ROW_MAX {
                        self.in_phases.append(&mut open);
                    }
                    if open.is_empty() || conflicts >= CONFLICTS_MAX {
                        return open;
                    }
                    let delay = AFTER_CONFLICT.delay(conflicts, self.engine.environment.jitter());
                    self.engine.environment.sleep(delay).await;
                }
                Err(error) => {
                    failures += 1;
                    match self.engine.pause(failures, error).await {
                        Ok(()) => {}
                        Err(error) if error.transient => return self.hand_on(open, &error),
                        Err(error) => {
                            tracing::warn!(%error, "a batch goes the way of two phases");
                            self.in_phases.append(&mut open);
                            return open;
                        }
                    }
                }
            }
        }
    }

    /// Reads transactions and returns those that are `initial`, in order. What is final, not there
    /// or owned by somebody has its outcome; what its owner has left goes the other way.
    async fn look(
        &mut self,
        ids: &[TransactionId],
        after_failure: bool,
    ) -> Result<Vec<Seen>, LedgerError> {
        let seen = self.engine.retrying(|| self.engine.ledger.read(ids)).await?;
        let mut missing: BTreeSet<_> = ids.iter().cloned().collect();
        let mut initial = Vec::new();
        for seen in seen {
            missing.remove(&seen.id);
            match seen.state {
                State::Initial => initial.push(seen),
                State::Done | State::Canceled => {
                    if after_failure {
                        self.engine.metrics.moved(seen.state, 1);
                    }
                    self.outcomes.push((seen.id, Outcome::Final));
                }
                State::Pending | State::Applied | State::Canceling => {
                    if seen.server_now > seen.takeover_at {
                        self.in_phases.push(seen.id);
                    } else {
                        self.outcomes.push((seen.id.clone(), Outcome::of_other(&seen)));
                    }
                }
            }
        }
        self.outcomes.extend(missing.into_iter().map(|id| (id, Outcome::Missing)));
        initial.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(initial)
    }

    async fn transact(&self, initial: Vec<Seen>) -> Result<Transacted, LedgerError> {
        let orders: Vec<Order> = initial.into_iter().map(|seen| (seen.id, seen.body)).collect();
        let _turn = self.engine.turn.lock().await;
        let _timer = self.engine.metrics.phase("transaction");
        self.engine.ledger.transact(&orders, &self.engine.settings.application).await
    }

    fn ended(&mut self, verdict: Verdict) {
        let state = match verdict.refused {
            None => State::Done,
            Some(reason) => {
                self.engine.metrics.refused(reason.code);
                State::Canceled
            }
        };
        self.engine.metrics.moved(state, 1);
        self.outcomes.push((verdict.id, Outcome::Final));
    }

    /// Nothing is held, so nothing has to be given up.
    fn hand_on(&mut self, open: Vec<TransactionId>, error: &LedgerError) -> Vec<TransactionId> {
        tracing::warn!(%error, "a batch is handed on");
        let jitter = self.engine.environment.jitter();
        let delay = self.engine.settings.retry.delay(1, jitter);
        let after_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        self.outcomes.extend(open.into_iter().map(|id| (id, Outcome::Retry { after_ms })));
        Vec::new()
    }
}
