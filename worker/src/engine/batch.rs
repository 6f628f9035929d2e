//! One batch on its way through the protocol.

use std::collections::{BTreeMap, BTreeSet};

use common::ledger::{Advance, Claim, Ledger, LedgerError, Posting, Removal, Seen, ServerMs};
use common::transaction::{AccountId, Body, State, TransactionId};

use super::held::Held;
use super::plan::{self, Accounts, Judged};
use super::riders::Aboard;
use super::{Engine, Environment, Outcome};

/// How often accounts that refuse without a visible reason are asked again: their state changed
/// between our posting and our look.
const ROUNDS_MAX: u32 = 4;

/// Why a batch stops before its end. What it holds is handed on.
pub(super) enum Halt {
    /// The lease is over: whatever comes next belongs to a successor.
    LeaseOver,
    /// The ledger failed, and trying again in place did not help.
    Failed(LedgerError),
    /// Marks could not be removed, although the server raised no error.
    MarksLeft,
}

impl From<LedgerError> for Halt {
    fn from(error: LedgerError) -> Halt {
        Halt::Failed(error)
    }
}

/// See the module.
pub(super) struct Batch<'a, L, E> {
    pub(super) engine: &'a Engine<L, E>,
    claim: Claim,
    held: BTreeMap<TransactionId, Held>,
    outcomes: Vec<(TransactionId, Outcome)>,
    /// The earliest end of a lease among those held.
    lease_until: ServerMs,
    /// The server's clock less ours, or a little less: it was read before the answer came. Errs
    /// towards refusing our own postings early, never late.
    server_offset: ServerMs,
    /// The latest deadline of a posting whose outcome is unknown. It may still arrive, so until
    /// this moment plus grace no mark may be removed.
    pub(super) doubt: Option<ServerMs>,
    halted: Option<Halt>,
}

impl<'a, L: Ledger, E: Environment> Batch<'a, L, E> {
    pub(super) fn new(engine: &'a Engine<L, E>) -> Batch<'a, L, E> {
        let token = engine.environment.token();
        let application = engine.settings.application.clone();
        Batch {
            engine,
            claim: Claim { token, application },
            held: BTreeMap::new(),
            outcomes: Vec::new(),
            lease_until: ServerMs::MAX,
            server_offset: 0,
            doubt: None,
            halted: None,
        }
    }

    /// The protocol up to its commit point. Each step acts on the transactions in the state that
    /// it leaves.
    pub(super) async fn begin(mut self, ids: &[TransactionId]) -> Batch<'a, L, E> {
        self.halted = match self.claim(ids).await {
            Ok(()) => self.decide().await.err(),
            Err(halt) => Some(halt),
        };
        self
    }

    async fn decide(&mut self) -> Result<(), Halt> {
        self.post().await?; //   pending:   hold the money, or learn why not
        self.commit().await?; // pending →  applied    when every leg is posted: the commit point
        self.cancel().await?; // pending →  canceling  when one was refused
        self.undo().await //     canceling → canceled  debits go home, marks go
    }

    /// The protocol from its commit point on; says for each transaction what became of it.
    pub(super) async fn end(mut self) -> Vec<(TransactionId, Outcome)> {
        if self.halted.is_none() {
            self.halted = self.settle().await.err(); // applied → done: credits become spendable
        }
        self.hand_on().await;
        self.outcomes
    }

    async fn claim(&mut self, ids: &[TransactionId]) -> Result<(), Halt> {
        let _timer = self.engine.metrics.phase("claim");
        let unique: BTreeSet<_> = ids.iter().cloned().collect();
        let ids: Vec<_> = unique.into_iter().collect();
        let claimed = self.engine.retrying(|| self.engine.ledger.claim(&ids, &self.claim)).await;
        let seen = match claimed {
            Ok(seen) => seen,
            Err(error) => {
                let after_ms = self.delay_ms(1);
                self.outcomes.extend(ids.into_iter().map(|id| (id, Outcome::Retry { after_ms })));
                return Err(error.into());
            }
        };
        let now_ms = self.engine.environment.now_ms();
        let mut missing: BTreeSet<_> = ids.into_iter().collect();
        for seen in seen {
            missing.remove(&seen.id);
            self.server_offset = seen.server_now - now_ms;
            if seen.claim.as_deref() == Some(&self.claim.token) && !seen.state.is_final() {
                self.hold(seen);
            } else {
                self.outcomes.push((seen.id.clone(), Outcome::of_other(&seen)));
            }
        }
        self.outcomes.extend(missing.into_iter().map(|id| (id, Outcome::Missing)));
        Ok(())
    }

    fn hold(&mut self, seen: Seen) {
        // A claim that was tried again in place may have won some at its first try, some later.
        self.lease_until = self.lease_until.min(seen.lease_until);
        if seen.attempts > 1 {
            self.engine.metrics.takeovers.inc();
        } else {
            self.engine.metrics.moved(State::Pending, 1);
            self.engine.saw_first_claim(seen.created_at);
        }
        self.held.insert(seen.id.clone(), Held::claimed(seen, self.attempts_max()));
    }

    /// Posts every leg: first all of an account at once, then what was left out one by one.
    async fn post(&mut self) -> Result<(), Halt> {
        let undecided = |held: &Held| held.state == State::Pending && held.refused.is_none();
        let mut open = self.ids_where(undecided);
        if open.is_empty() {
            return Ok(());
        }
        let _timer = self.engine.metrics.phase("post");
        let mut postings = plan::per_account(self.bodies(&open));
        let mut aboard = self.engine.riders.board(&mut postings);
        for _ in 0..ROUNDS_MAX {
            if self.post_all(&postings).await? == postings.len() {
                self.engine.metrics.rides.inc_by(aboard.arrived());
                open.drain(..).for_each(|id| self.mark_posted(&id));
                break;
            }
            let accounts = self.look(&open, std::mem::take(&mut aboard)).await?;
            (open, postings) = self.judge(open, &accounts);
            if open.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Sends postings until the server answers, under the fence. Every failure leaves doubt.
    async fn post_all(&mut self, postings: &[Posting]) -> Result<usize, Halt> {
        let mut attempt = 0;
        loop {
            let server_now = self.engine.environment.now_ms() + self.server_offset;
            if server_now >= self.lease_until {
                return Err(Halt::LeaseOver);
            }
            let before = self.lease_until.min(server_now + self.engine.settings.post_window_ms);
            match self.engine.ledger.post(postings, before).await {
                Ok(took) => return Ok(took),
                Err(error) => {
                    self.doubt = self.doubt.max(Some(before));
                    attempt += 1;
                    self.engine.pause(attempt, error).await?;
                }
            }
        }
    }

    /// Looks at the accounts after an incomplete posting. Whoever missed a ride is settled now:
    /// nothing is refused for want of money that this worker holds back.
    async fn look(&self, open: &[TransactionId], mut aboard: Aboard) -> Result<Accounts, Halt> {
        let touched = plan::accounts(self.bodies(open));
        let mut accounts = self.read_accounts(&touched).await?;
        let behind = aboard.left_behind(&accounts);
        if !behind.is_empty() {
            self.remove_all(Removal::Settle, &behind).await?;
            let again: Vec<_> = behind.into_iter().map(|posting| posting.account).collect();
            accounts.extend(self.read_accounts(&again).await?);
            aboard.left_behind(&accounts);
        }
        Ok(accounts)
    }

    pub(super) async fn read_accounts(&self, ids: &[AccountId]) -> Result<Accounts, Halt> {
        let read = self.engine.retrying(|| self.engine.ledger.accounts(ids)).await?;
        Ok(read.into_iter().collect())
    }

    /// Decides what the accounts say. Refused transactions get their reason, complete ones are
    /// posted; the rest comes back, with its missing legs as single postings.
    fn judge(
        &mut self,
        open: Vec<TransactionId>,
        accounts: &Accounts,
    ) -> (Vec<TransactionId>, Vec<Posting>) {
        let (mut still_open, mut singles) = (Vec::new(), Vec::new());
        for id in open {
            let Some(Held { body: Ok(body), .. }) = self.held.get(&id) else { continue };
            match plan::judge(&id, body, accounts) {
                Judged::Posted => self.mark_posted(&id),
                Judged::Refused(reason) => {
                    if let Some(held) = self.held.get_mut(&id) {
                        held.refused = Some(reason);
                    }
                }
                Judged::Open(legs) => {
                    singles.extend(legs);
                    still_open.push(id);
                }
            }
        }
        (still_open, singles)
    }

    async fn commit(&mut self) -> Result<(), Halt> {
        let posted = self.ids_where(|held| held.state == State::Pending && held.posted);
        self.advance(Advance::Commit, posted).await
    }

    async fn cancel(&mut self) -> Result<(), Halt> {
        let refused: Vec<_> = self
            .held
            .iter()
            .filter(|(_, held)| held.state == State::Pending)
            .filter_map(|(id, held)| Some((id.clone(), held.refused.clone()?)))
            .collect();
        if refused.is_empty() {
            return Ok(());
        }
        let cancel = || self.engine.ledger.cancel(&refused, &self.claim);
        let moved = self.engine.retrying(cancel).await?;
        for (_, reason) in &refused {
            self.engine.metrics.refused(reason.code);
        }
        let ids = refused.into_iter().map(|(id, _)| id).collect();
        self.moved(State::Canceling, ids, moved).await
    }

    pub(super) async fn advance(
        &mut self,
        step: Advance,
        ids: Vec<TransactionId>,
    ) -> Result<(), Halt> {
        if ids.is_empty() {
            return Ok(());
        }
        let to = step.states().1;
        let _timer = self.engine.metrics.phase(to.as_str());
        let advance = || self.engine.ledger.advance(step, &ids, &self.claim);
        let moved = self.engine.retrying(advance).await?;
        self.moved(to, ids, moved).await
    }

    /// Believes a full count; otherwise reads what became of each: a reply was lost, the client
    /// canceled, or a successor took over.
    async fn moved(
        &mut self,
        to: State,
        ids: Vec<TransactionId>,
        count: usize,
    ) -> Result<(), Halt> {
        if count == ids.len() {
            self.engine.metrics.moved(to, ids.len());
            ids.into_iter().for_each(|id| self.now_in(id, to));
            return Ok(());
        }
        let seen = self.engine.retrying(|| self.engine.ledger.read(&ids)).await?;
        for seen in seen {
            let ours = seen.claim.as_deref() == Some(&self.claim.token);
            if seen.state == to {
                self.engine.metrics.moved(to, 1);
            }
            if ours || seen.state.is_final() {
                self.now_in(seen.id, seen.state);
            } else {
                self.held.remove(&seen.id);
                self.outcomes.push((seen.id.clone(), Outcome::of_other(&seen)));
            }
        }
        Ok(())
    }

    fn now_in(&mut self, id: TransactionId, state: State) {
        if state.is_final() {
            self.held.remove(&id);
            self.outcomes.push((id, Outcome::Final));
        } else if let Some(held) = self.held.get_mut(&id) {
            held.state = state;
        }
    }

    /// Gives up what is not final, so that it can be claimed again after a delay, and never before
    /// a posting in doubt is surely dead. A lost release only means waiting for the lease's end.
    async fn hand_on(&mut self) {
        match &self.halted {
            None => {}
            Some(Halt::LeaseOver) => tracing::warn!("the lease ended before the batch did"),
            Some(Halt::Failed(error)) => tracing::warn!(%error, "a batch is handed on"),
            Some(Halt::MarksLeft) => tracing::error!("marks could not be removed; trying later"),
        }
        let Some(attempts) = self.held.values().map(|held| held.attempts).max() else { return };
        let not_before = self.doubt.map_or(0, |doubt| doubt + self.engine.settings.grace_ms);
        let server_now = self.engine.environment.now_ms() + self.server_offset;
        let delay_ms = self.delay_ms(attempts);
        let after_ms = delay_ms.max(not_before - server_now);
        let ids: Vec<_> = self.held.keys().cloned().collect();
        let release = self.engine.ledger.release(&ids, &self.claim, delay_ms, not_before);
        if let Err(error) = release.await {
            tracing::warn!(%error, transactions = ids.len(), "their lease has to run out");
        }
        for (id, held) in std::mem::take(&mut self.held) {
            if held.state != State::Pending && held.attempts > self.attempts_max() {
                self.engine.metrics.overdue.inc();
                tracing::error!(transaction = %id, state = %held.state, attempts = held.attempts,
                    "still not finished; it is never given up, but somebody should look");
            }
            self.outcomes.push((id, Outcome::Retry { after_ms }));
        }
    }

    fn delay_ms(&self, attempts: u32) -> i64 {
        let jitter = self.engine.environment.jitter();
        let delay = self.engine.settings.retry.delay(attempts, jitter);
        i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)
    }

    fn attempts_max(&self) -> u32 {
        self.engine.settings.attempts_max
    }

    pub(super) fn ids_where(&self, wanted: impl Fn(&Held) -> bool) -> Vec<TransactionId> {
        self.held.iter().filter(|(_, held)| wanted(held)).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn bodies<'b>(
        &'b self,
        ids: &'b [TransactionId],
    ) -> impl Iterator<Item = (&'b TransactionId, &'b Body)> {
        ids.iter().filter_map(|id| Some((id, self.held.get(id)?.body.as_ref().ok()?)))
    }

    fn mark_posted(&mut self, id: &TransactionId) {
        if let Some(held) = self.held.get_mut(id) {
            held.posted = true;
        }
    }
}
