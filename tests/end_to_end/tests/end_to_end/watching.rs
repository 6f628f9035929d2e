//! What people watch: a real Prometheus reads real programs, and answers every query of dashboard
//! and alerts.

use std::io::Write;
use std::process::{Command, Stdio};

use harness::deployment::root;
use harness::prometheus::{Prometheus, first, program};
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use queue::WORK;
use serde_json::Value;

const ALERTS: &str = "deploy/monitoring/alerts.yaml";
const DASHBOARD: &str = "deploy/monitoring/dashboard.json";

/// The title and the query of everything that the dashboard draws.
fn dashboard() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join(DASHBOARD)).expect(DASHBOARD);
    let dashboard: Value = serde_json::from_str(&text).expect(DASHBOARD);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut queries = Vec::new();
    for panel in list(&dashboard["panels"]) {
        for target in list(&panel["targets"]) {
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            // Grafana puts four times the interval of the scrapes there, at least.
            let query = text(&target["expr"]).replace("$__rate_interval", "10s");
            queries.push((text(&panel["title"]), query));
        }
    }
    queries
}

#[tokio::test]
async fn a_real_prometheus_answers_every_query_and_alerts_of_the_first_dead_letter() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    let tokens = world.directory().join("tokens");
    let token = world.token(&tokens, "reader", "read").await;
    let mut api = world.api(&["--tokens", tokens.to_str().expect("UTF-8")]).await;
    api.use_token(&token);
    // As shipped: Prometheus has no token, and asks where probes do.
    let targets = [worker.address(), api.probes];
    let prometheus = Prometheus::start(&world.directory(), &targets, &root().join(ALERTS)).await;

    let mut transfers: Vec<_> = (0..30).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    transfers.push(transfer("too-much", "a", "b", 1_000));
    world.submit(&transfers, 4).await;
    world.queues.publish_raw(WORK, b"no message of ours").await;
    world.wait_final(s(60)).await;
    api.get("/v1/transactions/t1").await.expect(200);

    for (query, expected) in [
        ("sum(tandem_transitions_total{state=\"done\"})", 30.0),
        ("sum(tandem_submission_to_final_seconds_count{state=\"done\"})", 30.0),
        ("sum(tandem_submission_to_final_seconds_count{state=\"canceled\"})", 1.0),
        ("sum(tandem_refusals_total{reason=\"insufficient_funds\"})", 1.0),
        ("min(tandem_server_up)", 1.0),
        ("min(tandem_http_accepts_submissions)", 1.0),
        ("count(tandem_build_info)", 2.0),
        ("sum(tandem_dead_letters_total)", 1.0),
        // Its first sample is older than the first dead letter, so the increase is seen.
        ("count(ALERTS{alertname=\"TandemDeadLetters\",alertstate=\"firing\"})", 1.0),
    ] {
        wait_until(query, s(60), async || {
            (first(&prometheus.query(query).await) - expected).abs() < 0.01
        })
        .await;
    }

    let queries = dashboard();
    assert!(queries.len() > 40, "only {} queries were found", queries.len());
    for (title, query) in queries {
        wait_until(&format!("{title} shows something: {query}"), s(60), async || {
            !prometheus.query(&query).await.is_empty()
        })
        .await;
    }
    let alerts = std::fs::read_to_string(root().join(ALERTS)).expect(ALERTS);
    wait_until("every rule was evaluated", s(60), async || {
        let rules = prometheus.rules().await;
        assert_eq!(rules.len(), alerts.matches("- alert:").count());
        assert!(rules.iter().all(|rule| rule["health"] != "err"), "{rules:?}");
        rules.iter().all(|rule| rule["health"] == "ok")
    })
    .await;
    drop((prometheus, api, worker));
    world.finish().await;
}

#[tokio::test]
async fn the_metrics_of_both_programs_are_named_and_explained_as_prometheus_wants_it() {
    let world = World::new().await;
    let worker = world.worker("one").start().await;
    let api = world.api(&[]).await;
    let file = world.directory().join("tandem.prom");
    let file_name = file.to_str().expect("UTF-8");
    world.producer(&["audit", "--metrics-file", file_name]).await.expect_success();
    let audited = std::fs::read_to_string(&file).expect("it is there");
    let pages = [worker.get("/metrics").await.expect("it answers"), api.get("/metrics").await];
    for page in pages.map(|page| page.expect(200).body).into_iter().chain([audited]) {
        let mut lint = Command::new(program("promtool"))
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool runs");
        let mut input = lint.stdin.take().expect("it is piped");
        input.write_all(page.as_bytes()).expect("it reads");
        drop(input);
        let said = lint.wait_with_output().expect("it ends");
        let text = [said.stdout, said.stderr].concat();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&text));
    }
    drop((api, worker));
    world.finish().await;
}
