#![doc = include_str!("../README.md")]

mod account;
mod class;
mod indexes;
mod keys;
mod look;
mod looked;
mod number;
mod pages;
mod report;
mod resume;
mod shape;
mod tally;
#[cfg(test)]
mod tests;
mod transaction;
mod validators;
mod watch;

pub use account::account;
pub use class::{Class, Verdict};
pub use keys::{KEYS_LIMIT, Keys};
pub use look::{At, look};
pub use looked::{BYTES_MAX, Looked, Sample, Stored, Unit};
pub use number::{Number, PLACES_MAX, classify};
pub use pages::PIECE_LIMIT;
pub use report::{Documents, Noted, Report, Seen};
pub use resume::RESUME_BYTES_MAX;
pub use shape::Shape;
pub use tally::{Counted, SAMPLES_MAX, Tally};
pub use transaction::transaction;
pub use validators::{TRIED_MAX, Validator};
pub use watch::{CHANGES_MAX, Moved};

use std::path::PathBuf;

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

/// Why a look has not come to its end.
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
}

/// A query that failed, and is not tried again.
fn failed(error: &mongodb::error::Error) -> Error {
    Error::Client(mongo::query_failed("look", error).into())
}
