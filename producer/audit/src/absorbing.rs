//! What others have moved in a ledger in collections that they share, and booking it.
//!
//! Owns what is told of differences, and the only write of this crate: a line of the journal for
//! each account whose balance others have moved ([`mongo::Adjustment`]), which a person has asked
//! for and given a reason. A difference is that of one moment; what others move after it is a
//! difference again. Promises that none is booked twice, however often and by however many this is
//! run, and that nothing is booked while a rule of the ledger is broken: a fault of Tandem's must not
//! look like somebody else's write. Fails with the error of the audit or of a write; then running it
//! again books what is left.

use std::collections::BTreeMap;
use std::time::Instant;

use client::{Client, Error};
use ledger::amount::Amount;
use ledger::limits::{NAME_BYTES_MAX, REASON_BYTES_MAX};
use ledger::remedy::Remedy;
use ledger::transaction::format_nanos;
use mongo::Adjustment;
use mongodb::bson::Timestamp;
use serde::Serialize;

use super::close::Difference;
use super::{Found, Options, Report, find, seconds_since};

/// How many accounts are named.
const NAMED_MAX: usize = 20;
/// How many lines are written with one command.
const LINES_AT_ONCE: usize = 100;

/// What others have moved.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Unexplained {
    /// On how many accounts.
    pub accounts: u64,
    /// How much in all, per currency.
    pub sums: Vec<Sum>,
    /// The first of the accounts.
    pub first: Vec<Moved>,
}

/// What others have moved in one currency, and one kind of amounts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sum {
    /// The currency, if the accounts have one.
    pub currency: Option<String>,
    /// Whether amounts are decimals, and not minor units.
    pub decimal: bool,
    /// On how many accounts.
    pub accounts: u64,
    /// By how much their balances are more than what is explained.
    pub amount: String,
}

/// What others have moved on one account.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moved {
    /// The account.
    pub account: String,
    /// By how much its balance is more than what is explained.
    pub amount: String,
}

impl Unexplained {
    pub(super) fn of(differences: &[Difference]) -> Unexplained {
        let mut sums = BTreeMap::<(Option<&str>, bool), (u64, i128)>::new();
        for one in differences {
            let (accounts, nanos) = sums.entry((one.currency.as_deref(), one.is_int)).or_default();
            *accounts += 1;
            *nanos += one.nanos;
        }
        let sum =
            |((currency, is_int), (accounts, nanos)): ((Option<&str>, bool), (u64, i128))| Sum {
                currency: currency.map(str::to_owned),
                decimal: !is_int,
                accounts,
                amount: format_nanos(nanos),
            };
        let moved = |one: &Difference| Moved {
            account: one.account.to_string(),
            amount: format_nanos(one.nanos),
        };
        Unexplained {
            accounts: differences.len() as u64,
            sums: sums.into_iter().map(sum).collect(),
            first: differences.iter().take(NAMED_MAX).map(moved).collect(),
        }
    }
}

/// Why nothing was booked, or not all.
#[derive(Debug, thiserror::Error)]
pub enum AbsorbError {
    /// A server.
    #[error(transparent)]
    Client(#[from] Error),
    /// Nothing was written: something has to be seen to first, and it says what.
    #[error("{0}")]
    NotNow(String),
}

/// What is to be booked, as an audit has found it.
#[derive(Debug)]
pub struct Differences {
    found: Vec<(Difference, Timestamp)>,
    /// What it comes to.
    pub unexplained: Unexplained,
    /// Those of the named accounts on which nothing is unexplained, or that are not there.
    pub without: Vec<String>,
}

/// What was booked.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Absorbed {
    /// What it comes to.
    pub booked: Unexplained,
    /// What was left: somebody else has booked a difference of these accounts meanwhile, or it is no
    /// amount that an account of its kind can have.
    pub left: Unexplained,
    /// How long the booking took.
    pub seconds: f64,
}

impl Differences {
    /// Audits the ledger and returns what others have moved: of these accounts, or of all if none is
    /// named.
    ///
    /// # Errors
    /// As [`super::run`]; and [`AbsorbError::NotNow`] when the audit has found a violation, or the
    /// server has no snapshots, by which alone a difference is exact.
    pub async fn find(
        client: &Client,
        accounts: &[String],
        progress: impl Fn(u64, &str) + Send + Sync,
    ) -> Result<Differences, AbsorbError> {
        let Found { report, mut differences, moments } =
            find(client, Options::default(), progress).await?;
        refuse(&report)?;
        if !accounts.is_empty() {
            differences.retain(|one| accounts.iter().any(|account| **account == *one.account));
        }
        let unexplained = Unexplained::of(&differences);
        let has_none = |account: &&String| differences.iter().all(|one| *one.account != ***account);
        let without = accounts.iter().filter(has_none).cloned().collect();
        let seen_at = |one: Difference| {
            let moment = moments[one.piece];
            (one, moment)
        };
        let found = differences.into_iter().map(seen_at).collect();
        Ok(Differences { found, unexplained, without })
    }

    /// Books them, with this reason and the name of who gives it.
    ///
    /// # Errors
    /// [`AbsorbError::NotNow`] for a reason or name that says nothing or is too long; and when the
    /// server is away or refuses. Then some may be booked: another run books the others.
    pub async fn absorb(
        self,
        client: &Client,
        reason: &str,
        by: &str,
    ) -> Result<Absorbed, AbsorbError> {
        check_reason(reason, by)?;
        let begun = Instant::now();
        let (mut lines, mut to_book, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for (one, seen_at) in self.found {
            let largest = Amount::Int(Amount::MAX).nanos();
            let amount = Amount::from_nanos(one.nanos, one.is_int);
            let Some(amount) = amount.filter(|amount| amount.nanos().abs() <= largest) else {
                left.push(one);
                continue;
            };
            lines.push(Adjustment {
                account: one.account.as_ref().into(),
                before: one.adjustments,
                amount,
                reason: reason.to_owned(),
                by: by.to_owned(),
                seen_at,
            });
            to_book.push(one);
        }
        let (mut booked, mut to_book) = (Vec::new(), to_book.into_iter());
        for some in lines.chunks(LINES_AT_ONCE) {
            let is_first = booked.is_empty();
            let written = client.insist(|| client.store().book_adjustments(some)).await;
            let written = written.map_err(|e| if is_first { e } else { e.after_a_write() })?;
            for (is_booked, one) in written.into_iter().zip(&mut to_book) {
                if is_booked { &mut booked } else { &mut left }.push(one);
            }
        }
        let (booked, left) = (Unexplained::of(&booked), Unexplained::of(&left));
        Ok(Absorbed { booked, left, seconds: seconds_since(begun) })
    }
}

fn refuse(report: &Report) -> Result<(), AbsorbError> {
    let problem = match (report.violation_count, report.snapshot) {
        (0, true) => return Ok(()),
        (0, false) => {
            "this server has no snapshots, by which alone a difference is exact: it must be a member \
             of a replica set"
                .to_owned()
        }
        (count, _) => format!(
            "the audit has found {count} violations, and what breaks a rule is nobody else's write; \
             see {}, and the runbook in operating.md",
            Remedy::Audit
        ),
    };
    Err(AbsorbError::NotNow(problem))
}

/// Whether a reason and the name of who gives it can be booked.
///
/// # Errors
/// [`AbsorbError::NotNow`] when one of them says nothing or is too long.
pub fn check_reason(reason: &str, by: &str) -> Result<(), AbsorbError> {
    check("reason", reason, REASON_BYTES_MAX)?;
    check("name", by, NAME_BYTES_MAX)
}

fn check(what: &str, text: &str, bytes_max: usize) -> Result<(), AbsorbError> {
    let problem = match text.trim() {
        "" => format!("the {what} says nothing"),
        text if text.len() > bytes_max => format!("the {what} has more than {bytes_max} bytes"),
        _ => return Ok(()),
    };
    Err(AbsorbError::NotNow(problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(account: &str, nanos: i128, currency: Option<&str>) -> Difference {
        let (account, currency) = (account.into(), currency.map(str::to_owned));
        Difference { account, nanos, is_int: true, currency, adjustments: 0, piece: 0 }
    }

    #[test]
    fn what_others_have_moved_is_summed_by_currency() {
        const UNIT: i128 = 1_000_000_000;
        let found = [
            difference("a", 300 * UNIT, None),
            difference("b", 50 * UNIT, None),
            difference("c", -7 * UNIT, Some("EUR")),
        ];
        let told = Unexplained::of(&found);
        assert_eq!(told.accounts, 3);
        let sums: Vec<_> =
            told.sums.iter().map(|sum| (sum.accounts, sum.amount.as_str())).collect();
        assert_eq!(sums, [(2, "350"), (1, "-7")]);
        assert_eq!(told.first[2], Moved { account: "c".to_owned(), amount: "-7".to_owned() });
    }

    #[test]
    fn nothing_is_booked_while_a_rule_is_broken_or_a_difference_is_not_exact() {
        let report =
            |violation_count, snapshot| Report { violation_count, snapshot, ..Report::default() };
        assert!(refuse(&report(0, true)).is_ok());
        for (count, snapshot) in [(1, true), (0, false), (1, false)] {
            assert!(refuse(&report(count, snapshot)).is_err(), "{count} {snapshot}");
        }
    }

    #[test]
    fn a_reason_says_something_and_is_short() {
        assert!(check("reason", "the old shop goes on", REASON_BYTES_MAX).is_ok());
        for text in ["", " ", &"x".repeat(REASON_BYTES_MAX + 1)] {
            assert!(check("reason", text, REASON_BYTES_MAX).is_err());
        }
    }
}
