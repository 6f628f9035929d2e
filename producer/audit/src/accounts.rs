//! The accounts of an audit, piece by piece, with the marks that they have.
//!
//! Pure. Owns what is known of each account and ledger, and which marks of the last piece are not
//! explained yet. A piece whose reading failed is forgotten, and taken in anew.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ledger::account::Account;
use ledger::limits::echo;
use mongodb::bson::{RawBsonRef, RawDocument};

use super::chunks::Chunks;
use super::close::{Book, Difference, Ledger, Sums};
use super::findings::{Count, Findings, Rule};
use super::raw::{REPEATED, holds_of, id_of, repeats_a_field};
use super::shared::Collections;

/// All that were taken in.
#[derive(Default)]
pub(super) struct Accounts {
    /// `None` is an account whose document can't be read.
    by_id: HashMap<Arc<str>, Option<usize>>,
    pub books: Vec<Book>,
    pub ledgers: Vec<Ledger>,
    names: BTreeMap<(Option<String>, bool), usize>,
    pieces: Chunks,
    /// Whether programs that stay may change balances.
    others_write: bool,
    /// Where the accounts of the last piece begin.
    piece: Place,
    /// Marks of the last piece whose transaction has not been read yet, with the accounts that have
    /// them.
    marks: HashMap<Arc<str>, Vec<usize>>,
    /// Marks that belong to nothing.
    unknown: Vec<(Arc<str>, Vec<usize>)>,
}

/// How far the accounts were taken in.
#[derive(Debug, Default)]
struct Place {
    books: usize,
    findings: Count,
    /// Accounts behind it whose documents can't be read.
    unreadable: Vec<Arc<str>>,
}

impl Accounts {
    /// None was taken in yet.
    pub fn new(collections: Collections) -> Accounts {
        let others_write = collections.is_shared();
        Accounts { pieces: Chunks::new(collections), others_write, ..Accounts::default() }
    }

    /// Takes an account in.
    pub fn take(&mut self, document: &RawDocument, findings: &mut Findings) {
        let id: Arc<str> = id_of(document).into();
        let name = || format!("accounts/{}", echo(&id));
        if repeats_a_field(document) {
            findings.add(Rule::Balance, name, REPEATED.to_owned());
        }
        let account = match Account::from_raw(document) {
            Ok(account) => account,
            Err(problem) => {
                findings.add(Rule::Balance, name, echo(&problem).into_owned());
                self.piece.unreadable.push(id.clone());
                self.by_id.insert(id, None);
                return;
            }
        };
        let marks = document.get_array("pendingTransactions");
        let marks = marks.map_or(0, |marks| marks.iter_elements().count());
        if marks != account.pending_transactions.len() {
            let message = "a mark is there twice, or is no transaction's id".to_owned();
            findings.add(Rule::Marks, name, message);
        }
        let holds = holds_of(document);
        if holds.is_none() {
            let message = "pendingHolds is no whole number".to_owned();
            findings.add(Rule::Marks, name, message);
        }
        let opening = document.get("openingBalance").ok().flatten();
        let is_opened = opening.is_some_and(|opening| opening != RawBsonRef::Null);
        self.open(id, account, is_opened, marks, holds.unwrap_or_default());
    }

    fn open(&mut self, id: Arc<str>, account: Account, is_opened: bool, marks: usize, holds: i64) {
        let ledgers = &mut self.ledgers;
        let name = (account.currency, account.balance.is_int());
        let ledger = *self.names.entry(name).or_insert_with(|| {
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
            is_opened,
            marks,
            floor: account.floor.map(ledger::amount::Amount::nanos),
            ledger,
            adjustments: 0,
            is_adjusted_later: false,
        });
        self.by_id.insert(id, Some(at));
        for mark in account.pending_transactions {
            self.marks.entry(mark).or_default().push(at);
        }
    }

    /// Forgets the accounts since the last piece, so that they can be read anew.
    pub fn forget(&mut self, findings: &mut Findings) {
        for book in self.books.drain(self.piece.books..) {
            let ledger = &mut self.ledgers[book.ledger];
            ledger.opening -= book.expected.balance;
            ledger.balance -= book.found.balance;
            self.by_id.remove(&book.id);
        }
        for id in self.piece.unreadable.drain(..) {
            self.by_id.remove(&id);
        }
        findings.back_to(self.piece.findings);
        self.marks.clear();
    }

    /// Ends the accounts of a piece, at this account or at the end of all. What comes then are the
    /// transactions that move something on them.
    pub fn end(&mut self, end: Option<String>) {
        if let Some(end) = end {
            self.pieces.end(end);
        }
    }

    /// The account at which the last piece ends.
    pub fn last_end(&self) -> Option<&str> {
        self.pieces.last()
    }

    /// Ends a piece: all transactions were taken in that its accounts have marks of, as far as they
    /// exist.
    pub fn end_piece(&mut self, findings: &Findings) {
        self.unknown.extend(self.marks.drain());
        let findings = findings.so_far();
        self.piece = Place { books: self.books.len(), findings, unreadable: Vec::new() };
    }

    /// The piece that an account of this `_id` belongs to, whether it exists or not.
    pub fn piece_of(&self, account: &str) -> usize {
        self.pieces.of(account)
    }

    /// Where its book stands; of an account whose document can't be read there is none.
    pub fn find(&self, account: &str) -> Option<Option<usize>> {
        self.by_id.get(account).copied()
    }

    pub fn count(&self) -> u64 {
        self.by_id.len() as u64
    }

    /// How many transactions the accounts of the last piece have marks of.
    pub fn mark_count(&self) -> usize {
        self.marks.len()
    }

    /// The transactions that accounts of the last piece have marks of, and that were not read yet.
    /// None is longer than an id may be: an account's other marks are violations already.
    pub fn marked(&self) -> impl Iterator<Item = &str> {
        self.marks.keys().map(AsRef::as_ref)
    }

    /// The books of the last piece that have a mark of this transaction. They are explained by it.
    pub fn take_marks(&mut self, transaction: &str) -> Vec<usize> {
        self.marks.remove(transaction).unwrap_or_default()
    }

    /// Takes in what a person has booked on an account, which has a book at this place. `is_later`
    /// means that the difference was seen after the account was read.
    pub fn adjust(&mut self, at: usize, nanos: i128, is_later: bool) {
        let book = &mut self.books[at];
        book.adjustments += 1;
        if is_later {
            book.is_adjusted_later = true;
        } else {
            book.expected.balance += nanos;
            self.ledgers[book.ledger].opening += nanos;
        }
    }

    /// What others have moved, where they may: it speaks against no sum.
    fn differences(&mut self) -> Vec<Difference> {
        let mut names = vec![None; self.ledgers.len()];
        self.names.iter().for_each(|(name, at)| names[*at] = Some(name));
        let mut differences = Vec::new();
        for book in &self.books {
            let nanos = book.unexplained();
            let is_moved = self.others_write && nanos != 0 && !book.is_replaced();
            let name = names[book.ledger].filter(|_| is_moved);
            if let Some((currency, is_int)) = name {
                let (currency, is_int) = (currency.clone(), *is_int);
                let (account, adjustments) = (book.id.clone(), book.adjustments);
                let piece = self.pieces.of(&account);
                let one = Difference { account, nanos, is_int, currency, adjustments, piece };
                differences.push(one);
            }
            if name.is_some() || book.is_adjusted_later {
                self.ledgers[book.ledger].opening += book.found.balance - book.expected.balance;
            }
        }
        differences
    }

    /// Compares what was found with what it should be. Returns what others have moved, where they
    /// may.
    pub fn close(&mut self, at_rest: bool, findings: &mut Findings) -> Vec<Difference> {
        self.unknown.sort();
        for (id, books) in &self.unknown {
            for at in books {
                let account = &self.books[*at].id;
                let message = format!("has the mark of transactions/{id}, which does not exist");
                findings.add(Rule::Marks, || format!("accounts/{}", echo(account)), message);
            }
        }
        let differences = self.differences();
        for book in &self.books {
            book.close(at_rest, self.others_write, findings);
        }
        for ((currency, _), at) in &self.names {
            self.ledgers[*at].close(currency.as_deref(), findings);
        }
        differences
    }
}
