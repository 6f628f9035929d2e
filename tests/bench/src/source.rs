//! An endless load, one part after the other.
//!
//! Owns the books of everything that was taken. The next part is made while the last one is used,
//! so that nobody waits for it; parts are small, because ten minutes of transfers would fill the
//! memory.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::workload::{Books, Load, Workload};

/// Makes the parts.
pub struct Source {
    workload: Workload,
    accounts: usize,
    size: usize,
    seed: u64,
    next: JoinHandle<Load>,
    /// What the books must say after everything that was noted here.
    pub books: Books,
}

impl Source {
    /// Transfers among so many accounts, in parts of this size.
    #[must_use]
    pub fn new(workload: Workload, accounts: usize, size: usize, seed: u64) -> Source {
        let next = make(workload, accounts, size, seed);
        Source { workload, accounts, size, seed, next, books: Books::opened(accounts) }
    }

    /// Transfers in a part.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The next part. Whoever executes it notes how much of it in the books.
    ///
    /// # Panics
    /// When the runtime ends meanwhile.
    pub async fn next(&mut self) -> Arc<Load> {
        self.seed += 1;
        let after = make(self.workload, self.accounts, self.size, self.seed);
        let part = std::mem::replace(&mut self.next, after).await;
        Arc::new(part.expect("making a load does not panic"))
    }
}

/// Each part has a seed of its own, so that no id comes twice.
fn make(workload: Workload, accounts: usize, size: usize, seed: u64) -> JoinHandle<Load> {
    tokio::task::spawn_blocking(move || Load::generate(workload, accounts, size, seed))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[tokio::test]
    async fn no_transfer_comes_twice_and_the_books_know_all_of_them() {
        let mut source = Source::new(Workload::Uniform, 100, 50, 7);
        let mut ids = HashSet::new();
        for _ in 0..3 {
            let part = source.next().await;
            source.books.add(&part.transfers);
            ids.extend(part.transfers.iter().map(|transfer| transfer.id.clone()));
        }
        assert_eq!((ids.len(), source.books.done), (150, 150));
        let opened: i64 = Books::opened(100).balances.iter().sum();
        assert_eq!(source.books.balances.iter().sum::<i64>(), opened);
    }
}
