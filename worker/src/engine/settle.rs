//! How marks leave the accounts: the steps of a batch after its decision.
//!
//! Promises that a mark is removed at most once with what it held, that `done` and `canceled` say
//! that no mark is left, and that nothing is removed while a post is in doubt. Settlements of a
//! large batch wait for a ride (see [`super::riders`]); the transactions are `applied` meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use common::ledger::{Advance, Ledger, Posting, Removal};
use common::transaction::{AccountId, State, TransactionId};

use super::batch::{Batch, Halt};
use super::riders::Party;
use super::{Environment, plan};

/// How often a batch that waits looks whether there is still something to wait for.
const LOOKS: u32 = 10;

/// How often it looks whether its last riders have arrived.
const ARRIVAL: Duration = Duration::from_millis(5);

impl<L: Ledger, E: Environment> Batch<'_, L, E> {
    /// Settles what is applied: at once what a predecessor left, and what has nothing to ride on.
    pub(super) async fn settle(&mut self) -> Result<(), Halt> {
        if self.doubt.is_some() {
            return Ok(());
        }
        let inherited = self.ids_where(|held| held.is_settleable() && !held.posted);
        self.settle_now(inherited).await?;
        let ours = self.ids_where(|held| held.is_settleable() && held.posted);
        if ours.len() < self.engine.settings.rides_from {
            self.settle_now(ours).await
        } else {
            self.settle_riding(ours).await
        }
    }

    async fn settle_now(&mut self, applied: Vec<TransactionId>) -> Result<(), Halt> {
        if applied.is_empty() {
            return Ok(());
        }
        let timer = self.engine.metrics.phase("settle");
        let together = plan::per_account(self.bodies(&applied));
        if self.remove_all(Removal::Settle, &together).await? < together.len() {
            // A predecessor settled some of them: what it left is found one by one.
            let singles = plan::per_leg(self.bodies(&applied));
            self.remove_checked(Removal::Settle, &singles).await?;
        }
        drop(timer);
        self.advance(Advance::Finish, applied).await
    }

    /// Lets the settlements ride on the posts of later batches, and settles those that nobody took
    /// along. No lease is needed for it: marks are their own guard.
    async fn settle_riding(&mut self, applied: Vec<TransactionId>) -> Result<(), Halt> {
        let settlements = plan::per_account(self.bodies(&applied));
        let accounts: Vec<AccountId> = settlements.iter().map(|s| s.account.clone()).collect();
        let party = Arc::<Party>::default();
        self.engine.riders.wait(settlements, &party);
        self.linger().await;
        let waiting = self.engine.riders.leave(&accounts, &party);
        while party.is_aboard() {
            self.engine.environment.sleep(ARRIVAL).await;
        }
        let timer = self.engine.metrics.phase("settle");
        let mut unsure: BTreeSet<_> = party.take_unsure().into_iter().collect();
        if self.remove_all(Removal::Settle, &waiting).await? < waiting.len() {
            unsure.extend(waiting.into_iter().map(|settlement| settlement.account));
        }
        if !unsure.is_empty() {
            let mut singles = plan::per_leg(self.bodies(&applied));
            singles.retain(|single| unsure.contains(&single.account));
            self.remove_checked(Removal::Settle, &singles).await?;
        }
        drop(timer);
        self.advance(Advance::Finish, applied).await
    }

    /// Waits while there are posts to ride on.
    async fn linger(&self) {
        for _ in 0..LOOKS {
            self.engine.environment.sleep(self.engine.settings.ride_wait / LOOKS).await;
            if !self.engine.is_posting() {
                return;
            }
        }
    }

    pub(super) async fn undo(&mut self) -> Result<(), Halt> {
        let canceling = self.ids_where(|held| held.state == State::Canceling);
        if canceling.is_empty() || self.doubt.is_some() {
            return Ok(());
        }
        let timer = self.engine.metrics.phase("undo");
        // A body that makes no sense was never posted, so it has nothing to undo.
        let singles = plan::per_leg(self.bodies(&canceling));
        self.remove_checked(Removal::Undo, &singles).await?;
        drop(timer);
        self.advance(Advance::Abandon, canceling).await
    }

    pub(super) async fn remove_all(
        &self,
        removal: Removal,
        postings: &[Posting],
    ) -> Result<usize, Halt> {
        let remove = || self.engine.ledger.remove(removal, postings);
        Ok(self.engine.retrying(remove).await?)
    }

    /// Removes single marks, and looks that none is left where not all of them were there.
    async fn remove_checked(&self, removal: Removal, singles: &[Posting]) -> Result<(), Halt> {
        if self.remove_all(removal, singles).await? == singles.len() {
            return Ok(());
        }
        let touched: BTreeSet<_> = singles.iter().map(|posting| posting.account.clone()).collect();
        let touched: Vec<_> = touched.into_iter().collect();
        let accounts = self.read_accounts(&touched).await?;
        if plan::any_mark_left(singles, &accounts) { Err(Halt::MarksLeft) } else { Ok(()) }
    }
}
