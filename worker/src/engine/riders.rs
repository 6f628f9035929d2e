//! Settlements that wait for a ride on the next post to their account.
//!
//! Owns the waiting room of one worker process. A batch that has committed lets its settlements
//! wait here; a later batch takes along those of the accounts that it posts to, which saves their
//! update. Promises that a settlement is in one place only: it waits, it rides with one post, or
//! it is back with its batch. A ride whose arrival is not certain goes back to its batch, which
//! settles it under the guard of its marks: settled twice, it changes nothing the second time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use common::ledger::{Posting, Ride};
use common::transaction::{AccountId, TransactionId};

use super::plan::{self, Accounts};

/// The settlements of one batch.
#[derive(Debug, Default)]
pub(super) struct Party {
    /// How many ride at this moment.
    aboard: AtomicUsize,
    /// The accounts of those that came back without anybody knowing whether they are settled.
    unsure: Mutex<Vec<AccountId>>,
}

impl Party {
    /// Whether some ride at this moment.
    pub fn is_aboard(&self) -> bool {
        self.aboard.load(Ordering::Acquire) > 0
    }

    /// The accounts where a ride may or may not have settled.
    pub fn take_unsure(&self) -> Vec<AccountId> {
        std::mem::take(&mut self.unsure.lock().unwrap_or_else(|broken| broken.into_inner()))
    }
}

#[derive(Debug)]
struct Rider {
    settlement: Posting,
    party: Arc<Party>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Riders {
    waiting: Mutex<HashMap<AccountId, Vec<Rider>>>,
}

impl Riders {
    /// Lets the settlements of a batch wait.
    pub fn wait(&self, settlements: Vec<Posting>, party: &Arc<Party>) {
        let mut waiting = self.waiting();
        for settlement in settlements {
            let rider = Rider { settlement, party: party.clone() };
            match waiting.entry(rider.settlement.account.clone()) {
                Entry::Occupied(mut riders) => riders.get_mut().push(rider),
                // Most wait alone on their account; an empty `Vec` would make room for four.
                Entry::Vacant(account) => {
                    account.insert(vec![rider]);
                }
            }
        }
    }

    /// Those of a batch that still wait; they wait no longer.
    pub fn leave(&self, accounts: &[AccountId], party: &Arc<Party>) -> Vec<Posting> {
        let mut waiting = self.waiting();
        let mut left = Vec::new();
        for account in accounts {
            let Some(riders) = waiting.get_mut(account) else { continue };
            let ours = riders.extract_if(.., |rider| Arc::ptr_eq(&rider.party, party));
            left.extend(ours.map(|rider| rider.settlement));
            if riders.is_empty() {
                waiting.remove(account);
            }
        }
        left
    }

    /// Puts what waits onto postings to the same account: at most one posting of an account takes
    /// anybody along, and it takes all whose sums stay within the limits.
    pub fn board(&self, postings: &mut [Posting]) -> Aboard {
        let mut waiting = self.waiting();
        let mut riders = Vec::new();
        if waiting.is_empty() {
            return Aboard { riders };
        }
        for posting in postings {
            let Some(mut there) = waiting.remove(&posting.account) else { continue };
            let fits = |rider: &mut Rider| join(&mut posting.ride, &rider.settlement);
            riders.extend(there.extract_if(.., fits));
            if !there.is_empty() {
                waiting.insert(posting.account.clone(), there);
            }
        }
        for rider in &riders {
            rider.party.aboard.fetch_add(1, Ordering::AcqRel);
        }
        Aboard { riders }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<AccountId, Vec<Rider>>> {
        // A panic of a batch between two of these lines leaves the map whole.
        self.waiting.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

fn join(ride: &mut Option<Ride>, settlement: &Posting) -> bool {
    let Some(ride) = ride else {
        *ride = Some(Ride {
            debits: settlement.debits,
            credits: settlement.credits,
            transactions: settlement.transactions.clone(),
        });
        return true;
    };
    let debits = ride.debits.checked_add(settlement.debits);
    let (Some(debits), Some(credits)) = (debits, ride.credits.checked_add(settlement.credits))
    else {
        return false;
    };
    (ride.debits, ride.credits) = (debits, credits);
    ride.transactions.extend(settlement.transactions.iter().cloned());
    true
}

/// Settlements on their ride. Dropped, they go back to their batches as uncertain.
#[derive(Debug, Default)]
pub(super) struct Aboard {
    riders: Vec<Rider>,
}

impl Aboard {
    /// All of them are settled, durably. Returns how many.
    pub fn arrived(&mut self) -> u64 {
        let riders = std::mem::take(&mut self.riders);
        for rider in &riders {
            rider.party.aboard.fetch_sub(1, Ordering::AcqRel);
        }
        riders.len() as u64
    }

    /// The transactions whose marks it is to remove.
    pub fn transactions(&self) -> impl Iterator<Item = TransactionId> {
        self.riders.iter().flat_map(|rider| rider.settlement.transactions.iter().cloned())
    }

    /// Sorts out who has arrived, by a look at the accounts after an incomplete post. Returns the
    /// others, to be settled before their credits are missed.
    pub fn left_behind(&mut self, accounts: &Accounts) -> Vec<Posting> {
        let gone = |rider: &mut Rider| {
            let settlement = std::slice::from_ref(&rider.settlement);
            !plan::any_mark_left(settlement, accounts)
        };
        let riders = self.riders.extract_if(.., gone).collect();
        Aboard { riders }.arrived();
        self.riders.iter().map(|rider| rider.settlement.clone()).collect()
    }
}

impl Drop for Aboard {
    fn drop(&mut self) {
        for rider in &self.riders {
            let account = rider.settlement.account.clone();
            let unsure = rider.party.unsure.lock();
            unsure.unwrap_or_else(|broken| broken.into_inner()).push(account);
            // Last: who sees nobody aboard sees all who came back.
            rider.party.aboard.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use common::account::Account;
    use common::amount::Amount;
    use common::ledger::AccountRead;
    use common::transaction::Body;

    use super::*;

    fn postings(id: &str, source: &str, destination: &str) -> Vec<Posting> {
        let body = Body::transfer(source, destination, Amount::Int(1)).expect("valid");
        plan::per_account([(&TransactionId::from(id), &body)])
    }

    fn accounts(list: &[Account]) -> Accounts {
        let read = |account: &Account| AccountRead {
            id: account.id.clone(),
            marks: Some(account.pending_transactions.clone()),
            account: Ok(account.clone()),
        };
        let mut accounts = Accounts::default();
        accounts.read(list.iter().map(read).collect());
        accounts
    }

    #[test]
    fn a_post_takes_along_what_waits_for_its_accounts_and_nothing_else() {
        let (riders, party) = (Riders::default(), Arc::default());
        riders.wait(postings("one", "a", "b"), &party);
        let mut later = postings("two", "b", "c");
        let mut aboard = riders.board(&mut later);
        assert!(party.is_aboard());
        let ride = later[0].ride.as_ref().expect("b has somebody waiting");
        assert_eq!((ride.debits, ride.credits), (Amount::ZERO, Amount::Int(1)));
        assert_eq!(later[1].ride, None);
        assert_eq!(aboard.arrived(), 1);
        assert!(!party.is_aboard() && party.take_unsure().is_empty());
        let left = riders.leave(&["a".into(), "b".into()], &party);
        assert_eq!(left.iter().map(|p| &*p.account).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn a_ride_that_nobody_knows_the_end_of_goes_back_to_its_batch() {
        let (riders, party) = (Riders::default(), Arc::default());
        riders.wait(postings("one", "a", "b"), &party);
        drop(riders.board(&mut postings("two", "b", "c")));
        assert!(!party.is_aboard());
        assert_eq!(party.take_unsure(), [AccountId::from("b")]);
        // It does not ride again: its marks may be gone, and would keep the next post from acting.
        let mut third = postings("three", "b", "c");
        riders.board(&mut third);
        assert_eq!(third[0].ride, None);
    }

    #[test]
    fn a_look_tells_who_has_arrived() {
        let (riders, party) = (Riders::default(), Arc::default());
        riders.wait(postings("one", "a", "b"), &party);
        let mut aboard = riders.board(&mut postings("two", "a", "b"));
        let mut waiting = Account::new("b", Amount::Int(0));
        waiting.pending_transactions.insert("one".into());
        let behind = aboard.left_behind(&accounts(&[Account::new("a", Amount::Int(0)), waiting]));
        assert_eq!(behind.iter().map(|p| &*p.account).collect::<Vec<_>>(), ["b"]);
        drop(aboard);
        assert_eq!(party.take_unsure(), [AccountId::from("b")]);
    }
}
