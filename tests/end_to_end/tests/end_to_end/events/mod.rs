//! Outcome events: every end has its event, whatever dies; and who hears of it can spend the money.

mod listening;
mod money;

use futures_util::TryStreamExt;
use futures_util::future::join_all;
use harness::proxy::Part;
use harness::servers::OwnBroker;
use harness::subscriber::{Received, Subscriber};
use harness::wait::{eventually, promised, s, wait_until};
use harness::world::{World, legs, transfer};
use ledger::transaction::{Body, State, TransactionId};
use mongo::{JOURNAL, raw};
use mongodb::bson::{Document, doc};
use serde_json::{Value, json};

const ENGINES: [&str; 2] = ["two-phase", "transaction"];

async fn world() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 10_000), ("b", 0), ("c", 0)]).await;
    world
}

/// So many transfers of 1 from a to b.
fn payments(count: usize) -> Vec<(TransactionId, Body)> {
    (0..count).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect()
}

fn assert_valid(event: &Received) {
    let schema = include_str!("../../../../../common/schemas/outcome.json");
    let schema: Value = serde_json::from_str(schema).expect("the schema is JSON");
    let schema = jsonschema::draft202012::new(&schema).expect("the schema is a schema");
    let wrong: Vec<_> = schema.iter_errors(&event.body).map(|error| error.to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:?}: {}", event.body);
}

/// The only event of a transaction; repeats have to be the same.
fn event_of<'a>(received: &'a [Received], id: &str) -> &'a Received {
    let mut events = received.iter().filter(|event| event.body["id"] == id);
    let first = events.next().unwrap_or_else(|| panic!("{id} has no event"));
    assert!(events.all(|event| event == first), "{id} has two events");
    first
}

async fn due(world: &World) -> u64 {
    let due = world.store.database().collection::<Document>(mongo::EVENTS);
    due.count_documents(doc! {}).await.expect("MongoDB is there")
}

async fn every_end_has_its_event(engine: &str) {
    let world = world().await;
    let subscriber = Subscriber::new(&world).await;
    let note = doc! { "note": "thanks", "lines": [1, 2.5, { "deep": true }] };
    let (id, mut noted) = transfer("noted", "a", "b", 5);
    noted.metadata = Some(raw(&note));
    let (split, refused) =
        (legs("split", &[("a", -7), ("b", 4), ("c", 3)]), transfer("refused", "b", "a", 1_000_000));
    let ids = ["noted", "split", "refused", "senseless", "canceled"];
    world.insert(&[(id, noted), split, refused, transfer("canceled", "a", "b", 1)]).await;
    let senseless = doc! {
        "_id": "senseless", "state": "initial", "source": "a", "destination": "a", "value": 5_i64,
        "createdAt": mongodb::bson::DateTime::now(), "lastModified": mongodb::bson::DateTime::now(),
    };
    world.store.transactions().insert_one(senseless).await.expect("there is no rule against it");
    world.producer(&["cancel", "canceled"]).await.expect_success();
    let worker = world.worker("one").flag("--engine", engine).start().await;
    world.publish(&ids.map(Into::into), 10).await;

    let received = subscriber.of(ids.len(), s(60)).await;
    for event in &received {
        assert_valid(event);
        let (id, state) = (event.body["id"].as_str(), event.body["state"].as_str());
        let (id, state) = (id.expect("an id"), state.expect("a state"));
        assert_eq!(event.message_id, format!("{id}:{state}"));
        assert_eq!(event.routing_key, format!("transaction.{state}"));
        assert_eq!(event.content_type, "application/json");
        let header = |name: &str| event.headers[&format!("cloudEvents_{name}")].as_str();
        assert_eq!((header("specversion"), header("id")), ("1.0", event.message_id.as_str()));
        assert_eq!(header("type"), format!("tandem.transaction.{state}"));
        assert_eq!(header("source"), format!("/tandem/{}", world.name));
        assert_eq!(header("subject"), id);
        world.wait_state(id, State::parse(state).expect("a final state"), s(30)).await;
    }
    let body = |id: &str| &event_of(&received, id).body;
    assert_eq!(
        body("noted")["metadata"],
        json!({ "note": "thanks", "lines": [1, 2.5, { "deep": true }] })
    );
    assert_eq!((&body("noted")["source"], &body("noted")["value"]), (&json!("a"), &json!("5")));
    assert_eq!(body("split")["legs"][0], json!({ "account": "a", "amount": "-7" }));
    let code = |id: &str| body(id)["reason"]["code"].as_str();
    assert_eq!(code("refused"), Some("insufficient_funds"));
    assert_eq!((code("senseless"), code("canceled")), (Some("invalid"), Some("requested")));
    assert_eq!(received.len(), ids.len(), "nothing died, so nothing was sent twice");
    wait_until("nothing is due any more", s(10), async || due(&world).await == 0).await;
    world.assert_at_rest().await;
    drop((worker, subscriber));
    world.finish().await;
}

#[tokio::test]
async fn every_end_has_its_event_and_it_says_what_the_document_says() {
    join_all(ENGINES.map(every_end_has_its_event)).await;
}

/// A worker dies between the commit of an end and its event.
async fn another_announces_it(engine: &str) {
    let world = world().await;
    let subscriber = Subscriber::new(&world).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let plan = world.worker("first").flag("--engine", engine);
    let mut first = plan.mongodb(&uri).start().await;
    // The events are made of what is read after the commit.
    let held = proxy.hold("events", 1, Part::Request);
    world.submit(&[transfer("t", "a", "b", 10), transfer("u", "b", "a", 99)], 2).await;
    held.caught(s(30)).await;
    let states = [world.state("t").await, world.state("u").await];
    assert!(states.iter().any(|state| state.is_final()), "{engine}: {states:?}");
    first.kill();
    held.discard();
    assert!(due(&world).await > 0, "{engine}");
    assert_eq!(subscriber.received().await.len(), 0, "{engine}");
    let second = world.worker("second").start().await;
    let received = subscriber.of(2, s(60)).await;
    assert_eq!(event_of(&received, "t").body["state"], "done", "{engine}");
    assert_eq!(event_of(&received, "u").body["reason"]["code"], "insufficient_funds", "{engine}");
    wait_until("nothing is due any more", s(30), async || due(&world).await == 0).await;
    world.assert_at_rest().await;
    drop(second);
    world.finish().await;
}

#[tokio::test]
async fn what_a_worker_has_ended_and_died_before_it_told_is_told_by_another() {
    join_all(["two-phase", "transaction"].map(another_announces_it)).await;
}

/// What the journal has about a transaction: its line, and how that says it ended.
async fn lines_of(world: &World, id: &str) -> Vec<(String, &'static str)> {
    let journal = world.store.database().collection::<Document>(JOURNAL);
    let mut found = Vec::new();
    for end in ["done", "canceled"] {
        let names = doc! { end: { "$elemMatch": { "0": id } } };
        let mut lines = journal.find(names).await.expect("MongoDB is there");
        while let Some(line) = lines.try_next().await.expect("MongoDB is there") {
            found.push((line.get_str("_id").expect("a name").to_owned(), end));
        }
    }
    found
}

/// The reply to the commit of an end is lost, and the worker sends the same end again.
async fn one_line_for_each_end(engine: &str) {
    let world = world().await;
    let subscriber = Subscriber::new(&world).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let plan = world.worker("one").flag("--engine", engine).flag("--op-limit-ms", 1_000);
    let worker = plan.flag("--sweep-ms", 200).mongodb(&uri).start().await;
    let lost = proxy.hold("commit", 1, Part::Reply);
    world.submit(&[transfer("t", "a", "b", 10), transfer("u", "b", "a", 99)], 2).await;
    lost.caught(s(30)).await;
    lost.discard();
    world.wait_final(s(60)).await;
    let received = subscriber.of(2, s(60)).await;
    assert_eq!(event_of(&received, "t").body["state"], "done", "{engine}");
    for (id, end) in [("t", "done"), ("u", "canceled")] {
        let document = world.transaction(id).await;
        let line = document.get_str("line").expect("it names its line").to_owned();
        assert_eq!(lines_of(&world, id).await, [(line, end)], "{engine}");
    }
    wait_until("nothing is due any more", s(30), async || due(&world).await == 0).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn an_end_whose_reply_is_lost_has_one_line_and_its_event() {
    join_all(["two-phase", "transaction"].map(one_line_for_each_end)).await;
}

#[tokio::test]
async fn a_blocked_broker_delays_no_money_and_loses_no_event() {
    let broker = OwnBroker::start(&format!("blocked-{}", uuid::Uuid::new_v4().simple())).await;
    let world = World::on(broker.servers()).await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    let subscriber = Subscriber::new(&world).await;
    let transfers = payments(200);
    world.submit(&transfers, 5).await;
    broker.alarm(true).await;
    // So much time that a slow database needs no second attempt: it would have to be published.
    let plan = world.worker("one").flag("--batch-size", 20);
    let plan = plan.flag("--lease-ms", 40_000).flag("--op-limit-ms", 10_000);
    let worker = plan.flag("--grace-ms", 12_000).start().await;
    let took = world.wait_final(s(60)).await;
    assert!(took < promised(s(20)), "without a confirm the money took {took:?}");
    assert_eq!(subscriber.received().await.len(), 0, "the broker takes nothing");
    assert!(due(&world).await > 0);
    wait_until("the metrics show what is due", s(60), async || {
        worker.metrics().await.sum("tandem_events_due", &[]) > 0.5
    })
    .await;
    broker.alarm(false).await;
    let received = subscriber.of(200, s(90)).await;
    transfers.iter().for_each(|(id, _)| assert_eq!(event_of(&received, id).body["state"], "done"));
    wait_until("nothing is due any more", s(60), async || due(&world).await == 0).await;
    let metrics = worker.metrics().await;
    assert!(metrics.sum("tandem_events_total", &[("outcome", "due")]) >= 200.0);
    world.assert_at_rest().await;
    drop((worker, subscriber));
    world.finish().await;
}

#[tokio::test]
async fn a_subscriber_whose_queue_is_full_is_nobody_elses_problem() {
    let world = world().await;
    let (full, well) = (Subscriber::full_after(&world, 40).await, Subscriber::new(&world).await);
    let worker = world.worker("one").start().await;
    let transfers = payments(50);
    world.submit(&transfers, 10).await;
    let took = world.wait_final(s(60)).await;
    assert!(took < promised(s(20)), "the full queue held the money up for {took:?}");
    let received = well.of(50, s(10)).await;
    transfers.iter().for_each(|(id, _)| assert_eq!(event_of(&received, id).body["state"], "done"));
    // Whoever was full gets the rest once it takes more, and each of them at least once.
    full.of(50, s(90)).await;
    assert!(worker.metrics().await.sum("tandem_refusals_total", &[]) < 1.0, "no strike");
    world.assert_at_rest().await;
    drop((worker, full, well));
    world.finish().await;
}

#[tokio::test]
async fn events_that_nobody_has_bound_a_queue_for_are_counted_and_no_error() {
    let world = world().await;
    let worker = world.worker("one").start().await;
    let transfers = payments(100);
    world.submit(&transfers, 10).await;
    world.wait_final(s(60)).await;
    wait_until("nothing is due any more", s(30), async || due(&world).await == 0).await;
    let metrics = worker.metrics().await;
    let count = |outcome| metrics.sum("tandem_events_total", &[("outcome", outcome)]);
    assert!((count("unrouted") - 100.0).abs() < 0.5, "{}", count("unrouted"));
    assert_eq!(count("due") as u64, 0);
    // Whoever binds a queue hears of everything that is submitted from then on.
    let subscriber = Subscriber::new(&world).await;
    world.submit(&[transfer("later", "a", "b", 1), transfer("never", "c", "a", 1)], 1).await;
    let received = subscriber.of(2, s(60)).await;
    assert_eq!(event_of(&received, "never").body["state"], "canceled");
    assert_eq!(event_of(&received, "later").body["state"], "done");
    drop((worker, subscriber));
    world.finish().await;
}

#[tokio::test]
async fn workers_with_events_on_and_off_never_work_on_one_ledger() {
    let world = world().await;
    let subscriber = Subscriber::new(&world).await;
    let mut told_otherwise = world.worker("one").flag("--events", "off").launch();
    assert_eq!(told_otherwise.exit(s(30)).await.code(), Some(1));
    assert!(told_otherwise.log().contains("the ledger has events on"), "{}", told_otherwise.log());
    let mut worker = world.worker("two").flag("--events", "on").start().await;
    world.producer(&["init", "--apply", "--events", "off"]).await.expect_success();
    assert_eq!(worker.exit(s(30)).await.code(), Some(1), "{}", worker.log());
    assert!(worker.log().contains("events off now"), "{}", worker.log());
    let quiet = world.worker("three").start().await;
    world.submit(&[transfer("t", "a", "b", 10)], 1).await;
    world.wait_state("t", State::Done, s(30)).await;
    assert_eq!(subscriber.received().await, []);
    drop((quiet, subscriber));
    world.finish().await;
}

#[tokio::test]
async fn metadata_that_fits_no_message_is_left_out_and_that_is_said() {
    let world = world().await;
    let subscriber = Subscriber::new(&world).await;
    let (large, deep) =
        ("x".repeat(300_000), (0..40).fold(doc! {}, |inner, _| doc! { "in": inner }));
    for (id, metadata) in [("large", doc! { "text": large }), ("deep", deep)] {
        let mut document =
            transfer(id, "a", "b", 1).1.to_document(id, mongodb::bson::DateTime::now());
        document.insert("metadata", metadata);
        world.store.transactions().insert_one(document).await.expect("MongoDB takes it");
    }
    let worker = world.worker("one").start().await;
    world.publish(&["large".into(), "deep".into()], 2).await;
    let received = subscriber.of(2, s(60)).await;
    for id in ["large", "deep"] {
        let event = event_of(&received, id);
        assert_valid(event);
        assert_eq!(event.body["metadataOmitted"], true, "{}", event.body);
    }
    eventually("both are final", s(30), async || {
        (world.count(&State::UNFINISHED).await == 0).then_some(())
    })
    .await;
    drop((worker, subscriber));
    world.finish().await;
}
