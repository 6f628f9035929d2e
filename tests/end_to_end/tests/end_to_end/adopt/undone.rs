//! `producer adopt --undo`: the way back, and when there is none.

use harness::wait::{s, wait_until};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};

use super::writing::bytes_of;
use super::{adopt, everything, fill, openings, user};
use crate::layouts::{SCHEMA, collection, world_of};

#[tokio::test]
async fn it_gives_back_the_documents_as_they_were_where_nothing_was_repaired() {
    let world = world_of(SCHEMA).await;
    fill(&world, "user", vec![user(1, 5_i64), user(2, 7_i64)]).await;
    let done = |id: i32| doc! { "_id": id, "status": "done" };
    fill(&world, "transaction", vec![done(1), done(2)]).await;
    let before = (bytes_of(&world, "user").await, bytes_of(&world, "transaction").await);
    adopt(&world, &[]).await.expect_success();
    assert_eq!(openings(&world).await, 2);
    let asked = adopt(&world, &["--undo"]).await;
    assert_eq!(asked.code, Some(2), "{}", asked.stderr);
    assert!(asked.stderr.contains("--yes"), "{}", asked.stderr);
    assert_eq!(openings(&world).await, 2);
    let told = adopt(&world, &["--undo", "--yes"]).await.expect_success().stdout;
    assert!(told.contains("removed from 2"), "{told}");
    let after = (bytes_of(&world, "user").await, bytes_of(&world, "transaction").await);
    assert_eq!(after, before);
    let again = adopt(&world, &["--undo", "--yes", "--json"]).await.expect_success().json();
    assert_eq!(again["accounts"]["written"], 0, "{again}");
    world.finish().await;
}

#[tokio::test]
async fn it_is_refused_while_anything_is_in_flight_and_changes_nothing() {
    let world = world_of(SCHEMA).await;
    fill(&world, "user", vec![user(1, 5)]).await;
    adopt(&world, &[]).await.expect_success();
    let (users, payments) = (collection(&world, "user"), collection(&world, "transaction"));
    let one = doc! { "_id": ObjectId::from_bytes([1; 12]) };
    let set = async |update: Document| {
        users.update_one(one.clone(), update).await.expect("MongoDB is there");
    };
    let refused = async |what: &str| {
        let before = everything(&world).await;
        let refused = adopt(&world, &["--undo", "--yes"]).await;
        assert_eq!(refused.code, Some(1), "{what}: {}", refused.stderr);
        assert!(refused.stderr.contains(what), "{what}: {}", refused.stderr);
        assert!(refused.stderr.contains("nothing was removed"), "{what}: {}", refused.stderr);
        assert_eq!(everything(&world).await, before, "{what}");
    };
    set(doc! { "$set": { "wallet.open": [7_i64] } }).await;
    refused("wallet.open").await;
    set(doc! { "$set": { "wallet.open": [], "tandem.pendingDebits": 5_i64 } }).await;
    refused("tandem.pendingDebits").await;
    set(doc! { "$set": { "tandem.pendingDebits": 0_i64 } }).await;
    for word in ["initial", "pending", "committed", "canceling", "held", "scheduled"] {
        let claimed = doc! { "_id": 1, "status": word, "tandem": { "createdAt": 5 } };
        payments.insert_one(claimed).await.expect("MongoDB is there");
        refused(&format!("\"{word}\"")).await;
        payments.delete_one(doc! { "_id": 1 }).await.expect("MongoDB is there");
    }
    let due = doc! { "_id": "l", "kind": "tandem-due-events" };
    collection(&world, "tandem.events").insert_one(due).await.expect("MongoDB is there");
    refused("events").await;
    collection(&world, "tandem.events").delete_one(doc! { "_id": "l" }).await.expect("there");
    // What an old processor or producer has there is none of Tandem's.
    let old = doc! { "_id": 1, "status": "pending" };
    payments.insert_one(old).await.expect("MongoDB is there");
    adopt(&world, &["--undo", "--yes"]).await.expect_success();
    world.finish().await;
}

#[tokio::test]
async fn killed_it_goes_on_and_lines_go_last() {
    const COUNT: usize = 400;
    let world = world_of(SCHEMA).await;
    let users =
        (0..COUNT).map(|at| doc! { "_id": ObjectId::new(), "wallet": { "score": at as i64 } });
    fill(&world, "user", users.collect()).await;
    let line = doc! { "_id": "l", "kind": "tandem-line" };
    let theirs = doc! { "_id": "theirs", "note": "not Tandem's" };
    fill(&world, "tandem.journal", vec![line, theirs]).await;
    adopt(&world, &[]).await.expect_success();
    let lines = async || {
        let journal = collection(&world, "tandem.journal");
        journal.count_documents(doc! {}).await.expect("MongoDB is there")
    };
    let flags = ["adopt", "--undo", "--yes", "--piece", "50", "--rate", "60"];
    let mut undoing = world.spawn_producer(&flags, &[]);
    wait_until("some are removed", s(30), async || openings(&world).await < 300).await;
    undoing.kill();
    assert!(openings(&world).await > 0, "it was killed before its end");
    assert_eq!(lines().await, 2);
    adopt(&world, &["--undo", "--yes"]).await.expect_success();
    assert_eq!((openings(&world).await, lines().await), (0, 1));
    world.finish().await;
}
