//! The ground that a ledger stands on: indexes of the user's own that remove documents, or that may
//! refuse what Tandem writes.

use std::time::{Duration, Instant};

use harness::producer::Answer;
use harness::wait::{promised, s};
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongo::{EVENTS, NOTES};
use mongodb::bson::{Document, doc};

use super::ownership::{change, empty_world, init, missing, refused_start};

/// A server that is tried again and again is given up after a minute. What is refused is told well
/// before.
const AT_ONCE: Duration = Duration::from_secs(30);

async fn create_index(
    world: &World,
    collection: &str,
    name: &str,
    key: Document,
    options: Document,
) {
    let mut index = doc! { "name": name, "key": key };
    index.extend(options);
    change(world, doc! { "createIndexes": collection, "indexes": [index] }).await;
}

async fn drop_index(world: &World, collection: &str, name: &str) {
    change(world, doc! { "dropIndexes": collection, "index": name }).await;
}

/// The index of each row removes documents of the ledger.
fn removing() -> Vec<(&'static str, Document, Document)> {
    let after = |seconds: i64| doc! { "expireAfterSeconds": seconds };
    let with = |mut options: Document, more: Document| {
        options.extend(more);
        options
    };
    vec![
        ("transactions", doc! { "createdAt": 1 }, after(60)),
        ("transactions", doc! { "closedAt": 1 }, with(after(86_400), doc! { "hidden": true })),
        (
            "accounts",
            doc! { "lastSeen": 1 },
            with(after(60), doc! { "partialFilterExpression": { "status": "closed" } }),
        ),
        (EVENTS, doc! { "dueAt": 1 }, after(3_600)),
        (NOTES, doc! { "at": 1 }, with(after(3_600), doc! { "sparse": true })),
    ]
}

#[tokio::test]
async fn an_index_that_removes_documents_stops_init_and_every_start() {
    let world = World::new().await;
    for (collection, key, options) in removing() {
        create_index(&world, collection, "theirs", key, options).await;
        let command = format!("db.{collection}.dropIndex(\"theirs\")");
        for arguments in [&[][..], &["--apply"], &["--accept-index", "theirs"]] {
            let told = init(&world, arguments).await;
            assert_eq!(missing(&told), [format!("{collection}: index_removes")], "{}", told.stderr);
            assert_eq!(
                (told.code, &told.json()["missing"][0]["command"]),
                (Some(1), &command.clone().into())
            );
        }
        for command_line in [&["list"][..], &["audit"], &["transfer", "a", "b", "1"]] {
            let refused = world.producer(command_line).await;
            assert_eq!(refused.code, Some(1), "{command_line:?}");
            assert!(refused.stderr.contains(&command), "{command_line:?}: {}", refused.stderr);
        }
        drop_index(&world, collection, "theirs").await;
    }
    create_index(
        &world,
        "transactions",
        "theirs",
        doc! { "createdAt": 1 },
        doc! { "expireAfterSeconds": 60 },
    )
    .await;
    let said = refused_start(&world).await;
    assert!(said.contains("db.transactions.dropIndex("), "{said}");
    drop_index(&world, "transactions", "theirs").await;
    assert_eq!(init(&world, &[]).await.code, Some(0));
    world.finish().await;
}

#[tokio::test]
async fn a_worker_ends_when_an_index_that_removes_documents_turns_up() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let mut worker = world.worker("one").start().await;
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;
    world.wait_state("t", State::Done, s(30)).await;
    create_index(
        &world,
        "accounts",
        "lastSeen_1",
        doc! { "lastSeen": 1 },
        doc! { "expireAfterSeconds": 60 },
    )
    .await;
    let exit = worker.exit(s(30)).await;
    assert_eq!(exit.code(), Some(1));
    assert!(worker.log().contains("lastSeen_1"), "{}", worker.log());
    drop_index(&world, "accounts", "lastSeen_1").await;
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn an_index_that_may_refuse_writes_stops_every_start_until_it_is_accepted() {
    let world = World::new().await;
    let unique = doc! { "unique": true };
    create_index(&world, "transactions", "reference_1", doc! { "reference": 1 }, unique.clone())
        .await;
    create_index(&world, "accounts", "email_1", doc! { "email": 1 }, unique).await;
    let both = ["accounts: index_refuses", "transactions: index_refuses"];
    for arguments in [&[][..], &["--apply"]] {
        let told = init(&world, arguments).await;
        assert_eq!((told.code, missing(&told)), (Some(1), both.map(str::to_owned).to_vec()));
    }
    let said = refused_start(&world).await;
    assert!(said.contains("--accept-index=email_1"), "{said}");
    // One program alone may be told to accept it.
    let accepting = ["list", "--accept-index", "email_1,reference_1"];
    world.producer(&accepting).await.expect_success();
    assert_eq!(world.producer(&["list"]).await.code, Some(1));

    let told = init(&world, &["--accept-index", "reference_1", "--accept-index", "email_1"]).await;
    assert_eq!((told.code, missing(&told)), (Some(0), vec![]));
    assert_eq!(told.json()["accepted"].as_array().map(Vec::len), Some(2));
    assert_eq!(init(&world, &[]).await.code, Some(0), "it is remembered");

    let worker = world.worker("one").start().await;
    let create = |id: &'static str| ["accounts", "create", id, "--balance", "5"];
    world.producer(&create("a")).await.expect_success();
    refused_at_once(&world, &create("b"), "email_1").await;
    drop(worker);
    world.finish().await;
}

/// A command that the index refuses: the answer names it, and comes at once.
async fn refused_at_once(world: &World, arguments: &[&str], index: &str) -> Answer {
    let begun = Instant::now();
    let refused = world.producer(arguments).await;
    assert_eq!(refused.code, Some(1), "{arguments:?}: {}", refused.stdout);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(said.contains(index) && said.contains("refuses"), "{arguments:?}: {said}");
    assert!(begun.elapsed() < promised(AT_ONCE), "{arguments:?}: told after {:?}", begun.elapsed());
    refused
}

#[tokio::test]
async fn what_an_accepted_index_refuses_is_refused_alone_and_at_once() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    create_index(
        &world,
        "transactions",
        "reference_1",
        doc! { "reference": 1 },
        doc! { "unique": true },
    )
    .await;
    assert_eq!(init(&world, &["--accept-index", "reference_1"]).await.code, Some(0));
    let transfer = |id: &'static str| ["transfer", "a", "b", "1", "--id", id];
    world.producer(&transfer("first")).await.expect_success();
    refused_at_once(&world, &transfer("second"), "reference_1").await;
    let keyed = ["transfer", "a", "b", "1", "--id", "third", "--exclusive-key", "k"];
    refused_at_once(&world, &keyed, "reference_1").await;
    let known = world.producer(&transfer("first")).await.expect_success();
    assert!(known.stdout.contains("first"), "{}", known.stdout);
    let all = world.store.transactions().count_documents(doc! {}).await.expect("MongoDB is there");
    assert_eq!(all, 1, "what was refused is there");
    world.finish().await;
}

#[tokio::test]
async fn a_collection_of_tandems_own_is_judged_as_well() {
    let world = World::new().await;
    let rules = doc! { "title": { "$type": "string" } };
    change(&world, doc! { "create": EVENTS, "validator": rules }).await;
    let told = init(&world, &[]).await;
    assert_eq!((told.code, missing(&told)), (Some(1), vec![format!("{EVENTS}: validator_on_own")]));
    let said = refused_start(&world).await;
    assert!(said.contains(EVENTS), "{said}");
    world.finish().await;

    let world = empty_world().await;
    let clustered = doc! {
        "create": "transactions", "expireAfterSeconds": 60,
        "clusteredIndex": { "key": { "_id": 1 }, "unique": true },
    };
    change(&world, clustered).await;
    let told = init(&world, &["--apply"]).await;
    assert_eq!((told.code, missing(&told)), (Some(1), vec!["transactions: expiring".to_owned()]));
    world.finish().await;
}
