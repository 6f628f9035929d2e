//! When a worker is killed in the middle of a phase, another finishes its transactions within
//! lease, grace and five seconds.
//!
//! Each operation of the protocol is lost in three ways: the request never arrives; it arrives and
//! the worker dies before the reply; it arrives when everything else is finished.

use std::time::{Duration, Instant};

use harness::proxy::Part;
use harness::wait::{ms, promised, s, wait_until};
use harness::worker::{GRACE, LEASE};
use harness::world::{World, transfer};
use ledger::transaction::State;

/// The time beyond lease and grace: noticing, waiting in a retry queue, starting the next worker.
const SLACK: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    RequestLost,
    ReplyLost,
    RequestLate,
}

async fn another_worker_finishes(operation: &str, loss: Loss) {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0), ("c", 50)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let mut first = world.worker("first").mongodb(&uri).start().await;
    let part = if loss == Loss::ReplyLost { Part::Reply } else { Part::Request };
    let held = proxy.hold(operation, 1, part);
    let transactions = [
        transfer("t1", "a", "b", 10),
        transfer("t2", "c", "b", 20),
        transfer("refused", "a", "nobody", 5),
        transfer("t3", "b", "nobody", 1),
    ];
    world.submit(&transactions, 10).await;
    held.caught(s(20)).await;
    first.kill();
    let died = Instant::now();
    if loss != Loss::RequestLate {
        held.discard();
    }
    let second = world.worker("second").launch();
    world.wait_final(s(60)).await;
    let took = died.elapsed();
    if loss == Loss::RequestLate {
        held.release();
        held.passed(s(20)).await;
    }
    assert_eq!(world.count(&[State::Done]).await, 2);
    assert_eq!(world.reason("refused").await.as_deref(), Some("account_not_found"));
    world.assert_at_rest().await;
    assert!(took < promised(LEASE + GRACE + SLACK), "recovery took {took:?}");
    eprintln!("{operation}: finished {took:.1?} after the death");
    drop(second);
    world.finish().await;
}

macro_rules! killed_in {
    ($($name:ident: $operation:literal;)*) => {$(
        mod $name {
            use super::{Loss, another_worker_finishes};

            #[tokio::test]
            async fn killed_before_the_request_arrives() {
                another_worker_finishes($operation, Loss::RequestLost).await;
            }

            #[tokio::test]
            async fn killed_before_the_reply_arrives() {
                another_worker_finishes($operation, Loss::ReplyLost).await;
            }

            #[tokio::test]
            async fn killed_and_the_request_arrives_after_the_end() {
                another_worker_finishes($operation, Loss::RequestLate).await;
            }
        }
    )*};
}

killed_in! {
    claim: "claim";
    read: "read";
    post: "post";
    applied: "applied";
    settle: "settle";
    cancel: "cancel";
    undo: "undo";
    ending: "end transactions";
    writing_the_line: "end tandem.journal";
    writing_the_note: "end tandem.events";
    committing_the_end: "commit";
}

#[tokio::test]
async fn nobody_takes_over_before_lease_and_grace_are_over() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    // It holds its one message, so the broker gives later messages to the other worker.
    let mut first = world.worker("first").mongodb(&uri).flag("--prefetch", 1).start().await;
    let claimed = proxy.hold("claim", 1, Part::Reply);
    world.submit(&[transfer("t", "a", "b", 10)], 1).await;
    claimed.caught(s(20)).await;
    let begun = Instant::now();
    first.freeze().await;
    let second = world.worker("second").start().await;
    world.publish(&["t".into()], 1).await;
    wait_until("the second has claimed it", s(30), async || {
        world.transaction("t").await.get_str("application").is_ok_and(|owner| owner == "second")
    })
    .await;
    let waited = begun.elapsed();
    // The claim was written a moment before its reply was held.
    assert!(waited > LEASE + GRACE - ms(500), "taken over after {waited:?}");
    first.kill();
    claimed.discard();
    world.wait_final(s(30)).await;
    world.assert_at_rest().await;
    drop(second);
    world.finish().await;
}
