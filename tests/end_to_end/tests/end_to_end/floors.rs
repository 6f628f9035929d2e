//! Changing the floor of an account: what is refused, what is kept, and that no account is below
//! its floor at any moment, whatever workers post meanwhile.

use client::{Effect, Error, NewFloor};
use harness::failing::{FailingMongo, Failure, Plan, Times};
use harness::producer::Answer;
use harness::proxy::Part;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::amount::Amount;
use ledger::transaction::State;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use serde_json::json;

use super::layouts::{SCHEMA, collection, one, user, world_of};
use super::notation::world_of_decimals;
use super::numbers::ENGINES;

async fn set(world: &World, id: &str, floor: &str) -> Answer {
    world.producer(&["accounts", "set-floor", id, floor]).await
}

async fn account(world: &World, id: &str) -> Document {
    one(world, "accounts", doc! { "_id": id }).await
}

fn assert_refused(answer: &Answer, expected: &[&str]) {
    assert_eq!(answer.code, Some(1), "{answer:?}");
    for expected in expected {
        assert!(answer.stderr.contains(expected), "{expected} is not told: {answer:?}");
    }
}

/// Holds 30 of alice's 100 for the shop.
async fn with_a_hold(world: &World) {
    world.accounts(&[("alice", 100), ("shop", 0)]).await;
    let worker = world.worker("one").start().await;
    let hold = ["transfer", "alice", "shop", "30", "--hold", "--id", "h", "--wait"];
    world.producer(&hold).await.expect_success();
    drop(worker);
}

#[tokio::test]
async fn a_floor_at_what_an_account_has_is_taken_and_one_above_it_is_refused_with_the_highest() {
    let world = World::new().await;
    with_a_hold(&world).await;
    let before = account(&world, "alice").await;
    let refused = set(&world, "alice", "71").await;
    let told = ["alice: its balance is 70,", "pending debits of 30", "takes now is 70"];
    assert_refused(&refused, &told);
    assert_eq!(account(&world, "alice").await, before, "it is without effect");

    let at = set(&world, "alice", "70").await.expect_success();
    assert_eq!(at.stdout, "alice: floor 70\n");
    let written = account(&world, "alice").await;
    assert_eq!(written.get("floor"), Some(&Bson::Int64(70)));
    let again = set(&world, "alice", "70").await.expect_success();
    assert_eq!(again.stdout, "alice: floor 70, as it was already\n");
    assert_eq!(account(&world, "alice").await, written, "nothing is written twice");

    // Nothing may be spent, until the hold is released; then what it held may be.
    let worker = world.worker("two").start().await;
    let dear = world.producer(&["transfer", "alice", "shop", "1", "--wait"]).await;
    assert_eq!(dear.code, Some(4), "{dear:?}");
    world.producer(&["release", "h", "--wait"]).await;
    world.wait_final(s(60)).await;
    world.producer(&["transfer", "alice", "shop", "30", "--wait"]).await.expect_success();
    let below = set(&world, "alice", "-50").await.expect_success();
    assert_eq!(below.stdout, "alice: floor -50\n");
    world.producer(&["transfer", "alice", "shop", "120", "--wait"]).await.expect_success();
    assert_eq!(world.balance("alice").await, Amount::Int(-50));
    let above = set(&world, "alice", "-49").await;
    assert_refused(&above, &["its balance is -50", "pending debits of 0", "takes now is -50"]);
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn an_account_gets_no_floor_at_all_and_one_again_and_keeps_why() {
    let world = World::new().await;
    world.accounts(&[("alice", 10), ("shop", 0)]).await;
    let worker = world.worker("one").start().await;
    let why = ["--reason", "the central bank", "--by", "ada"];
    let none = ["accounts", "set-floor", "alice", "none"];
    let unlimited = world.producer(&[&none[..], &why].concat()).await.expect_success();
    assert_eq!(unlimited.stdout, "alice: floor none\n");
    let again = world.producer(&none).await.expect_success();
    assert_eq!(again.stdout, "alice: floor none, as it was already\n");
    let written = account(&world, "alice").await;
    assert_eq!(written.get("floor"), Some(&Bson::Null));
    let change = written.get_document("floorChange").expect("it is kept");
    assert_eq!(change.get_str("reason").ok(), Some("the central bank"));
    assert_eq!(change.get_str("by").ok(), Some("ada"));
    assert_eq!(change.get("from"), Some(&Bson::Int64(0)));
    assert!(change.get_datetime("at").is_ok(), "{change}");

    world.producer(&["transfer", "alice", "shop", "1010", "--wait"]).await.expect_success();
    assert_refused(&set(&world, "alice", "0").await, &["its balance is -1000", "now is -1000"]);
    set(&world, "alice", "-1000").await.expect_success();
    let dear = world.producer(&["transfer", "alice", "shop", "1", "--wait"]).await;
    assert_eq!(dear.code, Some(4), "{dear:?}");
    // A floor that others have spoiled is put right.
    let spoiled = doc! { "$set": { "floor": "much" } };
    harness::odd::edit(&world.store.accounts(), "alice", spoiled).await;
    set(&world, "alice", "-1000").await.expect_success();
    assert_eq!(account(&world, "alice").await.get("floor"), Some(&Bson::Int64(-1_000)));
    let shown = world.producer(&["accounts", "show", "alice", "--json"]).await.json();
    assert_eq!(shown["floorChange"]["from"], "much", "{shown}");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_floor_that_makes_no_sense_or_an_account_that_can_not_have_it_is_named() {
    let world = World::new().await;
    world.accounts(&[("alice", 0), ("gone", 0)]).await;
    let euros = ["accounts", "create", "euros", "--balance", "5", "--currency", "EUR"];
    world.producer(&euros).await.expect_success();
    world.producer(&["accounts", "close", "gone"]).await.expect_success();
    let set_floor = ["accounts", "set-floor"];
    for (arguments, code, expected) in [
        (&["gone", "-5"][..], 1, "gone: is closed, for good"),
        (&["Alice", "-5"], 1, "Alice: no such account"),
        (&["alice ", "-5"], 1, "\"alice\""),
        (&["euros", "-5", "--currency", "CHF"], 1, "euros: has EUR, and not CHF"),
        (&["alice", "-5", "--currency", "EUR"], 1, "alice: has no currency, and not EUR"),
        (&["alice", "much"], 2, "floor: \"much\" is not a number"),
        (&["alice", "-0.5"], 2, "floor: -0.5 has a decimal point"),
        (&["euros", "-1.50", "--currency", "EUR"], 2, "write -150 for -1.50 EUR"),
        (&["alice", "-1000000000000000001"], 2, "too large"),
        (&["alice", "-5", "--reason", " "], 2, "says nothing"),
    ] {
        let answer = world.producer(&[&set_floor[..], arguments].concat()).await;
        assert_eq!(answer.code, Some(code), "{arguments:?}: {answer:?}");
        assert!(answer.stderr.contains(expected), "{expected} is not told: {answer:?}");
    }
    let least = set(&world, "alice", "-1000000000000000000").await.expect_success();
    assert_eq!(least.stdout, "alice: floor -1000000000000000000\n");
    // A frozen account takes no postings, and may be prepared for the time after.
    world.producer(&["accounts", "freeze", "alice"]).await.expect_success();
    set(&world, "alice", "-7").await.expect_success();
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn where_amounts_are_decimals_a_floor_is_one_and_has_the_places_of_its_currency() {
    let world = world_of_decimals().await;
    let alice = ["accounts", "create", "alice", "--balance", "12.5", "--currency", "EUR"];
    world.producer(&alice).await.expect_success();
    let set = async |floor: &str| set(&world, "alice", floor).await;
    assert_refused(&set("12.51").await, &["its balance is 12.5", "takes now is 12.5"]);
    for floor in ["12.5", "-20", "0"] {
        set(floor).await.expect_success();
        let written = account(&world, "alice").await;
        assert!(matches!(written.get("floor"), Some(Bson::Decimal128(_))), "{floor}: {written}");
    }
    let fine = set("-0.005").await;
    assert_eq!(fine.code, Some(2), "{fine:?}");
    assert!(fine.stderr.contains("than EUR has (2)"), "{fine:?}");
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn no_account_is_below_its_floor_while_floors_go_up_and_down_and_transfers_run() {
    for engine in ENGINES {
        let world = World::new().await;
        world.accounts(&[("busy", 400), ("sink", 400)]).await;
        let workers = tokio::join!(
            world.worker("one").flag("--engine", engine).flag("--batch-size", 4).start(),
            world.worker("two").flag("--engine", engine).flag("--batch-size", 3).start(),
        );
        let transfers: Vec<_> = (0..240)
            .map(|n| {
                let (from, to) = if n % 3 == 0 { ("sink", "busy") } else { ("busy", "sink") };
                transfer(&format!("t{n}"), from, to, 5)
            })
            .collect();
        world.submit(&transfers, 4).await;
        let client = world.client().await;
        let below = doc! { "floor": { "$ne": null }, "$expr": { "$lt": ["$balance", "$floor"] } };
        let (mut taken, mut refused, mut floor) = (0_u32, 0_u32, 0_i64);
        wait_until("every transaction is final", s(120), async || {
            // Up in steps that are refused before long, and then down again.
            floor = if refused > taken { -200 } else { floor + 60 };
            let wanted = NewFloor { floor: Some(Amount::Int(floor)), ..NewFloor::default() };
            match client.set_floor("busy", &wanted).await {
                Ok(_) => taken += 1,
                Err(Error::Refused { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            let accounts = world.store.accounts();
            let fallen = accounts.find_one(below.clone()).await.expect("MongoDB is there");
            assert!(fallen.is_none(), "{engine}: below its floor: {fallen:?}");
            world.count(&State::UNFINISHED).await == 0
        })
        .await;
        assert!(taken > 0, "{engine}: no floor was taken, {refused} were refused");
        // Whatever is left, the highest floor is the balance.
        let balance = world.balance("busy").await;
        let wanted = NewFloor { floor: Some(balance), ..NewFloor::default() };
        client.set_floor("busy", &wanted).await.expect("nothing is in flight");
        let above = balance.checked_add(Amount::Int(1));
        let above = client.set_floor("busy", &NewFloor { floor: above, ..wanted }).await;
        assert!(matches!(above, Err(Error::Refused { .. })), "{above:?}");
        world.assert_at_rest().await;
        drop(workers);
        world.finish().await;
    }
}

/// The worker has looked at the account, and its post comes after the new floor.
#[tokio::test]
async fn a_post_that_arrives_after_a_new_floor_meets_it() {
    for engine in ENGINES {
        let world = World::new().await;
        world.accounts(&[("alice", 100), ("shop", 0)]).await;
        let (proxy, uri) = world.mongodb_proxy().await;
        let operation = if engine == "transaction" { "transact accounts" } else { "post" };
        let held = proxy.hold(operation, 1, Part::Request);
        let worker = world.worker("one").mongodb(&uri).flag("--engine", engine).start().await;
        world.submit(&[transfer("t", "alice", "shop", 60)], 1).await;
        held.caught(s(60)).await;
        set(&world, "alice", "50").await.expect_success();
        held.release();
        world.wait_state("t", State::Canceled, s(60)).await;
        assert_eq!(world.reason("t").await.as_deref(), Some("insufficient_funds"), "{engine}");
        world.assert_at_rest().await;
        drop(worker);
        world.finish().await;
    }
}

#[tokio::test]
async fn in_documents_of_others_the_floor_is_changed_where_they_keep_it() {
    let world = world_of(SCHEMA).await;
    let (id, locked) = (ObjectId::new(), ObjectId::new());
    let users = [user(id, 100, "active"), user(locked, 0, "locked")];
    collection(&world, "user").insert_many(users).await.expect("MongoDB is there");
    let of = |id: ObjectId| doc! { "_id": id };
    let name = id.to_hex();
    let answer = set(&world, &name, "100").await.expect_success();
    assert_eq!(answer.stdout, format!("{name}: floor 100\n"));
    let stored = one(&world, "user", of(id)).await;
    let own = stored.get_document("tandem").expect("Tandem's own");
    assert_eq!(own.get("floor"), Some(&Bson::Int64(100)), "{stored}");
    assert_eq!(own.get_document("floorChange").expect("kept").get("from"), Some(&Bson::Int64(0)));
    assert_eq!(stored.get_str("floor").ok(), Some("mine, too"), "fields of others stay");
    let untouched = doc! { "score": 100, "color": "red" };
    assert_eq!(stored.get_document("wallet").ok(), Some(&untouched), "{stored}");
    assert_refused(&set(&world, &name, "101").await, &["its balance is 100", "now is 100"]);
    let again = set(&world, &name, "100").await.expect_success();
    assert!(again.stdout.ends_with("as it was already\n"), "{again:?}");
    set(&world, &locked.to_hex(), "none").await.expect_success();
    let stored = one(&world, "user", of(locked)).await;
    let own = stored.get_document("tandem").expect("Tandem's own");
    assert_eq!(own.get("floor"), Some(&Bson::Null), "{stored}");
    assert_eq!(set(&world, &ObjectId::new().to_hex(), "5").await.code, Some(1));
    // Where something else than an object is on the way, nothing is overwritten.
    let odd = ObjectId::new();
    let in_the_way = doc! { "_id": odd, "wallet": { "score": 7 }, "tandem": "theirs" };
    harness::odd::insert(&collection(&world, "user"), std::slice::from_ref(&in_the_way)).await;
    let refused = set(&world, &odd.to_hex(), "5").await;
    assert_refused(&refused, &["tandem"]);
    assert_eq!(one(&world, "user", of(odd)).await, in_the_way);
    world.finish().await;
}

#[tokio::test]
async fn a_floor_whose_answer_is_lost_is_told_as_unknown_and_the_same_command_says_how_it_is() {
    let world = World::new().await;
    world.accounts(&[("alice", 100)]).await;
    let (database, uri) = world.mongodb_proxy().await;
    let held = database.hold("floor", 1, Part::Reply);
    let mut env = world.env();
    env.insert("TANDEM_MONGODB_URI".to_owned(), uri);
    env.insert("TANDEM_GIVE_UP_AFTER".to_owned(), "0".to_owned());
    let command = ["accounts", "set-floor", "alice", "40"];
    let (answer, ()) = tokio::join!(harness::producer::run(&env, &command), async {
        held.caught(s(60)).await;
        database.refuse();
        held.discard();
    });
    assert_eq!(answer.code, Some(5), "{answer:?}");
    for expected in ["perhaps", "run the same command again", "producer accounts show alice"] {
        assert!(answer.stderr.contains(expected), "{answer:?}");
    }
    // It has arrived: nobody was told that it was refused.
    let again = world.producer(&command).await.expect_success();
    assert_eq!(again.stdout, "alice: floor 40, as it was already\n");
    world.finish().await;
}

#[tokio::test]
async fn a_refusal_while_an_earlier_attempt_is_open_is_told_as_unknown() {
    let failing = FailingMongo::start("floors").await;
    let world = World::on(failing.servers()).await;
    world.accounts(&[("alice", 10)]).await;
    let client = world.client().await;
    let wanted = NewFloor { floor: Some(Amount::Int(11)), ..NewFloor::default() };
    let interrupted = Failure::Error { code: 11_601, labels: None };
    failing.fail(&Plan { times: Times::First(1), ..Plan::once("update", interrupted) }).await;
    let told = client.set_floor("alice", &wanted).await.expect_err("10 is below 11");
    failing.heal().await;
    assert!(matches!(told, Error::Unavailable { effect: Effect::Unknown, .. }), "{told:?}");
    let told = client.set_floor("alice", &wanted).await.expect_err("10 is below 11");
    assert!(matches!(told, Error::Refused { .. }), "{told:?}");
    world.finish().await;
}

#[tokio::test]
async fn a_floor_is_set_by_http_and_from_the_page_of_the_account() {
    let world = World::new().await;
    with_a_hold(&world).await;
    let api = world.api(&[]).await;
    let path = "/v1/accounts/alice/floor";
    let wanted = json!({ "floor": -50, "reason": "credit line" });
    let first = api.post(path, &wanted).await.expect(200);
    assert_eq!(first.header("Idempotent-Replayed"), None);
    let account = first.json();
    assert_eq!((&account["floor"], &account["available"]), (&json!("-50"), &json!("120")));
    let change = &account["floorChange"];
    assert_eq!((&change["from"], &change["reason"]), (&json!("0"), &json!("credit line")));
    let again = api.post(path, &wanted).await.expect(200);
    assert_eq!(again.header("Idempotent-Replayed"), Some("true"));
    assert_eq!(again.json(), account, "nothing is written twice");
    let none = api.post(path, &json!({ "floor": "none" })).await.expect(200).json();
    assert_eq!((none.get("floor"), none.get("available")), (None, None), "{none}");

    let high = api.post(path, &json!({ "floor": "71" })).await.expect(409).json();
    assert_eq!(high["type"], "urn:tandem:problem:refused");
    let told = high["detail"].as_str().expect("a sentence");
    assert!(told.contains("debits of 30") && told.ends_with("takes now is 70"), "{told}");
    for (body, pointer) in [
        (json!({}), "#/floor"),
        (json!({ "floor": "much" }), "#/floor"),
        (json!({ "floor": 1.5 }), "#/floor"),
        (json!({ "floor": 1, "balance": 1 }), "#/balance"),
        (json!({ "floor": 1, "reason": " " }), "#/reason"),
    ] {
        let problem = api.post(path, &body).await.expect(422).json();
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    let typo = api.post("/v1/accounts/alice%20/floor", &json!({ "floor": 1 })).await.expect(404);
    assert!(typo.json()["detail"].as_str().is_some_and(|told| told.contains("\"alice\"")));

    let page = api.get("/console/account?id=alice").await.expect(200).body;
    assert!(page.contains("act=set-floor&amp;id=alice"), "{page}");
    let asked = api.get("/console/confirm?act=set-floor&id=alice").await.expect(200).body;
    assert!(
        asked.contains("name=\"floor\" required") && asked.contains("value=\"none\""),
        "{asked}"
    );
    let form = async |floor: &str, reason: &str| {
        let body = format!("act=set-floor&id=alice&floor={floor}&reason={reason}");
        let kind = [("Content-Type", "application/x-www-form-urlencoded")];
        api.send("POST", "/console/act", &kind, &body).await
    };
    form("71", "too+much").await.expect(409);
    form("", "nothing").await.expect(422);
    form("70", "").await.expect(422);
    let done = form("70", "a+reserve").await.expect(200).body;
    assert!(done.contains("alice floor 70"), "{done}");
    let page = api.get("/console/account?id=alice").await.expect(200).body;
    assert!(page.contains("from none") && page.contains("a reserve"), "{page}");
    let is_line = |line: &&str| line.contains("a reserve") && line.contains("set-floor");
    wait_until("it is logged", s(30), async || api.log().lines().any(|line| is_line(&line))).await;
    assert_eq!(world.balance("alice").await, Amount::Int(70));
    world.finish().await;
}
