//! What a file says as a whole: how much it moves, and what makes it doubtful although each of its
//! rows is valid.
//!
//! Owns the signs of a file that was damaged on its way: a spreadsheet has dropped ".00" from some
//! amounts, or has rounded long numbers, or the end of the file is missing. Promises bounded memory:
//! sums of at most [`CURRENCIES_MAX`] currencies, and the first example of each doubt. Never fails.

use std::collections::BTreeMap;
use std::fmt;

use ledger::account::Account;
use ledger::amount::Amount;
use ledger::limits::echo;
use ledger::transaction::{Body, Leg, TransactionId};

/// Sums of no more currencies are kept. Rows of others are counted without a sum.
pub const CURRENCIES_MAX: usize = 1_000;

/// What is looked at in a row beside whether it is valid.
pub trait Contents {
    /// Its currency; empty if it has none.
    fn currency(&self) -> &str;
    /// What it moves: the sum of its credits.
    fn total(&self) -> Amount;
    /// Each name of an account, and its exclusive key.
    fn each_name(&self, told: impl FnMut(&str));
}

impl Contents for Body {
    fn currency(&self) -> &str {
        self.currency.as_deref().unwrap_or_default()
    }

    fn total(&self) -> Amount {
        sum_of_credits(self.legs())
    }

    fn each_name(&self, mut told: impl FnMut(&str)) {
        self.legs().iter().for_each(|leg| told(&leg.account));
        self.terms().exclusive_key.iter().for_each(|key| told(key));
    }
}

fn sum_of_credits(legs: &[Leg]) -> Amount {
    let credits = legs.iter().map(|leg| leg.amount).filter(|it| !it.is_negative());
    // The credits of a valid transaction are within the limits of an amount.
    credits.reduce(|sum, amount| sum.checked_add(amount).unwrap_or(sum)).unwrap_or(Amount::ZERO)
}

impl Contents for Account {
    fn currency(&self) -> &str {
        self.currency.as_deref().unwrap_or_default()
    }

    fn total(&self) -> Amount {
        self.balance
    }

    fn each_name(&self, mut told: impl FnMut(&str)) {
        told(&self.id);
    }
}

impl Contents for (TransactionId, client::Capture) {
    fn currency(&self) -> &str {
        ""
    }

    fn total(&self) -> Amount {
        match &self.1 {
            client::Capture::Value(value) => *value,
            client::Capture::Legs(legs) => sum_of_credits(legs),
            // What that is stands in the database.
            client::Capture::All => Amount::ZERO,
        }
    }

    fn each_name(&self, _told: impl FnMut(&str)) {}
}

/// What the valid rows of one currency move.
#[derive(Clone, Debug, PartialEq)]
pub struct Total {
    /// How many rows.
    pub rows: u64,
    /// Their sum, in units of 10^-9.
    pub nanos: i128,
    /// The smallest.
    pub smallest: Amount,
    /// The largest.
    pub largest: Amount,
}

impl Total {
    /// Of no row yet, of which this is the first.
    fn new(first: Amount) -> Total {
        Total { rows: 0, nanos: 0, smallest: first, largest: first }
    }
}

/// Why a file may not be what its owner means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Amounts have a decimal point, which makes them invalid, and others have none, which makes
    /// them minor units.
    MixedAmounts {
        /// The first valid line.
        whole: u32,
        /// The first line with a point.
        pointed: u32,
    },
    /// Ids or names that look like rounded numbers.
    RoundedIds {
        /// How many.
        count: u64,
        /// The first of them.
        example: String,
        /// Its line.
        line: u32,
    },
    /// The last line has no end, so the file may have been cut within it.
    UnfinishedLine {
        /// Its line.
        line: u32,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::MixedAmounts { whole, pointed } => write!(
                f,
                "line {pointed} has a decimal point and line {whole} has none, so line {whole} \
                 counts as minor units, and its 100 as a hundredth of 100.00: write all lines in \
                 minor units"
            ),
            Doubt::RoundedIds { count, example, line } => {
                let more = match count {
                    1 => String::new(),
                    count => format!(", as {} more do", count - 1),
                };
                write!(
                    f,
                    "{:?} on line {line} looks like a number that a spreadsheet has rounded{more}: \
                     different numbers become the same text. Export the column as text",
                    echo(example)
                )
            }
            Doubt::UnfinishedLine { line } => write!(
                f,
                "line {line} is the last one and has no line end: if the file was cut within it, its \
                 last cell is wrong. Some programs write none, as Google Sheets does"
            ),
        }
    }
}

/// What was seen of the rows so far.
#[derive(Clone, Debug, Default)]
pub struct Whole {
    /// The first valid row, and the first that was refused for its decimal point.
    first: Option<u32>,
    pointed: Option<u32>,
    totals: BTreeMap<String, Total>,
    rounded: Option<(u64, String, u32)>,
    /// Numbers with more digits than a spreadsheet keeps, and whether each of them has zeros there.
    long: Option<(u64, String, u32)>,
    has_other_long: bool,
    unfinished: Option<u32>,
}

impl Whole {
    /// A valid row.
    pub(super) fn add<T: Contents>(&mut self, line: u32, key: Option<&str>, row: &T) {
        self.first.get_or_insert(line);
        key.iter().for_each(|key| self.name(line, key));
        row.each_name(|name| self.name(line, name));
        let total = row.total();
        if !self.totals.contains_key(row.currency()) {
            if self.totals.len() >= CURRENCIES_MAX {
                return;
            }
            self.totals.insert(row.currency().to_owned(), Total::new(total));
        }
        let Some(it) = self.totals.get_mut(row.currency()) else { return };
        it.rows += 1;
        it.nanos = it.nanos.saturating_add(total.nanos());
        if total < it.smallest {
            it.smallest = total;
        }
        if total > it.largest {
            it.largest = total;
        }
    }

    /// The last line has no end, and its last cell could be longer.
    pub(super) fn ends_at(&mut self, line: Option<u32>) {
        self.unfinished = line;
    }

    fn name(&mut self, line: u32, name: &str) {
        let found = match (is_rounded(name), beyond_kept(name)) {
            (true, _) => &mut self.rounded,
            (false, None) => return,
            (false, Some(digits)) if digits.bytes().any(|digit| digit != b'0') => {
                self.has_other_long = true;
                return;
            }
            // One number stands in many rows.
            (false, Some(_)) if self.long.as_ref().is_some_and(|(_, first, _)| first == name) => {
                return;
            }
            (false, Some(_)) => &mut self.long,
        };
        let (count, ..) = found.get_or_insert_with(|| (0, name.to_owned(), line));
        *count += 1;
    }

    /// A row that is refused, because it has a decimal point where amounts are minor units.
    pub(super) fn has_point(&mut self, line: u32) {
        self.pointed.get_or_insert(line);
    }

    /// What the rows of each currency move; those without one are under an empty name.
    #[must_use]
    pub fn totals(&self) -> &BTreeMap<String, Total> {
        &self.totals
    }

    /// What is doubtful.
    #[must_use]
    pub fn doubts(&self) -> Vec<Doubt> {
        // One number may end with zeros by chance.
        let is_doubtful = |(count, ..): &&(u64, String, u32)| *count > 1 && !self.has_other_long;
        let long = self.long.as_ref().filter(is_doubtful);
        let rounded = self.rounded.as_ref().or(long).cloned();
        let rounded =
            rounded.map(|(count, example, line)| Doubt::RoundedIds { count, example, line });
        let unfinished = self.unfinished.map(|line| Doubt::UnfinishedLine { line });
        let mixed = self.first.zip(self.pointed);
        let mixed = mixed.map(|(whole, pointed)| Doubt::MixedAmounts { whole, pointed });
        mixed.into_iter().chain(rounded).chain(unfinished).collect()
    }
}

/// Whether a name looks like a number as a spreadsheet shows it: `1.23457E+15`.
fn is_rounded(name: &str) -> bool {
    let Some((digits, exponent)) = name.split_once(['E', 'e']) else { return false };
    let Some(exponent) = exponent.strip_prefix('+') else { return false };
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let (whole, fraction) = match digits.split_once(['.', ',']) {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    whole.len() == 1 && all_digits(whole) && fraction.is_none_or(all_digits) && all_digits(exponent)
}

/// The digits of a whole number that a spreadsheet does not keep: it has 15.
fn beyond_kept(name: &str) -> Option<&str> {
    const KEPT: usize = 15;
    let is_number = name.bytes().all(|digit| digit.is_ascii_digit());
    name.get(KEPT..).filter(|beyond| is_number && !beyond.is_empty() && !name.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: &str, currency: Option<&str>) -> Body {
        let value = Amount::parse(value).expect(value);
        let body = Body::transfer("alice", "bob", value).expect("valid");
        body.in_currency(currency.map(str::to_owned))
    }

    #[test]
    fn a_row_with_a_point_beside_one_without_is_doubtful() {
        let mut whole = Whole::default();
        whole.has_point(3);
        assert_eq!(whole.doubts(), [], "all of them may have one");
        whole.add(7, None, &row("100", Some("EUR")));
        whole.has_point(8);
        assert_eq!(whole.doubts(), [Doubt::MixedAmounts { whole: 7, pointed: 3 }]);
    }

    #[test]
    fn sums_are_exact_and_by_currency() {
        let mut whole = Whole::default();
        for (line, value) in ["0.10", "0.20", "99.50"].into_iter().enumerate() {
            whole.add(u32::try_from(line).expect("few"), None, &row(value, Some("EUR")));
        }
        whole.add(9, None, &row("7", None));
        let euros = &whole.totals()["EUR"];
        assert_eq!((euros.rows, euros.nanos), (3, 99_800_000_000));
        assert_eq!(
            (euros.smallest.to_string(), euros.largest.to_string()),
            ("0.10".into(), "99.50".into())
        );
        assert_eq!(whole.totals()[""].rows, 1);
    }

    #[test]
    fn numbers_that_a_spreadsheet_has_rounded_are_told_from_names() {
        for name in ["1.23457E+15", "1,23457E+15", "4E+19", "1.2e+8"] {
            assert!(is_rounded(name), "{name}");
        }
        for name in ["E+15", "12.3E+15", "1.2E15", "1.E+15", "1.5E+", "e2e+1", "4E+19x", "alice"] {
            assert!(!is_rounded(name), "{name}");
        }
        let mut whole = Whole::default();
        whole.add(2, Some("7"), &row("1", None));
        whole.add(3, Some("1.23457E+15"), &row("1", None));
        whole.add(4, Some("9E+15"), &row("1", None));
        let [Doubt::RoundedIds { count: 2, example, line: 3 }] = &whole.doubts()[..] else {
            panic!("{:?}", whole.doubts());
        };
        assert_eq!(example, "1.23457E+15");
    }

    #[test]
    fn long_numbers_that_all_end_with_zeros_are_doubtful_and_one_that_does_not_is_trusted() {
        let doubts = |names: &[&str]| {
            let mut whole = Whole::default();
            names.iter().for_each(|name| whole.add(2, Some(name), &row("1", None)));
            whole.doubts().len()
        };
        assert_eq!(doubts(&["4111111111111100", "4111111111111230", "7"]), 1);
        assert_eq!(doubts(&["4111111111111100"; 9]), 0, "one may end with zeros by chance");
        assert_eq!(doubts(&["4111111111111100", "4111111111111231", "4111111111111230"]), 0);
        assert_eq!(doubts(&["411111111111110", "411111111111120"]), 0, "15 digits are kept");
        assert_eq!(doubts(&["0011111111111111100", "00111111111111111200"]), 0, "they are texts");
    }

    #[test]
    fn no_more_currencies_are_kept_than_there_may_be() {
        let mut whole = Whole::default();
        for number in 0..CURRENCIES_MAX + 5 {
            whole.add(2, None, &row("1", Some(&format!("C{number}"))));
        }
        assert_eq!(whole.totals().len(), CURRENCIES_MAX);
    }
}
