//! What is inserted only: it is settled at once where its document says so.

use harness::wait::{s, wait_until};
use harness::worker::wait_swept;
use harness::world::{World, transfer};
use ledger::transaction::{State, TransactionId, UNPUBLISHED};
use mongo::{MongoOutbox, TRANSACTIONS};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::layouts::{SCHEMA, collection, user, world_of};

async fn world() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    world
}

/// A transfer of 1 from a to b, as a program without any of Tandem's libraries writes it.
fn document(id: &str, created_at: DateTime) -> Document {
    doc! {
        "_id": id, "source": "a", "destination": "b", "value": 1, "state": "initial",
        "createdAt": created_at, "lastModified": created_at, UNPUBLISHED: true,
    }
}

async fn insert(world: &World, documents: &[Document]) {
    let inserted = world.store.transactions().insert_many(documents).await;
    inserted.expect("MongoDB is there");
}

/// A worker that does not sweep during a test: a sweep publishes what is undated or old, too.
async fn worker(world: &World, name: &str) -> harness::worker::Worker {
    let hour_ms = 3_600_000;
    world.worker(name).flag("--orphan-ms", hour_ms).flag("--sweep-ms", hour_ms).start().await
}

async fn swept(worker: &harness::worker::Worker, kind: &str) -> f64 {
    worker.metrics().await.sum("tandem_swept_total", &[("kind", kind)])
}

#[tokio::test]
async fn what_says_that_it_is_not_published_is_settled_without_a_message_however_old_it_is() {
    let world = world().await;
    let workers = (worker(&world, "one").await, worker(&world, "two").await);
    let hours_ago = DateTime::from_millis(DateTime::now().timestamp_millis() - 10 * 3_600_000);
    let dates = [DateTime::now(), hours_ago];
    let documents: Vec<_> = (0..200).map(|n| document(&format!("t{n}"), dates[n % 2])).collect();
    insert(&world, &documents).await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 200);
    wait_swept(&[&workers.0, &workers.1], "unpublished", 200.0).await;
    let forgotten = swept(&workers.0, "unclaimed").await + swept(&workers.1, "unclaimed").await;
    assert_eq!(forgotten, 0.0, "no sweep was waited for");
    let old = world.transaction("t1").await;
    assert_eq!(old.get_datetime("createdAt").ok(), Some(&hours_ago), "it is as it was submitted");
    assert!(!old.contains_key(UNPUBLISHED), "{old}");
    world.assert_at_rest().await;
    drop(workers);
    world.finish().await;
}

#[tokio::test]
async fn one_worker_takes_up_each_and_the_sweeper_finds_it_if_that_one_dies() {
    let world = world().await;
    let outbox = MongoOutbox::new(world.store.clone());
    let long_ago = DateTime::from_millis(DateTime::now().timestamp_millis() - 3_600_000);
    let dates = [DateTime::now(), long_ago];
    let documents: Vec<_> = (0..30).map(|n| document(&format!("t{n}"), dates[n % 2])).collect();
    insert(&world, &documents).await;
    let found = outbox.unpublished(100).await.expect("MongoDB is there").ids;
    let in_order: Vec<TransactionId> = (0..30).map(|n| format!("t{n}").into()).collect();
    assert_eq!(found, in_order, "in the order of their insertion");
    let taken = async |ids: &[TransactionId], worker| {
        outbox.take_up(ids, worker, 1).await.expect("MongoDB is there")
    };
    assert_eq!(taken(&found[..10], "first").await, in_order[..10]);
    let by_second: Vec<TransactionId> = taken(&found, "second").await;
    assert_eq!(by_second, in_order[10..], "the others are somebody else's");
    assert_eq!(taken(&found, "third").await, []);
    let stamped = doc! { "sweepAfter": { "$type": "date" } };
    let stamped = world.store.transactions().count_documents(stamped).await;
    assert_eq!(stamped.expect("MongoDB is there"), 15, "those of long ago");
    assert!(outbox.unpublished(100).await.expect("MongoDB is there").ids.is_empty());
    // Who has taken them up has died, and nobody has a message.
    let worker = world.worker("one").flag("--orphan-ms", 500).flag("--sweep-ms", 100);
    let worker = worker.start().await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 30);
    wait_swept(&[&worker], "unclaimed", 30.0).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn where_the_field_means_nothing_it_goes_and_what_is_not_tandems_keeps_it() {
    let world = world().await;
    let tomorrow = DateTime::from_millis(DateTime::now().timestamp_millis() + 86_400_000);
    let mut scheduled = document("scheduled", DateTime::now());
    scheduled.extend(doc! { "state": "scheduled", "notBefore": tomorrow, "dueAt": tomorrow });
    let mut ended = document("ended", DateTime::now());
    ended.insert("state", "canceled");
    let strangers: Vec<Document> =
        (0..3_000).map(|n| doc! { "_id": n, UNPUBLISHED: true, "title": "a draft" }).collect();
    let unchecked = world.store.database().clone();
    let command = doc! {
        "insert": TRANSACTIONS,
        "documents": strangers.into_iter().chain([scheduled, ended]).collect::<Vec<_>>(),
        "bypassDocumentValidation": true,
    };
    unchecked.run_command(command).await.expect("MongoDB is there");
    let worker = worker(&world, "one").await;
    insert(&world, &[document("t", DateTime::now())]).await;
    world.wait_state("t", State::Done, s(60)).await;
    wait_until("the field is gone", s(60), async || {
        let ours = doc! { UNPUBLISHED: true, "_id": { "$type": "string" } };
        let left = world.store.transactions().count_documents(ours).await;
        left.expect("MongoDB is there") == 0
    })
    .await;
    let strangers = doc! { UNPUBLISHED: true, "title": "a draft" };
    let left = world.store.transactions().count_documents(strangers).await;
    assert_eq!(left.expect("MongoDB is there"), 3_000);
    assert_eq!(world.state("scheduled").await, State::Scheduled);
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn the_validator_takes_yes_no_and_nothing_and_explains_itself_otherwise() {
    let world = world().await;
    let with = |id: &str, value: Bson| {
        let mut document = document(id, DateTime::now());
        document.insert(UNPUBLISHED, value);
        document
    };
    insert(&world, &[with("no", false.into()), with("nothing", Bson::Null)]).await;
    for (id, value) in [
        ("text", Bson::from("yes")),
        ("number", Bson::from(1)),
        ("list", Bson::from(vec![true])),
        ("date", DateTime::now().into()),
    ] {
        let refused = world.store.transactions().insert_one(with(id, value)).await;
        let error = refused.expect_err("it is refused").to_string();
        assert!(error.contains("Document failed validation"), "{id}: {error}");
        assert!(error.contains(UNPUBLISHED), "{id}: {error}");
    }
    let outbox = MongoOutbox::new(world.store.clone());
    assert!(outbox.unpublished(100).await.expect("MongoDB is there").ids.is_empty());
    world.finish().await;
}

#[tokio::test]
async fn what_is_published_as_well_is_settled_once_and_what_can_not_be_published_hides_nothing() {
    let world = world().await;
    let worker = worker(&world, "one").await;
    let ids: Vec<TransactionId> = (0..100).map(|n| format!("t{n}").into()).collect();
    let now = DateTime::now();
    let documents: Vec<_> = ids.iter().map(|id| document(id, now)).collect();
    let long = "x".repeat(1_000);
    let (mut undated, mut text) = (document("undated", now), document("text", now));
    undated.remove("createdAt");
    text.insert("createdAt", "today");
    let unpublishable = doc! {
        "insert": TRANSACTIONS,
        "documents": [document(&long, now), undated, text],
        "bypassDocumentValidation": true,
    };
    world.store.database().run_command(unpublishable).await.expect("MongoDB is there");
    insert(&world, &documents).await;
    world.publish(&ids, 10).await;
    wait_until("all are settled", s(60), async || world.count(&[State::Done]).await == 102).await;
    assert_eq!(world.balance("b").await, ledger::amount::Amount::Int(102));
    wait_until("the other one is parked", s(60), async || {
        worker.metrics().await.sum("tandem_parked_total", &[("reason", "invalid_id")]) > 0.0
    })
    .await;
    let outbox = MongoOutbox::new(world.store.clone());
    assert!(outbox.unpublished(100).await.expect("MongoDB is there").ids.is_empty());
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn in_documents_of_others_the_field_stands_with_tandems_own() {
    let world = world_of(SCHEMA).await;
    let (a, b) = (ObjectId::new(), ObjectId::new());
    let users = [user(a, 1_000, "active"), user(b, 5, "active")];
    collection(&world, "user").insert_many(users).await.expect("MongoDB is there");
    let worker = worker(&world, "one").await;
    let payment = |id: i32| {
        doc! {
            "_id": id, "from": a, "to": b, "score": 1, "status": "initial",
            "tandem": { UNPUBLISHED: true }, UNPUBLISHED: "mine",
        }
    };
    let payments = (0..50).map(payment);
    collection(&world, "transaction").insert_many(payments).await.expect("MongoDB is there");
    wait_until("all are paid", s(60), async || {
        let done = doc! { "status": "done", "tandem.unpublished": null, UNPUBLISHED: "mine" };
        let count = collection(&world, "transaction").count_documents(done).await;
        count.expect("MongoDB is there") == 50
    })
    .await;
    wait_swept(&[&worker], "unpublished", 50.0).await;
    drop(worker);
    world.finish().await;
}

/// As the sweeper test has it, a transaction that does not say so waits for the sweep.
#[tokio::test]
async fn what_does_not_say_so_is_not_taken_up() {
    let world = world().await;
    world.insert(&[transfer("silent", "a", "b", 1)]).await;
    insert(&world, &[document("says", DateTime::now())]).await;
    let outbox = MongoOutbox::new(world.store.clone());
    let found = outbox.unpublished(100).await.expect("MongoDB is there").ids;
    assert_eq!(found, ["says".into()]);
    world.finish().await;
}
