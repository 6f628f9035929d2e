//! Idempotency keys mean one thing: whose they are, of which form, and what came under them.

use harness::api::Api;
use harness::http::Answer;
use harness::wait::s;
use harness::world::{self, World};
use ledger::transaction::State;
use mongo::{KeyedInsert, Request, Under};
use mongodb::bson::{Bson, DateTime, RawDocumentBuf, doc};
use serde_json::{Value, json};

use super::transfer;

const PATH: &str = "/v1/transactions";
const BATCH: &str = "/v1/batch";

/// A transfer from a to b without an id.
fn pay(value: i64) -> Value {
    json!({ "source": "a", "destination": "b", "value": value })
}

async fn post(api: &Api, path: &str, key: &str, body: &Value) -> Answer {
    api.post_with(path, &[("Idempotency-Key", key)], body).await
}

/// The ids of the items of an answer.
fn ids(answer: &Value) -> Vec<String> {
    let items = answer["items"].as_array().expect("items").iter();
    items.map(|item| item["id"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Asserts that nothing was written, and that these were named.
fn assert_reused(problem: &Value, expected: &[&String]) {
    assert_eq!(problem["type"], "urn:tandem:problem:key-reused", "{problem}");
    let mut named: Vec<&str> =
        problem["ids"].as_array().expect("ids").iter().filter_map(Value::as_str).collect();
    let mut expected: Vec<&str> = expected.iter().map(|id| id.as_str()).collect();
    named.sort_unstable();
    expected.sort_unstable();
    assert_eq!(named, expected, "{problem}");
}

#[tokio::test]
async fn a_refused_item_may_be_corrected_or_left_out_and_the_others_are_paid_once() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&[]).await;
    let bad = json!({ "source": "a", "destination": "b", "value": 1.5 });
    let first = post(&api, BATCH, "run1", &json!([bad, pay(7)])).await.expect(200).json();
    assert_eq!(first["summary"]["submitted"], 1, "{first}");
    assert_eq!(first["items"][0]["status"], 422);
    let without = post(&api, BATCH, "run1", &json!([pay(7)])).await.expect(200).json();
    assert_eq!(without["summary"]["known"], 1, "{without}");
    assert_eq!(without["items"][0]["id"], first["items"][1]["id"]);
    let corrected = post(&api, BATCH, "run1", &json!([pay(2), pay(7)])).await.expect(200).json();
    assert_eq!(
        corrected["summary"],
        json!({ "submitted": 1, "known": 1, "refused": 0, "failed": 0 })
    );
    let worker = world.worker("one").start().await;
    world.wait_final(s(30)).await;
    assert_eq!(world.balance("b").await, 9.into());
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn an_array_that_lacks_or_changes_what_was_accepted_under_its_key_writes_nothing() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&[]).await;
    let own = transfer("own", "a", "b", 4);
    let all = json!([pay(1), pay(1), pay(2), own]);
    let first = post(&api, BATCH, "run", &all).await.expect(200).json();
    assert_eq!(first["summary"]["submitted"], 4, "{first}");
    let ids = ids(&first);
    let turned = json!([transfer("own", "a", "b", 4), pay(2), pay(1), pay(1), pay(3)]);
    let more = post(&api, BATCH, "run", &turned).await.expect(200).json();
    assert_eq!(more["summary"]["known"], 4, "their order does not count: {more}");
    let three = more["items"][4]["id"].as_str().expect("an id").to_owned();
    let written = world.count(&State::ALL).await;
    assert_eq!(written, 5);
    let changed = transfer("own", "a", "b", 5);
    for (array, lacking) in [
        (json!([pay(1), pay(2), pay(3), own]), vec![&ids[1]]),
        (json!([pay(1), pay(1), pay(20), pay(3), own]), vec![&ids[2]]),
        (json!([pay(1), pay(1), pay(2), pay(3), changed]), vec![&ids[3]]),
        (json!([pay(9)]), vec![&ids[0], &ids[1], &ids[2], &ids[3], &three]),
        (json!([]), vec![&ids[0], &ids[1], &ids[2], &ids[3], &three]),
        (json!([7]), vec![&ids[0], &ids[1], &ids[2], &ids[3], &three]),
    ] {
        let refused = post(&api, BATCH, "run", &array).await.expect(422).json();
        assert_reused(&refused, &lacking);
    }
    assert_eq!(world.count(&State::ALL).await, written, "nothing was written");
    world.finish().await;
}

#[tokio::test]
async fn what_was_refused_for_its_exclusive_key_or_its_id_may_be_left_out() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&[]).await;
    let keyed = |id: &str, key: &str| {
        let mut one = transfer(id, "a", "b", 1);
        one["exclusiveKey"] = json!(key);
        one
    };
    api.post(PATH, &keyed("holder", "k")).await.expect(202);
    api.post(PATH, &transfer("taken", "a", "b", 1)).await.expect(202);
    let (wanted, taken) = (keyed("wanted", "k"), transfer("taken", "a", "b", 2));
    let array = json!([wanted, taken, keyed("free", "l"), pay(3)]);
    let first = post(&api, BATCH, "run", &array).await.expect(200).json();
    assert_eq!(first["summary"], json!({ "submitted": 2, "known": 0, "refused": 2, "failed": 0 }));
    let rest = json!([keyed("free", "l"), pay(3)]);
    let again = post(&api, BATCH, "run", &rest).await.expect(200).json();
    assert_eq!(again["summary"]["known"], 2, "{again}");
    let lacking = post(&api, BATCH, "run", &json!([pay(3)])).await.expect(422).json();
    assert_reused(&lacking, &[&"free".to_owned()]);
    // What the schema of the owner refuses is named, and its neighbours are inserted.
    let rules = doc! { "collMod": "transactions", "validator": { "value": { "$ne": 13 } } };
    world.store.database().run_command(rules).await.expect("MongoDB is there");
    let array = json!([pay(11), pay(13), pay(12)]);
    let first = post(&api, BATCH, "other", &array).await.expect(200).json();
    assert_eq!(first["items"][1]["problem"]["type"], "urn:tandem:problem:refused", "{first}");
    assert_eq!(first["summary"]["submitted"], 2, "{first}");
    post(&api, BATCH, "other", &json!([pay(11), pay(12)])).await.expect(200);
    post(&api, BATCH, "other", &json!([pay(11)])).await.expect(422);
    world.finish().await;
}

#[tokio::test]
async fn an_array_and_a_single_request_share_no_names() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    let api = world.api(&[]).await;
    let path = |path: &str| format!("{path}?wait=30");
    let array = post(&api, &path(BATCH), "K", &json!([pay(1)])).await.expect(200).json();
    assert_eq!(array["items"][0]["state"], "done", "{array}");
    let array_id = array["items"][0]["id"].as_str().expect("an id");
    for key in ["K:0", "K", array_id] {
        let single = post(&api, &path(PATH), key, &pay(1)).await.expect(200);
        assert_eq!(single.header("Idempotent-Replayed"), None, "{key}");
        assert_eq!(single.json()["state"], "done");
    }
    assert_eq!(world.balance("b").await, 4.into());
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn a_key_never_answers_with_another_tokens_transaction() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let file = world.directory().join("tokens");
    let path = file.to_str().expect("UTF-8").to_owned();
    let shop = world.token(&file, "shop", "submit,read").await;
    let bank = world.token(&file, "bank", "submit").await;
    let rotated = world.token(&file, "shop", "submit").await;
    let mut api = world.api(&["--tokens", &path]).await;
    api.use_token(&shop);
    let first = post(&api, PATH, "1", &pay(5)).await.expect(202).json();
    let id = first["id"].as_str().expect("an id").to_owned();
    let shown = api.get(&format!("{PATH}/{id}")).await.expect(200).json();
    assert_eq!(shown["submittedBy"], "shop");
    api.use_token(&bank);
    let other = post(&api, PATH, "1", &pay(5)).await.expect(202);
    assert_eq!(other.header("Idempotent-Replayed"), None);
    assert_ne!(other.json()["id"], id.as_str());
    let array = post(&api, BATCH, "1", &json!([pay(5)])).await.expect(200).json();
    // The other secret of the same name is the same caller.
    api.use_token(&rotated);
    let again = post(&api, PATH, "1", &pay(5)).await.expect(202);
    assert_eq!(again.header("Idempotent-Replayed"), Some("true"));
    assert_eq!(again.json()["id"], id.as_str());
    let changed = post(&api, PATH, "1", &pay(6)).await.expect(422).json();
    assert_reused(&changed, &[&id]);
    assert_eq!(changed["differs"], json!(["/value"]));
    let array_of_shop = post(&api, BATCH, "1", &json!([pay(5)])).await.expect(200).json();
    assert_ne!(array["items"][0]["id"], array_of_shop["items"][0]["id"]);
    assert_eq!(world.count(&State::ALL).await, 4, "each name and form once");

    // Ids in bodies are the ledger's, also one that a key of somebody else gives.
    api.use_token(&bank);
    let by_id = json!({ "id": id, "source": "a", "destination": "b", "value": 5 });
    assert_eq!(api.post(PATH, &by_id).await.expect(202).json()["id"], id.as_str());
    world.finish().await;
}

#[tokio::test]
async fn an_id_that_a_key_gives_and_somebody_else_has_taken_is_no_answer() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&[]).await;
    let first = post(&api, PATH, "guessed", &pay(5)).await.expect(202).json();
    let transactions = world.store.transactions();
    let request = doc! { "$unset": { "request": "" } };
    transactions.update_many(doc! {}, request).await.expect("MongoDB is there");
    let refused = post(&api, PATH, "guessed", &pay(5)).await.expect(409).json();
    assert_eq!(refused["type"], "urn:tandem:problem:conflict");
    assert_eq!(refused["existing"], Value::Null, "{refused} of {first}");
    world.finish().await;
}

#[tokio::test]
async fn of_two_arrays_at_once_under_one_key_not_both_are_written() {
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    let one = world.api(&[]).await;
    let other = world.api(&[]).await;
    for round in 0..8 {
        let key = format!("run-{round}");
        let array = |value: i64| Value::from((0..30).map(|n| pay(value + n)).collect::<Vec<_>>());
        let (first, second) = (array(1), array(1_000));
        let (first, second) =
            tokio::join!(post(&one, BATCH, &key, &first), post(&other, BATCH, &key, &second));
        let submitted = |answer: &Answer| match answer.status {
            200 => answer.json()["summary"]["submitted"].as_u64().expect("a number"),
            422 | 503 => 0,
            _ => panic!("{answer:?}"),
        };
        let (first, second) = (submitted(&first), submitted(&second));
        assert!(first == 0 || second == 0, "{first} and {second} under one key");
        // The same at once, however, is written once.
        let same = array(50);
        let key = format!("same-{round}");
        let (first, second) =
            tokio::join!(post(&one, BATCH, &key, &same), post(&other, BATCH, &key, &same));
        let (first, second) = (first.expect(200).json(), second.expect(200).json());
        assert_eq!(ids(&first), ids(&second));
        let own: Vec<_> = ids(&first).into_iter().map(Bson::from).collect();
        let filter = doc! { "_id": { "$in": own } };
        let written = world.store.transactions().count_documents(filter).await;
        assert_eq!(written.expect("MongoDB is there"), 30);
    }
    world.finish().await;
}

#[tokio::test]
async fn a_server_that_stalls_inserts_nothing_of_an_array_that_was_replaced() {
    let world = World::new().await;
    let store = &world.store;
    let under = |content: &str| Under { request: "run".to_owned(), content: content.to_owned() };
    let (first, second) = (under("first"), under("second"));
    let documents = |ids: &[&str]| -> Vec<RawDocumentBuf> {
        let of = |id: &&str| world::transfer(id, "a", "b", 1).1.to_raw(id, DateTime::now());
        ids.iter().map(of).collect()
    };
    let accepted = async || {
        let request = store.request("run").await.expect("MongoDB is there").expect("it came");
        request.accepted
    };
    let take = async |under, seen: Option<&Request>| {
        store.take_request(under, seen, doc! {}).await.expect("MongoDB is there")
    };
    let insert = async |ids: &[&str]| {
        let inserted = store.insert_together(documents(ids), Some(&first)).await;
        inserted.expect("MongoDB is there")
    };
    assert!(take(&first, None).await);
    assert!(!take(&second, None).await, "it is there already");
    assert_eq!(insert(&["t", "u"]).await, KeyedInsert::Inserted);
    assert_eq!(accepted().await, ["t", "u"]);
    // What can't be inserted is not noted, and neither is what came with it.
    assert_eq!(insert(&["v", "u"]).await, KeyedInsert::Duplicate);
    assert_eq!(accepted().await, ["t", "u"]);

    let stale = store.request("run").await.expect("MongoDB is there");
    assert_eq!(insert(&["w"]).await, KeyedInsert::Inserted);
    assert!(!take(&second, stale.as_ref()).await, "it has not seen w");
    let seen = store.request("run").await.expect("MongoDB is there");
    assert!(take(&second, seen.as_ref()).await);
    assert_eq!(insert(&["x"]).await, KeyedInsert::Superseded);
    assert_eq!(accepted().await, ["t", "u", "w"]);
    assert_eq!(world.count(&State::ALL).await, 3, "neither v nor x");
    world.finish().await;
}

#[tokio::test]
async fn a_transaction_may_be_called_batch() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&[]).await;
    let taken = api.post(PATH, &transfer("batch", "a", "b", 1)).await.expect(202);
    let shown = api.get(taken.header("Location").expect("an address")).await.expect(200).json();
    assert_eq!((&shown["id"], &shown["state"]), (&json!("batch"), &json!("initial")));
    api.act("/v1/transactions/batch/cancel").await.expect(202);
    for (path, method) in [("/v1/transactions/batch", "GET"), (BATCH, "POST")] {
        let refused = api.send("DELETE", path, &[], "").await.expect(405);
        let allow = refused.header("Allow").expect("it is said").to_owned();
        assert!(allow.contains(method), "{allow}");
    }
    world.finish().await;
}
