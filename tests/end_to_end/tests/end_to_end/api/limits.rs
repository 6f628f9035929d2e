//! Slow, idle and many clients cost nobody else anything, and a stop answers what was accepted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::api::Api;
use harness::http::Answer;
use harness::process::Signal;
use harness::wait::{promised, s, wait_until};
use harness::world::World;
use ledger::amount::Amount;
use ledger::transaction::{Body, TransactionId};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::transfer;

#[tokio::test]
async fn clients_that_are_slow_are_cut_off_and_delay_nobody() {
    let world = World::new().await;
    world.accounts(&[("a", 10)]).await;
    let limits = ["--head-limit", "2", "--body-limit", "2", "--connections", "20"];
    let api = world.api(&limits).await;
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
    assert!(begun.elapsed() < promised(s(20)), "{:?}", begun.elapsed());
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

/// Asks on a connection that is kept, and reads the answer, which has no body.
async fn ask_again(stream: &mut TcpStream, pause: Duration) {
    let ask = "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let (first, rest) = ask.split_at(10);
    stream.write_all(first.as_bytes()).await.expect("it reads");
    tokio::time::sleep(pause).await;
    stream.write_all(rest.as_bytes()).await.expect("it reads");
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\n") {
        said.push(stream.read_u8().await.expect("it answers"));
    }
    assert!(said.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&said));
}

#[tokio::test]
async fn an_idle_connection_outlives_the_limit_of_a_head_and_is_closed_after_its_own() {
    let world = World::new().await;
    let api = world.api(&["--head-limit", "3", "--idle-limit", "20"]).await;
    let mut kept = TcpStream::connect(api.address).await.expect("it listens");
    ask_again(&mut kept, Duration::ZERO).await;
    // It stays longer than a head may take, and a head that begins late has all of its time.
    tokio::time::sleep(s(6)).await;
    ask_again(&mut kept, s(1)).await;
    let idle = Instant::now();
    let end = tokio::time::timeout(s(60), kept.read_to_end(&mut Vec::new())).await;
    assert!(end.is_ok() && idle.elapsed() > s(18), "closed after {:?}", idle.elapsed());

    let mut halfway = TcpStream::connect(api.address).await.expect("it listens");
    ask_again(&mut halfway, Duration::ZERO).await;
    halfway.write_all(b"GET /healthz HTT").await.expect("it reads");
    let begun = Instant::now();
    let end = tokio::time::timeout(s(60), halfway.read_to_end(&mut Vec::new())).await;
    assert!(end.is_ok() && begun.elapsed() < promised(s(18)), "closed after {:?}", begun.elapsed());
    world.finish().await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off() {
    let world = World::new().await;
    let api = world.api(&["--stall-limit", "2"]).await;
    let mut deaf = TcpStream::connect(api.address).await.expect("it listens");
    // Far more is asked for than the system keeps for somebody who does not read.
    let ask = "GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2_000);
    let (mut reading, mut writing) = deaf.split();
    let asked = tokio::time::timeout(s(30), writing.write_all(ask.as_bytes())).await;
    let cut_off = async || {
        let page = api.get("/metrics").await.expect(200).body;
        let open = harness::http::Metrics::new(page).sum("tandem_http_connections", &[]);
        // The question's own connection counts.
        open < 1.5
    };
    wait_until("it is cut off", s(30), cut_off).await;
    let mut rest = Vec::new();
    let end = tokio::time::timeout(s(30), reading.read_to_end(&mut rest)).await;
    assert!(end.is_ok(), "{asked:?}");
    world.finish().await;
}

#[tokio::test]
async fn heads_without_an_end_and_bodies_that_nobody_asked_for_are_refused() {
    let world = World::new().await;
    let api = world.api(&[]).await;
    let large = "x".repeat(40_000);
    let answer = api.send("GET", "/", &[("X-Large", large.as_str())], "").await;
    assert_eq!(answer.status, 431, "{answer:?}");
    let many: Vec<(String, String)> = (0..200).map(|n| (format!("X-{n}"), "1".into())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, one)| (&**name, &**one)).collect();
    assert_eq!(api.send("GET", "/", &many, "").await.status, 431);
    // Whoever has no token can't make the server keep anything.
    let unasked = api.send("GET", "/healthz", &[], &"x".repeat(100_000)).await.expect(400);
    assert_eq!(unasked.json()["detail"], "there must be no body here");
    world.finish().await;
}

/// A server that is told to stop while somebody waits for the outcome of a transfer, which no worker
/// settles; and the answer.
async fn stopped_while_somebody_waits(world: &World) -> (Api, JoinHandle<Option<Answer>>) {
    world.accounts(&[("a", 10), ("b", 0)]).await;
    let api = world.api(&[]).await;
    let (address, path) = (api.address, "/v1/transactions?wait=60");
    let body = transfer("t", "a", "b", 1).to_string();
    let waiting = tokio::spawn(async move {
        let json = [("Content-Type", "application/json")];
        harness::http::send(address, "POST", path, &json, &body, s(120)).await
    });
    wait_until("it is accepted", s(30), async || {
        world.count(&ledger::transaction::State::ALL).await == 1
    })
    .await;
    api.signal(Signal::Term);
    (api, waiting)
}

#[tokio::test]
async fn a_stop_answers_what_was_accepted_and_ends_with_0() {
    let world = World::new().await;
    let (mut api, waiting) = stopped_while_somebody_waits(&world).await;
    let address = api.address;
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
async fn whoever_waits_for_a_minute_is_answered_by_a_server_that_was_told_to_stop() {
    let world = World::new().await;
    let (mut api, waiting) = stopped_while_somebody_waits(&world).await;
    wait_until("probes hear of it", s(30), async || {
        harness::http::get(api.probes, "/readyz").await.is_some_and(|told| told.status == 503)
    })
    .await;
    // No worker is there: it waits to the end.
    let answer = waiting.await.expect("no panic").expect("it is answered");
    assert_eq!(answer.expect(202).json()["state"], "initial");
    assert_eq!(api.exit(s(30)).await.code(), Some(0), "{}", api.log());
    world.finish().await;
}

#[tokio::test]
async fn however_many_connections_there_are_probes_and_metrics_are_answered_without_a_token() {
    let world = World::new().await;
    let tokens = world.directory().join("tokens");
    let token = world.token(&tokens, "reader", "read").await;
    let tokens = tokens.to_str().expect("UTF-8");
    let mut api = world.api(&["--tokens", tokens, "--connections", "10"]).await;
    api.use_token(&token);
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(TcpStream::connect(api.address).await.expect("it listens"));
    }
    let of_its_own = async || harness::http::get(api.probes, "/metrics").await.expect("a page");
    wait_until("all connections are taken", s(20), async || {
        let metrics = harness::http::Metrics::new(of_its_own().await.expect(200).body);
        metrics.sum("tandem_http_connections", &[]) > 9.0
    })
    .await;
    let asked = harness::http::send(api.address, "GET", "/healthz", &[], "", s(2)).await;
    assert!(asked.is_none(), "the others wait: {asked:?}");
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/v1/accounts/a", 404)] {
        let answer = harness::http::get(api.probes, path).await.expect("it answers");
        assert_eq!(answer.status, status, "{path}: {answer:?}");
    }
    let posted = harness::http::send(api.probes, "POST", "/healthz", &[], "", s(10)).await;
    assert_eq!(posted.expect("it answers").status, 405);
    drop(idle);
    world.finish().await;
}

/// Bodies of the largest size that take the most memory, crowds of tiny values; each with its status.
fn worst_bodies() -> [(&'static str, String, u16); 4] {
    const BYTES: usize = 8 << 20;
    let items = |item: &str| {
        let count = ((BYTES - 2) / (item.len() + 1)).min(10_000);
        format!("[{}]", vec![item; count].join(","))
    };
    // Of one id and content: all are kept until they are answered, and one is inserted.
    let transfer = |metadata: &str| {
        format!(r#"{{"id":"t","source":"a","destination":"b","value":1,"metadata":{metadata}}}"#)
    };
    let ones = |bytes: usize| format!("[{}1]", "1,".repeat(bytes / 2));
    let objects = |bytes: usize| format!("[{}0]", "{},".repeat(bytes / 3));
    let keyed = format!(r#"{{"l":{}}}"#, ones(1_500));
    let deep = format!(r#"{{"l":{}}}"#, objects(1_500));
    [
        ("/v1/batch", items(&transfer(&keyed)), 200),
        ("/v1/batch", items(&transfer(&deep)), 200),
        ("/v1/batch", items(&transfer(&format!(r#"{{"l":{}}}"#, ones(1_000_000)))), 200),
        ("/v1/transactions", transfer(&ones(BYTES - 200)), 413),
    ]
}

#[tokio::test]
async fn the_worst_bodies_stay_within_the_memory_that_the_manifest_grants() {
    let granted = granted_mebibytes();
    let world = World::new().await;
    let api = world.api(&[]).await;
    let address = api.address;
    let json = [("Content-Type", "application/json")];
    for (path, body, expected) in worst_bodies() {
        let sending = (0..4).map(|_| {
            let body = body.clone();
            tokio::spawn(async move {
                harness::http::send(address, "POST", path, &json, &body, s(120)).await
            })
        });
        // At least one of them is read to its end, and the others find no room at most.
        let mut statuses = Vec::new();
        for sent in sending.collect::<Vec<_>>() {
            statuses.push(sent.await.expect("no panic").expect("it is answered").status);
        }
        let peak = peak_mebibytes(api.pid());
        statuses.sort_unstable();
        assert_eq!(statuses.iter().filter(|of| ![expected, 503].contains(of)).count(), 0);
        assert_eq!(statuses[0], expected, "{statuses:?}");
        eprintln!("{path}, 4 x {} bytes: {statuses:?}, {peak} MiB at most", body.len());
        assert!(peak < granted, "{peak} of {granted} MiB");
    }
    api.get("/readyz").await.expect(200);
    world.finish().await;
}

/// Transactions with as much metadata as one may have: one long text, very many small values, or a
/// text that takes six times as many bytes in JSON.
fn largest_transactions(count: usize) -> Vec<(TransactionId, Body)> {
    const BYTES: usize = ledger::limits::METADATA_BYTES_MAX - 1_000;
    let body = |metadata: Document| {
        let metadata = RawDocumentBuf::try_from(&metadata).expect("it is BSON");
        let mut body = Body::transfer("a", "b", Amount::Int(1)).expect("it is a transfer");
        body.metadata = Some(metadata);
        body
    };
    let ones: Vec<Bson> = vec![Bson::Int32(1); BYTES / 11];
    let bodies = [
        body(doc! { "text": "x".repeat(BYTES) }),
        body(doc! { "ones": ones }),
        body(doc! { "text": "\u{1}".repeat(BYTES) }),
    ];
    (0..count).map(|at| (format!("{at:04}").into(), bodies[at % 3].clone())).collect()
}

/// The ids of a page of transactions, and where it goes on.
async fn listed(api: &Api, cursor: Option<String>) -> (Vec<String>, Option<String>) {
    let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
    let page = api.get(&format!("/v1/transactions?limit=1000{cursor}")).await.expect(200).json();
    let ids = page["items"].as_array().expect("a list").iter();
    let ids = ids.map(|item| item["id"].to_string()).collect();
    (ids, page["next"].as_str().map(str::to_owned))
}

#[tokio::test]
async fn pages_of_the_largest_transactions_end_early_and_stay_within_the_memory_of_the_manifest() {
    const COUNT: usize = 120;
    let granted = granted_mebibytes();
    let world = World::new().await;
    world.insert(&largest_transactions(COUNT)).await;
    let api = Arc::new(world.api(&[]).await);
    let callers = (0..16).map(|_| {
        let api = api.clone();
        tokio::spawn(async move {
            let (mut cursor, mut sizes) = (None, Vec::new());
            for _ in 0..3 {
                let (ids, next) = listed(&api, cursor).await;
                sizes.push(ids.len());
                cursor = next;
            }
            sizes
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        let sizes = caller.await.expect("no panic");
        assert!(sizes.iter().all(|size| (1..=16).contains(size)), "4 MiB and no more: {sizes:?}");
    }
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let (ids, next) = listed(&api, cursor).await;
        all.extend(ids);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    let different: BTreeSet<&String> = all.iter().collect();
    assert_eq!((all.len(), different.len()), (COUNT, COUNT), "each once, and none is left out");
    let peak = peak_mebibytes(api.pid());
    eprintln!("16 lists of the largest transactions: {peak} MiB at most");
    assert!(peak < granted, "{peak} of {granted} MiB");
    world.finish().await;
}

/// The memory that the manifest grants a server of the API.
fn granted_mebibytes() -> u64 {
    let manifest = harness::deployment::root().join("deploy/kubernetes/base/api.yaml");
    let manifest = std::fs::read_to_string(manifest).expect("it is there");
    let granted = manifest.split("limits: {memory: ").nth(1).expect("it is limited");
    granted.split("Mi").next().and_then(|mi| mi.parse().ok()).expect("in Mi")
}

/// The most memory that a process has taken so far.
fn peak_mebibytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kibibytes = line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
    kibibytes.expect("a number") >> 10
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
    let long = format!("/nowhere/{}", "x".repeat(20_000));
    api.get(&long).await.expect(404);
    assert!(!api.log().contains(&"x".repeat(5_000)), "a long address is cut in the log");
    let page = [("Accept", "text/html,application/xhtml+xml")];
    let mistyped = api.send("GET", "/nowhere", &page, "").await.expect(404);
    assert!(mistyped.body.starts_with("<!DOCTYPE html>"), "a person gets a page: {mistyped:?}");
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
