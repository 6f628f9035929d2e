//! Where other programs write balances, too: what they have moved is told apart from broken rules,
//! and booked once, with a reason.

use std::sync::atomic::{AtomicBool, Ordering};

use harness::producer::Answer;
use harness::proxy::Part;
use harness::wait::{ms, s, wait_until};
use harness::world::World;
use ledger::remedy::Remedy;
use mongo::JOURNAL;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use serde_json::{Value, json};

use crate::followed::{follow, follow_with};
use crate::layouts::{SCHEMA, collection, one, user, world_of};

const REASON: &str = "top-ups by the old shop";

async fn users(world: &World, count: u8) -> Vec<ObjectId> {
    let ids: Vec<ObjectId> = (1..=count).map(|n| ObjectId::from_bytes([n; 12])).collect();
    let users = ids.iter().map(|id| user(*id, 1_000, "active"));
    collection(world, "user").insert_many(users).await.expect("MongoDB is there");
    ids
}

/// Inserts payments in a ring, and waits until workers have ended them. Each user pays another
/// amount, so that no batch leaves a balance as it is: natively nothing would be written there.
async fn pay(world: &World, ids: &[ObjectId], payments: std::ops::Range<i32>) {
    let count = i32::try_from(ids.len()).expect("few");
    let of = |n: i32| ids[usize::try_from(n % count).expect("not negative")];
    let documents = payments.clone().map(|n| {
        doc! {
            "_id": n, "from": of(n), "to": of(n + 1), "score": n % count + 1, "status": "initial",
            "lastModified": DateTime::now(),
        }
    });
    collection(world, "transaction").insert_many(documents).await.expect("MongoDB is there");
    wait_until("all are done", s(60), async || {
        let done = doc! { "status": "done", "_id": { "$lt": payments.end } };
        let count = collection(world, "transaction").count_documents(done).await;
        count.expect("MongoDB is there") == u64::try_from(payments.end).expect("a count")
    })
    .await;
}

async fn worker(world: &World, engine: &str) -> harness::worker::Worker {
    let worker = world.worker("one").flag("--engine", engine).flag("--sweep-ms", 200);
    worker.flag("--orphan-ms", 500).start().await
}

/// What another program does.
async fn add(world: &World, id: ObjectId, amount: impl Into<Bson>) {
    let update = doc! { "$inc": { "wallet.score": amount.into() } };
    let updated = collection(world, "user").update_one(doc! { "_id": id }, update).await;
    assert_eq!(updated.expect("MongoDB is there").matched_count, 1);
}

async fn audit(world: &World) -> (Option<i32>, Value) {
    let answer = world.producer(&["audit", "--json"]).await;
    (answer.code, answer.json())
}

async fn absorb(world: &World, flags: &[&str]) -> Answer {
    let fixed = ["accounts", "absorb", "--reason", REASON, "--by", "ada", "--json"];
    world.producer(&[&fixed[..], flags].concat()).await
}

async fn lines(world: &World) -> u64 {
    collection(world, JOURNAL).count_documents(doc! {}).await.expect("MongoDB is there")
}

async fn adjustments(world: &World) -> u64 {
    let adjusted = doc! { "adjustment": { "$exists": true } };
    collection(world, JOURNAL).count_documents(adjusted).await.expect("MongoDB is there")
}

#[tokio::test]
async fn what_others_have_moved_is_told_apart_from_broken_rules_and_absorbed_with_its_reason() {
    for engine in ["two-phase", "transaction"] {
        let world = world_of(SCHEMA).await;
        let ids = users(&world, 3).await;
        let worker = worker(&world, engine).await;
        pay(&world, &ids, 0..30).await;
        assert_eq!(audit(&world).await.0, Some(0), "{engine}");
        add(&world, ids[0], 350.0).await;
        add(&world, ids[1], -7).await;
        let (code, report) = audit(&world).await;
        assert_eq!((code, &report["violations"]), (Some(1), &json!([])), "{engine}: {report}");
        let moved = &report["unexplained"];
        assert_eq!((&moved["accounts"], &moved["sums"][0]["amount"]), (&2.into(), &"343".into()));
        assert_eq!(moved["first"][1]["account"], ids[1].to_hex(), "{engine}: {report}");
        let others_write = world.producer(&["audit", "--others-write"]).await.expect_success();
        let said = "unexplained by Tandem: +343 on 2 accounts";
        assert!(others_write.stdout.contains(said), "{}", others_write.stdout);

        let before = (lines(&world).await, one(&world, "user", doc! { "_id": ids[0] }).await);
        let shown = absorb(&world, &["--dry-run"]).await.expect_success().json();
        assert_eq!(shown["left"]["accounts"], 2, "{engine}: {shown}");
        assert_eq!(absorb(&world, &[]).await.code, Some(2), "{engine}: nobody has agreed");
        assert_eq!(lines(&world).await, before.0, "{engine}: nothing was booked");
        let booked = absorb(&world, &["--yes"]).await.expect_success().json();
        assert_eq!(booked["booked"]["sums"][0]["amount"], "343", "{engine}: {booked}");
        assert_eq!(lines(&world).await, before.0 + 2, "{engine}");
        assert_eq!(one(&world, "user", doc! { "_id": ids[0] }).await, before.1, "{engine}");

        let (code, report) = audit(&world).await;
        assert_eq!((code, &report["unexplained"]["accounts"]), (Some(0), &0.into()), "{report}");
        let again = absorb(&world, &["--yes", &ids[0].to_hex()]).await.expect_success();
        assert_eq!(again.json()["booked"]["accounts"], 0, "{engine}: {}", again.stdout);
        assert!(again.stderr.contains("nothing is unexplained there"), "{}", again.stderr);
        let entry = adjustment_of(&world, ids[0]).await;
        assert_eq!(entry["adjustment"], json!({ "reason": REASON, "by": "ada" }), "{entry}");
        assert_eq!((&entry["amount"], &entry["balance"]), (&350.into(), &1_370.into()), "{entry}");
        let name = entry["id"].as_str().expect("a name");
        let status = world.producer(&["status", name, "--json"]).await.expect_success().json();
        assert_eq!(status["account"], ids[0].to_hex(), "{engine}: {status}");
        let listed = ["list", "--account", &ids[0].to_hex(), "--json"];
        let listed = world.producer(&listed).await.expect_success().stdout;
        assert_eq!((listed.lines().count(), listed.contains("adjust")), (20, false), "{listed}");

        // What was settled since is no difference, and what was moved since is.
        pay(&world, &ids, 30..60).await;
        add(&world, ids[0], 1_i64).await;
        let (_, report) = audit(&world).await;
        let moved = json!([{ "account": ids[0].to_hex(), "amount": "1" }]);
        assert_eq!(report["unexplained"]["first"], moved, "{engine}: {report}");
        let booked = absorb(&world, &["--yes", &ids[0].to_hex()]).await.expect_success().json();
        assert_eq!(booked["booked"]["first"], moved, "{engine}: {booked}");
        assert_eq!((audit(&world).await.0, adjustments(&world).await), (Some(0), 3), "{engine}");
        drop(worker);
        world.finish().await;
    }
}

/// The one adjustment on the statement of an account.
async fn adjustment_of(world: &World, id: ObjectId) -> Value {
    let statement = ["accounts", "statement", &id.to_hex(), "--limit", "1000", "--json"];
    let statement = world.producer(&statement).await.expect_success();
    let entries = statement.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let mut adjusted: Vec<Value> =
        entries.filter(|entry: &Value| entry.get("adjustment").is_some()).collect();
    assert_eq!(adjusted.len(), 1, "{}", statement.stdout);
    adjusted.remove(0)
}

#[tokio::test]
async fn a_difference_is_booked_once_by_two_at_once_and_when_the_reply_is_lost() {
    let world = world_of(SCHEMA).await;
    let ids = users(&world, 8).await;
    let settling = worker(&world, "two-phase").await;
    pay(&world, &ids, 0..20).await;
    drop(settling);
    for id in &ids {
        add(&world, *id, 5).await;
    }
    let (proxy, uri) = world.mongodb_proxy().await;
    let mut env = world.env();
    env.insert("TANDEM_MONGODB_URI".to_owned(), uri);
    let flags = ["accounts", "absorb", "--reason", REASON, "--by", "bob", "--yes", "--json"];
    let lost = proxy.hold("book adjustments", 1, Part::Reply);
    let losing = async {
        lost.caught(s(60)).await;
        // It has booked, and does not know it yet. Another one finds nothing more.
        let other = absorb(&world, &["--yes"]).await.expect_success().json();
        assert_eq!(other["booked"]["accounts"], 0, "{other}");
        lost.hang_up();
    };
    let (answer, ()) = tokio::join!(harness::producer::run(&env, &flags), losing);
    let report = answer.expect_success().json();
    assert_eq!(report["booked"]["accounts"], 8, "{report}");
    assert_eq!((adjustments(&world).await, audit(&world).await.0), (8, Some(0)));

    // Two that have seen the same differences.
    for id in &ids {
        add(&world, *id, 7).await;
    }
    let early = proxy.hold("book adjustments", 1, Part::Request);
    let overtaking = async {
        early.caught(s(60)).await;
        let other = absorb(&world, &["--yes"]).await.expect_success().json();
        assert_eq!(other["booked"]["accounts"], 8, "{other}");
        early.release();
    };
    let (answer, ()) = tokio::join!(harness::producer::run(&env, &flags), overtaking);
    let report = answer.json();
    assert_eq!((answer.code, &report["left"]["accounts"]), (Some(1), &8.into()), "{report}");
    assert_eq!((adjustments(&world).await, audit(&world).await.0), (16, Some(0)));
    world.finish().await;
}

#[tokio::test]
async fn nothing_is_absorbed_while_a_rule_is_broken_or_where_nobody_else_writes() {
    let world = world_of(SCHEMA).await;
    let ids = users(&world, 2).await;
    let settling = worker(&world, "two-phase").await;
    pay(&world, &ids, 0..10).await;
    drop(settling);
    add(&world, ids[0], 5).await;
    let third = collection(&world, "transaction").find_one(doc! { "_id": 3 }).await;
    let third = third.expect("MongoDB is there").expect("a transaction");
    let line = third.get_document("tandem").expect("ours").get("line").cloned();
    let without = doc! { "$unset": { "tandem.line": "" } };
    let updated = collection(&world, "transaction").update_one(doc! { "_id": 3 }, without).await;
    assert_eq!(updated.expect("MongoDB is there").modified_count, 1);
    let refused = absorb(&world, &["--yes"]).await;
    assert_eq!((refused.code, adjustments(&world).await), (Some(1), 0), "{}", refused.stderr);
    assert!(refused.stderr.contains("violation"), "{}", refused.stderr);
    let audited = follow(&world, &refused.stderr, Remedy::Audit).await;
    assert_eq!(audited.code, Some(1), "{audited:?}");
    let mended = doc! { "$set": { "tandem.line": line.expect("a line") } };
    let updated = collection(&world, "transaction").update_one(doc! { "_id": 3 }, mended).await;
    assert_eq!(updated.expect("MongoDB is there").modified_count, 1);
    let audited = world.producer(&["audit"]).await;
    let books =
        follow_with(&world, &audited.stdout, Remedy::Absorb, ("TEXT", "theirs --by test --yes"))
            .await;
    books.expect_success();
    assert_eq!(audit(&world).await.0, Some(0));
    world.finish().await;

    let world = World::new().await;
    world.accounts(&[("a", 10), ("b", 0)]).await;
    let more = doc! { "$inc": { "balance": 5_i64 } };
    let updated = world.store.accounts().update_one(doc! { "_id": "a" }, more).await;
    assert_eq!(updated.expect("MongoDB is there").modified_count, 1);
    let (code, report) = audit(&world).await;
    assert_eq!(
        (code, report["violations"].as_array().map(Vec::len)),
        (Some(1), Some(2)),
        "{report}"
    );
    assert_eq!((absorb(&world, &["--yes"]).await.code, lines(&world).await), (Some(1), 0));
    world.finish().await;
}

#[tokio::test]
async fn while_others_add_all_the_time_every_unit_of_theirs_is_absorbed_and_none_of_tandems() {
    for engine in ["two-phase", "transaction"] {
        let world = world_of(SCHEMA).await;
        let ids = users(&world, 5).await;
        let worker = worker(&world, engine).await;
        // From now on the accounts have openings.
        pay(&world, &ids, 0..100).await;
        let stop = AtomicBool::new(false);
        let writer = async {
            let mut sums = vec![0_i64; ids.len()];
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let (at, amount) = (n % ids.len(), i64::try_from(n % 13).expect("small") - 4);
                let written: Bson = match n % 3 {
                    0 => amount.into(),
                    1 => i32::try_from(amount).expect("small").into(),
                    _ => Bson::Double(amount as f64),
                };
                add(&world, ids[at], written).await;
                sums[at] += amount;
                tokio::time::sleep(ms(10)).await;
            }
            sums
        };
        let settling = async {
            for round in 1..6 {
                pay(&world, &ids, round * 100..(round + 1) * 100).await;
                let absorbed = absorb(&world, &["--yes"]).await;
                assert_eq!(absorbed.code, Some(0), "{}\n{}", absorbed.stdout, absorbed.stderr);
            }
            stop.store(true, Ordering::Relaxed);
        };
        let (sums, ()) = tokio::join!(writer, settling);
        absorb(&world, &["--yes"]).await.expect_success();
        let (code, report) = audit(&world).await;
        assert_eq!(code, Some(0), "{engine}: {report}");
        for (id, sum) in ids.iter().zip(sums) {
            assert_eq!(absorbed_of(&world, *id).await, sum, "{engine}: {id}");
        }
        drop(worker);
        world.finish().await;
    }
}

/// The sum of the adjustments of an account.
async fn absorbed_of(world: &World, id: ObjectId) -> i64 {
    let adjusted = doc! { "adjustment": { "$exists": true }, "accounts": id.to_hex() };
    let mut found = collection(world, JOURNAL).find(adjusted).await.expect("MongoDB is there");
    let mut sum = 0;
    while found.advance().await.expect("MongoDB is there") {
        let line: Document = found.deserialize_current().expect("a line");
        sum += line.get_array("nets").expect("a list")[0].as_i64().expect("minor units");
    }
    sum
}
