//! Ids that are no texts, and currencies and floors of all accounts.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, doc};

use super::{assert_sound, collection, one, wait_count, world_of};

const OBJECT_IDS: &str = r#"
[accounts]
collection = "user"
ids = "objectId"
missing = { floor = -50, currency = "EUR" }
[transactions]
collection = "payment"
ids = "objectId"
state = { done = ["paid"], canceled = ["refused", "void"] }
"#;

#[tokio::test]
async fn ids_that_tandem_makes_are_object_ids_and_the_same_ones_again() {
    let world = world_of(OBJECT_IDS).await;
    let (a, b) = (ObjectId::new(), ObjectId::new());
    let users = [doc! { "_id": a, "balance": 100 }, doc! { "_id": b, "balance": 0.0 }];
    collection(&world, "user").insert_many(users).await.expect("MongoDB is there");
    let worker = world.worker("one").start().await;
    let (a, b) = (a.to_hex(), b.to_hex());
    let file = world.directory().join("rows.csv");
    let rows = format!("source,destination,value\n{a},{b},10\n{a},{b},10\n{b},{a},1\n");
    std::fs::write(&file, rows).expect("the directory is there");
    let file = file.to_str().expect("it is text");
    for _ in 0..2 {
        world.producer(&["submit", file, "--batch", "may", "--wait"]).await.expect_success();
    }
    let ids = doc! { "_id": { "$type": "objectId" }, "state": "paid" };
    wait_count(&world, "payment", ids.clone(), 3).await;

    let paid = world.producer(&["transfer", &a, &b, "5", "--wait", "--json"]).await;
    let paid = paid.expect_success().json();
    let id = paid["id"].as_str().expect("an id");
    let named = ObjectId::parse_str(id).expect("an ObjectId");
    let payment = one(&world, "payment", doc! { "_id": named }).await;
    assert_eq!(payment.get_str("currency").ok(), Some("EUR"));
    for _ in 0..2 {
        world.producer(&["reverse", id, "--wait"]).await.expect_success();
    }
    wait_count(&world, "payment", ids, 5).await;

    // Down to the floor of all accounts, and no further.
    world.producer(&["transfer", &a, &b, "131", "--wait"]).await.expect_success();
    let refused = world.producer(&["transfer", &a, &b, "1", "--wait"]).await;
    assert!(refused.stdout.contains("canceled"), "{}{}", refused.stdout, refused.stderr);
    wait_count(&world, "payment", doc! { "state": "refused" }, 1).await;
    for (source, id, named) in [("alice", None, "account"), (a.as_str(), Some("rent"), "id")] {
        let mut arguments = vec!["transfer", source, &b, "1"];
        arguments.extend(id.into_iter().flat_map(|id| ["--id", id]));
        let wrong = world.producer(&arguments).await;
        assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
        assert!(
            wrong.stderr.contains(named) && wrong.stderr.contains("ObjectId"),
            "{}",
            wrong.stderr
        );
    }
    drop(worker);
    assert_sound(&world).await;
    world.finish().await;
}

const NUMBERS: &str = r#"
[accounts]
ids = "int64"
[transactions]
ids = "int64"
"#;

#[tokio::test]
async fn numbers_of_all_types_are_the_same_id_and_are_given_by_the_submitter() {
    let world = world_of(NUMBERS).await;
    let accounts = [doc! { "_id": 1, "balance": 100 }, doc! { "_id": 2.0, "balance": 7_i64 }];
    collection(&world, "accounts").insert_many(accounts).await.expect("MongoDB is there");
    let worker = world.worker("one").flag("--sweep-ms", 200).flag("--orphan-ms", 500).start().await;
    let foreign = |id: Bson, source: Bson| {
        doc! {
            "_id": id, "source": source, "destination": 2_i64, "value": 10, "state": "initial",
            "lastModified": DateTime::now(),
        }
    };
    let moves = [foreign(7.0.into(), 1.0.into()), foreign(8_i64.into(), 1.into())];
    collection(&world, "transactions").insert_many(moves).await.expect("MongoDB is there");
    wait_count(&world, "transactions", doc! { "state": "done" }, 2).await;
    // No number of the ledger's: one is parked, and nothing else is disturbed by the others.
    let odd = [
        foreign(1.5.into(), 1.into()),
        foreign("7".into(), 1.into()),
        foreign(ObjectId::new().into(), 1.into()),
    ];
    collection(&world, "transactions").insert_many(odd).await.expect("MongoDB is there");
    let parked = doc! { "_id": 1.5, "tandem.parked.code": "invalid_id" };
    wait_count(&world, "transactions", parked, 1).await;
    let missing = world.producer(&["transfer", "1", "2", "1"]).await;
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
    assert!(missing.stderr.contains("Tandem makes none"), "{}", missing.stderr);
    world.producer(&["transfer", "1", "2", "1", "--id", "9", "--wait"]).await.expect_success();
    world.producer(&["reverse", "9", "--wait"]).await.expect_success();
    wait_count(&world, "transactions", doc! { "_id": { "$lt": 0 }, "state": "done" }, 1).await;
    drop(worker);
    let odd = doc! { "_id": { "$in": [Bson::from(1.5), Bson::from("7")] } };
    let odd = collection(&world, "transactions").delete_many(odd).await.expect("MongoDB is there");
    assert_eq!(odd.deleted_count, 2);
    assert_sound(&world).await;
    world.finish().await;
}
