//! Deferred settlements: those that wait for a ride on the next post to their account.
//!
//! Owns the settlements of one worker process that wait. A batch that has committed defers its
//! settlements; a later batch carries those of the accounts that it posts to, which saves their
//! update. Promises that a settlement is in one place only: it waits, it is carried by one post, or
//! it is back with its batch. A settlement whose post has no certain outcome goes back to its
//! batch, which settles it under the guard of its marks: settled twice, it changes nothing the
//! second time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use ledger::transaction::AccountId;
use ledger::{Posting, Removal};

use super::plan::{self, Accounts};

/// What became of the settlements that one batch has deferred.
#[derive(Debug, Default)]
pub(super) struct Deferral {
    /// How many are carried at this moment.
    carried: AtomicUsize,
    /// The accounts of those that came back, and nobody knows whether they are settled.
    uncertain: Mutex<Vec<AccountId>>,
}

impl Deferral {
    /// Whether some are carried at this moment.
    pub fn is_carried(&self) -> bool {
        self.carried.load(Ordering::Acquire) > 0
    }

    /// The accounts where a ride may or may not have settled.
    pub fn take_uncertain(&self) -> Vec<AccountId> {
        std::mem::take(&mut self.uncertain.lock().unwrap_or_else(|broken| broken.into_inner()))
    }
}

#[derive(Debug)]
struct Waiting {
    settlement: Removal,
    deferral: Arc<Deferral>,
}

/// The settlements of one worker that wait.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    waiting: Mutex<HashMap<AccountId, Vec<Waiting>>>,
}

impl Deferred {
    /// Lets the settlements of a batch wait.
    pub fn defer(&self, settlements: Vec<Removal>, deferral: &Arc<Deferral>) {
        let mut waiting = self.waiting();
        for settlement in settlements {
            let one = Waiting { settlement, deferral: deferral.clone() };
            match waiting.entry(one.settlement.account.clone()) {
                Entry::Occupied(mut there) => there.get_mut().push(one),
                // Most wait alone on their account; an empty `Vec` would make room for four.
                Entry::Vacant(account) => {
                    account.insert(vec![one]);
                }
            }
        }
    }

    /// Those of a batch that still wait; they wait no longer.
    pub fn take_back(&self, accounts: &[AccountId], deferral: &Arc<Deferral>) -> Vec<Removal> {
        let mut waiting = self.waiting();
        let mut back = Vec::new();
        for account in accounts {
            let Some(there) = waiting.get_mut(account) else { continue };
            let ours = there.extract_if(.., |one| Arc::ptr_eq(&one.deferral, deferral));
            back.extend(ours.map(|one| one.settlement));
            if there.is_empty() {
                waiting.remove(account);
            }
        }
        back
    }

    /// Puts what waits onto postings to the same account: at most one posting of an account carries
    /// settlements, and it carries all whose sums stay within the limits.
    pub fn carry(&self, postings: &mut [Posting]) -> Carried {
        let mut waiting = self.waiting();
        let mut settlements = Vec::new();
        if waiting.is_empty() {
            return Carried { settlements };
        }
        for posting in postings {
            debug_assert!(posting.ride.is_none(), "a ride has one place");
            let Some(mut there) = waiting.remove(&posting.account) else { continue };
            let fits = |one: &mut Waiting| join(&mut posting.ride, &one.settlement);
            settlements.extend(there.extract_if(.., fits));
            if !there.is_empty() {
                waiting.insert(posting.account.clone(), there);
            }
        }
        Carried::new(settlements)
    }

    /// Takes all that waits on these accounts, for somebody who settles it now.
    pub fn take(&self, accounts: impl Iterator<Item = AccountId>) -> Carried {
        let mut waiting = self.waiting();
        let mut settlements = Vec::new();
        if !waiting.is_empty() {
            settlements.extend(accounts.filter_map(|account| waiting.remove(&account)).flatten());
        }
        Carried::new(settlements)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<AccountId, Vec<Waiting>>> {
        // A panic of a batch between two of these lines leaves the map whole.
        self.waiting.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

fn join(ride: &mut Option<Removal>, settlement: &Removal) -> bool {
    let Some(ride) = ride else {
        *ride = Some(settlement.clone());
        return true;
    };
    let debits = ride.debits.checked_add(settlement.debits);
    let credits = ride.credits.checked_add(settlement.credits);
    let released = ride.released.checked_add(settlement.released);
    let (Some(debits), Some(credits), Some(released)) = (debits, credits, released) else {
        return false;
    };
    (ride.debits, ride.credits, ride.released) = (debits, credits, released);
    ride.holds += settlement.holds;
    ride.transactions.extend(settlement.transactions.iter().cloned());
    true
}

/// Settlements that a post carries. Dropped, they go back to their batches as uncertain.
#[derive(Debug, Default)]
pub(super) struct Carried {
    settlements: Vec<Waiting>,
}

impl Carried {
    fn new(settlements: Vec<Waiting>) -> Carried {
        for one in &settlements {
            one.deferral.carried.fetch_add(1, Ordering::AcqRel);
        }
        Carried { settlements }
    }

    /// What is to be settled.
    pub fn settlements(&self) -> Vec<Removal> {
        self.settlements.iter().map(|one| one.settlement.clone()).collect()
    }

    /// All of them are settled, durably. Returns how many.
    pub fn settled(&mut self) -> u64 {
        let settlements = std::mem::take(&mut self.settlements);
        for one in &settlements {
            let before = one.deferral.carried.fetch_sub(1, Ordering::AcqRel);
            debug_assert!(before > 0, "a settlement was carried twice");
        }
        settlements.len() as u64
    }

    /// Takes out those that are settled, by a look at the accounts after an incomplete post.
    /// Returns how many they are; the others are to be settled before their credits are missed.
    pub fn settled_by(&mut self, accounts: &Accounts) -> u64 {
        let gone = |one: &mut Waiting| !plan::any_mark_left(&one.settlement, accounts);
        let settlements = self.settlements.extract_if(.., gone).collect();
        Carried { settlements }.settled()
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        for one in &self.settlements {
            let account = one.settlement.account.clone();
            let uncertain = one.deferral.uncertain.lock();
            uncertain.unwrap_or_else(|broken| broken.into_inner()).push(account);
            // Last: who sees that none is carried sees all that came back.
            one.deferral.carried.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use ledger::AccountRead;
    use ledger::account::Account;
    use ledger::amount::Amount;
    use ledger::transaction::{Body, TransactionId};

    use super::*;

    fn postings(id: &str, source: &str, destination: &str) -> Vec<Posting> {
        let body = Body::transfer(source, destination, Amount::Int(1)).expect("valid");
        plan::postings_per_account([(&TransactionId::from(id), &body)])
    }

    fn settlements(id: &str, source: &str, destination: &str) -> Vec<Removal> {
        postings(id, source, destination).into_iter().map(Posting::into_removal).collect()
    }

    fn accounts(list: &[Account]) -> Accounts {
        let read = |account: &Account| AccountRead {
            id: account.id.clone(),
            marks: Some(account.pending_transactions.clone()),
            account: Ok(account.clone()),
            as_written: true,
        };
        let mut accounts = Accounts::default();
        accounts.read(list.iter().map(read).collect());
        accounts
    }

    #[test]
    fn a_post_takes_along_what_waits_for_its_accounts_and_nothing_else() {
        let (deferred, deferral) = (Deferred::default(), Arc::default());
        deferred.defer(settlements("one", "a", "b"), &deferral);
        let mut later = postings("two", "b", "c");
        let mut carried = deferred.carry(&mut later);
        assert!(deferral.is_carried());
        let ride = later[0].ride.as_ref().expect("b has somebody waiting");
        assert_eq!((ride.debits, ride.credits), (Amount::ZERO, Amount::Int(1)));
        assert_eq!(later[1].ride, None);
        assert_eq!(carried.settled(), 1);
        assert!(!deferral.is_carried() && deferral.take_uncertain().is_empty());
        let left = deferred.take_back(&["a".into(), "b".into()], &deferral);
        assert_eq!(left.iter().map(|p| &*p.account).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn a_ride_that_nobody_knows_the_end_of_goes_back_to_its_batch() {
        let (deferred, deferral) = (Deferred::default(), Arc::default());
        deferred.defer(settlements("one", "a", "b"), &deferral);
        drop(deferred.carry(&mut postings("two", "b", "c")));
        assert!(!deferral.is_carried());
        assert_eq!(deferral.take_uncertain(), [AccountId::from("b")]);
        // It does not ride again: its marks may be gone, and would keep the next post from acting.
        let mut third = postings("three", "b", "c");
        deferred.carry(&mut third);
        assert_eq!(third[0].ride, None);
    }

    #[test]
    fn a_look_tells_who_has_settled() {
        let (deferred, deferral) = (Deferred::default(), Arc::default());
        deferred.defer(settlements("one", "a", "b"), &deferral);
        let mut carried = deferred.carry(&mut postings("two", "a", "b"));
        let mut waiting = Account::new("b", Amount::Int(0));
        waiting.pending_transactions.insert("one".into());
        let settled = carried.settled_by(&accounts(&[Account::new("a", Amount::Int(0)), waiting]));
        assert_eq!(settled, 1);
        let behind = carried.settlements();
        assert_eq!(behind.iter().map(|p| &*p.account).collect::<Vec<_>>(), ["b"]);
        drop(carried);
        assert_eq!(deferral.take_uncertain(), [AccountId::from("b")]);
    }
}
