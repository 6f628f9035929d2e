//! How marks leave the accounts: the steps of a batch after its decision.
//!
//! Promises that a mark is removed at most once with what it held, that `done` and `canceled` say
//! that no mark is left, and that nothing is removed while a post is in doubt. A mark that can't be
//! removed (its account can't be read, or the server refuses to write it) sets its transaction
//! apart, once its other marks are gone, and says how it goes on. Settlements of a large batch wait
//! for a ride (see [`super::deferred`]); the transactions are `applied` meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ledger::event::End;
use ledger::remedy::Remedy;
use ledger::transaction::{AccountId, ParkCode, Parked, TransactionId};
use ledger::{BYTES_MAX, Ledger, POSTINGS_MAX, Removal, RemovalKind};

use super::batch::Batch;
use super::deferred::Deferral;
use super::halving::cut;
use super::owned::{Left, Owned};
use super::plan::Refusals;
use super::plan::{Looks, Mark};
use super::{Engine, Environment, plan};

/// How often a batch that waits looks whether there is still something to wait for.
const LOOKS: u32 = 10;

/// How often it looks whether its last settlements are carried no more.
const ARRIVAL: Duration = Duration::from_millis(5);

/// What a removal of marks came to.
pub(super) struct Removed {
    /// Whether all of them were there and are gone now.
    whole: bool,
    /// Single legs whose marks the server refuses to remove.
    refusals: Refusals,
    /// Transactions whose marks may be there or not, since a command failed.
    failed: Vec<(TransactionId, Left)>,
}

impl<L: Ledger, E: Environment> Batch<'_, L, E> {
    /// Settles what is applied: at once what a predecessor left, and what has nothing to ride on.
    pub(super) async fn settle(&mut self) {
        let inherited = self.ids_where(|owned| owned.is_settleable() && !owned.posted);
        self.settle_now(inherited).await;
        let ours = self.ids_where(|owned| owned.is_settleable() && owned.posted);
        if ours.is_empty() {
            return;
        }
        let committed_ms = self.engine.environment.now_ms();
        if ours.len() < self.engine.settings.rides_from {
            self.settle_now(ours).await;
        } else {
            self.settle_deferred(ours).await;
        }
        let took_ms = self.engine.environment.now_ms().saturating_sub(committed_ms);
        self.engine.observer.settled_after(took_ms);
    }

    async fn settle_now(&mut self, applied: Vec<TransactionId>) {
        if applied.is_empty() {
            return;
        }
        let timer = self.engine.observer.phase("settle");
        let together = plan::removals_per_account(self.bodies(&applied));
        if !self.engine.remove_all(RemovalKind::Settle, &together).await.whole {
            // A predecessor settled some of them, or an account refuses: what is left is found one
            // by one.
            let singles = plan::removals_per_leg(self.bodies(&applied));
            self.remove_checked(RemovalKind::Settle, &singles).await;
        }
        drop(timer);
        self.finish(End::Done, applied).await;
    }

    /// Lets the settlements ride on the posts of later batches, and settles those that nobody took
    /// along. No lease is needed for it: marks are their own guard.
    async fn settle_deferred(&mut self, applied: Vec<TransactionId>) {
        let settlements = plan::removals_per_account(self.bodies(&applied));
        let accounts: Vec<AccountId> = settlements.iter().map(|s| s.account.clone()).collect();
        let deferral = Arc::<Deferral>::default();
        self.engine.deferred.defer(settlements, &deferral);
        self.linger().await;
        let waiting = self.engine.deferred.take_back(&accounts, &deferral);
        while deferral.is_carried() {
            self.engine.environment.sleep(ARRIVAL).await;
        }
        let timer = self.engine.observer.phase("settle");
        let mut uncertain: BTreeSet<_> = deferral.take_uncertain().into_iter().collect();
        if !self.engine.remove_all(RemovalKind::Settle, &waiting).await.whole {
            uncertain.extend(waiting.into_iter().map(|settlement| settlement.account));
        }
        if !uncertain.is_empty() {
            let mut singles = plan::removals_per_leg(self.bodies(&applied));
            singles.retain(|single| uncertain.contains(&single.account));
            self.remove_checked(RemovalKind::Settle, &singles).await;
        }
        drop(timer);
        self.finish(End::Done, applied).await;
    }

    /// Waits while there are posts to ride on.
    async fn linger(&self) {
        let wait = ride_wait(self.engine.settings.ride_wait, self.stands_for, self.lease_ms);
        for _ in 0..LOOKS {
            self.engine.environment.sleep(wait / LOOKS).await;
            if !self.engine.has_batches_before_commit() {
                return;
            }
        }
    }

    pub(super) async fn undo(&mut self) {
        let canceling = self.ids_where(Owned::is_undoable);
        if canceling.is_empty() {
            return;
        }
        let timer = self.engine.observer.phase("undo");
        // A body that makes no sense was never posted, so it has nothing to undo.
        let posted = self.ids_where(|owned| owned.is_undoable() && !owned.never_posted());
        let singles = plan::removals_per_leg(self.bodies(&posted));
        self.remove_checked(RemovalKind::Undo, &singles).await;
        drop(timer);
    }

    /// Ends those that were undone.
    pub(super) async fn abandon(&mut self) {
        let undone = self.ids_where(Owned::is_undoable);
        self.finish(End::Canceled, undone).await;
    }

    /// Removes single marks, and looks that none is left where not all of them were there.
    async fn remove_checked(&mut self, kind: RemovalKind, singles: &[Removal]) {
        let Removed { whole, refusals, failed } = self.engine.remove_all(kind, singles).await;
        if whole {
            return;
        }
        for (id, left) in failed {
            self.leave([&id], left);
        }
        let mut looks = Looks::new();
        plan::look_for(singles, &mut looks);
        let accounts = self.read_accounts(&looks).await;
        let mut stuck = Vec::new();
        for removal in singles {
            for id in &removal.transactions {
                let Some(owned) = self.owned.get_mut(id) else { continue };
                let refusal = refusals.get(&(removal.account.clone(), id.clone()));
                match accounts.mark(&removal.account, id, refusal) {
                    Mark::Gone => {}
                    Mark::Unknown(left) => owned.left = owned.left.or(Some(left)),
                    // It was there, and nothing speaks against its removal: it changed meanwhile.
                    Mark::There => owned.left = owned.left.or(Some(Left::Later)),
                    Mark::Stuck(problem) => {
                        let message = format!(
                            "account {:?} has its mark, which can't be removed: {problem}; correct \
                             the account, then run {}",
                            removal.account,
                            Remedy::Unpark(id)
                        );
                        stuck.push((id, Parked::new(ParkCode::AccountUnusable, message)));
                    }
                }
            }
        }
        for (id, why) in stuck {
            // While other marks of it may still be there, the next attempt removes those first.
            if let Some(owned) = self.owned.get_mut(id).filter(|owned| owned.left.is_none()) {
                owned.parking = Some(why);
            }
        }
    }
}

impl<L: Ledger, E: Environment> Engine<L, E> {
    /// Settles what waits for a ride on these accounts, for a batch that carries none: it must
    /// refuse nothing for want of money that this worker holds back. What is not surely settled
    /// goes back to its own batch.
    pub(super) async fn settle_waiting(&self, accounts: impl Iterator<Item = AccountId>) {
        let mut taken = self.deferred.take(accounts);
        let settlements = taken.settlements();
        if !settlements.is_empty() && self.remove_all(RemovalKind::Settle, &settlements).await.whole
        {
            taken.settled();
        }
    }

    pub(super) async fn remove_all(&self, kind: RemovalKind, removals: &[Removal]) -> Removed {
        let pieces = cut(removals, POSTINGS_MAX, BYTES_MAX, Removal::bytes);
        let remove = |removals| self.ledger.remove(kind, removals);
        let ended = self.in_pieces(pieces, remove).await;
        let mut removed = Removed { whole: false, refusals: Refusals::new(), failed: Vec::new() };
        for (removals, left) in ended.failed {
            let ids = removals.iter().flat_map(|removal| &removal.transactions);
            removed.failed.extend(ids.map(|id| (id.clone(), left)));
        }
        let mut count = 0;
        for (removals, written) in ended.answered {
            count += written.count;
            for refused in written.refused {
                let Removal { account, transactions, .. } = &removals[refused.item];
                if let [id] = transactions.as_slice() {
                    removed.refusals.insert((account.clone(), id.clone()), refused.problem);
                }
            }
        }
        removed.whole = count == removals.len();
        removed
    }
}

/// How long settlements wait for their ride. Beyond the lease others would take over what only
/// waits.
fn ride_wait(of_one: Duration, stands_for: u32, lease_ms: i64) -> Duration {
    let most = Duration::from_millis(u64::try_from(lease_ms).unwrap_or(0) / 4);
    of_one.max(of_one.saturating_mul(stands_for).min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settlements_of_a_batch_that_stands_for_two_wait_twice_as_long_and_never_beyond_the_lease() {
        let ms = Duration::from_millis;
        assert_eq!(ride_wait(ms(1_000), 1, 30_000), ms(1_000));
        assert_eq!(ride_wait(ms(1_000), 2, 30_000), ms(2_000));
        assert_eq!(ride_wait(ms(1_000), 2, 6_000), ms(1_500));
        assert_eq!(ride_wait(ms(1_000), 2, -1), ms(1_000), "what the setting says stays");
        assert_eq!(ride_wait(Duration::ZERO, 2, 30_000), Duration::ZERO);
    }
}
