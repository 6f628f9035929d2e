//! Who may do what: tokens with scopes, and pages of other sites.

use std::collections::{BTreeMap, BTreeSet};

use harness::api::Api;
use harness::http::Answer;
use harness::process::Signal;
use harness::wait::{s, wait_until};
use harness::world::World;
use serde_json::{Value, json};

use super::transfer;

/// All scopes.
const SCOPES: [&str; 6] = ["read", "submit", "hold", "reverse", "accounts", "operate"];

async fn document(api: &Api) -> Value {
    api.get("/v1/openapi.json").await.expect(200).json()
}

/// Every operation of the document, and the scopes one of which it needs.
fn operations(document: &Value) -> Vec<(String, String, Vec<String>)> {
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let needed = operation["security"].as_array().into_iter().flatten();
            let scopes: Vec<String> =
                needed.filter_map(|it| it["token"][0].as_str().map(str::to_owned)).collect();
            let about = operation["description"].as_str().unwrap_or_default();
            for scope in &scopes {
                assert!(about.contains(&format!("`{scope}`")), "{method} {path}: {about}");
            }
            operations.push((method.to_ascii_uppercase(), path.clone(), scopes));
        }
    }
    operations
}

#[tokio::test]
async fn a_token_opens_only_what_its_scopes_name_in_every_operation() {
    let world = World::new().await;
    let file = world.directory().join("tokens");
    let path = file.to_str().expect("UTF-8");
    let mut tokens = BTreeMap::new();
    for scope in SCOPES {
        tokens.insert(scope, world.token(&file, scope, scope).await);
    }
    // It sends far more without a good token than one address may.
    let mut api = world.api(&["--tokens", path, "--rate-address", "0"]).await;
    let operations = operations(&document(&api).await);
    assert!(operations.len() > 20);
    let mut needed = BTreeSet::new();
    for (method, path, scopes) in operations.iter().filter(|(_, _, scopes)| !scopes.is_empty()) {
        needed.extend(scopes.iter().map(String::as_str));
        let path = path.replace("{id}", "x");
        let status = async |api: &Api| api.send(method, &path, &[], "").await;
        let unknown = [("Authorization", "Bearer tandem_0")];
        let refused = |answer: Answer, expected: u16| {
            assert_eq!(answer.status, expected, "{method} {path}: {answer:?}");
        };
        refused(http(&api, method, &path, &[]).await, 401);
        refused(http(&api, method, &path, &unknown).await, 401);
        for (name, token) in &tokens {
            if !scopes.iter().any(|scope| scope == name) {
                api.use_token(token);
                refused(status(&api).await, 403);
            }
        }
    }
    assert_eq!(needed, BTreeSet::from(SCOPES));
    world.accounts(&[("a", 10), ("b", 0)]).await;
    api.use_token(&tokens["submit"]);
    api.post("/v1/transactions", &transfer("t", "a", "b", 1)).await.expect(202);
    api.use_token(&tokens["read"]);
    api.get("/v1/accounts/a").await.expect(200);
    world.finish().await;
}

/// Sends without the token of `api`.
async fn http(api: &Api, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let answer = harness::http::send(api.address, method, path, headers, "", s(60)).await;
    answer.expect("it answers")
}

#[tokio::test]
async fn tokens_are_read_again_on_a_signal_and_a_bad_file_changes_nothing() {
    let world = World::new().await;
    let file = world.directory().join("tokens");
    let path = file.to_str().expect("UTF-8").to_owned();
    let first = world.token(&file, "first", "read").await;
    let mut api = world.api(&["--tokens", &path]).await;
    let second = world.token(&file, "second", "read").await;
    api.use_token(&second);
    api.get("/v1/parked").await.expect(401);
    api.get("/v1/accounts").await.expect(401);
    api.signal(Signal::Hup);
    wait_until("the new token is known", s(30), async || {
        api.get("/v1/accounts").await.status == 200
    })
    .await;
    std::fs::write(&file, "nonsense").expect("the file can be written");
    api.signal(Signal::Hup);
    wait_until("the bad file is told", s(30), async || api.log().contains("is not: NAME SCOPES"))
        .await;
    api.use_token(&first);
    api.get("/v1/accounts").await.expect(200);
    world.finish().await;
}

#[tokio::test]
async fn without_tokens_nobody_but_this_machine_is_served() {
    let world = World::new().await;
    let refused = world.producer(&["serve", "--listen", "0.0.0.0:0"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--tokens"), "{refused:?}");
    let missing = world.producer(&["serve", "--tokens", "/nowhere/tokens"]).await;
    assert_eq!(missing.code, Some(2), "{missing:?}");

    world.accounts(&[("a", 10)]).await;
    let api = world.api(&[]).await;
    let page = [("Host", "evil.example")];
    api.send("GET", "/v1/accounts/a", &page, "").await.expect(403);
    for header in [("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site")] {
        api.send("POST", "/v1/accounts/a/freeze", &[header], "").await.expect(403);
    }
    assert_eq!(api.get("/v1/accounts/a").await.json()["status"], "open");
    world.finish().await;
}

#[tokio::test]
async fn requests_beyond_the_rate_are_told_when_to_come_again() {
    let world = World::new().await;
    let api = world.api(&["--rate", "3"]).await;
    let mut limited = None;
    for _ in 0..50 {
        let answer = api.get("/v1/accounts").await;
        assert!(matches!(answer.status, 200 | 429), "{answer:?}");
        if answer.status == 429 {
            limited = Some(answer);
            break;
        }
        assert_eq!(answer.header("RateLimit-Policy"), Some("\"default\";q=3;w=1"));
    }
    let limited = limited.expect("fifty requests take less than seventeen seconds");
    assert_eq!(limited.header("Retry-After"), Some("1"));
    assert_eq!(limited.header("RateLimit-Policy"), Some("\"default\";q=3;w=1"));
    assert_eq!(limited.header("RateLimit"), Some("\"default\";r=0;t=1"));
    assert_eq!(limited.json()["type"], json!("urn:tandem:problem:rate-limited"));
    world.finish().await;
}
