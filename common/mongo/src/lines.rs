//! Lines of the journal, as they are read.
//!
//! Owns what a reader sees of a stored line: what it has booked on an account, and which of its
//! transactions name an account. Promises that nothing is skipped or guessed: a line that makes no
//! sense where it is looked at is a [`BadLine`], which names it. It makes no sense if its form is
//! wrong, and if what its entries have booked on the account is not its net there; so a sum of nets
//! and a sum of entries never differ in silence. Amounts on other accounts are not looked at.
//!
//! A line is read as it is stored, and in pieces: a reader stops between two lines when it has what
//! it needs ([`Store::read_while`]). Measured with 51 lines of 140 kB, the server sends them in 10
//! ms. Letting it pick the entries of an account takes it 17 ms, and needs more care.

use std::fmt;

use ledger::amount::Amount;
use ledger::event::End;
use ledger::limits::echo;
use ledger::{LedgerError, ServerMs};
use mongodb::bson::{Document, RawArray, RawBsonRef, RawDocument, RawDocumentBuf, doc};

use super::Store;
use super::own::LINE;
use super::raw::shown;

/// The filter for all lines. What others have put into the journal does not match.
#[must_use]
pub fn all_lines() -> Document {
    doc! { "kind": LINE.condition() }
}

/// The filter for the lines that name an account.
#[must_use]
pub fn lines_of(account: &str) -> Document {
    doc! { "accounts": account, "kind": LINE.condition() }
}

/// A line.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Its `_id`.
    pub id: &'a str,
    /// The moment of its ends.
    pub at: ServerMs,
    /// The worker that has written it.
    pub application: &'a str,
    document: &'a RawDocument,
}

/// A line that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its `_id`, as text.
    pub id: String,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the line {} of the journal can't be read: {}", self.id, self.problem)
    }
}

/// What a done transaction has booked on an account.
#[derive(Clone, Copy, Debug)]
pub struct Booking<'a> {
    /// Its place in its line.
    pub entry: u32,
    /// Its `_id`.
    pub id: &'a str,
    /// By how much it has changed the account.
    pub amount: Amount,
    legs: &'a RawArray,
}

/// A transaction that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mention<'a> {
    /// Its place in its line, in which those that are done stand before those that are canceled; in
    /// what [`Line::ended`] tells, its place among those that are asked for.
    pub entry: u32,
    /// Its `_id`.
    pub id: &'a str,
    /// How it has ended.
    pub end: End,
}

/// How many lines the server sends at once. Each may have megabytes, and one may be enough.
pub const LINES_AT_ONCE: u32 = 10;

/// Where an account stands in a line's list of accounts, and how many there are.
#[derive(Clone, Copy)]
struct Own {
    place: usize,
    of: usize,
}

impl<'a> Line<'a> {
    /// A stored line.
    ///
    /// # Errors
    /// When it has no name, moment or worker.
    pub fn from_raw(document: &'a RawDocument) -> Result<Line<'a>, BadLine> {
        let bad = |problem: &str| bad(document, problem.to_owned());
        let id = document.get_str("_id").ok().filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| bad("its `_id` is no text"))?;
        let at = document.get_datetime("at").map_err(|_| Line::undated(document))?;
        let application = document.get_str("application");
        let application = application.map_err(|_| bad("its `application` is no text"))?;
        Ok(Line { id, at: at.timestamp_millis(), application, document })
    }

    /// As it is stored.
    pub(super) fn document(&self) -> &'a RawDocument {
        self.document
    }

    /// A line without a moment, of which no more than its `_id` has to be known.
    #[must_use]
    pub fn undated(document: &RawDocument) -> BadLine {
        bad(document, "its `at` is no date".to_owned())
    }

    /// What was booked on an account, in the line's order. Entries of other accounts are passed
    /// over unread: a page of a statement goes through some fifty lines of a thousand entries each.
    ///
    /// # Errors
    /// When what the line says of the account makes no sense.
    pub fn booked_on(&self, account: &str) -> Result<Vec<Booking<'a>>, BadLine> {
        let own = self.own(account)?;
        let (mut bookings, mut sum) = (Vec::new(), 0);
        for (entry, item) in (0..).zip(self.list("done")?) {
            let item = item.ok();
            if !may_name(item, own) {
                continue;
            }
            let (id, legs) = self.entry(item)?;
            if let Some(amount) = self.booked(id, legs, own)? {
                sum += amount.nanos();
                bookings.push(Booking { entry, id, amount, legs });
            }
        }
        let net = self.list("nets")?.into_iter().nth(own.place);
        if net.and_then(|net| nanos_of_net(net.ok()?)) != Some(sum) {
            let problem = format!("its net of {} is not the sum of its entries", echo(account));
            return Err(self.bad(problem));
        }
        Ok(bookings)
    }

    /// The transactions that name an account and have ended in one of these ways, in the line's
    /// order: first those that are done.
    ///
    /// # Errors
    /// When the line makes no sense.
    pub fn naming(&self, account: &str, ends: &[End]) -> Result<Vec<Mention<'a>>, BadLine> {
        let own = self.own(account)?;
        let (mut mentions, mut entry) = (Vec::new(), 0);
        for end in End::ALL {
            for item in self.list(end.as_str())? {
                let (id, rest) = self.entry(item.ok())?;
                let names = match end {
                    End::Done => self.booked(id, rest, own)?.is_some(),
                    End::Canceled => self.names(id, rest, own)?,
                };
                if names && ends.contains(&end) {
                    mentions.push(Mention { entry, id, end });
                }
                entry += 1;
            }
        }
        Ok(mentions)
    }

    /// All transactions that have ended in one of these ways, in the line's order. Of the line, no more
    /// has to be read than the lists of these ends, beside what [`Line::from_raw`] needs.
    ///
    /// # Errors
    /// When the line makes no sense.
    pub fn ended(&self, ends: &[End]) -> Result<Vec<Mention<'a>>, BadLine> {
        let mut mentions = Vec::new();
        for end in End::ALL.into_iter().filter(|end| ends.contains(end)) {
            for item in self.list(end.as_str())? {
                let (id, _) = self.entry(item.ok())?;
                let entry = u32::try_from(mentions.len()).unwrap_or(u32::MAX);
                mentions.push(Mention { entry, id, end });
            }
        }
        Ok(mentions)
    }

    /// The other accounts of a booking on an account, at most so many.
    ///
    /// # Errors
    /// When the line makes no sense.
    pub fn others(
        &self,
        booking: &Booking<'a>,
        account: &str,
        most: usize,
    ) -> Result<Vec<&'a str>, BadLine> {
        let mut others = Vec::new();
        let accounts = self.list("accounts")?;
        for place in booking.legs.into_iter().skip(1).step_by(2) {
            if others.len() == most {
                break;
            }
            let name = place.ok().and_then(index).and_then(|place| accounts.get_str(place).ok());
            let name = name.ok_or_else(|| self.bad_entry(booking.id))?;
            if name != account {
                others.push(name);
            }
        }
        Ok(others)
    }

    fn own(&self, account: &str) -> Result<Own, BadLine> {
        let (mut place, mut of) = (None, 0);
        for name in self.list("accounts")? {
            let name = name.ok().and_then(|name| name.as_str());
            let name = name.ok_or_else(|| self.bad("an account's name is no text".to_owned()))?;
            if name == account && place.replace(of).is_some() {
                return Err(self.bad(format!("it has the account {} twice", echo(account))));
            }
            of += 1;
        }
        let missing = || self.bad(format!("its accounts lack {}", echo(account)));
        Ok(Own { place: place.ok_or_else(missing)?, of })
    }

    fn list(&self, field: &str) -> Result<&'a RawArray, BadLine> {
        self.document.get_array(field).map_err(|_| self.bad(format!("its `{field}` is no list")))
    }

    /// The `_id` of an entry, and the list that it stands in.
    fn entry(&self, item: Option<RawBsonRef<'a>>) -> Result<(&'a str, &'a RawArray), BadLine> {
        let list = item.and_then(|item| item.as_array());
        let id = list.and_then(|list| list.get_str(0).ok());
        let problem = || self.bad("an entry is no list that begins with a text".to_owned());
        id.zip(list).ok_or_else(problem)
    }

    /// What an entry of a done transaction has booked on an account.
    fn booked(&self, id: &str, legs: &RawArray, own: Own) -> Result<Option<Amount>, BadLine> {
        let mut values = legs.into_iter().skip(1);
        let mut booked = None;
        while let Some(place) = values.next() {
            let amount = values.next().and_then(Result::ok).ok_or_else(|| self.bad_entry(id))?;
            if self.place(id, place.ok(), own)? == own.place {
                let amount = Amount::written(amount).ok_or_else(|| self.bad_entry(id))?;
                if booked.replace(amount).is_some() {
                    return Err(self.bad_entry(id));
                }
            }
        }
        Ok(booked)
    }

    /// Whether an entry of a canceled transaction names an account.
    fn names(&self, id: &str, places: &RawArray, own: Own) -> Result<bool, BadLine> {
        let mut names = false;
        for place in places.into_iter().skip(1) {
            names |= self.place(id, place.ok(), own)? == own.place;
        }
        Ok(names)
    }

    fn place(&self, id: &str, place: Option<RawBsonRef<'_>>, own: Own) -> Result<usize, BadLine> {
        let place = place.and_then(index).filter(|place| *place < own.of);
        place.ok_or_else(|| self.bad_entry(id))
    }

    fn bad_entry(&self, id: &str) -> BadLine {
        self.bad(format!("its entry of {} makes no sense", echo(id)))
    }

    /// This line as one that makes no sense, for a reader who knows more than it.
    #[must_use]
    pub fn bad(&self, problem: String) -> BadLine {
        bad(self.document, problem)
    }
}

/// A line, or a sum of lines, that makes no sense.
pub(super) fn bad(document: &RawDocument, problem: String) -> BadLine {
    let id = document.get("_id").ok().flatten().unwrap_or(RawBsonRef::Undefined);
    BadLine { id: shown(id.into()), problem }
}

/// False if an entry surely does not name the account: nowhere in it stands the end of a name and
/// then this place. What is no list is to be looked at.
fn may_name(entry: Option<RawBsonRef<'_>>, own: Own) -> bool {
    let (Some(list), Ok(place)) =
        (entry.and_then(|entry| entry.as_array()), i32::try_from(own.place))
    else {
        return true;
    };
    let mut written = [0; 1 + size_of::<i32>()];
    written[1..].copy_from_slice(&place.to_le_bytes());
    list.as_bytes().windows(written.len()).any(|bytes| bytes == written)
}

fn index(place: RawBsonRef<'_>) -> Option<usize> {
    usize::try_from(place.as_i32()?).ok()
}

/// A net of a line in units of 10^-9, which may be larger than an amount; none where it is no number
/// that Tandem writes.
#[must_use]
pub fn nanos_of_net(net: RawBsonRef<'_>) -> Option<i128> {
    match net {
        RawBsonRef::Int64(units) => Some(Amount::Int(units).nanos()),
        RawBsonRef::Decimal128(sum) => Amount::nanos_of_sum(sum),
        _ => None,
    }
}

impl Store {
    /// Reads lines one after the other, a few at once, until `more` says that it has enough or
    /// there are no more; returns what it has made of them.
    ///
    /// # Errors
    /// When the command fails.
    pub async fn read_while<T: Send + 'static>(
        &self,
        operation: &'static str,
        command: RawDocumentBuf,
        seen: T,
        more: impl Fn(&mut T, &RawDocument) -> bool + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.find_while(operation, command, LINES_AT_ONCE as usize, seen, more).await
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Bson, DateTime};

    use super::*;

    /// Two done transactions on `a`, one not on it, and one canceled.
    fn line() -> Document {
        let (five, two) = (5_i64, 2_i64);
        doc! {
            "_id": "l", "kind": "tandem-line", "at": DateTime::from_millis(7), "application": "w",
            "accounts": ["a", "b", "c"],
            "nets": [-7_i64, 3_i64, 4_i64],
            "done": [
                ["t", 0, -five, 1, five],
                ["u", 1, -two, 2, two],
                ["v", 0, -two, 2, two],
            ],
            "canceled": [["x", 2, 0], ["broken"], ["y", 1, 2]],
        }
    }

    fn raw(line: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(line).expect("BSON")
    }

    fn read<'a>(
        line: &'a RawDocumentBuf,
        account: &str,
    ) -> Result<(Line<'a>, Vec<Booking<'a>>), BadLine> {
        let line = Line::from_raw(line)?;
        line.naming(account, &End::ALL)?;
        Ok((line, line.booked_on(account)?))
    }

    #[test]
    fn a_line_tells_what_it_has_booked_on_an_account_and_who_else_was_in_it() {
        let line = raw(&line());
        let (line, booked) = read(&line, "a").expect("it makes sense");
        assert_eq!((line.id, line.at, line.application), ("l", 7, "w"));
        let told = |booking: &Booking<'_>| (booking.entry, booking.id.to_owned(), booking.amount);
        let expected = [(0, "t", -5), (2, "v", -2)];
        let expected = expected.map(|(n, id, amount)| (n, id.to_owned(), Amount::Int(amount)));
        assert_eq!(booked.iter().map(told).collect::<Vec<_>>(), expected);
        assert_eq!(line.others(&booked[1], "a", 10), Ok(vec!["c"]));
        assert_eq!(line.others(&booked[1], "a", 0), Ok(vec![]));
    }

    #[test]
    fn whoever_has_a_part_in_a_large_line_is_found_at_any_place() {
        let count = 70_000;
        let accounts: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        let entries: Vec<Bson> = (0..count)
            .map(|n| Bson::Array(vec![format!("t{n}").into(), n.into(), i64::from(n).into()]))
            .collect();
        let nets: Vec<i64> = (0..count.into()).collect();
        let mut large = line();
        large.extend(doc! { "accounts": accounts, "nets": nets, "done": entries });
        let large = raw(&large);
        let line = Line::from_raw(&large).expect("it makes sense");
        for n in [0, 1, 127, 128, 255, 256, 257, 65_535, 65_536, 69_999] {
            let booked = line.booked_on(&n.to_string()).expect("it makes sense");
            let told: Vec<_> = booked.iter().map(|one| (one.id.to_owned(), one.amount)).collect();
            assert_eq!(told, [(format!("t{n}"), Amount::Int(n))]);
        }
    }

    #[test]
    fn a_line_names_who_has_ended_on_an_account_and_how() {
        let line = raw(&line());
        let line = Line::from_raw(&line).expect("it makes sense");
        let naming = |account: &str, ends: &[End]| -> Vec<(u32, &str)> {
            let naming = line.naming(account, ends).expect("it makes sense");
            naming.iter().map(|mention| (mention.entry, mention.id)).collect()
        };
        assert_eq!(naming("a", &End::ALL), [(0, "t"), (2, "v"), (3, "x")]);
        assert_eq!(naming("c", &[End::Canceled]), [(3, "x"), (5, "y")]);
        assert_eq!(naming("b", &[End::Done]), [(0, "t"), (1, "u")]);
    }

    #[test]
    fn a_line_of_which_one_list_was_read_tells_who_has_ended_so() {
        let whole = raw(&line());
        let read = ["_id", "at", "application", "canceled"];
        let is_read = |(name, _): &(String, Bson)| read.contains(&name.as_str());
        let canceled = raw(&line().into_iter().filter(is_read).collect());
        let told = |line: &RawDocumentBuf, ends: &[End]| -> Option<Vec<(u32, String)>> {
            let told = Line::from_raw(line).expect("it has a moment").ended(ends).ok()?;
            Some(told.iter().map(|one| (one.entry, one.id.to_owned())).collect())
        };
        let expected =
            |ids: &[&str]| Some((0..).zip(ids.iter().map(|&id| id.to_owned())).collect());
        assert_eq!(told(&whole, &End::ALL), expected(&["t", "u", "v", "x", "broken", "y"]));
        assert_eq!(told(&canceled, &[End::Canceled]), expected(&["x", "broken", "y"]));
        assert_eq!(told(&canceled, &End::ALL), None, "what was not read is not taken for empty");
    }

    #[test]
    fn sums_beyond_an_amount_and_decimals_are_exact() {
        let decimal = |text: &str| Bson::Decimal128(text.parse().expect(text));
        let mut huge = line();
        huge.insert("accounts", vec!["a", "b"]);
        huge.insert("nets", vec![decimal("-3E+18"), decimal("3E+18")]);
        let leg = |id: &str| {
            vec![Bson::from(id), 0.into(), decimal("-1E+18"), 1.into(), decimal("1E+18")]
        };
        huge.insert("done", vec![leg("t"), leg("u"), leg("v")]);
        huge.insert("canceled", Bson::Array(vec![]));
        assert_eq!(read(&raw(&huge), "a").expect("it makes sense").1.len(), 3);
        huge.insert("nets", vec![decimal("-2.999999999999999999E+18"), decimal("3E+18")]);
        assert!(read(&raw(&huge), "a").is_err());
        assert!(read(&raw(&huge), "b").is_ok(), "its own net is right");
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named_and_nothing_of_it_is_skipped() {
        let list = |items: &[Bson]| Bson::Array(items.to_vec());
        let entry = |items: &[Bson]| list(&[list(items)]);
        let (text, one) = (|text: &str| Bson::from(text), Bson::from(1_i64));
        let damages = [
            ("at", Bson::from("today")),
            ("at", Bson::Null),
            ("application", Bson::Null),
            ("accounts", text("a")),
            ("accounts", list(&[text("b"), text("c")])),
            ("accounts", list(&[text("a"), text("a"), text("c")])),
            ("accounts", list(&[text("a"), 7.into(), text("c")])),
            ("nets", Bson::Null),
            ("nets", list(&[])),
            ("nets", list(&[(-6_i64).into()])),
            ("nets", list(&[text("-7")])),
            ("nets", list(&[(-7.0).into()])),
            ("done", Bson::Null),
            ("done", list(&[])),
            ("done", list(&[text("t")])),
            ("done", entry(&[7.into()])),
            ("done", entry(&[])),
            ("done", entry(&[text("t"), 0.into()])),
            ("done", entry(&[text("t"), 3.into(), one.clone()])),
            ("done", entry(&[text("t"), (-1).into(), one.clone()])),
            ("done", entry(&[text("t"), text("a"), one])),
            ("done", entry(&[text("t"), 0.into(), text("-7")])),
            ("done", entry(&[text("t"), 0.into(), (-7.0).into()])),
            ("done", entry(&[text("t"), 0.into(), (-3_i64).into(), 0.into(), (-7_i64).into()])),
            ("canceled", Bson::Null),
            ("canceled", entry(&[text("x"), 9.into()])),
        ];
        for (field, value) in damages {
            let mut damaged = line();
            damaged.insert(field, value);
            let damaged = raw(&damaged);
            let error = read(&damaged, "a").expect_err(field);
            assert_eq!(error.id, "l", "{error}");
            let booked = Line::from_raw(&damaged).and_then(|line| line.booked_on("a").map(drop));
            assert!(booked.is_err() || field == "canceled", "{damaged:?}");
        }
        for id in [Bson::from(7), "".into(), Bson::Null] {
            let mut damaged = line();
            damaged.insert("_id", id);
            assert!(read(&raw(&damaged), "a").is_err());
        }
    }
}
