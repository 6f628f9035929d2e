//! The two sides: MongoDB through the real ledger and the real producer, and the model.
//!
//! Owns how an operation becomes calls on each side. Both answer in [`Answer`]s and show their
//! documents as [`Fields`], in the same words, so that comparing them is comparing text.

use std::collections::BTreeMap;

use common::account::{Account, Status};
use common::amount::Amount;
use common::ledger::{Claim, Ledger, LedgerError, Posting, Ride, Seen, ServerMs};
use common::mongo::{LeaseMs, MongoLedger, Store};
use common::transaction::{AccountId, Body, Leg, Reason, ReasonCode, State, TransactionId};
use futures_util::TryStreamExt;
use mongodb::Collection;
use mongodb::bson::{DateTime, Document, doc};
use producer::accounts::Change;
use producer::context::Context;
use producer::submission::{self, Expect, Order};
use producer::transactions::{Canceling, cancel_one};
use tests::sim::model::{Books, Transaction};
use tests::sim::server::{Reply, Request, Server};

use crate::fields::{self, Answer, Shown};
use crate::sequence::{
    BROKEN, Grouping, HOUR, Lease, Operation, Sequence, TRANSACTIONS, When, account_names,
};

/// A field of an account that is not ours; postings must keep it.
const FOREIGN: (&str, &str) = ("note", "$balance");

/// What a client says of its transactions when it cancels them.
const MESSAGE: &str = "account \"$balance\" says $$ROOT";

/// A sequence in the ledger's own terms.
pub struct Terms<'a> {
    sequence: &'a Sequence,
    /// The server's clock when the sequence began.
    begun: ServerMs,
}

impl<'a> Terms<'a> {
    pub fn new(sequence: &'a Sequence, begun: ServerMs) -> Terms<'a> {
        Terms { sequence, begun }
    }

    fn at(&self, when: When) -> ServerMs {
        match when {
            When::Past => self.begun - HOUR,
            When::Future => self.begun + HOUR,
        }
    }

    fn delay(when: When) -> i64 {
        match when {
            When::Past => -2 * HOUR,
            When::Future => 2 * HOUR,
        }
    }

    fn lease(lease: Lease) -> LeaseMs {
        match lease {
            Lease::Holds => LeaseMs { lease: 3 * HOUR, grace: HOUR },
            Lease::InGrace => LeaseMs { lease: -HOUR, grace: 4 * HOUR },
            Lease::Over => LeaseMs { lease: -3 * HOUR, grace: HOUR },
        }
    }

    fn ids(ids: &[usize]) -> Vec<TransactionId> {
        ids.iter().map(|at| TRANSACTIONS[*at].into()).collect()
    }

    fn accounts(at: &[usize]) -> Vec<AccountId> {
        at.iter().map(|at| account_names()[*at].into()).collect()
    }

    fn reasons(refused: &[(usize, ReasonCode)]) -> Vec<(TransactionId, Reason)> {
        let reason =
            |(at, code): &(usize, _)| (TRANSACTIONS[*at].into(), Reason::new(*code, MESSAGE));
        refused.iter().map(reason).collect()
    }

    fn postings(&self, ids: &[usize], grouping: Grouping) -> Vec<Posting> {
        let mut postings: Vec<Posting> = Vec::new();
        for at in ids {
            let body = &self.sequence.bodies[*at];
            let legs_max = if grouping == Grouping::FirstLeg { 1 } else { body.legs().len() };
            for leg in body.legs().iter().take(legs_max) {
                let single = single(TRANSACTIONS[*at], body, leg);
                let joined = grouping == Grouping::PerAccount
                    && postings.iter_mut().any(|posting| join(posting, &single));
                if !joined {
                    postings.push(single);
                }
            }
        }
        postings
    }

    /// The settlements of other transactions, each on the first posting to its account.
    fn riding(&self, mut postings: Vec<Posting>, riders: &[usize]) -> Vec<Posting> {
        for settlement in self.postings(riders, Grouping::PerAccount) {
            let free = |p: &&mut Posting| p.account == settlement.account && p.ride.is_none();
            if let Some(posting) = postings.iter_mut().find(free) {
                let Posting { debits, credits, transactions, .. } = settlement;
                posting.ride = Some(Ride { debits, credits, transactions });
            }
        }
        postings
    }
}

/// What a native transaction is told, in the order of the ids: as the engine does it.
fn orders(mut seen: Vec<Seen>) -> Vec<(TransactionId, Result<Body, String>)> {
    seen.sort_by(|a, b| a.id.cmp(&b.id));
    seen.into_iter().map(|seen| (seen.id, seen.body)).collect()
}

fn single(id: &str, body: &Body, leg: &Leg) -> Posting {
    let zero = Amount::ZERO;
    let (debits, credits) = match leg.amount.is_negative() {
        true => (leg.amount.negated(), zero),
        false => (zero, leg.amount),
    };
    Posting {
        account: leg.account.clone(),
        currency: body.currency.clone(),
        debits,
        credits,
        transactions: vec![id.into()],
        ride: None,
    }
}

/// Adds a posting to one of the same account, currency and kind, while the sums stay amounts.
fn join(posting: &mut Posting, other: &Posting) -> bool {
    let alike = posting.account == other.account
        && posting.currency == other.currency
        && posting.is_int() == other.is_int();
    let sums =
        (posting.debits.checked_add(other.debits), posting.credits.checked_add(other.credits));
    let (true, (Some(debits), Some(credits))) = (alike, sums) else { return false };
    (posting.debits, posting.credits) = (debits, credits);
    posting.transactions.extend(other.transactions.iter().cloned());
    true
}

fn broken() -> Document {
    let now = DateTime::from_millis(0);
    doc! { "_id": BROKEN, "source": "a", "destination": "a", "value": 5_i64,
    "state": State::Initial, "createdAt": now, "lastModified": now }
}

/// MongoDB.
pub struct Real {
    context: Context,
}

impl Real {
    pub fn new(context: Context) -> Real {
        Real { context }
    }

    fn store(&self) -> &Store {
        &self.context.store
    }

    /// The server's clock.
    pub async fn now(&self) -> ServerMs {
        self.store().server_now().await.expect("MongoDB is there")
    }

    /// Replaces all documents by those that the sequence starts from.
    pub async fn reset(&self, sequence: &Sequence) {
        let document = |account: &Account| {
            let mut document = account.to_document(DateTime::from_millis(0));
            document.insert(FOREIGN.0, FOREIGN.1);
            document
        };
        let replaced = async |collection: Collection<Document>, documents: Vec<Document>| {
            collection.delete_many(doc! {}).await.expect("documents can be deleted");
            collection.insert_many(documents).await.expect("documents can be inserted");
        };
        let accounts = sequence.accounts.iter().map(document).collect();
        tokio::join!(
            replaced(self.store().accounts(), accounts),
            replaced(self.store().transactions(), vec![broken()]),
        );
    }

    /// Every document.
    pub async fn shown(&self, terms: &Terms<'_>) -> Shown {
        let all = async |collection: Collection<Document>| {
            let found = collection.find(doc! {}).await.expect("MongoDB is there");
            found.try_collect::<Vec<_>>().await.expect("MongoDB is there")
        };
        let (accounts, transactions) =
            tokio::join!(all(self.store().accounts()), all(self.store().transactions()));
        let shown = |document: &Document| {
            let id = document.get_str("_id").expect("ids are strings");
            (id.to_owned(), fields::of(document, terms.begun))
        };
        accounts.iter().chain(&transactions).map(shown).collect()
    }

    /// Runs one operation.
    pub async fn run(
        &self,
        terms: &Terms<'_>,
        operation: &Operation,
        created_at: ServerMs,
    ) -> Result<Answer, LedgerError> {
        let lease = match operation {
            Operation::Claim(_, _, lease) => Terms::lease(*lease),
            _ => Terms::lease(Lease::Holds),
        };
        let ledger = MongoLedger::new(self.store().clone(), lease);
        let count = |count: usize| Answer::Count(count);
        let seen = |seen| Answer::seen(seen, terms.begun);
        match operation {
            Operation::Insert { transaction, content } => {
                let order = Order {
                    id: TRANSACTIONS[*transaction].into(),
                    body: terms.sequence.bodies[*content].clone(),
                };
                self.insert(order, created_at).await
            }
            Operation::RequestCancel(at) => Ok(self.request_cancel(TRANSACTIONS[*at]).await),
            Operation::SetStatus(at, to) => Ok(self.set_status(account_names()[*at], *to).await),
            Operation::Claim(ids, by, _) => {
                ledger.claim(&Terms::ids(ids), &by.claim()).await.map(seen)
            }
            Operation::Read(ids) => ledger.read(&Terms::ids(ids)).await.map(seen),
            Operation::Accounts(at) => {
                ledger.accounts(&Terms::accounts(at)).await.map(Answer::accounts)
            }
            Operation::Post { ids, grouping, before, riders } => {
                let postings = terms.riding(terms.postings(ids, *grouping), riders);
                ledger.post(&postings, terms.at(*before)).await.map(count)
            }
            Operation::Remove(removal, ids, grouping) => {
                ledger.remove(*removal, &terms.postings(ids, *grouping)).await.map(count)
            }
            Operation::Advance(step, ids, by) => {
                ledger.advance(*step, &Terms::ids(ids), &by.claim()).await.map(count)
            }
            Operation::Cancel(refused, by) => {
                ledger.cancel(&Terms::reasons(refused), &by.claim()).await.map(count)
            }
            Operation::Transact(ids, by) => {
                let orders = orders(ledger.read(&Terms::ids(ids)).await?);
                ledger.transact(&orders, &by.claim().application).await.map(Answer::Transacted)
            }
            Operation::Release { ids, by, after, not_before } => {
                let (after, not_before) = (Terms::delay(*after), terms.at(*not_before));
                let released =
                    ledger.release(&Terms::ids(ids), &by.claim(), after, not_before).await;
                released.map(|()| Answer::Released)
            }
        }
    }

    async fn insert(&self, order: Order, created_at: ServerMs) -> Result<Answer, LedgerError> {
        let created_at = DateTime::from_millis(created_at);
        let inserted = submission::insert(self.store(), &[order], created_at, Expect::New).await?;
        Ok(match &inserted[0] {
            submission::Answer::Submitted => Answer::Submitted,
            submission::Answer::Unchanged(state) => Answer::Unchanged(*state),
            submission::Answer::Conflict(_) => Answer::Refused,
            submission::Answer::Refused(why) => panic!("the schema refuses a valid body: {why}"),
        })
    }

    async fn request_cancel(&self, id: &str) -> Answer {
        let canceling = cancel_one(&self.context, id).await;
        match canceling.expect("the servers are there") {
            Canceling::Canceled(_) => Answer::Is(State::Canceled),
            Canceling::Underway(_) => Answer::Is(State::Canceling),
            Canceling::TooLate(state) => Answer::Is(state),
            Canceling::Unknown => Answer::Refused,
        }
    }

    async fn set_status(&self, id: &str, to: Status) -> Answer {
        let change = match to {
            Status::Open => Change::Unfreeze,
            Status::Frozen => Change::Freeze,
            Status::Closed => Change::Close,
        };
        let changed = producer::accounts::change_status(&self.context, change, id).await;
        match changed.expect("MongoDB is there") {
            Ok(()) => Answer::Has(to),
            Err(_) => Answer::Refused,
        }
    }
}

/// The model.
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
