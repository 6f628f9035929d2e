//! The transactions collection is the outbox: a transaction without a message gets one.

use harness::wait::{s, wait_until};
use harness::worker::wait_swept;
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongo::{MongoOutbox, Place};
use queue::{SOLO, WORK};

#[tokio::test]
async fn what_was_inserted_and_never_published_is_settled_and_the_overview_says_so() {
    let world = World::new().await;
    let api = world.api(&[]).await;
    api.get("/v1/overview").await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let transfers: Vec<_> = (0..100).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.insert(&transfers).await;
    // Several at once only publish an id twice.
    let workers = tokio::join!(world.worker("one").start(), world.worker("two").start());
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 100);
    wait_swept(&[&workers.0, &workers.1], "unclaimed", 100.0).await;
    wait_until("the overview names it", s(60), async || {
        let overview = api.get("/v1/overview").await;
        assert_eq!(overview.status, 200);
        overview.body.contains("waited_for_the_sweep")
            && overview.body.contains("unpublished: true")
    })
    .await;
    world.assert_at_rest().await;
    drop(workers);
    world.finish().await;
}

#[tokio::test]
async fn transactions_whose_owner_and_message_are_gone_are_finished() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let mut first = world.worker("first").mongodb(&uri).start().await;
    let held = proxy.hold("applied", 1, harness::proxy::Part::Reply);
    let transfers: Vec<_> = (0..20).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&transfers, 20).await;
    held.caught(s(20)).await;
    first.kill();
    held.discard();
    // The message returned to its queue; now the queue is gone, too.
    world.queues.replace(WORK).await;
    world.queues.replace(SOLO).await;
    let second = world.worker("second").start().await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 20);
    wait_swept(&[&second], "in_flight", 20.0).await;
    world.assert_at_rest().await;
    drop(second);
    world.finish().await;
}

#[tokio::test]
async fn a_backlog_is_not_published_again() {
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    let transfers: Vec<_> = (0..2_000).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&transfers, 1).await;
    // They wait in the queue while no worker runs, much longer than the age of forgotten
    // transactions.
    let (_proxy, uri) = world.mongodb_proxy().await;
    let oldest = mongodb::bson::doc! { "$expr": { "$gt": [
        { "$subtract": ["$$NOW", "$createdAt"] }, 1_500,
    ] } };
    wait_until("they are old", s(30), async || {
        let old = world.store.transactions().count_documents(oldest.clone()).await;
        old.expect("MongoDB is there") == 2_000
    })
    .await;
    // Slow enough to be observed: small batches, one at a time.
    let worker = world
        .worker("one")
        .mongodb(&uri)
        .flag("--batch-size", 20)
        .flag("--lanes", 1)
        .flag("--prefetch", 20)
        .flag("--sweep-ms", 100)
        .flag("--orphan-ms", 1_000)
        .start()
        .await;
    world.wait_final(s(90)).await;
    let swept = worker.metrics().await.sum("tandem_swept_total", &[("kind", "unclaimed")]);
    assert!(swept < 200.0, "{swept} of 2,000 were published again while they merely waited");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_parked_transaction_is_not_brought_back_by_a_sweep_that_listed_it_before() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    world.insert(&[transfer("t", "a", "b", 1)]).await;
    let outbox = MongoOutbox::new(world.store.clone());
    let ids = ["t".into()];
    let now = world.store.server_now().await.expect("MongoDB is there");
    let listed = async || {
        let piece = outbox.piece(&Place::first(), &Place::last(), 10).await;
        let walked = piece.expect("MongoDB is there").open.len();
        let stamped = outbox.stamped(now + 120_000, &State::UNFINISHED, 10).await;
        (walked, stamped.expect("MongoDB is there").len())
    };
    assert_eq!(listed().await, (1, 0));
    outbox.stamp(&ids, now + 1).await.expect("MongoDB is there");
    assert_eq!(listed().await, (1, 1));
    outbox.park_killers(&ids).await.expect("MongoDB is there");
    outbox.stamp(&ids, now + 1).await.expect("MongoDB is there");
    assert_eq!(listed().await, (0, 0));
    world.finish().await;
}
