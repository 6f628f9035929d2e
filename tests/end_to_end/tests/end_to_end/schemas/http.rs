//! The HTTP API of a ledger with a schema.

use harness::wait::{s, wait_until};
use mongodb::bson::doc;
use mongodb::bson::oid::ObjectId;
use serde_json::json;

use super::{assert_sound, collection, world_of};

const SCHEMA: &str = r#"
[accounts]
collection = "user"
ids = "objectId"
fields = { balance = "wallet.score", status = "flags.state" }
status = { frozen = ["locked"] }
[transactions]
collection = "payment"
ids = "objectId"
fields = { source = "from", destination = "to", value = "how.much", state = "how.far" }
state = { done = ["paid"] }
"#;

#[tokio::test]
async fn the_api_speaks_of_documents_as_it_always_does() {
    let world = world_of(SCHEMA).await;
    let (a, b) = (ObjectId::new(), ObjectId::new());
    let users = [doc! { "_id": a, "wallet": { "score": 100 } }, doc! { "_id": b }];
    collection(&world, "user").insert_many(users).await.expect("MongoDB is there");
    let worker = world.worker("one").start().await;
    let api = world.api(&[]).await;
    let rent = json!({ "source": a.to_hex(), "destination": b.to_hex(), "value": 30 });
    let key = [("Idempotency-Key", "rent")];
    let first = api.post_with("/v1/transactions?wait=20", &key, &rent).await.expect(200).json();
    assert_eq!(first["state"], "done");
    let id = first["id"].as_str().expect("an id").to_owned();
    assert!(ObjectId::parse_str(&id).is_ok(), "{id}");
    let again = api.post_with("/v1/transactions", &key, &rent).await.expect(200);
    assert_eq!(
        (again.json()["id"].as_str(), again.header("Idempotent-Replayed")),
        (Some(&*id), Some("true"))
    );
    let many = json!([rent, rent]);
    let key = [("Idempotency-Key", "fees")];
    for _ in 0..2 {
        api.post_with("/v1/batch?wait=20", &key, &many).await.expect(200);
    }
    let one = api.get(&format!("/v1/transactions/{id}")).await.expect(200).json();
    assert_eq!((&one["state"], &one["value"]), (&json!("done"), &json!("30")));
    assert_eq!((&one["source"], &one["destination"]), (&json!(a.to_hex()), &json!(b.to_hex())));

    let account = api.get(&format!("/v1/accounts/{}", a.to_hex())).await.expect(200).json();
    assert_eq!(account["balance"], "10");
    let wrong = json!({ "id": "x", "source": "alice", "destination": b.to_hex(), "value": 1 });
    let refused = api.post("/v1/transactions", &wrong).await.expect(422).json();
    assert!(refused.to_string().contains("ObjectId"), "{refused}");
    let frozen = api.act(&format!("/v1/accounts/{}/freeze", a.to_hex())).await.expect(200).json();
    assert_eq!(frozen["status"], "frozen");
    let locked = doc! { "_id": a, "flags.state": "locked" };
    let locked = collection(&world, "user").count_documents(locked).await;
    assert_eq!(locked.expect("MongoDB is there"), 1);
    let accounts = api.get("/v1/accounts").await.expect(200).json();
    assert_eq!(accounts["items"].as_array().map(Vec::len), Some(2), "{accounts}");
    let statement = api.get(&format!("/v1/accounts/{}/statement", b.to_hex())).await;
    let statement = statement.json();
    assert!(statement.to_string().contains(&id) || statement["status"] == 409, "{statement}");
    let overview = api.get("/v1/overview").await.expect(200).json();
    assert!(overview.is_object(), "{overview}");
    wait_until("no mark is left", s(30), async || {
        let marked = doc! { "pendingTransactions.0": { "$exists": true } };
        let marked = collection(&world, "user").count_documents(marked).await;
        marked.expect("MongoDB is there") == 0
    })
    .await;
    drop((api, worker));
    assert_sound(&world).await;
    world.finish().await;
}
