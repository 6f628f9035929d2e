//! The majority commit point as the primary knows it: majority reads show the writes up to it.
//!
//! Owns the newest writes that a majority has. A member that becomes primary has all of them, but
//! may not know yet that a majority has them: until it does, its majority reads show older
//! documents. Promises that reads never go back between fail-overs, and that writes appear in their
//! order.

use std::collections::VecDeque;

use super::model::Books;
use super::replication::Write;

/// So many of the newest writes may be hidden by a fail-over.
const HIDDEN_MAX: usize = 12;

/// How far the other members are behind the primary.
#[derive(Debug)]
pub struct Lag {
    /// The documents without the newest writes.
    older: Books,
    /// The newest writes, oldest first.
    newest: VecDeque<Write>,
    /// Whether the primary knows of fewer writes than the majority has; the newest writes are
    /// hidden then.
    behind: bool,
}

impl Lag {
    /// No write of these documents is hidden.
    #[must_use]
    pub fn new(books: Books) -> Lag {
        Lag { older: books, newest: VecDeque::new(), behind: false }
    }

    /// A majority has one more write.
    pub fn committed(&mut self, write: Write) {
        self.newest.push_back(write);
        if !self.behind {
            self.show_all_but(HIDDEN_MAX);
        }
    }

    /// A new primary knows that a majority has all writes, except for so many of the newest.
    pub fn fail_over(&mut self, hidden: usize) {
        self.show_all_but(hidden);
        self.behind = !self.newest.is_empty();
    }

    /// The primary learns of some more of them.
    pub fn catch_up(&mut self, count: usize) {
        self.show_all_but(self.newest.len().saturating_sub(count));
        self.behind &= !self.newest.is_empty();
    }

    fn show_all_but(&mut self, hidden: usize) {
        while self.newest.len() > hidden {
            if let Some(write) = self.newest.pop_front() {
                write.store(&mut self.older);
            }
        }
    }

    /// The documents that a majority read shows, if they differ from those of the majority.
    #[must_use]
    pub fn shown(&self) -> Option<&Books> {
        self.behind.then_some(&self.older)
    }

    /// How many writes are hidden.
    #[must_use]
    pub fn hidden(&self) -> usize {
        if self.behind { self.newest.len() } else { 0 }
    }

    /// The documents without the newest writes; odd documents are noted there, too.
    pub fn older(&mut self) -> &mut Books {
        &mut self.older
    }
}
