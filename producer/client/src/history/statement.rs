//! Statements: what was booked on an account, with the balance after each entry.
//!
//! The entries are the account's done transactions in the order of the journal, or from its end to
//! its beginning: by the moment of their line, its `_id`, and their places in it. What a call says
//! stands for one moment (`booked`), so the balances are exact while other transactions are in
//! flight.
//!
//! A page begins at a gap between two entries and reads up or down from there. So it may go on at
//! its end (`next`), and back at its beginning (`prev`), whatever the order is: only what is told
//! first differs. A cursor says the gap, the way, and the balance at the gap, so a page costs the
//! same however far back the statement began. A page also ends after so many bytes of lines: then
//! its cursor stands behind the last one that was read, whether that has booked anything on the
//! account or not.
//!
//! **The horizon.** A server takes the date of a line before the write becomes visible, so a line
//! may become visible after others with a later date. Whoever goes up and on behind such a date
//! would miss it for good. So where the oldest come first, a place is handed out as
//! [`Statement::next`] only if it is more than 10 s older than the moment of the reads; a page that
//! is full is cut there. A page that is not full needs no `next` and tells everything up to its
//! moment. Where the newest come first, a page is full whatever its age: what becomes visible above
//! it is told by the next look from the top. A cursor that stands later than the horizon carries no
//! balance, so that the page that it leads to sums it anew. This rests on two assumptions: the
//! servers' clocks agree within seconds, and a line is visible 10 s after its date. The second holds
//! for a replica set that answers at all, unless a worker is stopped for longer than that between
//! the line and its commit.

use std::time::SystemTime;

use ledger::amount::Amount;
use ledger::transaction::{AccountId, TransactionId};
use mongodb::bson::DateTime;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::adjustment::Adjusted;
use super::booked::{self, Booked, Question, Row};
use super::check_limit;
use super::cursor::{self, LinePlace, Way};
use crate::client::Client;
use crate::error::Error;

/// The time of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// From this moment on; `None` from the opening of the account.
    pub from: Option<SystemTime>,
    /// Up to this moment, which is not part of it; `None` up to now.
    pub to: Option<SystemTime>,
}

/// In which order entries are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatementOrder {
    /// The oldest first.
    #[default]
    Oldest,
    /// The newest first.
    Newest,
}

/// What was booked on an account, or a page of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The account.
    pub account: AccountId,
    /// Its currency.
    pub currency: Option<String>,
    /// The booked balance before the oldest of the entries.
    pub opening: Amount,
    /// What was booked, in the order that was asked for.
    pub entries: Vec<Entry>,
    /// The booked balance after the newest of the entries. Money of transactions in flight is not in
    /// it.
    pub closing: Amount,
    /// What the next call takes as its cursor to go on; `None` when everything is told.
    pub next: Option<String>,
    /// What the next call takes as its cursor to go back; `None` at the beginning of the list.
    pub prev: Option<String>,
}

/// A done transaction as one of its accounts sees it, or an adjustment.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The transaction, or the name of the adjustment.
    pub id: TransactionId,
    /// The moment of its end.
    pub booked_at: DateTime,
    /// What it has added to the account; negative is a debit.
    pub amount: Amount,
    /// The booked balance after it.
    pub balance: Amount,
    /// The other accounts of the transaction, at most 10 of them.
    pub counterparties: Vec<AccountId>,
    /// If it is no transaction, but what a person has booked because others had moved the balance:
    /// why.
    pub adjusted: Option<Adjusted>,
}

/// What a cursor of a statement says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Carried {
    /// Where the page begins: below this gap are the entries before the place, above it the others.
    gap: LinePlace,
    /// Which way it goes from there.
    way: Way,
    /// The balance at the gap, in units of 10^-9 as text. `None` if it has to be read.
    balance: Option<String>,
}

impl Client {
    /// What was booked on an account in a period: its done transactions in the order in which they
    /// ended, with the balance after each. A page has at most `limit` entries, 1 to 1,000; `cursor`
    /// is the `next` of the page before, or the `prev` of the one behind, with the same account and
    /// period.
    ///
    /// The balances are exact while transactions are in flight. A `next` never stands at an entry
    /// of the last 10 s, because another one may still appear before it: a page that is full is cut
    /// there. A page also ends when it has read 32 MiB of the journal. So it may have fewer entries
    /// than `limit`, or none, and still a `next`; if that is the cursor of the call itself, ask
    /// again in some seconds. A page without `next` tells all that is there.
    ///
    /// # Errors
    /// [`Error::NotFound`] without such an account; [`Error::Invalid`] for a wrong limit, period or
    /// cursor; [`Error::WithoutHistory`]; [`Error::Refused`] when the account or one of its lines
    /// in the journal can't be read; and when the server stays away.
    pub async fn statement(
        &self,
        account: &str,
        period: &Period,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Statement, Error> {
        self.statement_ordered(account, period, StatementOrder::Oldest, limit, cursor).await
    }

    /// The same in this order, which is that of all pages of a walk. Where the newest come first, a
    /// page is full if there are so many entries, and its `next` goes back in time. What ends
    /// meanwhile is above the first page: ask for that again. The balances of each page are right as
    /// of its own look; those of two pages fit together once what they tell is older than 10 s.
    ///
    /// # Errors
    /// As [`Client::statement`].
    pub async fn statement_ordered(
        &self,
        account: &str,
        period: &Period,
        order: StatementOrder,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Statement, Error> {
        let limit = check_limit(limit)?;
        period.check()?;
        let of = period.list(account, order);
        let start = period.start(order);
        let carried = match cursor {
            Some(cursor) => cursor::read(&of, cursor)?,
            None => start.clone(),
        };
        self.needs_history().await?;
        let question = Question {
            account: account.into(),
            gap: carried.gap.clone(),
            way: carried.way,
            // Nothing was booked before the beginning.
            with_sum: carried.balance.is_none() && carried.gap.at > EVER,
            from: period.begins(),
            to: period.ends(),
            limit,
        };
        let booked = self.insist(|| booked::read(self.store(), &question)).await??;
        let asked = Asked { account, order, limit, start: &start, carried: &carried };
        asked.page(booked, |carried| cursor::write(&of, carried))
    }
}

/// The beginning of time, in milliseconds since 1970.
const EVER: i64 = DateTime::MIN.timestamp_millis();

impl Period {
    fn begins(&self) -> DateTime {
        self.from.map_or(DateTime::MIN, DateTime::from_system_time)
    }

    fn ends(&self) -> DateTime {
        self.to.map_or(DateTime::MAX, DateTime::from_system_time)
    }

    fn check(&self) -> Result<(), Error> {
        match (self.from, self.to) {
            (Some(from), Some(to)) if to < from => {
                Err(Error::invalid("to", "is before `from`; a period ends after it begins"))
            }
            _ => Ok(()),
        }
    }

    /// What a cursor is bound to.
    fn list(&self, account: &str, order: StatementOrder) -> Value {
        let moment = |moment: Option<SystemTime>| {
            moment.map(|moment| DateTime::from_system_time(moment).timestamp_millis())
        };
        let name = match order {
            StatementOrder::Oldest => "statement",
            StatementOrder::Newest => "statement newest",
        };
        json!([name, account, moment(self.from), moment(self.to)])
    }

    /// Where a walk begins.
    fn start(&self, order: StatementOrder) -> Carried {
        let (at, way) = match order {
            StatementOrder::Oldest => (self.begins(), Way::Up),
            StatementOrder::Newest => (self.ends(), Way::Down),
        };
        let gap = LinePlace { at: at.timestamp_millis(), line: String::new(), entry: 0 };
        Carried { gap, way, balance: None }
    }
}

/// What a page was asked for.
struct Asked<'a> {
    account: &'a str,
    order: StatementOrder,
    limit: usize,
    /// Where a walk begins.
    start: &'a Carried,
    /// Where this page begins.
    carried: &'a Carried,
}

impl Asked<'_> {
    /// Whether whoever goes on would miss for good what becomes visible late.
    fn may_miss(&self) -> bool {
        self.order == StatementOrder::Oldest && self.carried.way == Way::Up
    }

    /// How many of the rows belong on the page. All, if no page follows; else no more than the
    /// limit, and none that something may still appear before, where that would be missed.
    fn cut(&self, booked: &Booked) -> usize {
        let rows = &booked.rows[..booked.rows.len().min(self.limit)];
        match self.goes_on(booked) && self.may_miss() {
            true => rows.partition_point(|row| booked.is_certain(&row.place)),
            false => rows.len(),
        }
    }

    /// Whether a page follows, on the way of this one.
    fn goes_on(&self, booked: &Booked) -> bool {
        booked.rows.len() > self.limit || booked.stopped.is_some()
    }

    /// Makes the page.
    fn page(
        &self,
        mut booked: Booked,
        cursor: impl Fn(&Carried) -> String,
    ) -> Result<Statement, Error> {
        let goes_on = self.goes_on(&booked);
        booked.rows.truncate(self.cut(&booked));
        let stopped = booked.stopped.take();
        let stopped = stopped.filter(|place| booked.is_certain(place) || !self.may_miss());
        let carried = self.carried.balance.as_ref().and_then(|balance| balance.parse().ok());
        let here: i128 = carried.unwrap_or(booked.balance);
        let moved: i128 = booked.rows.iter().map(|row| row.amount.nanos()).sum();
        let (opening, closing) = match self.carried.way {
            Way::Up => (here, here + moved),
            Way::Down => (here - moved, here),
        };
        let way = self.carried.way;
        let (gap, there) = match (stopped, booked.rows.last(), way) {
            (Some(gap), _, Way::Up) => (gap, closing),
            (Some(gap), _, Way::Down) => (gap, opening),
            (None, Some(last), Way::Up) => (way.past(last.place.clone()), closing),
            (None, Some(last), Way::Down) => (way.past(last.place.clone()), opening),
            (None, None, _) => (self.carried.gap.clone(), here),
        };
        // What was not told yet begins where this page has begun, with what that knew.
        let on = match gap == self.carried.gap {
            true => self.carried.clone(),
            false => booked.at(gap, way, there),
        };
        let back = booked.at(self.carried.gap.clone(), way.other(), here);
        let on = goes_on.then(|| cursor(&on));
        let back = (self.carried.gap != self.start.gap).then(|| cursor(&back));
        let is_walk = way == self.start.way;
        let (next, prev) = if is_walk { (on, back) } else { (back, on) };
        let currency = booked.currency.take();
        let amount = |nanos| self.amount(nanos, booked.is_int);
        let (opened, closed) = (amount(opening)?, amount(closing)?);
        let entries = self.entries(booked, opening)?;
        let account = self.account.into();
        Ok(Statement { account, currency, opening: opened, entries, closing: closed, next, prev })
    }

    /// The entries in the order that is asked for, each with the balance after it.
    fn entries(&self, booked: Booked, opening: i128) -> Result<Vec<Entry>, Error> {
        let Booked { is_int, mut rows, .. } = booked;
        if self.carried.way == Way::Down {
            rows.reverse();
        }
        let mut balance = opening;
        let mut entries = Vec::with_capacity(rows.len());
        for Row { place, id, amount, counterparties, adjusted } in rows {
            balance += amount.nanos();
            entries.push(Entry {
                id: id.into(),
                booked_at: DateTime::from_millis(place.at),
                amount,
                balance: self.amount(balance, is_int)?,
                counterparties,
                adjusted,
            });
        }
        if self.order == StatementOrder::Newest {
            entries.reverse();
        }
        Ok(entries)
    }

    fn amount(&self, nanos: i128, is_int: bool) -> Result<Amount, Error> {
        Amount::from_nanos(nanos, is_int).ok_or_else(|| {
            Error::refused(self.account, "its booked balance is no amount; see audit")
        })
    }
}

impl Booked {
    /// A cursor of this gap. The balance there is carried if it is certain.
    fn at(&self, gap: LinePlace, way: Way, balance: i128) -> Carried {
        let balance = self.is_certain(&gap).then(|| balance.to_string());
        Carried { gap, way, balance }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn row(at: i64, id: &str, amount: i64) -> Row {
        let (place, id) = (place(at), id.to_owned());
        Row { place, id, amount: Amount::Int(amount), counterparties: vec![], adjusted: None }
    }

    fn place(at: i64) -> LinePlace {
        LinePlace { at, line: format!("l{at}"), entry: 0 }
    }

    fn booked(horizon: i64, rows: &[Row]) -> Booked {
        Booked {
            is_int: true,
            currency: None,
            balance: Amount::Int(100).nanos(),
            rows: rows.to_vec(),
            stopped: None,
            horizon: DateTime::from_millis(horizon),
        }
    }

    fn told(booked: Booked, carried: &Carried, limit: usize) -> (Statement, Option<Carried>) {
        let (statement, next, _) = told_in(StatementOrder::Oldest, booked, carried, limit);
        (statement, next)
    }

    /// A page with its `next` and its `prev`.
    fn told_in(
        order: StatementOrder,
        booked: Booked,
        carried: &Carried,
        limit: usize,
    ) -> (Statement, Option<Carried>, Option<Carried>) {
        let (list, start) = (json!([]), Period::default().start(order));
        let asked = Asked { account: "a", order, limit, start: &start, carried };
        let statement = asked.page(booked, |next| cursor::write(&list, next)).expect("amounts");
        let read = |cursor: &Option<String>| {
            cursor.as_ref().map(|cursor| cursor::read(&list, cursor).expect("ours"))
        };
        let (next, prev) = (read(&statement.next), read(&statement.prev));
        (statement, next, prev)
    }

    fn beginning() -> Carried {
        Period::default().start(StatementOrder::Oldest)
    }

    fn end() -> Carried {
        Period::default().start(StatementOrder::Newest)
    }

    fn balances(statement: &Statement) -> Vec<Amount> {
        statement.entries.iter().map(|entry| entry.balance).collect()
    }

    #[test]
    fn each_page_goes_on_from_the_balance_of_the_one_before() {
        let rows = [row(1, "a", -30), row(2, "b", 5), row(3, "c", 7)];
        let (first, next) = told(booked(1_000, &rows), &beginning(), 2);
        assert_eq!(balances(&first), [Amount::Int(70), Amount::Int(75)]);
        assert_eq!((first.opening, first.closing), (Amount::Int(100), Amount::Int(75)));
        let next = next.expect("one is left");
        assert_eq!(next.gap, Way::Up.past(place(2)));
        let (second, end) = told(booked(1_000, &rows[2..]), &next, 2);
        assert_eq!((second.opening, second.closing), (Amount::Int(75), Amount::Int(82)));
        assert_eq!(end, None);
    }

    #[test]
    fn a_full_page_ends_at_the_horizon_and_one_that_is_not_full_tells_all() {
        let rows = [row(1, "a", 1), row(2, "b", 1), row(3, "c", 1), row(3, "d", 1)];
        let beginning = beginning();
        let (page, next) = told(booked(2, &rows), &beginning, 3);
        assert_eq!(balances(&page), [Amount::Int(101)]);
        assert_eq!(next.map(|next| next.gap), Some(Way::Up.past(place(1))));
        // Nothing is certain yet: the next call begins where this one did.
        let (page, next) = told(booked(1, &rows), &beginning, 3);
        assert_eq!((page.entries.len(), page.closing), (0, Amount::Int(100)));
        assert_eq!(next, Some(beginning.clone()));
        let (page, next) = told(booked(1, &rows), &beginning, 4);
        assert_eq!((page.entries.len(), next), (4, None));
    }

    /// The rows of a journal that are asked for, as they are read from it.
    fn read(journal: &[Row], carried: &Carried, (horizon, limit): (i64, usize)) -> Booked {
        let below = |row: &&Row| row.place < carried.gap;
        let sum: i128 = journal.iter().filter(below).map(|row| row.amount.nanos()).sum();
        let mut rows: Vec<Row> = match carried.way {
            Way::Up => journal.iter().filter(|row| !below(row)).cloned().collect(),
            Way::Down => journal.iter().rev().filter(below).cloned().collect(),
        };
        rows.truncate(limit + 1);
        let balance = Amount::Int(100).nanos() + sum;
        Booked { balance, ..booked(horizon, &rows) }
    }

    #[test]
    fn both_orders_tell_the_same_balances_forth_and_back() {
        let journal: Vec<Row> = (1..=7).map(|n| row(n, &format!("t{n}"), 10 * n - 35)).collect();
        // Whether the balance is carried or summed anew.
        for horizon in [1_000, 0] {
            let mut walks = Vec::new();
            for (order, start) in
                [(StatementOrder::Oldest, beginning()), (StatementOrder::Newest, end())]
            {
                // Where the oldest come first, what is not certain is not gone on behind.
                let horizon = if order == StatementOrder::Oldest { 1_000 } else { horizon };
                let page = |carried: &Carried| {
                    told_in(order, read(&journal, carried, (horizon, 3)), carried, 3)
                };
                let (first, on, back) = page(&start);
                assert_eq!(back, None, "there is nothing before the first page");
                let (second, further, back) = page(&on.expect("a second page"));
                let (third, end, _) = page(&further.expect("a third page"));
                assert_eq!((second.entries.len(), third.entries.len(), end), (3, 1, None));
                let (again, on, before) = page(&back.expect("there is a page before"));
                assert_eq!((again.entries, before), (first.entries.clone(), None));
                assert_eq!((again.opening, again.closing), (first.opening, first.closing));
                assert_eq!(page(&on.expect("it goes on")).0.entries, second.entries);
                walks.push([first.entries, second.entries, third.entries].concat());
            }
            walks[1].reverse();
            assert_eq!(walks[0], walks[1]);
            assert_eq!(walks[0][6].balance, Amount::Int(100 + 280 - 7 * 35));
        }
    }

    #[test]
    fn newest_first_a_full_page_is_not_cut_and_no_uncertain_balance_is_carried() {
        let rows = [row(9, "d", 1), row(8, "c", 1), row(7, "b", 1), row(6, "a", 1)];
        let of = |horizon| told_in(StatementOrder::Newest, booked(horizon, &rows), &end(), 2);
        let (page, next, _) = of(5);
        let ids: Vec<&str> = page.entries.iter().map(|entry| &*entry.id).collect();
        assert_eq!(ids, ["d", "c"]);
        assert_eq!((page.opening, page.closing), (Amount::Int(98), Amount::Int(100)));
        assert_eq!(next.map(|next| (next.gap, next.balance)), Some((place(8), None)));
        let (_, next, _) = of(9);
        let balance = Some(page.opening.nanos().to_string());
        assert_eq!(next.map(|next| (next.gap, next.balance)), Some((place(8), balance)));
    }

    #[test]
    fn a_page_that_was_stopped_goes_on_behind_what_was_read_if_that_is_certain() {
        let stopped = |horizon, rows: &[Row], at| {
            let stopped = Some(place(at));
            told(Booked { stopped, ..booked(horizon, rows) }, &beginning(), 5)
        };
        // The last line that was read has booked nothing here.
        let (page, next) = stopped(9, &[row(1, "a", 1)], 8);
        assert_eq!(balances(&page), [Amount::Int(101)]);
        let next = next.expect("a page follows");
        assert_eq!((&next.gap, next.balance), (&place(8), Some(page.closing.nanos().to_string())));
        let (page, next) = stopped(9, &[], 8);
        assert_eq!((page.entries.len(), next.map(|next| next.gap)), (0, Some(place(8))));
        // What may appear before it is not left out.
        let (page, next) = stopped(8, &[row(1, "a", 1), row(8, "b", 1)], 8);
        assert_eq!(balances(&page), [Amount::Int(101)]);
        assert_eq!(next.map(|next| next.gap), Some(Way::Up.past(place(1))));
    }

    #[test]
    fn a_cursor_is_bound_to_account_and_period_and_a_period_does_not_run_backwards() {
        let moment = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let period = Period { from: moment(1), to: moment(2) };
        let oldest = StatementOrder::Oldest;
        let lists = [
            period.list("a", oldest),
            period.list("b", oldest),
            period.list("a", StatementOrder::Newest),
            Period { from: None, ..period }.list("a", oldest),
            Period { to: moment(3), ..period }.list("a", oldest),
        ];
        for (at, list) in lists.iter().enumerate() {
            assert_eq!(lists.iter().position(|other| other == list), Some(at));
        }
        assert_eq!(period.check(), Ok(()));
        let backwards = Period { from: period.to, to: period.from }.check();
        assert!(matches!(backwards, Err(Error::Invalid { field, .. }) if field == "to"));
    }

    #[test]
    fn a_balance_beyond_the_limit_of_one_amount_is_told_all_the_same() {
        // Ends are written in another order than postings, so a sum on the way may be larger.
        let rows = [row(1, "a", Amount::MAX), row(2, "b", Amount::MAX)];
        let (statement, _) = told(booked(5, &rows), &beginning(), 2);
        assert_eq!(statement.closing, Amount::Int(2 * Amount::MAX + 100));
    }
}
