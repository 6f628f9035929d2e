//! Collections and indexes that look right and are not: each is named at the start, with what to do
//! about it.

use harness::wait::s;
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongodb::bson::{Document, doc};

use super::ownership::{change, empty_world, init, missing, refused_start};

/// An index of the user's own on transactions, under the name of one of Tandem's.
async fn replace_index(world: &World, ours: &str, key: Document, theirs: &str, filter: Document) {
    change(world, doc! { "dropIndexes": "transactions", "index": ours }).await;
    let mut index = doc! { "name": theirs, "key": key };
    if !filter.is_empty() {
        index.insert("partialFilterExpression", filter);
    }
    change(world, doc! { "createIndexes": "transactions", "indexes": [index] }).await;
}

#[tokio::test]
async fn the_same_index_under_another_name_is_named_with_the_command_that_drops_it() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let key = doc! { "createdAt": 1, "_id": 1 };
    let by_creation = ("by_creation", key, "createdAt_1__id_1", doc! {});
    let dated = doc! { "sweepAfter": { "$type": "date" } };
    let swept = ("swept", doc! { "sweepAfter": 1 }, "sweepAfter_1", dated);
    for (ours, key, theirs, filter) in [by_creation, swept] {
        replace_index(&world, ours, key, theirs, filter).await;
        let said = refused_start(&world).await;
        assert!(said.contains(theirs) && said.contains("drop it"), "{said}");
        for arguments in [&[][..], &["--apply"]] {
            let told = init(&world, arguments).await;
            assert_eq!(missing(&told), ["transactions: index_named"]);
            let command = &told.json()["missing"][0]["command"];
            assert_eq!(command, &format!("db.transactions.dropIndex(\"{theirs}\")"));
        }
        change(&world, doc! { "dropIndexes": "transactions", "index": theirs }).await;
        assert_eq!(init(&world, &["--apply"]).await.code, Some(0));
    }
    // Its id was never published: only the sweeper finds it, through the index.
    let worker = world.worker("one").start().await;
    world.insert(&[transfer("t", "a", "b", 1)]).await;
    world.wait_state("t", State::Done, s(30)).await;
    world.producer(&["list", "--state", "initial,pending"]).await.expect_success();
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn an_index_that_only_the_server_takes_for_ours_is_named_by_what_the_server_says() {
    let world = World::new().await;
    // To the server, the number of the type is the same as its name.
    let filter = doc! { "sweepAfter": { "$type": 9 } };
    replace_index(&world, "swept", doc! { "sweepAfter": 1 }, "waiting", filter).await;
    let told = init(&world, &["--apply"]).await;
    assert_eq!(told.code, Some(1));
    assert!(told.stderr.contains("waiting") && told.stderr.contains("drop"), "{}", told.stderr);
    world.finish().await;
}

#[tokio::test]
async fn a_collection_that_can_hold_no_ledger_is_named_and_left_alone() {
    let collation = doc! { "locale": "en", "strength": 2 };
    for (kind, of, options) in [
        ("capped", "transactions", doc! { "capped": true, "size": 1_000_000 }),
        ("collation", "accounts", doc! { "collation": &collation }),
        ("collation", "transactions", doc! { "collation": &collation }),
        ("collation", "tandem.parked", doc! { "collation": &collation }),
        ("view", "accounts", doc! { "viewOn": "people", "pipeline": [] }),
        ("view", "tandem.settings", doc! { "viewOn": "people", "pipeline": [] }),
        ("time_series", "transactions", doc! { "timeseries": { "timeField": "createdAt" } }),
    ] {
        let world = empty_world().await;
        let mut create = doc! { "create": of };
        create.extend(options);
        change(&world, create).await;
        let named = format!("the collection `{of}`");
        let said = refused_start(&world).await;
        assert!(said.contains(&named) && said.contains("TANDEM_DATABASE"), "{kind}: {said}");
        for command in [&["list"][..], &["accounts", "create", "a"]] {
            let refused = world.producer(command).await;
            assert_eq!(refused.code, Some(1), "{command:?}");
            assert!(refused.stderr.contains(&named), "{kind}: {}", refused.stderr);
        }
        for arguments in [&[][..], &["--apply"]] {
            let told = init(&world, arguments).await;
            assert_eq!(missing(&told), [format!("{of}: {kind}")], "{}", told.stderr);
            assert_eq!(told.code, Some(1));
        }
        let there = world.store.database().list_collection_names().await.expect("MongoDB is there");
        let ours = there.iter().filter(|name| !name.starts_with("system.")).collect::<Vec<_>>();
        assert_eq!(ours, [of], "something was created beside it");
        world.finish().await;
    }
}
