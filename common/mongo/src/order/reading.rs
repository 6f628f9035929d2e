//! Reading what ended by its numbers.
//!
//! Promises that a reader who only follows the numbers misses nothing and is told nothing twice:
//! what it has read never changes, and it stops at the last page that a majority has. A number that
//! nobody has given yet is told as such, and only after the primary has made sure that it still is
//! the primary: a new one may know less than a reader for a moment. Fails with an error of the
//! command, and where pages or lines were removed or damaged by others.

use ledger::event::Ended;
use ledger::{LedgerError, ServerMs};

use super::{Ends, LAST, Page, find_pages};
use crate::Store;
use crate::names::{JOURNAL, ORDER};

/// How many pages a reader takes at a time.
const PAGES_AT_ONCE: i64 = 200;

/// An end with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// The number, from 1 on.
    pub number: u64,
    /// What ended, and how.
    pub ended: Ended,
    /// The moment of its line.
    pub at: ServerMs,
}

/// A reader has a number that no end has: it read another ledger, or this one was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The last number that was given, 0 if none was.
    pub last: u64,
}

impl Store {
    /// What ended after this number, at most so many, in the order of their numbers. An answer with
    /// less says that there is no more at this moment.
    ///
    /// # Errors
    /// When the server is away or refuses; when pages or lines were removed or damaged by others.
    pub async fn ended_after(
        &self,
        after: u64,
        most: usize,
    ) -> Result<Result<Vec<Numbered>, Ahead>, LedgerError> {
        let mut ended: Vec<Numbered> = Vec::new();
        while ended.len() < most {
            let after = ended.last().map_or(after, |last| last.number);
            let some = match self.some_ended_after(after, most - ended.len()).await? {
                Ok(some) => some,
                Err(ahead) => return Ok(Err(ahead)),
            };
            if some.is_empty() {
                break;
            }
            ended.extend(some);
        }
        Ok(Ok(ended))
    }

    /// The last number that was given, as a majority knows it; 0 if none was.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn last_number(&self) -> Result<u64, LedgerError> {
        Ok(self.pages(LAST, -1, 1).await?.pop().map_or(0, |page| page.next() - 1))
    }

    /// The same, from a primary that has made sure that it still is the primary.
    async fn surely_last_number(&self) -> Result<u64, LedgerError> {
        const OPERATION: &str = "read the order";
        let find = self.reading_surely(OPERATION, find_pages(LAST, -1, 1));
        let last = self.cursor(OPERATION, find, Page::from_raw).await?.pop();
        Ok(last.map_or(0, |page| page.next() - 1))
    }

    async fn some_ended_after(
        &self,
        after: u64,
        most: usize,
    ) -> Result<Result<Vec<Numbered>, Ahead>, LedgerError> {
        let begins = self.pages(after.saturating_add(1), -1, 1).await?.pop();
        let is_ahead = begins.as_ref().map_or(after > 0, |page| after >= page.next());
        if is_ahead {
            let last = self.surely_last_number().await?;
            if last < after {
                return Ok(Err(Ahead { last }));
            }
        }
        let begins = match begins {
            Some(page) => page,
            // There was no page yet, or somebody has removed the first ones.
            None => match self.pages(0, 1, 1).await?.pop() {
                None => return Ok(Ok(Vec::new())),
                Some(first) if first.first <= after.saturating_add(1) => first,
                Some(_) => return Err(broken(after, "a page is gone")),
            },
        };
        let wanted = wanted(self.pages(begins.first, 1, PAGES_AT_ONCE).await?, after, most)?;
        let names: Vec<String> = wanted.iter().map(|(_, ends)| ends.line.clone()).collect();
        let mut lines = self.ended_by(&names).await?;
        let mut numbered = Vec::new();
        for (first, Ends { line, count }) in wanted {
            let found = lines.remove(&line).filter(|(ended, _)| ended.len() == count as usize);
            let problem = || format!("the line {line} of the journal is gone or damaged");
            let (ended, at) = found.ok_or_else(|| broken(after, &problem()))?;
            let each = (first..).zip(ended).filter(|(number, _)| *number > after);
            numbered.extend(each.map(|(number, ended)| Numbered { number, ended, at }));
        }
        numbered.truncate(most);
        Ok(Ok(numbered))
    }
}

/// The lines that have the next so many ends after a number, each with the number of its first end.
fn wanted(pages: Vec<Page>, after: u64, most: usize) -> Result<Vec<(u64, Ends)>, LedgerError> {
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    let (mut wanted, mut next) = (Vec::new(), None);
    for page in pages {
        if next.is_some_and(|next| next != page.first) {
            return Err(broken(after, "a page is gone"));
        }
        let mut first = page.first;
        next = Some(page.next());
        for ends in page.lines {
            let end = first + u64::from(ends.count);
            if end > after.saturating_add(1) && first <= after.saturating_add(most) {
                wanted.push((first, ends));
            }
            first = end;
        }
    }
    Ok(wanted)
}

fn broken(after: u64, problem: &str) -> LedgerError {
    let problem = format!(
        "what ended after {after} can't be read: {problem}; restore `{ORDER}` and `{JOURNAL}`"
    );
    LedgerError::lasting("read the order", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(first: u64, counts: &[u32]) -> Page {
        let ends =
            |(at, count): (usize, &u32)| Ends { line: format!("{first}/{at}"), count: *count };
        Page { first, lines: counts.iter().enumerate().map(ends).collect() }
    }

    fn names(pages: Vec<Page>, after: u64, most: usize) -> Vec<(u64, String)> {
        let wanted = wanted(pages, after, most).expect("no gap");
        wanted.into_iter().map(|(first, ends)| (first, ends.line)).collect()
    }

    #[test]
    fn a_reader_takes_the_lines_that_have_what_comes_next_and_no_others() {
        let pages = || vec![page(1, &[3, 2]), page(6, &[1, 4])];
        let at = |first, name: &str| (first, name.to_owned());
        assert_eq!(names(pages(), 0, 3), [at(1, "1/0")]);
        assert_eq!(names(pages(), 0, 4), [at(1, "1/0"), at(4, "1/1")]);
        assert_eq!(names(pages(), 2, 3), [at(1, "1/0"), at(4, "1/1")]);
        assert_eq!(names(pages(), 3, 3), [at(4, "1/1"), at(6, "6/0")]);
        assert_eq!(names(pages(), 9, 100), [at(7, "6/1")]);
        assert_eq!(names(pages(), 10, 100), []);
    }

    #[test]
    fn a_reader_stops_where_a_page_is_gone() {
        let pages = vec![page(1, &[3, 2]), page(7, &[1])];
        let error = wanted(pages, 0, 100).expect_err("6 is missing");
        assert!(error.to_string().contains("a page is gone"), "{error}");
    }
}
