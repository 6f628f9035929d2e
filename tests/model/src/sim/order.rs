//! The model of the order of what ended: which lines were numbered together.
//!
//! Owns the semantics of `mongo::Numberer`, in plain code: a numberer reads which number is next, as
//! a majority knows it, and then inserts a page under that number, if nobody else has one there or
//! has numbered one of its lines. Promises to find gaps, lines that are numbered twice or wrongly,
//! lines that nobody will number, and pages that have changed since somebody could read them.

use std::collections::BTreeMap;

use super::model::Books;
use super::planted::Planted;
use super::replication::Write;
use super::request::Reply;
use super::server::{Server, Stepped};

/// A line, and how many transactions it has ended.
pub type Ends = (String, u64);

/// The pages, by the number of their first end.
pub type Order = BTreeMap<u64, Vec<Ends>>;

fn ends_of(lines: &[Ends]) -> u64 {
    lines.iter().map(|(_, count)| count).sum()
}

/// The number that comes next.
fn next(order: &Order, planted: Option<Planted>) -> u64 {
    let Some((first, lines)) = order.last_key_value() else { return 1 };
    match planted {
        Some(Planted::NumbersByLines) => first + lines.len() as u64,
        _ => first + ends_of(lines),
    }
}

/// Whether a line has its numbers.
#[must_use]
pub fn has(order: &Order, line: &str) -> bool {
    order.values().flatten().any(|(name, _)| name == line)
}

/// What is wrong with the numbers, at any moment.
#[must_use]
pub fn violations(books: &Books) -> Vec<String> {
    let (mut wrong, mut expected) = (Vec::new(), 1);
    let mut known = BTreeMap::<&str, u64>::new();
    for (first, lines) in &books.order {
        if *first != expected {
            wrong.push(format!("order: a page begins with {first}, and {expected} is next"));
        }
        expected = first + ends_of(lines);
        for (line, count) in lines {
            let is = books.journal.get(line).map(|line| line.ends().count() as u64);
            if is != Some(*count) {
                wrong.push(format!("order: {line} has {count} numbers and ends {is:?}"));
            }
            if let Some(other) = known.insert(line, *first) {
                wrong.push(format!("order: {line} is in the pages {other} and {first}"));
            }
        }
    }
    wrong
}

/// Lines that nobody will number: they have no numbers, and no note, at any moment.
#[must_use]
pub fn unnumbered(books: &Books) -> Vec<String> {
    let is_forgotten = |line: &&String| !has(&books.order, line) && !books.due.contains_key(*line);
    let forgotten = books.journal.keys().filter(is_forgotten);
    forgotten.map(|line| format!("order: nobody will number {line}")).collect()
}

/// Pages that somebody could read before and that are not the same now.
#[must_use]
pub fn changed(before: &Order, now: &Order) -> Vec<String> {
    let changed = before.iter().filter(|(first, lines)| now.get(first) != Some(lines));
    changed.map(|(first, _)| format!("order: the page {first} was read, and has changed")).collect()
}

impl Server {
    /// A numberer reads at its first step, and inserts a page at the second. It is told whether all
    /// of its lines have their numbers.
    pub(super) fn step_of_numbering(
        &mut self,
        number: u64,
        lines: &[Ends],
        looks: bool,
    ) -> Stepped {
        let planted = self.planted;
        let Some((first, left)) = self.numbering.remove(&number) else {
            let order = &self.shown().order;
            let is_left = |(line, _): &&Ends| !looks || !has(order, line);
            let left = lines.iter().filter(is_left).cloned().collect();
            let read = (next(order, planted), left);
            self.numbering.insert(number, read);
            return Stepped::Nothing;
        };
        let order = &self.primary.order;
        let is_taken = order.contains_key(&first) && planted != Some(Planted::PageWrittenOver);
        let is_known = left.iter().any(|(line, _)| has(order, line))
            && planted != Some(Planted::LineNumberedTwice);
        let is_conflict = !left.is_empty() && (is_taken || is_known);
        self.together = Some(Reply::Numbered(!is_conflict));
        if is_conflict || left.is_empty() {
            return Stepped::Nothing;
        }
        self.primary.order.insert(first, left.clone());
        self.wrote(Write::Page(first, left));
        Stepped::Wrote
    }
}
