//! The rules, over documents as they come: all accounts first, then all transactions, each once.
//!
//! For a leg of `a` on an account, by the transaction's state and whether its mark is there:
//!
//! | state | with the mark | without it |
//! | --- | --- | --- |
//! | `done` | a violation | `balance += e` |
//! | `applied` | posted | settled: `balance += e` |
//! | `pending`, `canceling` | posted | no effect (yet, or any more) |
//! | `held` | of a debit: posted; of a credit: a violation | of a debit: a violation; of a credit: no effect |
//! | `scheduled`, `initial`, `canceled` | a violation | no effect |
//!
//! where `e` is the effect of the leg: of a confirmed hold what is captured of it, otherwise `a`. Posted
//! means: of a debit, `balance += a` and `pendingDebits −= a`; of a credit, `pendingCredits += e`. So the
//! mark of a hold's debit stands for all that is held; what is not captured comes home when it is
//! settled. A credit has no mark while its hold is not confirmed, or if nothing of it is captured.
//! `pendingHolds` is how many of an account's marks are debits of holds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use common::account::Account;
use common::limits::echo;
use common::transaction::{Body, State};
use mongodb::bson::RawDocument;

use super::close::{Book, Ledger, Sums};
use super::findings::{Findings, Rule};
use super::keys::{self, Contest, Keys};
use super::parts::{Part, contradiction, parts};
use super::raw::{REPEATED, holds_of, id_of, repeats_a_field};

/// The most parked transactions that are named.
const PARKED_SHOWN_MAX: usize = 20;

/// The books while documents are being read.
pub(super) struct Books {
    /// `None` is an account whose document can't be read.
    accounts: HashMap<Arc<str>, Option<usize>>,
    books: Vec<Book>,
    ledgers: Vec<Ledger>,
    ledger_names: BTreeMap<(Option<String>, bool), usize>,
    /// Marks whose transaction has not been read yet, with the accounts that have them.
    marks: HashMap<Arc<str>, Vec<usize>>,
    /// The exclusive keys of undecided transactions.
    keys: Keys,
    at_rest: bool,
    transactions: u64,
    in_flight: u64,
    resting: u64,
    parked: Parked,
    findings: Findings,
}

/// Transactions that can't go on until somebody looks at them. Their states and marks explain their
/// money, as with any other transaction in flight.
#[derive(Debug, Default)]
pub(super) struct Parked {
    pub count: u64,
    /// The first of them.
    pub ids: Vec<String>,
}

/// The result.
pub(super) struct Closed {
    pub accounts: u64,
    pub transactions: u64,
    pub in_flight: u64,
    pub resting: u64,
    pub parked: Parked,
    pub findings: Findings,
}

impl Books {
    pub fn new(at_rest: bool, findings_max: usize) -> Books {
        Books {
            accounts: HashMap::new(),
            books: Vec::new(),
            ledgers: Vec::new(),
            ledger_names: BTreeMap::new(),
            marks: HashMap::new(),
            keys: Keys::default(),
            at_rest,
            transactions: 0,
            in_flight: 0,
            resting: 0,
            parked: Parked::default(),
            findings: Findings::new(findings_max),
        }
    }

    /// Takes an account in.
    pub fn account(&mut self, document: &RawDocument) {
        let id: Arc<str> = id_of(document).into();
        let name = || format!("accounts/{}", echo(&id));
        if repeats_a_field(document) {
            self.findings.add(Rule::Balance, name, REPEATED.to_owned());
        }
        let account = match Account::from_raw(document) {
            Ok(account) => account,
            Err(problem) => {
                self.findings.add(Rule::Balance, name, echo(&problem).into_owned());
                self.accounts.insert(id, None);
                return;
            }
        };
        let marks = document.get_array("pendingTransactions");
        let marks = marks.map_or(0, |marks| marks.iter_elements().count());
        if marks != account.pending_transactions.len() {
            let message = "a mark is there twice, or is no transaction's id".to_owned();
            self.findings.add(Rule::Marks, name, message);
        }
        let holds = holds_of(document);
        if holds.is_none() {
            let message = "pendingHolds is no whole number".to_owned();
            self.findings.add(Rule::Marks, name, message);
        }
        self.open(id, account, marks, holds.unwrap_or_default());
    }

    fn open(&mut self, id: Arc<str>, account: Account, marks: usize, holds: i64) {
        let ledgers = &mut self.ledgers;
        let name = (account.currency, account.balance.is_int());
        let ledger = *self.ledger_names.entry(name).or_insert_with(|| {
            ledgers.push(Ledger::default());
            ledgers.len() - 1
        });
        let at = self.books.len();
        let opening = account.opening_balance.nanos();
        self.ledgers[ledger].opening += opening;
        self.ledgers[ledger].balance += account.balance.nanos();
        self.books.push(Book {
            id: id.clone(),
            found: Sums {
                balance: account.balance.nanos(),
                debits: account.pending_debits.nanos(),
                credits: account.pending_credits.nanos(),
                holds,
            },
            expected: Sums { balance: opening, ..Sums::default() },
            marks,
            floor: account.floor.map(common::amount::Amount::nanos),
            ledger,
        });
        self.accounts.insert(id, Some(at));
        for mark in account.pending_transactions {
            self.marks.entry(mark).or_default().push(at);
        }
    }

    /// Takes a transaction in.
    pub fn transaction(&mut self, document: &RawDocument) {
        self.transactions += 1;
        let id = id_of(document);
        let name = || format!("transactions/{}", echo(&id));
        if repeats_a_field(document) {
            self.findings.add(Rule::Effect, name, REPEATED.to_owned());
        }
        let state = document.get_str("state").unwrap_or_default();
        let Some(state) = State::parse(state) else {
            let message = format!("state {:?} is not one of ours", echo(state));
            return self.findings.add(Rule::Effect, name, message);
        };
        self.keys.add(document);
        self.count(&id, state, document);
        let marked = self.marks.remove(id.as_str()).unwrap_or_default();
        // A transaction with an invalid body may wait to be canceled, or be canceled already.
        let parts = match Body::from_raw(document) {
            Ok(body) => {
                if let Some(problem) = contradiction(state, &body) {
                    self.findings.add(Rule::Effect, name, format!("is {state} and {problem}"));
                }
                parts(&body)
            }
            Err(problem) => {
                if matches!(state, State::Applied | State::Done) {
                    let message = format!("is {state} and invalid: {problem}");
                    self.findings.add(Rule::Effect, name, message);
                }
                Vec::new()
            }
        };
        self.check_marks(&id, state, &parts, &marked);
        for part in &parts {
            self.part(&id, state, part, &marked);
        }
    }

    /// Takes a transaction in that had no effect at the moment of the audit, and has changed since.
    pub fn changed_since(&mut self, document: &RawDocument) {
        self.pass(1);
        self.keys.add(document);
        if let Some(state) = document.get_str("state").ok().and_then(State::parse) {
            self.count(&id_of(document), state, document);
        }
    }

    /// Counts transactions that say nothing about the moment of the audit.
    pub fn pass(&mut self, transactions: u64) {
        self.transactions += transactions;
    }

    /// The transactions that accounts have marks of, and that were not read yet. None is longer than an id may
    /// be: an account's other marks are violations already.
    pub fn marked(&self) -> impl Iterator<Item = &str> {
        self.marks.keys().map(AsRef::as_ref)
    }

    /// The keys with which two transactions were seen so far.
    pub fn take_contests(&mut self) -> Vec<Contest> {
        self.keys.take_contests()
    }

    /// Takes in which transactions `still` have which key.
    pub fn compare_keys(&mut self, contests: &[Contest], still: &HashSet<(String, String)>) {
        keys::compare(contests, still, &mut self.findings);
    }

    /// Counts what is not final.
    fn count(&mut self, id: &str, state: State, document: &RawDocument) {
        if state.is_final() {
            return;
        }
        if state.is_resting() {
            self.resting += 1;
            return;
        }
        self.in_flight += 1;
        let parked = matches!(document.get("parked"), Ok(Some(_)) | Err(_));
        if parked {
            self.parked.count += 1;
            if self.parked.ids.len() < PARKED_SHOWN_MAX {
                self.parked.ids.push(echo(id).into_owned());
            }
        }
        if self.at_rest {
            let parked = if parked { " and parked" } else { "" };
            let name = || format!("transactions/{}", echo(id));
            self.findings.add(Rule::Effect, name, format!("is still {state}{parked}"));
        }
    }

    /// Every mark belongs to a leg of a transaction that may have one.
    fn check_marks(&mut self, id: &str, state: State, parts: &[Part], marked: &[usize]) {
        for at in marked {
            let (account, id) = (&self.books[*at].id, echo(id));
            let part = parts.iter().find(|part| part.account == *account);
            let may_have_marks = State::IN_FLIGHT.contains(&state) || state == State::Held;
            let problem = match part {
                _ if !may_have_marks => format!("which is {state}"),
                None => "which has no leg here".to_owned(),
                Some(part) if !part.may_be_marked => {
                    "which is a hold that has captured nothing here".to_owned()
                }
                Some(_) => {
                    // It rests, and its mark with it.
                    self.books[*at].marks -= usize::from(state == State::Held);
                    continue;
                }
            };
            let message = format!("has the mark of transactions/{id}, {problem}");
            self.findings.add(Rule::Marks, || format!("accounts/{}", echo(account)), message);
        }
    }

    fn part(&mut self, id: &str, state: State, part: &Part, marked: &[usize]) {
        let name = || format!("transactions/{}", echo(id));
        let at = match self.accounts.get(&part.account) {
            Some(Some(at)) => *at,
            // The account's document is broken, which was reported already.
            Some(None) => return,
            None => {
                if matches!(state, State::Applied | State::Done) {
                    let message = format!("is {state}, and account {:?} is missing", part.account);
                    self.findings.add(Rule::Effect, name, message);
                }
                return;
            }
        };
        let Part { amount, effect, .. } = *part;
        let book = &mut self.books[at];
        let held = &mut self.ledgers[book.ledger].held;
        match (state, marked.contains(&at)) {
            (State::Done, _) | (State::Applied, false) => book.expected.balance += effect,
            (State::Pending | State::Held | State::Applied | State::Canceling, true)
                if amount < 0 =>
            {
                book.expected.balance += amount;
                book.expected.debits -= amount;
                book.expected.holds += i64::from(part.is_hold);
                // What may still come home: of an applied hold, what is not captured.
                *held += if state == State::Applied { effect - amount } else { -amount };
            }
            (State::Pending | State::Held | State::Applied | State::Canceling, true) => {
                book.expected.credits += effect;
                if state == State::Applied {
                    *held += effect;
                }
            }
            (State::Held, false) if amount < 0 => {
                let message = format!("is held, and account {:?} lacks its mark", part.account);
                self.findings.add(Rule::Marks, name, message);
            }
            (State::Pending | State::Held | State::Canceling, false)
            | (State::Scheduled | State::Initial | State::Canceled, _) => {}
        }
    }

    /// Compares what was found with what it should be.
    pub fn close(mut self) -> Closed {
        let mut unknown: Vec<_> = std::mem::take(&mut self.marks).into_iter().collect();
        unknown.sort();
        for (id, books) in unknown {
            for at in books {
                let account = &self.books[at].id;
                let message = format!("has the mark of transactions/{id}, which does not exist");
                self.findings.add(Rule::Marks, || format!("accounts/{}", echo(account)), message);
            }
        }
        for book in &self.books {
            book.close(self.at_rest, &mut self.findings);
        }
        for ((currency, _), at) in &self.ledger_names {
            self.ledgers[*at].close(currency.as_deref(), &mut self.findings);
        }
        Closed {
            accounts: self.accounts.len() as u64,
            transactions: self.transactions,
            in_flight: self.in_flight,
            resting: self.resting,
            parked: self.parked,
            findings: self.findings,
        }
    }
}

#[cfg(test)]
#[path = "books_tests.rs"]
mod tests;
