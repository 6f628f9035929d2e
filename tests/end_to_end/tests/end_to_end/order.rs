//! The order of what ended: each end has one number, and who follows the numbers misses nothing.

use std::collections::{BTreeMap, BTreeSet};

use client::{Client, EndFilter, EndPage, Error, NumberedEnd};
use harness::process::Signal;
use harness::proxy::Part;
use harness::subscriber::Subscriber;
use harness::wait::{s, wait_until};
use harness::world::{World, legs, transfer};
use ledger::event::End;
use ledger::transaction::{Body, State, TransactionId};
use mongo::{Choice, JOURNAL, ORDER, raw};
use mongodb::bson::{Document, doc};
use serde_json::Value;
use tokio::task::JoinHandle;

async fn world() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 10_000), ("b", 0), ("c", 0)]).await;
    world
}

fn payments(count: usize) -> Vec<(TransactionId, Body)> {
    // Some are refused.
    let value = |n: usize| if n % 7 == 3 { 1_000_000 } else { 1 };
    (0..count).map(|n| transfer(&format!("t{n}"), "a", "b", value(n))).collect()
}

/// Everything that ended after a number, page by page.
async fn all(client: &Client, mut after: u64, limit: u32, filter: &EndFilter) -> Vec<NumberedEnd> {
    let mut all = Vec::new();
    loop {
        let page = client.ended_after(after, limit, filter).await.expect("MongoDB is there");
        assert!(page.items.len() <= limit as usize);
        all.extend(page.items);
        after = page.next;
        if page.is_last {
            return all;
        }
    }
}

/// Somebody who follows the numbers until so many have ended.
fn follower(client: &Client, count: usize) -> JoinHandle<Vec<NumberedEnd>> {
    let client = client.clone();
    tokio::spawn(async move {
        let (mut told, mut after) = (Vec::new(), 0);
        while told.len() < count {
            let page = client.ended_after(after, 17, &EndFilter::default()).await;
            let EndPage { items, next, is_last } = page.expect("MongoDB is there");
            told.extend(items);
            after = next;
            if is_last {
                tokio::task::yield_now().await;
            }
        }
        told
    })
}

/// Each transaction has one number, these are 1, 2, 3…, and what is told is how it ended.
async fn assert_numbered(world: &World, told: &[NumberedEnd]) {
    let numbers: Vec<u64> = told.iter().map(|end| end.number).collect();
    assert_eq!(numbers, (1..=told.len() as u64).collect::<Vec<_>>(), "without a gap");
    let ids: BTreeSet<&str> = told.iter().map(|end| &*end.ended.id).collect();
    assert_eq!(ids.len(), told.len(), "none has two");
    let ended = [State::Done, State::Canceled];
    assert_eq!(world.count(&ended).await, told.len() as u64, "none is left out");
    let lines = world.store.database().collection::<Document>(JOURNAL);
    for end in told {
        let stored = world.transaction(&end.ended.id).await;
        assert_eq!(end.ended.event["state"], stored.get_str("state").expect("a state"));
        let line = lines.find_one(doc! { "_id": stored.get_str("line").expect("a name") });
        let line = line.await.expect("MongoDB is there").expect("it is there");
        assert_eq!(&end.at, line.get_datetime("at").expect("a date"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_end_has_one_number_whatever_dies_and_who_follows_misses_nothing() {
    const COUNT: usize = 900;
    let world = world().await;
    let client = world.client().await;
    let following = follower(&client, COUNT);
    let engines = ["two-phase", "transaction", "auto"];
    let plan = |name: &str, engine| {
        let plan = world.worker(name).flag("--engine", engine).flag("--batch-size", 20);
        plan.flag("--sweep-ms", 200)
    };
    let mut workers = Vec::new();
    for engine in engines {
        workers.push(plan(engine, engine).start().await);
    }
    for (at, some) in payments(COUNT).chunks(100).enumerate() {
        world.submit(some, 10).await;
        let worker = &mut workers[at % engines.len()];
        wait_until("some of these have ended", s(60), async || {
            world.count(&[State::Done, State::Canceled]).await > at as u64 * 100
        })
        .await;
        worker.kill();
        *worker = plan(&format!("again-{at}"), engines[at % engines.len()]).start().await;
    }
    world.wait_final(s(120)).await;
    let followed = tokio::time::timeout(s(60), following).await;
    let followed = followed.expect("all get numbers").expect("no panic");
    let again = all(&client, 0, 1_000, &EndFilter::default()).await;
    assert_eq!(followed, again, "what was told never changes");
    assert_numbered(&world, &again).await;
    world.assert_at_rest().await;
    drop(workers);
    world.finish().await;
}

#[tokio::test]
async fn what_a_worker_has_ended_and_died_before_it_gave_numbers_gets_them_from_another() {
    for engine in ["two-phase", "transaction"] {
        let world = world().await;
        let (proxy, uri) = world.mongodb_proxy().await;
        let plan = world.worker("first").flag("--engine", engine);
        let mut first = plan.mongodb(&uri).start().await;
        let held = proxy.hold_about("insert", "tandem-page", Part::Request);
        world.submit(&[transfer("t", "a", "b", 1), transfer("u", "b", "a", 99)], 2).await;
        held.caught(s(30)).await;
        first.kill();
        held.discard();
        let client = world.client().await;
        assert_eq!(all(&client, 0, 10, &EndFilter::default()).await, [], "{engine}");
        let second = world.worker("second").start().await;
        let mut told = Vec::new();
        wait_until("both have numbers", s(60), async || {
            told = all(&client, 0, 10, &EndFilter::default()).await;
            told.len() == 2
        })
        .await;
        assert_numbered(&world, &told).await;
        drop(second);
        world.finish().await;
    }
}

#[tokio::test]
async fn a_worker_that_stands_still_before_it_gives_numbers_leaves_no_gap_and_gives_none_twice() {
    let world = world().await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let slow = world.worker("slow").mongodb(&uri).start().await;
    let held = proxy.hold_about("insert", "tandem-page", Part::Request);
    world.submit(&[transfer("first", "a", "b", 1)], 1).await;
    held.caught(s(30)).await;
    // Others end more meanwhile, and a sweeper numbers what the slow one has ended.
    let other = world.worker("other").flag("--sweep-ms", 200).start().await;
    world.submit(&payments(50), 5).await;
    world.wait_final(s(60)).await;
    let client = world.client().await;
    wait_until("all have numbers", s(60), async || {
        client.last_end().await.expect("MongoDB is there") == 51
    })
    .await;
    let before = all(&client, 0, 1_000, &EndFilter::default()).await;
    held.release();
    held.passed(s(30)).await;
    world.submit(&[transfer("last", "a", "b", 1)], 1).await;
    wait_until("that has its number, too", s(60), async || {
        client.last_end().await.expect("MongoDB is there") == 52
    })
    .await;
    let after = all(&client, 0, 1_000, &EndFilter::default()).await;
    assert_eq!(after[..51], before);
    assert_numbered(&world, &after).await;
    drop((slow, other));
    world.finish().await;
}

#[tokio::test]
async fn a_list_of_ends_passes_what_is_asked_for_and_moves_on_where_little_passes() {
    let world = world().await;
    let worker = world.worker("one").start().await;
    let mut some = payments(40);
    for (n, (_, body)) in some.iter_mut().enumerate() {
        let metadata = doc! { "order": n as i64, "shop": { "name": format!("s{}", n % 2) } };
        body.metadata = Some(raw(&metadata));
    }
    some.push(legs("split", &[("a", -3), ("b", 1), ("c", 2)]));
    world.submit(&some, 5).await;
    world.wait_final(s(60)).await;
    let client = world.client().await;
    wait_until("all have numbers", s(60), async || {
        client.last_end().await.expect("MongoDB is there") == 41
    })
    .await;
    let ids = async |filter: EndFilter, limit| -> BTreeSet<String> {
        let all = all(&client, 0, limit, &filter).await;
        all.iter().map(|end| end.ended.id.to_string()).collect()
    };
    let refused: BTreeSet<String> =
        (0..40).filter(|n| n % 7 == 3).map(|n| format!("t{n}")).collect();
    for limit in [1, 3, 1_000] {
        let canceled = EndFilter { end: Some(End::Canceled), ..EndFilter::default() };
        assert_eq!(ids(canceled, limit).await, refused, "by {limit}");
        let of_c = EndFilter { account: Some("c".into()), ..EndFilter::default() };
        assert_eq!(ids(of_c, limit).await, ["split".to_owned()].into(), "by {limit}");
    }
    let metadata = [("shop.name", "s1"), ("order", "17")];
    let metadata = metadata.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let order = EndFilter { metadata, ..EndFilter::default() };
    assert_eq!(ids(order, 10).await, ["t17".to_owned()].into());
    let euros = EndFilter { currency: Some("EUR".to_owned()), ..EndFilter::default() };
    let page = client.ended_after(0, 10, &euros).await.expect("MongoDB is there");
    assert_eq!((page.items.len(), page.next, page.is_last), (0, 41, true), "it moves on");
    let refused = client.ended_after(42, 10, &EndFilter::default()).await;
    let refused = refused.expect_err("nothing has this number").to_string();
    assert!(refused.contains("after") && refused.contains("the last number is 41"), "{refused}");
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_is_gone_from_the_order_is_said_and_not_passed_over() {
    let world = world().await;
    let worker = world.worker("one").start().await;
    let client = world.client().await;
    for n in 0..3 {
        world.submit(&[transfer(&format!("t{n}"), "a", "b", 1)], 1).await;
        wait_until("it has its number", s(60), async || {
            client.last_end().await.expect("MongoDB is there") == n + 1
        })
        .await;
    }
    let pages = world.store.database().collection::<Document>(ORDER);
    let gone = doc! { "_id": "end-0000000000000000002" };
    let page = pages.find_one_and_delete(gone).await.expect("MongoDB is there");
    let error = client.ended_after(0, 10, &EndFilter::default()).await;
    let error = error.expect_err("2 is gone").to_string();
    assert!(error.contains("a page is gone") && error.contains("restore"), "{error}");
    // The remedy works.
    pages.insert_one(page.expect("it was there")).await.expect("MongoDB is there");
    assert_numbered(&world, &all(&client, 0, 10, &EndFilter::default()).await).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_ledger_without_events_says_that_its_ends_have_no_numbers() {
    let world = world().await;
    world.choose(Choice { events: Some(false), ..Choice::default() }).await;
    let refused = world.client().await.ended_after(0, 10, &EndFilter::default()).await;
    assert_eq!(refused, Err(Error::WithoutEvents));
    let told = world.producer(&["events", "--after", "0"]).await;
    assert_eq!(told.code, Some(1), "{}", told.stderr);
    assert!(told.stderr.contains("producer init --apply --events on"), "{}", told.stderr);
    world.finish().await;
}

#[tokio::test]
async fn events_and_numbers_do_not_wait_for_each_other() {
    let world = world().await;
    let subscriber = Subscriber::new(&world).await;
    let (broker, amqp) = world.amqp_proxy().await;
    let worker = world.worker("one").start().await;
    let client = world.client().await;
    let (mongodb, uri) = world.mongodb_proxy().await;
    drop(worker);
    // No numbers can be given: the events are told.
    let worker = world.worker("two").mongodb(&uri).amqp(&amqp).start().await;
    let held = mongodb.hold_about("insert", "tandem-page", Part::Request);
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;
    held.caught(s(30)).await;
    assert_eq!(subscriber.of(1, s(30)).await.len(), 1);
    assert_eq!(client.last_end().await, Ok(0));
    held.release();
    wait_until("it has its number", s(30), async || client.last_end().await == Ok(1)).await;
    // No event can be told: a native worker ends what it has, and numbers are given.
    world.insert(&[transfer("u", "a", "b", 1)]).await;
    let held = mongodb.hold_about("events", "u", Part::Request);
    world.publish(&["u".into()], 1).await;
    held.caught(s(30)).await;
    broker.cut();
    wait_until("it has its number", s(30), async || client.last_end().await == Ok(2)).await;
    held.release();
    drop((worker, subscriber));
    world.finish().await;
}

/// The lines that a command has told, by number.
fn lines(text: &str) -> BTreeMap<u64, Value> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|line| Some((line["number"].as_u64()?, line))).collect()
}

#[tokio::test]
async fn the_command_goes_on_where_it_was_interrupted() {
    let world = world().await;
    let worker = world.worker("one").start().await;
    let mut following =
        world.spawn_producer(&["events", "--after", "0", "--follow", "--json"], &[]);
    world.submit(&payments(20), 5).await;
    wait_until("it has told of all", s(60), async || lines(&following.log()).len() == 20).await;
    following.signal(Signal::Int);
    assert_eq!(following.exit(s(30)).await.code(), Some(130));
    let log = following.log();
    assert!(log.contains("--after 20"), "{log}");
    world.submit(&[transfer("more", "a", "c", 1)], 1).await;
    world.wait_final(s(30)).await;
    wait_until("it has its number", s(30), async || {
        let rest = ["events", "--after", "20", "--json", "--account", "c", "--state", "done"];
        let told = lines(&world.producer(&rest).await.expect_success().stdout);
        told.get(&21).is_some_and(|line| line["id"] == "more" && line["at"].is_string())
    })
    .await;
    let told = world.producer(&["events", "--after", "0"]).await.expect_success().stdout;
    assert!(told.lines().any(|line| line.starts_with("21 more: done")), "{told}");
    assert_eq!(told.lines().count(), 21);
    let ahead = world.producer(&["events", "--after", "22"]).await;
    assert_eq!(ahead.code, Some(2), "{}", ahead.stderr);
    assert!(ahead.stderr.contains("the last number is 21"), "{}", ahead.stderr);
    drop(worker);
    world.finish().await;
}
