//! A model of the database server: requests run document by document, become durable later, and a
//! fail-over loses what was not durable.
//!
//! Owns two copies of the books: the primary's and the majority's. Promises that a request sees
//! the clock of its start throughout, and that clocks of different members differ by at most the
//! skew.

use std::collections::{BTreeMap, VecDeque};

use common::account::{Account, Status};
use common::ledger::{AccountRead, Advance, Claim, Posting, Removal, Seen, ServerMs, Transacted};
use common::mongo::LeaseMs;
use common::netting::Order;
use common::transaction::{AccountId, Body, Reason, TransactionId};

use super::model::{self, Books, Transaction};
use super::native::{Native, Written};
use super::planted::Planted;

/// One request of a client.
#[derive(Clone, Debug)]
pub enum Request {
    /// A producer inserts a submission.
    Insert(TransactionId, Body),
    /// A producer asks to cancel.
    AskCancel(TransactionId),
    /// An operator freezes, opens or closes an account.
    SetStatus(AccountId, Status),
    /// See [`common::ledger::Ledger`]; the number is the worker's own idea of the time.
    Claim(Vec<TransactionId>, Claim, ServerMs),
    /// Reads transactions.
    Read(Vec<TransactionId>),
    /// Reads accounts.
    Accounts(Vec<AccountId>),
    /// Posts, each before the deadline.
    Post(Vec<Posting>, ServerMs),
    /// Removes marks.
    Remove(Removal, Vec<Posting>),
    /// Moves transactions on.
    Advance(Advance, Vec<TransactionId>, Claim),
    /// Turns transactions towards their undoing.
    Cancel(Vec<(TransactionId, Reason)>, Claim),
    /// Gives a claim up.
    Release(Vec<TransactionId>, Claim, i64, ServerMs),
    /// A native transaction, by a number of its own, of an application.
    Transact(u64, Vec<Order>, String),
}

impl Request {
    /// The name in traces and in the coverage table.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Request::Insert(..) => "insert",
            Request::AskCancel(_) => "ask cancel",
            Request::SetStatus(..) => "set status",
            Request::Claim(..) => "claim",
            Request::Read(_) => "read",
            Request::Accounts(_) => "accounts",
            Request::Post(postings, _) if postings.iter().any(|p| p.ride.is_some()) => "post+ride",
            Request::Post(..) => "post",
            Request::Remove(Removal::Settle, _) => "settle",
            Request::Remove(Removal::Undo, _) => "undo",
            Request::Advance(step, ..) => step.states().1.as_str(),
            Request::Cancel(..) => "cancel",
            Request::Release(..) => "release",
            Request::Transact(..) => "transact",
        }
    }

    /// How many documents it touches one after the other. A read is one step.
    #[must_use]
    pub fn steps(&self) -> usize {
        match self {
            Request::Insert(..)
            | Request::AskCancel(_)
            | Request::SetStatus(..)
            | Request::Read(_)
            | Request::Accounts(_) => 1,
            Request::Claim(ids, ..) | Request::Advance(_, ids, _) | Request::Release(ids, ..) => {
                ids.len()
            }
            Request::Post(postings, _) | Request::Remove(_, postings) => postings.len(),
            Request::Cancel(refused, _) => refused.len(),
            // It reads, then it commits.
            Request::Transact(..) => 2,
        }
    }
}

/// What a request answers.
#[derive(Clone, Debug)]
pub enum Reply {
    /// How many documents matched (or changed, for accounts).
    Count(usize),
    /// Transactions read.
    Seen(Vec<Seen>),
    /// Accounts read.
    Accounts(Vec<AccountRead>),
    /// What became of a native transaction.
    Transacted(Transacted),
}

#[derive(Clone, Debug)]
enum Write {
    Account(Account),
    Transaction(Transaction),
    /// A majority has all of it or nothing.
    Together(Written),
}

/// See the module.
#[derive(Debug)]
pub struct Server {
    /// What the primary has.
    pub primary: Books,
    /// What a majority has.
    pub majority: Books,
    /// Writes on the primary that are not on a majority, oldest first.
    log: VecDeque<Write>,
    /// How many writes there have been.
    pub written: u64,
    /// By how much the clock of the accounts' member is ahead.
    pub skew: i64,
    /// How long the next claims last; workers may differ in it.
    pub lease: LeaseMs,
    planted: Option<Planted>,
    /// Native transactions that have begun.
    begun: BTreeMap<u64, Native>,
    /// What became of the one that ended last.
    transacted: Option<Transacted>,
}

impl Server {
    /// A server with these books, durable.
    #[must_use]
    pub fn new(books: Books, lease: LeaseMs, planted: Option<Planted>) -> Server {
        Server {
            primary: books.clone(),
            majority: books,
            log: VecDeque::new(),
            written: 0,
            skew: 0,
            lease,
            planted,
            begun: BTreeMap::new(),
            transacted: None,
        }
    }

    /// How many of the writes are on a majority.
    #[must_use]
    pub fn durable(&self) -> u64 {
        if self.planted == Some(Planted::NotMajority) {
            return self.written;
        }
        self.written - self.log.len() as u64
    }

    /// Whether everything is on a majority.
    #[must_use]
    pub fn is_replicated(&self) -> bool {
        self.log.is_empty()
    }

    /// Brings the oldest `count` writes to a majority.
    pub fn replicate(&mut self, count: usize) {
        for write in self.log.drain(..count.min(self.log.len())) {
            match write {
                Write::Account(account) => {
                    self.majority.accounts.insert(account.id.clone(), account);
                }
                Write::Transaction(doc) => {
                    self.majority.transactions.insert(doc.id.clone(), doc);
                }
                Write::Together(written) => written.store(&mut self.majority),
            }
        }
    }

    /// Another member becomes primary: what was not on a majority is lost.
    pub fn fail_over(&mut self, skew: i64) {
        self.written -= self.log.len() as u64;
        self.log.clear();
        self.begun.clear();
        self.primary = self.majority.clone();
        self.skew = skew;
    }

    /// Runs the `step`-th part of a request that started at `started`. Counts what matched.
    pub fn step(&mut self, request: &Request, step: usize, started: ServerMs) -> usize {
        let planted = self.planted;
        let matched = match request {
            Request::Insert(id, body) => return self.insert(id, body, started),
            Request::SetStatus(id, status) => {
                self.account(id, |account| model::set_status(account, *status))
            }
            Request::AskCancel(id) => self.transaction(id, model::request_cancel),
            Request::Claim(ids, claim, worker_now) => {
                let server = planted != Some(Planted::WorkerClockInsteadOfServerClock);
                let now = if server { started } else { *worker_now };
                let lease = self.lease;
                self.transaction(&ids[step], |doc| model::claim(doc, claim, lease, now))
            }
            Request::Post(postings, before) => {
                let now = started + self.skew;
                let posting = &postings[step];
                self.account(&posting.account, |account| {
                    model::post(account, posting, *before, now, planted)
                })
            }
            Request::Remove(removal, postings) => {
                let posting = &postings[step];
                self.account(&posting.account, |account| {
                    model::remove(account, *removal, posting, planted)
                })
            }
            Request::Advance(kind, ids, claim) => {
                self.transaction(&ids[step], |doc| model::advance(doc, *kind, claim))
            }
            Request::Cancel(refused, claim) => {
                let (id, reason) = &refused[step];
                self.transaction(id, |doc| model::cancel(doc, reason, claim))
            }
            Request::Release(ids, claim, after, not_before) => self
                .transaction(&ids[step], |doc| {
                    model::release(doc, claim, *after, *not_before, started)
                }),
            Request::Read(_) | Request::Accounts(_) => false,
            Request::Transact(number, orders, application) => {
                return self.step_of_transaction(*number, orders, application);
            }
        };
        usize::from(matched)
    }

    /// The first step reads at a snapshot and decides, the second commits: all writes at once, or
    /// none when a document to be written was changed in between.
    fn step_of_transaction(&mut self, number: u64, orders: &[Order], application: &str) -> usize {
        let Some(native) = self.begun.remove(&number) else {
            self.begun.insert(number, Native::begin(orders, &self.primary));
            return 0;
        };
        let (written, transacted) = native.commit(&self.primary, application, self.planted);
        if let Transacted::Committed(_) = transacted {
            written.store(&mut self.primary);
            self.wrote(Write::Together(written));
        }
        self.transacted = Some(transacted);
        0
    }

    fn insert(&mut self, id: &TransactionId, body: &Body, started: ServerMs) -> usize {
        let known = self.primary.transactions.contains_key(id);
        if known && self.planted != Some(Planted::ResubmissionPostsTwice) {
            return 0;
        }
        let doc = Transaction::initial(id.clone(), body.clone(), started);
        self.primary.transactions.insert(id.clone(), doc.clone());
        self.wrote(Write::Transaction(doc));
        1
    }

    fn account(&mut self, id: &AccountId, change: impl FnOnce(&mut Account) -> bool) -> bool {
        let Some(account) = self.primary.accounts.get_mut(id) else { return false };
        let matched = change(account);
        if matched {
            let account = account.clone();
            self.wrote(Write::Account(account));
        }
        matched
    }

    fn transaction(
        &mut self,
        id: &TransactionId,
        change: impl FnOnce(&mut Transaction) -> bool,
    ) -> bool {
        let Some(doc) = self.primary.transactions.get_mut(id) else { return false };
        let matched = change(doc);
        if matched {
            let doc = doc.clone();
            self.wrote(Write::Transaction(doc));
        }
        matched
    }

    fn wrote(&mut self, write: Write) {
        self.written += 1;
        self.log.push_back(write);
    }

    /// What a request answers when all its steps have run.
    #[must_use]
    pub fn reply(&mut self, request: &Request, matched: usize, now: ServerMs) -> Reply {
        let books = match self.planted {
            Some(Planted::NotMajority) => &self.primary,
            _ => &self.majority,
        };
        match request {
            Request::Read(ids) => {
                let found = ids.iter().filter_map(|id| books.transactions.get(id));
                Reply::Seen(found.map(|doc| doc.seen(now)).collect())
            }
            Request::Accounts(ids) => {
                let found = ids.iter().filter_map(|id| books.accounts.get(id));
                let read = |account: &Account| (account.id.clone(), Ok(account.clone()));
                Reply::Accounts(found.map(read).collect())
            }
            Request::Transact(..) => {
                Reply::Transacted(self.transacted.take().unwrap_or(Transacted::Conflict))
            }
            _ => Reply::Count(matched),
        }
    }
}
