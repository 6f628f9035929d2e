//! What the books of an account and of a currency add up to, compared with what was found.
//!
//! Pure. Owns the sums, and the findings that follow from them once all documents were read.

use std::sync::Arc;

use ledger::limits::echo;
use ledger::transaction::format_nanos;

use super::findings::{Findings, Rule};

/// What is known of an account. All sums are in units of 10^-9.
pub(super) struct Book {
    pub id: Arc<str>,
    pub found: Sums,
    pub expected: Sums,
    /// Whether it has an opening. What Tandem has moved on an account has given it one.
    pub is_opened: bool,
    /// How many marks it has that no held transaction explains: none of them may be left at rest.
    pub marks: usize,
    pub floor: Option<i128>,
    /// Where its ledger stands among the ledgers.
    pub ledger: usize,
    /// How many adjustments it has had.
    pub adjustments: u64,
    /// Whether one of them is of a later moment than this: then its balance says nothing here.
    pub is_adjusted_later: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub balance: i128,
    pub debits: i128,
    pub credits: i128,
    /// How many marks are debits of holds.
    pub holds: i64,
}

/// What others have moved on an account, where they may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub account: Arc<str>,
    /// By how much, in units of 10^-9.
    pub nanos: i128,
    /// Whether the account is of minor units.
    pub is_int: bool,
    pub currency: Option<String>,
    /// How many adjustments it has had.
    pub adjustments: u64,
    /// In which piece of the accounts it was read.
    pub piece: usize,
}

/// The accounts of one currency and kind of amount: money never leaves them.
#[derive(Default)]
pub(super) struct Ledger {
    pub opening: i128,
    pub balance: i128,
    /// The amounts that `balance` lacks while transactions are in flight: held debits that may
    /// still come back, and credits of applied transactions that are not settled yet.
    pub held: i128,
}

impl Book {
    /// By how much its balance is more than what its transactions and adjustments explain.
    pub fn unexplained(&self) -> i128 {
        if self.is_adjusted_later { 0 } else { self.found.balance - self.expected.balance }
    }

    /// Whether its opening is gone, and with it what its balance should be: somebody has replaced the
    /// whole document.
    pub fn is_replaced(&self) -> bool {
        !self.is_opened && self.unexplained() != 0
    }

    /// Compares the account with what its transactions explain. Where others write balances, a
    /// difference there breaks no rule.
    pub fn close(&self, at_rest: bool, others_write: bool, findings: &mut Findings) {
        let Book { id, found, expected, floor, marks, .. } = self;
        if at_rest && *marks > 0 {
            let message = format!("{marks} marks are left");
            findings.add(Rule::Marks, || format!("accounts/{}", echo(id)), message);
        }
        if found.holds != expected.holds {
            let message =
                format!("pendingHolds is {}, and should be {}", found.holds, expected.holds);
            findings.add(Rule::Marks, || format!("accounts/{}", echo(id)), message);
        }
        let balance = if others_write { found.balance } else { found.balance - self.unexplained() };
        if others_write && self.is_replaced() {
            let moved = format_nanos(-self.unexplained());
            let message = format!(
                "openingBalance is gone, and transactions have moved {moved}: a program replaces the \
                 whole document; let it update fields ($set, $inc)"
            );
            findings.add(Rule::Balance, || format!("accounts/{}", echo(id)), message);
        }
        for (rule, field, found, expected) in [
            (Rule::Balance, "balance", found.balance, balance),
            (Rule::Marks, "pendingDebits", found.debits, expected.debits),
            (Rule::Marks, "pendingCredits", found.credits, expected.credits),
        ] {
            if found != expected {
                let (found, expected) = (format_nanos(found), format_nanos(expected));
                let message = format!("{field} is {found}, and should be {expected}");
                findings.add(rule, || format!("accounts/{}", echo(id)), message);
            }
        }
        if let Some(floor) = floor.filter(|floor| found.balance < *floor) {
            let (balance, floor) = (format_nanos(found.balance), format_nanos(floor));
            let message = format!("balance {balance} is below the floor {floor}");
            findings.add(Rule::Floor, || format!("accounts/{}", echo(id)), message);
        }
    }
}

impl Ledger {
    /// Compares the sum of all balances with that of the opening balances.
    pub fn close(&self, currency: Option<&str>, findings: &mut Findings) {
        let (sum, opening) = (self.balance + self.held, self.opening);
        if sum != opening {
            let currency = echo(currency.unwrap_or("no currency"));
            let message = format!(
                "the balances sum to {} with what is held, and were {} at the start",
                format_nanos(sum),
                format_nanos(opening)
            );
            findings.add(Rule::Sum, || format!("accounts ({currency})"), message);
        }
    }
}
