//! A schema is chosen once, and whoever connects speaks it.

use mongodb::bson::doc;

use super::{assert_sound, collection, empty_world, init, one, world_of};

const SCHEMA: &str = r#"
[accounts]
collection = "user"
fields = { balance = "wallet.score" }
"#;

#[tokio::test]
async fn a_schema_never_changes_and_the_same_one_in_other_words_is_no_change() {
    let world = world_of(SCHEMA).await;
    let same = SCHEMA.replace("[accounts]", "[accounts]\n# the same\nids = \"text\"");
    init(&world, &same).await.expect_success();
    world.producer(&["init"]).await.expect_success();
    for other in [SCHEMA.replace("user", "users"), String::new()] {
        let refused = init(&world, &other).await;
        assert_ne!(refused.code, Some(0), "{other}");
        assert!(refused.stderr.contains("set up with another schema"), "{}", refused.stderr);
    }
    world.finish().await;
}

#[tokio::test]
async fn the_printed_schema_is_that_of_a_ledger_without_one() {
    let world = empty_world().await;
    let printed = world.producer(&["init", "--print-schema"]).await.expect_success().stdout;
    init(&world, &printed).await.expect_success();
    let settings = one(&world, "tandem.settings", doc! { "_id": "settings" }).await;
    assert!(!settings.contains_key("layout"), "{settings}");
    let refused = init(&world, SCHEMA).await;
    assert!(refused.stderr.contains("set up with another schema"), "{}", refused.stderr);
    let worker = world.worker("one").start().await;
    for account in
        [&["accounts", "create", "a", "--balance", "10"][..], &["accounts", "create", "b"]]
    {
        world.producer(account).await.expect_success();
    }
    world.producer(&["transfer", "a", "b", "4", "--id", "t", "--wait"]).await.expect_success();
    let paid = one(&world, "transactions", doc! { "_id": "t" }).await;
    assert!(paid.contains_key("createdAt") && !paid.contains_key("tandem"), "{paid}");
    drop(worker);
    assert_sound(&world).await;
    world.finish().await;
}

#[tokio::test]
async fn a_file_that_is_no_schema_is_refused_with_the_place_and_nothing_is_set_up() {
    let world = empty_world().await;
    for (bad, named) in [
        ("[accounts]\nfields = { balance = \"a.$b\" }", "fields.balance"),
        ("[accounts]\nid = \"text\"", "line 2"),
        ("[transactions.state]\ndone = [\"x\"]\ncanceled = [\"x\"]", "\"x\" stands for"),
    ] {
        let refused = init(&world, bad).await;
        assert_eq!(refused.code, Some(2), "{bad}: {}", refused.stderr);
        assert!(refused.stderr.contains(named), "{bad}: {}", refused.stderr);
        assert!(refused.stderr.contains("ledger.toml"), "{bad}: {}", refused.stderr);
    }
    let names = world.store.database().list_collection_names().await.expect("MongoDB is there");
    assert_eq!(names, Vec::<String>::new());
    world.finish().await;
}

#[tokio::test]
async fn the_audit_names_a_mark_whose_account_is_called_otherwise_now() {
    let by_name = "[accounts]\ncollection = \"people\"\nfields = { _id = \"name\" }";
    let world = world_of(by_name).await;
    let people = collection(&world, "people");
    let two = [doc! { "name": "ann", "balance": 10 }, doc! { "name": "bob" }];
    people.insert_many(two).await.expect("MongoDB is there");
    let worker = world.worker("one").start().await;
    let hold = ["transfer", "ann", "bob", "4", "--id", "h", "--hold", "--wait"];
    world.producer(&hold).await.expect_success();
    assert_sound(&world).await;
    let renamed = doc! { "$set": { "name": "anna" } };
    people.update_one(doc! { "name": "ann" }, renamed).await.expect("MongoDB is there");
    let audit = world.producer(&["audit"]).await;
    assert_eq!(audit.code, Some(1), "{}", audit.stderr);
    let told = format!("{}{}", audit.stdout, audit.stderr);
    assert!(told.contains("accounts/anna") && told.contains("transactions/h"), "{told}");
    drop(worker);
    world.finish().await;
}
