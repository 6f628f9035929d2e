//! Telling an old processor that is at work from a worker of Tandem.

use std::time::Duration;

use harness::world::World;
use mongodb::bson::doc;
use serde_json::Value;

use super::{fill, look, odd_transactions};
use crate::layouts::collection;
use crate::schemas::empty_world;

#[tokio::test]
async fn an_old_processor_that_is_at_work_is_named() {
    for is_ledger in [false, true] {
        let world = empty_world().await;
        fill(&world, "accounts", vec![doc! { "_id": "a", "balance": 5 }]).await;
        fill(&world, "transactions", odd_transactions()).await;
        if is_ledger {
            world.producer(&["init", "--apply"]).await.expect_success();
        }
        let quiet = look(&world, &["--json", "--watch", "1"]).await.json();
        assert_eq!(quiet["moved"]["transactions"], 0, "{quiet}");
        let (accounts, transactions) =
            (collection(&world, "accounts"), collection(&world, "transactions"));
        let old = tokio::spawn(async move {
            for at in 0.. {
                let state = if at % 2 == 0 { "pending" } else { "initial" };
                let moved = doc! { "$set": { "state": state } };
                let moved = transactions.update_one(doc! { "_id": "t1" }, moved).await;
                moved.expect("MongoDB is there");
                let paid = doc! { "$inc": { "balance": 1 } };
                let paid = accounts.update_one(doc! { "_id": "a" }, paid).await;
                paid.expect("MongoDB is there");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let answer = look(&world, &["--json", "--watch", "6"]).await;
        let told = look(&world, &["--watch", "6"]).await.stdout;
        old.abort();
        let report = answer.json();
        assert_eq!(answer.code, Some(1), "{report}");
        for moved in ["accounts", "transactions"] {
            assert!(report["moved"][moved].as_u64() > Some(0), "{report}");
        }
        assert_eq!(report["moved"]["samples"][0]["id"], "t1", "{report}");
        assert_eq!(report["moved"]["samples"][0]["path"], "state", "{report}");
        assert!(told.contains("an old processor is at work"), "{told}");
        world.finish().await;
    }
}

#[tokio::test]
async fn a_worker_of_tandems_is_no_old_processor() {
    for engine in ["two-phase", "auto"] {
        let world = World::new().await;
        world.accounts(&[("a", 1_000), ("b", 0)]).await;
        let worker = world.worker("one").flag("--engine", engine).start().await;
        let looking = look(&world, &["--json", "--watch", "4"]);
        let paying = async {
            for _ in 0..4 {
                world.producer(&["transfer", "a", "b", "1", "--wait"]).await.expect_success();
            }
        };
        let (answer, ()) = tokio::join!(looking, paying);
        let report = answer.json();
        assert_eq!(report["moved"]["not_looked_at"], Value::Null, "{report}");
        for moved in ["accounts", "transactions"] {
            assert_eq!(report["moved"][moved], 0, "{engine}: {report}");
        }
        drop(worker);
        world.finish().await;
    }
}
