//! Violations: what breaks which rule, in which document.

use std::fmt;

use serde::{Serialize, Serializer};

/// The rules that a ledger must keep, with the numbers of the invariants in `ARCHITECTURE.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The sum of balances is what it was, per currency.
    Sum,
    /// Each transaction is done with its whole effect, or canceled without any.
    Effect,
    /// No account is below its floor.
    Floor,
    /// Marks and pending sums are those of transactions in flight.
    Marks,
    /// Each balance is its opening plus the legs of done transactions.
    Balance,
    /// The numbers of what ended have no gap, and each leads to an end.
    Number,
    /// No two undecided transactions have the same exclusive key.
    Key,
    /// Each end has one line, which says the same.
    Line,
}

impl Rule {
    /// Its number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Rule::Sum => 1,
            Rule::Effect => 2,
            Rule::Floor => 3,
            Rule::Marks => 4,
            Rule::Balance => 5,
            Rule::Number => 8,
            Rule::Key => 9,
            Rule::Line => 11,
        }
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.number())
    }
}

/// One violation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The rule that is broken.
    pub rule: Rule,
    /// The document that breaks it: `accounts/ID`, `transactions/ID`, `tandem.journal/ID` or
    /// `tandem.order/ID`.
    pub document: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (rule {})", self.document, self.message, self.rule.number())
    }
}

/// All violations are counted, the first ones kept.
#[derive(Debug)]
pub(super) struct Findings {
    kept: Vec<Finding>,
    kept_max: usize,
    count: u64,
}

/// How many were found, and how many of them are kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    found: u64,
    kept: usize,
}

impl Findings {
    pub fn new(kept_max: usize) -> Findings {
        Findings { kept: Vec::new(), kept_max, count: 0 }
    }

    pub fn add(&mut self, rule: Rule, document: impl FnOnce() -> String, message: String) {
        self.count += 1;
        if self.kept.len() < self.kept_max {
            self.kept.push(Finding { rule, document: document(), message });
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn so_far(&self) -> Count {
        Count { found: self.count, kept: self.kept.len() }
    }

    /// Forgets those that were found since.
    pub fn back_to(&mut self, then: Count) {
        self.count = then.found;
        self.kept.truncate(then.kept);
    }

    pub fn into_kept(self) -> Vec<Finding> {
        self.kept
    }
}
