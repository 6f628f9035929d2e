//! The OpenAPI document is true: schemathesis, a program that knows nothing else of the API, sends
//! requests that it makes from the document, and compares the answers with it.

use std::io::Write;
use std::process::Stdio;

use harness::deployment::root;
use harness::world::World;
use serde_json::Value;
use tokio::process::Command;

use super::transfer;

/// Far fewer would mean that operations are left out.
const REQUESTS_MIN: u64 = 1_000;

#[tokio::test]
async fn no_request_that_the_document_allows_or_forbids_is_answered_otherwise_than_it_says() {
    let world = World::new().await;
    let worker = world.worker("one").start().await;
    // The examples of the document name these.
    world.accounts(&[("alice", 1_000_000), ("bob", 0), ("carol", 0), ("bank", 0)]).await;
    let directory = world.directory();
    let tokens = directory.join("tokens");
    let token = world.token(&tokens, "t", "read,submit,operate").await;
    // It tries every operation without a token, too.
    let tokens = tokens.to_str().expect("UTF-8");
    let mut api = world.api(&["--tokens", tokens, "--rate-address", "0"]).await;
    api.use_token(&token);
    let rent = transfer("rent-2026-11", "alice", "bob", 1_250);
    api.post("/v1/transactions?wait=30", &rent).await.expect(200);

    let document = directory.join("openapi.json");
    let text = api.get("/v1/openapi.json").await.expect(200).body;
    std::fs::write(&document, text).expect("the file can be written");
    let report = directory.join("report.json");
    let program = std::env::var("TANDEM_SCHEMATHESIS").expect("deploy/test sets it");
    let ran = Command::new("python3")
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(root().join("tests/end_to_end/schemathesis.toml"))
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
    let report: Value = serde_json::from_str(&report).expect("it is JSON");
    judge(&report);
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

fn judge(report: &Value) {
    let number = |path: &str| report.pointer(path).and_then(Value::as_u64).expect(path);
    assert_eq!(report["stop_reason"], "completed", "{report}");
    assert_eq!(number("/operations/tested"), number("/operations/selected"));
    assert_eq!(
        number("/operations/selected") + 2,
        number("/operations/total"),
        "all but the two streams"
    );
    assert_eq!(number("/test_cases/errored"), 0);
    let requests = number("/test_cases/generated");
    assert!(requests >= REQUESTS_MIN, "only {requests} requests");
    // Past the capture of the test's output, because the number is to be seen.
    drop(writeln!(std::io::stderr(), "schemathesis: {requests} requests, no failure"));
}
