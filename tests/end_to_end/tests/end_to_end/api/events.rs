//! Outcomes as server-sent events.

use std::net::SocketAddr;

use harness::wait::{s, wait_until};
use harness::world::World;
use serde_json::Value;

use super::listener::Listener;
use super::transfer;

const PATH: &str = "/v1/transactions";

/// Somebody who listens to outcomes.
async fn listener(address: SocketAddr, query: &str, last: Option<&str>) -> Listener {
    Listener::open(address, &format!("/v1/events{query}"), last, ": listening").await
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
    let mut back = listener(api.address, "", Some(&last)).await;
    let missed = back.heard(1).await;
    assert_eq!((missed[0].data["id"].as_str(), missed.len()), (Some("missed"), 1));
    let mut foreign = listener(api.address, "", Some("7-7")).await;
    let told = foreign.heard(1).await;
    assert_eq!(told[0].name, "gap", "{told:?}");
    api.get("/v1/events?state=pending").await.expect(422);
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn listeners_are_told_of_a_gap_when_the_broker_was_away_and_hear_again() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (proxy, url) = world.amqp_proxy().await;
    let api = world.api_with(&[], &[("TANDEM_AMQP_URL", url.as_str())]).await;
    let mut hearing = listener(api.address, "", None).await;
    proxy.cut();
    let worker = world.worker("one").start().await;
    let told = hearing.heard(1).await;
    assert_eq!(told[0].name, "gap");
    assert!(told[0].data["since"].is_string(), "{told:?}");
    wait_until("submissions are taken", s(60), async || {
        let path = format!("{PATH}?wait=30");
        api.post(&path, &transfer("t", "a", "b", 5)).await.status == 200
    })
    .await;
    let heard = hearing.heard(2).await;
    assert_eq!(heard[1].data["id"], "t");
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
    api.get("/v1/events").await.expect(429);
    let note = "x".repeat(20_000);
    let transfers: Vec<Value> = (0..COUNT)
        .map(|n| {
            let mut transfer = transfer(&format!("t{n}"), "a", "b", 1);
            transfer["metadata"] = serde_json::json!({ "note": note });
            transfer
        })
        .collect();
    // It reads all the time: a listener that waits for the answer first would be asleep as well.
    let path = format!("{PATH}/batch?wait=60");
    let submitted = transfers.into();
    let (answer, heard) = tokio::join!(api.post(&path, &submitted), awake.heard(COUNT));
    answer.expect(200);
    let mut ids: Vec<&str> = heard.iter().map(|event| event.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), COUNT);
    drop(asleep);
    drop(worker);
    world.finish().await;
}
