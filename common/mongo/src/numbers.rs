//! How an account is read, as expressions for the server.
//!
//! The guards of posts and removals and the validator of accounts are made of them. They accept the
//! same accounts as [`Account::from_raw`](ledger::account::Account::from_raw), and yield them with
//! their numbers as Tandem writes them: whole numbers as Int64, and what is missing filled in. So
//! nobody computes with a double, which loses units beyond 2^53. Nearly every account is stored so
//! already, is found to be so first, and costs a few comparisons.
//!
//! Promises that no expression fails, whatever the fields hold: nothing else is evaluated where
//! [`in_range`] is false, and `$and` stops at the first operand that is false.

use ledger::amount::Amount;
use mongodb::bson::{RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};

/// The numbers of an account. The floor is the last, and may be null.
const NUMBERS: [&str; 5] =
    ["$balance", "$pendingDebits", "$pendingCredits", "$openingBalance", "$floor"];

/// How many of them stand first: the numbers between which money moves.
const HOLDINGS: usize = 3;

const MARKS: &str = "$pendingTransactions";

/// What an expression yields for an account.
#[derive(Clone, Copy, Debug)]
pub(super) enum Yields {
    /// The account as it is read; null if it can't be read.
    Account,
    /// Whether it can be read.
    Whether,
}

/// An account of whole numbers.
pub(super) fn whole_account(yields: Yields) -> RawDocumentBuf {
    let floor = rawdoc! { "$in": [{ "$type": "$floor" }, ["long", "int", "null"]] };
    Reading {
        numbers: NUMBERS.len(),
        as_written: Some(rawdoc! { "$and": [sum_is_whole(4), floor, { "$isArray": MARKS }] }),
        exact: int64(),
        taken: Taken::Exact,
        also: rawdoc! { "$ne": [{ "$type": { "$sum": "$$stored" } }, "decimal"] },
    }
    .expression(yields)
}

/// An account of decimals: the balance is a decimal, none of the others is a double, and none has
/// more decimal places than an amount.
pub(super) fn decimal_account(yields: Yields) -> RawDocumentBuf {
    let places = i64::from(Amount::PLACES_MAX);
    Reading {
        numbers: NUMBERS.len(),
        as_written: None,
        exact: rawdoc! { "$cond": [is("$$x", "double"), REFUSED, { "$round": ["$$x", places] }] },
        taken: Taken::Stored,
        also: is(NUMBERS[0], "decimal"),
    }
    .expression(yields)
}

/// The account of a removal: money goes home whatever floor, status and opening are, and to each
/// number by itself, of whichever kind the others are.
pub(super) fn holdings() -> RawDocumentBuf {
    Reading {
        numbers: HOLDINGS,
        as_written: Some(rawdoc! { "$and": [sum_is_whole(HOLDINGS), { "$isArray": MARKS }] }),
        exact: rawdoc! { "$cond": [is("$$x", "decimal"), "$$x", int64()] },
        taken: Taken::Exact,
        also: rawdoc! { "$literal": true },
    }
    .expression(Yields::Account)
}

/// What a number that is refused becomes: it equals no number.
const REFUSED: &str = "refused";

/// The number `$$x` as Int64. A decimal loses its places, so [`Reading::also`] rules decimals out.
fn int64() -> RawDocumentBuf {
    let is_large = rawdoc! { "$gte": [{ "$abs": "$$x" }, Amount::DOUBLE_MAX] };
    let is_inexact = rawdoc! { "$and": [is("$$x", "double"), is_large] };
    rawdoc! { "$cond": [is_inexact, REFUSED, { "$toLong": "$$x" }] }
}

pub(super) fn is(value: &str, kind: &str) -> RawDocumentBuf {
    rawdoc! { "$eq": [{ "$type": value }, kind] }
}

/// The first of the numbers are there and of integer types. The type of a sum shows the types of
/// its operands: it is a double or a decimal if one of them is, and null if one of them is null or
/// missing. The sum of numbers in range never overflows.
fn sum_is_whole(numbers: usize) -> RawDocumentBuf {
    let numbers: RawArrayBuf = NUMBERS[..numbers].iter().copied().collect();
    rawdoc! { "$in": [{ "$type": { "$add": numbers } }, ["long", "int"]] }
}

/// Each of the first numbers is null, missing, or within the limits of an amount. The server
/// compares values of any types: NaN and null are below all numbers; text, lists and the like are
/// above them. `$min` and `$max` leave out what is null or missing; with a zero among them there is
/// always something left.
fn in_range(numbers: usize) -> RawDocumentBuf {
    let mut numbers: RawArrayBuf = NUMBERS[..numbers].iter().copied().collect();
    numbers.push(0);
    rawdoc! { "$and": [
        { "$gte": [{ "$min": numbers.clone() }, -Amount::MAX] },
        { "$lte": [{ "$max": numbers }, Amount::MAX] },
    ] }
}

/// Which numbers the account gets that is read.
#[derive(Clone, Copy, Debug)]
enum Taken {
    /// Those that `exact` has made.
    Exact,
    /// Those that are stored: a decimal keeps its notation.
    Stored,
}

/// How accounts of one kind are read.
struct Reading {
    /// How many of the numbers are read.
    numbers: usize,
    /// Whether an account in range is stored as Tandem writes it; it is read as it is.
    as_written: Option<RawDocumentBuf>,
    /// What becomes of each number `$$x`. An account is refused where it differs from what is
    /// stored.
    exact: RawDocumentBuf,
    taken: Taken,
    /// What else must hold.
    also: RawDocumentBuf,
}

impl Reading {
    fn expression(self, yields: Yields) -> RawDocumentBuf {
        let (as_written, otherwise, none): (RawBson, RawBson, RawBson) = match yields {
            Yields::Account => ("$$ROOT".into(), self.filled_in().into(), RawBson::Null),
            Yields::Whether => (true.into(), true.into(), false.into()),
        };
        let exact =
            rawdoc! { "$map": { "input": "$$stored", "as": "x", "in": self.exact.clone() } };
        let otherwise = rawdoc! { "$cond": [self.can_be_read(), otherwise, none.clone()] };
        let otherwise = rawdoc! { "$let": { "vars": { "exact": exact }, "in": otherwise } };
        let stored = rawdoc! { "stored": self.stored() };
        let otherwise = rawdoc! { "$let": { "vars": stored, "in": otherwise } };
        let read = match self.as_written {
            Some(test) => rawdoc! { "$cond": [test, as_written, otherwise] },
            None => otherwise,
        };
        rawdoc! { "$cond": [in_range(self.numbers), read, none] }
    }

    /// The numbers as a list, in which null stands for what is missing. A missing floor is 0.
    fn stored(&self) -> RawArrayBuf {
        let mut stored: RawArrayBuf = NUMBERS[..self.numbers.min(4)].iter().copied().collect();
        if self.numbers == NUMBERS.len() {
            stored.push(floor());
        }
        stored
    }

    fn can_be_read(&self) -> RawDocumentBuf {
        let mut all: RawArrayBuf = [
            self.also.clone(),
            rawdoc! { "$eq": ["$$exact", "$$stored"] },
            rawdoc! { "$isArray": marks() },
        ]
        .into_iter()
        .collect();
        if self.has_opening() {
            // Without an opening, what it holds becomes its opening.
            let holds = rawdoc! { "$abs": self.holds() };
            let is_there = rawdoc! { "$ne": [{ "$ifNull": [NUMBERS[3], null] }, null] };
            all.push(rawdoc! { "$or": [is_there, { "$lte": [holds, Amount::MAX] }] });
        }
        rawdoc! { "$and": all }
    }

    fn has_opening(&self) -> bool {
        self.numbers > HOLDINGS
    }

    /// A number, where nothing stands for zero.
    fn number(&self, at: i32) -> RawDocumentBuf {
        let numbers = match self.taken {
            Taken::Exact => "$$exact",
            Taken::Stored => "$$stored",
        };
        rawdoc! { "$ifNull": [{ "$arrayElemAt": [numbers, at] }, 0_i64] }
    }

    /// What an account holds beside its pending credits.
    fn holds(&self) -> RawDocumentBuf {
        rawdoc! { "$add": [self.number(0), self.number(1)] }
    }

    /// The account with all that Tandem reads.
    fn filled_in(&self) -> RawDocumentBuf {
        let mut filled = rawdoc! {
            "balance": self.number(0),
            "pendingDebits": self.number(1),
            "pendingCredits": self.number(2),
            "pendingTransactions": marks(),
        };
        if self.has_opening() {
            let opening = rawdoc! { "$cond": [
                { "$eq": [{ "$ifNull": [NUMBERS[3], null] }, null] }, self.holds(), self.number(3),
            ] };
            filled.append(super::read::cstr("openingBalance"), opening);
            filled.append(super::read::cstr("floor"), floor());
        }
        rawdoc! { "$mergeObjects": ["$$ROOT", filled] }
    }
}

/// The floor; null is unlimited.
pub(super) fn floor() -> RawDocumentBuf {
    rawdoc! { "$cond": [is("$floor", "missing"), 0_i64, "$floor"] }
}

fn marks() -> RawDocumentBuf {
    rawdoc! { "$ifNull": [MARKS, []] }
}
