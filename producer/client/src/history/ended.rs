//! What has ended, read from lines of the journal in pieces, newest first, or from a place back to what
//! is newer.
//!
//! Lines of one moment have an order, by their ids, that the index by moments does not know. So a
//! piece ends between two moments, has all lines of each, and is put in order when it is read. A
//! piece reads a bounded number of lines, and some more where many have the same moment. A line that
//! makes no sense ends it, and is named.

use ledger::event::End;
use ledger::{LedgerError, ServerMs};
use mongo::{BY_ACCOUNT, BY_TIME, BadLine, JOURNAL, Line, Mention, Store, all_lines, lines_of};
use mongodb::bson::{DateTime, Document, RawDocument, RawDocumentBuf, doc, rawdoc};

use super::cursor::{Begin, LinePlace, Way};
use super::filter::TransactionFilter;
use super::journal::{self, BYTES_MAX};
use crate::error::Error;

/// How many lines a piece reads, and those of the moment of the last one.
const LINES_MAX: usize = 200;

/// Which lines are read.
#[derive(Clone, Copy)]
pub(super) enum Lines<'a> {
    /// Those that name this account.
    Of(&'a str),
    /// All.
    All,
}

/// An entry of a line.
pub(super) struct Ended {
    pub place: LinePlace,
    pub id: String,
    pub end: End,
}

/// What was read of the lines at once.
#[derive(Default)]
pub(super) struct Piece {
    /// In the order in which the list is read.
    pub entries: Vec<Ended>,
    /// So many bytes of lines were read.
    pub bytes: usize,
    /// Where the next piece begins; none where there are no more lines.
    pub read_to: Option<LinePlace>,
    /// The line that has ended the reading.
    pub bad: Option<BadLine>,
    lines: usize,
    /// The moment of the last line.
    at: Option<ServerMs>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(filter: &'a TransactionFilter) -> Lines<'a> {
        filter.account.as_deref().map_or(Lines::All, Lines::Of)
    }

    fn filter(self) -> Document {
        match self {
            Lines::Of(account) => lines_of(account),
            Lines::All => all_lines(),
        }
    }

    fn index(self) -> &'static str {
        match self {
            Lines::Of(_) => BY_ACCOUNT,
            Lines::All => BY_TIME,
        }
    }

    /// The fields that are read. An account is found in a whole line; else there are only the lists
    /// of the ends that are meant, which are a small part of a line where few are canceled.
    fn fields(self, ends: &[End]) -> Document {
        match self {
            Lines::Of(_) => Document::new(),
            Lines::All => {
                let mut fields = doc! { "at": 1, "application": 1 };
                fields.extend(ends.iter().map(|end| (end.as_str().to_owned(), 1.into())));
                fields
            }
        }
    }

    fn mentions<'l>(self, line: &Line<'l>, ends: &[End]) -> Result<Vec<Mention<'l>>, BadLine> {
        match self {
            Lines::Of(account) => line.naming(account, ends),
            Lines::All => line.ended(ends),
        }
    }
}

impl Piece {
    /// Reads lines from a gap until there are so many entries, or enough lines.
    pub(super) async fn read(
        store: &Store,
        lines: Lines<'_>,
        filter: &TransactionFilter,
        begin: &Begin<LinePlace>,
        wanted: usize,
    ) -> Result<Piece, LedgerError> {
        let ends = filter.ends();
        let mut found = lines.filter();
        let way = begin.way;
        let moment = begin.gap.as_ref().map_or(DateTime::MAX, |gap| DateTime::from_millis(gap.at));
        found.insert("at", filter.ended(moment, way));
        let sort = match way {
            Way::Up => 1,
            Way::Down => -1,
        };
        let command = rawdoc! {
            "find": JOURNAL,
            "filter": raw(&found)?,
            "sort": { "at": sort },
            "hint": lines.index(),
            "projection": raw(&lines.fields(&ends))?,
        };
        let (account, begin) = (filter.account.clone(), begin.clone());
        let more = move |piece: &mut Piece, line: &RawDocument| {
            let lines = account.as_deref().map_or(Lines::All, Lines::Of);
            piece.add(line, lines, &ends, &begin, wanted).unwrap_or_else(|line| {
                piece.bad = Some(line);
                false
            })
        };
        let piece = store.read_while("transactions", command, Piece::default(), more).await?;
        Ok(piece.in_order(way, wanted))
    }

    /// Adds the entries of a line. Returns whether there is room for more.
    fn add(
        &mut self,
        line: &RawDocument,
        lines: Lines<'_>,
        ends: &[End],
        begin: &Begin<LinePlace>,
        wanted: usize,
    ) -> Result<bool, BadLine> {
        let bytes = line.as_bytes().len();
        let line = Line::from_raw(line)?;
        let is_enough =
            self.entries.len() >= wanted || self.lines >= LINES_MAX || self.bytes > BYTES_MAX;
        if let Some(at) = self.at.filter(|at| is_enough && *at != line.at) {
            // Behind all places of that moment.
            let at = match begin.way {
                Way::Up => at.saturating_add(1),
                Way::Down => at,
            };
            self.read_to = Some(LinePlace { at, line: String::new(), entry: 0 });
            return Ok(false);
        }
        self.at = Some(line.at);
        self.bytes += bytes;
        self.lines += 1;
        for Mention { entry, id, end } in lines.mentions(&line, ends)? {
            let place = LinePlace { at: line.at, line: line.id.to_owned(), entry };
            if begin.takes(&place) {
                self.entries.push(Ended { place, id: id.to_owned(), end });
            }
        }
        Ok(true)
    }

    /// The same with its entries in their order, and no more of them than are wanted.
    fn in_order(mut self, way: Way, wanted: usize) -> Piece {
        self.entries.sort_by(|one, other| match way {
            Way::Up => one.place.cmp(&other.place),
            Way::Down => other.place.cmp(&one.place),
        });
        if self.entries.len() > wanted {
            self.entries.truncate(wanted);
            self.read_to = self.entries.last().map(|last| way.past(last.place.clone()));
        }
        self
    }
}

/// A line without a moment has no place in a list.
pub(super) async fn check_dated(
    store: &Store,
    lines: Lines<'_>,
) -> Result<Result<(), Error>, LedgerError> {
    let command = rawdoc! {
        "find": JOURNAL,
        "filter": raw(&journal::undated(lines.filter()))?,
        "projection": { "_id": 1 },
        "hint": lines.index(),
        "limit": 1,
    };
    let found = store.find("transactions", command, |line| Some(Line::undated(line))).await?;
    Ok(found.first().map_or(Ok(()), |line| Err(journal::unreadable(line))))
}

fn raw(document: &Document) -> Result<RawDocumentBuf, LedgerError> {
    RawDocumentBuf::try_from(document)
        .map_err(|error| LedgerError::lasting("transactions", error.to_string()))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::Bson;

    use super::*;

    /// A line of this moment with so many done transactions and one that is canceled, as it is read
    /// for both ends.
    fn line(id: &str, at: i64, done: i32) -> RawDocumentBuf {
        let entry = |n: i32| Bson::from(vec![Bson::from(format!("{id}{n}"))]);
        let done: Vec<Bson> = (0..done).map(entry).collect();
        let canceled = vec![Bson::from(vec![Bson::from(format!("{id}x"))])];
        let line = doc! {
            "_id": id, "at": DateTime::from_millis(at), "application": "w", "done": done,
            "canceled": canceled,
        };
        RawDocumentBuf::try_from(&line).expect("BSON")
    }

    fn top() -> Begin<LinePlace> {
        Begin { gap: None, way: Way::Down }
    }

    /// The ids of a piece, and where the next one begins. `lines` are newest first.
    fn read(
        lines: &[RawDocumentBuf],
        ends: &[End],
        begin: &Begin<LinePlace>,
        wanted: usize,
    ) -> (Vec<String>, Option<LinePlace>) {
        let mut piece = Piece::default();
        let moment = begin.gap.as_ref().map_or(i64::MAX, |gap| gap.at);
        let at = |line: &RawDocumentBuf| Line::from_raw(line).expect("a line").at;
        let lines: Vec<&RawDocumentBuf> = match begin.way {
            Way::Down => lines.iter().filter(|line| at(line) <= moment).collect(),
            Way::Up => lines.iter().rev().filter(|line| at(line) >= moment).collect(),
        };
        for line in lines {
            if !piece.add(line, Lines::All, ends, begin, wanted).expect("it makes sense") {
                break;
            }
        }
        let piece = piece.in_order(begin.way, wanted);
        (piece.entries.into_iter().map(|one| one.id).collect(), piece.read_to)
    }

    #[test]
    fn pieces_of_any_size_have_each_entry_once_whatever_order_lines_of_one_moment_have() {
        let expected = ["dx", "d0", "cx", "c1", "c0", "bx", "b0", "ax", "a1", "a0"];
        let (a, b, c, d) = (line("a", 7, 2), line("b", 8, 1), line("c", 8, 2), line("d", 9, 1));
        for lines in [[&d, &c, &b, &a], [&d, &b, &c, &a]].map(|lines| lines.map(Clone::clone)) {
            for wanted in [1, 2, 3, 4, 7, 10, 100] {
                let whole = |mut begin: Begin<LinePlace>| {
                    let mut all = Vec::new();
                    loop {
                        let (ids, read_to) = read(&lines, &End::ALL, &begin, wanted);
                        assert!(ids.len() <= wanted);
                        all.extend(ids);
                        match read_to {
                            Some(gap) => begin.gap = Some(gap),
                            None => return all,
                        }
                    }
                };
                assert_eq!(whole(top()), expected, "by {wanted}");
                let bottom = LinePlace { at: 0, line: String::new(), entry: 0 };
                let mut back = whole(Begin { gap: Some(bottom), way: Way::Up });
                back.reverse();
                assert_eq!(back, expected, "back by {wanted}");
            }
        }
    }

    #[test]
    fn a_piece_without_an_entry_that_is_meant_says_how_far_it_has_read() {
        let lines: Vec<_> = (0..300).map(|n| line(&format!("l{n}"), 1_000 - n, 0)).collect();
        let (ids, read_to) = read(&lines, &[End::Done], &top(), 1);
        let behind = LinePlace { at: 1_000 - 199, line: String::new(), entry: 0 };
        assert_eq!((ids, read_to.as_ref()), (vec![], Some(&behind)));
        let begin = Begin { gap: Some(behind), way: Way::Down };
        let (ids, read_to) = read(&lines, &[End::Done], &begin, 1);
        assert_eq!((ids, read_to), (vec![], None));
    }
}
