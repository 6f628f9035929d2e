//! A wrong clock on one producer's machine does not make other producers' backlog be published
//! twice.

use harness::odd;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongodb::bson::{DateTime, Document, doc};
use queue::WORK;

use super::wait_ended_or_parked;

const BACKLOG: usize = 1_000;
const THREE_DAYS_MS: i64 = 3 * 24 * 3_600_000;

/// Puts a backlog into the queue, lets it grow old there, and has it settled; the worker counts
/// what its sweeper publishes.
async fn settles_its_backlog_once(world: &World) {
    let transfers: Vec<_> = (0..BACKLOG).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&transfers, 1).await;
    // They wait in the queue while no worker runs, much longer than the age of forgotten
    // transactions.
    let oldest = doc! { "$expr": { "$gt": [{ "$subtract": ["$$NOW", "$createdAt"] }, 6_500] } };
    wait_until("they are old", s(30), async || {
        let old = world.store.transactions().count_documents(oldest.clone()).await;
        old.expect("MongoDB is there") == BACKLOG as u64
    })
    .await;
    // Slow enough to be observed: small batches, one at a time, through a proxy.
    let (_proxy, uri) = world.mongodb_proxy().await;
    let worker = world
        .worker("one")
        .mongodb(&uri)
        .flag("--batch-size", 20)
        .flag("--lanes", 1)
        .flag("--prefetch", 20)
        .flag("--sweep-ms", 100)
        // A quarter of it is the time that a delivered message may wait for its turn, also on a
        // busy machine.
        .flag("--orphan-ms", 6_000)
        .start()
        .await;
    world.wait_final(s(180)).await;
    let swept = worker.metrics().await.sum("tandem_swept_total", &[("kind", "unclaimed")]);
    assert!(swept < 100.0, "{swept} of {BACKLOG} were published again while they merely waited");
    world.assert_at_rest().await;
}

#[tokio::test]
async fn a_creation_time_in_the_future_does_not_have_a_backlog_published_again() {
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    // It is first in the queue, so all others are claimed after it.
    let mut early = odd::transfer("from-the-future", "a", "b", 1);
    let now = DateTime::now().timestamp_millis();
    early.insert("createdAt", DateTime::from_millis(now + THREE_DAYS_MS));
    odd::insert(&world.store.transactions(), &[early]).await;
    world.publish(&["from-the-future".into()], 1).await;
    settles_its_backlog_once(&world).await;
    assert_eq!(world.count(&[State::Done]).await, BACKLOG as u64 + 1);
    world.finish().await;
}

#[tokio::test]
async fn markers_that_somebody_made_up_do_not_have_a_backlog_published_again() {
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    let tomorrow = DateTime::now().timestamp_millis() + 24 * 3_600_000;
    for marker in [i64::MAX, i64::MIN, tomorrow, 0, -1] {
        let body = format!("{{\"ids\":[],\"marker\":{marker}}}");
        world.queues.publish_raw(WORK, body.as_bytes()).await;
    }
    settles_its_backlog_once(&world).await;
    assert_eq!(world.count(&[State::Done]).await, BACKLOG as u64);
    world.finish().await;
}

#[tokio::test]
async fn a_forgotten_transaction_is_brought_back_although_the_queue_never_empties() {
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    let worker = world
        .worker("one")
        .flag("--batch-size", 20)
        .flag("--lanes", 1)
        .flag("--prefetch", 20)
        .flag("--sweep-ms", 100)
        .flag("--orphan-ms", 1_000)
        .start()
        .await;
    world.insert(&[transfer("forgotten", "a", "b", 1)]).await;
    let mut sent = 0;
    // There are always a few hundred more messages than the worker has processed.
    wait_until("the forgotten one is done", s(60), async || {
        let done = world.count(&[State::Done]).await;
        while sent < done + 400 {
            let more: Vec<_> =
                (sent..sent + 200).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
            world.submit(&more, 1).await;
            sent += 200;
        }
        world.state("forgotten").await == State::Done
    })
    .await;
    let waiting = world.count(&[State::Initial]).await;
    assert!(waiting > 0, "the queue had run empty, so this has shown nothing");
    world.wait_final(s(60)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_date_of_another_type_hides_nothing_from_the_sweepers() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let with = |id: &str, fields: Document| {
        let mut document = odd::transfer(id, "a", "b", 1);
        document.extend(fields);
        document
    };
    // Their ids are never published.
    let documents = [
        with("created-text", doc! { "createdAt": "today" }),
        with("taken-over-at-text", doc! { "state": "pending", "takeoverAt": "soon" }),
        with("taken-over-at-nothing", doc! { "state": "pending" }),
    ];
    odd::insert(&world.store.transactions(), &documents).await;
    let worker = world.worker("one").flag("--orphan-ms", 500).flag("--sweep-ms", 100).start().await;
    for id in ["taken-over-at-text", "taken-over-at-nothing"] {
        wait_ended_or_parked(&world, id, s(30)).await;
    }
    // Tandem's first write dates it, and nothing else was wrong with it.
    world.wait_state("created-text", State::Done, s(30)).await;
    // No worker claims it before its takeover time is a date.
    let now = doc! { "$set": { "takeoverAt": DateTime::now() } };
    let transactions = world.store.transactions();
    let mended = transactions.update_one(doc! { "_id": "taken-over-at-text" }, now).await;
    mended.expect("MongoDB is there");
    world.producer(&["unpark", "taken-over-at-text"]).await;
    world.wait_state("taken-over-at-text", State::Done, s(30)).await;
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}
