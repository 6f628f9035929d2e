//! Arrays of decisions by HTTP: a status for each item, whatever is wrong with its neighbours.

use harness::api::Api;
use harness::proxy::Part;
use harness::wait::{s, wait_until};
use harness::world::transfer;
use ledger::amount::Amount;
use ledger::transaction::State;
use serde_json::{Value, json};

use super::{from_now, held, world};

const CONFIRM: &str = "/v1/batch/confirm";
const RELEASE: &str = "/v1/batch/release";
const CANCEL: &str = "/v1/batch/cancel";

/// The status, the state and the kind of problem of each item.
fn told(answer: &Value) -> Vec<(u64, &str, &str)> {
    let items = answer["items"].as_array().expect("items").iter().enumerate();
    items
        .map(|(at, item)| {
            assert_eq!(item["index"].as_u64(), Some(at as u64), "{item}");
            let problem = item["problem"]["type"].as_str().unwrap_or_default();
            let status = item["status"].as_u64().expect("a status");
            let state = item["state"].as_str().unwrap_or_default();
            (status, state, problem.trim_start_matches("urn:tandem:problem:"))
        })
        .collect()
}

fn replayed(answer: &Value) -> Vec<Option<bool>> {
    let items = answer["items"].as_array().expect("items");
    items.iter().map(|item| item["replayed"].as_bool()).collect()
}

async fn decide(api: &Api, path: &str, array: &Value) -> Value {
    api.post(path, array).await.expect(200).json()
}

#[tokio::test]
async fn an_array_of_confirmations_has_a_status_for_each_and_again_the_same_one() {
    let world = world().await;
    for id in ["part", "all", "misfit", "twice", "other"] {
        held(&world, id, 5, None).await;
    }
    held(&world, "late", 5, Some(from_now(-1_000))).await;
    world.insert(&[transfer("plain", "card", "shop", 1)]).await;
    let api = world.api(&[]).await;
    api.post("/v1/transactions/other/confirm", &json!({ "value": 4 })).await.expect(202);
    let array = json!([
        { "id": "part", "value": 2 },
        { "id": "all" },
        { "id": "misfit", "value": 6 },
        { "id": "late", "value": 1 },
        { "id": "plain" },
        { "id": "nobody" },
        { "id": "twice", "captured": [
            { "account": "card", "amount": -1 }, { "account": "shop", "amount": "1" },
        ] },
        { "id": "twice", "value": 2 },
        { "id": "other", "value": 3 },
        { "id": "all", "value": null },
        { "value": 1 },
        { "id": "all", "amount": 1 },
        "all",
    ]);
    let expected = vec![
        (202, "pending", ""),
        (202, "pending", ""),
        (422, "", "invalid"),
        (409, "", "wrong-state"),
        (409, "", "wrong-state"),
        (404, "", "not-found"),
        (202, "pending", ""),
        (409, "", "already-confirmed"),
        (409, "", "already-confirmed"),
        (422, "", "invalid"),
        (422, "", "invalid"),
        (422, "", "invalid"),
        (422, "", "invalid"),
    ];
    let first = decide(&api, CONFIRM, &array).await;
    assert_eq!(told(&first), expected, "{first}");
    assert_eq!(first["summary"], json!({ "decided": 3, "refused": 10, "failed": 0 }));
    assert_eq!(replayed(&first)[..2], [Some(false), Some(false)]);
    let again = decide(&api, CONFIRM, &array).await;
    assert_eq!(told(&again), expected, "{again}");
    assert_eq!(replayed(&again)[..2], [Some(true), Some(true)]);
    for (id, state) in [("misfit", State::Held), ("late", State::Held), ("plain", State::Initial)] {
        assert_eq!(world.state(id).await, state, "{id}");
    }

    let worker = world.worker("one").start().await;
    let part = json!([{ "id": "part", "value": 2 }]);
    let waited = decide(&api, &format!("{CONFIRM}?wait=60"), &part).await;
    assert_eq!(told(&waited), [(200, "done", "")], "{waited}");
    world.wait_state("all", State::Done, s(60)).await;
    world.wait_state("twice", State::Done, s(60)).await;
    drop(worker);
    world.producer(&["audit"]).await.expect_success();
    world.finish().await;
}

#[tokio::test]
async fn arrays_of_releases_and_cancelations_have_a_status_for_each_and_again_the_same_one() {
    let world = world().await;
    for id in ["held", "confirmed", "called-off"] {
        held(&world, id, 5, None).await;
    }
    world.insert(&[transfer("plain", "card", "shop", 1)]).await;
    let api = world.api(&[]).await;
    api.send("POST", "/v1/transactions/confirmed/confirm", &[], "").await.expect(202);
    let array = json!([
        { "id": "held" }, { "id": "held" }, { "id": "confirmed" }, { "id": "plain" },
        { "id": "nobody" }, { "id": "held", "value": 1 }, { "id": "" },
    ]);
    let expected = vec![
        (202, "canceling", ""),
        (202, "canceling", ""),
        (409, "", "wrong-state"),
        (409, "", "wrong-state"),
        (404, "", "not-found"),
        (422, "", "invalid"),
        (422, "", "invalid"),
    ];
    let first = decide(&api, RELEASE, &array).await;
    assert_eq!(told(&first), expected, "{first}");
    assert_eq!(first["items"][0]["reason"]["code"], "released", "{first}");
    assert_eq!(replayed(&first)[0], Some(false));
    let again = decide(&api, RELEASE, &array).await;
    assert_eq!(told(&again), expected, "{again}");
    assert_eq!(replayed(&again)[0], Some(true));

    let array = json!([
        { "id": "plain" }, { "id": "called-off" }, { "id": "held" }, { "id": "nobody" }, 7,
    ]);
    let expected = vec![
        (202, "canceling", ""),
        (202, "canceling", ""),
        (202, "canceling", ""),
        (404, "", "not-found"),
        (422, "", "invalid"),
    ];
    for _ in 0..2 {
        let canceled = decide(&api, CANCEL, &array).await;
        assert_eq!(told(&canceled), expected, "{canceled}");
        assert_eq!(canceled["items"][0]["reason"]["code"], "requested", "{canceled}");
        assert_eq!(replayed(&canceled), [None; 5], "it is not known");
        assert_eq!(canceled["summary"], json!({ "decided": 3, "refused": 2, "failed": 0 }));
    }
    let worker = world.worker("one").start().await;
    world.wait_final(s(60)).await;
    let late = decide(&api, CANCEL, &json!([{ "id": "confirmed" }, { "id": "plain" }])).await;
    assert_eq!(told(&late), [(409, "", "wrong-state"), (200, "canceled", "")], "{late}");
    assert_eq!(world.balance("card").await, Amount::Int(95), "only the confirmed one is paid");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn an_array_of_decisions_is_an_array_within_its_limits_of_an_operator() {
    let world = world().await;
    held(&world, "t", 5, None).await;
    let file = world.directory().join("tokens");
    let path = file.to_str().expect("UTF-8").to_owned();
    let shop = world.token(&file, "shop", "read,submit").await;
    let operator = world.token(&file, "olivia", "hold,operate").await;
    let limits = ["--tokens", &path, "--array-items", "3", "--body-bytes", "2000"];
    let mut api = world.api(&limits).await;
    for (array, alone) in [(CONFIRM, "confirm"), (RELEASE, "release"), (CANCEL, "cancel")] {
        api.use_token(&shop);
        api.post(array, &json!([{ "id": "t" }])).await.expect(403);
        api.use_token(&operator);
        let one = api.post(array, &json!({ "id": "t" })).await.expect(422).json();
        let told = one["detail"].as_str().expect("a sentence");
        assert!(told.ends_with(&format!("POST /v1/transactions/{{id}}/{alone}")), "{told}");
        let four = json!([{ "id": "t" }, { "id": "t" }, { "id": "t" }, { "id": "t" }]);
        api.post(array, &four).await.expect(413);
        let long = json!([{ "id": "x".repeat(3_000) }]);
        api.post(array, &long).await.expect(413);
        api.send("POST", array, &[], "[]").await.expect(415);
        api.send("POST", array, &[("Content-Type", "application/json")], "[{").await.expect(400);
        let none = decide(&api, array, &json!([])).await;
        assert_eq!(none["summary"], json!({ "decided": 0, "refused": 0, "failed": 0 }));
    }
    assert_eq!(world.state("t").await, State::Held);
    world.finish().await;
}

#[tokio::test]
async fn a_broker_that_is_away_keeps_nothing_of_an_array_from_being_decided() {
    let world = world().await;
    for id in ["confirmed", "released", "canceled"] {
        held(&world, id, 10, None).await;
    }
    let env = [("TANDEM_AMQP_URL", "amqp://127.0.0.1:1")];
    let api = world.api_with(&[], &env).await;
    for (path, id, state) in [
        (CONFIRM, "confirmed", "pending"),
        (RELEASE, "released", "canceling"),
        (CANCEL, "canceled", "canceling"),
    ] {
        let array = json!([{ "id": id }, { "id": "nobody" }]);
        let decided = decide(&api, path, &array).await;
        assert_eq!(told(&decided), [(202, state, ""), (404, "", "not-found")], "{decided}");
    }
    // Sweepers find what no message names.
    let worker = world.worker("one").flag("--orphan-ms", 500).flag("--sweep-ms", 100).start().await;
    world.wait_final(s(60)).await;
    assert_eq!(world.balance("shop").await, Amount::Int(10));
    assert_eq!(world.balance("card").await, Amount::Int(90));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_was_sent_and_not_heard_of_is_unknown_and_what_was_not_sent_is_not_tried() {
    const HOLDS: usize = 600;
    let (world, ids) = super::many::many(HOLDS, None).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let env = [("TANDEM_MONGODB_URI", uri.as_str()), ("TANDEM_GIVE_UP_AFTER", "1")];
    let api = world.api_with(&[], &env).await;
    let array: Value = ids.iter().map(|id| json!({ "id": id, "value": 1 })).collect();
    let lost = proxy.hold("confirm", 1, Part::Reply);
    let (answer, ()) = tokio::join!(api.post(CONFIRM, &array), async {
        lost.caught(s(60)).await;
        proxy.refuse();
        lost.discard();
    });
    // Nothing of it is surely confirmed, so the whole is unknown, and may be sent again.
    let answer = answer.expect(503);
    assert_eq!(answer.json()["type"], "urn:tandem:problem:unknown", "{answer:?}");
    assert!(answer.header("Retry-After").is_some(), "{answer:?}");
    assert_eq!(world.count(&[State::Pending]).await, 500, "one command has arrived");
    assert_eq!(world.count(&[State::Held]).await, 100, "the rest was not sent");
    proxy.restore();
    // With one that is refused, each item has its own answer.
    let with_one_more = |ids: &[String]| -> Value {
        let more = json!({ "id": "nobody" });
        ids.iter().map(|id| json!({ "id": id, "value": 1 })).chain([more]).collect()
    };
    let mut again = Value::Null;
    wait_until("the database is back", s(60), async || {
        let answer = api.post(CONFIRM, &with_one_more(&ids)).await;
        let is_there = answer.status == 200;
        again = if is_there { answer.json() } else { Value::Null };
        is_there && again["summary"]["failed"] == 0
    })
    .await;
    assert_eq!(again["summary"], json!({ "decided": HOLDS, "refused": 1, "failed": 0 }));
    assert_eq!(world.count(&[State::Pending]).await, HOLDS as u64);
    world.finish().await;
}
