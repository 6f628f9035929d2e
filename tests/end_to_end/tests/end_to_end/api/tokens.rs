//! What a token may do beside its scopes: until when, how often, for whose submissions and for which
//! accounts.

use std::path::{Path, PathBuf};

use harness::api::Api;
use harness::wait::s;
use harness::world::World;
use ledger::transaction::State;
use mongodb::bson::DateTime;
use serde_json::{Value, json};

use super::console::sign_in;
use super::listener::{Event, Listener};
use super::transfer;
use crate::history::world_with_history;

const PATH: &str = "/v1/transactions";

/// A world with some accounts, and the path of its file of tokens.
async fn world(accounts: &[(&str, i64)]) -> (World, PathBuf) {
    let world = World::new().await;
    if !accounts.is_empty() {
        world.accounts(accounts).await;
    }
    let file = world.directory().join("tokens");
    (world, file)
}

async fn serve(world: &World, file: &Path, flags: &[&str]) -> Api {
    let tokens = ["--tokens", file.to_str().expect("UTF-8")];
    world.api(&[&tokens, flags].concat()).await
}

/// The pointer of the one field that a refusal names.
fn pointer(refused: &Value) -> &str {
    refused["errors"][0]["pointer"].as_str().unwrap_or_else(|| panic!("no field: {refused}"))
}

#[tokio::test]
async fn when_a_token_expires_requests_sessions_and_streams_end() {
    let (world, file) = world(&[]).await;
    let at = DateTime::from_millis(DateTime::now().timestamp_millis() + 40_000);
    let moment = at.try_to_rfc3339_string().expect("a moment");
    let brief = world.token_with(&file, "brief", "read", &["--expires", &moment]).await;
    let mut api = serve(&world, &file, &[]).await;
    api.use_token(&brief);
    api.get("/v1/accounts").await.expect(200);
    let session = sign_in(&api, &brief).await;
    // It ends when the server ends it.
    let stream = api.get("/v1/events/stream").await.expect(200);
    assert!(stream.body.contains(": listening"), "{stream:?}");
    assert!(DateTime::now() >= at, "it was ended too early");
    let refused = api.get("/v1/accounts").await.expect(401).json();
    assert_eq!(refused["detail"], format!("the token expired at {moment}"));
    let stranger = [("Authorization", "Bearer tandem_0")];
    let answer =
        harness::http::send(api.address, "GET", "/v1/accounts", &stranger, "", s(60)).await;
    assert_eq!(answer.expect("it answers").expect(401).json()["detail"], "the token is not known");
    let cookie = [("Cookie", session.as_str())];
    let page = harness::http::send(api.address, "GET", "/", &cookie, "", s(60)).await;
    page.expect("it answers").expect(401);
    world.finish().await;
}

#[tokio::test]
async fn a_token_that_would_have_expired_already_is_not_made_and_a_wrong_line_is_named() {
    let (world, file) = world(&[]).await;
    let past = ["token", "x", "--scope", "read", "--expires", "2020-01-01T00:00:00Z"];
    let refused = world.producer(&past).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("has passed"), "{refused:?}");
    world.token(&file, "one", "read").await;
    let good = std::fs::read_to_string(&file).expect("it is there");
    std::fs::write(&file, format!("{good}{} until=2027\n", good.trim())).expect("it is ours");
    let tokens = file.to_str().expect("UTF-8");
    let refused = world.producer(&["serve", "--listen", "127.0.0.1:0", "--tokens", tokens]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let said = format!("{tokens}:2: \"until\" is not known here; write expires=");
    assert!(refused.stderr.contains(&said), "{refused:?}");
    world.finish().await;
}

#[tokio::test]
async fn a_token_with_a_rate_of_its_own_is_not_bound_by_the_servers() {
    let (world, file) = world(&[]).await;
    let fast = world.token_with(&file, "fast", "read", &["--rate", "500"]).await;
    let usual = world.token(&file, "usual", "read").await;
    let mut api = serve(&world, &file, &["--rate", "1"]).await;
    for (token, policy) in [(&fast, "\"default\";q=500;w=1"), (&usual, "\"default\";q=1;w=1")] {
        api.use_token(token);
        let answer = api.get("/v1/accounts").await.expect(200);
        assert_eq!(answer.header("RateLimit-Policy"), Some(policy));
    }
    api.use_token(&fast);
    for _ in 0..20 {
        api.get("/v1/accounts").await.expect(200);
    }
    world.finish().await;
}

#[tokio::test]
async fn who_creates_accounts_makes_no_money_without_operate() {
    let (world, file) = world(&[]).await;
    let clerk = world.token(&file, "clerk", "accounts").await;
    let chief = world.token(&file, "chief", "accounts,operate").await;
    let operator = world.token(&file, "operator", "operate").await;
    let mut api = serve(&world, &file, &[]).await;
    let account = |balance: i64| json!({ "account": "a", "balance": balance });
    api.use_token(&operator);
    api.post("/v1/accounts", &account(0)).await.expect(403);
    api.use_token(&clerk);
    let refused = api.post("/v1/accounts", &account(10)).await.expect(403).json();
    assert_eq!(
        (pointer(&refused), &refused["type"]),
        ("#/balance", &json!("urn:tandem:problem:forbidden"))
    );
    api.act("/v1/accounts/a/freeze").await.expect(404);
    api.post("/v1/accounts", &account(0)).await.expect(201);
    api.act("/v1/accounts/a/freeze").await.expect(200);
    api.use_token(&chief);
    let other = json!({ "account": "b", "balance": 10 });
    api.post("/v1/accounts", &other).await.expect(201);
    world.finish().await;
}

#[tokio::test]
async fn an_opening_balance_is_paid_once_by_another_account_and_never_below_its_floor() {
    let (world, file) = world(&[("capital", 100), ("shop/cash", 5)]).await;
    let clerk = world.token(&file, "clerk", "accounts").await;
    let payer = world.token(&file, "payer", "accounts,submit").await;
    let bound = ["--accounts", "shop/"];
    let bound = world.token_with(&file, "bound", "accounts,submit", &bound).await;
    let worker = world.worker("one").start().await;
    let mut api = serve(&world, &file, &[]).await;
    let account = |id: &str, balance: i64, from: &str| json!({ "account": id, "balance": balance, "from": from });
    let open = "/v1/accounts?wait=30";
    for (token, asked, refused) in [
        (&clerk, account("a", 60, "capital"), 403),
        (&bound, account("shop/a", 5, "capital"), 403),
        (&payer, account("a", 0, "capital"), 422),
        (&payer, account("a", 60, "a"), 422),
        (&payer, json!({ "account": "a", "balance": 60, "from": "capital", "floor": 1 }), 422),
    ] {
        api.use_token(token);
        api.post(open, &asked).await.expect(refused);
    }
    api.use_token(&payer);
    let made = api.post(open, &account("a", 60, "capital")).await.expect(201).json();
    assert_eq!(made["openingTransfer"], json!({ "id": "open:a", "state": "done" }), "{made}");
    assert_eq!((&made["balance"], &made["openingBalance"]), (&json!("60"), &json!("0")), "{made}");
    let again = api.post(open, &account("a", 60, "capital")).await.expect(200);
    assert_eq!(again.header("Idempotent-Replayed"), Some("true"));
    let other = api.post(open, &account("a", 61, "capital")).await.expect(409).json();
    assert!(other["detail"].as_str().is_some_and(|it| it.starts_with("open:a: ")), "{other}");
    // More than the counter-account has: the account is there, and says why it has nothing.
    let poor = api.post(open, &account("b", 60, "capital")).await.expect(201).json();
    let transfer = &poor["openingTransfer"];
    assert_eq!((&transfer["state"], &poor["balance"]), (&json!("canceled"), &json!("0")));
    assert_eq!(transfer["reason"]["code"], "insufficient_funds", "{poor}");
    let typed = ["accounts", "create", "c", "--balance", "30", "--from", "capital", "--wait"];
    let told = world.producer(&typed).await.expect_success().stdout;
    assert_eq!(told, "c: created\nopen:c: done\n");
    let told = world.producer(&typed).await.expect_success().stdout;
    assert_eq!(told, "c: exists, unchanged\nopen:c: done\n");
    api.use_token(&bound);
    api.post(open, &account("shop/a", 5, "shop/cash")).await.expect(201);
    for (id, balance) in [("capital", 10), ("a", 60), ("b", 0), ("c", 30), ("shop/a", 5)] {
        assert_eq!(world.balance(id).await, balance.into(), "{id}");
    }
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn who_may_only_submit_sees_and_cancels_what_it_has_submitted_and_nothing_else() {
    let (world, file) = world(&[("a", 100), ("b", 0)]).await;
    let shop = world.token(&file, "shop", "submit").await;
    let other = world.token(&file, "other", "submit").await;
    let mut api = serve(&world, &file, &[]).await;
    api.use_token(&other);
    api.post(PATH, &transfer("theirs", "a", "b", 1)).await.expect(202);
    api.use_token(&shop);
    api.post(PATH, &transfer("own", "a", "b", 1)).await.expect(202);
    let mut hold = transfer("hold", "a", "b", 1);
    hold["hold"] = json!(true);
    api.post(PATH, &hold).await.expect(202);
    assert_eq!(api.get(&format!("{PATH}/own")).await.expect(200).json()["submittedBy"], "shop");
    for what in ["", "?wait=1"] {
        let hidden = api.get(&format!("{PATH}/theirs{what}")).await.expect(404).json();
        let missing = api.get(&format!("{PATH}/nowhere{what}")).await.expect(404).json();
        assert_eq!(hidden.to_string().replace("theirs", "nowhere"), missing.to_string());
    }
    api.get(PATH).await.expect(403);
    api.get("/v1/accounts/a").await.expect(403);
    let hidden = api.act(&format!("{PATH}/theirs/cancel")).await.expect(404).json();
    let missing = api.act(&format!("{PATH}/nowhere/cancel")).await.expect(404).json();
    assert_eq!(hidden.to_string().replace("theirs", "nowhere"), missing.to_string());
    let refused = api.act(&format!("{PATH}/hold/cancel")).await.expect(403).json();
    assert_eq!(pointer(&refused), "id");
    api.act(&format!("{PATH}/own/cancel")).await.expect(202);
    assert_eq!(world.state("own").await, State::Canceling);
    assert_eq!(world.state("theirs").await, State::Initial);
    world.finish().await;
}

/// What a token with every scope that is bound to `shop/` is answered.
async fn bound(world: &World, file: &Path) -> Api {
    let scopes = "read,submit,hold,reverse,accounts,operate";
    let token = world.token_with(file, "till", scopes, &["--accounts", "shop/"]).await;
    let mut api = serve(world, file, &[]).await;
    api.use_token(&token);
    api
}

#[tokio::test]
async fn a_bound_token_debits_and_creates_no_other_account() {
    let (world, file) = world(&[("shop/1", 100), ("bob", 100), ("al", 0)]).await;
    let worker = world.worker("one").start().await;
    let api = bound(&world, &file).await;
    let refused = api.post(PATH, &transfer("t", "bob", "shop/1", 1)).await.expect(403).json();
    assert_eq!(pointer(&refused), "#/source");
    assert!(refused["detail"].to_string().contains("bob"), "{refused}");
    let batch = json!([
        transfer("good", "shop/1", "bob", 5),
        { "id": "bad", "legs": [
            { "account": "shop/1", "amount": -1 },
            { "account": "bob", "amount": -1 },
            { "account": "al", "amount": 2 },
        ] },
    ]);
    let answer = api.post("/v1/batch?wait=30", &batch).await.expect(200).json();
    assert_eq!(
        (&answer["items"][0]["status"], &answer["items"][1]["status"]),
        (&json!(200), &json!(403))
    );
    assert_eq!(pointer(&answer["items"][1]["problem"]), "#/legs/1/account");
    // Its reversal would take money from bob.
    let refused = api.act(&format!("{PATH}/good/reverse")).await.expect(403).json();
    assert_eq!(pointer(&refused), "id");
    world.submit(&[harness::world::transfer("paid", "bob", "shop/1", 7)], 1).await;
    world.wait_state("paid", State::Done, s(60)).await;
    api.act(&format!("{PATH}/paid/reverse?wait=30")).await.expect(200);
    for (name, status) in [("shop/2", 201), ("rob", 403)] {
        let account = json!({ "account": name, "balance": 0 });
        api.post("/v1/accounts", &account).await.expect(status);
    }
    assert_eq!(world.balance("bob").await.to_string(), "105");
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn to_a_bound_token_other_accounts_and_their_transactions_are_not_there() {
    let world = world_with_history().await;
    world.accounts(&[("shop/1", 9), ("shop/2", 0), ("bob", 9), ("shopping", 0)]).await;
    let file = world.directory().join("tokens");
    let transfer = harness::world::transfer;
    let both = [transfer("ours", "shop/1", "bob", 1), transfer("theirs", "bob", "shopping", 1)];
    world.submit(&both, 1).await;
    let worker = world.worker("one").start().await;
    world.wait_final(s(60)).await;
    let api = bound(&world, &file).await;
    api.get(&format!("{PATH}/ours")).await.expect(200);
    let same = async |method: &str, path: &str, hidden: &str, missing: &str| {
        let told = async |name: &str| {
            let path = path.replace("NAME", &name.replace('/', "%2F"));
            api.send(method, &path, &[], "").await.expect(404).json().to_string()
        };
        assert_eq!(told(hidden).await.replace(hidden, missing), told(missing).await, "{path}");
    };
    for (method, path) in [("GET", ""), ("GET", "/statement"), ("POST", "/freeze")] {
        same(method, &format!("/v1/accounts/NAME{path}"), "bob", "shop/none").await;
    }
    for (method, path) in [("GET", ""), ("POST", "/cancel"), ("POST", "/release")] {
        same(method, &format!("{PATH}/NAME{path}"), "theirs", "nowhere").await;
    }
    let page = api.get("/v1/accounts?limit=1").await.expect(200).json();
    assert_eq!(page["items"][0]["id"], "shop/1");
    let cursor = page["next"].as_str().expect("there is one more");
    let rest = api.get(&format!("/v1/accounts?cursor={cursor}")).await.expect(200).json();
    let ids: Vec<&Value> =
        rest["items"].as_array().expect("items").iter().map(|it| &it["id"]).collect();
    assert_eq!((ids, &rest["next"]), (vec![&json!("shop/2")], &Value::Null));
    let back = rest["prev"].as_str().expect("it leads back");
    let first = api.get(&format!("/v1/accounts?cursor={back}")).await.expect(200).json();
    assert_eq!((&first["items"], first.get("prev")), (&page["items"], None));
    let refused = api.get(PATH).await.expect(403).json();
    assert_eq!(pointer(&refused), "account");
    for (account, count) in [("shop/1", 1), ("bob", 0)] {
        let listed = api.get(&format!("{PATH}?account={account}")).await.expect(200).json();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(count), "{listed}");
    }
    for whole in ["/v1/overview/stream", "/v1/stats", "/v1/overview", "/v1/parked"] {
        let refused = api.get(whole).await.expect(403).json();
        assert!(refused["detail"].to_string().contains("is bound to accounts"), "{refused}");
    }
    // That the id is taken is told, and nothing of what has it.
    let taken = json!({ "id": "theirs", "source": "shop/1", "destination": "bob", "value": 3 });
    let refused = api.post(PATH, &taken).await.expect(409).json();
    assert_eq!((&refused["differs"], &refused["existing"]), (&Value::Null, &Value::Null));
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_bound_token_hears_of_what_touches_its_accounts_and_of_nothing_else() {
    let (world, file) = world(&[("shop/1", 100), ("bob", 100), ("al", 0)]).await;
    let worker = world.worker("one").start().await;
    let token = world.token_with(&file, "till", "read", &["--accounts", "shop/"]).await;
    let mut api = serve(&world, &file, &[]).await;
    api.use_token(&token);
    let settle = async |id: &str, source: &str, destination: &str| {
        let one = harness::world::transfer(id, source, destination, 1);
        world.submit(&[one], 1).await;
        world.wait_state(id, State::Done, s(60)).await;
    };
    let bearer = format!("Bearer {token}");
    let follow = async |last: Option<&str>| {
        let mut headers = vec![("Authorization", bearer.as_str())];
        headers.extend(last.map(|id| ("Last-Event-ID", id)));
        Listener::open_with(api.address, "/v1/events/stream", &headers, ": listening").await
    };
    let mut following = follow(None).await;
    for (id, source, destination) in [
        ("theirs-1", "bob", "al"),
        ("ours-1", "shop/1", "bob"),
        ("theirs-2", "bob", "al"),
        ("ours-2", "bob", "shop/1"),
        ("theirs-3", "bob", "al"),
    ] {
        settle(id, source, destination).await;
    }
    let ids = |events: &[Event]| -> Vec<String> {
        events.iter().map(|event| event.data["id"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids(following.heard(2).await), ["ours-1", "ours-2"]);
    // Nothing more is told, and its position moves on: it need not look at all that again.
    following.at("5").await;
    assert_eq!(following.events().len(), 2);
    drop(following);
    settle("missed", "shop/1", "bob").await;
    let mut back = follow(Some("5")).await;
    assert_eq!(ids(back.heard(1).await), ["missed"]);
    let mut all = follow(Some("0")).await;
    assert_eq!(ids(all.heard(3).await), ["ours-1", "ours-2", "missed"]);

    let list = async |asked: &str| {
        let page = api.get(&format!("/v1/events?{asked}")).await.expect(200).json();
        let items = page["items"].as_array().expect("a list").iter();
        let ids: Vec<String> =
            items.map(|item| item["event"]["id"].as_str().expect("an id").to_owned()).collect();
        (ids, page["next"].clone())
    };
    let (told, next) = list("after=0").await;
    assert_eq!(told, ["ours-1", "ours-2", "missed"]);
    assert_eq!(next, 6, "it has looked at what it is not told, too");
    let (told, _) = list("after=0&account=al").await;
    assert_eq!(told, [""; 0], "what it may not read is not told for a filter, either");
    let (told, _) = list("after=0&account=bob").await;
    assert_eq!(told, ["ours-1", "ours-2", "missed"]);
    let refused = api.get("/v1/overview").await.expect(403).json();
    assert!(refused["detail"].to_string().contains("is bound to accounts"), "{refused}");
    drop(worker);
    world.finish().await;
}
