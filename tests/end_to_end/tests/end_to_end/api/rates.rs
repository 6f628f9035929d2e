//! Rates: of a token, of an address without a good one, and streams of a token.

use std::sync::atomic::{AtomicUsize, Ordering};

use harness::api::Api;
use harness::http::Answer;
use harness::wait::{s, wait_until};
use harness::world::World;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::console::form;
use super::transfer;

/// More requests than a rate of one a second lets pass.
const MANY: usize = 50;

/// Sends the same again until it is refused for the rate; what came before it has this status.
async fn until_limited(what: &str, status: u16, send: impl AsyncFn() -> Answer) -> Answer {
    for _ in 0..MANY {
        let answer = send().await;
        if answer.status == 429 {
            let wait = answer.header("Retry-After").and_then(|text| text.parse().ok());
            assert!(wait.is_some_and(|seconds: u64| seconds >= 1), "{what}: {answer:?}");
            return answer;
        }
        assert_eq!(answer.status, status, "{what}: {answer:?}");
    }
    panic!("{what}: {MANY} requests at once are not limited");
}

fn array(name: &str, items: usize) -> Value {
    (0..items).map(|at| transfer(&format!("{name}-{at}"), "a", "b", 1)).collect()
}

#[tokio::test]
async fn an_array_counts_its_items_and_the_next_request_waits_for_them() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let api = world.api(&["--rate", "2"]).await;
    // It is larger than what may come at once, and is taken all the same.
    let answer = api.post("/v1/batch", &array("first", 400)).await.expect(200);
    assert_eq!(answer.header("RateLimit-Policy"), Some("\"default\";q=2;w=1"));
    let left = answer.header("RateLimit").unwrap_or_default();
    let left = left.strip_prefix("\"default\";r=0;t=").and_then(|seconds| seconds.parse().ok());
    assert!(left.is_some_and(|seconds: u64| (60..=200).contains(&seconds)), "{left:?}");
    let refused = api.post("/v1/batch", &array("second", 1)).await.expect(429);
    let wait: u64 = refused.header("Retry-After").and_then(|text| text.parse().ok()).expect("when");
    assert!((60..=200).contains(&wait), "400 items are 200 s: {wait}");
    assert_eq!(world.count(&ledger::transaction::State::ALL).await, 400, "nothing is written");
    world.finish().await;
}

/// A server with tokens, one for reading, and few requests of an address without one.
async fn strict(world: &World, more: &[&str]) -> Api {
    let file = world.directory().join("tokens");
    let token = world.token(&file, "reader", "read").await;
    let tokens = ["--tokens", file.to_str().expect("UTF-8"), "--rate-address", "1"];
    let mut api = world.api(&[&tokens, more].concat()).await;
    api.use_token(&token);
    api
}

/// Sends without the token, through proxies that say so.
async fn stranger(api: &Api, path: &str, from: &[&str]) -> Answer {
    let headers: Vec<_> = from.iter().map(|from| ("X-Forwarded-For", *from)).collect();
    let answer = harness::http::send(api.address, "GET", path, &headers, "", s(60)).await;
    answer.expect("it answers")
}

#[tokio::test]
async fn requests_without_a_good_token_are_limited_and_those_with_one_are_not() {
    let world = World::new().await;
    let api = strict(&world, &[]).await;
    for (path, status) in [("/v1/accounts", 401), ("/v1", 200), ("/nowhere", 404), ("/", 401)] {
        // From everywhere, as it says: nobody believes it.
        let others = ["198.51.100.1", "198.51.100.2"];
        until_limited(path, status, async || stranger(&api, path, &others).await).await;
    }
    let wrong = "token=tandem_0";
    let sign_in = async || {
        let headers = [("Content-Type", "application/x-www-form-urlencoded")];
        let path = "/console/sign-in";
        let sent = harness::http::send(api.address, "POST", path, &headers, wrong, s(60)).await;
        sent.expect("it answers")
    };
    let limited = until_limited("a sign-in", 401, sign_in).await;
    assert!(limited.body.contains("name=\"token\""), "it is the form: {limited:?}");
    // Who has a token, and who probes, hears nothing of it.
    for _ in 0..MANY {
        api.get("/v1/accounts").await.expect(200);
        assert_eq!(stranger(&api, "/healthz", &[]).await.status, 200);
        assert_eq!(stranger(&api, "/readyz", &[]).await.status, 200);
    }
    world.finish().await;
}

#[tokio::test]
async fn a_good_sign_in_counts_in_the_rate_of_its_token() {
    let world = World::new().await;
    let file = world.directory().join("tokens");
    let token = format!("token={}", world.token(&file, "reader", "read").await);
    let tokens = file.to_str().expect("UTF-8");
    let api = world.api(&["--tokens", tokens, "--rate", "1", "--rate-address", "0"]).await;
    let sign_in = async || form(&api, "/console/sign-in", &[], &token).await;
    until_limited("a sign-in", 303, sign_in).await;
    // The rates of addresses are off.
    for _ in 0..MANY {
        stranger(&api, "/v1/accounts", &[]).await.expect(401);
    }
    world.finish().await;
}

#[tokio::test]
async fn behind_a_proxy_that_is_trusted_each_client_has_its_own_rate() {
    let world = World::new().await;
    let api = strict(&world, &["--trusted-proxy", "127.0.0.1"]).await;
    let flood = async || stranger(&api, "/v1/accounts", &["203.0.113.1"]).await;
    until_limited("one client", 401, flood).await;
    stranger(&api, "/v1/accounts", &["203.0.113.2"]).await.expect(401);
    // What a client writes before the proxy does is not believed.
    let invented = AtomicUsize::new(0);
    until_limited("one that invents addresses", 401, async || {
        let next = invented.fetch_add(1, Ordering::Relaxed);
        let lie = format!("198.51.100.{next}, 203.0.113.3");
        stranger(&api, "/v1/accounts", &[&lie]).await
    })
    .await;
    world.finish().await;
}

/// Opens a stream of the overview; returns its status and the connection.
async fn stream(api: &Api, token: &str) -> (u16, TcpStream) {
    let mut stream = TcpStream::connect(api.address).await.expect("it listens");
    let ask = format!(
        "GET /v1/overview/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).await.expect("it reads");
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.expect("it answers");
    let status = String::from_utf8_lossy(&status).into_owned();
    let status = status.strip_prefix("HTTP/1.1 ").and_then(|status| status.parse().ok());
    (status.expect("a status"), stream)
}

#[tokio::test]
async fn a_token_has_so_many_streams_and_leaves_those_of_others() {
    let world = World::new().await;
    let file = world.directory().join("tokens");
    let one = world.token(&file, "one", "read").await;
    let other = world.token(&file, "other", "read").await;
    let tokens = file.to_str().expect("UTF-8");
    let api = world.api(&["--tokens", tokens, "--token-streams", "2"]).await;
    let open = [stream(&api, &one).await, stream(&api, &one).await];
    assert_eq!(open.each_ref().map(|(status, _)| *status), [200, 200]);
    assert_eq!(stream(&api, &one).await.0, 429);
    assert_eq!(stream(&api, &other).await.0, 200);
    drop(open);
    wait_until("there is room again", s(60), async || stream(&api, &one).await.0 == 200).await;
    world.finish().await;
}
