//! MongoDB, through the real ledger and the real producer.

use std::collections::BTreeSet;

use client::insert::{self, Expect};
use client::known;
use client::{Change, Client, Error, Order};
use futures_util::TryStreamExt;
use harness::laid_out;
use ledger::account::Status;
use ledger::{Fault, Ledger, LedgerError, ServerMs};
use model::sim::keyed::Inserted;
use mongo::{
    ACCOUNTS, KeyedInsert, MongoLedger, MongoOutbox, Store, TRANSACTIONS, Unparked, raw_id,
};
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use mongodb::error::{ErrorKind, WriteFailure};
use mongodb::options::ReadConcern;
use tokio::sync::Semaphore;

use crate::fields::{self, Answer, Shown};
use crate::hands;
use crate::operation::{KEYS, LINES, Lease, Operation, When};
use crate::sequence::Sequence;
use crate::terms::{FOREIGN, Terms, broken, contents};
use crate::written;

/// So many different stamps there are: less than half an hour in milliseconds.
const STAMPS: i64 = 1_000_000;

/// The server's code for a document whose `_id` or key exists.
const DUPLICATE_KEY: i32 = 11_000;

/// A real MongoDB, as the sequences use it.
pub struct Real {
    client: Client,
}

impl Real {
    pub fn new(client: Client) -> Real {
        Real { client }
    }

    fn store(&self) -> &Store {
        self.client.store()
    }

    fn outbox(&self) -> MongoOutbox {
        MongoOutbox::new(self.store().clone())
    }

    /// The server's clock.
    pub async fn now(&self) -> ServerMs {
        self.store().server_now().await.expect("MongoDB is there")
    }

    /// Replaces all documents by those that the sequence starts from.
    pub async fn reset(&self, sequence: &Sequence) {
        let replaced = async |collection: Collection<Document>, documents: Vec<Document>| {
            collection.delete_many(doc! {}).await.expect("documents can be deleted");
            collection.insert_many(documents).await.expect("documents can be inserted");
        };
        let accounts = sequence.accounts.iter().zip(&sequence.stored);
        let accounts = accounts.map(|(account, others)| {
            let mut stored = written::document(account, others);
            let foreign = stored.remove(FOREIGN.0);
            stored = laid_out::stored(self.store(), ACCOUNTS, stored);
            stored.extend(foreign.map(|value| (FOREIGN.0.to_owned(), value)));
            stored
        });
        let accounts = accounts.collect();
        let broken = laid_out::stored(self.store(), TRANSACTIONS, broken(sequence.names));
        let (notes, events, journal) = (self.notes(), self.events(), self.journal());
        tokio::join!(
            replaced(self.store().accounts(), accounts),
            replaced(self.store().transactions(), vec![broken]),
            async { notes.delete_many(doc! {}).await.expect("notes can be deleted") },
            async { events.delete_many(doc! {}).await.expect("notes can be deleted") },
            async { journal.delete_many(doc! {}).await.expect("lines can be deleted") },
        );
    }

    /// The notes on due events.
    fn events(&self) -> Collection<Document> {
        self.store().database().collection(mongo::EVENTS)
    }

    /// The lines.
    fn journal(&self) -> Collection<Document> {
        self.store().database().collection(mongo::JOURNAL)
    }

    /// The notes on parked transactions that can't be written.
    fn notes(&self) -> Collection<Document> {
        self.store().database().collection(mongo::NOTES)
    }

    /// Every document.
    pub async fn shown(&self, terms: &Terms<'_>) -> Shown {
        let all = async |collection: Collection<Document>| {
            let found = collection.find(doc! {}).await.expect("MongoDB is there");
            found.try_collect::<Vec<_>>().await.expect("MongoDB is there")
        };
        let (accounts, transactions) = tokio::join!(self.read(ACCOUNTS), self.read(TRANSACTIONS));
        let shown = |document: &Document| {
            let id = document.get_str("_id").expect("ids are strings");
            let mut document = document.clone();
            // Where a hold was, a count stays.
            if document.get("pendingHolds").and_then(Bson::as_i64) == Some(0) {
                document.remove("pendingHolds");
            }
            (id.to_owned(), fields::of(&document, terms.begun))
        };
        let noted = |note: &Document| {
            let id = note.get_str("_id").expect("ids are strings");
            (format!("{id}, beside it"), fields::of(note, terms.begun))
        };
        let notes = all(self.notes()).await;
        let named = |what: &'static str| {
            move |document: &Document| {
                let id = document.get_str("_id").expect("ids are strings");
                (format!("{what} {id}"), fields::of(document, terms.begun))
            }
        };
        let (due, lines) = tokio::join!(all(self.events()), all(self.journal()));
        let documents = accounts.iter().chain(&transactions).map(shown);
        let noted = notes.iter().map(noted).chain(due.iter().map(named("the note on")));
        documents.chain(noted).chain(lines.iter().map(named("the line"))).collect()
    }

    /// All accounts or transactions as Tandem reads them once they are mended, with
    /// the field of the user's own.
    async fn read(&self, collection: &str) -> Vec<Document> {
        let query = self.store().query(collection, doc! {}).expect("the query is BSON");
        let found = query.find().await.expect("MongoDB is there");
        let found: Vec<RawDocumentBuf> = found.try_collect().await.expect("MongoDB is there");
        let read = |found: &RawDocumentBuf| {
            let stored = Document::try_from(found).expect("it is BSON");
            let stored = hands::undone(self.store(), collection, stored);
            let raw = RawDocumentBuf::try_from(&stored).expect("it is BSON");
            let mut own = Document::try_from(query.read(&raw).as_ref()).expect("it is BSON");
            own.extend(stored.get(FOREIGN.0).map(|value| (FOREIGN.0.to_owned(), value.clone())));
            own
        };
        found.iter().map(read).collect()
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
        let seen = |seen| Answer::seen(seen, terms.begun);
        match operation {
            Operation::Insert { transaction, content } => {
                let order = Order {
                    id: terms.transaction(*transaction).into(),
                    body: terms.sequence.bodies[*content].clone(),
                    origin: None,
                };
                self.insert(order, created_at).await
            }
            Operation::InsertBeside { first, second, commits } => {
                let created_at = DateTime::from_millis(created_at);
                let of = |at: usize| (&terms.sequence.bodies[at], terms.transaction(at));
                let ((first, first_id), (second, second_id)) = (of(*first), of(*second));
                let first = first.to_document(first_id, created_at);
                let second = second.to_raw(second_id, created_at);
                self.insert_beside(first, second, *commits).await
            }
            Operation::Holder(key) => {
                self.store().holder_of_key(KEYS[*key]).await.map(Answer::Holder)
            }
            Operation::RequestCancel(at) => Ok(self.request_cancel(terms.transaction(*at)).await),
            Operation::Confirm(at) => {
                let captured = terms.captured(*at);
                self.store()
                    .confirm_holds(&[(terms.transaction(*at).into(), captured)])
                    .await
                    .map(Answer::written)
            }
            Operation::Rest(ids, by, not_before) => {
                let not_before = terms.at(*not_before);
                let rested = ledger.rest(&terms.ids(ids), &by.claim(), not_before).await;
                rested.map(Answer::written)
            }
            Operation::MakeDue(ids) => {
                // A stamp of its own: by it a call knows what it has moved.
                let stamp = terms.at(When::Future) + created_at.rem_euclid(STAMPS);
                let moved = self.outbox().make_due(&terms.ids(ids), stamp).await;
                moved.map(|moved| Answer::Written(moved.len(), BTreeSet::new()))
            }
            Operation::Expire(ids) => {
                let expired = self.outbox().expire(&terms.ids(ids)).await;
                expired.map(|count| Answer::Written(count, BTreeSet::new()))
            }
            Operation::Reschedule(at, when) => {
                let not_before = DateTime::from_millis(terms.at(*when));
                let done = self.store().reschedule(terms.transaction(*at), not_before).await;
                done.map(|done| Answer::Written(done.into(), BTreeSet::new()))
            }
            Operation::SetStatus(at, to) => Ok(self.set_status(terms.account(*at), *to).await),
            Operation::Claim(ids, by, _) => {
                let claimed = ledger.claim(&terms.ids(ids), &by.claim()).await;
                claimed.map(|claimed| Answer::claimed(claimed, terms.begun))
            }
            Operation::Unclaim(ids, by) => {
                let given = ledger.unclaim(&terms.ids(ids), &by.claim()).await;
                given.map(|()| Answer::Released)
            }
            Operation::Read(ids) => ledger.read(&terms.ids(ids)).await.map(seen),
            Operation::Bodies(ids) => ledger.bodies(&terms.ids(ids)).await.map(Answer::bodies),
            Operation::Accounts(at, marks) => {
                ledger.accounts(&terms.looks(at, marks)).await.map(Answer::accounts)
            }
            Operation::Post { ids, grouping, before, settled } => {
                let postings = terms.riding(terms.postings(ids, *grouping), settled);
                ledger.post(&postings, terms.at(*before)).await.map(Answer::written)
            }
            Operation::Remove(kind, ids, grouping) => {
                ledger.remove(*kind, &terms.removals(ids, *grouping)).await.map(Answer::written)
            }
            Operation::Commit(guard, ids, by) => {
                ledger.commit(*guard, &terms.ids(ids), &by.claim()).await.map(Answer::written)
            }
            Operation::End(ends, by, under) => {
                let contents = ledger.bodies(&terms.ids(&operation.transactions())).await?;
                let line = terms.line(terms.heading(*by, *under), ends, &contents);
                or_refused(ledger.end(&line, &by.claim()).await.map(Answer::Ended))
            }
            Operation::Cancel(refused, by) => {
                ledger.cancel(&terms.cancelations(refused), &by.claim()).await.map(Answer::written)
            }
            Operation::Forget(line) => {
                let forgotten = ledger.forget_events(&[LINES[*line].to_owned()]).await;
                forgotten.map(|()| Answer::Released)
            }
            Operation::Transact(ids, by, under) => {
                let contents = contents(ledger.bodies(&terms.ids(ids)).await?);
                let transacted = ledger.transact(&contents, &terms.heading(*by, *under)).await;
                or_refused(transacted.map(Answer::transacted))
            }
            Operation::Park(each, by, code) => {
                ledger.park(&terms.parkings(each, *by, *code)).await.map(Answer::parked)
            }
            Operation::ParkById(ids) => {
                let ids: Vec<_> = ids.iter().map(|at| raw_id(terms.transaction(*at))).collect();
                let parked = self.store().park_by_id(&ids, &Terms::kills_workers()).await;
                parked.map(|()| Answer::Released)
            }
            Operation::Unpark(at) => {
                let back = self.store().unpark(&[terms.transaction(*at).into()]).await;
                back.map(|Unparked { back, refused }| match refused.is_empty() {
                    true => Answer::parked(back),
                    false => Answer::Refused,
                })
            }
            Operation::SpoilAccount(at, oddity) => {
                hands::spoil(self.store(), ACCOUNTS, terms.account(*at), *oddity).await;
                Ok(Answer::Edited)
            }
            Operation::SpoilTransaction(at, oddity) => {
                hands::spoil(self.store(), TRANSACTIONS, terms.transaction(*at), *oddity).await;
                Ok(Answer::Edited)
            }
            Operation::Mend => {
                hands::mend(self.store(), ACCOUNTS).await;
                hands::mend(self.store(), TRANSACTIONS).await;
                Ok(Answer::Edited)
            }
            Operation::Release { ids, by, after, not_before } => {
                let (after, not_before) = (Terms::delay(*after), terms.at(*not_before));
                let released =
                    ledger.release(&terms.ids(ids), &by.claim(), after, not_before).await;
                released.map(|()| Answer::Released)
            }
        }
    }

    async fn insert(&self, order: Order, created_at: ServerMs) -> Result<Answer, LedgerError> {
        let created_at = DateTime::from_millis(created_at);
        let (orders, keys) = ([order], Semaphore::new(1));
        let inserted =
            insert::insert(self.store(), &orders, created_at, Expect::New, &keys).await?;
        Ok(match &inserted[0] {
            known::Answer::Submitted => Answer::Submitted,
            known::Answer::Unchanged(state) => Answer::Unchanged(*state),
            known::Answer::Conflict { .. } => Answer::Refused,
            known::Answer::KeyInUse { holder, .. } => Answer::KeyInUse(holder.clone()),
            known::Answer::WithoutKeys(why) => panic!("{why}"),
            known::Answer::Refused(why) | known::Answer::Open(why) => {
                panic!("the schema refuses a valid body: {why}")
            }
            known::Answer::Superseded => panic!("it came under no idempotency key"),
        })
    }

    /// The first in a native transaction of this test's own, which stays open while the store tries
    /// the second.
    async fn insert_beside(
        &self,
        first: Document,
        second: RawDocumentBuf,
        commits: bool,
    ) -> Result<Answer, LedgerError> {
        let transactions = self.store().transactions();
        let session = self.store().database().client().start_session().await;
        let mut session = session.expect("MongoDB is there");
        let started = session.start_transaction().read_concern(ReadConcern::local()).await;
        started.expect("a transaction can be started");
        let first = laid_out::stored(self.store(), TRANSACTIONS, first);
        let first = match transactions.insert_one(first).session(&mut session).await {
            Ok(_) => Inserted::Open,
            Err(error) if is_duplicate(&error) => Inserted::Duplicate,
            Err(error) => panic!("{error}"),
        };
        let second = match self.store().insert_together(vec![second], None).await? {
            KeyedInsert::Inserted => Inserted::Open,
            KeyedInsert::Duplicate => Inserted::Duplicate,
            KeyedInsert::Conflict => Inserted::Conflict,
            KeyedInsert::Taken(why) | KeyedInsert::Refused(why) => {
                panic!("the schema refuses a valid body: {why:?}")
            }
            KeyedInsert::Superseded => panic!("it came under no idempotency key"),
        };
        let ended = match commits && first == Inserted::Open {
            true => session.commit_transaction().await,
            false => session.abort_transaction().await,
        };
        ended.expect("the transaction was open");
        Ok(Answer::Inserts([first, second]))
    }

    async fn request_cancel(&self, id: &str) -> Answer {
        match self.client.cancel(id).await {
            Ok(canceled) => Answer::Is(canceled.standing.state.expect("a known one")),
            Err(Error::WrongState { state, .. }) => Answer::Is(state),
            Err(Error::NotFound { .. }) => Answer::Refused,
            Err(error) => panic!("{error}"),
        }
    }

    async fn set_status(&self, id: &str, to: Status) -> Answer {
        let change = match to {
            Status::Open => Change::Unfreeze,
            Status::Frozen => Change::Freeze,
            Status::Closed => Change::Close,
        };
        match self.client.change_status(change, id).await {
            Ok(()) => Answer::Has(to),
            Err(Error::Refused { .. } | Error::NotFound { .. }) => Answer::Refused,
            Err(error) => panic!("{error}"),
        }
    }
}

fn is_duplicate(error: &mongodb::error::Error) -> bool {
    match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteError(error)) => error.code == DUPLICATE_KEY,
        _ => false,
    }
}

/// If the server refuses a command because of a document, that is an answer here and no error.
fn or_refused(answer: Result<Answer, LedgerError>) -> Result<Answer, LedgerError> {
    match answer {
        Err(error) if error.fault == Fault::Refused => Ok(Answer::Refused),
        answer => answer,
    }
}
