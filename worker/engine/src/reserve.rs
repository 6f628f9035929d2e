//! Which accounts the native batches of this worker work on, so that no two of them meet.
//!
//! Two native transactions on the same account cost each other the work of one; on different
//! accounts they use two cores. So a batch names the accounts of its transactions before it begins.
//! Those whose accounts nobody else has named go at once; the others wait for all who have named
//! them earlier. Promises that nobody waits for somebody who came later (so nobody starves, and no
//! two wait for each other), and that a debit does not overtake a credit to its account that came
//! before it. Nobody may wait while he holds something else. No money depends on any of it: batches
//! that meet have a conflict, as with those of other workers.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use ledger::Seen;
use ledger::transaction::{AccountId, Leg};
use tokio::sync::Notify;

/// If fewer of a batch than one in so many can go at once, none of them does: a transaction of its
/// own for a few costs more than their wait.
const SHARE_LEAST: usize = 3;

/// The accounts that are named, by whom.
pub(super) struct Reservations {
    /// A batch of fewer is not split.
    split_from: usize,
    table: Mutex<Table>,
    freed: Notify,
}

#[derive(Default)]
struct Table {
    next: u64,
    named: BTreeMap<u64, HashSet<AccountId>>,
}

impl Table {
    fn is_free(&self, account: &AccountId) -> bool {
        self.named.values().all(|named| !named.contains(account))
    }

    /// Whether nobody who came earlier has named one of the accounts of this number.
    fn is_first(&self, number: u64) -> bool {
        let Some(ours) = self.named.get(&number) else { return true };
        self.named.range(..number).all(|(_, earlier)| earlier.is_disjoint(ours))
    }
}

/// Accounts that somebody has named. Dropped, they are free for the next.
pub(super) struct Reserved<'a> {
    reservations: &'a Reservations,
    number: u64,
}

impl Reserved<'_> {
    /// Waits until nobody who came earlier has one of the accounts.
    pub async fn turn(&self) {
        loop {
            // Made before the look, so that what is freed in between wakes it.
            let freed = self.reservations.freed.notified();
            if self.reservations.table().is_first(self.number) {
                return;
            }
            freed.await;
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.reservations.table().named.remove(&self.number);
        self.reservations.freed.notify_waiters();
    }
}

/// Transactions, and the accounts that they have to themselves when it is their turn.
pub(super) type Share<'a> = (Vec<Seen>, Reserved<'a>);

impl Reservations {
    /// Nobody has named any yet. A batch of fewer transactions than this is not split.
    pub fn new(split_from: usize) -> Reservations {
        Reservations { split_from, table: Mutex::default(), freed: Notify::default() }
    }

    /// Names the accounts of transactions: first of those that can go at once, then of the others.
    /// A transaction whose accounts are not known is among the first.
    pub fn name(&self, transactions: Vec<Seen>) -> (Share<'_>, Option<Share<'_>>) {
        let mut table = self.table();
        let (mut at_once, mut later) = (Vec::new(), Vec::new());
        let (mut now, mut then) = (HashSet::new(), HashSet::new());
        let mut credited = HashSet::new();
        for seen in transactions {
            let overtakes = |leg: &Leg| leg.amount.is_negative() && credited.contains(&leg.account);
            let free = |leg: &Leg| table.is_free(&leg.account) && !overtakes(leg);
            let accounts = seen.legs().iter().map(|leg| leg.account.clone());
            if seen.legs().iter().all(free) {
                now.extend(accounts);
                at_once.push(seen);
            } else {
                then.extend(accounts);
                let credits = seen.legs().iter().filter(|leg| !leg.amount.is_negative());
                credited.extend(credits.map(|leg| leg.account.clone()));
                later.push(seen);
            }
        }
        let all = at_once.len() + later.len();
        let is_split = !later.is_empty();
        if is_split && (all < self.split_from || at_once.len() * SHARE_LEAST < all) {
            // In the order in which they came.
            at_once.append(&mut later);
            at_once.sort_by(|a, b| a.id.cmp(&b.id));
            (later, at_once) = (at_once, later);
            then.extend(now.drain());
        }
        let mut add = |accounts| {
            table.next += 1;
            let number = table.next;
            table.named.insert(number, accounts);
            Reserved { reservations: self, number }
        };
        let first = (at_once, add(now));
        let second = (!later.is_empty()).then(|| (later, add(then)));
        (first, second)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A panic of a batch between two of these lines leaves the table whole.
        self.table.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use ledger::Size;
    use ledger::amount::Amount;
    use ledger::transaction::{Body, State};

    use super::*;

    fn transfer(id: &str, source: &str, destination: &str) -> Seen {
        let body = Body::transfer(source, destination, Amount::Int(1)).expect("two accounts");
        Seen {
            id: id.into(),
            state: State::Initial,
            claim: None,
            lease_until: 0,
            takeover_at: 0,
            attempts: 0,
            attempts_alone: 0,
            created_at: 0,
            parked: false,
            never_posted: false,
            server_now: 0,
            size: Size { legs: 2, bytes: 10 },
            body: Some(Ok(body)),
        }
    }

    fn ids(transactions: &[Seen]) -> Vec<&str> {
        transactions.iter().map(|seen| &*seen.id).collect()
    }

    #[test]
    fn what_shares_an_account_with_others_waits_until_they_are_gone() {
        let reservations = Reservations::new(2);
        let ((first, held), none) =
            reservations.name(vec![transfer("1", "a", "b"), transfer("2", "b", "c")]);
        assert_eq!(ids(&first), ["1", "2"]);
        assert!(none.is_none() && held.turn().now_or_never().is_some());
        let ((free, _other), blocked) =
            reservations.name(vec![transfer("3", "x", "y"), transfer("4", "c", "z")]);
        let (later, waiting) = blocked.expect("c is taken");
        assert_eq!((ids(&free), ids(&later)), (vec!["3"], vec!["4"]));
        assert!(waiting.turn().now_or_never().is_none(), "went beside another batch on c");
        drop(held);
        assert!(waiting.turn().now_or_never().is_some());
    }

    #[test]
    fn a_small_batch_waits_whole() {
        let reservations = Reservations::new(3);
        let (_held, _) = reservations.name(vec![transfer("1", "a", "b")]);
        let ((free, nothing), whole) =
            reservations.name(vec![transfer("2", "x", "y"), transfer("3", "b", "c")]);
        let (whole, _waiting) = whole.expect("b is taken");
        assert!(free.is_empty() && nothing.turn().now_or_never().is_some());
        assert_eq!(ids(&whole), ["2", "3"], "not in the order in which they came");
    }

    #[test]
    fn nobody_is_overtaken_by_those_who_come_later() {
        let reservations = Reservations::new(2);
        let ((_, held), _) = reservations.name(vec![transfer("1", "a", "b")]);
        let ((_, nothing), second) = reservations.name(vec![transfer("2", "b", "c")]);
        let (_, second) = second.expect("b is taken");
        drop(nothing);
        // `c` is free, but somebody has been waiting for it together with `b`.
        let ((free, _), third) = reservations.name(vec![transfer("3", "c", "d")]);
        let (_, third) = third.expect("c is wanted");
        assert!(free.is_empty());
        drop(held);
        assert!(third.turn().now_or_never().is_none());
        assert!(second.turn().now_or_never().is_some());
        drop(second);
        assert!(third.turn().now_or_never().is_some());
    }

    #[test]
    fn a_debit_waits_for_the_credit_before_it() {
        let reservations = Reservations::new(2);
        let (_held, _) = reservations.name(vec![transfer("1", "a", "b")]);
        let chain = vec![
            transfer("pays-in", "b", "x"),
            transfer("spends", "x", "y"),
            transfer("pays-in-too", "z", "x"),
        ];
        let ((free, _), later) = reservations.name(chain);
        assert_eq!(ids(&free), ["pays-in-too"]);
        assert_eq!(ids(&later.expect("b is taken").0), ["pays-in", "spends"]);
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let reservations = Reservations::new(2);
        let ((_, held), _) = reservations.name(vec![transfer("1", "a", "b")]);
        let (_, later) = reservations.name(vec![transfer("2", "a", "b")]);
        let (_, waiting) = later.expect("both are taken");
        let woken = async {
            tokio::task::yield_now().await;
            drop(held);
        };
        futures_util::future::join(waiting.turn(), woken).await;
    }
}
