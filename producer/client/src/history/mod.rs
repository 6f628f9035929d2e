//! What the ledger holds and held, in pages: lists of transactions and accounts, and statements.
//!
//! - [`cursor`]: where a page begins, as text for the caller; [`room`]: when it ends.
//! - [`transactions`], [`by_end`], [`accounts`]: lists. [`filter`]: what of the transactions is asked
//!   for, [`ended`]: how ends are read from the journal, and [`looking`]: for how long.
//! - [`statement`]: what was booked on one account, [`booked`]: how that is read, and [`sum`]: what
//!   was booked before it.
//! - [`acts`]: what people have done.
//! - [`adjustment`]: what a person has booked without a transaction.
//! - [`journal`]: what those have in common that read lines of the journal.
//!
//! Promises that no query reads more than its page needs, or a bounded stretch, however large the
//! collections are: each names its index. Lists of an account or of ends, and statements, need the indexes of a
//! ledger with history, and fail with [`Error::WithoutHistory`] without them.

mod accounts;
mod acts;
mod adjustment;
mod booked;
mod by_end;
mod cursor;
mod ended;
mod filter;
mod journal;
mod looking;
mod room;
mod statement;
mod sum;
mod transactions;

use mongo::LedgerSettings;
use mongodb::bson::{DateTime, Document};

use crate::client::Client;
use crate::error::Error;

pub use acts::{ActFilter, act_json};
pub use adjustment::{Adjusted, Adjustment};
pub use filter::TransactionFilter;
pub use looking::LOOK_FOR;
pub use room::{PAGE_BYTES_MAX, Tell, Told};
pub use statement::{Entry, Period, Statement, StatementOrder};

/// The most items of one page.
pub const LIMIT_MAX: u32 = 1_000;

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The items, in the list's order.
    pub items: Vec<T>,
    /// What the next call takes as its cursor; `None` when the list has ended.
    pub next: Option<String>,
    /// What the next call takes as its cursor to go back; `None` at the beginning of the list.
    pub prev: Option<String>,
    /// If the page ends before it is full because it has looked long enough for what is asked for:
    /// the moment back to which it has, or up to which on the way back. Everything between that moment
    /// and where the page began was looked at.
    pub looked_until: Option<DateTime>,
}

impl Client {
    /// Makes sure that the ledger has the indexes. They are there for good once they were seen:
    /// only a person takes them away.
    async fn needs_history(&self) -> Result<(), Error> {
        // A ledger that is just being set up says what it will have.
        let has = |settings: Option<LedgerSettings>| {
            settings.is_some_and(|settings| settings.history && settings.complete)
        };
        self.needs(&self.servers().history, has, Error::WithoutHistory).await
    }
}

pub(crate) fn check_limit(limit: u32) -> Result<usize, Error> {
    match limit {
        1..=LIMIT_MAX => Ok(limit as usize),
        _ => Err(Error::invalid("limit", format!("is {limit}; it must be 1 to {LIMIT_MAX}"))),
    }
}

/// So many documents and one more, which tells whether the list goes on.
fn and_one(limit: usize) -> i32 {
    i32::try_from(limit + 1).unwrap_or(i32::MAX)
}

fn id_of(document: &Document) -> Option<String> {
    document.get_str("_id").ok().map(str::to_owned)
}
