//! `producer adopt`: openings, repairs and dates, each by one guarded update.

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use harness::odd::insert_raw;
use harness::wait::{s, wait_until};
use harness::world::World;
use mongo::{MongoOutbox, Place};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::raw::cstr;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc, rawdoc};
use serde_json::{Value, json};

use super::{adopt, everything, fill, openings, user};
use crate::layouts::{SCHEMA, collection, one, world_of};
use crate::schemas::{empty_world, schema_file};

/// The documents of a collection, as bytes, by their `_id`s.
pub(super) async fn bytes_of(world: &World, name: &str) -> BTreeMap<String, Vec<u8>> {
    let found = collection(world, name).find(doc! {}).await.expect("MongoDB is there");
    let found = found.with_type::<RawDocumentBuf>().try_collect::<Vec<_>>().await;
    let found = found.expect("MongoDB is there");
    let id = |found: &RawDocumentBuf| format!("{:?}", found.get("_id").expect("BSON"));
    found.into_iter().map(|found| (id(&found), found.into_bytes())).collect()
}

/// The reasons why documents are left, with their counts.
fn left(counts: &Value) -> BTreeMap<String, u64> {
    let reasons = counts["reasons"].as_array().expect("a list").iter();
    let reason = |reason: &Value| {
        let code = reason["code"].as_str().expect("a code").to_owned();
        (code, reason["count"].as_u64().expect("a count"))
    };
    reasons.map(reason).collect()
}

fn expected(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    counts.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect()
}

async fn odd_users(world: &World) {
    let decimal = Bson::Decimal128("12.50".parse().expect("a decimal"));
    let mut users = vec![
        user(1, 5),
        user(2, 5.0),
        user(3, 5_i64),
        user(4, "12"),
        user(5, decimal),
        doc! { "_id": ObjectId::from_bytes([6; 12]), "state": "active" },
        user(7, Bson::Null),
    ];
    users.extend([user(11, 5.5), user(12, vec![5]), user(13, "much"), user(14, 0), user(15, 0)]);
    users[10].insert("state", "asleep");
    users[11].insert("wallet", doc! { "score": 5, "open": [1_i64] });
    users.push(doc! { "_id": ObjectId::from_bytes([16; 12]), "wallet": 5 });
    users.push(doc! { "_id": "a", "wallet": { "score": 5 } });
    users.push(user(17, 5));
    users[14].insert("tandem", "a word of theirs");
    fill(world, "user", users).await;
    let mut twice = rawdoc! { "_id": ObjectId::from_bytes([18; 12]), "note": 1 };
    twice.append(cstr!("wallet"), rawdoc! { "score": 5 });
    twice.append(cstr!("note"), 2);
    insert_raw(&collection(world, "user"), &twice).await;
}

#[tokio::test]
async fn what_is_known_is_written_what_is_not_is_named_and_a_second_run_changes_nothing() {
    let world = world_of(SCHEMA).await;
    odd_users(&world).await;
    let before = bytes_of(&world, "user").await;
    let answer = adopt(&world, &["--json"]).await;
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    let report = answer.json();
    let accounts = &report["accounts"];
    let counts = ["read", "written", "done_before", "left"].map(|name| accounts[name].as_u64());
    assert_eq!(counts, [16, 7, 0, 9].map(Some), "{report}");
    assert_eq!(accounts["repaired"], json!({ "numeric_text": 1 }));
    let reasons = [
        ("fraction", 1),
        ("list_as_number", 1),
        ("no_number", 1),
        ("unknown_status", 1),
        ("marks_unclaimed", 1),
        ("scalar_on_the_way", 2),
        ("id_of_another_kind", 1),
        ("field_twice", 1),
    ];
    assert_eq!(left(accounts), expected(&reasons), "{report}");
    for (at, balance) in [(1, 5_i64), (2, 5), (3, 5), (4, 12), (6, 0), (7, 0)] {
        let user = one(&world, "user", doc! { "_id": ObjectId::from_bytes([at; 12]) }).await;
        let wallet = user.get_document("wallet").expect("an object");
        let own = user.get_document("tandem").expect("an object");
        assert_eq!(wallet.get_i64("score").ok(), Some(balance), "{user}");
        assert_eq!(own, &doc! { "openingBalance": balance }, "{user}");
    }
    let user = one(&world, "user", doc! { "_id": ObjectId::from_bytes([5; 12]) }).await;
    let opening = user.get_document("tandem").expect("an object").get("openingBalance");
    assert_eq!(opening.map(ToString::to_string).as_deref(), Some("12.50"), "{user}");
    let after = bytes_of(&world, "user").await;
    let same = before.iter().filter(|(id, bytes)| after.get(*id) == Some(*bytes)).count();
    assert_eq!(same, 9, "what is left is as it was");

    let all = everything(&world).await;
    let again = adopt(&world, &["--json"]).await.json();
    let counts = ["written", "done_before", "left"].map(|name| again["accounts"][name].as_u64());
    assert_eq!(counts, [0, 7, 9].map(Some), "{again}");
    assert_eq!(everything(&world).await, all);
    let told = adopt(&world, &[]).await;
    assert_eq!(told.code, Some(1), "{}", told.stderr);
    assert!(told.stdout.contains("0 adopted, 7 were so before, 9 left"), "{}", told.stdout);
    assert!(told.stdout.contains("field_twice"), "{}", told.stdout);
    world.finish().await;
}

fn payment(id: impl Into<Bson>, status: &str) -> Document {
    let (from, to) = (ObjectId::from_bytes([1; 12]), ObjectId::from_bytes([2; 12]));
    doc! { "_id": id.into(), "from": from, "to": to, "score": 5, "status": status }
}

#[tokio::test]
async fn what_others_had_ended_is_dated_and_the_look_at_what_has_no_date_passes_over_it() {
    let world = world_of(SCHEMA).await;
    let modified = DateTime::from_millis(1_600_000_000_000);
    let mut payments: Vec<Document> = (1..=5).map(|id| payment(id, "done")).collect();
    payments[0].insert("lastModified", modified);
    payments[1].insert("lastModified", "today");
    payments.push(payment(ObjectId::from_bytes([0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "canceled"));
    payments.push(payment(7, "committed"));
    payments.push(payment(8, "initial"));
    payments.push(doc! { "_id": 9, "note": "no transaction" });
    fill(&world, "transaction", payments).await;
    let mut twice = rawdoc! { "_id": 10, "note": 1, "status": "done" };
    twice.append(cstr!("note"), 2);
    insert_raw(&collection(&world, "transaction"), &twice).await;
    // What has no date stands before all dates in the index. Three of these have no end.
    let outbox = MongoOutbox::new(world.store.clone());
    let more_than = async |count| {
        let undated = outbox.piece(&Place::first(), &Place::before(i64::MIN), count).await;
        undated.expect("MongoDB is there").next.is_some()
    };
    assert!(more_than(9).await && !more_than(10).await);
    let before = bytes_of(&world, "transaction").await;
    let answer = adopt(&world, &["--json"]).await;
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    let report = answer.json();
    let dated = &report["transactions"];
    let counts = ["read", "written", "done_before", "left"].map(|name| dated[name].as_u64());
    assert_eq!(counts, [10, 7, 2, 1].map(Some), "{report}");
    assert_eq!(left(dated), expected(&[("in_flight_unclaimed", 1)]), "{report}");
    assert_eq!(dated["reasons"][0]["samples"][0]["id"], "7", "{report}");
    assert!(more_than(2).await && !more_than(3).await);
    for (id, ms) in [(1, modified.timestamp_millis()), (2, 0), (10, 0)] {
        let payment = one(&world, "transaction", doc! { "_id": id, "status": "done" }).await;
        let own = doc! { "createdAt": DateTime::from_millis(ms), "endedByOthers": true };
        assert_eq!(payment.get_document("tandem").ok(), Some(&own), "{payment}");
    }
    let after = bytes_of(&world, "transaction").await;
    let same = before.iter().filter(|(id, bytes)| after.get(*id) == Some(*bytes)).count();
    assert_eq!(same, 3);
    let all = everything(&world).await;
    let again = adopt(&world, &["--json"]).await.json();
    assert_eq!(again["transactions"]["written"], 0, "{again}");
    assert_eq!(everything(&world).await, all);
    // An audit takes none of them for one of Tandem's, and counts keep them apart.
    let ended =
        collection(&world, "transaction").delete_many(doc! { "_id": { "$in": [7, 8] } }).await;
    assert_eq!(ended.expect("MongoDB is there").deleted_count, 2);
    let audit = world.producer(&["audit", "--json"]).await.json();
    assert_eq!(audit["violations"], json!([]), "{audit}");
    let stats = world.producer(&["stats", "--json"]).await.expect_success().json();
    assert_eq!(stats["endedByOthers"]["done"], 6, "{stats}");
    world.finish().await;
}

#[tokio::test]
async fn numbers_are_never_scaled_twice_however_often_it_is_killed() {
    const COUNT: u32 = 900;
    let world = world_of(SCHEMA).await;
    let score = |at: u32| match at % 3 {
        0 => Bson::from(at),
        1 => Bson::from(f64::from(at) + 0.25),
        _ => Bson::from(format!("{at}.5")),
    };
    let cents = |at: u32| i64::from(at) * 100 + [0, 25, 50][(at % 3) as usize];
    let users = (0..COUNT)
        .map(|at| doc! { "_id": ObjectId::new(), "wallet": { "score": score(at) }, "n": at });
    fill(&world, "user", users.collect()).await;
    for killed in 1..=3_u64 {
        let flags = ["adopt", "--watch", "0", "--places", "2", "--piece", "50", "--rate", "100"];
        let mut adopting = world.spawn_producer(&flags, &[]);
        let enough = killed * 100;
        wait_until("some are adopted", s(30), async || openings(&world).await >= enough).await;
        adopting.kill();
    }
    let opened = openings(&world).await;
    assert!(
        (300..u64::from(COUNT)).contains(&opened),
        "{opened} when it was killed for the last time"
    );
    let report = adopt(&world, &["--places", "2", "--json"]).await.expect_success().json();
    let accounts = &report["accounts"];
    let sum = ["written", "done_before"].map(|name| accounts[name].as_u64().expect("a count"));
    assert_eq!(sum.iter().sum::<u64>(), u64::from(COUNT), "{report}");
    // The server may still have been busy with a command of the one that was killed.
    assert!(sum[1] >= opened, "{opened} when it was killed for the last time: {report}");
    let again = adopt(&world, &["--places", "2", "--json"]).await.expect_success().json();
    assert_eq!(again["accounts"]["written"], 0, "{again}");
    for at in 0..COUNT {
        let user = one(&world, "user", doc! { "n": at }).await;
        let wallet = user.get_document("wallet").expect("an object");
        assert_eq!(wallet.get_i64("score").ok(), Some(cents(at)), "{user}");
        let opening = user.get_document("tandem").and_then(|own| own.get_i64("openingBalance"));
        assert_eq!(opening.ok(), Some(cents(at)), "{user}");
    }
    let look = super::look(&world, &["--places", "2", "--json"]).await.json();
    assert_eq!(
        look["accounts"]["fits"], COUNT,
        "a look reads none of them as larger units: {look}"
    );
    world.finish().await;
}

#[tokio::test]
async fn what_would_be_rounded_is_left_unless_that_is_asked_for() {
    let world = world_of(SCHEMA).await;
    fill(&world, "user", vec![user(1, 12.345), user(2, 12.5)]).await;
    let report = adopt(&world, &["--places", "2", "--json"]).await.json();
    assert_eq!(left(&report["accounts"]), expected(&[("fraction_rounds", 1)]), "{report}");
    let report = adopt(&world, &["--places", "2", "--round", "--json"]).await;
    let report = report.expect_success().json();
    assert_eq!(report["accounts"]["repaired"], json!({ "fraction_rounds": 1 }), "{report}");
    let rounded = one(&world, "user", doc! { "wallet.score": 1_234_i64 }).await;
    assert_eq!(rounded.get_object_id("_id").ok(), Some(ObjectId::from_bytes([1; 12])));
    world.finish().await;
}

#[tokio::test]
async fn it_needs_a_ledger_that_is_set_up_with_a_schema() {
    let world = empty_world().await;
    fill(&world, "user", vec![user(1, 5)]).await;
    let before = everything(&world).await;
    let refused = adopt(&world, &[]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("producer init --schema FILE"), "{}", refused.stderr);
    assert_eq!(everything(&world).await, before);
    let file = schema_file(&world, SCHEMA);
    world.producer(&["init", "--schema", &file]).await.expect_success();
    adopt(&world, &[]).await.expect_success();
    assert_eq!(openings(&world).await, 1);
    world.finish().await;

    let world = World::new().await;
    for flags in [&[][..], &["--undo", "--yes"]] {
        let refused = adopt(&world, flags).await;
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        assert!(refused.stderr.contains("this ledger has no schema"), "{}", refused.stderr);
    }
    world.finish().await;
}

#[tokio::test]
async fn a_validator_that_refuses_what_is_written_is_told_with_the_document() {
    let world = world_of(SCHEMA).await;
    fill(&world, "user", vec![user(1, 5), user(2, 5)]).await;
    let refused = doc! { "$or": [
        { "tandem.openingBalance": null }, { "_id": { "$ne": ObjectId::from_bytes([1; 12]) } },
    ] };
    let refusing = doc! { "collMod": "user", "validator": refused };
    world.store.database().run_command(refusing).await.expect("MongoDB is there");
    let report = adopt(&world, &["--json"]).await.json();
    let accounts = &report["accounts"];
    assert_eq!((&accounts["written"], &accounts["left"]), (&json!(1), &json!(1)), "{report}");
    assert_eq!(left(accounts), expected(&[("refused", 1)]), "{report}");
    let id = ObjectId::from_bytes([1; 12]).to_hex();
    assert_eq!(accounts["reasons"][0]["samples"][0]["id"], id, "{report}");
    world.finish().await;
}
