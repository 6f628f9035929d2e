//! Waiting for the ends of transactions, or until they are held.
//!
//! Owns one task that asks for all awaited ids together, so that a thousand callers cost one query.
//! It asks often while transactions end or new ones are awaited, at once when an event says that
//! one has ended, and more rarely while nothing happens. Promises an answer to everyone who still
//! waits. Fails when the database stays away for longer than
//! [`Config::give_up_after`](crate::Config::give_up_after).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::LedgerError;
use ledger::transaction::TransactionId;
use mongo::{Fields, Store, TRANSACTIONS};
use mongodb::bson::RawDocumentBuf;
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;
use crate::listening::Listening;
use crate::readable::readable;
use crate::servers::Servers;
use crate::shared_task::SharedTask;
use crate::standing::{Outcome, Standing};

/// The most ids of one query.
const QUESTION_MAX: usize = 1_000;
/// The shortest and the longest pause between queries.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));
/// The most calls that are accepted between two queries.
const CALLS_MAX: usize = 1_000;

pub(crate) async fn standings(
    store: &Store,
    ids: &[&str],
) -> Result<HashMap<String, Standing>, LedgerError> {
    let mut found = HashMap::with_capacity(ids.len());
    for ids in ids.chunks(QUESTION_MAX) {
        let fields = Fields::Only(&["state", "reason"]);
        let documents = store.documents("standings", TRANSACTIONS, ids, fields).await?;
        let keyed = |document: &RawDocumentBuf| {
            Some((document.get_str("_id").ok()?.to_owned(), Standing::of(&readable(document))))
        };
        found.extend(documents.iter().filter_map(keyed));
    }
    Ok(found)
}

type Answer = oneshot::Sender<Result<Outcome, Error>>;
type Call = (TransactionId, Answer);

/// The handle to the task. Clones share the task.
#[derive(Clone)]
pub(crate) struct Watch {
    task: SharedTask<Call>,
    servers: Arc<Servers>,
}

impl Watch {
    pub fn new(servers: Arc<Servers>) -> Watch {
        Watch { task: SharedTask::default(), servers }
    }

    pub(crate) async fn put(&self, id: TransactionId) -> oneshot::Receiver<Result<Outcome, Error>> {
        let (answer, answered) = oneshot::channel();
        self.task.send((id, answer), |calls| run(self.servers.clone(), calls)).await;
        answered
    }
}

/// Asks until every client is gone and nobody waits.
async fn run(servers: Arc<Servers>, mut calls: mpsc::Receiver<Call>) {
    let mut waiting: HashMap<TransactionId, Vec<Answer>> = HashMap::new();
    let mut arrived = Vec::new();
    let mut pause = PAUSE.0;
    let mut listening = Listening::new(servers.clone());
    loop {
        let news = if waiting.is_empty() {
            let news = calls.recv_many(&mut arrived, CALLS_MAX).await;
            // Most waits are over before listening is worth it.
            listening.stop();
            news
        } else {
            tokio::select! {
                biased;
                news = calls.recv_many(&mut arrived, CALLS_MAX) => news,
                // Its document is final within milliseconds.
                () = one_of(&mut listening, &waiting) => { pause = PAUSE.0; 0 },
                () = tokio::time::sleep(pause) => 0,
            }
        };
        if news == 0 && waiting.is_empty() {
            return;
        }
        for (id, answer) in arrived.drain(..) {
            waiting.entry(id).or_default().push(answer);
        }
        let asked = Instant::now();
        let ended = ask(&servers, &mut waiting).await;
        pause = if ended > 0 || news > 0 { PAUSE.0 } else { (pause * 3 / 2).min(PAUSE.1) };
        // With many ids a query takes long: at least half of the time no query runs.
        pause = pause.max(asked.elapsed());
        if waiting.is_empty() {
            // Events that nobody takes would fill the broker.
            listening.stop();
        }
    }
}

/// Returns when one of those that are awaited has ended, if that can be heard.
async fn one_of(listening: &mut Listening, waiting: &HashMap<TransactionId, Vec<Answer>>) {
    while !waiting.contains_key(&listening.heard().await.id) {}
}

/// Asks for all ids, answers those that have ended, and returns how many these were.
async fn ask(servers: &Servers, waiting: &mut HashMap<TransactionId, Vec<Answer>>) -> usize {
    waiting.retain(|_, answers| {
        answers.retain(|answer| !answer.is_closed());
        !answers.is_empty()
    });
    let ids: Vec<TransactionId> = waiting.keys().cloned().collect();
    let names: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
    let limit = servers.config.give_up_after;
    let found = servers.insist(limit, || standings(&servers.store, &names)).await;
    let before = waiting.len();
    for id in &ids {
        let found = found.as_ref().map(|found| found.get(id.as_ref()));
        let result = match found {
            Err(error) => Err(error.clone()),
            Ok(None) => Err(Error::no_transaction(id)),
            Ok(Some(standing)) => match standing.outcome() {
                Some(outcome) => Ok(outcome),
                None => continue,
            },
        };
        for answer in waiting.remove(id).into_iter().flatten() {
            // Sending fails only if the caller has gone away.
            drop(answer.send(result.clone()));
        }
    }
    before - waiting.len()
}
