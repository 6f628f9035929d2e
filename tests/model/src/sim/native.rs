//! A model of a native transaction: a snapshot, a decision, and a commit that compares.
//!
//! Owns the semantics of `mongo::native`. Promises snapshot isolation: all is read at one
//! moment, and the commit fails if a document that it writes has changed since; documents that are
//! only read may have changed. On the server the first writer wins; here the first committer wins,
//! which allows the same histories.

use std::sync::Arc;

use ledger::account::Account;
use ledger::journal::{Heading, Line};
use ledger::netting::{self, Change, Netting};
use ledger::transaction::State;
use ledger::{Content, ServerMs, Transacted, Verdict};

use super::journal::StoredLine;
use super::model::{Books, Transaction};
use super::moments::{applied_at, has_expired};
use super::planted::Planted;

/// A native transaction that has begun.
#[derive(Debug)]
pub struct Native {
    /// What it read.
    snapshot: Books,
    netting: Netting,
}

/// The documents that it writes, with their new content.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    /// The accounts.
    pub accounts: Vec<Account>,
    /// The transactions.
    pub transactions: Vec<Transaction>,
    /// Their line, under its name.
    pub line: Option<(String, StoredLine)>,
    /// The note that the events of the line are due.
    pub due: Option<(String, ServerMs)>,
}

impl Documents {
    /// Stores the documents.
    pub fn store(self, books: &mut Books) {
        let accounts = self.accounts.into_iter().map(|account| (account.id.clone(), account));
        books.accounts.extend(accounts);
        let transactions = self.transactions.into_iter().map(|doc| (doc.id.clone(), doc));
        books.transactions.extend(transactions);
        books.journal.extend(self.line);
        books.due.extend(self.due);
    }

    /// Their ids.
    pub fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        let accounts = self.accounts.iter().map(|account| &account.id);
        accounts.chain(self.transactions.iter().map(|doc| &doc.id))
    }
}

impl Native {
    /// What it reads.
    #[must_use]
    pub fn snapshot(contents: &[Content], books: &Books) -> Books {
        let mut snapshot = Books { odd: books.odd.clone(), ..Books::default() };
        for (id, body) in contents {
            let doc = books.transactions.get(id);
            snapshot.transactions.extend(doc.map(|doc| (id.clone(), doc.clone())));
            let legs = body.iter().flat_map(|body| body.legs());
            let found = legs.filter_map(|leg| books.accounts.get(&leg.account));
            snapshot.accounts.extend(found.map(|account| (account.id.clone(), account.clone())));
        }
        snapshot
    }

    /// Reads and decides.
    #[must_use]
    pub fn begin(contents: &[Content], books: &Books, now: ServerMs) -> Native {
        let snapshot = Native::snapshot(contents, books);
        let looks: Vec<_> = snapshot.accounts.keys().map(|id| (id.clone(), vec![])).collect();
        let netting = netting::net(contents, snapshot.accounts(&looks), now);
        Native { snapshot, netting }
    }

    /// What it has decided.
    #[must_use]
    pub fn verdicts(self) -> Vec<Verdict> {
        self.netting.verdicts
    }

    /// Commits to these documents, or has a conflict and writes nothing.
    #[must_use]
    pub fn commit(
        self,
        books: &Books,
        (contents, heading): (&[Content], &Heading),
        now: ServerMs,
        planted: Option<Planted>,
    ) -> (Option<Documents>, Transacted) {
        let in_time = planted == Some(Planted::NativeWithoutTheClock) || self.is_in_time(now);
        let is_known = books.journal.contains_key(&heading.id);
        let is_taken = is_known && planted != Some(Planted::LineWrittenOver);
        let is_free = !is_taken && self.is_unchanged(books, planted);
        if !in_time || !self.is_initial(planted) || !is_free {
            return (None, Transacted::Conflict);
        }
        let mut written = Documents::default();
        for (id, change) in &self.netting.changes {
            let mut account = books.accounts[id].clone();
            let earlier = written.accounts.iter().position(|other| other.id == *id);
            if let Some(index) = earlier {
                account = written.accounts.swap_remove(index);
            }
            account.balance = match *change {
                Change::Add(part) => account.balance.checked_add(part).unwrap_or(account.balance),
                Change::Set { balance, .. } => balance,
            };
            written.accounts.push(account);
        }
        for verdict in &self.netting.verdicts {
            let mut doc = books.transactions[&verdict.id].clone();
            doc.state = if verdict.refused.is_some() { State::Canceled } else { State::Done };
            doc.reason.clone_from(&verdict.refused);
            doc.application = Some(heading.application.clone());
            doc.line = Some(heading.id.clone());
            doc.attempts += 1;
            doc.applied_at = applied_at(&doc, now).filter(|_| doc.state == State::Done);
            doc.claim = None;
            doc.parked = None;
            doc.due_at = None;
            (doc.lease_until, doc.takeover_at) = (0, 0);
            written.transactions.push(doc);
        }
        let line = Line::of_verdicts(heading.clone(), contents, &self.netting.verdicts);
        let mut written = written.with_line(&line, books, planted);
        if planted == Some(Planted::NativeWithoutTheNote) {
            written.due = None;
        }
        (Some(written), Transacted::Committed(self.netting.verdicts))
    }

    /// Whether nothing that is to be done has expired.
    fn is_in_time(&self, now: ServerMs) -> bool {
        let done = self.netting.verdicts.iter().filter(|verdict| verdict.refused.is_none());
        let mut docs = done.filter_map(|verdict| self.snapshot.transactions.get(&verdict.id));
        !docs.any(|doc| has_expired(doc, now))
    }

    fn is_initial(&self, planted: Option<Planted>) -> bool {
        let looks = planted != Some(Planted::NativeWithoutTheState);
        self.netting.verdicts.iter().all(|verdict| {
            let doc = self.snapshot.transactions.get(&verdict.id);
            let initial = |doc: &Transaction| doc.state == State::Initial && doc.parked.is_none();
            doc.is_some_and(|doc| !looks || initial(doc))
        })
    }

    fn is_unchanged(&self, books: &Books, planted: Option<Planted>) -> bool {
        let same = |id| books.accounts.get(id) == self.snapshot.accounts.get(id);
        let accounts = self.netting.changes.iter().all(|(id, _)| same(id));
        let same = |id| books.transactions.get(id) == self.snapshot.transactions.get(id);
        let transactions = self.netting.verdicts.iter().all(|verdict| same(&verdict.id));
        match planted {
            Some(Planted::NativeAccountsNotCompared) => transactions,
            Some(Planted::NativeWithoutTheState | Planted::NativeClaimsNotCompared) => accounts,
            _ => accounts && transactions,
        }
    }
}
