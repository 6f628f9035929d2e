//! The order against the journal: whether each end that has a number can be read by it.
//!
//! Owns the reads of the pages of `tandem.order`. It shares no code with their writer, so that a
//! mistake there is found. All lines were read before, and how many transactions each of them ends
//! is known. Promises that a page which was written meanwhile is no finding: a line that it names
//! and that was not met is looked for once more, and it was there before its page. That a line has
//! no number is no finding either: ledgers without events have none. What others have put into the
//! collection is left out. Fails with the error of a read.

use std::collections::HashMap;
use std::num::NonZeroU32;

use ledger::limits::echo;
use mongo::{JOURNAL, ORDER, Store, all_lines, all_pages};
use mongodb::bson::{Document, RawDocument, doc};
use mongodb::error::Error as DriverError;
use mongodb::{ClientSession, Collection};

use super::findings::{Findings, Rule};
use super::lines;
use super::progress::{BATCH, ReadCount};
use super::tallies::Hashing;

/// How many lines are looked for with one command.
const LINES_AT_ONCE: usize = 1_000;

/// What is known of the lines, by the hashes of their names.
#[derive(Default)]
pub(super) struct Order {
    /// Without a page at the beginning, nothing is kept of lines: those of the pages that come
    /// meanwhile are looked for.
    has_pages: bool,
    hashing: Hashing,
    lines: HashMap<u128, Known>,
}

/// A line of the journal.
struct Known {
    /// How many transactions it ends; none where it can't be read, which was named before.
    ends: Option<NonZeroU32>,
    has_numbers: bool,
}

/// A page as it is stored.
#[derive(Debug, PartialEq)]
struct Page<'a> {
    /// The number of its first end.
    first: u64,
    /// The names of its lines, and how many transactions each of them ends.
    lines: Vec<(&'a str, u32)>,
}

/// A line that a page names and that was not met.
struct Unmet {
    page: String,
    line: String,
    ends: u32,
}

impl Order {
    /// Nothing was read yet. A right that is missing shows here.
    pub async fn open(store: &Store) -> Result<Order, DriverError> {
        let pages: Collection<Document> = store.database().collection(ORDER);
        let page = pages.find_one(all_pages()).projection(doc! { "_id": 1 }).await?;
        Ok(Order { has_pages: page.is_some(), ..Order::default() })
    }

    /// Takes in a line of the journal, and how many transactions it ends.
    pub fn take(&mut self, line: &str, ends: Option<usize>) {
        if !self.has_pages {
            return;
        }
        let ends = ends.and_then(|ends| NonZeroU32::new(u32::try_from(ends).ok()?));
        self.lines.insert(self.hashing.of(&line), Known { ends, has_numbers: false });
    }

    /// Reads all pages once all lines were taken in.
    pub async fn compare(
        mut self,
        store: &Store,
        session: &mut ClientSession,
        findings: &mut Findings,
        told: &mut ReadCount<'_>,
    ) -> Result<(), DriverError> {
        let pages: Collection<Document> = store.database().collection(ORDER);
        let find = pages.find(all_pages()).sort(doc! { "_id": 1 });
        let (mut next, mut unmet) = (Some(1), Vec::new());
        let take = |page: &RawDocument| next = self.page(page, next, &mut unmet, findings);
        told.each(find, session, take).await?;
        let journal = store.database().collection(JOURNAL);
        for some in unmet.chunks(LINES_AT_ONCE) {
            look(&journal, session, some, findings).await?;
        }
        Ok(())
    }

    /// Compares a page with what is known; returns the number with which the next page begins, if
    /// this one can be read. `next` is the same of the page before.
    fn page(
        &mut self,
        document: &RawDocument,
        next: Option<u64>,
        unmet: &mut Vec<Unmet>,
        findings: &mut Findings,
    ) -> Option<u64> {
        let id = document.get_str("_id").unwrap_or_default();
        let name = || format!("{ORDER}/{}", echo(id));
        let Page { first, lines } = match Page::of(document) {
            Ok(page) => page,
            Err(problem) => {
                findings.add(Rule::Number, name, format!("can't be read: {problem}"));
                return None;
            }
        };
        if let Some(next) = next.filter(|next| *next != first) {
            let message = format!("begins with {first}, and should begin with {next}");
            findings.add(Rule::Number, name, message);
        }
        let all: u64 = lines.iter().map(|(_, ends)| u64::from(*ends)).sum();
        for (line, ends) in lines {
            match self.lines.get_mut(&self.hashing.of(&line)) {
                Some(known) if known.has_numbers => {
                    let message = format!("has the line {}, which has numbers already", echo(line));
                    findings.add(Rule::Number, name, message);
                }
                Some(known) => {
                    known.has_numbers = true;
                    let there = known.ends.map(NonZeroU32::get);
                    if let Some(problem) = there.and_then(|there| differs(line, ends, there)) {
                        findings.add(Rule::Number, name, problem);
                    }
                }
                None => unmet.push(Unmet { page: name(), line: line.to_owned(), ends }),
            }
        }
        Some(first + all)
    }
}

impl<'a> Page<'a> {
    fn of(document: &'a RawDocument) -> Result<Page<'a>, &'static str> {
        let number = document.get_str("_id").ok().and_then(|id| id.strip_prefix("end-"));
        let number = number.filter(|number| number.len() == 19).and_then(|n| n.parse().ok());
        let number = number.filter(|first| *first <= i64::MAX.unsigned_abs());
        let first = number.ok_or("its `_id` is not \"end-\" and a number of nineteen digits")?;
        let list = |field| document.get_array(field).map_err(|_| "it has not both of its lists");
        let names = list("lines")?.into_iter().map(|name| name.ok()?.as_str());
        let names: Option<Vec<&str>> = names.collect();
        let names = names.ok_or("the name of a line is no text")?;
        let ends = list("ends")?.into_iter();
        let ends = ends.map(|ends| u32::try_from(ends.ok()?.as_i64()?).ok().filter(|n| *n > 0));
        let ends: Option<Vec<u32>> = ends.collect();
        let ends = ends.ok_or("how many a line ends is no whole number above zero")?;
        if names.is_empty() || names.len() != ends.len() {
            return Err("its two lists are empty, or differ in length");
        }
        Ok(Page { first, lines: names.into_iter().zip(ends).collect() })
    }
}

fn differs(line: &str, said: u32, there: u32) -> Option<String> {
    let message = || format!("says that the line {} ends {said}, and it ends {there}", echo(line));
    (said != there).then(message)
}

/// Looks for lines that were not met when the journal was read.
async fn look(
    journal: &Collection<Document>,
    session: &mut ClientSession,
    unmet: &[Unmet],
    findings: &mut Findings,
) -> Result<(), DriverError> {
    let mut left: HashMap<&str, &Unmet> =
        unmet.iter().map(|unmet| (unmet.line.as_str(), unmet)).collect();
    let names: Vec<&str> = left.keys().copied().collect();
    let mut filter = all_lines();
    filter.insert("_id", doc! { "$in": names });
    let mut cursor = journal.find(filter).batch_size(BATCH).session(&mut *session).await?;
    while cursor.advance(session).await? {
        let document = cursor.current();
        let found = document.get_str("_id").ok().and_then(|line| left.remove(line));
        let (Some(Unmet { page, line, ends }), Ok(read)) = (found, lines::read(document)) else {
            continue;
        };
        let there = u32::try_from(read.entries.len()).unwrap_or(u32::MAX);
        if let Some(problem) = differs(line, *ends, there) {
            findings.add(Rule::Number, || page.clone(), problem);
        }
    }
    for Unmet { page, line, .. } in left.into_values() {
        let message = format!("has the line {}, which is not there", echo(line));
        findings.add(Rule::Number, || page.clone(), message);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Bson, RawDocumentBuf};

    use super::*;

    fn page(first: u64, lines: &[(&str, i64)]) -> RawDocumentBuf {
        let (names, ends): (Vec<&str>, Vec<i64>) = lines.iter().copied().unzip();
        let page = doc! { "_id": format!("end-{first:019}"), "lines": names, "ends": ends };
        RawDocumentBuf::try_from(&page).expect("it is a document")
    }

    /// What is found on these pages, when these lines are known.
    fn found(known: &[(&str, Option<usize>)], pages: &[RawDocumentBuf]) -> (Vec<String>, usize) {
        let mut order = Order { has_pages: true, ..Order::default() };
        let mut findings = Findings::new(100);
        known.iter().for_each(|(line, ends)| order.take(line, *ends));
        let (mut next, mut unmet) = (Some(1), Vec::new());
        for page in pages {
            next = order.page(page, next, &mut unmet, &mut findings);
        }
        (findings.into_kept().iter().map(ToString::to_string).collect(), unmet.len())
    }

    #[test]
    fn pages_that_follow_one_another_and_say_what_their_lines_do_are_right() {
        let known = [("a", Some(2)), ("b", Some(1)), ("c", Some(3)), ("without", Some(1))];
        let pages = [page(1, &[("a", 2), ("b", 1)]), page(4, &[("c", 3), ("new", 7)])];
        assert_eq!(found(&known, &pages), (vec![], 1));
        assert_eq!(found(&[("bad", None)], &[page(1, &[("bad", 9)])]), (vec![], 0));
    }

    #[test]
    fn each_fault_of_a_page_is_named() {
        let known = [("a", Some(2)), ("b", Some(1))];
        for (pages, message) in [
            (vec![page(2, &[("a", 2)])], "begins with 2, and should begin with 1"),
            (vec![page(1, &[("a", 2)]), page(4, &[("b", 1)])], "begins with 4, and should begin"),
            (vec![page(1, &[("a", 3)])], "says that the line a ends 3, and it ends 2"),
            (vec![page(1, &[("a", 2), ("a", 2)])], "the line a, which has numbers already"),
            (vec![page(1, &[("a", 0)])], "no whole number above zero"),
            (vec![page(1, &[("a", i64::MAX)])], "no whole number above zero"),
            (vec![page(u64::MAX / 2 + 1, &[("a", 2)])], "nineteen digits"),
            (vec![page(1, &[])], "are empty"),
        ] {
            let (found, _) = found(&known, &pages);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("tandem.order/end-") && found[0].contains(message));
        }
    }

    #[test]
    fn a_page_that_can_not_be_read_is_named_and_the_next_one_may_begin_anywhere() {
        let mut broken = doc! { "_id": "end-1", "lines": ["a"], "ends": [2_i64] };
        let as_raw = |page: &Document| RawDocumentBuf::try_from(page).expect("it is a document");
        let next = page(3, &[("b", 1)]);
        let known = [("a", Some(2)), ("b", Some(1))];
        assert_eq!(found(&known, &[as_raw(&broken), next.clone()]).0.len(), 1);
        broken.insert("_id", "end-0000000000000000001");
        assert_eq!(found(&known, &[as_raw(&broken), next.clone()]).0, Vec::<String>::new());
        for (field, value) in [("lines", Bson::from(7)), ("ends", vec!["two"].into())] {
            let mut damaged = broken.clone();
            damaged.insert(field, value);
            assert_eq!(found(&known, &[as_raw(&damaged), next.clone()]).0.len(), 1, "{field}");
        }
    }
}
