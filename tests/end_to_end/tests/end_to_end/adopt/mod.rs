//! `producer adopt`: what fits of a collection that was there before Tandem, and making it fit.

mod beside;
mod finished;
mod moves;
mod node;
mod pieces;
mod undone;
mod writing;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use futures_util::TryStreamExt;
use harness::odd::insert_raw;
use harness::producer::Answer;
use harness::world::World;
use mongodb::IndexModel;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::raw::cstr;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use mongodb::options::IndexOptions;
use serde_json::Value;

use crate::layouts::{SCHEMA, collection};
use crate::schemas::{empty_world, schema_file};

pub(super) async fn fill(world: &World, name: &str, documents: Vec<Document>) {
    collection(world, name).insert_many(documents).await.expect("MongoDB is there");
}

/// Looks, with more flags, and without watching unless they say so.
async fn look(world: &World, flags: &[&str]) -> Answer {
    let watched = flags.contains(&"--watch");
    let mut arguments = vec!["adopt", "--dry-run"];
    arguments.extend(if watched { &[][..] } else { &["--watch", "0"] });
    arguments.extend(flags);
    world.producer(&arguments).await
}

/// What an account holds, by whatever type of number.
fn score_of(user: &Document) -> i64 {
    match user.get_document("wallet").ok().and_then(|wallet| wallet.get("score")) {
        Some(Bson::Int64(score)) => *score,
        Some(Bson::Int32(score)) => i64::from(*score),
        Some(Bson::Double(score)) => *score as i64,
        other => panic!("{user} holds {other:?}"),
    }
}

/// The counts of all classes, by their codes.
fn counts(documents: &Value) -> Vec<(String, u64)> {
    let classes = documents["classes"].as_array().expect("a list");
    let count = |class: &Value| {
        let code = class["code"].as_str().expect("a code").to_owned();
        (code, class["count"].as_u64().expect("a count"))
    };
    classes.iter().map(count).collect()
}

fn expected(counts: &[(&str, u64)]) -> Vec<(String, u64)> {
    counts.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect()
}

/// Documents may be megabytes, and a failure shows them.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Everything that is in the database: collections, their options, indexes and documents; but for
/// the list of acts, in which each attempt stands.
async fn everything(world: &World) -> Vec<String> {
    let database = world.store.database();
    let listed = database.list_collections().await.expect("MongoDB is there");
    let mut all = Vec::new();
    for found in listed.try_collect::<Vec<_>>().await.expect("MongoDB is there") {
        if found.name == mongo::ACTS {
            continue;
        }
        let collection = collection(world, &found.name);
        let indexes = collection.list_indexes().await.expect("MongoDB is there");
        let indexes: Vec<_> = indexes.try_collect().await.expect("MongoDB is there");
        let documents = collection.find(doc! {}).await.expect("MongoDB is there");
        let documents = documents.with_type::<RawDocumentBuf>();
        let documents: Vec<_> = documents.try_collect().await.expect("MongoDB is there");
        let documents: Vec<_> = documents.iter().map(|found| digest(found.as_bytes())).collect();
        all.push(format!("{} {:?} {indexes:?} {documents:?}", found.name, found.options));
    }
    all.sort();
    all
}

/// Accounts as an application of its own stores them.
fn odd_accounts() -> Vec<Document> {
    vec![
        doc! { "_id": "whole", "balance": 5 },
        doc! { "_id": "none" },
        doc! { "_id": "exact", "balance": 12.5 },
        doc! { "_id": "rounds", "balance": 12.345 },
        doc! { "_id": "text", "balance": "12" },
        doc! { "_id": "list", "balance": [1, 2] },
        doc! { "_id": "large", "balance": 1e17 },
        doc! { "_id": "negative", "balance": -5.5 },
        doc! { "_id": "asleep", "balance": 0, "status": "asleep" },
        doc! { "_id": 7, "balance": 0 },
        doc! { "_id": ObjectId::new(), "balance": 0 },
        doc! { "_id": "heavy", "balance": 0, "photo": "x".repeat(15 << 20) },
    ]
}

fn odd_transactions() -> Vec<Document> {
    let transfer = |id: &str, state: &str| {
        doc! { "_id": id, "source": "a", "destination": "b", "value": 5, "state": state }
    };
    vec![
        transfer("t1", "initial"),
        transfer("t2", "pending"),
        transfer("t3", "applied"),
        transfer("t4", "done"),
        transfer("t5", "finished"),
    ]
}

#[tokio::test]
async fn a_look_names_what_fits_what_to_repair_and_what_cannot_and_writes_nothing() {
    let world = empty_world().await;
    fill(&world, "accounts", odd_accounts()).await;
    let mut twice = rawdoc! { "_id": "twice", "note": 1, "balance": 0 };
    twice.append(cstr!("note"), 2);
    insert_raw(&collection(&world, "accounts"), &twice).await;
    fill(&world, "transactions", odd_transactions()).await;
    let before = everything(&world).await;
    let answer = look(&world, &["--json", "--places", "2"]).await;
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    let report = answer.json();
    let accounts = &report["accounts"];
    assert_eq!(
        counts(accounts),
        expected(&[
            ("balance_missing", 1),
            ("fraction_exact", 2),
            ("fraction_rounds", 1),
            ("major_units", 1),
            ("numeric_text", 1),
            ("below_floor", 1),
            ("unknown_status", 1),
            ("field_twice", 1),
            ("list_as_number", 1),
            ("double_too_large", 1),
            ("id_of_another_kind", 2),
            ("large", 1),
        ])
    );
    let sums = ["read", "fits", "needs_repair", "cannot"].map(|name| accounts[name].as_u64());
    assert_eq!(sums, [13, 1, 7, 5].map(Some));
    let rounds = &accounts["classes"][2]["samples"][0];
    assert_eq!(rounds["id"], "rounds");
    assert_eq!(rounds["becomes"], "NumberLong(\"1234\")");
    assert_eq!(
        counts(&report["transactions"]),
        expected(&[
            ("waiting", 1),
            ("ended", 1),
            ("major_units", 1),
            ("unknown_state", 1),
            ("in_flight_unclaimed", 2),
        ])
    );
    let told = look(&world, &["--places", "2"]).await;
    assert!(told.stdout.contains("needs repair fraction_rounds"), "{}", told.stdout);
    assert!(told.stdout.contains("would become NumberLong(\"1234\")"), "{}", told.stdout);
    assert_eq!(everything(&world).await, before);
    world.finish().await;
}

#[tokio::test]
async fn numbers_without_a_unit_are_noted_and_what_fits_ends_with_zero() {
    let world = empty_world().await;
    fill(&world, "accounts", vec![doc! { "_id": "a", "balance": 5 }]).await;
    look(&world, &[]).await.expect_success();
    fill(&world, "accounts", vec![doc! { "_id": "b", "balance": 5.5 }]).await;
    let report = look(&world, &["--json"]).await.json();
    assert_eq!(counts(&report["accounts"]), expected(&[("fraction", 1)]));
    let note = report["notes"][0].as_str().expect("a note");
    assert!(note.contains("--places"), "{note}");
    world.finish().await;
}

/// Adopts or goes back, with more flags, and without watching unless they say so.
pub(super) async fn adopt(world: &World, flags: &[&str]) -> Answer {
    let watched = flags.contains(&"--watch");
    let mut arguments = vec!["adopt"];
    arguments.extend(if watched { &[][..] } else { &["--watch", "0"] });
    arguments.extend(flags);
    world.producer(&arguments).await
}

/// How many users have an opening.
pub(super) async fn openings(world: &World) -> u64 {
    let opened = doc! { "tandem.openingBalance": { "$exists": true } };
    collection(world, "user").count_documents(opened).await.expect("MongoDB is there")
}

/// A user of [`SCHEMA`], with this score.
pub(super) fn user(at: u8, score: impl Into<Bson>) -> Document {
    doc! { "_id": ObjectId::from_bytes([at; 12]), "wallet": { "score": score }, "state": "active" }
}

#[tokio::test]
async fn a_schema_says_where_to_look_before_and_after_the_ledger_is_set_up() {
    let world = empty_world().await;
    let mut users = vec![user(1, 5), user(2, 5.5), user(3, "5"), user(4, 0)];
    users[3].insert("state", "open");
    users.push(doc! { "_id": ObjectId::from_bytes([5; 12]), "wallet": 5 });
    users.push(doc! { "_id": "a", "wallet": { "score": 5 } });
    fill(&world, "user", users).await;
    let payment = |id: i64, word: &str| doc! { "_id": id, "from": 1, "score": 5, "status": word };
    fill(&world, "transaction", vec![payment(1, "committed"), payment(2, "done")]).await;
    let file = schema_file(&world, SCHEMA);
    let before = everything(&world).await;
    let classes = expected(&[
        ("fraction", 1),
        ("numeric_text", 1),
        ("unknown_status", 1),
        ("scalar_on_the_way", 1),
        ("id_of_another_kind", 1),
    ]);
    let report = look(&world, &["--json", "--schema", &file]).await.json();
    assert_eq!(counts(&report["accounts"]), classes);
    assert_eq!(report["accounts"]["classes"][0]["samples"][0]["path"], "wallet.score");
    let in_flight = expected(&[("ended", 1), ("in_flight_unclaimed", 1)]);
    assert_eq!(counts(&report["transactions"]), in_flight);
    assert_eq!(everything(&world).await, before);

    world.producer(&["init", "--schema", &file]).await.expect_success();
    let report = look(&world, &["--json"]).await.json();
    assert_eq!(counts(&report["accounts"]), classes);
    let other = schema_file(&world, &SCHEMA.replace("wallet.score", "wallet.points"));
    let refused = look(&world, &["--schema", &other]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("set up with another schema"), "{}", refused.stderr);
    world.finish().await;
}

#[tokio::test]
async fn ids_that_two_accounts_have_are_counted_unless_an_index_keeps_them_unique() {
    let world = empty_world().await;
    let people = ["ann", "ann", "ann", "bob", "bob", "eve"];
    let people = people.map(|name| doc! { "name": name, "balance": 5 });
    let nameless = [doc! { "balance": 5 }, doc! { "balance": 5, "name": Bson::Null }];
    fill(&world, "accounts", people.into_iter().chain(nameless).collect()).await;
    let file = schema_file(&world, "[accounts]\nfields = { _id = \"name\" }");
    let answer = look(&world, &["--json", "--schema", &file]).await;
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    let keys = &answer.json()["keys"];
    assert_eq!((&keys["duplicates"], &keys["documents"]), (&2.into(), &5.into()), "{keys}");
    assert_eq!(keys["samples"], serde_json::json!(["ann", "bob"]));
    assert_eq!(keys["unique_index"], false);
    let accounts = collection(&world, "accounts");
    accounts.delete_many(doc! { "name": { "$in": ["ann", "bob", null] } }).await.expect("there");
    let unique = IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! { "name": 1 }).options(unique).build();
    accounts.create_index(index).await.expect("MongoDB is there");
    let report = look(&world, &["--json", "--schema", &file]).await.expect_success().json();
    assert_eq!(report["keys"]["unique_index"], true, "{report}");
    world.finish().await;
}

#[tokio::test]
async fn indexes_and_validators_that_would_hurt_or_cost_are_named() {
    let world = empty_world().await;
    let database = world.store.database();
    let create = doc! {
        "create": "accounts",
        "validator": { "$jsonSchema": {
            "additionalProperties": false,
            "properties": { "_id": {}, "balance": { "bsonType": ["int", "long"] } },
        } },
    };
    database.run_command(create).await.expect("MongoDB is there");
    let create = doc! {
        "create": "transactions",
        "validator": { "state": { "$in": ["initial", "pending", "applied", "done"] } },
    };
    database.run_command(create).await.expect("MongoDB is there");
    fill(&world, "accounts", vec![doc! { "_id": "a", "balance": 5 }]).await;
    fill(&world, "transactions", vec![odd_transactions()[0].clone()]).await;
    let expiring = IndexOptions::builder().expire_after(Duration::from_secs(86_400)).build();
    let transactions = collection(&world, "transactions");
    let expiring = IndexModel::builder().keys(doc! { "lastModified": 1 }).options(expiring).build();
    transactions.create_index(expiring).await.expect("MongoDB is there");
    let everything = IndexModel::builder().keys(doc! { "$**": 1 }).build();
    transactions.create_index(everything).await.expect("MongoDB is there");
    let report = look(&world, &["--json"]).await.json();
    let noted = report["indexes"].as_array().expect("a list").iter();
    let mut noted: Vec<_> =
        noted.map(|one| (one["kind"].as_str().unwrap_or_default(), &one["hurts"])).collect();
    noted.sort_by_key(|(kind, _)| *kind);
    let (yes, no) = (Value::from(true), Value::from(false));
    assert_eq!(noted, [("index_removes", &yes), ("index_slows", &no), ("index_slows", &no)]);
    let refuses = |at: usize| {
        let refuses = report["validators"][at]["refuses"].as_array().expect("a list").iter();
        refuses.filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(refuses(0), "the fields of a posting");
    assert_eq!(refuses(1), "the state \"canceling\", the state \"canceled\"");
    assert_eq!(report["validators"][0]["tried"], 1);
    world.finish().await;
}
