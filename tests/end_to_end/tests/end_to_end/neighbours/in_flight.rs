//! An account becomes unreadable while it holds money: the transactions that depend on it are
//! parked, and go on once the account is repaired.

use harness::odd;
use harness::proxy::{MongoProxy, Part};
use harness::wait::{s, wait_until};
use harness::worker::Worker;
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongodb::bson::{Bson, Document, doc};

use super::{SOON, good, ids, is_parked, submit_beside, wait_done, worker_without_sweeper};

/// A field of a document of the accounts, whatever it holds.
async fn field(world: &World, account: &str, name: &str) -> Bson {
    let found = world.store.accounts().find_one(doc! { "_id": account }).await;
    let found = found.expect("MongoDB is there").expect("the account is there");
    found.get(name).cloned().expect("the field is there")
}

/// Submits `odd` from a to x together with good transfers, and holds the worker when all of them
/// are posted; then sets the balance of x to a text. Returns the old balance, and the worker with
/// the proxy that it needs.
async fn spoiled_in_flight(world: &World) -> (Bson, Worker, MongoProxy) {
    world.accounts(&[("a", 1_000), ("b", 0), ("x", 50)]).await;
    world.insert(&[transfer("odd", "a", "x", 5)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let worker = worker_without_sweeper(world).mongodb(&uri).start().await;
    let held = proxy.hold("applied", 1, Part::Reply);
    let good = good(9);
    submit_beside(world, &good, &["odd"]).await;
    held.caught(s(20)).await;
    let balance = field(world, "x", "balance").await;
    assert_eq!(field(world, "x", "pendingCredits").await, Bson::Int64(5), "it is in flight");
    odd::edit(&world.store.accounts(), "x", doc! { "$set": { "balance": "a lot" } }).await;
    held.release();
    wait_done(world, &good, SOON).await;
    wait_until("the odd one is parked", s(60), async || is_parked(world, "odd").await).await;
    (balance, worker, proxy)
}

#[tokio::test]
async fn money_held_on_an_account_that_became_unreadable_is_parked_and_comes_back() {
    let world = World::new().await;
    let (balance, worker, _proxy) = spoiled_in_flight(&world).await;
    let parked = world.transaction("odd").await;
    assert_eq!(world.state("odd").await, State::Applied, "its state stays");
    let why: &Document = parked.get_document("parked").expect("why");
    assert!(why.get_str("code").is_ok() && why.get_datetime("at").is_ok(), "{why}");
    assert!(why.get_str("message").expect("a sentence").contains('x'), "{why}");
    // The worker counts it when the database has answered.
    wait_until("it is counted as parked", s(10), async || {
        worker.metrics().await.sum("tandem_parked_total", &[]) >= 1.0
    })
    .await;
    let listed = world.producer(&["list", "--parked", "--json"]).await.expect_success();
    assert!(listed.stdout.contains("\"odd\""), "{}", listed.stdout);
    let audit = world.producer(&["audit", "--json"]).await;
    assert!(audit.stdout.contains("odd"), "the audit names it: {}", audit.stdout);
    odd::edit(&world.store.accounts(), "x", doc! { "$set": { "balance": balance } }).await;
    world.producer(&["unpark", "odd"]).await.expect_success();
    world.wait_state("odd", State::Done, s(30)).await;
    let listed = world.producer(&["list", "--parked", "--json"]).await.expect_success();
    assert!(!listed.stdout.contains("\"odd\""), "{}", listed.stdout);
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn neither_a_stray_message_nor_the_sweeper_wakes_what_is_parked() {
    let world = World::new().await;
    let (balance, worker, _proxy) = spoiled_in_flight(&world).await;
    drop(worker);
    let parked = world.transaction("odd").await;
    let worker = world.worker("two").flag("--orphan-ms", 500).flag("--sweep-ms", 100).start().await;
    for n in 0..3 {
        let other = [transfer(&format!("other-{n}"), "a", "b", 1)];
        world.insert(&other).await;
        let mut together = ids(&other);
        together.push("odd".into());
        world.publish(&together, 2).await;
        wait_done(&world, &other, SOON).await;
        super::wait_for_a_sweep(&world, &format!("sweep-{n}")).await;
    }
    assert_eq!(world.transaction("odd").await, parked, "it was touched");
    let swept = worker.metrics().await.sum("tandem_swept_total", &[("kind", "in_flight")]);
    assert!(swept < 1.0, "the sweeper has published it {swept} times");
    odd::edit(&world.store.accounts(), "x", doc! { "$set": { "balance": balance } }).await;
    world.producer(&["unpark", "--all"]).await.expect_success();
    world.wait_state("odd", State::Done, s(30)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
