//! Audits of a ledger that is in use: what they say stands for one moment, and they need the server's
//! history for a few seconds only.

use std::sync::{Arc, Mutex, mpsc};

use common::transaction::{Body, State, Terms, TransactionId};
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use mongodb::bson::{Bson, DateTime, Document, Timestamp, doc};
use producer::audit::{Options, Report, Rule};
use producer::{Capture, Client};
use tokio::sync::Notify;

/// After so many documents the audit first says how far it is.
const PROGRESS_EVERY: u64 = 8_192;
/// The audit asks for 5,000 transactions at a time. What is stored after these is read after it has said so.
const READ_BEFORE: usize = 10_000;

/// Transactions that have ended long ago, and have moved nothing.
async fn fill(world: &World, count: usize) {
    let long_ago = DateTime::from_millis(1_600_000_000_000);
    let canceled = |at: usize| {
        let (id, body) = transfer(&format!("old-{at}"), "a", "b", 1);
        let mut document = body.to_document(&id, long_ago);
        document.insert("state", Bson::from(State::Canceled));
        document.insert("reason", doc! { "code": "requested", "message": "long ago" });
        document
    };
    let documents: Vec<Document> = (0..count).map(canceled).collect();
    world.store.transactions().insert_many(documents).await.expect("MongoDB is there");
}

/// The server's time.
async fn now(world: &World) -> Timestamp {
    let answer = world.store.database().run_command(doc! { "ping": 1 }).await;
    let answer = answer.expect("MongoDB is there");
    answer.get_timestamp("operationTime").expect("a member of a replica set has it")
}

/// Whether the server still has the accounts as they were then.
async fn has_history(world: &World, at: Timestamp) -> bool {
    let level = doc! { "level": "snapshot", "atClusterTime": at };
    let find = doc! { "find": "accounts", "readConcern": level };
    world.store.database().run_command(find).await.is_ok()
}

/// Audits, and does something between the reading of the first transactions and of the others.
async fn audit_with_pause(client: &Client, meanwhile: impl Future<Output = ()>) -> Report {
    let reached = Arc::new(Notify::new());
    let (resume, waits) = mpsc::channel::<()>();
    let (client, reaches, waits) = (client.clone(), reached.clone(), Mutex::new(waits));
    let audited = tokio::spawn(async move {
        let progress = |read: u64, what: &str| {
            if read == PROGRESS_EVERY {
                assert_eq!(what, "accounts and transactions");
                reaches.notify_one();
                let waiting = waits.lock().expect("nobody else has it");
                tokio::task::block_in_place(|| waiting.recv()).expect("the test goes on");
            }
        };
        client.audit(Options::default(), progress).await
    });
    reached.notified().await;
    meanwhile.await;
    resume.send(()).expect("the audit waits");
    audited.await.expect("it does not panic").expect("the server keeps what an audit needs")
}

fn on_terms((id, body): (TransactionId, Body), terms: Terms) -> (TransactionId, Body) {
    (id, body.with_terms(terms).expect("terms that fit"))
}

fn keyed(id: &str) -> (TransactionId, Body) {
    let terms = Terms { exclusive_key: Some("a-for-b".into()), ..Terms::default() };
    on_terms(transfer(id, "a", "b", 1), terms)
}

fn hold(id: &str) -> (TransactionId, Body) {
    on_terms(transfer(id, "a", "b", 20), Terms { hold: true, ..Terms::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_stands_for_one_moment_although_it_takes_longer_than_the_server_keeps_history() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let client = world.client().await;
    world.insert(&[keyed("k1")]).await;
    fill(&world, READ_BEFORE).await;
    // These are read after the pause.
    let worker = world.worker("one").start().await;
    world.submit(&[transfer("ended-before", "a", "b", 10), hold("held")], 1).await;
    world.wait_state("ended-before", State::Done, s(30)).await;
    world.wait_state("held", State::Held, s(30)).await;
    drop(worker);
    world.insert(&[transfer("waits", "a", "b", 3)]).await;

    let begun = now(&world).await;
    let report = audit_with_pause(&client, async {
        let worker = world.worker("two").start().await;
        world.publish(&["k1".into(), "waits".into()], 1).await;
        client.confirm("held", &Capture::All).await.expect("it is held");
        world.submit(&[transfer("new", "a", "b", 4)], 1).await;
        for id in ["k1", "waits", "held", "new"] {
            world.wait_state(id, State::Done, s(30)).await;
        }
        drop(worker);
        world.insert(&[keyed("k2")]).await;
        wait_until("the moment is gone", s(60), async || !has_history(&world, begun).await).await;
    })
    .await;
    assert_eq!(report.violations, [], "of {report:?}");
    assert!(report.snapshot);
    assert_eq!(report.transactions, READ_BEFORE as u64 + 6);

    // The same documents with one unit too much are no books that balance.
    let spoil = doc! { "$inc": { "balance": 1_i64 } };
    world.store.accounts().update_one(doc! { "_id": "b" }, spoil).await.expect("it is there");
    let report = audit_with_pause(&client, async {}).await;
    let found: Vec<&str> = report.violations.iter().map(|one| one.document.as_str()).collect();
    assert_eq!(found, ["accounts/b", "accounts (no currency)"]);
    world.finish().await;
}

#[tokio::test]
async fn ids_and_marks_of_megabytes_are_violations_and_end_no_audit() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let long = |letter: &str| letter.repeat(5_000_000);
    let (accounts, transactions) = (world.store.accounts(), world.store.transactions());
    // Together they are more than one command may hold.
    for letter in ["w", "x", "y", "z"] {
        let id = if letter < "y" { "a" } else { "b" };
        let mark = doc! { "$push": { "pendingTransactions": long(letter) } };
        let update = accounts.update_one(doc! { "_id": id }, mark);
        update.bypass_document_validation(true).await.expect("the server takes it");
        let (_, body) = transfer("t", "a", "b", 1);
        let mut document = body.to_document(&long(letter), DateTime::now());
        document.insert("state", Bson::from(State::Done));
        document.insert("exclusiveKey", letter);
        let insert = transactions.insert_one(document);
        insert.bypass_document_validation(true).await.expect("the server takes it");
    }
    let client = world.client().await;
    let report = client.audit(Options::default(), |_, _| {}).await.expect("it comes to its end");
    let of_marks = report.violations.iter().filter(|one| one.rule == Rule::Marks).count();
    assert_eq!((of_marks, report.transactions), (2, 4), "{:?}", report.violation_count);
    world.finish().await;
}
