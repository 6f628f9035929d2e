//! What statements and lists by account have in common: they read lines of the journal.
//!
//! Owns how much one page reads, what ends it before it is full, and how a line that makes no sense
//! is told.

use mongo::{BadLine, JOURNAL, Line, SUMS};
use mongodb::bson::{DateTime, Document, doc};

use super::cursor::LinePlace;
use crate::error::Error;

/// One page reads no more lines after so many bytes of them. A line has some hundred bytes for each
/// of its transactions, and 16 MiB at most.
pub(super) const BYTES_MAX: usize = 32 << 20;

/// The filter for those of some lines that have no moment. It is the complement of all dates,
/// because the index serves that.
pub(super) fn undated(mut filter: Document) -> Document {
    filter.insert("at", doc! { "$not": { "$gte": DateTime::MIN } });
    filter
}

/// The place behind all entries of a line.
pub(super) fn end_of(line: &Line<'_>) -> LinePlace {
    LinePlace { at: line.at, line: line.id.to_owned(), entry: u32::MAX }
}

/// The place before all entries of a line.
pub(super) fn beginning_of(line: &Line<'_>) -> LinePlace {
    LinePlace { at: line.at, line: line.id.to_owned(), entry: 0 }
}

/// What is told of a line that makes no sense.
pub(super) fn unreadable(BadLine { id, problem }: &BadLine) -> Error {
    let problem = format!("is a line of the journal and can't be read: {problem}; see audit");
    Error::refused(&format!("{JOURNAL}/{id}"), problem)
}

/// The same of a document that sums up lines.
pub(super) fn unreadable_sum(BadLine { id, problem }: &BadLine) -> Error {
    let problem = format!("sums up lines of the journal and can't be read: {problem}; see audit");
    Error::refused(&format!("{SUMS}/{id}"), problem)
}
