//! Outcome events: every end has its event, whatever dies; and who hears of it can spend the money.

mod listening;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use common::amount::Amount;
use common::transaction::State;
use futures_util::future::join_all;
use harness::proxy::Part;
use harness::servers::OwnBroker;
use harness::subscriber::{Received, Subscriber};
use harness::wait::{eventually, s, wait_until};
use harness::world::{World, legs, transfer};
use mongodb::bson::{Document, doc};
use serde_json::{Value, json};

const ENGINES: [&str; 2] = ["two-phase", "transaction"];

async fn world() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 10_000), ("b", 0), ("c", 0)]).await;
    world
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
    let due = world.store.database().collection::<Document>("events");
    due.count_documents(doc! {}).await.expect("MongoDB is there")
}

async fn every_end_has_its_event(engine: &str) {
    let world = world().await;
    let subscriber = Subscriber::new(&world).await;
    let note = doc! { "note": "thanks", "lines": [1, 2.5, { "deep": true }] };
    let (id, mut noted) = transfer("noted", "a", "b", 5);
    noted.metadata = Some(note);
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
    assert_eq!((&body("noted")["source"], &body("noted")["value"]), (&json!("a"), &json!(5)));
    assert_eq!(body("split")["legs"][0], json!({ "account": "a", "amount": -7 }));
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

#[tokio::test]
async fn an_event_whose_worker_died_before_the_end_comes_again_and_is_the_same() {
    let world = world().await;
    let subscriber = Subscriber::new(&world).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let mut first = world.worker("first").mongodb(&uri).start().await;
    let held = proxy.hold("done", 1, Part::Request);
    world.submit(&[transfer("t", "a", "b", 10)], 1).await;
    held.caught(s(30)).await;
    let before = subscriber.of(1, s(10)).await;
    assert_eq!(world.state("t").await, State::Applied, "it was announced, and is not final");
    assert_eq!(world.balance("b").await, Amount::Int(10), "the money is spendable");
    first.kill();
    held.discard();
    let second = world.worker("second").start().await;
    world.wait_state("t", State::Done, s(60)).await;
    let received = subscriber.received().await;
    assert_eq!(received.len(), 2, "once from each worker");
    assert_eq!(event_of(&received, "t"), &before[0]);
    world.assert_at_rest().await;
    drop(second);
    world.finish().await;
}

#[tokio::test]
async fn a_native_batch_whose_worker_died_after_its_commit_is_announced_by_another() {
    let world = world().await;
    let subscriber = Subscriber::new(&world).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let plan = world.worker("first").flag("--engine", "transaction");
    let mut first = plan.mongodb(&uri).start().await;
    // The events are made of what is read after the commit.
    let held = proxy.hold("events", 1, Part::Request);
    world.submit(&[transfer("t", "a", "b", 10), transfer("u", "b", "a", 99)], 2).await;
    held.caught(s(30)).await;
    assert_eq!((world.state("t").await, world.state("u").await), (State::Done, State::Canceled));
    first.kill();
    held.discard();
    assert_eq!((due(&world).await, subscriber.received().await.len()), (1, 0));
    let second = world.worker("second").start().await;
    let received = subscriber.of(2, s(60)).await;
    assert_eq!(event_of(&received, "u").body["reason"]["code"], "insufficient_funds");
    wait_until("nothing is due any more", s(30), async || due(&world).await == 0).await;
    drop(second);
    world.finish().await;
}

/// Blocks the broker for publishers, as when its memory is used up, or lets it go on.
async fn alarm(broker: &OwnBroker, on: bool) {
    let watermark = if on { "0.00001" } else { "0.4" };
    broker.control(&["set_vm_memory_high_watermark", watermark]).await;
}

#[tokio::test]
async fn a_blocked_broker_delays_no_money_and_loses_no_event() {
    let broker = OwnBroker::start(&format!("blocked-{}", uuid::Uuid::new_v4().simple())).await;
    let world = World::on(broker.servers()).await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    let subscriber = Subscriber::new(&world).await;
    let transfers: Vec<_> = (0..200).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&transfers, 5).await;
    alarm(&broker, true).await;
    let worker = world.worker("one").flag("--batch-size", 20).start().await;
    let took = world.wait_final(s(60)).await;
    assert!(took < s(20), "without a confirm the money took {took:?}");
    assert_eq!(subscriber.received().await.len(), 0, "the broker takes nothing");
    assert!(due(&world).await > 0);
    alarm(&broker, false).await;
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
    let transfers: Vec<_> = (0..50).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&transfers, 10).await;
    let took = world.wait_final(s(60)).await;
    assert!(took < s(20), "the full queue held the money up for {took:?}");
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
    let transfers: Vec<_> = (0..100).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&transfers, 10).await;
    world.wait_final(s(60)).await;
    let metrics = worker.metrics().await;
    let count = |outcome| metrics.sum("tandem_events_total", &[("outcome", outcome)]);
    assert!((count("unrouted") - 100.0).abs() < 0.5, "{}", count("unrouted"));
    assert_eq!((count("due") as u64, due(&world).await), (0, 0));
    // Whoever binds a queue hears of everything that is submitted from then on.
    let subscriber = Subscriber::new(&world).await;
    world.submit(&[transfer("later", "a", "b", 1), transfer("never", "c", "a", 1)], 1).await;
    let received = subscriber.of(2, s(60)).await;
    assert_eq!(event_of(&received, "never").body["state"], "canceled");
    assert_eq!(event_of(&received, "later").body["state"], "done");
    drop((worker, subscriber));
    world.finish().await;
}

/// Passes what an account has received on to the next one, as soon as the event says that it is there.
async fn pass_on(world: &World, subscriber: &Subscriber, chains: usize, hops: usize) {
    let mut moved: BTreeSet<String> = BTreeSet::new();
    let begun = tokio::time::Instant::now();
    while moved.len() < chains * hops {
        assert!(begun.elapsed() < s(240), "{} of {} hops", moved.len(), chains * hops);
        let mut next = Vec::new();
        for event in subscriber.received().await {
            let id = event.body["id"].as_str().expect("an id").to_owned();
            assert_eq!(event.body["state"], "done", "{}", event.body);
            if !moved.insert(id.clone()) {
                continue;
            }
            let (chain, hop) = id.split_once('-').expect("an id of ours");
            let hop: usize = hop.parse().expect("a number");
            if hop < hops {
                let account = |hop: usize| format!("{chain}.{hop}");
                let id = format!("{chain}-{}", hop + 1);
                next.push(transfer(&id, &account(hop), &account(hop + 1), 100));
            }
        }
        if next.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        } else {
            world.submit(&next, 10).await;
        }
    }
}

#[tokio::test]
async fn what_an_event_says_was_received_can_be_spent_at_once_on_any_worker() {
    const CHAINS: usize = 60;
    const HOPS: usize = 6;
    let world = World::new().await;
    let names: Vec<String> = (0..CHAINS)
        .flat_map(|chain| (0..=HOPS).map(move |hop| format!("c{chain}.{hop}")))
        .collect();
    let opening = |name: &String| if name.ends_with(".0") { 100 } else { 0 };
    let accounts: Vec<_> = names.iter().map(|name| (name.as_str(), opening(name))).collect();
    world.accounts(&accounts).await;
    let subscriber = Subscriber::new(&world).await;
    // Small batches, so that settlements wait for rides, as they do under load.
    let plan = |name| world.worker(name).flag("--batch-size", 8).flag("--ride-ms", 300);
    let (one, two) = (plan("one"), plan("two").flag("--engine", "transaction"));
    let workers = tokio::join!(one.start(), two.start(), plan("three").start());
    let first = |chain: usize| {
        transfer(&format!("c{chain}-1"), &format!("c{chain}.0"), &format!("c{chain}.1"), 100)
    };
    world.submit(&(0..CHAINS).map(first).collect::<Vec<_>>(), 10).await;
    pass_on(&world, &subscriber, CHAINS, HOPS).await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Canceled]).await, 0, "nothing was refused");
    world.assert_at_rest().await;
    drop((workers, subscriber));
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

/// The accounts as a subscriber keeps them who knows nothing but the opening balances and the events.
fn books(opening: &[(&str, i64)], received: &[Received]) -> BTreeMap<String, i64> {
    let mut books: BTreeMap<String, i64> =
        opening.iter().map(|(account, balance)| ((*account).to_owned(), *balance)).collect();
    let mut known = BTreeSet::new();
    let done = received.iter().filter(|event| event.body["state"] == "done");
    for event in done.filter(|event| known.insert(event.message_id.clone())) {
        let text = |field: &str| event.body[field].as_str().expect("a transfer").to_owned();
        let value = event.body["value"].as_i64().expect("minor units");
        *books.entry(text("source")).or_default() -= value;
        *books.entry(text("destination")).or_default() += value;
    }
    books
}

#[tokio::test]
async fn books_that_are_kept_from_events_alone_are_right_though_workers_are_killed() {
    let opening = [("a", 300), ("b", 300), ("c", 300), ("d", 0)];
    let names = ["a", "b", "c", "d"];
    let world = World::new().await;
    world.accounts(&opening).await;
    let subscriber = Subscriber::new(&world).await;
    let transfers: Vec<_> = (0..1_500_usize)
        .map(|n| {
            let (source, step) = (n % 4, 1 + n % 3);
            let value = i64::try_from(n % 40).expect("small") + 1;
            transfer(&format!("t{n}"), names[source], names[(source + step) % 4], value)
        })
        .collect();
    world.submit(&transfers, 10).await;
    for (round, engine) in ["two-phase", "transaction", "two-phase"].into_iter().enumerate() {
        let before = world.count(&State::UNFINISHED).await;
        let plan = world.worker(&format!("killed-{round}")).flag("--batch-size", 50);
        let mut worker = plan.flag("--engine", engine).start().await;
        wait_until("it has ended some", s(60), async || {
            world.count(&State::UNFINISHED).await + 60 < before
        })
        .await;
        worker.kill();
    }
    let worker = world.worker("last").start().await;
    world.wait_final(s(120)).await;
    wait_until("nothing is due any more", s(60), async || due(&world).await == 0).await;
    let received = subscriber.of(1_500, s(30)).await;
    let kept = books(&opening, &received);
    for name in names {
        assert_eq!(world.balance(name).await, Amount::Int(kept[name]), "{name}");
    }
    let canceled = received.iter().filter(|event| event.body["state"] == "canceled").count();
    assert!(canceled > 0, "some are refused, so that both ends are there");
    eprintln!("books: {} events of 1,500 transactions", received.len());
    world.assert_at_rest().await;
    drop((worker, subscriber));
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
