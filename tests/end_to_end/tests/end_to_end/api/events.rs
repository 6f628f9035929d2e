//! Outcomes as server-sent events.

use std::net::SocketAddr;
use std::time::Duration;

use harness::wait::{s, wait_until};
use harness::world::World;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::transfer;

const PATH: &str = "/v1/transactions";

/// An event as it was received.
#[derive(Debug)]
struct Event {
    id: String,
    name: String,
    data: Value,
}

/// Somebody who listens.
struct Listener {
    stream: TcpStream,
    said: String,
}

impl Listener {
    async fn open(address: SocketAddr, query: &str, last: Option<&str>) -> Listener {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let request = format!("GET /v1/events{query} HTTP/1.1\r\nHost: {address}\r\n{last}\r\n");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut listener = Listener { stream, said: String::new() };
        listener.until(|listener| listener.said.contains(": listening")).await;
        assert!(listener.said.contains("text/event-stream"), "{}", listener.said);
        listener
    }

    /// Reads until something holds.
    async fn until(&mut self, holds: impl Fn(&Listener) -> bool) {
        let reading = async {
            let mut piece = [0; 1 << 16];
            while !holds(self) {
                let count = self.stream.read(&mut piece).await.expect("it is connected");
                assert!(count > 0, "it was ended: {}", self.said);
                self.said.push_str(&String::from_utf8_lossy(&piece[..count]));
            }
        };
        let read = tokio::time::timeout(Duration::from_secs(60), reading).await;
        assert!(read.is_ok(), "it was told only: {}", self.said);
    }

    /// The body so far, without the lengths of its chunks.
    fn body(&self) -> String {
        let (_, mut rest) = self.said.split_once("\r\n\r\n").expect("the head came first");
        let mut body = String::new();
        while let Some((length, chunk)) = rest.split_once("\r\n") {
            let length = usize::from_str_radix(length, 16).expect("the length of a chunk");
            let Some(whole) = chunk.get(..length) else { break };
            body.push_str(whole);
            rest = chunk[length..].trim_start_matches("\r\n");
        }
        body
    }

    /// The events so far.
    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for block in self.body().split("\n\n") {
            let field = |name: &str| {
                let line = block.lines().find_map(|line| line.strip_prefix(name));
                line.map(|value| value.trim().to_owned())
            };
            if let (Some(id), Some(name), Some(data)) =
                (field("id:"), field("event:"), field("data:"))
            {
                let data = serde_json::from_str(&data).expect("JSON on one line");
                events.push(Event { id, name, data });
            }
        }
        events
    }

    async fn heard(&mut self, count: usize) -> Vec<Event> {
        self.until(|listener| listener.events().len() >= count).await;
        self.events()
    }
}

#[tokio::test]
async fn outcomes_are_heard_as_they_come_and_who_comes_back_gets_what_it_has_missed() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    let api = world.api(&[]).await;
    let mut all = Listener::open(api.address, "", None).await;
    let mut canceled = Listener::open(api.address, "?state=canceled", None).await;
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
    let mut back = Listener::open(api.address, "", Some(&last)).await;
    let missed = back.heard(1).await;
    assert_eq!((missed[0].data["id"].as_str(), missed.len()), (Some("missed"), 1));
    let mut foreign = Listener::open(api.address, "", Some("7-7")).await;
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
    let mut listener = Listener::open(api.address, "", None).await;
    proxy.cut();
    let worker = world.worker("one").start().await;
    let told = listener.heard(1).await;
    assert_eq!(told[0].name, "gap");
    assert!(told[0].data["since"].is_string(), "{told:?}");
    wait_until("submissions are taken", s(60), async || {
        let path = format!("{PATH}?wait=30");
        api.post(&path, &transfer("t", "a", "b", 5)).await.status == 200
    })
    .await;
    let heard = listener.heard(2).await;
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
    let asleep = Listener::open(api.address, "", None).await;
    let mut awake = Listener::open(api.address, "", None).await;
    api.get("/v1/events").await.expect(429);
    let note = "x".repeat(20_000);
    let transfers: Vec<Value> = (0..COUNT)
        .map(|n| {
            let mut transfer = transfer(&format!("t{n}"), "a", "b", 1);
            transfer["metadata"] = serde_json::json!({ "note": note });
            transfer
        })
        .collect();
    api.post(&format!("{PATH}?wait=60"), &transfers.into()).await.expect(200);
    let mut ids: Vec<String> = awake.heard(COUNT).await.into_iter().map(|event| event.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), COUNT);
    drop(asleep);
    drop(worker);
    world.finish().await;
}
