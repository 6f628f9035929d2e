#![doc = include_str!("../README.md")]

mod account;
mod adopting;
mod class;
mod common;
mod counts;
mod course;
mod dating;
mod finish;
mod flight;
mod indexes;
mod keys;
mod look;
mod looked;
mod number;
mod pages;
mod plan;
mod rate;
mod ready;
mod removal;
mod report;
mod resume;
mod shape;
mod standing;
mod tally;
#[cfg(test)]
mod tests;
mod transaction;
mod undo;
mod validators;
mod walk;
mod watch;

pub use account::account;
pub use adopting::{Adopted, Adoption, adopt};
pub use class::{Class, Verdict};
pub use counts::{Counts, Reason};
pub use dating::dating;
pub use finish::Finished;
pub use keys::{KEYS_LIMIT, Keys};
pub use look::{At, look};
pub use looked::{BYTES_MAX, Looked, Sample, Stored, Unit};
pub use number::{Becomes, Number, PLACES_MAX, classify};
pub use pages::PIECE_LIMIT;
pub use plan::{Change, Plan, Repairs, plan};
pub use rate::Bucket;
pub use report::{Documents, Noted, Report, Seen};
pub use resume::RESUME_BYTES_MAX;
pub use shape::Shape;
pub use tally::{Counted, SAMPLES_MAX, Tally};
pub use transaction::transaction;
pub use undo::{Undo, Undone, undo};
pub use validators::{TRIED_MAX, Validator};
pub use walk::{AT_ONCE, AT_ONCE_MAX, ROUNDS_MAX};
pub use watch::{CHANGES_MAX, Moved};

use std::path::PathBuf;

use common::{remaining, seconds, settings, stored};

/// How to look.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many decimal places numbers have that are no decimals; none means minor units.
    pub places: Option<u32>,
    /// How many documents are read at a time.
    pub piece: u32,
    /// How long to watch for what moves, in seconds; 0 does not.
    pub watch_s: u64,
    /// The file that keeps how far the look is.
    pub resume: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options { places: None, piece: 10_000, watch_s: 5, resume: None }
    }
}

/// Why a look, an adoption or the way back has not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The file of an interrupted look can't be read or written.
    #[error("{0}")]
    File(String),
    /// The file is of something else.
    #[error("{0}")]
    Refused(String),
    /// Nothing was written: something has to be seen to first, and it says what.
    #[error("{0}")]
    NotNow(String),
}

/// A query that failed, and is not tried again.
fn failed(error: &mongodb::error::Error) -> Error {
    Error::Client(mongo::query_failed("look", error).into())
}
