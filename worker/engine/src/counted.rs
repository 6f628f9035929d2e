//! Counting what is under way.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts one for as long as it lives, also where its owner panics or is dropped midway.
pub struct Counted<'c>(&'c AtomicUsize);

impl<'c> Counted<'c> {
    /// Counts one more.
    pub fn up(count: &'c AtomicUsize) -> Counted<'c> {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
