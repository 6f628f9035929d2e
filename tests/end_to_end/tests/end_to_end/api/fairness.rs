//! One caller's request costs others nothing: single transfers beside hostile requests.
//!
//! The limits here are far above what is promised, because other tests load the machine. The test
//! that is ignored measures in full size, by turns with harmless requests, and holds what is
//! promised. The release form of `producer` has to be built before: `cargo test --release -p
//! end_to_end --test end_to_end -- --ignored --nocapture beside_hostile`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::api::Api;
use harness::http::Answer;
use harness::wait::{promised, s, wait_until};
use harness::world::World;
use ledger::amount::Amount;
use ledger::transaction::{Body, Terms};
use mongodb::bson::{DateTime, Document, doc};
use mongodb::{Client, ClientSession};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::transfer;

const PATH: &str = "/v1/transactions";
const BATCH: &str = "/v1/batch";

/// How many keys somebody else holds.
const HELD: usize = 16;

/// An array in which all items have the same id.
fn equal_ids(items: usize) -> Value {
    let id = Uuid::new_v4().to_string();
    (0..items).map(|_| transfer(&id, "a", "b", 1)).collect()
}

/// An array of other ids each.
fn other_ids(items: usize) -> Value {
    let of = |_| transfer(&Uuid::new_v4().to_string(), "a", "b", 1);
    (0..items).map(of).collect()
}

/// An array with as many bytes of metadata in each item.
fn with_metadata(items: usize, bytes: usize) -> Value {
    let with = |mut item: Value| {
        item["metadata"] = json!({ "text": "x".repeat(bytes) });
        item
    };
    let Value::Array(all) = other_ids(items) else { unreachable!("it is an array") };
    all.into_iter().map(with).collect()
}

/// An array in which each item has an exclusive key of its own, the first of which are held.
fn with_keys(items: usize, round: usize) -> Value {
    let Value::Array(all) = other_ids(items) else { unreachable!("it is an array") };
    let with = |(at, mut item): (usize, Value)| {
        item["exclusiveKey"] =
            json!(if at < HELD { held_key(round, at) } else { format!("{round}-{at}") });
        item
    };
    all.into_iter().enumerate().map(with).collect()
}

/// The name of a key that somebody else holds. Of each round others, because they are used when
/// they are free.
fn held_key(round: usize, at: usize) -> String {
    format!("held-{round}-{at}")
}

/// The open transaction of another program that has the keys of a round until it is ended.
async fn hold_keys(world: &World, round: usize) -> ClientSession {
    let client = Client::with_uri_str(&world.servers.mongodb_uri).await.expect("it is there");
    let transactions = client.database(&world.name).collection::<Document>("transactions");
    let mut session = client.start_session().await.expect("it is there");
    session.start_transaction().await.expect("it can be started");
    for at in 0..HELD {
        let terms = Terms { exclusive_key: Some(held_key(round, at)), ..Terms::default() };
        let body = Body::transfer("a", "b", Amount::Int(1)).and_then(|body| body.with_terms(terms));
        let document =
            body.expect("valid").to_document(&held_key(round, at), DateTime::from_millis(0));
        let inserted = transactions.insert_one(document).session(&mut session).await;
        inserted.expect("nobody has the key");
    }
    session
}

/// How long each of some single transfers took that were sent one after the other beside this
/// request, for as long as that is not answered; and that request.
async fn beside(
    api: &Arc<Api>,
    hostile: Value,
    most: usize,
) -> (Vec<Duration>, JoinHandle<Answer>) {
    let sending = api.clone();
    let request = tokio::spawn(async move { sending.post(BATCH, &hostile).await });
    let mut took = Vec::new();
    while took.len() < most && (took.is_empty() || !request.is_finished()) {
        let begun = Instant::now();
        let id = Uuid::new_v4().to_string();
        api.post(PATH, &transfer(&id, "a", "b", 1)).await.expect(202);
        took.push(begun.elapsed());
    }
    (took, request)
}

#[tokio::test]
async fn equal_ids_and_large_items_of_one_caller_delay_nobody() {
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    let api = Arc::new(world.api(&[]).await);
    let begun = Instant::now();
    let answer = api.post(BATCH, &equal_ids(10_000)).await.expect(200).json();
    let summary = json!({ "submitted": 1, "known": 9_999, "refused": 0, "failed": 0 });
    assert_eq!(answer["summary"], summary);
    assert!(begun.elapsed() < promised(s(30)), "{:?}", begun.elapsed());
    for hostile in [equal_ids(10_000), with_metadata(200, 20_000)] {
        let (took, request) = beside(&api, hostile, 1_000).await;
        request.await.expect("no panic").expect(200);
        assert!(took.iter().all(|took| *took < promised(s(10))), "{took:?}");
    }
    world.finish().await;
}

#[tokio::test]
async fn keys_that_somebody_holds_delay_no_other_key() {
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    let api = Arc::new(world.api(&[]).await);
    let mut held = hold_keys(&world, 0).await;
    let sending = api.clone();
    let array = with_keys(100 + HELD, 0);
    let request = tokio::spawn(async move { sending.post(BATCH, &array).await });
    let keyed = json!({
        "id": "single", "source": "a", "destination": "b", "value": 1, "exclusiveKey": "single",
    });
    let others = doc! { "exclusiveKey": { "$regex": "^(0-|single)" } };
    let single = api.post(PATH, &keyed).await;
    assert_eq!(single.status, 202, "{single:?}");
    wait_until("all others are there", s(40), async || {
        let count = world.store.transactions().count_documents(others.clone()).await;
        count.expect("MongoDB is there") == 101
    })
    .await;
    assert!(!request.is_finished(), "the keys are still held");
    held.abort_transaction().await.expect("it was open");
    let answer = request.await.expect("no panic").expect(200).json();
    assert_eq!(answer["summary"]["submitted"], 100 + HELD, "{}", answer["summary"]);
    world.finish().await;
}

/// The time that all but one of a hundred took at most.
fn p99(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[(took.len() * 99).div_ceil(100) - 1]
}

#[tokio::test]
#[ignore = "it measures: it needs a machine of its own"]
async fn the_p99_of_a_single_transfer_beside_hostile_requests() {
    const ITEMS: usize = 10_000;
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    let api = Arc::new(world.api(&[]).await);
    let names = ["10,000 equal ids", "10,000 keys, 16 of them held", "10,000 with metadata"];
    let mut figures = vec![(Vec::new(), Vec::new()); names.len()];
    for round in 0..5 {
        for (at, (hostile, harmless)) in figures.iter_mut().enumerate() {
            let mut held = if at == 1 { Some(hold_keys(&world, round).await) } else { None };
            let (request, of_as_many_bytes) = match at {
                0 => (equal_ids(ITEMS), other_ids(ITEMS)),
                1 => (with_keys(ITEMS, round), with_metadata(ITEMS, 10)),
                _ => (with_metadata(ITEMS, 1_400), with_metadata(ITEMS / 10, 15_000)),
            };
            let (took, request) = beside(&api, request, 200).await;
            if let Some(held) = &mut held {
                held.abort_transaction().await.expect("it was open");
            }
            hostile.extend(took);
            request.await.expect("no panic").expect(200);
            let (took, request) = beside(&api, of_as_many_bytes, 200).await;
            harmless.extend(took);
            request.await.expect("no panic").expect(200);
        }
    }
    for (name, (hostile, harmless)) in names.into_iter().zip(figures) {
        let (hostile, harmless) = (p99(hostile), p99(harmless));
        println!("beside {name}: p99 {hostile:?}; beside a harmless request: {harmless:?}");
        assert!(hostile <= promised(Duration::from_millis(250)), "{name}: {hostile:?}");
        assert!(hostile <= harmless.mul_f64(1.5), "{name}: {hostile:?} and {harmless:?}");
    }
    world.finish().await;
}
