//! How writes reach a majority, what a fail-over loses, and what majority reads show.
//!
//! Owns the way of a write from the primary's documents to the majority's. Promises that writes
//! keep their order, and that a durable write is never lost.

use std::sync::Arc;

use ledger::ServerMs;
use ledger::account::Account;
use ledger::event::Ended;
use ledger::transaction::{Parked, TransactionId};

use super::lag::Lag;
use super::model::{Books, Transaction};
use super::native::Documents;
use super::odd::Oddity;
use super::order::Ends;
use super::planted::Planted;
use super::request::Request;
use super::server::Server;

/// One write of the primary, on its way to a majority.
#[derive(Clone, Debug)]
pub enum Write {
    /// An account.
    Account(Account),
    /// A transaction.
    Transaction(Box<Transaction>),
    /// A note on a parked transaction, or its removal.
    Aside(TransactionId, Option<Parked>),
    /// A note that the events of a line are due, or its removal.
    Due(String, Option<ServerMs>),
    /// A page of the order, by the number of its first end.
    Page(u64, Vec<Ends>),
    /// A majority has all of it or nothing.
    Together(Documents),
}

impl Write {
    /// Applies it to these documents.
    pub fn store(self, books: &mut Books) {
        match self {
            Write::Account(account) => {
                books.accounts.insert(account.id.clone(), account);
            }
            Write::Transaction(doc) => {
                books.transactions.insert(doc.id.clone(), *doc);
            }
            Write::Aside(id, Some(why)) => {
                books.aside.insert(id, why);
            }
            Write::Aside(id, None) => {
                books.aside.remove(&id);
            }
            Write::Due(line, Some(due_at)) => {
                books.due.insert(line, due_at);
            }
            Write::Due(line, None) => {
                books.due.remove(&line);
            }
            Write::Page(first, lines) => {
                books.order.insert(first, lines);
            }
            Write::Together(written) => written.store(books),
        }
    }
}

impl Server {
    /// How many of the writes a majority has.
    #[must_use]
    pub fn durable(&self) -> u64 {
        if self.planted == Some(Planted::NotMajority) {
            return self.written;
        }
        self.written - self.log.len() as u64
    }

    /// Until which write a majority has to have all before this request is answered, and up to
    /// which write its answer tells its client. A write is answered when it is durable, a majority
    /// read at once; so is a statement in a transaction, which only then can commit.
    #[must_use]
    pub fn moments_of_answer(&self, request: &Request) -> (u64, u64) {
        let in_transaction = matches!(request, Request::InsertKeyed(..));
        match self.planted {
            _ if request.is_read() || request.is_for_the_broker() => (0, 0),
            Some(Planted::PlainInsertOfAKey) => (self.written, self.written),
            Some(Planted::KeyReadTooEarly) if in_transaction => (0, 0),
            _ if in_transaction => (0, self.written),
            _ => (self.written, self.written),
        }
    }

    /// Whether a majority read shows the writes up to this one.
    #[must_use]
    pub fn shows(&self, upto: u64) -> bool {
        let waits = self.planted != Some(Planted::ReadsBeforeTheirWrites);
        !waits || self.durable() >= upto + self.hidden() as u64
    }

    /// How many writes of a majority its reads do not show yet.
    #[must_use]
    pub fn hidden(&self) -> usize {
        self.lag.as_ref().map_or(0, Lag::hidden)
    }

    /// Whether everything is on a majority.
    #[must_use]
    pub fn is_replicated(&self) -> bool {
        self.log.is_empty()
    }

    /// How many writes of the primary are not on a majority.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.log.len()
    }

    /// Brings the oldest `count` writes to a majority.
    pub fn replicate(&mut self, count: usize) {
        for write in self.log.drain(..count.min(self.log.len())) {
            if let Some(lag) = &mut self.lag {
                lag.committed(write.clone());
            }
            write.store(&mut self.majority);
        }
    }

    /// Another member becomes primary: writes that no majority has are lost, and its reads do not
    /// show the newest of the others for a while.
    pub fn fail_over(&mut self, skew: i64, hidden: usize) {
        self.written -= self.log.len() as u64;
        self.log.clear();
        self.begun.clear();
        self.ending.clear();
        self.numbering.clear();
        self.primary = self.majority.clone();
        self.skew = skew;
        if let Some(lag) = &mut self.lag {
            lag.fail_over(hidden);
        }
    }

    /// Reads show some more of the writes that a majority has.
    pub fn catch_up(&mut self, count: usize) {
        if let Some(lag) = &mut self.lag {
            lag.catch_up(count);
        }
    }

    /// Makes a document odd, in all copies at once.
    pub fn spoil(&mut self, id: &Arc<str>, oddity: Oddity) {
        self.copies().for_each(|books| books.odd.spoil(id.clone(), oddity));
    }

    /// Makes a document what it was.
    pub fn mend(&mut self, id: &Arc<str>) {
        self.copies().for_each(|books| books.odd.mend(id));
    }

    /// The broker takes an event. No copy of the database has a say in it.
    pub fn sent(&mut self, event: &Ended) {
        for books in self.copies() {
            books.sent.insert(event.clone());
        }
    }

    /// A caller is told that its transaction is accepted. No fail-over takes that back.
    pub fn accepted(&mut self, id: &TransactionId) {
        for books in self.copies() {
            books.keyed.accepted.insert(id.clone());
        }
    }

    /// A caller is told that another transaction has the key.
    pub fn refused(&mut self, call: &str) {
        for books in self.copies() {
            books.keyed.refused.insert(call.to_owned());
        }
    }

    fn copies(&mut self) -> impl Iterator<Item = &mut Books> {
        let lag = self.lag.as_mut().map(Lag::older);
        [&mut self.primary, &mut self.majority].into_iter().chain(lag)
    }
}
