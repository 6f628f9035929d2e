//! The careless neighbour: all the time it inserts odd documents, makes accounts of its own
//! unreadable and repairs them, and publishes odd messages.
//!
//! It has connections of its own that nobody cuts; faults of the servers hit it as well. It
//! remembers what it has inserted, so that it can be judged. At the end it repairs everything: it
//! repairs accounts, removes bookkeeping that kept a transaction from being claimed, deletes
//! transactions that no message can carry, unless a worker has canceled them, and brings parked
//! ones back. A transaction that nobody can read and that may have been posted gets readable legs
//! and is canceled, as an operator would do it. An edit stores in the document what it has
//! replaced, so it can be undone even if its answer was lost.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use harness::laid_out;
use harness::odd::AccountFault;
use harness::process::program;
use harness::queues::Queues;
use ledger::account::Account;
use ledger::amount::Amount;
use ledger::transaction::{ParkCode, State};
use mongo::{ACCOUNTS, Store, TRANSACTIONS};
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use mongodb::error::Error;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::process::Command;
use tokio::sync::watch;

use super::load::{CURRENCY, OPENING};
use super::mischief::{End, Mend, Mischief, OddTransaction, PREFIX, accounts, next};

/// The pause between two steps.
const PACE: Duration = Duration::from_millis(200);
/// How long the broker may take to accept a message before the neighbour gives up.
const PUBLISH_LIMIT: Duration = Duration::from_secs(5);
/// The field of an account that keeps what a fault has replaced.
const SPOILED: &str = "spoiled";

/// A transaction that the neighbour has inserted.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its id.
    pub id: Bson,
    /// Its changes of balances if it is done.
    pub legs: Vec<(String, i64)>,
    /// How it must end.
    pub end: End,
    /// Whether the server has acknowledged it.
    pub certain: bool,
    /// The update that makes it possible to claim and read it at the end.
    pub mend: Option<Mend>,
}

/// A program that writes odd documents and messages beside Tandem.
pub struct Neighbour {
    store: Store,
    queues: Queues,
    env: BTreeMap<String, String>,
    rng: StdRng,
    /// Everything that it has inserted.
    pub written: Vec<Written>,
    /// Steps that worked, by name.
    pub steps: BTreeMap<&'static str, u64>,
    /// The positions in `written` of transactions that still need repair.
    wrong: Vec<usize>,
}

impl Neighbour {
    /// Opens its accounts.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn new(
        store: Store,
        queues: Queues,
        env: BTreeMap<String, String>,
        seed: u64,
    ) -> Result<Neighbour, String> {
        let documents = accounts().into_iter().map(|id| {
            let account = Account::new(&id, Amount::Int(OPENING));
            let account = Account { currency: Some(CURRENCY.to_owned()), ..account };
            laid_out::stored(&store, ACCOUNTS, account.to_document(DateTime::now()))
        });
        let opened = store.accounts().insert_many(documents).await;
        opened.map_err(|error| format!("the neighbour's accounts: {error}"))?;
        let rng = StdRng::seed_from_u64(seed);
        let (written, steps, wrong) = (Vec::new(), BTreeMap::new(), Vec::new());
        Ok(Neighbour { store, queues, env, rng, written, steps, wrong })
    }

    /// Takes one step after the other until it is told to stop.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) -> Neighbour {
        for number in 0.. {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                () = tokio::time::sleep(PACE) => {}
            }
            let step = next(&mut self.rng, number);
            if let Some(name) = self.carry_out(step).await {
                *self.steps.entry(name).or_default() += 1;
            }
        }
        self
    }

    /// The step's name if it succeeded. While a server is away it fails, which does not matter.
    async fn carry_out(&mut self, step: Mischief) -> Option<&'static str> {
        match step {
            Mischief::Spoil(account, fault) => {
                self.spoil(&account, &fault).await.ok().filter(|done| *done).map(|_| "spoiled")
            }
            Mischief::Mend(account) => {
                self.mend(&account).await.ok().filter(|done| *done).map(|_| "mended")
            }
            Mischief::Publish(key, body) => self.publish(key, &body).await.then_some("published"),
            Mischief::Insert(odd, message) => {
                let inserted = self.insert(*odd).await;
                if let Some(body) = message {
                    self.publish(queue::WORK, &body).await;
                }
                inserted.then_some("inserted")
            }
        }
    }

    async fn insert(&mut self, odd: OddTransaction) -> bool {
        let transactions = self.store.transactions().clone_with_type::<RawDocumentBuf>();
        let document = odd.stored(&self.store);
        let insert = transactions.insert_one(&document).bypass_document_validation(true);
        let certain = insert.await.is_ok();
        let OddTransaction { id, legs, end, mend, .. } = odd;
        self.wrong.push(self.written.len());
        self.written.push(Written { id, legs, end, certain, mend });
        certain
    }

    async fn publish(&self, key: &str, body: &[u8]) -> bool {
        let publishing = self.queues.try_publish_raw(key, body);
        tokio::time::timeout(PUBLISH_LIMIT, publishing).await.is_ok_and(|sent| sent.is_ok())
    }

    /// Makes an account unreadable; returns whether it was readable before.
    async fn spoil(&self, account: &str, fault: &AccountFault) -> Result<bool, Error> {
        let field = laid_out::path(&self.store, ACCOUNTS, fault.field());
        let keep = doc! { "field": &field, "value": format!("${field}") };
        let wrong = doc! { "$literal": fault.value() };
        let update = vec![doc! { "$set": { SPOILED: keep } }, doc! { "$set": { field: wrong } }];
        let mut whole = self.account(account);
        whole.insert(SPOILED, doc! { "$exists": false });
        let accounts = self.store.accounts();
        let spoil = accounts.update_one(whole, update);
        Ok(spoil.bypass_document_validation(true).await?.modified_count == 1)
    }

    fn account(&self, id: &str) -> Document {
        laid_out::filter(&self.store, ACCOUNTS, doc! { "_id": id })
    }

    /// Where a field of a transaction stands.
    fn path(&self, field: &str) -> String {
        laid_out::path(&self.store, TRANSACTIONS, field)
    }

    /// Repairs an account; returns whether it was unreadable.
    async fn mend(&self, account: &str) -> Result<bool, Error> {
        let accounts = self.store.accounts();
        let mut spoiled = self.account(account);
        spoiled.insert(SPOILED, doc! { "$exists": true });
        let Some(found) = accounts.find_one(spoiled).await? else { return Ok(false) };
        let Some(field) = found.get_document(SPOILED).ok().and_then(|s| s.get_str("field").ok())
        else {
            return Ok(false);
        };
        let mut of_field = self.account(account);
        of_field.insert(format!("{SPOILED}.field"), field);
        let update = vec![
            doc! { "$set": { field: format!("${SPOILED}.value") } },
            doc! { "$unset": SPOILED },
        ];
        let mend = accounts.update_one(of_field, update).bypass_document_validation(true);
        Ok(mend.await?.modified_count == 1)
    }

    /// Repairs what is still wrong, and brings back transactions that were parked for it. Called
    /// until nothing is unfinished, because a worker may park a transaction while this runs.
    ///
    /// # Errors
    /// When a server is away; or says what the producer said.
    pub async fn tidy(&mut self) -> Result<(), String> {
        let named = |error: Error| format!("the neighbour can't tidy up: {error}");
        for account in accounts() {
            self.mend(&account).await.map_err(named)?;
        }
        for at in std::mem::take(&mut self.wrong) {
            let written = &self.written[at];
            match self.put_right(written).await {
                Ok(true) => {}
                Ok(false) => self.wrong.push(at),
                Err(error) => {
                    self.wrong.push(at);
                    return Err(named(error));
                }
            }
        }
        for id in self.make_readable().await.map_err(named)? {
            self.producer(&["cancel", &id]).await?;
        }
        self.producer(&["unpark", "--all"]).await
    }

    async fn producer(&self, arguments: &[&str]) -> Result<(), String> {
        let run = Command::new(program("producer"))
            .args(arguments)
            .envs(&self.env)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = run.await.map_err(|error| format!("producer {arguments:?}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let success = output.status.success();
        if success { Ok(()) } else { Err(format!("producer {arguments:?}: {said}")) }
    }

    /// Gives readable legs to its transactions that were claimed by a worker that died, and that
    /// the next worker could not read. Returns their ids.
    async fn make_readable(&self) -> Result<Vec<String>, Error> {
        let unreadable = doc! {
            "_id": { "$regex": format!("^{PREFIX}") },
            "state": { "$in": [State::Pending, State::Canceling] },
            "parked.code": ParkCode::TransactionUnreadable.as_str(),
        };
        let unreadable = laid_out::filter(&self.store, TRANSACTIONS, unreadable);
        let transactions = self.store.transactions();
        let ids = transactions.distinct("_id", unreadable.clone()).await?;
        let mut legs = accounts().into_iter();
        let mut leg = |amount: i64| doc! { "account": legs.next(), "amount": amount };
        let mut readable = doc! { "createdAt": "$$NOW", "legs": [leg(-1), leg(1)] };
        for kept in ["_id", "state", "reason", "attempts", "leaseUntil", "takeoverAt", "parked"] {
            readable.insert(kept, format!("${}", self.path(kept)));
        }
        let readable = laid_out::stored(&self.store, TRANSACTIONS, readable);
        let update = vec![doc! { "$replaceWith": readable }];
        transactions.update_many(unreadable, update).bypass_document_validation(true).await?;
        Ok(ids.iter().filter_map(|id| id.as_str().map(str::to_owned)).collect())
    }

    /// Whether nothing is left to repair in it.
    async fn put_right(&self, written: &Written) -> Result<bool, Error> {
        let transactions = self.store.transactions();
        let itself = doc! { "_id": &written.id };
        // No worker claims it before its takeover time is a date.
        let mut timeless = itself.clone();
        let takeover_at = self.path("takeoverAt");
        let no_date = doc! { "$exists": true, "$not": { "$type": "date" } };
        timeless.insert(&takeover_at, no_date);
        let dated = doc! { "$currentDate": { takeover_at: true } };
        transactions.update_one(timeless, dated).bypass_document_validation(true).await?;
        if written.end == End::Deleted {
            // One that was canceled stays: its line names it.
            let with_state = |state: State| {
                let mut filter = doc! { "state": state };
                filter = laid_out::filter(&self.store, TRANSACTIONS, filter);
                filter.extend(itself.clone());
                filter
            };
            transactions.delete_one(with_state(State::Initial)).await?;
            let parked = self.store.database().collection::<Document>(mongo::NOTES);
            parked.delete_one(itself.clone()).await?;
            let canceled = transactions.count_documents(with_state(State::Canceled)).await?;
            return Ok(transactions.count_documents(itself).await? == canceled);
        }
        if let Some(mend) = &written.mend {
            // Final transactions, too: some readers read all documents, and need valid text in
            // them.
            let update = transactions.update_one(itself, mend.stored(&self.store));
            update.bypass_document_validation(true).await?;
        }
        Ok(true)
    }
}

/// Whether an id is one of the neighbour's.
#[must_use]
pub fn is_neighbours(id: &str) -> bool {
    id.starts_with(PREFIX)
}
