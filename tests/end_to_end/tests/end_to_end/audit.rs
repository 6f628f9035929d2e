//! Audits of a ledger that is in use: each account stands for one moment, and they need the
//! server's history for a few seconds only. `lines` has what they say of the journal, `order` what
//! they say of the numbers.

mod lines;
mod order;

use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use audit::{Options, Report, Rule};
use client::{Capture, Client};
use harness::odd;
use harness::replica_set::OwnSet;
use harness::wait::{promised, s, wait_until};
use harness::world::{World, transfer};
use ledger::transaction::{Body, State, Terms, TransactionId};
use mongo::JOURNAL;
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, Timestamp, doc};
use mongodb::options::Acknowledgment;
use tokio::sync::Notify;

/// After so many documents the audit first says how far it is.
const PROGRESS_EVERY: u64 = 8_192;
/// The audit asks for 5,000 transactions at a time. What is stored after these is read after it has
/// said so.
const READ_BEFORE: usize = 10_000;

async fn audited(world: &World) -> Report {
    let client = world.client().await;
    audit::run(&client, Options::default(), |_, _| {}).await.expect("it comes to its end")
}

/// Transactions that have ended long ago, all in one line, and have moved nothing.
async fn fill(world: &World, count: usize) {
    let long_ago = DateTime::from_millis(1_600_000_000_000);
    let canceled = |at: usize| {
        let (id, body) = transfer(&format!("old-{at}"), "a", "b", 1);
        let mut document = body.to_document(&id, long_ago);
        document.insert("state", Bson::from(State::Canceled));
        document.insert("reason", doc! { "code": "requested", "message": "long ago" });
        document.insert("line", "old");
        document
    };
    let documents: Vec<Document> = (0..count).map(canceled).collect();
    world.store.transactions().insert_many(documents).await.expect("MongoDB is there");
    let entry = |at| vec![Bson::from(format!("old-{at}")), 0.into(), 1.into()];
    let line = doc! {
        "_id": "old", "kind": "tandem-line", "at": long_ago, "application": "w",
        "accounts": ["a", "b"], "nets": [0_i64, 0_i64], "done": [],
        "canceled": (0..count).map(entry).collect::<Vec<_>>(),
    };
    journal(world).insert_one(line).await.expect("MongoDB is there");
}

fn journal(world: &World) -> Collection<Document> {
    world.store.database().collection(JOURNAL)
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
        audit::run(&client, Options::default(), progress).await
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

/// Settles a transfer; no worker runs after it.
async fn settle(world: &World, transfer: (TransactionId, Body)) {
    let worker = world.worker("one").start().await;
    let id = transfer.0.clone();
    world.submit(&[transfer], 1).await;
    world.wait_state(id.as_ref(), State::Done, s(30)).await;
    drop(worker);
}

/// The documents in which something is wrong.
fn found(report: &Report) -> Vec<&str> {
    report.violations.iter().map(|one| one.document.as_str()).collect()
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
    assert_eq!(found(&report), ["accounts/b", "accounts (no currency)"]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_that_reads_accounts_at_many_moments_is_exact_while_transactions_move_between_them()
 {
    let world = World::new().await;
    let names: Vec<String> = (0..40).map(|at| format!("a{at:02}")).collect();
    let accounts: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1_000)).collect();
    world.accounts(&accounts).await;
    let transfers: Vec<_> = (0..6_000)
        .map(|at| {
            let (from, to) = (&names[at % 40], &names[(at * 7 + 3) % 40]);
            // Some are refused.
            let value = if at % 97 == 5 { 1_000_000 } else { 1 };
            let one = transfer(&format!("t{at}"), from, to, value);
            if at % 100 == 0 {
                on_terms(one, Terms { hold: true, ..Terms::default() })
            } else {
                one
            }
        })
        .collect();
    let workers = tokio::join!(
        world.worker("one").flag("--batch-size", 40).flag("--ride-ms", 2_000).start(),
        world.worker("two").flag("--batch-size", 40).flag("--engine", "auto").start(),
    );
    world.submit(&transfers, 20).await;
    let client = world.client().await;
    let options = Options { accounts_at_once: 7, ..Options::default() };
    let mut in_use = 0;
    loop {
        let report = audit::run(&client, options, |_, _| {}).await.expect("it comes to its end");
        assert_eq!(report.violations, [], "after {in_use} audits: {report:?}");
        assert_eq!((report.accounts, report.moments), (40, 6));
        assert_eq!(report.transactions, transfers.len() as u64);
        let held = doc! { "state": Bson::from(State::Held) };
        let held =
            world.store.transactions().distinct("_id", held).await.expect("MongoDB is there");
        for id in held.iter().filter_map(Bson::as_str).take(10) {
            client.confirm(id, &Capture::All).await.expect("it is held");
        }
        if held.is_empty() && world.count(&State::UNFINISHED).await == 0 {
            break;
        }
        in_use += 1;
    }
    assert!(in_use >= 3, "{in_use} audits of a ledger in use");
    assert!(world.count(&[State::Canceled]).await > 50, "some are refused");
    drop(workers);

    // What is wrong is named whichever piece it is in, and so are `_id`s that are no texts.
    let all = world.store.accounts();
    for id in ["a03", "a39"] {
        let spoil = doc! { "$inc": { "balance": 1_i64 } };
        all.update_one(doc! { "_id": id }, spoil).await.expect("it is there");
    }
    odd::insert(&all, &[doc! { "_id": 7 }, doc! { "_id": { "n": 7 } }]).await;
    let report = audit::run(&client, options, |_, _| {}).await.expect("it comes to its end");
    assert_eq!(report.accounts, 42);
    let lines = journal(&world).count_documents(doc! {}).await.expect("MongoDB is there");
    assert_eq!((report.lines, lines > 50), (lines, true), "{lines} lines");
    let expected = [
        "accounts/7 (no text)",
        "accounts/{ \"n\": 7 } (no text)",
        "accounts/a03",
        "accounts/a39",
        "accounts (no currency)",
    ];
    assert_eq!(found(&report), expected);
    world.finish().await;
}

#[tokio::test]
async fn a_document_whose_id_is_no_text_hides_none_whose_id_reads_the_same() {
    let world = World::new().await;
    world.accounts(&[("true", 100), ("b", 0)]).await;
    let client = world.client().await;
    settle(&world, transfer("5", "true", "b", 10)).await;
    let account = doc! { "_id": true };
    let (_, body) = transfer("5", "true", "b", 10);
    let mut document = body.to_document("5", DateTime::now());
    document.insert("_id", 5);
    document.insert("state", Bson::from(State::Pending));
    odd::insert(&world.store.accounts(), &[account]).await;
    odd::insert(&world.store.transactions(), &[document]).await;
    let report =
        audit::run(&client, Options::default(), |_, _| {}).await.expect("it comes to its end");
    assert_eq!(found(&report), ["accounts/true (no text)"], "of {report:?}");
    assert_eq!((report.transactions, report.in_flight), (2, 1));
    world.finish().await;
}

#[tokio::test]
async fn an_audit_ends_although_transactions_go_on_ending() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let client = world.client().await;
    settle(&world, transfer("t", "a", "b", 10)).await;
    let transactions = world.store.transactions();
    let done = transactions.find_one(doc! { "_id": "t" }).await.expect("MongoDB is there");
    let mut done = done.expect("it was submitted");
    // In the server's log this is one more transaction that becomes done. (What the audit finds
    // wrong with one that becomes done again and again is not looked at here.)
    let go_on = async {
        for note in 0_i64.. {
            done.insert("note", note);
            transactions.replace_one(doc! { "_id": "t" }, &done).await.expect("MongoDB is there");
        }
    };
    let begun = Instant::now();
    let report = tokio::select! {
        report = audit::run(&client, Options::default(), |_, _| {}) => report.expect("it ends"),
        () = go_on => unreachable!("it goes on"),
    };
    assert!(report.snapshot, "{report:?}");
    // What changes a minute after it began would say by its date that it does not matter.
    assert!(begun.elapsed() < promised(s(30)), "it took {:?}", begun.elapsed());
    world.finish().await;
}

#[tokio::test]
async fn an_audit_ends_while_only_the_primary_has_the_last_writes() {
    let set = OwnSet::start("audit").await;
    let world = World::on(set.servers()).await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    settle(&world, transfer("t", "a", "b", 10)).await;
    set.hold_back_secondaries().await;
    let accounts = world.store.accounts();
    for note in 0..10 {
        let write = accounts.update_one(doc! { "_id": "a" }, doc! { "$set": { "note": note } });
        write.write_concern(Acknowledgment::Nodes(1).into()).await.expect("the primary takes it");
    }
    let client = world.client().await;
    let audit = audit::run(&client, Options::default(), |_, _| {});
    let report = tokio::time::timeout(s(60), audit).await.expect("it ends");
    assert_eq!(report.expect("it can be read").violations, []);
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
        document.insert("line", long(letter));
        document.insert("exclusiveKey", letter);
        let insert = transactions.insert_one(document);
        insert.bypass_document_validation(true).await.expect("the server takes it");
    }
    let client = world.client().await;
    let report =
        audit::run(&client, Options::default(), |_, _| {}).await.expect("it comes to its end");
    let of = |rule| report.violations.iter().filter(|one| one.rule == rule).count();
    assert_eq!((of(Rule::Marks), report.transactions), (2, 4), "{:?}", report.violation_count);
    assert_eq!(of(Rule::Line), 4, "their lines can be none");
    world.finish().await;
}
