//! The questions that the autoscaler asks, on a real database without a worker.
//!
//! They are read from the manifest, so what is tested is what is deployed.

use std::collections::BTreeMap;

use harness::api::Api;
use harness::deployment::root;
use harness::wait::{eventually, s};
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongodb::bson::{DateTime, Document, doc};

const MANIFEST: &str = "deploy/kubernetes/overlays/autoscaled/scaled-object.yaml";

/// A question: the path of the API, and where the number is in its answer.
type Question = (String, Vec<String>);

/// The questions by the name of their trigger.
fn questions() -> BTreeMap<String, Question> {
    let manifest = std::fs::read_to_string(root().join(MANIFEST)).expect(MANIFEST);
    let triggers = manifest.split("- type: metrics-api").skip(1).map(|trigger| {
        let value = |key: &str| {
            let text = trigger.split_once(&format!("{key}: ")).expect(key).1;
            text.lines().next().expect("a line").trim().to_owned()
        };
        let url = value("url");
        let path = url.split_once(".svc").expect("the service of the API").1.to_owned();
        let at = value("valueLocation").split('.').map(str::to_owned).collect();
        (value("name"), (path, at))
    });
    triggers.collect()
}

/// The answers; none while one of them is no number, which KEDA would take for a failure.
async fn answers(api: &Api) -> Option<BTreeMap<String, u64>> {
    let mut answers = BTreeMap::new();
    for (name, (path, at)) in questions() {
        let told = api.get(&path).await.expect(200).json();
        let found = at.iter().fold(&told, |told, field| &told[field]);
        answers.insert(name, found.as_u64()?);
    }
    Some(answers)
}

async fn told(
    api: &Api,
    what: &str,
    holds: impl Fn(&BTreeMap<String, u64>) -> bool,
) -> BTreeMap<String, u64> {
    eventually(what, s(60), async || answers(api).await.filter(|told| holds(told))).await
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
    let api = world.api(&[]).await;
    let none = told(&api, "nothing waits", |_| true).await;
    assert_eq!(none.len(), 3, "{none:?}");
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
    // Those that wait, and the one in flight.
    let found = told(&api, "they are seen", |told| told["backlog"] == 4).await;
    assert_eq!(found["events"], 0);
    assert!((80_000..300_000).contains(&found["oldest"]), "{found:?}");
    world.finish().await;
}

#[tokio::test]
async fn nothing_keeps_the_last_worker_once_everything_has_ended() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&[]).await;
    let worker = world.worker("one").start().await;
    let some: Vec<_> = (0..20).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&some, 5).await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 20);
    told(&api, "the autoscaler sees nothing", |told| told.values().all(|count| *count == 0)).await;
    drop(worker);
    world.finish().await;
}
