//! Looking at accounts, transactions and statements by HTTP.

use std::collections::BTreeSet;

use harness::api::Api;
use harness::wait::{s, wait_until};
use harness::world::World;
use ledger::notation::Form;
use mongo::Choice;
use mongodb::bson::{DateTime, Document, doc};
use serde_json::{Value, json};

use super::transfer;
use crate::paging::{self, Seen};

/// How many different items a list has, in pages, each of them once.
async fn walk(api: &Api, path: &str) -> usize {
    let (mut seen, mut next) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("{path}{next}")).await.expect(200).json();
        seen.extend(ids(&page));
        let Some(cursor) = page["next"].as_str() else { break };
        next = format!("&cursor={cursor}");
    }
    let different: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(seen.len(), different.len(), "{path}");
    seen.len()
}

/// Goes to the end of a list and back again; its items, in the list's order.
async fn there_and_back(api: &Api, path: &str) -> Vec<String> {
    paging::there_and_back(async |cursor: Option<&str>| {
        let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = api.get(&format!("{path}{cursor}")).await.expect(200).json();
        let end = |name: &str| page[name].as_str().map(str::to_owned);
        Seen { ids: ids(&page), next: end("next"), prev: end("prev") }
    })
    .await
}

fn ids(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().expect("items").iter();
    items.map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn an_account_is_created_once_and_shows_what_may_be_spent() {
    let world = World::new().await;
    world.choose(Choice { amounts: Some(Form::Decimals), ..Choice::default() }).await;
    let api = world.api(&[]).await;
    let credit = json!({ "account": "credit", "balance": "-5.00", "floor": "-20.00",
        "currency": "EUR" });
    let created = api.post("/v1/accounts", &credit).await.expect(201);
    assert_eq!(created.header("Location"), Some("/v1/accounts/credit"));
    let account = created.json();
    assert_eq!((&account["balance"], &account["available"]), (&json!("-5.00"), &json!("15.00")));
    let again = api.post("/v1/accounts", &credit).await.expect(200);
    assert_eq!(again.header("Idempotent-Replayed"), Some("true"));
    let other = json!({ "account": "credit", "balance": "-6.00", "floor": "-20.00",
        "currency": "EUR" });
    let refused = api.post("/v1/accounts", &other).await.expect(409).json();
    assert_eq!(refused["differs"], json!(["/balance"]));
    assert_eq!(refused["existing"], "/v1/accounts/credit");
    let flawed = json!({ "account": "x", "balance": 1, "floor": 2 });
    let problem = api.post("/v1/accounts", &flawed).await.expect(422).json();
    assert_eq!(problem["errors"][0]["pointer"], "#/balance");
    let endless = json!({ "account": "world", "balance": 0, "floor": "none" });
    let endless = api.post("/v1/accounts", &endless).await.expect(201).json();
    assert_eq!(endless.get("available"), None, "{endless}");

    let frozen = api.act("/v1/accounts/world/freeze").await.expect(200).json();
    assert_eq!(frozen["status"], "frozen");
    api.act("/v1/accounts/world/unfreeze").await.expect(200);
    api.act("/v1/accounts/credit/close").await.expect(409);
    api.act("/v1/accounts/nobody/freeze").await.expect(404);
    api.get("/v1/accounts/nobody").await.expect(404);
    world.finish().await;
}

#[tokio::test]
async fn pages_visit_each_once_and_a_cursor_is_good_for_its_own_filter_only() {
    let world = World::new().await;
    let api = world.api(&[]).await;
    let accounts: Vec<(String, i64)> = (0..25).map(|n| (format!("acc-{n:02}"), 100)).collect();
    let named: Vec<(&str, i64)> =
        accounts.iter().map(|(id, money)| (id.as_str(), *money)).collect();
    world.accounts(&named).await;
    let transfers: Vec<Value> =
        (0..40).map(|n| transfer(&format!("t{n:02}"), "acc-00", "acc-01", 1)).collect();
    api.post("/v1/batch", &transfers.into()).await.expect(200);
    api.post("/v1/transactions", &transfer("else", "acc-02", "acc-03", 1)).await.expect(202);
    let waiting = [
        ("/v1/transactions?limit=7&state=initial,pending", 41),
        ("/v1/transactions?limit=7&account=acc-00", 0),
        ("/v1/transactions?state=done", 0),
    ];
    for (path, count) in waiting {
        assert_eq!(walk(&api, path).await, count, "{path}");
    }
    let worker = world.worker("one").start().await;
    world.wait_final(s(60)).await;
    for (path, count) in [
        ("/v1/accounts?limit=10", 25),
        ("/v1/transactions?limit=7", 41),
        ("/v1/transactions?limit=7&account=acc-00", 40),
        ("/v1/transactions?limit=7&account=acc-00", 40),
        ("/v1/transactions?limit=7&state=done", 41),
        ("/v1/transactions?limit=7&account=acc-03&state=done,applied", 1),
        ("/v1/transactions?limit=7&since=2020-01-01T00:00:00Z", 41),
        ("/v1/transactions?limit=7&since=2120-01-01T00:00:00Z", 0),
        ("/v1/transactions?state=canceled", 0),
    ] {
        assert_eq!(walk(&api, path).await, count, "{path}");
    }
    drop(worker);
    let names: Vec<String> = accounts.into_iter().map(|(name, _)| name).collect();
    // No account has an empty name, so what others have named so is in no list.
    let nameless = world.store.database().collection::<Document>("accounts");
    let insert = nameless.insert_one(doc! { "_id": "", "balance": 1, "pendingTransactions": [] });
    insert.bypass_document_validation(true).await.expect("MongoDB takes it");
    assert_eq!(there_and_back(&api, "/v1/accounts?limit=10").await, names);
    nameless.delete_one(doc! { "_id": "" }).await.expect("MongoDB is there");
    let page = api.get("/v1/transactions?limit=7&account=acc-00").await.json();
    let cursor = page["next"].as_str().expect("there are more");
    for path in [
        format!("/v1/transactions?account=acc-01&cursor={cursor}"),
        format!("/v1/transactions?cursor={cursor}"),
        format!("/v1/accounts?cursor={cursor}"),
        "/v1/transactions?cursor=nonsense".to_owned(),
    ] {
        api.get(&path).await.expect(400);
    }
    for query in [
        "state=initial&account=acc-00",
        "limit=0",
        "limit=1001",
        "limit=x",
        "state=gone",
        "since=yesterday",
    ] {
        let problem = api.get(&format!("/v1/transactions?{query}")).await.expect(422).json();
        let name = query.split('=').next();
        assert_eq!(problem["errors"][0]["pointer"].as_str(), name, "{problem}");
    }
    api.get("/v1/transactions?limit=1&limit=2").await.expect(400);
    world.finish().await;
}

#[tokio::test]
async fn counts_of_very_many_transactions_are_estimated_and_say_so() {
    let world = World::new().await;
    let api = world.api(&[]).await;
    let few = api.get("/v1/stats").await.expect(200).json();
    assert_eq!((&few["estimated"], &few["states"]["done"]), (&json!(false), &json!(0)), "{few}");
    // One in four is canceled; no worker looks at what is final.
    let final_ones = (0..101_000).map(|n: i32| {
        let state = if n % 4 == 0 { "canceled" } else { "done" };
        doc! { "_id": format!("t{n}"), "state": state, "createdAt": DateTime::from_millis(0) }
    });
    let all: Vec<Document> = final_ones.collect();
    let transactions = world.store.transactions();
    transactions.insert_many(all).bypass_document_validation(true).await.expect("there is room");
    // The counts of before are told for ten seconds.
    wait_until("they are counted again", s(60), async || {
        let stats = api.get("/v1/stats").await.expect(200).json();
        let count = |state: &str| stats["states"][state].as_i64().expect("a count");
        let (done, canceled) = (count("done"), count("canceled"));
        if done + canceled == 0 {
            return false;
        }
        assert_eq!(stats["estimated"], true, "{stats}");
        assert!((100_000..=101_000).contains(&(done + canceled)), "{stats}");
        assert!((20_000..31_000).contains(&canceled), "{stats}");
        true
    })
    .await;
    let exact = world.producer(&["stats", "--json"]).await.expect_success().json();
    assert_eq!((&exact["states"]["canceled"], &exact["estimated"]), (&json!(25_250), &json!(null)));
    world.finish().await;
}

#[tokio::test]
async fn a_statement_adds_up_to_the_balance() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    let api = world.api(&[]).await;
    for n in 0..12 {
        let back = if n % 3 == 0 { ("b", "a") } else { ("a", "b") };
        let body = transfer(&format!("t{n:02}"), back.0, back.1, n + 1);
        api.post("/v1/transactions?wait=30", &body).await.expect(200);
    }
    let whole = api.get("/v1/accounts/a/statement").await.expect(200).json();
    let balance = api.get("/v1/accounts/a").await.expect(200).json()["balance"].clone();
    assert_eq!((&whole["opening"], &whole["closing"]), (&json!("100"), &balance));
    let mut running = 100_i64;
    for item in whole["items"].as_array().expect("items") {
        let number = |field: &str| item[field].as_str().and_then(|text| text.parse::<i64>().ok());
        running += number("amount").expect("an amount");
        assert_eq!(number("balance"), Some(running), "{item}");
        assert_eq!(item["counterparties"], json!(["b"]));
    }
    assert_eq!(balance, running.to_string());
    let at = whole["items"][4]["bookedAt"].as_str().expect("a moment");
    let before = api.get(&format!("/v1/accounts/a/statement?to={at}")).await.expect(200).json();
    let after = api.get(&format!("/v1/accounts/a/statement?from={at}")).await.expect(200).json();
    assert_eq!(before["closing"], after["opening"]);
    assert_eq!(after["closing"], balance);
    api.get("/v1/accounts/nobody/statement").await.expect(404);
    let stats = api.get("/v1/stats").await.expect(200).json();
    let ended = stats["states"]["done"].as_u64().zip(stats["states"]["canceled"].as_u64());
    assert_eq!(ended.map(|(done, canceled)| done + canceled), Some(12), "{stats}");
    let audit = api.act("/v1/audit?atRest=true").await.expect(200).json();
    assert_eq!((&audit["ok"], &audit["transactions"]), (&json!(true), &json!(12)));
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn every_stored_document_can_be_shown() {
    let world = World::new().await;
    let api = world.api(&[]).await;
    let odd = [
        doc! { "_id": "no-legs", "state": "initial" },
        doc! { "_id": "float", "state": "done", "source": "a", "destination": "b", "value": 1.5 },
        doc! { "_id": "strange", "state": 7, "legs": "none", "createdAt": "yesterday" },
        doc! { "_id": 7, "state": "initial" },
    ];
    let raw = world.store.transactions();
    for document in &odd {
        let insert = doc! { "insert": raw.name(), "documents": [document],
        "bypassDocumentValidation": true };
        world.store.database().run_command(insert).await.expect("it is inserted");
    }
    let account = doc! { "insert": "accounts", "documents": [{ "_id": "nan", "balance": f64::NAN }],
    "bypassDocumentValidation": true };
    world.store.database().run_command(account).await.expect("it is inserted");
    for id in ["no-legs", "float", "strange"] {
        let shown = api.get(&format!("/v1/transactions/{id}")).await.expect(200).json();
        assert!(shown["invalid"].is_string() && shown.get("value").is_none(), "{shown}");
    }
    let account = api.get("/v1/accounts/nan").await.expect(200).json();
    assert!(account["invalid"].is_string() && account.get("balance").is_none(), "{account}");
    let listed = api.get("/v1/accounts").await.expect(200).json();
    assert_eq!(ids(&listed), ["nan"]);
    world.finish().await;
}
