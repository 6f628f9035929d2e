//! Programs and commands that hear of outcomes.

use std::collections::BTreeMap;

use client::{Outcome, Submission};
use harness::process::Signal;
use harness::subscriber::Subscriber;
use harness::wait::{s, wait_until};
use harness::world::transfer;
use serde_json::Value;

use super::{event_of, payments, world};

#[tokio::test]
async fn the_command_tells_of_outcomes_as_they_come_and_of_those_of_the_past() {
    let world = world().await;
    let subscriber = Subscriber::new(&world).await;
    let mut following = world.spawn_producer(&["events", "--follow", "--json"], &[]);
    let worker = world.worker("one").start().await;
    // What ends before it listens is not for it.
    let mut early = 0;
    wait_until("it listens", s(60), async || {
        early += 1;
        world.submit(&[transfer(&format!("early{early}"), "a", "b", 1)], 1).await;
        following.log().contains("early")
    })
    .await;
    world.submit(&[transfer("done", "a", "b", 5), transfer("refused", "c", "b", 5)], 2).await;
    wait_until("it has told of both", s(60), async || {
        let told = parsed(&following.log());
        told.contains_key("done") && told.contains_key("refused")
    })
    .await;
    following.signal(Signal::Int);
    assert_eq!(following.exit(s(30)).await.code(), Some(130));

    world.wait_final(s(30)).await;
    let received = subscriber.of(early + 2, s(30)).await;
    let past = world.producer(&["events", "--since", "1h", "--json"]).await.expect_success();
    let (live, past) = (parsed(&following.log()), parsed(&past.stdout));
    for id in ["done", "refused"] {
        let mut live = live[id].clone();
        let live = live.as_object_mut().expect("an event");
        assert!(live.remove("number").is_some_and(|number| number.is_u64()));
        assert!(live.remove("at").is_some_and(|at| at.is_string()));
        assert_eq!(event_of(&received, id).body.as_object(), Some(&*live));
        assert_eq!(event_of(&received, id).body, past[id]);
    }
    assert_eq!(past.len(), early + 2);
    let future = ["events", "--since", "2100-01-01T00:00:00Z"];
    assert_eq!(world.producer(&future).await.expect_success().stdout, "");
    drop((worker, subscriber));
    world.finish().await;
}

/// The events in lines of JSON, by id; other lines are left out.
fn parsed(text: &str) -> BTreeMap<String, Value> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|event| Some((event["id"].as_str()?.to_owned(), event))).collect()
}

#[tokio::test]
async fn a_replay_brings_a_subscriber_whose_queue_was_lost_the_same_events() {
    let world = world().await;
    let worker = world.worker("one").start().await;
    let early = Subscriber::new(&world).await;
    let transfers = payments(700);
    world.submit(&transfers, 50).await;
    world.submit(&[transfer("refused", "c", "a", 1)], 1).await;
    world.wait_final(s(60)).await;
    let before = early.of(701, s(30)).await;
    drop(early);
    let replay = ["events", "--replay", "--since", "1h", "--json"];
    wait_until("the broker has removed the queue", s(30), async || {
        let unheard = world.producer(&replay).await.expect_success();
        unheard.stdout == "{\"published\":701,\"unrouted\":701}\n"
    })
    .await;
    let late = Subscriber::new(&world).await;
    let heard = world.producer(&replay).await.expect_success();
    assert_eq!(heard.stdout, "{\"published\":701,\"unrouted\":0}\n");
    let again = late.of(701, s(30)).await;
    for event in &before {
        let id = event.body["id"].as_str().expect("an id");
        assert_eq!(event_of(&again, id), event);
    }
    drop((worker, late));
    world.finish().await;
}

#[tokio::test]
async fn a_program_that_waits_hears_of_the_end_and_of_all_others_in_a_stream() {
    let world = world().await;
    let client = world.client().await;
    let mut outcomes = client.outcomes().await.expect("the broker is there");
    let pay = |value: i64| Submission::transfer("a", "b", value);
    let receipts = client.submit_all([pay(5), pay(1_000_000)]).await;
    let ids: Vec<_> = receipts.into_iter().map(|one| one.expect("it is taken").id).collect();
    let (refused, worker) = tokio::join!(client.outcome(&ids[1]), world.worker("one").start());
    let refused = refused.expect("the database is there");
    assert!(matches!(&refused, Outcome::Canceled { code, .. } if code == "insufficient_funds"));
    let mut heard = BTreeMap::new();
    while heard.len() < 2 {
        let ended = outcomes.next().await.expect("the broker is there");
        heard.insert(ended.id.to_string(), ended.outcome);
    }
    assert_eq!(heard[&*ids[0]], Outcome::Done);
    assert_eq!(heard[&*ids[1]], refused);
    outcomes.close().await;
    drop(worker);
    world.finish().await;
}
