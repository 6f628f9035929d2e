//! The order of what ended: each end has a number, from 1 on, without a gap.
//!
//! Owns the collection `tandem.order`. Each of its documents is a *page*: the lines that were
//! numbered together, and how many transactions each of them ended.
//!
//! ```text
//! { _id: "end-0000000000000004711", kind, lines: [_id…], ends: [count…] }
//! ```
//!
//! The `_id` has the number of the page's first end, in a form that nothing of others has by
//! accident. The next page begins with the number after this page's last end. Promises that nothing
//! which is written changes: a page is inserted once, by whoever is first, and only after the page
//! before it is durable. So there is no gap, no number is given twice, and who has read up to a
//! number misses nothing that comes later. A unique index keeps a line from being numbered twice.
//! Within a line those that are done stand before those that are canceled. It is no order of
//! commits: a line may be numbered after one that was written later.
//!
//! Fails with an error of the command; then the lines have no numbers yet, or have them, and asking
//! again does what is left.

mod numberer;
mod reading;

use std::collections::{BTreeMap, HashSet};

use ledger::event::{End, Ended};
use ledger::{LedgerError, ServerMs};
use mongodb::bson::{Document, RawArrayBuf, RawDocument, RawDocumentBuf, doc, rawdoc};

use super::Store;
use super::index::Index;
use super::names::{BY_LINE, JOURNAL, ORDER};
use super::own::{LINE, PAGE};
use super::read::cstr;

pub use numberer::Numberer;
pub use reading::{Ahead, Numbered};

/// A line that wants numbers: its `_id`, and how many transactions it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The line's `_id`.
    pub line: String,
    /// How many, at least one.
    pub count: u32,
}

/// The index that keeps a line from being numbered twice.
pub(super) fn index() -> Index {
    // Others may have what they like in the field.
    let pages = doc! { "kind": PAGE.kind };
    Index { unique: true, ..Index::new(BY_LINE, doc! { "lines": 1 }, pages) }
}

/// The filter for all pages. What others have put into the order does not match.
#[must_use]
pub fn all_pages() -> Document {
    doc! { "kind": PAGE.condition() }
}

/// How the `_id` of each page begins.
const PREFIX: &str = "end-";

/// The `_id` of the page that begins with this number. Pages are sorted as their numbers are.
fn key(first: u64) -> String {
    format!("{PREFIX}{first:019}")
}

/// The largest `_id` that a page may have.
const LAST: u64 = i64::MAX.unsigned_abs();

fn page(first: u64, lines: &[Ends]) -> RawDocumentBuf {
    rawdoc! {
        "_id": key(first),
        "kind": PAGE.kind,
        "lines": lines.iter().map(|ends| ends.line.as_str()).collect::<RawArrayBuf>(),
        "ends": lines.iter().map(|ends| i64::from(ends.count)).collect::<RawArrayBuf>(),
    }
}

/// A page, as it is read.
struct Page {
    first: u64,
    lines: Vec<Ends>,
}

impl Page {
    /// None for what makes no sense.
    fn from_raw(found: &RawDocument) -> Option<Page> {
        let first = found.get_str("_id").ok()?.strip_prefix(PREFIX)?.parse().ok()?;
        let names = found.get_array("lines").ok()?.into_iter();
        let names = names.map(|name| Some(name.ok()?.as_str()?.to_owned()));
        let counts = found.get_array("ends").ok()?.into_iter();
        let counts = counts.map(|count| u32::try_from(count.ok()?.as_i64()?).ok());
        let (names, counts) =
            (names.collect::<Option<Vec<_>>>()?, counts.collect::<Option<Vec<_>>>()?);
        if names.len() != counts.len() {
            return None;
        }
        let lines = names.into_iter().zip(counts).map(|(line, count)| Ends { line, count });
        let page = Page { first, lines: lines.collect() };
        (page.next() > first).then_some(page)
    }

    /// The number after its last end.
    fn next(&self) -> u64 {
        self.first + self.lines.iter().map(|line| u64::from(line.count)).sum::<u64>()
    }
}

/// The command that finds pages from this `_id` on, upwards or downwards.
fn find_pages(from: u64, way: i32, most: i64) -> RawDocumentBuf {
    // Between the first and the last that there may be stands nothing of others.
    let (least, greatest) = if way > 0 { (from, LAST) } else { (0, from.min(LAST)) };
    let mut filter = PAGE.all();
    filter.append(cstr("_id"), rawdoc! { "$gte": key(least), "$lte": key(greatest) });
    rawdoc! { "find": ORDER, "filter": filter, "sort": { "_id": way }, "limit": most }
}

impl Store {
    /// Pages from this `_id` on, upwards or downwards.
    async fn pages(&self, from: u64, way: i32, most: i64) -> Result<Vec<Page>, LedgerError> {
        self.find("read the order", find_pages(from, way, most), Page::from_raw).await
    }

    /// Those of these lines that no page names.
    async fn without_numbers(&self, mut lines: Vec<Ends>) -> Result<Vec<Ends>, LedgerError> {
        let names = lines.iter().map(|ends| ends.line.as_str()).collect::<RawArrayBuf>();
        let mut filter = PAGE.all();
        filter.append(cstr("lines"), rawdoc! { "$in": names });
        let find = rawdoc! { "find": ORDER, "filter": filter };
        let pages = self.find("read the order", find, Page::from_raw).await?;
        let known: HashSet<String> =
            pages.into_iter().flat_map(|page| page.lines).map(|ends| ends.line).collect();
        lines.retain(|ends| !known.contains(&ends.line));
        Ok(lines)
    }

    /// What these lines have ended, in their order, and when. Only ids are read of their entries.
    async fn ended_by(
        &self,
        lines: &[String],
    ) -> Result<BTreeMap<String, (Vec<Ended>, ServerMs)>, LedgerError> {
        let mut filter = LINE.all();
        let names = lines.iter().map(String::as_str).collect::<RawArrayBuf>();
        filter.append(cstr("_id"), rawdoc! { "$in": names });
        let ids = |list: &str| {
            let first = rawdoc! { "$arrayElemAt": ["$$this", 0] };
            rawdoc! { "$map": { "input": format!("${list}"), "in": first } }
        };
        let pipeline = [
            rawdoc! { "$match": filter },
            rawdoc! { "$project": { "at": 1, "done": ids("done"), "canceled": ids("canceled") } },
        ];
        let read = |line: &RawDocument| {
            let mut all = Vec::new();
            for end in End::ALL {
                for id in line.get_array(end.as_str()).ok()? {
                    all.push(Ended { id: id.ok()?.as_str()?.into(), end });
                }
            }
            let at = line.get_datetime("at").ok()?.timestamp_millis();
            Some((line.get_str("_id").ok()?.to_owned(), (all, at)))
        };
        let pipeline = pipeline.into_iter().collect();
        let found = self.aggregate("read the order", JOURNAL, pipeline, lines.len(), read).await?;
        Ok(found.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let lines = [("l", 2), ("m", 3)];
        let lines = lines.map(|(line, count)| Ends { line: line.to_owned(), count });
        let stored = super::page(8, &lines);
        let read = Page::from_raw(&stored).expect("a page");
        assert_eq!((read.first, read.next(), read.lines.as_slice()), (8, 13, lines.as_slice()));
        let damaged = rawdoc! { "_id": key(8), "lines": ["l", "m"], "ends": [2_i64] };
        assert!(Page::from_raw(&damaged).is_none());
    }
}
