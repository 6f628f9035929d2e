//! What is told of a ledger in collections of others: counts, lists, and indexes of the owner's.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use serde_json::{Value, json};

use super::{World, collection, wait_count, world_of};

const SCHEMA: &str = r#"
[accounts]
collection = "user"
ids = "objectId"
fields = { balance = "wallet.score" }
[transactions]
collection = "payment"
ids = "int64"
fields = { value = "how.much", state = "how.far" }
state = { done = ["paid", "done"] }
"#;

#[tokio::test]
async fn what_was_final_before_tandem_is_counted_apart() {
    for engine in ["two-phase", "transaction"] {
        let world = world_of(SCHEMA).await;
        let (a, b) = (ObjectId::new(), ObjectId::new());
        let users = [doc! { "_id": a, "wallet": { "score": 100 } }, doc! { "_id": b }];
        collection(&world, "user").insert_many(users).await.expect("MongoDB is there");
        let payment = |id: i32, value: i32, state: &str| {
            let how = doc! { "much": value, "far": state };
            doc! { "_id": id, "source": a, "destination": b, "how": how }
        };
        let payments = [
            payment(1, 1, "paid"),
            payment(2, 1, "done"),
            payment(3, 1, "canceled"),
            payment(4, 1, "initial"),
            payment(5, 1_000, "initial"),
        ];
        collection(&world, "payment").insert_many(payments).await.expect("MongoDB is there");
        let mut odd = payment(6, 1, "done");
        odd.insert("tandem", "a word of theirs");
        collection(&world, "payment").insert_one(odd).await.expect("MongoDB is there");
        let worker = world.worker("one").flag("--engine", engine).flag("--sweep-ms", 200);
        let worker = worker.flag("--orphan-ms", 500).start().await;
        wait_count(&world, "payment", doc! { "_id": 4, "how.far": "paid" }, 1).await;
        wait_count(&world, "payment", doc! { "_id": 5, "how.far": "canceled" }, 1).await;
        drop(worker);
        let told = world.producer(&["stats", "--json"]).await.expect_success().json();
        let states = &told["states"];
        assert_eq!((&states["done"], &states["canceled"]), (&json!(1), &json!(1)), "{told}");
        assert_eq!(told["reasons"], json!({ "insufficient_funds": 1 }), "{engine}: {told}");
        assert_eq!(told["endedByOthers"], json!({ "canceled": 1, "done": 3 }), "{engine}: {told}");
        let text = world.producer(&["stats"]).await.expect_success().stdout;
        assert!(text.contains("ended by others: done"), "{text}");
        let api = world.api(&[]).await;
        let told = api.get("/v1/stats").await.expect(200).json();
        assert_eq!(told["endedByOthers"], json!({ "canceled": 1, "done": 3 }), "{engine}: {told}");
        drop(api);
        world.finish().await;
    }
}

#[tokio::test]
async fn a_list_of_accounts_says_what_stands_on_the_way_as_one_account_does() {
    let world = world_of(SCHEMA).await;
    let mut ids = [(); 4].map(|()| ObjectId::new());
    ids.sort();
    let own =
        |id: ObjectId, wallet: Bson, own: Bson| doc! { "_id": id, "wallet": wallet, "tandem": own };
    let good = || Bson::from(doc! { "score": 5 });
    let users = [
        own(ids[0], good(), doc! {}.into()),
        own(ids[1], good(), "a word".into()),
        own(ids[2], 5.into(), doc! {}.into()),
        own(ids[3], good(), vec![doc! { "floor": 1 }].into()),
    ];
    collection(&world, "user").insert_many(users).await.expect("MongoDB is there");
    let api = world.api(&[]).await;
    let listed = api.get("/v1/accounts").await.expect(200).json();
    let page = api.get("/console/accounts").await.expect(200).body;
    let lines = world.producer(&["accounts", "list", "--json"]).await.expect_success().stdout;
    let lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (at, (id, path)) in
        ids.iter().zip([None, Some("tandem"), Some("wallet"), Some("tandem")]).enumerate()
    {
        let item = &listed["items"][at];
        assert_eq!(item["id"], id.to_hex(), "{listed}");
        let alone = api.get(&format!("/v1/accounts/{}", id.to_hex())).await.expect(200).json();
        assert_eq!(item["invalid"], alone["invalid"], "{id}");
        assert_eq!(item["balance"], alone["balance"], "{id}");
        let Some(path) = path else {
            assert_eq!((&item["balance"], &item["invalid"]), (&json!("5"), &Value::Null));
            continue;
        };
        let notice = format!("`{path}` is no object");
        let said = item["invalid"].as_str().expect("it says what is wrong");
        assert!(said.contains(&notice) && said.contains("make it an object"), "{path}: {said}");
        assert!(page.contains(&notice), "{path}: {page}");
        let line = lines[at]["balance"].as_str().expect("a notice in place of an amount");
        assert!(line.contains(&format!("stands at `{path}`")), "{line}");
    }
    drop(api);
    world.finish().await;
}

/// The indexes of the owner's that `init` names, each with the field.
async fn named(world: &World) -> Vec<(String, String)> {
    let told = world.producer(&["init", "--json"]).await.expect_success().json();
    let slowing = told["slowing"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let mut named: Vec<_> = slowing.map(|one| (text(&one["index"]), text(&one["field"]))).collect();
    named.sort();
    named
}

async fn create(world: &World, collection: &str, name: &str, mut index: Document) {
    index.insert("name", name);
    let create = doc! { "createIndexes": collection, "indexes": [index] };
    world.store.database().run_command(create).await.expect(name);
}

#[tokio::test]
async fn indexes_that_the_server_looks_at_at_each_end_are_named_by_the_owners_paths() {
    let world = world_of(SCHEMA).await;
    assert_eq!(named(&world).await, []);
    let of = |field: &str| doc! { "key": { field: 1 } };
    let only =
        |projection: Document| doc! { "key": { "$**": 1 }, "wildcardProjection": projection };
    for (name, index) in [
        ("apart", of("how.much")),
        ("named_alike", of("state")),
        ("wild_apart", of("how.much.$**")),
        ("wild_theirs", only(doc! { "metadata": 1, "how.much": 1 })),
    ] {
        create(&world, "payment", name, index).await;
    }
    create(&world, "user", "apart", of("wallet.color")).await;
    create(&world, "user", "wild_apart", of("email.$**")).await;
    assert_eq!(named(&world).await, []);
    let clause = doc! { "$and": [{ "tandem.claim": { "$exists": true } }] };
    let filtered = doc! { "key": { "x": 1 }, "partialFilterExpression": clause };
    for (collection, name, index, field) in [
        ("payment", "p1_all", of("$**"), "how.far"),
        ("payment", "p2_own", of("tandem.$**"), "tandem.attempts"),
        ("payment", "p3_parent", of("how"), "how.far"),
        ("payment", "p4_child", of("how.far.x"), "how.far"),
        ("payment", "p5_only", only(doc! { "tandem.line": 1, "_id": 0 }), "tandem.line"),
        ("payment", "p6_filter", filtered, "tandem.claim"),
        // The server looks at each update for an index that says only what it leaves out.
        ("payment", "p7_but", only(doc! { "how": 0, "tandem": 0 }), "how.far"),
        ("user", "u1_wallet", of("wallet.$**"), "wallet.score"),
        ("user", "u2_plain", of("wallet.score"), "wallet.score"),
        ("user", "u3_own", of("tandem"), "tandem.pendingHolds"),
    ] {
        create(&world, collection, name, index).await;
        let expected = (name.to_owned(), field.to_owned());
        assert_eq!(named(&world).await.last(), Some(&expected), "{name}");
    }
    let text = world.producer(&["init"]).await.expect_success().stdout;
    let but = text.lines().find(|line| line.contains("`p7_but`")).expect("it is named");
    assert!(but.contains("wildcardProjection"), "{but}");
    world.finish().await;
}
