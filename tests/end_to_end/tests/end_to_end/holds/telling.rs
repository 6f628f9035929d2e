//! What the HTTP API, the lists, the accounts and the pages say of holds.

use harness::wait::s;
use harness::world::transfer;
use ledger::transaction::State;
use mongodb::bson::doc;
use serde_json::json;

use super::{from_now, held, world};
use crate::history::world_with_history;

const HOUR_MS: i64 = 3_600_000;
const CONFIRM: &str = "/v1/transactions/t/confirm";

#[tokio::test]
async fn a_hold_is_confirmed_by_http_once() {
    let world = world().await;
    held(&world, "t", 50, None).await;
    let api = world.api(&[]).await;
    let too_much = api.post(CONFIRM, &json!({ "value": 51 })).await.expect(422).json();
    assert_eq!(too_much["errors"][0]["pointer"], "#/captured");
    api.post(CONFIRM, &json!({ "amount": 1 })).await.expect(422);

    let first = api.post(CONFIRM, &json!({ "value": 30 })).await.expect(202);
    assert_eq!(first.json(), json!({ "id": "t", "state": "pending" }));
    assert_eq!(first.header("Idempotent-Replayed"), None);
    assert_eq!(first.header("Location"), Some("/v1/transactions/t"));
    let legs = json!({ "captured": [
        { "account": "shop", "amount": 30 }, { "account": "card", "amount": "-30" },
    ] });
    let again = api.post(CONFIRM, &legs).await.expect(202);
    assert_eq!(again.header("Idempotent-Replayed"), Some("true"));
    for other in [json!({ "value": 31 }), json!({})] {
        let refused = api.post(CONFIRM, &other).await.expect(409).json();
        assert_eq!(refused["type"], "urn:tandem:problem:already-confirmed");
        assert!(refused["detail"].as_str().is_some_and(|why| why.contains("card -30, shop 30")));
    }
    // Without a body all of it is meant.
    let all = api.send("POST", CONFIRM, &[], "").await.expect(409).json();
    assert_eq!(all["type"], "urn:tandem:problem:already-confirmed");
    let shown = api.get("/v1/transactions/t").await.expect(200).json();
    let captured = json!([
        { "account": "card", "amount": "-30" }, { "account": "shop", "amount": "30" },
    ]);
    assert_eq!((&shown["captured"], &shown["value"]), (&captured, &json!("50")));
    assert!(shown["confirmedAt"].is_string(), "{shown}");
    let released = api.send("POST", "/v1/transactions/t/release", &[], "").await.expect(409).json();
    assert_eq!(released["type"], "urn:tandem:problem:wrong-state");
    world.finish().await;
}

#[tokio::test]
async fn a_hold_is_released_by_http_and_again() {
    let world = world().await;
    held(&world, "t", 50, None).await;
    world.insert(&[transfer("plain", "card", "shop", 1)]).await;
    let api = world.api(&[]).await;
    let release = "/v1/transactions/t/release";
    let first = api.send("POST", release, &[], "").await.expect(202);
    assert_eq!(first.json()["reason"]["code"], "released");
    assert_eq!(first.header("Idempotent-Replayed"), None);
    let again = api.send("POST", release, &[], "").await.expect(202);
    assert_eq!(again.header("Idempotent-Replayed"), Some("true"));
    let late = api.send("POST", CONFIRM, &[], "").await.expect(409).json();
    assert_eq!(late["type"], "urn:tandem:problem:wrong-state");
    assert!(late["detail"].as_str().is_some_and(|why| why.contains("it was released")), "{late}");
    for (path, status) in [("plain/confirm", 409), ("plain/release", 409), ("x/confirm", 404)] {
        api.send("POST", &format!("/v1/transactions/{path}"), &[], "").await.expect(status);
    }
    world.finish().await;
}

#[tokio::test]
async fn nobody_confirms_and_releases_without_the_scope_hold() {
    let world = world().await;
    held(&world, "t", 50, None).await;
    let file = world.directory().join("tokens");
    let path = file.to_str().expect("UTF-8").to_owned();
    let shop = world.token(&file, "shop", "read,submit,reverse,accounts,operate").await;
    let api = world.api(&["--tokens", &path]).await;
    let bearer = format!("Bearer {shop}");
    for path in [CONFIRM, "/v1/transactions/t/release"] {
        api.send("POST", path, &[("Authorization", &bearer)], "").await.expect(403);
    }
    assert_eq!(world.state("t").await, State::Held);
    world.finish().await;
}

#[tokio::test]
async fn holds_are_listed_by_their_expiry_and_by_their_account() {
    let world = world_with_history().await;
    world.accounts(&[("card", 100), ("shop", 0)]).await;
    for (id, expires) in [("later", Some(2)), ("sooner", Some(1)), ("never", None)] {
        held(&world, id, 10, expires.map(|hours| from_now(hours * HOUR_MS))).await;
    }
    world.insert(&[transfer("plain", "card", "shop", 1)]).await;
    let ids = |text: &str| -> Vec<String> {
        let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
        text.lines().filter_map(first).collect()
    };
    for by_state in [&["list", "--held"][..], &["list", "--state", "held"]] {
        let listed = world.producer(by_state).await.expect_success();
        assert_eq!(ids(&listed.stdout), ["sooner", "later"], "{by_state:?}");
    }
    let mut listed = ids(&world.producer(&["list", "--held", "--account", "card"]).await.stdout);
    listed.sort();
    assert_eq!(listed, ["later", "never", "sooner"]);
    let api = world.api(&[]).await;
    let page = api.get("/v1/transactions?state=held&limit=1").await.expect(200).json();
    assert_eq!(page["items"][0]["id"], "never", "the newest comes first");
    let next = page["next"].as_str().expect("one is left");
    let page = api.get(&format!("/v1/transactions?state=held&cursor={next}")).await.expect(200);
    let page = page.json();
    let rest = page["items"].as_array().expect("items").iter().map(|item| &item["id"]);
    assert_eq!(rest.collect::<Vec<_>>(), ["sooner", "later"]);
    world.finish().await;
}

#[tokio::test]
async fn what_is_on_hold_is_told_apart_from_what_else_is_pending() {
    let world = world().await;
    held(&world, "one", 30, None).await;
    held(&world, "two", 10, None).await;
    // A transfer of 5 that a worker has posted on the card.
    let update = doc! {
        "$inc": { "balance": -5_i64, "pendingDebits": 5_i64 },
        "$push": { "pendingTransactions": "plain" },
    };
    world.store.accounts().update_one(doc! { "_id": "card" }, update).await.expect("it is there");
    world.insert(&[transfer("plain", "card", "shop", 5)]).await;
    let shown = world.producer(&["accounts", "show", "card", "shop"]).await.expect_success();
    let mut lines = shown.stdout.lines();
    let card = lines.next().expect("a line");
    assert!(card.contains("balance 55  held 45 (40 by 2 holds)  coming 0"), "{card}");
    let shop = lines.next().expect("a line");
    assert!(shop.contains("balance 0  held 0  coming 0"), "{shop}");
    let json = world.producer(&["accounts", "show", "card", "--json"]).await.json();
    assert_eq!((&json["onHold"], &json["pendingHolds"]), (&json!("40"), &json!(2)));

    let api = world.api(&[]).await;
    let card = api.get("/v1/accounts/card").await.expect(200).json();
    let told = ["available", "pendingDebits", "onHold"].map(|field| card[field].clone());
    assert_eq!(told, [json!("55"), json!("45"), json!("40")]);
    assert_eq!(card["holds"], json!(2));
    let shop = api.get("/v1/accounts/shop").await.expect(200).json();
    assert_eq!((shop.get("holds"), shop.get("onHold")), (None, None));
    let page = api.get("/console/account?id=card").await.expect(200);
    assert!(page.body.contains("40 (2 holds)"), "{}", page.body);
    world.finish().await;
}

#[tokio::test]
async fn an_operator_confirms_and_releases_in_the_console() {
    let world = world().await;
    for id in ["t", "u"] {
        held(&world, id, 20, Some(from_now(HOUR_MS))).await;
    }
    let api = world.api(&[]).await;
    let page = api.get("/console/transaction?id=t").await.expect(200);
    for part in ["act=confirm", "act=release", "or expires at", ">held<"] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    let asked = api.get("/console/confirm?act=confirm&id=t").await.expect(200);
    assert!(asked.body.contains("Confirm the hold"), "{}", asked.body);
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    for (act, id, state) in [("confirm", "t", State::Pending), ("release", "u", State::Canceling)] {
        let body = format!("act={act}&id={id}&reason=case+9");
        api.send("POST", "/console/act", &form, &body).await.expect(200);
        assert_eq!(world.state(id).await, state);
    }
    let page = api.get("/console/transaction?id=t").await.expect(200);
    assert!(page.body.contains("what was on hold goes on"), "{}", page.body);
    let listed = api.get("/console/transactions?state=held").await.status;
    assert!(listed == 200 || listed == 409, "the ledger may have no history");
    harness::wait::wait_until("both are logged", s(30), async || {
        api.log().matches("case 9").count() == 2
    })
    .await;
    world.finish().await;
}

#[tokio::test]
async fn a_part_of_a_hold_is_captured_by_the_form_and_a_wrong_amount_is_told_under_its_field() {
    let world = world().await;
    held(&world, "t", 20, None).await;
    let api = world.api(&[]).await;
    let asked = api.get("/console/confirm?act=confirm&id=t").await.expect(200).body;
    assert!(asked.contains("name=\"value\" required"), "{asked}");
    let before = world.transaction("t").await;
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let post = async |value: &str, reason: &str| {
        let body = format!("act=confirm&id=t&value={value}&reason={reason}");
        api.send("POST", "/console/act", &form, &body).await
    };
    for (value, expected) in [
        ("21", "21 is more than is held"),
        ("0", "it must be above zero"),
        ("1.50", "has a decimal point"),
        ("much", "is not a number"),
        ("", "write how much to capture"),
    ] {
        let refused = post(value, "case+9").await.expect(422).body;
        let (_, below) = refused.split_once("id=\"value-problem\">").expect(&refused);
        let told = below.split("</p>").next().unwrap_or_default();
        assert!(told.contains(expected), "{value}: {told}");
        assert!(refused.contains("value=\"case 9\""), "what was typed is kept: {refused}");
    }
    let without = post("7", "").await.expect(422).body;
    assert!(without.contains("id=\"reason-problem\"") && without.contains("value=\"7\""));
    assert_eq!(world.transaction("t").await, before, "nothing was done");

    let done = post("7", "case+9").await.expect(200).body;
    assert!(done.contains("t pending, captured 7"), "{done}");
    let page = api.get("/console/transaction?id=t").await.expect(200).body;
    assert!(page.contains("of 20 that was on hold"), "{page}");
    assert!(page.contains("it is durable and captures 7 for shop"), "the act says it: {page}");
    let other = post("8", "case+9").await.expect(409).body;
    assert!(other.contains("confirmed before"), "{other}");
    world.finish().await;
}

#[tokio::test]
async fn an_audit_at_rest_accepts_what_is_held_and_explains_it() {
    let world = world().await;
    held(&world, "t", 50, None).await;
    world.assert_at_rest().await;
    let said = world.producer(&["audit", "--at-rest"]).await.expect_success();
    assert!(said.stdout.contains("0 in flight, 1 scheduled or on hold"), "{}", said.stdout);
    let accounts = world.store.accounts();
    let lost = doc! { "$inc": { "pendingHolds": -1 } };
    accounts.update_one(doc! { "_id": "card" }, lost).await.expect("MongoDB is there");
    world.assert_money_is_wrong().await;
    world.finish().await;
}
