//! Looks that take several pieces: they are interrupted, or a piece is cut by the size of an answer.

use harness::process::Signal;
use harness::wait::{s, wait_until};
use mongodb::bson::doc;
use serde_json::Value;

use super::{fill, look, odd_transactions};
use crate::layouts::collection;
use crate::schemas::empty_world;

/// The same report, without how long it took.
fn timeless(mut report: Value) -> Value {
    report["seconds"] = Value::Null;
    report
}

#[tokio::test]
async fn a_look_that_was_killed_goes_on_and_says_the_same_as_one_that_was_not() {
    let world = empty_world().await;
    let account = |at: i32| match at % 3 {
        // Ids of several types, each of which has its own place in the order.
        0 => doc! { "_id": at, "balance": 0 },
        1 => doc! { "_id": format!("a{at}"), "balance": f64::from(at) + 0.5 },
        _ => doc! { "_id": { "n": at }, "balance": 0 },
    };
    fill(&world, "accounts", (0..6_000).map(account).collect()).await;
    fill(&world, "transactions", odd_transactions()).await;
    let whole = timeless(look(&world, &["--json"]).await.json());
    assert_eq!(whole["accounts"]["read"], 6_000);
    let file = world.directory().join("look.json");
    let name = file.to_str().expect("it is text");
    let flags = ["adopt", "--dry-run", "--watch", "0", "--json", "--piece", "10", "--resume", name];
    for signal in [Signal::Kill, Signal::Int] {
        let mut killed = world.spawn_producer(&flags, &[]);
        let before = std::fs::read(&file).ok();
        wait_until("a piece was counted", s(30), async || {
            std::fs::read(&file).is_ok_and(|now| Some(now) != before)
        })
        .await;
        killed.signal(signal);
        let code = killed.exit(s(30)).await.code();
        if signal == Signal::Int {
            assert_eq!(code, Some(130), "{}", killed.log());
            assert!(killed.log().contains("it goes on where it stopped"), "{}", killed.log());
        }
        assert!(file.exists(), "it came to its end before it was killed");
    }
    let other = world.producer(&["adopt", "--dry-run", "--places", "2", "--resume", name]).await;
    assert_eq!(other.code, Some(2), "{}", other.stderr);
    // What was counted stays counted, so nobody sees that the first account is gone.
    let first = collection(&world, "accounts").delete_one(doc! { "_id": 0 }).await;
    assert_eq!(first.expect("MongoDB is there").deleted_count, 1);
    let resumed = world.producer(&flags).await;
    assert_eq!(timeless(resumed.json()), whole);
    assert!(!file.exists(), "the file of a look that has ended is removed");
    world.finish().await;
}

#[tokio::test]
async fn documents_of_which_one_fills_an_answer_end_no_look_early() {
    let world = empty_world().await;
    for id in ["a", "b", "c"] {
        let marks = ["x".repeat(9 << 20)];
        fill(&world, "accounts", vec![doc! { "_id": id, "pendingTransactions": marks }]).await;
    }
    let answer = look(&world, &["--json"]).await;
    assert_eq!(answer.json()["accounts"]["read"], 3, "{}", answer.stderr);
}
