//! Whether full batches in a row are for the same accounts.
//!
//! Native batches that share an account go one after the other ([`crate::reserve`]), so one core of
//! the database works and the others wait. Two phases wait for single documents only. So while
//! batches are full and crowd on few accounts, two phases settle more: up to a third more
//! (`tests/bench/README.md`). Batches that are not full say nothing: there is time for one after
//! the other then, and the native way answers sooner. A pure decision, about speed only.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use ledger::transaction::{AccountId, Leg};

/// If less than this share of a batch could go beside the batch before it, native batches wait for
/// each other: it is the share from which on [`crate::reserve`] lets a part of a batch go at once.
const FREE_LEAST: f64 = 1.0 / 3.0;

/// They are taken for crowded until the share is this high again, so that a share at the border
/// does not change the way with every batch.
const FREE_AGAIN: f64 = 0.4;

/// What the full batches of late have in common.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// The accounts of the last full batch, as hashes. Two accounts with one hash are taken for the
    /// same.
    last: HashSet<u64>,
    /// The share of transactions that had no account in common with the batch before. The last
    /// batch counts for half.
    free: Option<f64>,
    is_crowded: bool,
}

impl Crowd {
    /// Whether native batches would wait for each other. As long as nobody knows, they would: two
    /// phases are never much slower, and show it.
    pub fn is_crowded(&self) -> bool {
        self.is_crowded || self.free.is_none()
    }

    /// Learns the legs of the transactions of a full batch.
    pub fn learn<'a>(&mut self, transactions: impl Iterator<Item = &'a [Leg]>) {
        let (mut all, mut free, mut number) = (HashSet::new(), 0, 0);
        for legs in transactions {
            let accounts = legs.iter().map(|leg| hash(&leg.account));
            free += usize::from(accounts.clone().all(|account| !self.last.contains(&account)));
            all.extend(accounts);
            number += 1;
        }
        let is_first = self.last.is_empty();
        self.last = all;
        if is_first || number == 0 {
            return;
        }
        let share = free as f64 / number as f64;
        let free = self.free.map_or(share, |before| (before + share) / 2.0);
        self.free = Some(free);
        self.is_crowded = free < if self.is_crowded { FREE_AGAIN } else { FREE_LEAST };
    }
}

fn hash(account: &AccountId) -> u64 {
    let mut hasher = DefaultHasher::new();
    account.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use ledger::amount::Amount;

    use super::*;

    /// Transfers from accounts of their own; so many of a hundred are to one account that all
    /// batches have.
    fn batch(number: usize, to_all: usize) -> Vec<Vec<Leg>> {
        let leg = |account: String, amount| Leg {
            account: (*account).into(),
            amount: Amount::Int(amount),
        };
        let destination = |n| match n < to_all {
            true => "everybody's".to_owned(),
            false => format!("destination-{number}-{n}"),
        };
        let transfer = |n| vec![leg(format!("source-{number}-{n}"), -1), leg(destination(n), 1)];
        (0..100).map(transfer).collect()
    }

    fn learn(crowd: &mut Crowd, number: usize, to_all: usize) -> bool {
        crowd.learn(batch(number, to_all).iter().map(Vec::as_slice));
        crowd.is_crowded()
    }

    #[test]
    fn batches_crowd_when_most_of_their_transactions_are_for_the_accounts_of_the_batch_before() {
        let mut crowd = Crowd::default();
        assert!(learn(&mut crowd, 0, 0), "nobody knows yet");
        assert!(!learn(&mut crowd, 1, 0));
        // Most of it, but the batch before counts, too.
        assert!(!learn(&mut crowd, 2, 90));
        assert!(!learn(&mut crowd, 3, 90));
        assert!(learn(&mut crowd, 4, 90));
        // Far fewer, but the batches before count, too.
        assert!(learn(&mut crowd, 5, 60));
        assert!(!learn(&mut crowd, 6, 0));
        assert!((7..100).all(|number| !learn(&mut crowd, number, 60)));
    }

    #[test]
    fn a_share_at_the_border_does_not_change_the_way_with_every_batch() {
        let mut crowd = Crowd::default();
        let ways: Vec<bool> = (0..100).map(|n| learn(&mut crowd, n, 65 + 3 * (n % 2))).collect();
        let changes = ways.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes <= 1, "{changes} changes");
    }

    #[test]
    fn a_batch_without_a_readable_transaction_says_nothing() {
        let mut crowd = Crowd::default();
        learn(&mut crowd, 0, 0);
        assert!(!learn(&mut crowd, 1, 0));
        crowd.learn(std::iter::empty());
        assert!(!crowd.is_crowded());
    }
}
