//! Reading what was booked on an account: what a statement says, as of one snapshot.
//!
//! Promises that account, opening sum and entries are of one moment, and that each entry is that of
//! a line of the journal that makes sense. One that makes none ends the reading with
//! [`Error::Refused`], which names it, because without it every later balance would be wrong. Lines
//! are read one after the other, up or down in their order from a gap between two entries, until the
//! page is full, and no more than [`BYTES_MAX`] of them; the next page goes on from there.
//!
//! The balance at the gap is made by [`super::sum`], if nobody knows it. What is older than the
//! horizon is summed outside of the snapshot, which may be gone by then: nothing is added to it any
//! more.

use ledger::LedgerError;
use ledger::account::opening_from_raw;
use ledger::amount::Amount;
use ledger::limits::echo;
use ledger::transaction::AccountId;
use mongo::{ACCOUNTS, BY_ACCOUNT, BadLine, JOURNAL, LINES_AT_ONCE, Line, Store, lines_of};
use mongodb::bson::{DateTime, Document, RawDocument, RawDocumentBuf, Timestamp, doc};
use mongodb::error::Error as DriverError;
use mongodb::options::{Hint, ReadConcern};
use mongodb::{ClientSession, Collection};

use super::adjustment::{Adjusted, adjusted};
use super::cursor::{LinePlace, Way};
use super::journal::{self, BYTES_MAX};
use super::sum::Summing;
use crate::error::{Error, Kind, Server};

/// How much older than the reads a place must be before a cursor may stand there.
const HORIZON_MS: i64 = 10_000;
/// The most other accounts that an entry names.
const COUNTERPARTIES_MAX: usize = 10;

/// What is to be read.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub account: AccountId,
    /// Where it begins, and which way it goes.
    pub gap: LinePlace,
    pub way: Way,
    /// Whether the balance at the gap is to be summed.
    pub with_sum: bool,
    /// Entries from this moment on.
    pub from: DateTime,
    /// Entries before this moment.
    pub to: DateTime,
    /// So many entries, and one more.
    pub limit: usize,
}

/// What was read.
#[derive(Clone, Debug)]
pub(super) struct Booked {
    /// Whether the account is of minor units.
    pub is_int: bool,
    pub currency: Option<String>,
    /// The opening balance of the account with the sum that was asked for, in units of 10^-9.
    pub balance: i128,
    /// In the order in which they were read.
    pub rows: Vec<Row>,
    /// The gap at which the reading has ended before the page was full, because it was of so many
    /// bytes. Everything up to there is in the rows.
    pub stopped: Option<LinePlace>,
    /// Nothing can appear before this moment any more.
    pub horizon: DateTime,
}

impl Booked {
    /// Whether nothing can appear before a place any more.
    pub(super) fn is_certain(&self, place: &LinePlace) -> bool {
        place.at < self.horizon.timestamp_millis()
    }
}

/// A done transaction, or an adjustment, as the account sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub place: LinePlace,
    pub id: String,
    pub amount: Amount,
    pub counterparties: Vec<AccountId>,
    pub adjusted: Option<Adjusted>,
}

/// Why the reading ended.
pub(super) enum Halt {
    Driver(DriverError),
    /// What the caller is told.
    Answer(Error),
}

impl From<DriverError> for Halt {
    fn from(error: DriverError) -> Halt {
        Halt::Driver(error)
    }
}

impl From<BadLine> for Halt {
    fn from(line: BadLine) -> Halt {
        Halt::Answer(journal::unreadable(&line))
    }
}

/// Reads it; the inner error is about what is there.
pub(super) async fn read(
    store: &Store,
    question: &Question,
) -> Result<Result<Booked, Error>, LedgerError> {
    let (reader, question) = (store.clone(), question.clone());
    let reading = async move {
        match question.read(&reader).await {
            Ok(booked) => Ok(Ok(booked)),
            Err(Halt::Answer(error)) => Ok(Err(error)),
            Err(Halt::Driver(error)) => Err(error),
        }
    };
    store.limited("statement", reading).await
}

impl Question {
    async fn read(&self, store: &Store) -> Result<Booked, Halt> {
        let session = store.database().client().start_session().snapshot(true).await?;
        let mut reading = Reading { store, session, account: &self.account };
        let (opening, currency) = reading.account().await?;
        let horizon = reading.horizon()?;
        reading.undated().await?;
        let (summing, mut balance) = (Summing::new(store, &self.account), opening.nanos());
        let before = DateTime::from_millis(self.gap.at);
        if self.with_sum {
            balance += reading.at_the_moment_of(&self.gap, &summing).await?;
            if before > horizon {
                balance += summing.recent(horizon, before, &mut reading.session).await?;
            }
        }
        let is_int = opening.is_int();
        let (rows, stopped) = reading.rows(self, is_int).await?;
        // Last, because it may take longer than the server keeps the snapshot.
        if self.with_sum {
            balance += summing.old(before.min(horizon), reading.moment()?).await?;
        }
        Ok(Booked { is_int, currency, balance, rows, stopped, horizon })
    }

    fn filter(&self) -> Document {
        let (at, line) = (DateTime::from_millis(self.gap.at), &self.gap.line);
        let mut filter = lines_of(&self.account);
        let (within, beyond) = match self.way {
            Way::Up => (doc! { "$gte": at.max(self.from), "$lt": self.to }, "$lt"),
            Way::Down => (doc! { "$gte": self.from, "$lt": self.to, "$lte": at }, "$gt"),
        };
        filter.insert("at", within);
        // Under `$nor` the server takes it for no condition of the index, whose bounds are above.
        filter.insert("$nor", [doc! { "at": at, "_id": { beyond: line } }]);
        filter
    }

    fn sort(&self) -> Document {
        match self.way {
            Way::Up => doc! { "at": 1, "_id": 1 },
            Way::Down => doc! { "at": -1, "_id": -1 },
        }
    }
}

struct Reading<'a> {
    store: &'a Store,
    session: ClientSession,
    account: &'a AccountId,
}

impl Reading<'_> {
    /// The account's opening balance and currency.
    async fn account(&mut self) -> Result<(Amount, Option<String>), Halt> {
        let asked = doc! {
            "filter": { "_id": self.account.as_ref() },
            "projection": {
                "balance": 1, "pendingDebits": 1, "openingBalance": 1, "currency": 1,
            },
        };
        let query = self.store.query(ACCOUNTS, asked)?;
        let found = query
            .find_one()
            // In a snapshot session the driver drops the read concern that the client is set to, so
            // each read sets it explicitly.
            .read_concern(ReadConcern::snapshot())
            .max_time(self.store.op_limit())
            .comment("tandem statement")
            .session(&mut self.session)
            .await?;
        let id = self.account.to_string();
        let found =
            found.ok_or(Halt::Answer(Error::NotFound { kind: Kind::Account, id: id.clone() }))?;
        let found = query.read(&found);
        let opening = opening_from_raw(&found)
            .map_err(|problem| Halt::Answer(Error::refused(&id, problem)))?;
        Ok((opening, found.get_str("currency").ok().map(str::to_owned)))
    }

    /// The moment of the reads less what an end may take to become visible.
    fn horizon(&self) -> Result<DateTime, Halt> {
        Ok(DateTime::from_millis(i64::from(self.moment()?.time) * 1_000 - HORIZON_MS))
    }

    /// The moment of the reads.
    fn moment(&self) -> Result<Timestamp, Halt> {
        self.session.snapshot_time().ok_or_else(|| {
            let problem = "statements need snapshot reads, which this server does not have: it must \
                           be a member of a replica set";
            Halt::Answer(Error::Denied { server: Server::MongoDb, problem: problem.to_owned() })
        })
    }

    /// A line without a moment has no place among the entries, and no sum has it either. It is
    /// looked for in each snapshot: the index keeps what is no date before and after all dates.
    async fn undated(&mut self) -> Result<(), Halt> {
        let found = self
            .journal()
            .find_one(journal::undated(lines_of(self.account)))
            .projection(doc! { "_id": 1 })
            .hint(Hint::Name(BY_ACCOUNT.to_owned()))
            .read_concern(ReadConcern::snapshot())
            .max_time(self.store.op_limit())
            .comment("tandem statement")
            .session(&mut self.session)
            .await?;
        match found {
            Some(line) => Err(Line::undated(&line).into()),
            None => Ok(()),
        }
    }

    /// What was booked at the very moment of a gap, and below it.
    async fn at_the_moment_of(
        &mut self,
        gap: &LinePlace,
        summing: &Summing<'_>,
    ) -> Result<i128, Halt> {
        // Before all lines of its moment.
        if gap.line.is_empty() {
            return Ok(0);
        }
        let at = DateTime::from_millis(gap.at);
        let before = summing.at(at, &gap.line, &mut self.session).await?;
        let mut of_line = lines_of(self.account);
        of_line.insert("_id", &gap.line);
        let found = self
            .journal()
            .find_one(of_line)
            .hint(Hint::Keys(doc! { "_id": 1 }))
            .read_concern(ReadConcern::snapshot())
            .max_time(self.store.op_limit())
            .comment("tandem statement")
            .session(&mut self.session)
            .await?;
        let Some(found) = found else { return Ok(before) };
        let booked = Line::from_raw(&found)?.booked_on(self.account)?;
        let below = booked.iter().filter(|booking| booking.entry < gap.entry);
        Ok(before + below.map(|booking| booking.amount.nanos()).sum::<i128>())
    }

    /// The entries, in the order in which they are read, and where the reading was stopped.
    async fn rows(
        &mut self,
        question: &Question,
        is_int: bool,
    ) -> Result<(Vec<Row>, Option<LinePlace>), Halt> {
        let mut found = self
            .journal()
            .find(question.filter())
            .sort(question.sort())
            .hint(Hint::Name(BY_ACCOUNT.to_owned()))
            .batch_size(LINES_AT_ONCE)
            .read_concern(ReadConcern::snapshot())
            .max_time(self.store.op_limit())
            .comment("tandem statement")
            .session(&mut self.session)
            .await?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while found.advance(&mut self.session).await? {
            let line = found.current();
            rows.extend(read_rows(line, question, is_int)?);
            bytes += line.as_bytes().len();
            if rows.len() > question.limit {
                rows.truncate(question.limit + 1);
                return Ok((rows, None));
            }
            if bytes > BYTES_MAX {
                let line = Line::from_raw(line)?;
                let stopped = match question.way {
                    Way::Up => journal::end_of(&line),
                    Way::Down => journal::beginning_of(&line),
                };
                return Ok((rows, Some(stopped)));
            }
        }
        Ok((rows, None))
    }

    fn journal(&self) -> Collection<RawDocumentBuf> {
        self.store.database().collection(JOURNAL)
    }
}

/// What the account sees of a line on the side of the gap that the question is about, and no more of
/// it than a page and one more.
fn read_rows(line: &RawDocument, question: &Question, is_int: bool) -> Result<Vec<Row>, Halt> {
    let Question { account, limit, .. } = question;
    let line = Line::from_raw(line)?;
    let place = |entry| LinePlace { at: line.at, line: line.id.to_owned(), entry };
    let (adjusted, mut rows) = (adjusted(&line)?, Vec::new());
    let mut bookings = line.booked_on(account)?;
    if question.way == Way::Down {
        bookings.reverse();
    }
    for booking in bookings {
        if booking.amount.is_int() != is_int {
            let problem = format!("its entry of {} is not of the account's kind", echo(booking.id));
            return Err(line.bad(problem).into());
        }
        if question.way.takes(&question.gap, &place(booking.entry)) && rows.len() <= *limit {
            let others = line.others(&booking, account, COUNTERPARTIES_MAX)?;
            let counterparties = others.into_iter().map(Into::into).collect();
            let (id, amount) = (booking.id.to_owned(), booking.amount);
            let (place, adjusted) = (place(booking.entry), adjusted.clone());
            rows.push(Row { place, id, amount, counterparties, adjusted });
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::Bson;

    use super::*;

    fn question(gap: LinePlace, way: Way) -> Question {
        let (from, to) = (DateTime::MIN, DateTime::MAX);
        Question { account: "a".into(), gap, way, with_sum: false, from, to, limit: 2 }
    }

    fn beginning() -> LinePlace {
        LinePlace { at: 0, line: String::new(), entry: 0 }
    }

    fn rows(line: &Document, gap: LinePlace, is_int: bool) -> Result<Vec<Row>, Error> {
        read(line, &question(gap, Way::Up), is_int)
    }

    fn read(line: &Document, question: &Question, is_int: bool) -> Result<Vec<Row>, Error> {
        let line = RawDocumentBuf::try_from(line).expect("BSON");
        read_rows(&line, question, is_int).map_err(|halt| match halt {
            Halt::Answer(error) => error,
            Halt::Driver(error) => panic!("{error}"),
        })
    }

    fn line(done: Vec<Bson>, nets: &[i64]) -> Document {
        let accounts: Vec<String> = (0..20).map(|n| format!("{}", (b'a' + n) as char)).collect();
        doc! {
            "_id": "l", "kind": "tandem-line", "at": DateTime::from_millis(7), "application": "w",
            "accounts": accounts, "nets": nets, "done": done, "canceled": [],
        }
    }

    fn entry(id: &str, amount: i64) -> Bson {
        vec![Bson::from(id), 0.into(), amount.into(), 1.into(), (-amount).into()].into()
    }

    #[test]
    fn an_entry_is_the_accounts_own_leg_and_names_ten_others() {
        let mut legs = vec![Bson::from("t")];
        legs.extend((0..13).flat_map(|n| [Bson::from(n), if n == 0 { -12_i64 } else { 1 }.into()]));
        let rows = rows(&line(vec![legs.into()], &[-12]), beginning(), true);
        let rows = rows.expect("it can be read");
        let place = LinePlace { at: 7, line: "l".to_owned(), entry: 0 };
        assert_eq!((&rows[0].place, &*rows[0].id, rows[0].amount), (&place, "t", Amount::Int(-12)));
        assert_eq!(rows[0].counterparties.len(), 10);
        assert_eq!(&*rows[0].counterparties[9], "k");
    }

    #[test]
    fn entries_of_one_line_are_told_from_any_gap_either_way_and_no_more_than_are_needed() {
        let line = line((0..9).map(|n| entry(&format!("t{n}"), 1)).collect(), &[9]);
        let ids = |gap: LinePlace, way| -> Vec<String> {
            let rows = read(&line, &question(gap, way), true).expect("it can be read");
            rows.into_iter().map(|row| row.id).collect()
        };
        let at = |entry| LinePlace { at: 7, line: "l".to_owned(), entry };
        assert_eq!(ids(beginning(), Way::Up), ["t0", "t1", "t2"]);
        assert_eq!(ids(at(5), Way::Up), ["t5", "t6", "t7"]);
        assert_eq!(ids(at(8), Way::Up), ["t8"]);
        assert_eq!(ids(at(u32::MAX), Way::Up), [""; 0]);
        assert_eq!(ids(at(u32::MAX), Way::Down), ["t8", "t7", "t6"]);
        assert_eq!(ids(at(5), Way::Down), ["t4", "t3", "t2"]);
        assert_eq!(ids(at(1), Way::Down), ["t0"]);
        assert_eq!(ids(at(0), Way::Down), [""; 0]);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_also_behind_the_place() {
        let told = |line: &Document, is_int| {
            let after = LinePlace { at: 7, line: "l".to_owned(), entry: 0 };
            let error = rows(line, after, is_int).expect_err("it makes no sense");
            matches!(&error, Error::Refused { id, .. } if id == "tandem.journal/l")
        };
        assert!(told(&line(vec![entry("t", 1)], &[2]), true), "its net is another");
        assert!(told(&line(vec![entry("t", 1)], &[1]), false), "the account is of decimals");
    }
}
