//! Sums: what the lines of a piece of time have booked on each account.
//!
//! Owns the collection `tandem.sums`, from which the sum before a moment is read without all lines
//! of an account. Time is cut into pieces of five *levels*: of eight seconds, and of sixteen pieces
//! of the level below. So a year before a moment is at most sixteen pieces of each level, some
//! dozens of the highest one, and the lines of some seconds, or of those minutes that are not
//! summed up yet.
//!
//! ```text
//! { _id: "sum-<life>-1-000001764000000000-000000", kind, life, level, from,
//!   accounts: [name…], nets: [amount…] }
//! { _id: "reach", kind, life, level1: moment, level2: moment… }
//! ```
//!
//! A sum has up to [`ACCOUNTS_MAX`] accounts, sorted by name; a piece of time has as many sums as
//! it needs, and none where nothing was booked. The reach says how far each level is complete.
//! Promises that a sum is written once, after its lines can't change any more, and that the reach
//! moves only after all that it covers is durable. So a reader who has read the reach misses
//! nothing, and several workers may sum up at once: they write the same. Nothing else depends on
//! the collection. Who deletes the reach loses nothing but time: another life begins, and sums of
//! lives before it are never read again.
//!
//! Fails with an error of the command. Then some sums are there that the reach does not cover yet,
//! and the next attempt finds them.

mod reach;
mod summing;

use std::collections::BTreeMap;

use ledger::ServerMs;
use ledger::journal::Net;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::index::Index;
use super::journal;
use super::names::BY_ACCOUNT;
use super::own::SUM;

pub use reach::{PieceSums, Reach};
pub use summing::SummedUp;

/// The pieces of each level, from the lowest one: how long they are, in ms.
const WIDTHS_MS: [i64; 5] = {
    let mut widths = [8_000; 5];
    let mut level = 1;
    while level < widths.len() {
        widths[level] = widths[level - 1] * RATIO;
        level += 1;
    }
    widths
};

const OPERATION: &str = "sum up";

/// How many pieces of a level make one of the next.
const RATIO: i64 = 16;

/// The most accounts of a sum: a reader takes whole documents for one account.
const ACCOUNTS_MAX: usize = 256;

/// How old a line is before it is summed up. A native transaction that has written its line may
/// commit as long as the server keeps it open: a minute, unless `transactionLifetimeLimitSeconds`
/// says otherwise. After this time no line appears that is older.
pub const SETTLED_MS: i64 = 5 * 60_000;

/// A level, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Level(usize);

impl Level {
    const LOWEST: Level = Level(1);

    fn all() -> impl DoubleEndedIterator<Item = Level> {
        (1..=WIDTHS_MS.len()).map(Level)
    }

    /// How long its pieces are, in ms.
    fn width(self) -> i64 {
        WIDTHS_MS[self.0 - 1]
    }

    /// The beginning of the piece that this moment is in.
    fn begin(self, moment: ServerMs) -> ServerMs {
        moment.saturating_sub(moment.rem_euclid(self.width()))
    }

    /// The level that its pieces are made of; none for the lowest one, which is made of lines.
    fn below(self) -> Option<Level> {
        (self > Level::LOWEST).then(|| Level(self.0 - 1))
    }

    fn number(self) -> i64 {
        self.0 as i64
    }
}

/// The index of sums by account.
pub(super) fn index() -> Index {
    Index::new(BY_ACCOUNT, doc! { "accounts": 1, "life": 1, "level": 1, "from": 1 }, doc! {})
}

/// The `_id` of a sum. Those of a life and a level are sorted by time and by accounts.
fn key(life: &str, level: Level, from: ServerMs, number: usize) -> String {
    format!("sum-{life}-{}-{from:018}-{number:06}", level.0)
}

/// The sums of one piece of time, by account.
type Nets = BTreeMap<String, i128>;

/// One document.
fn document(
    life: &str,
    (level, from): (Level, ServerMs),
    number: usize,
    nets: &[(String, i128)],
) -> Document {
    let accounts: Vec<&str> = nets.iter().map(|(account, _)| account.as_str()).collect();
    let net = |(_, nanos): &(String, i128)| {
        let net = journal::net(&Net { nanos: *nanos, is_decimal: false });
        Bson::try_from(net).expect("it is a number")
    };
    let nets: Vec<Bson> = nets.iter().map(net).collect();
    doc! {
        "_id": key(life, level, from, number),
        "kind": SUM.kind,
        "life": life,
        "level": level.number(),
        "from": DateTime::from_millis(from),
        "accounts": accounts,
        "nets": nets,
    }
}
