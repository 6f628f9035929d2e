//! A subscriber's books: what somebody knows of the accounts who hears of nothing but outcomes.
//!
//! Owns a process of the example in Python, which listens during the whole run. Promises a verdict:
//! the balances that it keeps are those of the accounts, and without a neighbour it has heard of
//! every end.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use harness::deployment::{MARK, root};
use harness::laid_out;
use harness::process::{Process, Signal};
use harness::queues::Queues;
use ledger::amount::Amount;
use mongo::{ACCOUNTS, Store, TRANSACTIONS};
use mongodb::bson::{Document, doc};
use serde::Deserialize;

use super::load::{OPENING, accounts};
use super::mischief;

/// How long it may take to begin.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long everything that is due may take to come, once all transactions are final.
const DUE_LIMIT: Duration = Duration::from_secs(180);
/// For so long nothing waits in its queue before it has heard everything.
const QUIET: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(200);

/// A subscriber at work.
pub struct Books {
    process: Process,
    queues: Queues,
}

/// What it prints at its end.
#[derive(Debug, Deserialize)]
struct Kept {
    balances: BTreeMap<String, i64>,
    events: u64,
}

impl Books {
    /// Starts one, and waits until it listens.
    ///
    /// # Errors
    /// When it does not.
    pub async fn open(amqp_url: &str, name: &str, logs: &Path) -> Result<Books, String> {
        let pika = std::env::var("TANDEM_PIKA")
            .map_err(|_| "TANDEM_PIKA does not say where pika is: run deploy/chaos".to_owned())?;
        let mut python = Command::new("python3");
        python.arg(root().join("producer/client/examples/follow.py")).arg("100000");
        // A neighbour's accounts, too: its transfers are told as well.
        python.args(opened().iter().map(|(account, balance)| format!("{account}={balance}")));
        python.env("PYTHONPATH", pika).env(MARK, logs);
        python.env("TANDEM_AMQP_URL", amqp_url).env("TANDEM_QUEUE_PREFIX", name);
        let mut process = Process::start(&mut python, logs.join("subscriber.log"));
        let begun = Instant::now();
        while !process.log().contains("listening") {
            if process.exited().is_some() || begun.elapsed() > START_LIMIT {
                return Err(format!("the subscriber does not listen: {}", process.log()));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(Books { process, queues: Queues::new(amqp_url, name) })
    }

    /// Waits until it has heard everything, ends it, and compares; `whole` says whether it must
    /// have heard of every end, and `others` what nobody tells of. Returns the number of different
    /// events, and what is wrong.
    ///
    /// # Errors
    /// When the database can't be read.
    pub async fn close(
        mut self,
        store: &Store,
        whole: bool,
        others: &HashMap<String, i64>,
    ) -> Result<(u64, Vec<String>), String> {
        if !self.has_heard_everything(store).await? {
            return Ok((0, vec![format!("events are still due {DUE_LIMIT:?} after the last end")]));
        }
        self.process.signal(Signal::Term);
        let status = self.process.exit(Duration::from_secs(30)).await;
        let log = self.process.log();
        let printed = log.lines().rev().find_map(|line| serde_json::from_str::<Kept>(line).ok());
        let Some(kept) = printed.filter(|_| status.success()) else {
            return Ok((0, vec![format!("the subscriber has ended by itself: {log}")]));
        };
        let mut wrong = compare(store, &kept.balances, others).await?;
        let failed = |error: mongodb::error::Error| error.to_string();
        let ended = doc! { "state": { "$in": ["done", "canceled"] } };
        let ended = laid_out::count(store, TRANSACTIONS, ended).await.map_err(failed)?;
        if whole && ended != kept.events {
            wrong.push(format!("{ended} transactions have ended, and {} are told of", kept.events));
        }
        Ok((kept.events, wrong))
    }

    /// Waits until no event is due, and none waits in the queue.
    async fn has_heard_everything(&self, store: &Store) -> Result<bool, String> {
        let due = store.database().collection::<Document>(mongo::EVENTS);
        let begun = Instant::now();
        let mut busy_at = begun;
        while begun.elapsed() < DUE_LIMIT {
            let noted = due.count_documents(doc! {}).await.map_err(|error| error.to_string())?;
            if noted > 0 || self.queues.depth_named("balances").await != Some(0) {
                busy_at = Instant::now();
            } else if busy_at.elapsed() > QUIET {
                return Ok(true);
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(false)
    }
}

/// The accounts whose balances are kept, as they begin.
pub fn opened() -> BTreeMap<String, i64> {
    let all = accounts().into_iter().chain(mischief::accounts());
    all.map(|account| (account, OPENING)).collect()
}

/// What differs between balances that were kept by events and those of the accounts; `others` is
/// what nobody tells of.
pub async fn compare(
    store: &Store,
    kept: &BTreeMap<String, i64>,
    others: &HashMap<String, i64>,
) -> Result<Vec<String>, String> {
    let documents = laid_out::find(store, ACCOUNTS, doc! {}).await;
    let mut wrong = Vec::new();
    for document in documents.map_err(|error| error.to_string())? {
        let account = document.get_str("_id").unwrap_or_default();
        let Some(balance) = kept.get(account) else { continue };
        let stands = document.get("balance").and_then(|value| Amount::from_bson(value).ok());
        let balance = balance + others.get(account).unwrap_or(&0);
        if stands != Some(Amount::Int(balance)) {
            wrong.push(format!("events make {balance} of account {account}, which has {stands:?}"));
        }
    }
    Ok(wrong)
}
