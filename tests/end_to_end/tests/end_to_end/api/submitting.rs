//! Submitting by HTTP: ids that live for ever, arrays, waiting, and errors that name the field.

use std::sync::Arc;

use harness::wait::s;
use harness::world::World;
use ledger::transaction::State;
use serde_json::{Value, json};

use super::transfer;

const PATH: &str = "/v1/transactions";
const BATCH: &str = "/v1/batch";

#[tokio::test]
async fn an_id_lives_for_ever_with_the_same_content_and_is_refused_with_another() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&[]).await;
    let first = api.post(PATH, &transfer("t", "a", "b", 5)).await.expect(202);
    assert_eq!(first.json(), json!({ "id": "t", "state": "initial" }));
    assert_eq!(first.header("Location"), Some("/v1/transactions/t"));
    assert_eq!(first.header("Idempotent-Replayed"), None);
    let again = api.post(PATH, &transfer("t", "a", "b", 5)).await.expect(202);
    assert_eq!(again.header("Idempotent-Replayed"), Some("true"));

    let worker = world.worker("one").start().await;
    world.wait_state("t", State::Done, s(30)).await;
    let today = api.post(PATH, &transfer("t", "a", "b", 5)).await.expect(200);
    assert_eq!(today.json(), json!({ "id": "t", "state": "done" }));
    assert_eq!(today.header("Idempotent-Replayed"), Some("true"));

    let mut other = transfer("t", "a", "c", 6);
    other["metadata"] = json!({ "note": "new" });
    let refused = api.post(PATH, &other).await.expect(409).json();
    assert_eq!(refused["type"], "urn:tandem:problem:conflict");
    assert_eq!(refused["existing"], "/v1/transactions/t");
    assert_eq!(refused["differs"], json!(["/destination", "/value", "/metadata"]));
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn an_id_comes_in_the_body_or_is_made_from_a_key_and_never_both() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&[]).await;
    let mut without = transfer("", "a", "b", 5);
    without.as_object_mut().expect("an object").remove("id");
    let missing = api.post(PATH, &without).await.expect(422).json();
    assert_eq!(missing["errors"][0]["pointer"], "#/id");

    let key = [("Idempotency-Key", "\"order 7\"")];
    let first = api.post_with(PATH, &key, &without).await.expect(202);
    assert_eq!(first.header("Idempotent-Replayed"), None);
    let unquoted = [("Idempotency-Key", "order 7")];
    let again = api.post_with(PATH, &unquoted, &without).await.expect(202);
    assert_eq!(again.header("Idempotent-Replayed"), Some("true"));
    assert_eq!(first.json()["id"], again.json()["id"]);
    let found = api.get(first.header("Location").expect("an address")).await.expect(200).json();
    assert_eq!((&found["id"], &found["value"]), (&first.json()["id"], &json!("5")));
    // A key is no id, and an id is no key.
    let by_id = api.post(PATH, &transfer("order 7", "a", "b", 5)).await.expect(202);
    assert_eq!(by_id.header("Idempotent-Replayed"), None);
    let both = transfer("t", "a", "b", 5);
    for key in ["t", "u"] {
        let refused = api.post_with(PATH, &[("Idempotency-Key", key)], &both).await.expect(422);
        assert_eq!(refused.json()["errors"][0]["pointer"], "#/id");
    }
    assert_eq!(world.count(&State::ALL).await, 2);
    world.finish().await;
}

#[tokio::test]
async fn an_array_is_looked_at_item_by_item_and_may_be_sent_again_as_a_whole() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&[]).await;
    let array = json!([
        transfer("one", "a", "b", 1),
        transfer("two", "a", "b", 1000),
        { "id": "three", "source": "a", "destination": "b", "value": 1.5 },
        transfer("one", "a", "b", 2),
        7,
    ]);
    let statuses = |answer: &Value| {
        let items = answer["items"].as_array().expect("items").iter();
        items.map(|item| item["status"].as_u64().expect("a number")).collect::<Vec<_>>()
    };
    let first = api.post(BATCH, &array).await.expect(200).json();
    assert_eq!(statuses(&first), [202, 202, 422, 409, 422]);
    let summary = json!({ "submitted": 2, "known": 0, "refused": 3, "failed": 0 });
    assert_eq!(first["summary"], summary);
    assert_eq!(first["items"][2]["problem"]["errors"][0]["pointer"], "#/value");
    assert_eq!(first["items"][3]["problem"]["differs"], json!(["/value"]));

    let worker = world.worker("one").start().await;
    let again = api.post(&format!("{BATCH}?wait=30"), &array).await.expect(200).json();
    assert_eq!(statuses(&again), [200, 200, 422, 409, 422]);
    assert_eq!(again["summary"]["known"], 2);
    assert_eq!(again["items"][0]["state"], "done");
    assert_eq!(again["items"][1]["reason"]["code"], "insufficient_funds");

    world.wait_final(s(30)).await;
    assert_eq!(world.balance("b").await, 1.into());
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn whoever_waits_is_answered_with_the_outcome_or_with_202_when_the_time_is_over() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&[]).await;
    let late = api.post(&format!("{PATH}?wait=1"), &transfer("t", "a", "b", 5)).await.expect(202);
    assert_eq!(late.json()["state"], "initial");
    let worker = world.worker("one").start().await;
    let prefer = [("Prefer", "respond-async, wait=30")];
    let paid = api.post_with(PATH, &prefer, &transfer("t", "a", "b", 5)).await.expect(200);
    assert_eq!(paid.json()["state"], "done");
    assert_eq!(paid.header("Preference-Applied"), Some("wait=30"));
    let refused =
        api.post(&format!("{PATH}?wait=30"), &transfer("u", "a", "b", 500)).await.expect(200);
    assert_eq!(refused.json()["reason"]["code"], "insufficient_funds");
    let replayed = api.post(PATH, &transfer("u", "a", "b", 500)).await.expect(200).json();
    assert_eq!(
        replayed["reason"]["code"], "insufficient_funds",
        "today's outcome, with the reason"
    );
    api.post(&format!("{PATH}?wait=61"), &transfer("v", "a", "b", 5)).await.expect(422);

    let reversed = api.act("/v1/transactions/t/reverse?wait=30").await.expect(200);
    assert_eq!(reversed.json(), json!({ "id": "reverse:t", "state": "done" }));
    api.act("/v1/transactions/t/reverse?wait=30").await.expect(200);
    assert_eq!(world.balance("b").await, 0.into());
    let late = api.act("/v1/transactions/t/cancel").await.expect(409).json();
    assert_eq!(late["type"], "urn:tandem:problem:wrong-state");
    drop(worker);
    api.post(PATH, &transfer("w", "a", "b", 5)).await.expect(202);
    let canceling = api.act("/v1/transactions/w/cancel").await.expect(202).json();
    assert_eq!(canceling["reason"]["code"], "requested");
    let worker = world.worker("two").start().await;
    let canceled = api.act("/v1/transactions/w/cancel?wait=30").await.expect(200).json();
    assert_eq!(canceled["state"], "canceled");
    for path in ["/v1/transactions/nobody/cancel", "/v1/transactions/nobody/reverse"] {
        api.act(path).await.expect(404);
    }
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn what_breaks_a_rule_is_refused_with_the_field_and_writes_nothing() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&["--array-items", "3", "--body-bytes", "1000000"]).await;
    let long = "x".repeat(201);
    let mut table: Vec<(Value, &str)> = vec![
        (json!({ "id": "t", "destination": "b", "value": 1 }), "#/source"),
        (json!({ "id": "t", "source": 7, "destination": "b", "value": 1 }), "#/source"),
        (json!({ "id": "t", "source": "a", "destination": "a", "value": 1 }), "#/destination"),
        (json!({ "id": "t", "source": "a", "destination": "b", "value": 1.5 }), "#/value"),
        (json!({ "id": "t", "source": "a", "destination": "b", "value": 0 }), "#/value"),
        (json!({ "id": "t", "source": "a", "destination": "b", "value": "1e3" }), "#/value"),
        (json!({ "id": "t", "source": "a", "destination": "b", "value": true }), "#/value"),
        (json!({ "id": "t", "source": "a", "destination": "b", "valeu": 1 }), "#/valeu"),
        (json!({ "id": long, "source": "a", "destination": "b", "value": 1 }), "#/id"),
        (json!({ "id": "a\nb", "source": "a", "destination": "b", "value": 1 }), "#/id"),
        (json!({ "id": "t", "legs": [{ "account": "a", "amount": 1 }] }), "#/legs"),
        (json!({ "id": "t", "legs": [{ "account": "a", "amount": -1 }, {}] }), "#/legs/1/account"),
        (json!("text"), "#"),
    ];
    table.push((
        json!({ "id": "t", "source": "a", "destination": "b", "value": 1, "metadata": 1 }),
        "#/metadata",
    ));
    for (body, pointer) in table {
        let problem = api.post(PATH, &body).await.expect(422).json();
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}: {problem}");
        assert_eq!(problem["status"], 422);
    }
    let json = ("Content-Type", "application/json");
    let twice = r#"{"id":"t","id":"u","source":"a","destination":"b","value":1}"#;
    for (status, headers, body) in [
        (400, &[json][..], "{"),
        (400, &[json], ""),
        (400, &[json], twice),
        (415, &[("Content-Type", "text/plain")], "{}"),
        (415, &[], "{}"),
        (413, &[json], &format!("[{}]", "1,".repeat(600_000))),
        (422, &[json], "[]"),
    ] {
        let problem = api.send("POST", PATH, headers, body).await.expect(status);
        assert_eq!(problem.header("Content-Type"), Some("application/problem+json"));
    }
    for (status, body) in [(413, "[1,2,3,4]"), (400, "["), (400, "[1"), (400, ""), (422, "{}")] {
        api.send("POST", BATCH, &[json], body).await.expect(status);
    }
    for (path, body, names) in
        [(PATH, "[]", "POST /v1/batch"), (BATCH, "{}", "POST /v1/transactions")]
    {
        let problem = api.send("POST", path, &[json], body).await.expect(422).json();
        let detail = problem["detail"].as_str().expect("a sentence");
        assert!(detail.ends_with(names), "{detail}");
    }
    api.get("/v1/transactions/t?x=1").await.expect(400);
    api.get("/v1/stats?x=1").await.expect(400);
    assert_eq!(world.count(&State::ALL).await, 0, "nothing was written");
    world.finish().await;
}

#[tokio::test]
async fn what_many_connections_submit_at_once_is_paid_once_each() {
    const CALLERS: usize = 32;
    const EACH: usize = 20;
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    let api = Arc::new(world.api(&[]).await);
    let callers = (0..CALLERS).map(|caller| {
        let api = api.clone();
        tokio::spawn(async move {
            let mut new = 0;
            for n in 0..EACH {
                // Each id is sent by two callers.
                let id = format!("t-{}-{n}", caller / 2);
                let answer = api.post(PATH, &transfer(&id, "a", "b", 1)).await;
                assert!(matches!(answer.status, 200 | 202), "{answer:?}");
                new += usize::from(answer.header("Idempotent-Replayed").is_none());
            }
            new
        })
    });
    let mut new = 0;
    for caller in callers.collect::<Vec<_>>() {
        new += caller.await.expect("no caller panics");
    }
    assert_eq!(new, CALLERS / 2 * EACH, "one of the two callers is told that it is new");
    world.wait_final(s(60)).await;
    assert_eq!(world.balance("b").await, i64::try_from(new).expect("few").into());
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}
