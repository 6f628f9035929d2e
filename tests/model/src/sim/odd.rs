//! Odd documents: the server refuses to write them, or they can't be read.
//!
//! Owns the notes of which document is odd, and how. In a real database the cause is a validator of
//! the user's own or an edit by hand; here a note is kept beside the documents, so repairing a
//! document is removing its note. Ids of accounts and of transactions are never the same.

use std::collections::BTreeSet;
use std::sync::Arc;

/// How a document can be odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oddity {
    /// The server refuses every change of it.
    Refuses,
    /// A transaction with an invalid content.
    Unreadable,
    /// A transaction whose content is too large to be read together with others.
    Large,
    /// A command for it and other documents takes too long; a command for it alone does not.
    Slow,
    /// An account that can't be read because of its floor: nothing is posted, but marks can be
    /// removed.
    BrokenFloor,
    /// An account that can't be read because of its balance: nothing is posted, no mark can be
    /// removed.
    BrokenBalance,
    /// The same, and its marks can't be read either.
    BrokenMarks,
}

impl Oddity {
    /// The ways in which an account may be odd for a while.
    pub const OF_ACCOUNTS: [Oddity; 4] =
        [Oddity::Refuses, Oddity::BrokenFloor, Oddity::BrokenBalance, Oddity::BrokenMarks];

    /// The ways in which a transaction may be odd for a while.
    pub const OF_TRANSACTIONS: [Oddity; 2] = [Oddity::Refuses, Oddity::Unreadable];

    /// The name in the coverage table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Oddity::Refuses => "refuses",
            Oddity::Unreadable => "unreadable",
            Oddity::Large => "large",
            Oddity::Slow => "slow",
            Oddity::BrokenFloor => "broken floor",
            Oddity::BrokenBalance => "broken balance",
            Oddity::BrokenMarks => "broken marks",
        }
    }
}

/// The documents that are odd at this moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Odd(BTreeSet<(Arc<str>, Oddity)>);

impl Odd {
    /// Whether this document is odd in this way.
    #[must_use]
    pub fn is(&self, id: &Arc<str>, oddity: Oddity) -> bool {
        !self.0.is_empty() && self.0.contains(&(id.clone(), oddity))
    }

    /// Whether nothing can be posted to this account, because it can't be read.
    #[must_use]
    pub fn is_broken(&self, account: &Arc<str>) -> bool {
        self.is(account, Oddity::BrokenFloor) || self.is_stuck(account)
    }

    /// Whether no mark can be removed from this account, because its numbers or its marks are
    /// invalid.
    #[must_use]
    pub fn is_stuck(&self, account: &Arc<str>) -> bool {
        self.is(account, Oddity::BrokenBalance) || self.is(account, Oddity::BrokenMarks)
    }

    /// Makes a document odd.
    pub fn spoil(&mut self, id: Arc<str>, oddity: Oddity) {
        self.0.insert((id, oddity));
    }

    /// Makes a document what it was.
    pub fn mend(&mut self, id: &Arc<str>) {
        self.0.retain(|(odd, oddity)| odd != id || !comes_and_goes(*oddity));
    }

    /// The documents that can be mended.
    pub fn mendable(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().filter(|(_, oddity)| comes_and_goes(*oddity)).map(|(id, _)| id)
    }

    /// Whether this document is odd in any way that can be mended.
    #[must_use]
    pub fn is_mendable(&self, id: &Arc<str>) -> bool {
        self.mendable().any(|odd| odd == id)
    }
}

/// Whether it can be repaired, and may keep a transaction from its end until then.
fn comes_and_goes(oddity: Oddity) -> bool {
    match oddity {
        Oddity::Refuses
        | Oddity::Unreadable
        | Oddity::BrokenFloor
        | Oddity::BrokenBalance
        | Oddity::BrokenMarks => true,
        Oddity::Large | Oddity::Slow => false,
    }
}
