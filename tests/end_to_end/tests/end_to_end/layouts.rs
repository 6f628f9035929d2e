//! Ledgers in collections and fields of their owner's own.

use harness::servers::Servers;
use harness::wait::{s, wait_until};
use harness::world::World;
use layout::Layout;
use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{DateTime, Document, doc};

/// Users with a wallet, and payments between them.
pub(super) const SCHEMA: &str = r#"
[accounts]
collection = "user"
ids = "objectId"
status = { open = ["active"], frozen = ["locked"] }
[accounts.fields]
balance = "wallet.score"
pendingTransactions = "wallet.open"
status = "state"
floor = "tandem.floor"
currency = "tandem.currency"
pendingDebits = "tandem.pendingDebits"
pendingCredits = "tandem.pendingCredits"
[transactions]
collection = "transaction"
ids = "int64"
fields = { source = "from", destination = "to", value = "score", state = "status" }
state = { applied = ["committed", "applied"] }
"#;

/// A world whose ledger is set up as this schema says.
pub(super) async fn world_of(schema: &str) -> World {
    let layout = Layout::from_toml(schema).expect("the schema is good");
    World::of_layout(Servers::from_env(), Some(layout)).await
}

pub(super) fn collection(world: &World, name: &str) -> Collection<Document> {
    world.store.database().collection(name)
}

/// A user as another program writes one, with fields that have names of Tandem's.
pub(super) fn user(id: ObjectId, score: i32, state: &str) -> Document {
    doc! {
        "_id": id, "balance": "mine", "floor": "mine, too", "state": state,
        "wallet": { "score": score, "color": "red" },
    }
}

pub(super) async fn one(world: &World, name: &str, filter: Document) -> Document {
    let found = collection(world, name).find_one(filter).await.expect("MongoDB is there");
    found.expect("the document is there")
}

#[tokio::test]
async fn payments_between_users_settle_in_their_own_words() {
    for engine in ["two-phase", "transaction"] {
        let world = world_of(SCHEMA).await;
        let (a, b, locked) = (ObjectId::new(), ObjectId::new(), ObjectId::new());
        let users = [user(a, 1_000, "active"), user(b, 5, "active"), user(locked, 0, "locked")];
        collection(&world, "user").insert_many(users).await.expect("MongoDB is there");
        let payment = |id: i32, to: ObjectId, score: i64| {
            doc! {
                "_id": id, "from": a, "to": to, "score": score, "status": "initial",
                "lastModified": DateTime::now(), "claim": "a complaint", "parked": "no",
            }
        };
        let payments = [payment(1, b, 100), payment(2, locked, 100), payment(3, b, 901)];
        collection(&world, "transaction").insert_many(payments).await.expect("MongoDB is there");
        let worker = world.worker("one").flag("--engine", engine).flag("--sweep-ms", 200);
        let worker = worker.flag("--orphan-ms", 500).start().await;
        wait_until("all have ended", s(60), async || {
            let ended = doc! { "status": { "$in": ["done", "canceled"] } };
            let count = collection(&world, "transaction").count_documents(ended).await;
            count.expect("MongoDB is there") == 3
        })
        .await;
        let paid = one(&world, "transaction", doc! { "_id": 1 }).await;
        assert_eq!(paid.get_str("status").ok(), Some("done"), "{engine}: {paid}");
        assert_eq!(paid.get_str("claim").ok(), Some("a complaint"), "{engine}: {paid}");
        assert_eq!(paid.get_str("parked").ok(), Some("no"), "{engine}: {paid}");
        for id in [2, 3] {
            let refused = one(&world, "transaction", doc! { "_id": id }).await;
            assert_eq!(refused.get_str("status").ok(), Some("canceled"), "{engine}: {refused}");
        }
        for (id, score, state) in
            [(a, 900_i64, "active"), (b, 105, "active"), (locked, 0, "locked")]
        {
            wait_until("no mark is left", s(30), async || {
                let marks = doc! { "_id": id, "wallet.open.0": { "$exists": true } };
                let marked = collection(&world, "user").count_documents(marks).await;
                marked.expect("MongoDB is there") == 0
            })
            .await;
            let user = one(&world, "user", doc! { "_id": id }).await;
            let wallet = user.get_document("wallet").expect("it is still an object");
            let held = wallet.get_i64("score").or_else(|_| wallet.get_i32("score").map(i64::from));
            assert_eq!(held.ok(), Some(score), "{engine}: {user}");
            assert_eq!(wallet.get_str("color").ok(), Some("red"), "{engine}: {user}");
            assert_eq!(user.get_str("balance").ok(), Some("mine"), "{engine}: {user}");
            assert_eq!(user.get_str("state").ok(), Some(state), "{engine}: {user}");
        }
        drop(worker);
        world.finish().await;
    }
}
