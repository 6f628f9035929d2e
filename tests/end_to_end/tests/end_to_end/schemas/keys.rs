//! Accounts that are known by another field than `_id`.

use mongodb::IndexModel;
use mongodb::bson::{DateTime, doc};
use mongodb::options::IndexOptions;

use super::{assert_sound, collection, empty_world, init, one, wait_count, world_of};

const BY_NAME: &str = r#"
[accounts]
collection = "people"
fields = { _id = "profile.name", balance = "money" }
[transactions]
collection = "moves"
"#;

#[tokio::test]
async fn accounts_are_known_by_a_name_and_documents_without_one_are_none() {
    for engine in ["two-phase", "transaction", "auto"] {
        let world = world_of(BY_NAME).await;
        let person =
            |name: &str, money: i32| doc! { "profile": { "name": name, "age": 7 }, "money": money };
        let people =
            [person("ann", 100), person("bob", 5), doc! { "money": "none" }, doc! { "profile": 3 }];
        collection(&world, "people").insert_many(people).await.expect("MongoDB is there");
        let moved = |id: &str, to: &str, value: i32| {
            doc! { "_id": id, "source": "ann", "destination": to, "value": value, "state": "initial" }
        };
        let moves = [moved("1", "bob", 30), moved("2", "eve", 1), moved("3", "bob", 71)];
        collection(&world, "moves").insert_many(moves).await.expect("MongoDB is there");
        let worker = world.worker("one").flag("--engine", engine).flag("--sweep-ms", 200);
        let worker = worker.flag("--orphan-ms", 500).start().await;
        wait_count(&world, "moves", doc! { "state": "done" }, 1).await;
        wait_count(&world, "moves", doc! { "state": "canceled" }, 2).await;
        let marked = doc! { "pendingTransactions.0": { "$exists": true } };
        wait_count(&world, "people", marked, 0).await;
        for (name, money) in [("ann", 70), ("bob", 35)] {
            let person = one(&world, "people", doc! { "profile.name": name }).await;
            assert_eq!(person.get_i64("money").ok(), Some(money), "{engine}: {person}");
            let age = person.get_document("profile").and_then(|profile| profile.get_i32("age"));
            assert_eq!(age.ok(), Some(7), "{engine}: {person}");
        }
        // An account of Tandem's own making, once only, and a transfer to it.
        world.producer(&["accounts", "create", "carl"]).await.expect_success();
        world.producer(&["accounts", "create", "carl"]).await.expect_success();
        wait_count(&world, "people", doc! { "profile.name": "carl" }, 1).await;
        world.producer(&["transfer", "bob", "carl", "5", "--wait"]).await.expect_success();
        drop(worker);
        assert_sound(&world).await;
        world.finish().await;
    }
}

#[tokio::test]
async fn an_index_keeps_the_key_unique_and_two_of_one_name_are_named() {
    let world = empty_world().await;
    let partial = IndexOptions::builder()
        .unique(true)
        .partial_filter_expression(doc! { "money": { "$exists": true } });
    let partial =
        IndexModel::builder().keys(doc! { "profile.name": 1 }).options(partial.build()).build();
    let people = collection(&world, "people");
    people.create_index(partial).await.expect("MongoDB is there");
    let twice = [doc! { "profile": { "name": "ann" } }, doc! { "profile": { "name": "ann" } }];
    people.insert_many(twice).await.expect("MongoDB is there");
    let refused = init(&world, BY_NAME).await;
    assert_ne!(refused.code, Some(0));
    let told = format!("{}{}", refused.stdout, refused.stderr);
    assert!(told.contains("two accounts have the same value") && told.contains("ann"), "{told}");
    people.delete_one(doc! {}).await.expect("MongoDB is there");
    init(&world, BY_NAME).await.expect_success();
    let names = people.list_index_names().await.expect("MongoDB is there");
    assert!(names.contains(&"tandem_key".to_owned()), "{names:?}");
    let again = people.insert_one(doc! { "profile": { "name": "ann" } }).await;
    assert!(again.is_err(), "the name is taken");
    people.insert_many([doc! { "x": 1 }, doc! { "x": 2 }]).await.expect("they have no name");
    world.finish().await;
}

#[tokio::test]
async fn an_index_of_the_owners_own_serves_if_it_is_unique_and_whole() {
    let world = empty_world().await;
    let unique = IndexOptions::builder().unique(true).build();
    let unique = IndexModel::builder().keys(doc! { "profile.name": 1 }).options(unique).build();
    collection(&world, "people").create_index(unique).await.expect("MongoDB is there");
    let now = DateTime::now();
    let ann = doc! { "profile": { "name": "ann" }, "money": 5, "since": now };
    collection(&world, "people").insert_one(ann).await.expect("MongoDB is there");
    init(&world, BY_NAME).await.expect_success();
    let names = collection(&world, "people").list_index_names().await.expect("MongoDB is there");
    assert_eq!(names, ["_id_", "profile.name_1"]);
    world.finish().await;
}
