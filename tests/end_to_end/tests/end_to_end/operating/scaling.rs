//! The questions that the autoscaler asks, on a real database without a worker.
//!
//! They are read from the manifest, so what is tested is what is deployed.

use std::collections::BTreeMap;

use harness::deployment::root;
use harness::wait::s;
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongodb::bson::{Bson, DateTime, Document, doc};
use serde_json::Value;

const MANIFEST: &str = "deploy/kubernetes/overlays/autoscaled/scaled-object.yaml";

/// A question: the collection and the filter.
type Question = (String, Document);

/// The questions to MongoDB by the name of their trigger.
fn questions() -> BTreeMap<String, Question> {
    let manifest = std::fs::read_to_string(root().join(MANIFEST)).expect(MANIFEST);
    let triggers = manifest.split("- type: mongodb").skip(1).map(|trigger| {
        let value = |key: &str| {
            let text = trigger.split_once(&format!("{key}: ")).expect(key).1;
            text.lines().next().expect("a line").trim().to_owned()
        };
        // One line between quotes, or the lines of a folded text.
        let text = trigger.split_once("query: ").expect("a query").1;
        let text = text.split_once("queryValue").expect("its target").0.trim();
        let text = text.trim_start_matches(">-").trim().trim_matches('\'');
        let filter = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let Bson::Document(filter) = bson(filter) else { panic!("{text} is no document") };
        (value("name"), (value("collection"), filter))
    });
    triggers.collect()
}

/// Extended JSON, as far as the manifest uses it.
fn bson(value: Value) -> Bson {
    let number =
        |value: &Value| -> i64 { value.as_str().expect("a text").parse().expect("a number") };
    match value {
        Value::Object(fields) => match fields.iter().next() {
            Some((key, value)) if key == "$numberLong" => Bson::Int64(number(value)),
            Some((key, value)) if key == "$date" => {
                Bson::DateTime(DateTime::from_millis(number(&value["$numberLong"])))
            }
            _ => fields
                .into_iter()
                .map(|(key, value)| (key, bson(value)))
                .collect::<Document>()
                .into(),
        },
        Value::Array(items) => items.into_iter().map(bson).collect::<Vec<_>>().into(),
        Value::String(text) => Bson::String(text),
        Value::Bool(flag) => Bson::Boolean(flag),
        Value::Null => Bson::Null,
        Value::Number(_) => panic!("KEDA reads numbers only as $numberLong"),
    }
}

async fn answers(world: &World) -> BTreeMap<String, u64> {
    let mut answers = BTreeMap::new();
    for (name, (collection, filter)) in questions() {
        let collection = world.store.database().collection::<Document>(&collection);
        answers.insert(name, collection.count_documents(filter).await.expect("it is answered"));
    }
    answers
}

async fn set(world: &World, id: &str, fields: Document) {
    let transactions = world.store.transactions();
    let update = transactions.update_one(doc! { "_id": id }, doc! { "$set": fields });
    let updated = update.bypass_document_validation(true).await.expect("it is there");
    assert_eq!(updated.matched_count, 1);
}

#[tokio::test]
async fn the_autoscaler_sees_what_waits_while_there_is_no_worker() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let none = answers(&world).await;
    assert_eq!(none.len(), 4, "{none:?}");
    assert!(none.values().all(|count| *count == 0), "{none:?}");
    let some: Vec<_> = (0..6).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    // Without a message, as of a producer that died: no queue knows of them.
    world.insert(&some).await;
    let ago =
        |seconds: i64| DateTime::from_millis(DateTime::now().timestamp_millis() - seconds * 1_000);
    set(&world, "t0", doc! { "createdAt": ago(90) }).await;
    set(&world, "t1", doc! { "state": "done" }).await;
    let parked = doc! { "parked": { "code": "x", "message": "x", "at": ago(1) } };
    set(&world, "t2", parked).await;
    set(&world, "t3", doc! { "state": "pending", "takeoverAt": ago(1) }).await;
    let found = answers(&world).await;
    let expected = [("events", 0), ("in-flight", 1), ("late", 1), ("waiting", 3)];
    assert_eq!(found, expected.map(|(name, count)| (name.to_owned(), count)).into());
    world.finish().await;
}

#[tokio::test]
async fn the_autoscalers_questions_are_answered_by_indexes() {
    let world = World::new().await;
    for (name, index) in [("waiting", "by_state"), ("late", "by_state"), ("in-flight", "in_flight")]
    {
        let (collection, filter) = questions().remove(name).expect(name);
        let explain = doc! {
            "explain": { "find": collection, "filter": filter }, "verbosity": "queryPlanner",
        };
        let plan = world.store.database().run_command(explain).await.expect("it is explained");
        let plan = plan.get_document("queryPlanner").and_then(|p| p.get_document("winningPlan"));
        let plan = plan.expect("a plan").to_string();
        assert!(plan.contains(&format!("\"indexName\": \"{index}\"")), "{name}: {plan}");
    }
    world.finish().await;
}

#[tokio::test]
async fn nothing_keeps_the_last_worker_once_everything_has_ended() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    let some: Vec<_> = (0..20).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&some, 5).await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 20);
    harness::wait::wait_until("the autoscaler sees nothing", s(30), async || {
        answers(&world).await.values().all(|count| *count == 0)
    })
    .await;
    drop(worker);
    world.finish().await;
}
