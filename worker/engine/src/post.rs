//! How the legs of a batch are posted: all of an account at once, then what was left out one by
//! one.
//!
//! Promises that a transaction is taken as posted only when each of its legs is, that nothing is
//! refused without a look at the account, and that doubt about a post whose outcome is unknown is
//! kept by the transactions that it was for, and by no others.

use std::collections::BTreeSet;
use std::sync::Mutex;

use ledger::transaction::{AccountId, TransactionId};
use ledger::{
    BYTES_MAX, Fault, Ledger, LedgerError, Look, POSTINGS_MAX, Posting, RemovalKind, ServerMs,
    look_bytes,
};

use super::Environment;
use super::batch::Batch;
use super::deferred::Carried;
use super::halving::cut;
use super::owned::{Left, Owned};
use super::plan::{self, Accounts, Judged, Looks, Refusals};

/// How often accounts that refuse without a visible reason are asked again: their state changed
/// between our posting and our look.
const ROUNDS_MAX: u32 = 4;

impl<L: Ledger, E: Environment> Batch<'_, L, E> {
    pub(super) async fn post(&mut self) {
        let open = self.ids_where(Owned::is_undecided);
        if open.is_empty() {
            return;
        }
        let timer = self.engine.observer.phase("post");
        self.post_and_judge(open).await;
        drop(timer);
        let spent_ms = self.lease_ms - (self.lease_until - self.server_now());
        self.engine.capacity.learn_time(self.legs, spent_ms, self.lease_ms);
    }

    async fn post_and_judge(&mut self, mut open: Vec<TransactionId>) {
        let mut postings = plan::postings_per_account(self.bodies(&open));
        let mut carried = self.engine.deferred.carry(&mut postings);
        let mut refusals = Refusals::new();
        for round in 0..ROUNDS_MAX {
            if self.post_all(&postings, &mut refusals).await {
                self.engine.observer.rode(carried.settled());
                // What was posted of a hold is not all that has to be known of it: see
                // `plan::judge`.
                let is_known = |owned: &Owned| round > 0 || !owned.is_hold();
                let known = open.extract_if(.., |id| self.owned.get(id).is_none_or(is_known));
                known.collect::<Vec<_>>().iter().for_each(|id| self.mark_posted(id));
            }
            self.keep_undecided(&mut open);
            if open.is_empty() {
                return;
            }
            let accounts = self.look(&open, std::mem::take(&mut carried)).await;
            postings = self.judge(&open, &accounts, &refusals);
            self.keep_undecided(&mut open);
            if open.is_empty() {
                return;
            }
        }
        // Nothing was seen in the way, round after round, and still no post took effect. Unless
        // somebody changes the account between each post and its look, the server's clock is past
        // the deadline and our estimate of it is not: we were stopped before we read an answer of
        // the server.
        self.engine.observer.fenced_post();
        self.leave(&open, Left::Later);
    }

    fn keep_undecided(&self, open: &mut Vec<TransactionId>) {
        open.retain(|id| self.owned.get(id).is_some_and(Owned::is_undecided));
    }

    /// Sends postings until the server answers, under the fence; true when all of them took effect.
    /// Every failure leaves doubt.
    async fn post_all(&mut self, postings: &[Posting], refusals: &mut Refusals) -> bool {
        debug_assert!(rides_have_one_place(postings), "a settlement is carried twice");
        let doubts: Mutex<Vec<(&[Posting], ServerMs)>> = Mutex::default();
        let pieces = cut(postings, POSTINGS_MAX, BYTES_MAX, Posting::bytes);
        let post = async |postings| {
            let before = self.post_before()?;
            let posted = self.engine.ledger.post(postings, before).await;
            // An error is not counted: a server that is slow or away is no sign of a stalled
            // worker.
            let is_partial = posted.as_ref().is_ok_and(|written| written.count < postings.len());
            if is_partial && self.server_now() >= before {
                self.engine.observer.fenced_post();
            }
            if posted.is_err() {
                doubts.lock().unwrap_or_else(|broken| broken.into_inner()).push((postings, before));
            }
            posted
        };
        let posted = self.engine.in_pieces(pieces, post).await;
        let doubts = doubts.into_inner().unwrap_or_else(|broken| broken.into_inner());
        for (postings, before) in doubts {
            for id in postings.iter().flat_map(|posting| &posting.transactions) {
                if let Some(owned) = self.owned.get_mut(id) {
                    owned.doubt = owned.doubt.max(Some(before));
                }
            }
        }
        for (postings, left) in posted.failed {
            self.leave(postings.iter().flat_map(|posting| &posting.transactions), left);
        }
        let mut count = 0;
        for (postings, written) in posted.answered {
            count += written.count;
            for refused in written.refused {
                // Of a posting for several it is not known whose leg is in the way.
                if let Posting { account, transactions, ride: None, .. } = &postings[refused.item]
                    && let [id] = transactions.as_slice()
                {
                    refusals.insert((account.clone(), id.clone()), refused.problem);
                }
            }
        }
        count == postings.len()
    }

    /// The deadline of a post that is sent now; the server refuses it when it comes later.
    fn post_before(&self) -> Result<ServerMs, LedgerError> {
        let server_now = self.server_now();
        if server_now >= self.lease_until {
            // Whatever comes next belongs to a successor.
            self.engine.observer.fenced_post();
            let message = "the lease has ended before the batch was posted".to_owned();
            let error = LedgerError::lasting("post", message);
            return Err(LedgerError { fault: Fault::Denied, ..error });
        }
        Ok(self.lease_until.min(server_now + self.engine.settings.post_window_ms))
    }

    /// Looks at the accounts after an incomplete posting. What was not settled with it is settled
    /// now: nothing is refused for want of money that this worker holds back.
    async fn look(&mut self, open: &[TransactionId], mut carried: Carried) -> Accounts {
        // A ride's account counts, too, where nobody is left who would post to it: what was not
        // looked at would be taken for an account that does not exist.
        let mut looks = plan::looks(self.bodies(open));
        plan::look_for(&carried.settlements(), &mut looks);
        let mut accounts = self.read_accounts(&looks).await;
        self.engine.observer.rode(carried.settled_by(&accounts));
        let unsettled = carried.settlements();
        if !unsettled.is_empty() {
            // A settlement that fails goes back to its own batch with the rest of the ride.
            self.engine.remove_all(RemovalKind::Settle, &unsettled).await;
            let again: BTreeSet<_> = unsettled.iter().map(|removal| &removal.account).collect();
            looks.retain(|account, _| again.contains(account));
            accounts.extend(self.read_accounts(&looks).await);
            carried.settled_by(&accounts);
        }
        accounts
    }

    /// Reads accounts with those marks that they are asked about and have.
    pub(super) async fn read_accounts(&self, looks: &Looks) -> Accounts {
        let look = |(account, marks): (&AccountId, &BTreeSet<_>)| {
            (account.clone(), marks.iter().cloned().collect())
        };
        let looks: Vec<Look> = looks.iter().map(look).collect();
        let read = |looks| self.engine.ledger.accounts(looks);
        let pieces = cut(&looks, POSTINGS_MAX, BYTES_MAX, look_bytes);
        let read = self.engine.in_pieces(pieces, read).await;
        let mut accounts = Accounts::default();
        for (looks, left) in read.failed {
            accounts.unread(looks.iter().map(|(account, _)| account), left);
        }
        for (_, read) in read.answered {
            accounts.read(read);
        }
        accounts
    }

    /// Decides what the accounts say. Refused transactions get their reason, complete ones are
    /// posted; of the rest the missing legs come back, as single postings.
    fn judge(
        &mut self,
        open: &[TransactionId],
        accounts: &Accounts,
        refusals: &Refusals,
    ) -> Vec<Posting> {
        let mut singles = Vec::new();
        for id in open {
            let Some(owned) = self.owned.get_mut(id) else { continue };
            let Some(body) = owned.body() else { continue };
            match plan::judge(id, body, accounts, refusals) {
                Judged::Posted => owned.posted = true,
                Judged::Refused(reason) => owned.refused = Some(reason),
                Judged::Unknown(left) => owned.left = Some(left),
                Judged::Open(legs) => singles.extend(legs),
            }
        }
        singles
    }

    fn mark_posted(&mut self, id: &TransactionId) {
        if let Some(owned) = self.owned.get_mut(id) {
            owned.posted = true;
        }
    }
}

/// Whether no account carries the settlement of a transaction twice: its credits would be spendable
/// twice if the guard of its mark were wrong.
fn rides_have_one_place(postings: &[Posting]) -> bool {
    let mut carried = BTreeSet::new();
    postings.iter().all(|posting| {
        let ids = posting.ride.iter().flat_map(|ride| &ride.transactions);
        ids.into_iter().all(|id| carried.insert((&posting.account, id)))
    })
}
