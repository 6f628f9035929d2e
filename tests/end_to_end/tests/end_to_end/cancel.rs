//! Canceling: before the commit it takes everything back, after it nothing.

use harness::proxy::Part;
use harness::wait::s;
use harness::world::{World, transfer};
use ledger::amount::Amount;
use ledger::transaction::State;

async fn world() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    world
}

async fn assert_undone(world: &World, id: &str) {
    assert_eq!(world.state(id).await, State::Canceled);
    assert_eq!(world.reason(id).await.as_deref(), Some("requested"));
    assert_eq!(world.balance("a").await, Amount::Int(100));
    assert_eq!(world.balance("b").await, Amount::Int(0));
    world.assert_at_rest().await;
}

#[tokio::test]
async fn an_initial_transaction_is_never_settled_once_it_is_canceled() {
    let world = world().await;
    world.submit(&[transfer("t", "a", "b", 10)], 1).await;
    world.producer(&["cancel", "t"]).await.expect_success();
    // Its end has an event, so a worker writes it.
    assert_eq!(world.state("t").await, State::Canceling);
    // Canceling again changes nothing.
    world.producer(&["cancel", "t"]).await.expect_success();
    let worker = world.worker("one").start().await;
    world.producer(&["cancel", "t", "--wait"]).await.expect_success();
    assert_eq!(world.state("t").await, State::Canceled);
    world.queues.wait_depth("work", 0, s(30)).await;
    world.submit(&[transfer("later", "b", "a", 1)], 1).await;
    world.wait_final(s(30)).await;
    assert_undone(&world, "t").await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_pending_transaction_is_canceled_and_undone_by_its_owner() {
    let world = world().await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let worker = world.worker("one").mongodb(&uri).start().await;
    let held = proxy.hold("applied", 1, Part::Request);
    world.submit(&[transfer("t", "a", "b", 10)], 1).await;
    held.caught(s(20)).await;
    assert_eq!(world.balance("a").await, Amount::Int(90), "it is posted");
    world.producer(&["cancel", "t"]).await.expect_success();
    assert_eq!(world.state("t").await, State::Canceling);
    held.release();
    world.wait_state("t", State::Canceled, s(30)).await;
    assert_undone(&world, "t").await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_pending_transaction_of_a_dead_owner_is_canceled_and_undone_by_another() {
    let world = world().await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let mut first = world.worker("first").mongodb(&uri).start().await;
    let held = proxy.hold("applied", 1, Part::Request);
    world.submit(&[transfer("t", "a", "b", 10)], 1).await;
    held.caught(s(20)).await;
    first.kill();
    held.discard();
    let second = world.worker("second").start().await;
    let answer = world.producer(&["cancel", "t", "--wait", "--wait-limit", "30"]).await;
    // Unless the next owner was faster and has committed it already.
    if answer.is_success() {
        assert_undone(&world, "t").await;
    } else {
        world.wait_state("t", State::Done, s(30)).await;
        world.assert_at_rest().await;
    }
    drop(second);
    world.finish().await;
}

#[tokio::test]
async fn an_applied_transaction_is_not_canceled() {
    let world = world().await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let worker = world.worker("one").mongodb(&uri).start().await;
    let held = proxy.hold("settle", 1, Part::Request);
    world.submit(&[transfer("t", "a", "b", 10)], 1).await;
    held.caught(s(20)).await;
    let answer = world.producer(&["cancel", "t"]).await;
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.stderr.contains("applied") && answer.stderr.contains("reverse"), "{answer:?}");
    held.release();
    world.wait_state("t", State::Done, s(30)).await;
    assert_eq!(world.producer(&["cancel", "t"]).await.code, Some(1));
    assert_eq!(world.balance("b").await, Amount::Int(10));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn an_unknown_transaction_is_not_canceled() {
    let world = world().await;
    assert_eq!(world.producer(&["cancel", "nothing"]).await.code, Some(1));
    world.finish().await;
}

/// The owner's post is still on its way when the transaction is canceled, undone and final.
async fn late_post_of_a_canceled_one(fenced: bool) -> World {
    let world = world().await;
    let (proxy, uri) = world.mongodb_proxy().await;
    if !fenced {
        proxy.take_fence_out();
    }
    let worker = world.worker("one").mongodb(&uri).start().await;
    let held = proxy.hold("post", 1, Part::Request);
    world.submit(&[transfer("t", "a", "b", 10)], 1).await;
    held.caught(s(20)).await;
    world.producer(&["cancel", "t"]).await.expect_success();
    held.hang_up();
    world.wait_state("t", State::Canceled, s(30)).await;
    held.release();
    held.passed(s(20)).await;
    drop(worker);
    world
}

#[tokio::test]
async fn a_late_post_of_a_canceled_transaction_does_nothing() {
    let world = late_post_of_a_canceled_one(true).await;
    assert_undone(&world, "t").await;
    world.finish().await;
}

#[tokio::test]
async fn without_the_fence_a_late_post_of_a_canceled_transaction_makes_money_wrong() {
    let world = late_post_of_a_canceled_one(false).await;
    world.assert_money_is_wrong().await;
    world.finish().await;
}

#[tokio::test]
async fn cancels_that_race_with_settling_take_back_all_or_nothing() {
    const TRANSFERS: usize = 40;
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let worker = world.worker("one").flag("--batch-size", 3).flag("--lanes", 2).start().await;
    let ids: Vec<String> = (0..TRANSFERS).map(|n| format!("t{n}")).collect();
    let transfers: Vec<_> = ids.iter().map(|id| transfer(id, "a", "b", 1)).collect();
    world.submit(&transfers, 1).await;
    // Cancels from the end, so that canceling and settling meet somewhere in the middle.
    for id in ids.iter().rev().step_by(2) {
        let answer = world.producer(&["cancel", id]).await;
        let after = world.state(id).await;
        let taken_back = matches!(after, State::Canceling | State::Canceled);
        assert_eq!(answer.is_success(), taken_back, "{id} is {after}: {answer:?}");
    }
    world.wait_final(s(60)).await;
    let done = world.count(&[State::Done]).await;
    let canceled = world.count(&[State::Canceled]).await;
    eprintln!("{done} done, {canceled} canceled");
    assert_eq!(world.balance("b").await, Amount::Int(i64::try_from(done).expect("small")));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
