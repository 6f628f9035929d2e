//! While the broker can't take ids, submissions are only inserted, up to a limit; beyond it they are
//! refused before anything is written. What was accepted is paid.

use std::time::Instant;

use harness::servers::OwnBroker;
use harness::wait::{ms, promised, s, wait_until};
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
    wait_until("submissions are refused", s(30), async || {
        api.post(PATH, &transfer("late", "a", "b", 1)).await.status == 503
    })
    .await;
    api.get("/readyz").await.expect(200);
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
    let api = world.api(&["--backlog", "25"]).await;
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
    assert!(accepted >= 25 && refused > 5, "{accepted} were accepted, {refused} refused");
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

#[tokio::test]
async fn while_the_broker_says_nothing_the_api_stays_and_what_it_takes_is_paid_when_it_is_back() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let (proxy, url) = world.amqp_proxy().await;
    let api = world.api_with(&["--backlog", "20"], &[("TANDEM_AMQP_URL", &url)]).await;
    let post = async |n: u32| api.post(PATH, &transfer(&format!("t{n}"), "a", "b", 1)).await;
    post(0).await.expect(202);
    proxy.silence();
    let letters = async || {
        let begun = Instant::now();
        let status = api.get("/v1/dead-letters").await.status;
        (status, begun.elapsed())
    };
    // It may not be known yet.
    let (status, took) = letters().await;
    assert!(status == 503 && took < promised(s(15)), "{status} after {took:?}");
    wait_until("it is known", s(30), async || {
        let (status, took) = letters().await;
        status == 503 && took < ms(500)
    })
    .await;
    let begun = Instant::now();
    for n in 1..=20 {
        post(n).await.expect(202);
    }
    assert!(
        begun.elapsed() < promised(s(10)),
        "each of them waited for the broker: {:?}",
        begun.elapsed()
    );
    let refused = post(21).await.expect(503);
    assert!(refused.header("Retry-After").is_some(), "{refused:?}");
    assert!(refused.json()["detail"].as_str().is_some_and(|it| it.contains("wait for it already")));
    assert_eq!(world.count(&State::ALL).await, 21, "what is refused is not written");
    for (path, status) in [("/readyz", 200), ("/v1/accounts/a", 200), ("/v1/transactions/t3", 200)]
    {
        api.get(path).await.expect(status);
    }
    api.act(&format!("{PATH}/t20/cancel")).await.expect(202);
    proxy.restore();
    let worker = world.worker("one").start().await;
    world.wait_final(s(120)).await;
    assert_eq!(world.count(&[State::Done]).await, 20);
    let mut next = 21;
    wait_until("they are taken again", s(60), async || {
        next += 1;
        post(next).await.status == 202
    })
    .await;
    drop(worker);
    world.finish().await;
}
