//! Slow, idle and many clients cost nobody else anything, and a stop answers what was accepted.

use std::time::{Duration, Instant};

use harness::process::Signal;
use harness::wait::{s, wait_until};
use harness::world::World;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::transfer;

#[tokio::test]
async fn clients_that_are_slow_are_cut_off_and_delay_nobody() {
    let world = World::new().await;
    world.accounts(&[("a", 10)]).await;
    let api = world.api(&["--read-limit", "2", "--connections", "20"]).await;
    let mut slow = Vec::new();
    for start in [
        "GET /v1/accounts/a HTTP/1.1\r\nHost: loc",
        "POST /v1/transactions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: 100\r\n\r\n{",
        "",
    ] {
        for _ in 0..5 {
            let mut stream = TcpStream::connect(api.address).await.expect("it listens");
            stream.write_all(start.as_bytes()).await.expect("it reads");
            slow.push((start, stream));
        }
    }
    let begun = Instant::now();
    for _ in 0..20 {
        api.get("/v1/accounts/a").await.expect(200);
    }
    assert!(begun.elapsed() < s(20), "{:?}", begun.elapsed());
    for (start, mut stream) in slow {
        let mut said = String::new();
        let end = tokio::time::timeout(s(30), stream.read_to_string(&mut said)).await;
        assert!(end.is_ok(), "{start:?} is cut off");
        if start.starts_with("POST") {
            assert!(said.starts_with("HTTP/1.1 408"), "{said}");
        }
    }
    // More than there is room for: they wait, and are served when there is.
    let mut idle = Vec::new();
    for _ in 0..25 {
        idle.push(TcpStream::connect(api.address).await.expect("it listens"));
    }
    api.get("/v1/accounts/a").await.expect(200);
    drop(idle);
    world.finish().await;
}

#[tokio::test]
async fn a_stop_answers_what_was_accepted_and_ends_with_0() {
    let world = World::new().await;
    world.accounts(&[("a", 10), ("b", 0)]).await;
    let mut api = world.api(&[]).await;
    let (address, path) = (api.address, "/v1/transactions?wait=60");
    let body = transfer("t", "a", "b", 1).to_string();
    let waiting = tokio::spawn(async move {
        let json = [("Content-Type", "application/json")];
        harness::http::send(address, "POST", path, &json, &body, s(90)).await
    });
    wait_until("it is accepted", s(30), async || {
        world.count(&common::transaction::State::ALL).await == 1
    })
    .await;
    api.signal(Signal::Term);
    wait_until("nobody new gets in", s(30), async || TcpStream::connect(address).await.is_err())
        .await;
    let worker = world.worker("one").start().await;
    let answer = waiting.await.expect("no panic").expect("it is answered");
    assert_eq!(answer.expect(200).json()["state"], "done");
    assert_eq!(api.exit(Duration::from_secs(30)).await.code(), Some(0), "{}", api.log());
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn each_answer_has_the_id_of_its_request_and_is_logged_and_counted() {
    let world = World::new().await;
    let api = world.api(&[]).await;
    let own = [("X-Request-Id", "order-7")];
    let answer = api.send("GET", "/v1/accounts/nobody", &own, "").await.expect(404);
    assert_eq!(answer.header("X-Request-Id"), Some("order-7"));
    let foreign = [("X-Request-Id", "a b\tc")];
    let answer = api.send("GET", "/nowhere", &foreign, "").await.expect(404);
    assert!(answer.header("X-Request-Id").is_some_and(|id| id.len() == 36), "{answer:?}");
    let refused = api.send("DELETE", "/v1/accounts", &[], "").await.expect(405);
    assert!(refused.header("Allow").is_some_and(|allow| allow.contains("GET")), "{refused:?}");
    let page = api.get("/metrics").await.expect(200).body;
    let metrics = harness::http::Metrics::new(page);
    let route = [("route", "/v1/accounts/{id}"), ("status", "404")];
    let counted = metrics.sum("tandem_http_requests_total", &route);
    assert!((counted - 1.0).abs() < f64::EPSILON, "{counted}");
    assert!(api.log().contains("request=\"order-7\""), "{}", api.log());
    world.finish().await;
}
