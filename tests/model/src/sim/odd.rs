//! What is odd about single documents: the server refuses to write them, or they can't be read.
//!
//! Owns the notes of which document is odd, and how. In a real database a validator of somebody
//! else's or an edit by hand is to blame; here a note stands beside the documents, so that mending
//! one is to strike its note. Ids of accounts and of transactions are never the same.

use std::collections::BTreeSet;
use std::sync::Arc;

/// What can be odd about a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oddity {
    /// The server refuses every change of it.
    Refuses,
    /// A transaction whose content makes no sense.
    Unreadable,
    /// A transaction whose content is too long to be read together with others.
    Large,
    /// A command for it and other documents takes too long; a command for it alone does not.
    Slow,
    /// An account that can't be read because of its floor: nothing is posted, but marks can leave.
    BrokenFloor,
    /// An account that can't be read because of its balance: nothing is posted, no mark leaves.
    BrokenBalance,
    /// The same, and its marks can't be read either.
    BrokenMarks,
}

impl Oddity {
    /// What may be odd about an account, and come and go.
    pub const OF_ACCOUNTS: [Oddity; 4] =
        [Oddity::Refuses, Oddity::BrokenFloor, Oddity::BrokenBalance, Oddity::BrokenMarks];

    /// What may be odd about a transaction, and come and go.
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

    /// Whether no mark can leave this account, because its numbers or its marks make no sense.
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

/// Whether it can be mended, and may keep a transaction from its end until then.
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
