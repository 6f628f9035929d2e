//! Reversing: an applied transaction is taken back by a new one, at most once.

use harness::wait::s;
use harness::worker::Worker;
use harness::world::{World, legs, transfer};
use ledger::amount::Amount;
use ledger::transaction::State;
use mongodb::bson::doc;

async fn world() -> (World, Worker) {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0), ("c", 0)]).await;
    let worker = world.worker("one").start().await;
    (world, worker)
}

async fn reversals_done(world: &World, id: &str) -> u64 {
    let filter = doc! { "reverses": id, "state": "done" };
    world.store.transactions().count_documents(filter).await.expect("MongoDB is there")
}

async fn assert_balances(world: &World, a: i64, b: i64, c: i64) {
    for (account, balance) in [("a", a), ("b", b), ("c", c)] {
        assert_eq!(world.balance(account).await, Amount::Int(balance), "{account}");
    }
}

#[tokio::test]
async fn a_reversal_takes_every_leg_back() {
    let (world, worker) = world().await;
    let split = legs("split", &[("a", -30), ("b", 20), ("c", 10)]);
    world.submit(&[transfer("simple", "a", "b", 10), split], 2).await;
    world.wait_final(s(30)).await;
    assert_balances(&world, 60, 30, 10).await;
    world.producer(&["reverse", "split", "--wait"]).await.expect_success();
    assert_balances(&world, 90, 10, 0).await;
    world.producer(&["reverse", "simple", "--wait"]).await.expect_success();
    assert_balances(&world, 100, 0, 0).await;
    assert_eq!(world.state("simple").await, State::Done, "the original stays what it is");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn many_reversals_at_once_take_effect_once() {
    let (world, worker) = world().await;
    world.submit(&[transfer("t", "a", "b", 40)], 1).await;
    world.submit(&[transfer("more", "a", "b", 40)], 1).await;
    world.wait_final(s(30)).await;
    // There is enough on b for two of them.
    let reverse = || world.producer(&["reverse", "t", "--wait"]);
    let answers = tokio::join!(reverse(), reverse(), reverse(), reverse());
    for answer in [answers.0, answers.1, answers.2, answers.3] {
        answer.expect_success();
    }
    world.producer(&["reverse", "t", "--wait"]).await.expect_success();
    world.wait_final(s(30)).await;
    assert_eq!(reversals_done(&world, "t").await, 1);
    assert_balances(&world, 60, 40, 0).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_refused_reversal_may_be_tried_again_when_there_is_money() {
    let (world, worker) = world().await;
    world.submit(&[transfer("t", "a", "b", 40)], 1).await;
    world.wait_final(s(30)).await;
    world.submit(&[transfer("spent", "b", "c", 40)], 1).await;
    world.wait_final(s(30)).await;
    let refused = world.producer(&["reverse", "t", "--wait"]).await;
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert_balances(&world, 60, 0, 40).await;
    world.submit(&[transfer("returned", "c", "b", 40)], 1).await;
    world.wait_final(s(30)).await;
    world.producer(&["reverse", "t", "--wait"]).await.expect_success();
    assert_balances(&world, 100, 0, 0).await;
    assert_eq!(reversals_done(&world, "t").await, 1);
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_had_no_effect_is_not_reversed() {
    let (world, worker) = world().await;
    world.submit(&[transfer("refused", "a", "b", 1_000)], 1).await;
    world.wait_final(s(30)).await;
    world.insert(&[transfer("waiting", "a", "b", 1)]).await;
    for id in ["refused", "nothing"] {
        let answer = world.producer(&["reverse", id]).await;
        assert_eq!(answer.code, Some(1), "{id}: {answer:?}");
    }
    assert_eq!(reversals_done(&world, "refused").await, 0);
    world.wait_final(s(30)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_reversal_that_was_itself_reversed_is_told_with_the_one_to_reverse_now() {
    let (world, worker) = world().await;
    world.submit(&[transfer("t", "a", "b", 40)], 1).await;
    world.wait_final(s(30)).await;
    world.producer(&["reverse", "t", "--wait"]).await.expect_success();
    world.producer(&["reverse", "reverse:t", "--wait"]).await.expect_success();
    assert_balances(&world, 60, 40, 0).await;
    let told = world.producer(&["reverse", "t", "--wait"]).await;
    assert_eq!(told.code, Some(1), "{told:?}");
    let remedy = "\n  producer reverse reverse:reverse:t\n";
    assert!(told.stderr.contains(remedy), "{}", told.stderr);
    world.producer(&["reverse", "reverse:reverse:t", "--wait"]).await.expect_success();
    assert_balances(&world, 100, 0, 0).await;
    let known = world.producer(&["reverse", "t", "--wait"]).await.expect_success();
    assert!(known.stdout.contains("already reversed"), "{}", known.stdout);
    assert_balances(&world, 100, 0, 0).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
