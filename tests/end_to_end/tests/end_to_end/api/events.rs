//! What ended: as a list, and as server-sent events with the same cursor.

use std::net::SocketAddr;
use std::time::Instant;

use harness::wait::{s, wait_until};
use harness::world::{self, World};
use mongo::Choice;
use serde_json::Value;

use super::listener::Listener;
use super::transfer;

const PATH: &str = "/v1/transactions";

/// Somebody who listens to outcomes.
async fn listener(address: SocketAddr, query: &str, last: Option<&str>) -> Listener {
    Listener::open(address, &format!("/v1/events/stream{query}"), last, ": listening").await
}

#[tokio::test]
async fn outcomes_are_heard_as_they_come_and_who_comes_back_gets_what_it_has_missed() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    let api = world.api(&[]).await;
    let mut all = listener(api.address, "", None).await;
    let mut canceled = listener(api.address, "?state=canceled", None).await;
    api.post(&format!("{PATH}?wait=30"), &transfer("paid", "a", "b", 5)).await.expect(200);
    api.post(&format!("{PATH}?wait=30"), &transfer("refused", "a", "b", 500)).await.expect(200);
    let heard = all.heard(2).await;
    let paid = heard.iter().find(|event| event.data["id"] == "paid").expect("it was told");
    assert_eq!((paid.name.as_str(), &paid.data["value"]), ("transaction.done", &"5".into()));
    let only = canceled.heard(1).await;
    assert_eq!(only[0].data["reason"]["code"], "insufficient_funds");
    assert_eq!(canceled.events().len(), 1);

    let last = heard.last().expect("there are two").id.clone();
    drop(all);
    api.post(&format!("{PATH}?wait=30"), &transfer("missed", "a", "b", 5)).await.expect(200);
    // Another server knows the same.
    let other = world.api(&[]).await;
    for address in [api.address, other.address] {
        let mut back = listener(address, "", Some(&last)).await;
        let missed = back.heard(1).await;
        assert_eq!((missed[0].data["id"].as_str(), missed.len()), (Some("missed"), 1));
        let mut all = listener(address, "?account=a", Some("0")).await;
        let ids: Vec<String> = all.heard(3).await.iter().map(|event| event.id.clone()).collect();
        assert_eq!(ids, ["1", "2", "3"]);
    }
    for (path, last, named) in [
        ("/v1/events/stream?state=pending", "1", "state"),
        ("/v1/events/stream", "7-7", "Last-Event-ID"),
        ("/v1/events/stream", "4", "Last-Event-ID"),
    ] {
        let headers = [("Last-Event-ID", last)];
        let refused = api.send("GET", path, &headers, "").await.expect(422).json();
        assert!(refused.to_string().contains(named), "{refused}");
    }
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_list_of_what_ended_goes_on_by_numbers_and_waits_for_what_comes() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    let api = world.api(&[]).await;
    let list = async |asked: &str| {
        let answer = api.get(&format!("/v1/events{asked}")).await.expect(200).json();
        let items = answer["items"].as_array().expect("a list").clone();
        (items, answer["next"].as_u64().expect("a number"), answer["last"] == true)
    };
    assert_eq!(list("").await, (vec![], 0, true));
    let begun = Instant::now();
    let some =
        [transfer("t1", "a", "b", 5), transfer("t2", "a", "b", 500), transfer("t3", "a", "b", 1)];
    let (path, some) = ("/v1/batch?wait=60", Value::from(some.to_vec()));
    let (waited, submitted) =
        tokio::join!(list("?after=0&wait=60&state=canceled"), api.post(path, &some));
    submitted.expect(200);
    assert!(begun.elapsed() < s(50), "it does not wait for its whole time");
    assert_eq!((waited.0.len(), &waited.0[0]["event"]["id"]), (1, &"t2".into()), "{waited:?}");
    wait_until("all have numbers", s(30), async || list("?after=last").await.1 == 3).await;
    let (all, next, last) = list("?after=0").await;
    assert_eq!((all.len(), next, last), (3, 3, true));
    let mut one_by_one = Vec::new();
    for after in 0..3 {
        let (items, next, _) = list(&format!("?after={after}&limit=1")).await;
        assert_eq!((items.len(), next), (1, after + 1));
        one_by_one.extend(items);
    }
    assert_eq!(one_by_one, all);
    assert!(all.iter().all(|item| item["at"].is_string()), "{all:?}");
    assert_eq!(list("?metadata.order=17").await, (vec![], 3, true));
    // Nothing more ends, so it waits for as long as it was told to.
    let begun = Instant::now();
    assert_eq!(list("?after=3&wait=1").await, (vec![], 3, true));
    assert!(begun.elapsed() >= s(1));
    let preferred = [("Prefer", "wait=1")];
    let answer = api.send("GET", "/v1/events?after=3", &preferred, "").await.expect(200);
    assert_eq!(answer.header("Preference-Applied"), Some("wait=1"));
    for (asked, named) in [
        ("?after=4", "the last number is 3"),
        ("?after=-1", "after"),
        ("?after=x", "after"),
        ("?limit=0", "limit"),
        ("?state=held", "state"),
        ("?account=", "account"),
        ("?metadata.=x", "metadata"),
        ("?wait=61", "wait"),
    ] {
        let refused = api.get(&format!("/v1/events{asked}")).await.expect(422).json();
        assert!(refused.to_string().contains(named), "{asked}: {refused}");
    }
    api.get("/v1/events?metadatax=1").await.expect(400);
    drop(worker);
    world.choose(Choice { events: Some(false), ..Choice::default() }).await;
    let without = world.api(&[]).await;
    for path in ["/v1/events", "/v1/events/stream"] {
        let refused = without.get(path).await.expect(409).json();
        assert!(refused.to_string().contains("--events on"), "{refused}");
    }
    world.finish().await;
}

#[tokio::test]
async fn listeners_miss_nothing_while_the_broker_or_the_database_is_away() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (amqp, url) = world.amqp_proxy().await;
    let (mongodb, uri) = world.mongodb_proxy().await;
    let env = [("TANDEM_AMQP_URL", url.as_str()), ("TANDEM_MONGODB_URI", uri.as_str())];
    let api = world.api_with(&[], &env).await;
    let mut hearing = listener(api.address, "", None).await;
    amqp.refuse();
    let worker = world.worker("one").start().await;
    world.submit(&[world::transfer("t", "a", "b", 5)], 1).await;
    assert_eq!(hearing.heard(1).await[0].data["id"], "t");
    mongodb.refuse();
    world.submit(&[world::transfer("u", "a", "b", 5)], 1).await;
    world.wait_final(s(30)).await;
    mongodb.restore();
    let heard = hearing.heard(2).await;
    assert_eq!((heard[1].data["id"].as_str(), heard[1].id.as_str()), (Some("u"), "2"));
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_listener_that_does_not_read_delays_nobody() {
    const COUNT: usize = 300;
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    let api = world.api(&["--listeners", "2"]).await;
    let asleep = listener(api.address, "", None).await;
    let mut awake = listener(api.address, "", None).await;
    api.get("/v1/events/stream").await.expect(429);
    let note = "x".repeat(20_000);
    let transfers: Vec<Value> = (0..COUNT)
        .map(|n| {
            let mut transfer = transfer(&format!("t{n}"), "a", "b", 1);
            transfer["metadata"] = serde_json::json!({ "note": note });
            transfer
        })
        .collect();
    // It reads all the time: a listener that waits for the answer first would be asleep as well.
    let path = "/v1/batch?wait=60";
    let submitted = transfers.into();
    let (answer, heard) = tokio::join!(api.post(path, &submitted), awake.heard(COUNT));
    answer.expect(200);
    let mut ids: Vec<&str> = heard.iter().map(|event| event.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), COUNT);
    drop(asleep);
    drop(worker);
    world.finish().await;
}
