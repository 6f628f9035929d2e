//! Acts by the HTTP API.

use std::path::PathBuf;

use harness::api::Api;
use harness::wait::{s, wait_until};
use harness::world::World;
use ledger::transaction::State;
use mongodb::bson::DateTime;
use queue::DEAD;
use serde_json::{Value, json};

use super::{acts, park, schedule, told};

/// An API with a token, which everything is done with from now on.
async fn api_of(world: &World, name: &str, scopes: &str) -> (Api, PathBuf) {
    let file = world.directory().join("tokens");
    let token = world.token(&file, name, scopes).await;
    let mut api = world.api(&["--tokens", file.to_str().expect("UTF-8")]).await;
    api.use_token(&token);
    (api, file)
}

/// The ids of two letters that no program can read.
async fn letters(world: &World, api: &Api) -> Vec<String> {
    for body in [&b"no JSON"[..], b"no JSON either"] {
        world.queues.publish_raw(DEAD, body).await;
    }
    let mut found = Value::Null;
    wait_until("the letters are there", s(60), async || {
        found = api.get("/v1/dead-letters").await.expect(200).json();
        found["count"] == 2
    })
    .await;
    let items = found["items"].as_array().expect("a list").iter();
    items.map(|letter| letter["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn each_act_by_the_api_is_noted_with_who_from_where_why_and_what_became_of_it() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (api, _) = api_of(&world, "olivia", "read,submit,hold,reverse,accounts,operate").await;
    schedule(&world, "later").await;
    park(&world, "parked").await;
    park(&world, "given-up").await;
    let letters = letters(&world, &api).await;
    api.post("/v1/accounts?reason=why", &json!({ "account": "c", "balance": 0 })).await.expect(201);
    api.post("/v1/accounts?reason=why", &json!({ "account": "a", "balance": 7 })).await.expect(409);
    let moment = json!({ "notBefore": "2100-01-01T00:00:00Z" });
    api.post("/v1/transactions/later/reschedule?reason=why", &moment).await.expect(200);
    let [replay, discard] = [(&letters[0], "replay"), (&letters[1], "discard")]
        .map(|(id, what)| format!("/v1/dead-letters/{id}/{what}"));
    for (path, status) in [
        ("/v1/accounts/c/freeze", 200),
        ("/v1/accounts/c/unfreeze", 200),
        ("/v1/accounts/c/close", 200),
        ("/v1/accounts/a/close", 409),
        ("/v1/transactions/later/cancel", 202),
        ("/v1/transactions/nothing/release", 404),
        ("/v1/transactions/nothing/reverse", 404),
        ("/v1/parked/parked/replay", 202),
        ("/v1/parked/given-up/discard", 202),
        (replay.as_str(), 409),
        (discard.as_str(), 200),
        ("/v1/audit", 200),
    ] {
        let answer = api.act(&format!("{path}?reason=why")).await;
        // What is canceled before a worker had it has ended at once.
        let is_good = answer.status == status || (answer.status, status) == (200, 202);
        assert!(is_good, "{path}: {} {}", answer.status, answer.body);
    }
    let acts = acts(&world, &[]).await;
    let replay = format!("letters.replay {} refused refused", letters[0]);
    let discard = format!("letters.discard {} ok", letters[1]);
    let expected = [
        "account.open c ok",
        "account.open a refused conflict",
        "transaction.reschedule later ok",
        "account.freeze c ok",
        "account.unfreeze c ok",
        "account.close c ok",
        "account.close a refused refused",
        "transaction.cancel later ok",
        "hold.release nothing refused not-found",
        "transaction.reverse nothing refused not-found",
        "transaction.unpark parked ok",
        "transaction.give-up given-up ok",
        replay.as_str(),
        discard.as_str(),
        "audit.begin ledger ok",
    ];
    assert_eq!(acts.iter().map(told).collect::<Vec<_>>(), expected);
    for act in &acts {
        let who = &act["who"];
        assert_eq!((&who["name"], &who["via"]), (&"olivia".into(), &"api".into()), "{act}");
        assert_eq!((&who["from"], &who["claimed"]), (&"127.0.0.1".into(), &false.into()), "{act}");
        assert!(act["reason"] == "why" && who["request"].is_string(), "{act}");
        // As moments: as texts, "05.2Z" comes after "05.208Z".
        let moment = |at: &Value| {
            DateTime::parse_rfc3339_str(at.as_str().expect("a text")).expect("a moment")
        };
        assert!(moment(&act["at"]) <= moment(&act["ended"]["at"]), "{act}");
    }
    world.finish().await;
}

#[tokio::test]
async fn what_programs_submit_and_confirm_is_no_act_and_what_is_refused_before_leaves_none() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (mut api, file) = api_of(&world, "shop", "read,submit,hold,accounts,operate").await;
    let worker = world.worker("one").start().await;
    let one = |id: &str| json!({ "id": id, "source": "a", "destination": "b", "value": 1 });
    api.post("/v1/transactions?wait=30", &one("t")).await.expect(200);
    api.post("/v1/batch?wait=30", &json!([one("u")])).await.expect(200);
    let mut hold = one("h");
    hold["hold"] = true.into();
    api.post("/v1/transactions", &hold).await;
    world.wait_state("h", State::Held, s(60)).await;
    api.act("/v1/transactions/h/confirm?wait=30").await.expect(200);
    // A reason that can't be kept, an unknown parameter, and somebody who may not act.
    let long = "x".repeat(1_001);
    api.act(&format!("/v1/accounts/a/freeze?reason={long}")).await.expect(422);
    api.act("/v1/accounts/a/freeze?why=x").await.expect(400);
    let reader = world.token(&file, "reader", "read").await;
    api.signal(harness::process::Signal::Hup);
    api.use_token(&reader);
    wait_until("the token is known", s(30), async || api.get("/v1/accounts/a").await.status == 200)
        .await;
    api.act("/v1/accounts/a/freeze").await.expect(403);
    api.get("/v1/acts").await.expect(403);
    assert_eq!(acts(&world, &[]).await, Vec::<Value>::new());
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn acts_are_found_by_what_they_are_about_by_whom_what_and_when_and_page_by_page() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (mut api, file) = api_of(&world, "olivia", "accounts,operate").await;
    for path in ["/v1/accounts/a/freeze", "/v1/accounts/b/freeze", "/v1/accounts/a/unfreeze"] {
        api.act(path).await.expect(200);
    }
    let omar = world.token(&file, "omar", "accounts,operate").await;
    api.signal(harness::process::Signal::Hup);
    api.use_token(&omar);
    wait_until("the token is known", s(30), async || {
        api.act("/v1/transactions/t/cancel").await.status == 404
    })
    .await;
    let found = async |query: &str| {
        let page = api.get(&format!("/v1/acts?{query}")).await.expect(200).json();
        page["items"].as_array().expect("a list").iter().map(told).collect::<Vec<_>>()
    };
    let [freeze, other, unfreeze] =
        ["account.freeze a ok", "account.freeze b ok", "account.unfreeze a ok"];
    let canceled = "transaction.cancel t refused not-found";
    assert_eq!(found("account=a").await, [unfreeze, freeze]);
    assert_eq!(found("transaction=t").await, [canceled]);
    assert_eq!(found("what=account.freeze").await, [other, freeze]);
    assert_eq!(found("who=omar").await, [canceled]);
    assert_eq!(found("who=omar&account=a").await, [""; 0]);
    assert_eq!(found("until=2020-01-01T00:00:00Z").await, [""; 0]);
    assert_eq!(found("since=2020-01-01T00:00:00Z").await, [canceled, unfreeze, other, freeze]);
    api.get("/v1/acts?account=a&transaction=t").await.expect(400);

    let (mut pages, mut next) = (Vec::new(), String::new());
    let of_olivia = async |cursor: &str| {
        api.get(&format!("/v1/acts?who=olivia&limit=2{cursor}")).await.expect(200).json()
    };
    let last = loop {
        let page = of_olivia(&next).await;
        pages.extend(page["items"].as_array().expect("a list").iter().map(told));
        let Some(cursor) = page["next"].as_str() else { break page };
        api.get(&format!("/v1/acts?who=omar&cursor={cursor}")).await.expect(400);
        next = format!("&cursor={cursor}");
    };
    assert_eq!(pages, [unfreeze, other, freeze]);
    let back = last["prev"].as_str().expect("there is a page before");
    let first = of_olivia(&format!("&cursor={back}")).await;
    let told: Vec<_> = first["items"].as_array().expect("a list").iter().map(told).collect();
    assert_eq!(told, [unfreeze, other]);
    assert!(first.get("prev").is_none(), "{first}");
    world.finish().await;
}
