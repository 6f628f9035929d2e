//! Documents of the owner's that can't be read, and what their transactions are told.

use harness::worker::{Plan, wait_swept};
use harness::world::World;
use mongodb::IndexModel;
use mongodb::bson::{Bson, DateTime, Decimal128, Document, doc};
use mongodb::options::IndexOptions;

use super::{collection, empty_world, init, one, wait_count, world_of};

const NESTED: &str = r#"
[accounts]
collection = "user"
fields = { balance = "wallet.score", pendingTransactions = "wallet.open", status = "flags.state" }
[transactions]
collection = "payment"
fields = { source = "from", destination = "to", value = "how.much", state = "how.far" }
"#;

fn worker(world: &World, engine: &str) -> Plan {
    world.worker("one").flag("--engine", engine).flag("--sweep-ms", 200).flag("--orphan-ms", 500)
}

fn payment(id: &str, to: &str, value: impl Into<Bson>) -> Document {
    doc! { "_id": id, "from": "a", "to": to, "how": { "much": value, "far": "initial" } }
}

/// What is said of a payment that was refused.
async fn told(world: &World, id: &str) -> String {
    let payment = one(world, "payment", doc! { "_id": id }).await;
    let reason = payment.get_document("tandem").and_then(|own| own.get_document("reason"));
    let reason = reason.unwrap_or_else(|_| panic!("no reason: {payment}"));
    reason.get_str("message").expect("a message").to_owned()
}

#[tokio::test]
async fn what_stands_on_the_way_to_a_field_costs_its_own_payments_only() {
    for engine in ["two-phase", "transaction"] {
        let world = world_of(NESTED).await;
        let users = [
            doc! { "_id": "a", "wallet": { "score": 100 } },
            doc! { "_id": "b" },
            doc! { "_id": "number", "wallet": 5 },
            doc! { "_id": "list", "wallet": [{ "score": 5 }] },
            doc! { "_id": "null", "wallet": Bson::Null },
            doc! { "_id": "flags", "wallet": { "score": 5 }, "flags": "x" },
        ];
        let odd = ["number", "list", "null", "flags"];
        collection(&world, "user").insert_many(users.clone()).await.expect("MongoDB is there");
        let payments = odd.iter().chain(&["b"]).map(|to| payment(to, to, 10));
        collection(&world, "payment").insert_many(payments).await.expect("MongoDB is there");
        let worker = worker(&world, engine).start().await;
        wait_count(&world, "payment", doc! { "how.far": "done" }, 1).await;
        wait_count(&world, "payment", doc! { "how.far": "canceled" }, 4).await;
        for (user, id) in users[2..].iter().zip(odd) {
            assert_eq!(one(&world, "user", doc! { "_id": id }).await, *user, "{engine}");
            let told = told(&world, id).await;
            let path = if id == "flags" { "flags" } else { "wallet" };
            assert!(told.contains(&format!("`{path}` is")), "{engine}: {told}");
        }
        // The remedy works.
        let mended = doc! { "$set": { "wallet": { "score": 5 } } };
        let mended = collection(&world, "user").update_one(doc! { "_id": "list" }, mended).await;
        mended.expect("MongoDB is there");
        collection(&world, "payment")
            .insert_one(payment("again", "list", 10))
            .await
            .expect("MongoDB is there");
        wait_count(&world, "payment", doc! { "_id": "again", "how.far": "done" }, 1).await;
        drop(worker);
        world.finish().await;
    }
}

const FLAT_STATE: &str = r#"
[accounts]
collection = "user"
[transactions]
collection = "payment"
fields = { value = "how.much" }
"#;

#[tokio::test]
async fn a_payment_with_something_on_the_way_is_parked_alone_and_goes_on_once_it_is_mended() {
    for engine in ["two-phase", "transaction"] {
        let world = world_of(FLAT_STATE).await;
        let users = [doc! { "_id": "a", "balance": 100 }, doc! { "_id": "b" }];
        collection(&world, "user").insert_many(users).await.expect("MongoDB is there");
        let payment = |id: &str, how: Bson, own: Bson| {
            doc! {
                "_id": id, "source": "a", "destination": "b", "how": how, "state": "initial",
                "tandem": own,
            }
        };
        let good = || Bson::from(doc! { "much": 1 });
        let payments = [
            payment("good", good(), doc! {}.into()),
            payment("number", 5.into(), doc! {}.into()),
            payment("list", vec![doc! { "much": 1 }].into(), doc! {}.into()),
            payment("own", good(), "a tandem".into()),
        ];
        collection(&world, "payment").insert_many(payments).await.expect("MongoDB is there");
        let worker = worker(&world, engine).start().await;
        wait_count(&world, "payment", doc! { "state": "done" }, 1).await;
        for (id, path) in [("number", "how"), ("list", "how"), ("own", "tandem")] {
            wait_count(&world, "tandem.parked", doc! { "_id": id }, 1).await;
            let note = one(&world, "tandem.parked", doc! { "_id": id }).await;
            let told = note.get_str("message").expect("it says why");
            assert!(told.contains(&format!("`{path}` is no object")), "{engine}, {id}: {told}");
            assert!(told.contains(&format!("`producer unpark {id}`")), "{engine}, {id}: {told}");
        }
        // A worker that was given what is noted could park it again after it was brought back.
        wait_swept(&[&worker], "unclaimed", 1.0).await;
        let metrics = worker.metrics().await;
        let swept = metrics.sum("tandem_swept_total", &[("kind", "unclaimed")]);
        assert!(swept < 4.0, "{engine}: {swept} were published, and one can be written");
        let parked = [("reason", "transaction_unwritable")];
        assert_eq!(metrics.sum("tandem_parked_total", &parked), 3.0, "{engine}");
        let mended = doc! { "$set": { "how": good() } };
        let payments = collection(&world, "payment");
        let mended = payments.update_one(doc! { "_id": "number" }, mended).await;
        mended.expect("MongoDB is there");
        world.producer(&["unpark", "number"]).await.expect_success();
        wait_count(&world, "payment", doc! { "state": "done" }, 2).await;
        drop(worker);
        world.finish().await;
    }
}

#[tokio::test]
async fn a_refusal_names_the_owners_own_field_its_value_and_what_to_do() {
    for engine in ["two-phase", "transaction"] {
        let world = world_of(NESTED).await;
        let half: Decimal128 = "0.5".parse().expect("a decimal");
        let users = [
            doc! { "_id": "a", "wallet": { "score": 100 } },
            doc! { "_id": "half", "wallet": { "score": 12.5 } },
            doc! { "_id": "text", "wallet": { "score": "12" } },
            doc! { "_id": "mixed", "wallet": { "score": 5 }, "floor": half },
            doc! { "_id": "asleep", "flags": { "state": "asleep" } },
            doc! { "_id": "numbered", "flags": { "state": 1 } },
        ];
        collection(&world, "user").insert_many(users).await.expect("MongoDB is there");
        let mut payments = vec![
            payment("1", "half", 1),
            payment("2", "text", 1),
            payment("3", "mixed", 1),
            payment("4", "a", 1.5),
        ];
        payments.extend([
            payment("5", "a", "7"),
            payment("6", "asleep", 1),
            payment("7", "numbered", 1),
        ]);
        collection(&world, "payment").insert_many(payments).await.expect("MongoDB is there");
        let worker = worker(&world, engine).start().await;
        wait_count(&world, "payment", doc! { "how.far": "canceled" }, 7).await;
        for (id, field, value, advice) in [
            ("1", "wallet.score", "12.5", "NumberDecimal(\"12.5\")"),
            ("2", "wallet.score", "\"12\"", "NumberLong"),
            ("3", "floor", "0.5", ""),
            ("4", "how.much", "1.5", "NumberDecimal(\"1.5\")"),
            ("5", "how.much", "\"7\"", "NumberLong"),
            ("6", "flags.state", "\"asleep\"", "\"frozen\" for frozen"),
            ("7", "flags.state", "Int32", ""),
        ] {
            let told = told(&world, id).await;
            println!("{engine} {id}: {told}");
            for named in [field, value, advice] {
                assert!(told.contains(named), "{engine}, {id}: {named} is not in: {told}");
            }
        }
        drop(worker);
        world.finish().await;
    }
}

#[tokio::test]
async fn an_index_that_removes_payments_stops_the_setup() {
    for field in ["lastModified", "tandem.createdAt", "tandem.dueAt", "expires"] {
        let world = empty_world().await;
        let after = IndexOptions::builder().expire_after(std::time::Duration::from_secs(3_600));
        let index = IndexModel::builder().keys(doc! { field: 1 }).options(after.build()).build();
        collection(&world, "payment").create_index(index).await.expect("MongoDB is there");
        let now = DateTime::now();
        let mut old = payment("1", "b", 1);
        old.insert("lastModified", now);
        collection(&world, "payment").insert_one(old).await.expect("MongoDB is there");
        let refused = init(&world, NESTED).await;
        assert_ne!(refused.code, Some(0), "{field}");
        let told = format!("{}{}", refused.stdout, refused.stderr);
        assert!(told.contains("remove documents") && told.contains("payment"), "{field}: {told}");
        world.finish().await;
    }
}
