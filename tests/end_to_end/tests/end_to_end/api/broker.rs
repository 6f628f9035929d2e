//! While the broker can't take ids, submissions are refused before anything is written, and what
//! was accepted is paid.

use harness::servers::OwnBroker;
use harness::wait::{s, wait_until};
use harness::world::{self, World};
use ledger::transaction::State;
use queue::WORK;

use super::transfer;

const PATH: &str = "/v1/transactions";

#[tokio::test]
async fn submissions_are_refused_while_too_much_waits_and_taken_again_after_that() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&["--backlog", "2"]).await;
    for n in 0..3 {
        let sent = api.post(PATH, &transfer(&format!("t{n}"), "a", "b", 1)).await;
        assert!(matches!(sent.status, 202 | 503), "{sent:?}");
    }
    world.queues.publish_raw(WORK, br#"{"ids":["nobody","nothing"]}"#).await;
    wait_until("submissions are refused", s(30), async || api.get("/readyz").await.status == 503)
        .await;
    let before = world.count(&State::ALL).await;
    let refused = api.post(PATH, &transfer("late", "a", "b", 1)).await.expect(503);
    assert!(refused.header("Retry-After").is_some(), "{refused:?}");
    assert!(refused.json()["detail"].as_str().is_some_and(|it| it.contains("messages wait")));
    assert_eq!(world.count(&State::ALL).await, before, "nothing was written");

    let worker = world.worker("one").start().await;
    wait_until("submissions are taken", s(60), async || {
        api.post(PATH, &transfer("late", "a", "b", 1)).await.status < 300
    })
    .await;
    world.wait_final(s(60)).await;
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn a_blocked_broker_costs_no_accepted_submission() {
    let broker = OwnBroker::start(&format!("api-{}", uuid::Uuid::new_v4().simple())).await;
    let world = World::on(broker.servers()).await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    let api = world.api(&[]).await;
    api.post(&format!("{PATH}?wait=30"), &transfer("before", "a", "b", 1)).await.expect(200);
    broker.alarm(true).await;
    let (mut accepted, mut refused) = (0, 0);
    for n in 0..40 {
        let answer = api.post(PATH, &transfer(&format!("t{n}"), "a", "b", 1)).await;
        match answer.status {
            202 => accepted += 1,
            503 => {
                assert!(answer.header("Retry-After").is_some(), "{answer:?}");
                refused += 1;
            }
            _ => panic!("{answer:?}"),
        }
    }
    assert!(refused > 20, "{accepted} were accepted, {refused} refused");
    assert_eq!(world.count(&State::ALL).await, accepted + 1, "refused ones are not written");
    // What needs no broker for its effect has it, and is told as done.
    world.insert(&[world::transfer("called-off", "a", "b", 1)]).await;
    let canceled = api.act(&format!("{PATH}/called-off/cancel")).await;
    // The worker may have ended it by now.
    assert!(matches!(canceled.status, 200 | 202), "{canceled:?}");
    let state = canceled.json()["state"].clone();
    assert!(state == "canceling" || state == "canceled", "{canceled:?}");
    broker.alarm(false).await;
    wait_until("submissions are taken", s(90), async || {
        api.post(PATH, &transfer("after", "a", "b", 1)).await.status < 300
    })
    .await;
    world.wait_final(s(90)).await;
    assert_eq!(world.count(&[State::Done]).await, accepted + 2);
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}
