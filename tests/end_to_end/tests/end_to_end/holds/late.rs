//! What arrives late, when the hold has moved on: it changes nothing, and makes no money.

use std::time::Instant;

use client::Capture;
use harness::proxy::{Held, MongoProxy, Part};
use harness::wait::{promised, s, wait_until};
use harness::worker::Worker;
use harness::world::{World, transfer};
use ledger::amount::Amount;
use ledger::transaction::{State, Terms};
use mongodb::bson::DateTime;

use super::{from_now, on_hold, world};

async fn assert_nothing_was_paid(world: &World) {
    assert_eq!(world.balance("card").await, Amount::Int(100));
    world.assert_at_rest().await;
}

/// A hold is submitted, and the first command of this kind is on its way and does not arrive yet.
/// The limits are those of the worker's lease, operations and grace, in milliseconds.
async fn on_its_way(
    world: &World,
    (proxy, uri): (&MongoProxy, &str),
    command: &str,
    [lease, operation, grace]: [u64; 3],
) -> (Worker, Held) {
    let worker = world.worker("one").mongodb(uri).flag("--lease-ms", lease);
    let worker = worker.flag("--op-limit-ms", operation).flag("--grace-ms", grace).start().await;
    let held = proxy.hold(command, 1, Part::Request);
    world.submit(&[on_hold(transfer("t", "card", "shop", 10), None)], 1).await;
    held.caught(s(20)).await;
    (worker, held)
}

/// The first debit of a hold is on its way for so long that the hold is released and undone before
/// it arrives; what rests was posted by its repetition.
async fn late_debit(fenced: bool) -> World {
    let world = world().await;
    let (proxy, uri) = world.mongodb_proxy().await;
    if !fenced {
        proxy.take_fence_out();
    }
    let (worker, debit) = on_its_way(&world, (&proxy, &uri), "post", [60_000, 300, 500]).await;
    world.wait_state("t", State::Held, s(60)).await;
    world.client().await.release("t").await.expect("it is held");
    world.wait_state("t", State::Canceled, s(60)).await;
    debit.release();
    debit.passed(s(20)).await;
    drop(worker);
    world
}

#[tokio::test]
async fn a_debit_that_arrives_after_its_hold_was_released_does_nothing() {
    let world = late_debit(true).await;
    assert_nothing_was_paid(&world).await;
    world.finish().await;
}

#[tokio::test]
async fn without_the_fence_a_late_debit_of_a_released_hold_makes_money_wrong() {
    let world = late_debit(false).await;
    world.assert_money_is_wrong().await;
    world.finish().await;
}

#[tokio::test]
async fn no_mark_of_a_released_hold_goes_while_its_debit_may_still_arrive() {
    let world = world().await;
    let (proxy, uri) = world.mongodb_proxy().await;
    // A post may wait for the operation limit, and may run for the grace after that.
    let limits = [20_000, 2_000, 2_500];
    let (worker, debit) = on_its_way(&world, (&proxy, &uri), "post", limits).await;
    let sent = Instant::now();
    // The connection breaks: the worker posts again at once, while the first post may still arrive.
    debit.hang_up();
    world.wait_state("t", State::Held, s(20)).await;
    assert!(
        sent.elapsed() < promised(s(4)),
        "a hold rests without waiting for what may still arrive"
    );
    world.client().await.release("t").await.expect("it is held");
    wait_until("it is undone", s(30), async || proxy.requested("undo") > 0).await;
    let undone = sent.elapsed();
    assert!(undone > s(4), "a mark went {undone:?} after a post that may live for 4.5 s");
    debit.release();
    world.wait_state("t", State::Canceled, s(30)).await;
    assert_nothing_was_paid(&world).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_rest_that_arrives_after_the_confirmation_does_not_take_it_back() {
    let world = world().await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let (mut worker, rest) = on_its_way(&world, (&proxy, &uri), "rest", [60_000, 300, 500]).await;
    // By the repetition of the one that is on its way.
    world.wait_state("t", State::Held, s(60)).await;
    worker.kill();
    let capture = Capture::Value(Amount::Int(7));
    world.client().await.confirm("t", &capture).await.expect("it is held");
    let confirmed = world.transaction("t").await;
    rest.release();
    rest.passed(s(20)).await;
    assert_eq!(world.transaction("t").await, confirmed);
    let worker = world.worker("two").start().await;
    world.wait_state("t", State::Done, s(60)).await;
    assert_eq!(world.balance("shop").await, Amount::Int(7));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

/// A hold with `expiresAt` that rests, and nobody who works on it any more.
async fn left_alone(world: &World, expires: DateTime) {
    let terms = Terms { hold: true, expires_at: Some(expires), ..Terms::default() };
    let (id, body) = transfer("t", "card", "shop", 10);
    let mut worker = world.worker("one").start().await;
    world.submit(&[(id, body.with_terms(terms).expect("terms that fit"))], 1).await;
    world.wait_state("t", State::Held, s(30)).await;
    worker.kill();
}

async fn wait_for(world: &World, moment: DateTime) {
    wait_until("the moment has come", s(60), async || {
        world.store.server_now().await.expect("MongoDB is there") >= moment.timestamp_millis()
    })
    .await;
}

#[tokio::test]
async fn a_confirmed_hold_that_is_not_applied_by_its_expiry_goes_home() {
    let world = world().await;
    let expires = from_now(10_000);
    left_alone(&world, expires).await;
    world.client().await.confirm("t", &Capture::All).await.expect("it has not expired");
    wait_for(&world, expires).await;
    let worker = world.worker("two").start().await;
    world.wait_state("t", State::Canceled, s(60)).await;
    assert_eq!(world.reason("t").await.as_deref(), Some("expired"));
    assert_nothing_was_paid(&world).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_hold_is_not_confirmed_after_its_expiry_and_goes_home() {
    let world = world().await;
    let expires = from_now(8_000);
    left_alone(&world, expires).await;
    wait_for(&world, expires).await;
    let refused = world.client().await.confirm("t", &Capture::All).await;
    let refused = refused.expect_err("it has expired").to_string();
    let told = "t: is held and can't be confirmed: it has expired";
    assert!(refused.starts_with(told), "{refused}");
    let worker = world.worker("two").start().await;
    world.wait_state("t", State::Canceled, s(60)).await;
    assert_eq!(world.reason("t").await.as_deref(), Some("expired"));
    assert_nothing_was_paid(&world).await;
    drop(worker);
    world.finish().await;
}
