//! Ledgers whose documents others have designed: on some of the sequences MongoDB has one, and the
//! model knows nothing of it.
//!
//! Owns the schemas, and the names of accounts and transactions that fit the kinds of their ids.
//! What is printed of a sequence has the names of a ledger as Tandem makes it.

use layout::Layout;

use crate::operation::{ACCOUNTS, MISSING, TRANSACTIONS};

/// One sequence in so many runs on another ledger than one as Tandem makes it.
const OTHERS_ONE_IN: u64 = 4;

/// Names of accounts and transactions.
#[derive(Debug)]
pub struct Names {
    /// Those that operations may touch, one that is never there last.
    pub accounts: [&'static str; 5],
    pub transactions: [&'static str; 6],
    /// A transaction that is never there, and that another one reverses.
    pub reversed: &'static str,
    /// Accounts of a content that is too large to be read together with others. The number stands
    /// behind the text.
    many: (usize, usize, &'static str),
}

impl Names {
    /// The accounts of a content that is too large to be read together with others.
    pub fn many(&self) -> impl Iterator<Item = String> {
        let (count, length, first) = self.many;
        (0..count).map(move |number| format!("{first}{number:0>length$}"))
    }
}

/// A ledger.
#[derive(Debug)]
pub struct Schema {
    /// The file of its owner's, if it has one.
    toml: Option<&'static str>,
    pub names: Names,
}

impl Schema {
    /// Its layout, if it is not Tandem's own.
    pub fn layout(&self) -> Option<Layout> {
        self.toml.map(|toml| Layout::from_toml(toml).expect("it is good"))
    }
}

/// The number of the ledger on which the sequence of this number runs.
pub fn of_sequence(number: u64) -> usize {
    let others = SCHEMAS.len() as u64 - 1;
    let other = 1 + number / OTHERS_ONE_IN % others;
    let is_other = number % OTHERS_ONE_IN == OTHERS_ONE_IN - 1;
    usize::try_from(if is_other { other } else { 0 }).expect("there are a few")
}

const fn with_missing(there: [&'static str; 4], missing: &'static str) -> [&'static str; 5] {
    let [a, b, c, d] = there;
    [a, b, c, d, missing]
}

/// The ledgers, the one as Tandem makes it first.
pub static SCHEMAS: [Schema; 4] = [
    Schema {
        toml: None,
        names: Names {
            accounts: with_missing(ACCOUNTS, MISSING),
            transactions: TRANSACTIONS,
            reversed: "$reverses",
            many: (30, 200, ""),
        },
    },
    Schema {
        toml: Some(
            r#"
            [accounts]
            ids = "objectId"
            fields = { balance = "wallet.balance", pendingTransactions = "wallet.deep.marks", pendingDebits = "wallet.debits", pendingCredits = "wallet.credits", status = "wallet.status", floor = "limits.floor" }
            [transactions]
            ids = "objectId"
            fields = { source = "parties.from", destination = "parties.to", value = "money.value", currency = "money.unit", state = "course.state", lastModified = "course.at" }
            "#,
        ),
        names: Names {
            accounts: [
                "000000000000000000000000",
                "507f1f77bcf86cd799439011",
                "507f1f77bcf86cd799439012",
                "ffffffffffffffffffffffff",
                "507f1f77bcf86cd799439013",
            ],
            transactions: [
                "000000000000000000000000",
                "60f1f77bcf86cd7994390110",
                "60f1f77bcf86cd7994390111",
                "60f1f77bcf86cd7994390112",
                "60f1f77bcf86cd7994390113",
                "ffffffffffffffffffffffff",
            ],
            reversed: "60f1f77bcf86cd7994390119",
            many: (150, 20, "abcd"),
        },
    },
    Schema {
        toml: Some(
            r#"
            [accounts]
            collection = "people.accounts"
            ids = "int64"
            status = { open = ["active", "open"], frozen = ["locked"], closed = ["gone"] }
            [transactions]
            collection = "moves"
            ids = "int64"
            fields = { legs = "parts", application = "who" }
            state = { initial = ["new", "initial"], pending = ["begun"], applied = ["committed"], done = ["settled"], canceled = ["cancelled", "canceled"] }
            "#,
        ),
        names: Names {
            accounts: ["0", "-7", "9223372036854775807", "-9223372036854775808", "8"],
            transactions: ["1", "-1", "10", "9", "9223372036854775807", "-9223372036854775808"],
            reversed: "11",
            many: (150, 18, "1"),
        },
    },
    Schema {
        toml: Some(
            r#"
            [accounts]
            collection = "people"
            fields = { _id = "holder.name", balance = "money", pendingTransactions = "tandem.pendingTransactions" }
            [transactions]
            ids = "objectId"
            "#,
        ),
        names: Names {
            accounts: with_missing(ACCOUNTS, MISSING),
            transactions: [
                "60f1f77bcf86cd7994390115",
                "60f1f77bcf86cd7994390110",
                "60f1f77bcf86cd7994390111",
                "60f1f77bcf86cd7994390112",
                "60f1f77bcf86cd7994390113",
                "60f1f77bcf86cd7994390114",
            ],
            reversed: "60f1f77bcf86cd7994390119",
            many: (30, 200, ""),
        },
    },
];
