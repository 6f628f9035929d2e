//! Dead letters are looked at without being taken out, and brought back without paying twice.

use std::collections::BTreeMap;

use harness::producer::Answer;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::transaction::{ParkCode, Parked, State};
use mongo::raw_id;
use queue::{DEAD, WORK};
use serde_json::Value;

async fn wait_for_letters(world: &World, count: u32) {
    world.queues.wait_depth(DEAD, count, s(60)).await;
}

fn lines(answer: &Answer) -> Vec<Value> {
    answer.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The outcomes of a replay or a discard, by the reason of the letters as they were listed before.
async fn outcomes(world: &World, command: &str) -> BTreeMap<String, String> {
    let listed = lines(&world.producer(&["dead-letters", "list", "--json"]).await.expect_success());
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let reasons: BTreeMap<_, _> =
        listed.iter().map(|letter| (text(&letter["id"]), text(&letter["reason"]))).collect();
    let answer = world.producer(&["dead-letters", command, "--all", "--json"]).await;
    let outcome = |line: &Value| (reasons[&text(&line["id"])].clone(), text(&line["outcome"]));
    lines(&answer).iter().map(outcome).collect()
}

#[tokio::test]
async fn looking_at_dead_letters_takes_none_out_and_counts_them_by_reason() {
    let world = World::new().await;
    for body in ["not JSON", r#"{"ids":[]}"#, r#"{"ids":[1]}"#] {
        world.queues.publish_raw(WORK, body.as_bytes()).await;
    }
    world.queues.publish_raw(DEAD, br#"{"ids":["from-a-script"]}"#).await;
    let worker = world.worker("one").start().await;
    wait_for_letters(&world, 4).await;
    drop(worker);
    let list = async |more: &[&str]| {
        let arguments = [&["dead-letters", "list"][..], more].concat();
        world.producer(&arguments).await.expect_success()
    };
    for _ in 0..3 {
        let said = list(&[]).await.stdout;
        assert!(
            said.contains("malformed: 3 letters") && said.contains("unknown: 1 letters"),
            "{said}"
        );
        wait_for_letters(&world, 4).await;
    }
    let letters = lines(&list(&["--json", "--reason", "malformed"]).await);
    assert_eq!(letters.len(), 3);
    assert!(letters.iter().all(|letter| letter["diedAt"].is_string()), "{letters:?}");
    assert_eq!(list(&["--each", "--reason", "malformed", "--older-than", "1h"]).await.stdout, "");
    let id = letters[0]["id"].as_str().expect("an id");
    let shown =
        world.producer(&["dead-letters", "show", id, "--json"]).await.expect_success().json();
    assert_eq!(shown["reason"], "malformed");
    assert!(shown["problem"].is_string(), "{shown}");
    wait_for_letters(&world, 4).await;

    let refused = world.producer(&["dead-letters", "discard"]).await;
    assert_eq!(refused.code, Some(2), "without saying which: {refused:?}");
    let discard = ["dead-letters", "discard", "--reason", "malformed"];
    world.producer(&[&discard[..], &["--dry-run"]].concat()).await.expect_success();
    wait_for_letters(&world, 4).await;
    world.producer(&discard).await.expect_success();
    wait_for_letters(&world, 1).await;
    let gone = world.producer(&["dead-letters", "discard", id]).await;
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert!(gone.stderr.contains("no such dead letter"), "{gone:?}");
    world.finish().await;
}

#[tokio::test]
async fn a_look_sees_all_that_the_look_before_it_has_given_back() {
    const LETTERS: u32 = 50;
    let world = World::new().await;
    for number in 0..LETTERS {
        world.queues.publish_raw(DEAD, format!("letter {number}").as_bytes()).await;
    }
    wait_for_letters(&world, LETTERS).await;
    let client = world.client().await;
    for _ in 0..20 {
        let mut look = client.dead_letters().await.expect("the broker is there");
        let mut seen = 0;
        while look.next().await.expect("the broker is there").is_some() {
            seen += 1;
        }
        look.close().await;
        assert_eq!(seen, LETTERS);
    }
    world.finish().await;
}

#[tokio::test]
async fn a_replay_looks_at_each_transaction_and_says_why_a_letter_stays() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let transfers = ["paid", "waiting", "parked"].map(|id| transfer(id, "a", "b", 5));
    world.submit(&transfers[..1], 1).await;
    let mut worker = world.worker("one").start().await;
    world.wait_state("paid", State::Done, s(30)).await;
    // Drained: one that is killed may not have acknowledged yet.
    worker.drain(s(30)).await;
    world.insert(&transfers[1..]).await;
    let why = Parked::new(ParkCode::KillsWorker, "its workers died with it");
    world.store.park_by_id(&[raw_id("parked")], &why).await.expect("MongoDB is there");
    for ids in [r#"["paid"]"#, r#"["paid","waiting","parked"]"#, r#"["waiting","nobody"]"#] {
        let body = format!("{{\"ids\":{ids}}}");
        world.queues.publish_raw(DEAD, body.as_bytes()).await;
    }
    wait_for_letters(&world, 3).await;

    let dry = world.producer(&["dead-letters", "replay", "--all", "--dry-run"]).await;
    assert_eq!(dry.code, Some(1), "one stays: {dry:?}");
    assert_eq!(world.queues.depth(WORK).await, Some(0), "a dry run publishes nothing");
    let replayed = world.producer(&["dead-letters", "replay", "--all"]).await;
    assert_eq!(replayed.code, Some(1), "{replayed:?}");
    for said in [
        "replayed: 1 published, 1 unparked, 1 left alone",
        "all of its transactions are final",
        "nobody is not in the database",
    ] {
        assert!(replayed.stdout.contains(said), "{said:?} is missing in {}", replayed.stdout);
    }
    wait_for_letters(&world, 2).await;
    let worker = world.worker("two").start().await;
    for id in ["waiting", "parked"] {
        world.wait_state(id, State::Done, s(30)).await;
    }
    let discarded = outcomes(&world, "discard").await;
    assert_eq!(discarded["unknown"], "discarded");
    wait_for_letters(&world, 0).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

/// Enough letters that a replay of all of them takes a while.
const LETTERS: u32 = 200;

#[tokio::test]
async fn a_replay_that_is_killed_midway_loses_nothing_and_doubles_nothing() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000_000), ("b", 0)]).await;
    let transfers: Vec<_> = (0..LETTERS).map(|n| transfer(&format!("t{n}"), "a", "b", 5)).collect();
    world.insert(&transfers).await;
    for n in 0..LETTERS {
        world.queues.publish_raw(DEAD, format!("{{\"ids\":[\"t{n}\"]}}").as_bytes()).await;
    }
    let mut replay = world.spawn_producer(&["dead-letters", "replay", "--all"], &[]);
    wait_until("some letters are replayed", s(30), async || {
        world.queues.depth(WORK).await.is_some_and(|depth| depth > 10)
    })
    .await;
    replay.kill();
    let published = world.queues.depth(WORK).await.expect("the broker is there");
    assert!(published < LETTERS, "it was killed too late to show anything");
    // What was held is in the queue again once the broker has seen the end of the connection.
    wait_until("every letter is a message or still a letter", s(30), async || {
        let letters = world.queues.depth(DEAD).await.unwrap_or_default();
        letters + published >= LETTERS
    })
    .await;
    world.producer(&["dead-letters", "replay", "--all"]).await.expect_success();
    wait_for_letters(&world, 0).await;
    let worker = world.worker("one").start().await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, u64::from(LETTERS));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
