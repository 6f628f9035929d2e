//! Statements: what was booked on an account, with the balance after each entry.
//!
//! The entries are the account's done transactions in the order of the journal: by the moment of
//! their line, its `_id`, and their places in it. What a call says stands for one moment
//! (`booked`), so the balances are exact while other transactions are in flight.
//!
//! **The horizon.** A server takes the date of a line before the write becomes visible, so a line
//! may become visible after others with a later date. A page that continues behind such
//! a date would miss it for good, and every balance from there on would be wrong. So a place is
//! handed out as [`Statement::next`] only if it is more than 10 s older than the moment of the
//! reads; a page that is full is cut there. A page that is not full needs no `next` and tells
//! everything up to its moment. This rests on two assumptions: the servers' clocks agree within
//! seconds, and a line is visible 10 s after its date. The second holds for a replica set that
//! answers at all, unless a worker is stopped for longer than that between the line and its commit.
//!
//! A cursor carries the running balance, so a page costs the same however far back the statement
//! began. A page also ends after so many bytes of lines: then its `next` stands behind the last one
//! that was read, whether that has booked anything on the account or not.

use std::time::SystemTime;

use ledger::amount::Amount;
use ledger::transaction::{AccountId, TransactionId};
use mongodb::bson::DateTime;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::adjustment::Adjusted;
use super::booked::{self, Booked, Question, Row};
use super::check_limit;
use super::cursor::{self, LinePlace};
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

/// What was booked on an account, or a page of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The account.
    pub account: AccountId,
    /// Its currency.
    pub currency: Option<String>,
    /// The booked balance before the first entry.
    pub opening: Amount,
    /// What was booked, oldest first.
    pub entries: Vec<Entry>,
    /// The booked balance after the last entry. Money of transactions in flight is not in it.
    pub closing: Amount,
    /// What the next call takes as its cursor; `None` when everything is told.
    pub next: Option<String>,
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
    /// The last entry that was told, or the end of the last line that was read.
    place: LinePlace,
    /// The balance after it, in units of 10^-9 as text. `None` if no entry was told yet, so it has
    /// to be read.
    balance: Option<String>,
}

impl Client {
    /// What was booked on an account in a period: its done transactions in the order in which they
    /// ended, with the balance after each. A page has at most `limit` entries, 1 to 1,000; `cursor`
    /// is the `next` of the page before, with the same account and period.
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
        let limit = check_limit(limit)?;
        period.check()?;
        let of = period.list(account);
        let carried = match cursor {
            Some(cursor) => cursor::read(&of, cursor)?,
            None => period.beginning(),
        };
        self.needs_history().await?;
        let question = Question {
            account: account.into(),
            sum_before: period.from().filter(|_| carried.balance.is_none()),
            after: carried.place.clone(),
            to: period.to.map_or(DateTime::MAX, DateTime::from_system_time),
            limit,
        };
        let booked = self.insist(|| booked::read(self.store(), &question)).await??;
        page(account, booked, &carried, limit, |carried| cursor::write(&of, carried))
    }
}

impl Period {
    fn from(&self) -> Option<DateTime> {
        self.from.map(DateTime::from_system_time)
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
    fn list(&self, account: &str) -> Value {
        let to = self.to.map(|to| DateTime::from_system_time(to).timestamp_millis());
        json!(["statement", account, self.from().map(DateTime::timestamp_millis), to])
    }

    /// The place before every entry.
    fn beginning(&self) -> Carried {
        let at = self.from().unwrap_or(DateTime::MIN).timestamp_millis();
        Carried { place: LinePlace { at, line: String::new(), entry: 0 }, balance: None }
    }
}

/// How many of the rows belong on the page. All, if no page follows; else no more than the limit,
/// and none that something may still appear before.
fn cut(booked: &Booked, limit: usize) -> usize {
    let rows = &booked.rows[..booked.rows.len().min(limit)];
    match goes_on(booked, limit) {
        true => rows.partition_point(|row| booked.is_certain(&row.place)),
        false => rows.len(),
    }
}

/// Whether a page follows.
fn goes_on(booked: &Booked, limit: usize) -> bool {
    booked.rows.len() > limit || booked.stopped.is_some()
}

/// Makes the page that follows what was `carried`.
fn page(
    account: &str,
    mut booked: Booked,
    carried: &Carried,
    limit: usize,
    cursor: impl Fn(&Carried) -> String,
) -> Result<Statement, Error> {
    let amount = |nanos: i128| {
        Amount::from_nanos(nanos, booked.is_int)
            .ok_or_else(|| Error::refused(account, "its booked balance is no amount; see audit"))
    };
    let told = carried.balance.as_ref().and_then(|balance| balance.parse().ok());
    let mut balance: i128 = told.unwrap_or(booked.opening);
    let opening = amount(balance)?;
    let goes_on = goes_on(&booked, limit);
    booked.rows.truncate(cut(&booked, limit));
    let stopped = booked.stopped.take().filter(|place| booked.is_certain(place));
    let mut entries = Vec::with_capacity(booked.rows.len());
    let mut last = carried.clone();
    for Row { place, id, amount: change, counterparties, adjusted } in booked.rows {
        balance += change.nanos();
        entries.push(Entry {
            id: id.into(),
            booked_at: DateTime::from_millis(place.at),
            amount: change,
            balance: amount(balance)?,
            counterparties,
            adjusted,
        });
        last = Carried { place, balance: Some(balance.to_string()) };
    }
    if let Some(place) = stopped {
        last = Carried { place, balance: Some(balance.to_string()) };
    }
    Ok(Statement {
        account: account.into(),
        currency: booked.currency,
        opening,
        entries,
        closing: amount(balance)?,
        next: goes_on.then(|| cursor(&last)),
    })
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
            opening: Amount::Int(100).nanos(),
            rows: rows.to_vec(),
            stopped: None,
            horizon: DateTime::from_millis(horizon),
        }
    }

    fn told(booked: Booked, carried: &Carried, limit: usize) -> (Statement, Option<Carried>) {
        let list = json!([]);
        let statement = page("a", booked, carried, limit, |next| cursor::write(&list, next));
        let statement = statement.expect("amounts");
        let next = statement.next.as_ref().map(|next| cursor::read(&list, next).expect("ours"));
        (statement, next)
    }

    fn balances(statement: &Statement) -> Vec<Amount> {
        statement.entries.iter().map(|entry| entry.balance).collect()
    }

    #[test]
    fn each_page_goes_on_from_the_balance_of_the_one_before() {
        let rows = [row(1, "a", -30), row(2, "b", 5), row(3, "c", 7)];
        let (first, next) = told(booked(1_000, &rows), &Period::default().beginning(), 2);
        assert_eq!(balances(&first), [Amount::Int(70), Amount::Int(75)]);
        assert_eq!((first.opening, first.closing), (Amount::Int(100), Amount::Int(75)));
        let next = next.expect("one is left");
        assert_eq!(next.place, place(2));
        let (second, end) = told(booked(1_000, &rows[2..]), &next, 2);
        assert_eq!((second.opening, second.closing), (Amount::Int(75), Amount::Int(82)));
        assert_eq!(end, None);
    }

    #[test]
    fn a_full_page_ends_at_the_horizon_and_one_that_is_not_full_tells_all() {
        let rows = [row(1, "a", 1), row(2, "b", 1), row(3, "c", 1), row(3, "d", 1)];
        let beginning = Period::default().beginning();
        let (page, next) = told(booked(2, &rows), &beginning, 3);
        assert_eq!(balances(&page), [Amount::Int(101)]);
        assert_eq!(next.map(|next| next.place), Some(place(1)));
        // Nothing is certain yet: the next call begins where this one did.
        let (page, next) = told(booked(1, &rows), &beginning, 3);
        assert_eq!((page.entries.len(), page.closing), (0, Amount::Int(100)));
        assert_eq!(next, Some(beginning.clone()));
        let (page, next) = told(booked(1, &rows), &beginning, 4);
        assert_eq!((page.entries.len(), next), (4, None));
    }

    #[test]
    fn a_page_that_was_stopped_goes_on_behind_what_was_read_if_that_is_certain() {
        let stopped = |horizon, rows: &[Row], at| {
            let stopped = Some(place(at));
            told(Booked { stopped, ..booked(horizon, rows) }, &Period::default().beginning(), 5)
        };
        // The last line that was read has booked nothing here.
        let (page, next) = stopped(9, &[row(1, "a", 1)], 8);
        assert_eq!(balances(&page), [Amount::Int(101)]);
        let next = next.expect("a page follows");
        assert_eq!(
            (&next.place, next.balance),
            (&place(8), Some(page.closing.nanos().to_string()))
        );
        let (page, next) = stopped(9, &[], 8);
        assert_eq!((page.entries.len(), next.map(|next| next.place)), (0, Some(place(8))));
        // What may appear before it is not left out.
        let (page, next) = stopped(8, &[row(1, "a", 1), row(8, "b", 1)], 8);
        assert_eq!(balances(&page), [Amount::Int(101)]);
        assert_eq!(next.map(|next| next.place), Some(place(1)));
    }

    #[test]
    fn a_cursor_is_bound_to_account_and_period_and_a_period_does_not_run_backwards() {
        let moment = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let period = Period { from: moment(1), to: moment(2) };
        let lists = [
            period.list("a"),
            period.list("b"),
            Period { from: None, ..period }.list("a"),
            Period { to: moment(3), ..period }.list("a"),
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
        let (statement, _) = told(booked(5, &rows), &Period::default().beginning(), 2);
        assert_eq!(statement.closing, Amount::Int(2 * Amount::MAX + 100));
    }
}
