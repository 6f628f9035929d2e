//! The model, asked as the simulator asks it: one request, document by document.

use std::collections::BTreeMap;

use common::ledger::{Claim, ServerMs};
use common::transaction::{AccountId, Body, TransactionId};
use mongodb::bson::{DateTime, Document};
use tests::sim::model::{Books, Transaction};
use tests::sim::server::{Reply, Request, Server};

use crate::fields::{self, Answer, Shown};
use crate::operation::{BROKEN, Lease, Operation, TRANSACTIONS, account_names};
use crate::sequence::Sequence;
use crate::terms::{FOREIGN, Terms, broken, orders};

/// See the module.
pub struct Model {
    server: Server,
    /// When each transaction was changed last, which the model itself does not keep.
    last_modified: BTreeMap<TransactionId, ServerMs>,
}

impl Model {
    /// A model of the documents that the sequence starts from.
    pub fn new(sequence: &Sequence) -> Model {
        let mut books = Books::default();
        for account in &sequence.accounts {
            books.accounts.insert(account.id.clone(), account.clone());
        }
        let problem = Body::from_document(&broken()).map_err(|error| error.to_string());
        let template = Transaction::initial(BROKEN.into(), sequence.bodies[0].clone(), 0);
        let broken = Transaction { body: problem, ..template };
        books.transactions.insert(broken.id.clone(), broken);
        let server = Server::new(books, Terms::lease(Lease::Holds), None);
        Model { server, last_modified: BTreeMap::new() }
    }

    /// Every document, as the ledger would have written it.
    pub fn shown(&self, terms: &Terms<'_>) -> Shown {
        let mut shown = Shown::new();
        for account in self.server.primary.accounts.values() {
            let mut document = account.to_document(DateTime::from_millis(0));
            document.insert(FOREIGN.0, FOREIGN.1);
            shown.insert(account.id.to_string(), fields::of(&document, terms.begun));
        }
        for transaction in self.server.primary.transactions.values() {
            let mut document = written(transaction);
            let last_modified = self.last_modified.get(&transaction.id).copied().unwrap_or(0);
            document.insert("lastModified", DateTime::from_millis(last_modified));
            shown.insert(transaction.id.to_string(), fields::of(&document, terms.begun));
        }
        shown
    }

    /// Runs one operation at a moment of the server's clock.
    pub fn run(
        &mut self,
        terms: &Terms<'_>,
        operation: &Operation,
        created_at: ServerMs,
        now: ServerMs,
    ) -> Answer {
        match operation {
            Operation::Insert { transaction, content } => {
                let body = terms.sequence.bodies[*content].clone();
                self.insert(TRANSACTIONS[*transaction], body, created_at)
            }
            Operation::RequestCancel(at) => {
                let id: TransactionId = TRANSACTIONS[*at].into();
                self.request(&Request::AskCancel(id.clone()), now);
                let found = self.server.primary.transactions.get(&id);
                found.map_or(Answer::Refused, |found| Answer::Is(found.state))
            }
            Operation::SetStatus(at, to) => {
                let id: AccountId = account_names()[*at].into();
                self.request(&Request::SetStatus(id.clone(), *to), now);
                let status = self.server.primary.accounts.get(&id).map(|account| account.status);
                if status == Some(*to) { Answer::Has(*to) } else { Answer::Refused }
            }
            Operation::Claim(ids, by, lease) => {
                self.server.lease = Terms::lease(*lease);
                self.request(&Request::Claim(Terms::ids(ids), by.claim(), now), now);
                self.answer(terms, &Request::Read(Terms::ids(ids)), now)
            }
            Operation::Read(ids) => self.answer(terms, &Request::Read(Terms::ids(ids)), now),
            Operation::Accounts(at) => {
                self.answer(terms, &Request::Accounts(Terms::accounts(at)), now)
            }
            Operation::Post { ids, grouping, before, riders } => {
                let postings = terms.riding(terms.postings(ids, *grouping), riders);
                self.answer(terms, &Request::Post(postings, terms.at(*before)), now)
            }
            Operation::Remove(removal, ids, grouping) => {
                let postings = terms.postings(ids, *grouping);
                self.answer(terms, &Request::Remove(*removal, postings), now)
            }
            Operation::Advance(step, ids, by) => {
                self.answer(terms, &Request::Advance(*step, Terms::ids(ids), by.claim()), now)
            }
            Operation::Cancel(refused, by) => {
                self.answer(terms, &Request::Cancel(Terms::reasons(refused), by.claim()), now)
            }
            Operation::Transact(ids, by) => {
                let found = ids.iter().filter_map(|at| {
                    self.server.primary.transactions.get(TRANSACTIONS[*at]).map(|doc| doc.seen(now))
                });
                let orders = orders(found.collect());
                let application = by.claim().application;
                self.answer(terms, &Request::Transact(0, orders, application), now)
            }
            Operation::Release { ids, by, after, not_before } => {
                let (after, not_before) = (Terms::delay(*after), terms.at(*not_before));
                let claim: Claim = by.claim();
                self.request(&Request::Release(Terms::ids(ids), claim, after, not_before), now);
                Answer::Released
            }
        }
    }

    fn answer(&mut self, terms: &Terms<'_>, request: &Request, now: ServerMs) -> Answer {
        match self.request(request, now) {
            Reply::Count(count) => Answer::Count(count),
            Reply::Seen(seen) => Answer::seen(seen, terms.begun),
            Reply::Accounts(accounts) => Answer::accounts(accounts),
            Reply::Transacted(transacted) => Answer::Transacted(transacted),
        }
    }

    fn request(&mut self, request: &Request, now: ServerMs) -> Reply {
        let before = self.server.primary.transactions.clone();
        let matched = (0..request.steps()).map(|step| self.server.step(request, step, now)).sum();
        for (id, after) in &self.server.primary.transactions {
            if before.get(id) != Some(after) {
                self.last_modified.insert(id.clone(), now);
            }
        }
        self.server.replicate(usize::MAX);
        self.server.reply(request, matched, now)
    }

    fn insert(&mut self, id: &str, body: Body, created_at: ServerMs) -> Answer {
        let inserted = self.request(&Request::Insert(id.into(), body.clone()), created_at);
        if matches!(inserted, Reply::Count(1)) {
            return Answer::Submitted;
        }
        let known = &self.server.primary.transactions[id];
        let same = known.body.as_ref().is_ok_and(|known| *known == body);
        if same { Answer::Unchanged(known.state) } else { Answer::Refused }
    }
}

/// A transaction of the model as a document.
fn written(transaction: &Transaction) -> Document {
    let Transaction { id, body, state, claim, application, reason, .. } = transaction;
    let created_at = DateTime::from_millis(transaction.created_at);
    let mut document = match body {
        Ok(body) => body.to_document(id, created_at),
        Err(_) => broken(),
    };
    document.insert("state", *state);
    for (field, text) in [("claim", claim), ("application", application)] {
        text.as_ref().map(|text| document.insert(field, text));
    }
    let times = [("leaseUntil", transaction.lease_until), ("takeoverAt", transaction.takeover_at)];
    for (field, time) in times.into_iter().filter(|(_, time)| *time != 0) {
        document.insert(field, DateTime::from_millis(time));
    }
    if transaction.attempts > 0 {
        let attempts = i32::try_from(transaction.attempts).expect("a few attempts");
        document.insert("attempts", attempts);
    }
    reason.as_ref().map(|reason| document.insert("reason", reason.to_document()));
    document
}
