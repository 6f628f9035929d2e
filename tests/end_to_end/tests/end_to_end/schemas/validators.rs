//! Validators of a ledger with a schema, which check ids by their kind.

use harness::producer::Answer;
use harness::world::World;
use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Decimal128, Document, RawBson, RawDocumentBuf, doc, rawdoc};

use super::{assert_sound, collection, empty_world, one, schema_file, wait_count};
use crate::schema::is_refused;

const SCHEMA: &str = r#"
[accounts]
collection = "user"
ids = "KIND"
fields = { balance = "wallet.score", status = "flags.state" }
[transactions]
collection = "payment"
ids = "KIND"
fields = { source = "from", value = "how.much", state = "how.far" }
"#;

/// A kind of ids, as it is told in a schema, and some of them.
struct Kind {
    name: &'static str,
    good: [Bson; 4],
    bad: Vec<Bson>,
}

fn kinds() -> [Kind; 3] {
    let id = ObjectId::new();
    let one: Decimal128 = "1".parse().expect("a decimal");
    let both = || [Bson::from(""), Bson::Null, vec![id].into(), vec![7].into(), doc! {}.into()];
    let beyond = Bson::from(9_007_199_254_740_992.0);
    let numbers = [1.5.into(), f64::NAN.into(), f64::INFINITY.into(), beyond, one.into()];
    [
        Kind {
            name: "text",
            good: ["1", "2", "3", "4"].map(Bson::from),
            bad: vec![7.into(), id.into(), "".into(), Bson::Null],
        },
        Kind {
            name: "objectId",
            good: [(); 4].map(|()| ObjectId::new().into()),
            bad: [id.to_hex().into(), 7.into()].into_iter().chain(both()).collect(),
        },
        Kind {
            name: "int64",
            good: [1.into(), 2_i64.into(), 3.0.into(), i64::MAX.into()],
            bad: numbers.into_iter().chain(["7".into(), id.into()]).chain(both()).collect(),
        },
    ]
}

/// A ledger with validators.
async fn world_of(kind: &Kind) -> World {
    let world = empty_world().await;
    init(&world, &SCHEMA.replace("KIND", kind.name)).await.expect_success();
    world
}

async fn init(world: &World, schema: &str) -> Answer {
    world.producer(&["init", "--schema", &schema_file(world, schema), "--validator"]).await
}

fn payment(id: &Bson, from: &Bson, to: &Bson, value: i64) -> Document {
    let how = doc! { "much": value, "far": "initial" };
    let now = DateTime::now();
    let own = doc! { "createdAt": now };
    doc! {
        "_id": id, "from": from, "destination": to, "how": how, "lastModified": now, "tandem": own,
    }
}

/// The document with one field changed, by its path.
fn with(good: &Document, path: &str, value: &Bson) -> Document {
    let mut changed = good.clone();
    match path.split_once('.') {
        None => drop(changed.insert(path, value)),
        Some((object, field)) => {
            changed.get_document_mut(object).expect("an object").insert(field, value);
        }
    }
    changed
}

async fn assert_refused(of: &Collection<Document>, document: &Document) {
    assert!(is_refused(of.insert_one(document).await), "{document} was taken");
}

#[tokio::test]
async fn an_id_of_the_schemas_kind_is_taken_and_any_other_is_refused() {
    for kind in kinds() {
        let world = world_of(&kind).await;
        let (users, payments) = (collection(&world, "user"), collection(&world, "payment"));
        for id in &kind.good {
            users.insert_one(doc! { "_id": id }).await.unwrap_or_else(|e| panic!("{id}: {e}"));
            let good = payment(id, &kind.good[0], &kind.good[1], 5);
            payments.insert_one(good).await.unwrap_or_else(|e| panic!("{id}: {e}"));
        }
        let [a, b, ..] = &kind.good;
        for id in kind.bad.iter().filter(|id| !matches!(id, Bson::Array(_))) {
            assert_refused(&users, &doc! { "_id": id }).await;
            assert_refused(&payments, &payment(id, a, b, 5)).await;
        }
        payments.delete_many(doc! {}).await.expect("MongoDB is there");
        let good = payment(a, a, b, 5);
        for id in &kind.bad {
            for field in ["from", "destination", "tandem.reverses"] {
                // What reverses nothing may say so, and a list is no text.
                let is_none = *id == Bson::Null && field == "tandem.reverses";
                if !is_none {
                    assert_refused(&payments, &with(&good, field, id)).await;
                }
            }
        }
        payments.insert_one(with(&good, "tandem.reverses", b)).await.expect("it fits");
        let legs = |from: &Bson| {
            let leg = |account: &Bson, amount: i64| doc! { "account": account, "amount": amount };
            let own = doc! { "createdAt": DateTime::now() };
            doc! {
                "_id": b, "from": from, "legs": [leg(a, -5), leg(b, 5)], "tandem": own,
                "how": { "far": "initial" }, "lastModified": DateTime::now(),
            }
        };
        for id in kind.bad.iter().filter(|id| **id != Bson::Null) {
            assert_refused(&payments, &legs(id)).await;
        }
        payments.insert_one(legs(&Bson::Null)).await.expect("it fits");
        world.finish().await;
    }
}

#[tokio::test]
async fn the_other_rules_hold_for_each_kind_of_ids() {
    for kind in kinds() {
        let world = world_of(&kind).await;
        let (users, payments) = (collection(&world, "user"), collection(&world, "payment"));
        let [a, b, ..] = &kind.good;
        let user = doc! { "_id": a, "wallet": { "score": 5 }, "flags": { "state": "open" } };
        for (path, value) in [
            ("wallet.score", Bson::from("5")),
            ("wallet.score", 0.5.into()),
            ("flags.state", "sleeping".into()),
            ("pendingTransactions", "t".into()),
        ] {
            assert_refused(&users, &with(&user, path, &value)).await;
        }
        let good = payment(a, a, b, 5);
        for (path, value) in [
            ("how.much", Bson::from("5")),
            ("how.much", 0.5.into()),
            ("how.far", "begun".into()),
            ("lastModified", 0.into()),
            ("tandem.createdAt", "today".into()),
            ("tandem.attempts", 1.0.into()),
            ("tandem.metadata", 5.into()),
            ("legs", vec![doc! {}].into()),
        ] {
            assert_refused(&payments, &with(&good, path, &value)).await;
        }
        // The server itself would end at an update of these.
        let id = RawBson::try_from(a.clone()).expect("it is BSON");
        let twice = [
            rawdoc! { "_id": id.clone(), "x": 1, "x": 2 },
            rawdoc! { "_id": id, "wallet": { "x": 1, "x": 2 } },
        ];
        for document in twice {
            let written = users.clone_with_type::<RawDocumentBuf>().insert_one(&document).await;
            assert!(is_refused(written), "{document:?} was taken");
        }
        users.insert_one(user).await.expect("it fits");
        payments.insert_one(good).await.expect("it fits");
        world.finish().await;
    }
}

#[tokio::test]
async fn payments_of_others_and_of_producers_settle_under_validators() {
    for kind in kinds() {
        for engine in ["two-phase", "transaction"] {
            let world = world_of(&kind).await;
            let what = format!("{}, {engine}", kind.name);
            let [a, b, c, d] = &kind.good;
            let users = [doc! { "_id": a, "wallet": { "score": 100 } }, doc! { "_id": b }];
            collection(&world, "user").insert_many(users).await.expect("they fit");
            let payments = [payment(c, a, b, 10), payment(d, a, b, 1_000)];
            collection(&world, "payment").insert_many(payments).await.expect("they fit");
            let worker = world.worker("one").flag("--engine", engine).flag("--sweep-ms", 200);
            let worker = worker.flag("--orphan-ms", 500).start().await;
            let state = |state: &str| doc! { "how.far": state };
            wait_count(&world, "payment", state("done"), 1).await;
            wait_count(&world, "payment", state("canceled"), 1).await;
            settle_all_that_a_producer_asks_for(&world, &kind).await;
            let user = one(&world, "user", doc! { "_id": b }).await;
            let score = user.get_document("wallet").and_then(|wallet| wallet.get_i64("score"));
            assert_eq!(score.ok(), Some(10 + 3 + 2), "{what}: {user}");
            drop(worker);
            assert_sound(&world).await;
            let again = world.producer(&["init"]).await.expect_success();
            assert!(again.stdout.contains("Nothing is missing"), "{what}: {}", again.stdout);
            world.finish().await;
        }
    }
}

/// A transfer that is reversed, one that stays, a hold of which a part is taken, and one that is
/// scheduled and canceled.
async fn settle_all_that_a_producer_asks_for(world: &World, kind: &Kind) {
    let text = |id: &Bson| match id {
        Bson::ObjectId(id) => id.to_hex(),
        Bson::String(id) => id.clone(),
        other => other.to_string(),
    };
    let (a, b) = (text(&kind.good[0]), text(&kind.good[1]));
    let own: Vec<String> = (11..=14)
        .map(|id| match kind.name {
            "objectId" => ObjectId::new().to_hex(),
            _ => id.to_string(),
        })
        .collect();
    let transfer = async |value: &str, id: &str, more: &[&str]| {
        let arguments = [&["transfer", &a, &b, value, "--id", id][..], more].concat();
        world.producer(&arguments).await.expect_success();
    };
    transfer("7", &own[0], &["--wait", "--exclusive-key", "k"]).await;
    world.producer(&["reverse", &own[0], "--wait"]).await.expect_success();
    transfer("3", &own[1], &["--wait"]).await;
    transfer("5", &own[2], &["--wait", "--hold"]).await;
    world.producer(&["confirm", &own[2], "--value", "2"]).await.expect_success();
    transfer("1", &own[3], &["--not-before", "+1h"]).await;
    world.producer(&["cancel", &own[3]]).await.expect_success();
    wait_count(world, "payment", doc! { "how.far": "done" }, 5).await;
    wait_count(world, "payment", doc! { "how.far": "canceled" }, 2).await;
    wait_count(world, "user", doc! { "pendingTransactions.0": { "$exists": true } }, 0).await;
}

#[tokio::test]
async fn a_schema_gets_validators_only_where_they_are_asked_for() {
    for kind in kinds() {
        let world = super::world_of(&SCHEMA.replace("KIND", kind.name)).await;
        let users = collection(&world, "user");
        users.insert_one(doc! { "_id": &kind.bad[0] }).await.expect("nothing refuses it");
        users.delete_many(doc! {}).await.expect("MongoDB is there");
        let asked = world.producer(&["init", "--validator"]).await;
        assert_eq!(asked.code, Some(1), "{}", asked.stdout);
        assert!(asked.stdout.contains("collMod") || asked.stdout.contains("validator"));
        world.producer(&["init", "--validator", "--apply"]).await.expect_success();
        assert_refused(&users, &doc! { "_id": &kind.bad[0] }).await;
        users.insert_one(doc! { "_id": &kind.good[0] }).await.expect("it fits");
        world.finish().await;
    }
}

#[tokio::test]
async fn what_was_there_before_the_validators_is_told_and_costs_nothing_else() {
    for kind in kinds().into_iter().filter(|kind| kind.name != "text") {
        for engine in ["two-phase", "transaction"] {
            let world = super::world_of(&SCHEMA.replace("KIND", kind.name)).await;
            let what = format!("{}, {engine}", kind.name);
            let [a, b, c, d] = &kind.good;
            let users = [doc! { "_id": a, "wallet": { "score": 100 } }, doc! { "_id": b }];
            collection(&world, "user").insert_many(users).await.expect("MongoDB is there");
            let payments = [
                with(&payment(c, a, b, 1), "how.much", &"12.50".into()),
                payment(&1.5.into(), a, b, 1),
                payment(d, a, b, 1),
            ];
            collection(&world, "payment").insert_many(payments).await.expect("MongoDB is there");
            world.producer(&["init", "--validator", "--apply"]).await.expect_success();
            let worker = world.worker("one").flag("--engine", engine).flag("--sweep-ms", 200);
            let worker = worker.flag("--orphan-ms", 500).start().await;
            wait_count(&world, "payment", doc! { "_id": d, "how.far": "done" }, 1).await;
            let unwritable = doc! { "code": "transaction_unwritable" };
            wait_count(&world, "tandem.parked", unwritable, 1).await;
            let fractions = u64::from(kind.name == "int64");
            wait_count(&world, "tandem.parked", doc! { "code": "invalid_id" }, fractions).await;
            let parked = world.producer(&["list", "--parked"]).await.expect_success().stdout;
            println!("{what}: {parked}");
            assert!(parked.contains("how.much: \"12.50\" is a text"), "{what}: {parked}");
            // A fraction is an id of no other kind than numbers.
            let is_told = parked.contains("1.5") && parked.contains("invalid_id");
            assert_eq!(is_told, kind.name == "int64", "{what}: {parked}");
            drop(worker);
            world.finish().await;
        }
    }
}
