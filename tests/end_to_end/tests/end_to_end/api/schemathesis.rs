//! The OpenAPI document is true: schemathesis, a program that knows nothing else of the API, sends
//! requests that it makes from the document, and compares the answers with it.

use std::io::Write;
use std::process::Stdio;

use harness::api::Api;
use harness::deployment::root;
use harness::http::{self, Metrics};
use harness::wait::s;
use harness::worker::Worker;
use harness::world::{World, transfer};
use ledger::transaction::State;
use serde_json::Value;
use tokio::process::Command;

/// Far fewer would mean that operations are left out.
const REQUESTS_MIN: u64 = 1_000;
/// The same with a token of one scope.
const REQUESTS_OF_A_SCOPE_MIN: u64 = 30;

/// A worker, the accounts and the transaction that the examples of the document name, and an API.
async fn prepare(world: &World, scopes: &[&str]) -> (Worker, Api, Vec<String>) {
    let worker = world.worker("one").start().await;
    world.accounts(&[("alice", 1_000_000), ("bob", 0), ("carol", 0), ("bank", 0)]).await;
    world.submit(&[transfer("rent-2026-11", "alice", "bob", 1_250)], 1).await;
    world.wait_state("rent-2026-11", State::Done, s(60)).await;
    let file = world.directory().join("tokens");
    let mut tokens = Vec::new();
    for (at, scopes) in scopes.iter().enumerate() {
        tokens.push(world.token(&file, &format!("t{at}"), scopes).await);
    }
    // It tries every operation without a token, too.
    let file = file.to_str().expect("UTF-8");
    let api = world.api(&["--tokens", file, "--rate-address", "0"]).await;
    (worker, api, tokens)
}

/// Lets schemathesis send requests with this token, as this file of settings says; its report.
async fn run(world: &World, api: &Api, token: &str, settings: &str) -> Value {
    let directory = world.directory();
    let document = directory.join("openapi.json");
    let text = api.get("/v1/openapi.json").await.expect(200).body;
    std::fs::write(&document, text).expect("the file can be written");
    let report = directory.join("report.json");
    let program = std::env::var("TANDEM_SCHEMATHESIS").expect("deploy/test sets it");
    let ran = Command::new("python3")
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(root().join("tests/end_to_end").join(settings))
        .arg("run")
        .arg(&document)
        .args(["--url", &format!("http://{}", api.address)])
        .args(["--report", "json", "--report-json-path"])
        .arg(&report)
        .current_dir(&directory)
        .env("PYTHONPATH", program)
        .env("TANDEM_TOKEN", token)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = ran.await.expect("python runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    let report = std::fs::read_to_string(&report).expect("there is a report");
    serde_json::from_str(&report).expect("it is JSON")
}

#[tokio::test]
async fn no_request_that_the_document_allows_or_forbids_is_answered_otherwise_than_it_says() {
    let world = World::new().await;
    let all = "read,submit,hold,reverse,accounts,operate";
    let (worker, api, tokens) = prepare(&world, &[all]).await;
    judge(&run(&world, &api, &tokens[0], "schemathesis.toml").await, REQUESTS_MIN);
    assert_few_unavailable(&api).await;
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn a_token_of_one_scope_is_answered_as_the_document_says_too() {
    let world = World::new().await;
    let scopes = ["read", "submit", "hold", "reverse", "accounts", "operate"];
    let (worker, api, tokens) = prepare(&world, &scopes).await;
    for token in &tokens {
        let report = run(&world, &api, token, "schemathesis-scopes.toml").await;
        judge(&report, REQUESTS_OF_A_SCOPE_MIN);
    }
    assert_few_unavailable(&api).await;
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

/// At most one answer in fifty may be 503, by which a slow machine is told from a fault.
async fn assert_few_unavailable(api: &Api) {
    let page = http::get(api.probes, "/metrics").await.expect("a page").expect(200).body;
    let metrics = Metrics::new(page);
    let answers = |labels| metrics.sum("tandem_http_requests_total", labels);
    let (unavailable, all) = (answers(&[("status", "503")]), answers(&[]));
    assert!(unavailable <= all / 50.0, "{unavailable} of {all} answers were 503");
}

fn judge(report: &Value, requests_min: u64) {
    let number = |path: &str| report.pointer(path).and_then(Value::as_u64).expect(path);
    assert_eq!(report["stop_reason"], "completed", "{report}");
    assert_eq!(number("/operations/tested"), number("/operations/selected"));
    assert_eq!(
        number("/operations/selected") + 3,
        number("/operations/total"),
        "all but the two streams and the pause"
    );
    assert_eq!(number("/test_cases/errored"), 0);
    let requests = number("/test_cases/generated");
    assert!(requests >= requests_min, "only {requests} requests");
    // Past the capture of the test's output, because the number is to be seen.
    drop(writeln!(std::io::stderr(), "schemathesis: {requests} requests, no failure"));
}
