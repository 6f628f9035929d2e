//! The model of the journal: one line for each batch that has ended transactions.
//!
//! Owns a line as it is stored, and rule 11: lines and final documents say the same, at any moment,
//! and explain every balance in the end. How a line comes to be written is in `super::ending` and
//! `super::native`. [`Planted`] faults write other lines than they should.

use std::collections::BTreeMap;

use ledger::event::{End, Ended};
use ledger::journal::{Line, Net};
use ledger::transaction::{AccountId, Leg, TransactionId};

use super::model::{Books, Transaction};
use super::planted::Planted;

/// A line as it is stored, under its name.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredLine {
    /// The worker that has written it.
    pub application: String,
    /// What it books on each account that it names.
    pub nets: BTreeMap<AccountId, Net>,
    /// What is done, and what each has booked.
    pub done: Vec<(TransactionId, Vec<Leg>)>,
    /// What is canceled, and the accounts that each names.
    pub canceled: Vec<(TransactionId, Vec<AccountId>)>,
}

impl StoredLine {
    /// A line as it is written to these documents, perhaps with a fault.
    #[must_use]
    pub fn of(line: &Line, books: &Books, planted: Option<Planted>) -> StoredLine {
        let mut line = line.clone();
        match planted {
            Some(Planted::EntryMissing) => drop(line.entries.pop()),
            Some(Planted::EntryWithAnotherEnd) => {
                line.entries.iter_mut().take(1).for_each(|entry| entry.end = other(entry.end));
            }
            Some(Planted::HeldInsteadOfCaptured) => {
                for entry in &mut line.entries {
                    let body = books.transactions.get(&entry.id).map(|doc| &doc.body);
                    let held = body.and_then(|body| body.as_ref().ok());
                    entry.legs = held.map(|body| body.legs().to_vec()).unwrap_or_default();
                }
            }
            _ => {}
        }
        let nets = match planted {
            Some(Planted::CanceledCounted) => all_done(&line).nets(),
            _ => line.nets(),
        };
        let done = line.entries_of(End::Done).map(|entry| (entry.id.clone(), entry.legs.clone()));
        let accounts = |legs: &[Leg]| legs.iter().map(|leg| leg.account.clone()).collect();
        let canceled = line.entries_of(End::Canceled);
        let canceled = canceled.map(|entry| (entry.id.clone(), accounts(&entry.legs)));
        StoredLine {
            done: done.collect(),
            canceled: canceled.collect(),
            application: line.heading.application,
            nets,
        }
    }

    /// What it says of each transaction.
    pub fn ends(&self) -> impl Iterator<Item = Ended> {
        let of = |id: &TransactionId, end| Ended { id: id.clone(), end };
        let done = self.done.iter().map(move |(id, _)| of(id, End::Done));
        done.chain(self.canceled.iter().map(move |(id, _)| of(id, End::Canceled)))
    }

    /// What its own entries book on each account that they name, in units of 10^-9.
    fn booked(&self) -> BTreeMap<&AccountId, i128> {
        let mut booked = BTreeMap::new();
        for leg in self.done.iter().flat_map(|(_, legs)| legs) {
            *booked.entry(&leg.account).or_default() += leg.amount.nanos();
        }
        for account in self.canceled.iter().flat_map(|(_, accounts)| accounts) {
            booked.entry(account).or_default();
        }
        booked
    }
}

fn other(end: End) -> End {
    match end {
        End::Done => End::Canceled,
        End::Canceled => End::Done,
    }
}

fn all_done(line: &Line) -> Line {
    let mut line = line.clone();
    line.entries.iter_mut().for_each(|entry| entry.end = End::Done);
    line
}

/// The events of a line.
#[must_use]
pub fn events(books: &Books, line: &str) -> Vec<Ended> {
    books.journal.get(line).map(|line| line.ends().collect()).unwrap_or_default()
}

/// Lines and final documents that do not say the same, at any moment; and, once everything is
/// final, balances that the lines do not explain.
#[must_use]
pub fn violations(books: &Books) -> Vec<String> {
    let mut wrong: Vec<String> =
        books.transactions.values().filter_map(|doc| doc.breach.clone()).collect();
    let mut named: BTreeMap<TransactionId, Vec<&str>> = BTreeMap::new();
    for (name, line) in &books.journal {
        for Ended { id, end } in line.ends() {
            let is_so =
                |doc: &Transaction| doc.state == end.state() && doc.line.as_ref() == Some(name);
            if !books.transactions.get(&id).is_some_and(is_so) {
                let end = end.as_str();
                wrong.push(format!("rule 11: the line {name} says that {id} is {end}; it is not"));
            }
            named.entry(id).or_default().push(name);
        }
        let nets = line.nets.iter().map(|(account, net)| (account, net.nanos));
        if !nets.eq(line.booked()) {
            wrong.push(format!("rule 11: the line {name} does not sum up to its nets"));
        }
    }
    for doc in books.transactions.values().filter(|doc| doc.state.is_final()) {
        let lines = named.remove(&doc.id).unwrap_or_default();
        let line = doc.line.as_deref();
        match line.filter(|line| lines == [*line]).and_then(|line| books.journal.get(line)) {
            Some(line) if has_booked(line, doc) => {}
            Some(_) => wrong.push(format!("rule 11: {} has booked other than its line", doc.id)),
            None => wrong.push(format!(
                "rule 11: {} is {} by the line {line:?}, and in these lines: {lines:?}",
                doc.id, doc.state
            )),
        }
    }
    if wrong.is_empty() && books.transactions.values().all(|doc| doc.state.is_final()) {
        wrong = unexplained(books);
    }
    wrong
}

/// Whether the line says of a transaction what it has booked, or if it is canceled which accounts
/// it names; none if it could not be read.
fn has_booked(line: &StoredLine, doc: &Transaction) -> bool {
    let effect = doc.body.as_ref().map(|body| body.effect()).unwrap_or_default();
    let is_this = |id: &TransactionId| *id == doc.id;
    match End::of(doc.state) {
        Some(End::Done) => line.done.iter().any(|(id, legs)| is_this(id) && legs == effect),
        Some(End::Canceled) => line.canceled.iter().any(|(id, accounts)| {
            let all = effect.iter().map(|leg| &leg.account);
            is_this(id) && (accounts.is_empty() || accounts.iter().eq(all))
        }),
        None => false,
    }
}

fn unexplained(books: &Books) -> Vec<String> {
    let sum_of = |id: &AccountId| -> i128 {
        books.journal.values().filter_map(|line| line.nets.get(id)).map(|net| net.nanos).sum()
    };
    let is_wrong = |(id, account): &(&AccountId, &ledger::account::Account)| {
        account.opening_balance.nanos() + sum_of(id) != account.balance.nanos()
    };
    let wrong = books.accounts.iter().filter(is_wrong);
    wrong
        .map(|(id, account)| {
            format!("rule 11: {id} has {}; its lines sum up to another balance", account.balance)
        })
        .collect()
}
