//! Documents in which a field stands twice, in collections without a validator.

use harness::odd::insert_raw;
use mongodb::bson::{doc, rawdoc};

use super::{collection, one, wait_count, world_of};

const NESTED: &str = r#"
[accounts]
collection = "user"
fields = { balance = "wallet.score" }
[transactions]
collection = "payment"
"#;

/// The server itself would end: a pipeline update of such a document breaks an invariant of 6.0.
#[tokio::test]
async fn a_field_that_stands_twice_costs_its_own_transactions_only() {
    for engine in ["two-phase", "transaction"] {
        let world = world_of(NESTED).await;
        let (users, payments) = (collection(&world, "user"), collection(&world, "payment"));
        for (id, user) in [
            ("a", rawdoc! { "_id": "a", "wallet": { "score": 100 } }),
            ("b", rawdoc! { "_id": "b", "wallet": { "score": 0 } }),
            ("root", rawdoc! { "_id": "root", "x": 1, "x": 2, "wallet": { "score": 0 } }),
            ("nested", rawdoc! { "_id": "nested", "wallet": { "score": 0, "x": 1, "x": 2 } }),
        ] {
            assert_eq!(user.get_str("_id").ok(), Some(id));
            insert_raw(&users, &user).await;
        }
        for (id, to) in [("1", "b"), ("2", "root"), ("3", "nested"), ("4", "b")] {
            let payment = rawdoc! {
                "_id": id, "source": "a", "destination": to, "value": 10, "state": "initial",
            };
            insert_raw(&payments, &payment).await;
        }
        let twice = rawdoc! {
            "_id": "twice", "source": "a", "destination": "b", "value": 10, "state": "initial",
            "note": 1, "note": 2,
        };
        insert_raw(&payments, &twice).await;
        let worker = world.worker("one").flag("--engine", engine).flag("--sweep-ms", 200);
        let worker = worker.flag("--orphan-ms", 500).start().await;
        wait_count(&world, "payment", doc! { "_id": { "$in": ["1", "4"] }, "state": "done" }, 2)
            .await;
        wait_count(&world, "tandem.parked", doc! { "_id": "twice" }, 1).await;
        let note = one(&world, "tandem.parked", doc! { "_id": "twice" }).await;
        let message = note.get_str("message").expect("it says why");
        assert!(message.contains("twice"), "{message}");
        let status = world.producer(&["list", "--parked"]).await;
        assert!(status.stdout.contains("twice"), "{}", status.stdout);
        // Whatever became of the others, they have moved nothing where nothing can be moved.
        for id in ["root", "nested"] {
            let user = users.clone_with_type::<mongodb::bson::RawDocumentBuf>();
            let user = user.find_one(doc! { "_id": id }).await.expect("MongoDB is there");
            let user = user.expect("it is there");
            let wallet = user.get_document("wallet").expect("an object");
            let score = wallet.get("score").expect("BSON").expect("a score");
            let score = score.as_i64().or_else(|| score.as_i32().map(i64::from));
            let moved = if engine == "transaction" { 10 } else { 0 };
            assert!([Some(0), Some(moved)].contains(&score), "{engine}: {user:?}");
        }
        drop(worker);
        world.finish().await;
    }
}
