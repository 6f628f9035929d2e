//! The rows of the engines: a worker settles a few transactions while one of its commands fails.
//!
//! Owns what each transaction has to become, whatever fails: paid, refused for want of funds, held,
//! due and paid. After a fault that may pass, the worker has to bring all of them there by itself.
//! After one that looks as if it lasted, it may park, or end and say why; then the next worker goes
//! on from there.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime};

use client::Submission;
use engine::EngineKind;
use futures_util::TryStreamExt;
use harness::proxy::{Relay, Sent};
use ledger::account::Account;
use ledger::amount::Amount;
use mongodb::bson::{Bson, Document, doc};
use worker::WorkerHandle;

use crate::cell::{Cell, Outcome, Position};
use crate::ground::{Ground, stop};

/// How long a worker may take for its transactions, whatever fails once: blocks, a takeover,
/// delays.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a worker goes on beyond its work if its command has not come: each part of it has had
/// its turn.
const FAULT_LIMIT: Duration = Duration::from_secs(5);
/// How long a healthy worker goes on beyond its work when its commands are recorded, so that every
/// part of it has had its turn.
const RECORDED_FOR: Duration = Duration::from_secs(3);
/// Between two looks.
const POLL: Duration = Duration::from_millis(30);
/// When what is scheduled becomes due.
const DUE_IN: Duration = Duration::from_millis(300);

/// Runs a worker without fault; the first of each of its commands.
///
/// # Panics
/// When it does not bring its transactions to their end.
pub async fn record(ground: &Ground, engine: EngineKind) -> Vec<Position> {
    let subject = format!("{}-recorded", engine.as_str());
    prepare(ground, &subject).await;
    let relay = Relay::start(ground.mongo.clone(), &Ground::app_name(&subject)).await;
    let worker = ground.worker(&subject, engine, &relay.uri());
    let left = wait(ground, &subject, &worker, || true).await;
    assert!(left.is_empty(), "{} without fault: {left:?}", engine.as_str());
    tokio::time::sleep(RECORDED_FOR).await;
    stop(worker).await;
    let mut met = HashSet::new();
    let first = |sent: &Sent| met.insert(sent.clone());
    let firsts = relay.sent().into_iter().filter(first);
    firsts.map(|sent| Position { sent, nth: 1 }).collect()
}

/// Runs one cell.
pub async fn run(ground: &Ground, engine: EngineKind, cell: Cell, subject: String) -> Outcome {
    prepare(ground, &subject).await;
    let relay = Relay::start(ground.mongo.clone(), &Ground::app_name(&subject)).await;
    relay.spoil(cell.spoil());
    let worker = ground.worker(&subject, engine, &relay.uri());
    let mut problems = wait(ground, &subject, &worker, || relay.spoiled() > 0).await;
    relay.release();
    relay.settled(LIMIT).await;
    stop(worker).await;
    let was_met = relay.spoiled() > 0;
    if !problems.is_empty() {
        if cell.class.lasts {
            problems.clear();
        }
        let healthy = ground.healthy_worker();
        ground.come_to_rest().await;
        problems.extend(wait(ground, &subject, &healthy, || true).await);
        stop(healthy).await;
    }
    problems.extend(left(ground, &subject).await);
    problems.extend(ground.broken_rules().await);
    Outcome { cell, told: Vec::new(), problems, was_met }
}

/// What a transaction has to become.
struct Expected {
    id: String,
    state: &'static str,
    reason: Option<&'static str>,
}

fn expected(subject: &str) -> [Expected; 5] {
    let one =
        |name: &str, state, reason| Expected { id: format!("{subject}/{name}"), state, reason };
    [
        one("paid", "done", None),
        one("split", "done", None),
        one("refused", "canceled", Some("insufficient_funds")),
        one("held", "held", None),
        one("due", "done", None),
    ]
}

/// Submits what the worker is to settle.
async fn prepare(ground: &Ground, subject: &str) {
    let account = |role: &str| format!("{subject}/{role}");
    let (a, b, c) = (account("a"), account("b"), account("c"));
    let opened = [(&a, 100), (&b, 0), (&c, 0)];
    let opened = opened.map(|(id, balance)| Account::new(id, Amount::Int(balance)));
    ground.world.open(&opened).await;
    let id = |name: &str| format!("{subject}/{name}");
    let due = SystemTime::now() + DUE_IN;
    let submissions = [
        Submission::transfer(&a, &b, 7).with_id(id("paid")),
        Submission::legs([(a.as_str(), -3), (b.as_str(), 1), (c.as_str(), 2)]).with_id(id("split")),
        Submission::transfer(&c, &b, 500).with_id(id("refused")),
        Submission::transfer(&a, &c, 5).with_id(id("held")).held(),
        Submission::transfer(&a, &b, 2).with_id(id("due")).not_before(due),
    ];
    for result in ground.client.submit_all(submissions).await {
        result.expect("a healthy client submits");
    }
}

/// Waits until all is as it has to be and the fault has come; what is not as it has to be after
/// [`LIMIT`], or when the worker has ended by itself.
async fn wait(
    ground: &Ground,
    subject: &str,
    worker: &WorkerHandle,
    has_come: impl Fn() -> bool,
) -> Vec<String> {
    let (begun, mut all_is_so) = (Instant::now(), None);
    loop {
        let (ended, late) = (worker.is_finished(), begun.elapsed() > LIMIT);
        let mut left = left(ground, subject).await;
        if left.is_empty() {
            let since: Instant = *all_is_so.get_or_insert_with(Instant::now);
            if has_come() || since.elapsed() > FAULT_LIMIT {
                return left;
            }
        }
        if ended {
            left.push("the worker has ended by itself".to_owned());
        }
        if ended || late {
            return left;
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What is not as it has to be.
async fn left(ground: &Ground, subject: &str) -> Vec<String> {
    let expected = expected(subject);
    let ids: Vec<Bson> = expected.iter().map(|one| Bson::from(&one.id)).collect();
    let filter = doc! { "_id": { "$in": ids } };
    let found = ground.world.store.transactions().find(filter).await.expect("MongoDB is there");
    let found: Vec<Document> = found.try_collect().await.expect("MongoDB is there");
    let is_so = |one: &Expected| {
        let document = found.iter().find(|found| found.get_str("_id").is_ok_and(|id| id == one.id));
        let Some(document) = document else { return Err("is not there".to_owned()) };
        let reason = document.get_document("reason").and_then(|reason| reason.get_str("code"));
        let is_so = document.get_str("state").ok() == Some(one.state) && reason.ok() == one.reason;
        let fields = ["state", "reason", "parked"];
        let of = |field: &&str| document.get(field).map(|value| format!("{field} {value}"));
        let told = || fields.iter().filter_map(of).collect::<Vec<_>>().join(", ");
        if is_so { Ok(()) } else { Err(told()) }
    };
    let wrong = |one: &Expected| {
        let found = is_so(one).err()?;
        Some(format!("{} has to be {}, and is {found}", one.id, one.state))
    };
    expected.iter().filter_map(wrong).collect()
}
