//! Which rows of a file may go, so that each sees what those before it did.
//!
//! A row waits for every earlier one that names one of its accounts, until that is decided. Rows
//! without a common account go together. Pure: it knows rows by their place and their accounts.
//! Promises that of the rows that name an account one at a time is under way, in the order of the
//! file, and that as long as rows are there and none is under way, one is ready.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

/// The place of a row in the file, from 0.
pub(super) type Place = usize;

/// Rows that are not decided, by their places.
#[derive(Debug)]
pub(super) struct Sequence<A> {
    /// Of each account, the rows that name it and are not decided, the earliest first.
    rows_of: HashMap<A, VecDeque<Place>>,
    /// Of each row, its accounts, and how many of them have an earlier row.
    rows: HashMap<Place, (Vec<A>, usize)>,
    /// Rows that nothing keeps, and that were not taken.
    ready: VecDeque<Place>,
}

impl<A: Clone + Eq + Hash + Ord> Sequence<A> {
    pub fn new() -> Sequence<A> {
        Sequence { rows_of: HashMap::new(), rows: HashMap::new(), ready: VecDeque::new() }
    }

    /// How many rows are not decided.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The next row of the file.
    pub fn add(&mut self, place: Place, accounts: impl IntoIterator<Item = A>) {
        let accounts: BTreeSet<A> = accounts.into_iter().collect();
        let mut kept_by = 0;
        for account in &accounts {
            let rows = self.rows_of.entry(account.clone()).or_default();
            kept_by += usize::from(!rows.is_empty());
            rows.push_back(place);
        }
        self.rows.insert(place, (accounts.into_iter().collect(), kept_by));
        if kept_by == 0 {
            self.ready.push_back(place);
        }
    }

    /// Takes a row that may go.
    pub fn take(&mut self) -> Option<Place> {
        self.ready.pop_front()
    }

    /// A row that was taken is decided: those that have waited for it may go.
    pub fn decided(&mut self, place: Place) {
        let Some((accounts, _)) = self.rows.remove(&place) else { return };
        for account in accounts {
            let Some(rows) = self.rows_of.get_mut(&account) else { continue };
            // It was taken, so it is the first.
            rows.pop_front();
            let Some(next) = rows.front() else {
                self.rows_of.remove(&account);
                continue;
            };
            let Some((_, kept_by)) = self.rows.get_mut(next) else { continue };
            *kept_by -= 1;
            if *kept_by == 0 {
                self.ready.push_back(*next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(sequence: &mut Sequence<u8>) -> Vec<Place> {
        std::iter::from_fn(|| sequence.take()).collect()
    }

    #[test]
    fn a_row_goes_when_each_earlier_one_with_an_account_of_it_is_decided() {
        let mut sequence = Sequence::new();
        for (place, accounts) in [[1, 2], [2, 3], [4, 5], [3, 4], [1, 6]].into_iter().enumerate() {
            sequence.add(place, accounts);
        }
        assert_eq!(all(&mut sequence), [0, 2]);
        sequence.decided(2);
        assert_eq!(all(&mut sequence), Vec::<Place>::new(), "the fourth waits for the second, too");
        sequence.decided(0);
        assert_eq!(all(&mut sequence), [4, 1], "the row of its first account comes first");
        sequence.decided(1);
        assert_eq!(all(&mut sequence), [3]);
        sequence.decided(3);
        sequence.decided(4);
        assert_eq!((sequence.len(), sequence.rows_of.len()), (0, 0));
    }

    proptest! {
        #[test]
        fn whatever_is_decided_first_the_rows_of_an_account_go_one_after_the_other(
            rows in prop::collection::vec(prop::collection::vec(0_u8..6, 1..4), 1..40),
            choices in prop::collection::vec(any::<prop::sample::Index>(), 200),
        ) {
            let mut sequence = Sequence::new();
            let (mut added, mut under_way, mut gone) = (0, Vec::<Place>::new(), Vec::new());
            for choice in choices {
                while added < rows.len() && sequence.len() < 10 {
                    sequence.add(added, rows[added].iter().copied());
                    added += 1;
                }
                under_way.extend(all(&mut sequence));
                if under_way.is_empty() {
                    break;
                }
                for (at, one) in under_way.iter().enumerate() {
                    for other in &under_way[..at] {
                        let common = rows[*one].iter().any(|it| rows[*other].contains(it));
                        prop_assert!(!common, "{one} and {other} are under way together");
                    }
                }
                let decided = under_way.swap_remove(choice.index(under_way.len()));
                gone.push(decided);
                sequence.decided(decided);
            }
            prop_assert_eq!(gone.len(), rows.len(), "all go");
            for account in 0..6 {
                let its = gone.iter().filter(|row| rows[**row].contains(&account));
                prop_assert!(its.is_sorted(), "{account}: {gone:?}");
            }
        }
    }
}
