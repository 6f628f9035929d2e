//! From the submission of a hold to its end, with workers of each engine.

use client::{Capture, Period, Submission};
use futures_util::future::join_all;
use harness::subscriber::Subscriber;
use harness::wait::{s, wait_until};
use harness::worker::Worker;
use harness::world::{World, legs, transfer};
use ledger::amount::Amount;
use ledger::transaction::State;
use mongodb::bson::DateTime;
use queue::WORK;
use serde_json::json;

use super::{account, on_hold, world};
use crate::history::world_with_history;

async fn worker(world: &World, engine: &str) -> Worker {
    world.worker("one").flag("--engine", engine).start().await
}

/// Submits a hold of so much, and waits until it rests.
async fn rests(world: &World, id: &str, value: i64) {
    world.submit(&[on_hold(transfer(id, "card", "shop", value), None)], 1).await;
    world.wait_state(id, State::Held, s(30)).await;
}

async fn assert_balances(world: &World, card: i64, shop: i64) {
    for (account, balance) in [("card", card), ("shop", shop)] {
        assert_eq!(world.balance(account).await, Amount::Int(balance), "{account}");
    }
    world.assert_at_rest().await;
}

async fn is_captured_in_part(engine: &str) {
    let world = world_with_history().await;
    world.accounts(&[("card", 100), ("shop", 0)]).await;
    let subscriber = Subscriber::new(&world).await;
    let untouched = account(&world, "shop").await;
    let worker = worker(&world, engine).await;
    rests(&world, "t", 50).await;
    let card = account(&world, "card").await;
    assert_eq!(card.get_i64("balance").ok(), Some(50), "{card}");
    assert_eq!(card.get_i64("pendingDebits").ok(), Some(50), "{card}");
    assert_eq!(card.get_array("pendingTransactions").map(Vec::len).ok(), Some(1), "{card}");
    assert_eq!(account(&world, "shop").await, untouched, "nothing of it is on the receiver");
    world.assert_at_rest().await;

    let confirm = ["confirm", "t", "--value", "30", "--wait", "--wait-limit", "30"];
    let said = world.producer(&confirm).await.expect_success();
    assert!(said.stdout.ends_with("t: done\n"), "{said:?}");
    assert_balances(&world, 70, 30).await;
    let event = subscriber.of(1, s(30)).await.remove(0).body;
    let captured = json!([
        { "account": "card", "amount": "-30" }, { "account": "shop", "amount": "30" },
    ]);
    assert_eq!((&event["captured"], &event["value"]), (&captured, &json!("50")));
    let again = world.producer(&["confirm", "t", "--value", "30"]).await.expect_success();
    assert!(again.stdout.starts_with("t: done; is already confirmed"), "{again:?}");

    let client = world.client().await;
    for (name, amount) in [("card", -30), ("shop", 30)] {
        let booked = client.statement(name, &Period::default(), 10, None).await.expect("booked");
        let amounts: Vec<Amount> = booked.entries.iter().map(|entry| entry.amount).collect();
        assert_eq!(amounts, [Amount::Int(amount)], "{name}");
        let from = Some(DateTime::now().to_system_time() + s(60));
        let later = Period { from, to: None };
        let later = client.statement(name, &later, 10, None).await.expect("a sum");
        assert_eq!(later.opening, booked.closing, "{name}: the server sums up what was captured");
    }
    world.producer(&["reverse", "t", "--wait"]).await.expect_success();
    assert_balances(&world, 100, 0).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_part_of_a_hold_is_captured_and_the_rest_comes_home_in_two_phases() {
    is_captured_in_part("two-phase").await;
}

#[tokio::test]
async fn a_part_of_a_hold_is_captured_and_the_rest_comes_home_with_auto() {
    is_captured_in_part("auto").await;
}

#[tokio::test]
async fn a_part_of_a_hold_is_captured_and_the_rest_comes_home_beside_native_transactions() {
    is_captured_in_part("transaction").await;
}

#[tokio::test]
async fn a_scheduled_hold_reserves_nothing_before_its_moment_and_is_confirmed_after_it() {
    let world = world().await;
    let client = world.client().await;
    let worker = worker(&world, "two-phase").await;
    let due = DateTime::now().timestamp_millis() + 4_000;
    let moment = DateTime::from_millis(due).to_system_time();
    let hold = Submission::transfer("card", "shop", 50).with_id("t").held().not_before(moment);
    let receipt = client.submit(hold.clone()).await.expect("submitted");
    assert_eq!(receipt.state, State::Scheduled);
    let early = client.confirm("t", &Capture::All).await.expect_err("nothing is reserved yet");
    assert!(early.to_string().contains("is scheduled and not held yet"), "{early}");
    assert_eq!(world.balance("card").await, Amount::Int(100));
    world.wait_state("t", State::Held, s(30)).await;
    let held = world.transaction("t").await;
    let claimed = held.get_datetime("claimedAt").expect("it was claimed").timestamp_millis();
    assert!(claimed >= due, "claimed {} ms too early", due - claimed);
    client.confirm("t", &Capture::Value(Amount::Int(20))).await.expect("it is held");
    world.wait_state("t", State::Done, s(30)).await;
    let again = client.submit(hold).await.expect("the same, whatever was captured");
    assert_eq!(again.known, Some(State::Done));
    assert_balances(&world, 80, 20).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn all_of_a_hold_is_captured_where_nothing_else_is_said_and_nothing_of_a_leg_may_be() {
    let world = world().await;
    let worker = worker(&world, "two-phase").await;
    rests(&world, "all", 40).await;
    world.producer(&["confirm", "all", "--wait"]).await.expect_success();
    assert_balances(&world, 60, 40).await;
    let split = legs("split", &[("card", -30), ("shop", 28), ("fee", 2)]);
    world.submit(&[on_hold(split, None)], 1).await;
    world.wait_state("split", State::Held, s(30)).await;
    let part = ["--capture", "card=-10", "--capture", "shop=10", "--capture", "fee=0", "--wait"];
    world.producer(&[&["confirm", "split"][..], &part].concat()).await.expect_success();
    assert_eq!(world.balance("fee").await, Amount::Int(0));
    assert_balances(&world, 50, 50).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_released_or_canceled_hold_comes_home() {
    let world = world().await;
    let worker = worker(&world, "two-phase").await;
    for (id, command) in [("released", "release"), ("canceled", "cancel")] {
        rests(&world, id, 50).await;
        world.producer(&[command, id, "--wait", "--wait-limit", "30"]).await.expect_success();
        assert_eq!(world.state(id).await, State::Canceled);
        assert_eq!(world.reason(id).await.as_deref(), Some("released"));
        assert_balances(&world, 100, 0).await;
        let late = world.producer(&["confirm", id]).await;
        assert_eq!(late.code, Some(1));
        assert!(late.stderr.contains("it was released"), "{late:?}");
    }
    drop(worker);
    world.finish().await;
}

/// The workers of tests have leases of 2 s and sweep twice a second: what is taken for stuck is
/// taken over within a few seconds.
#[tokio::test]
async fn nobody_touches_what_is_held_for_long_and_no_message_of_it_circles() {
    const TIMES_OF_A_LEASE: u32 = 5;
    let world = world().await;
    let workers = (world.worker("one").start().await, world.worker("two").start().await);
    rests(&world, "t", 50).await;
    // What is published once more is acknowledged, and no more.
    world.publish(&["t".into()], 1).await;
    let held = world.transaction("t").await;
    assert_eq!((held.get("claim"), held.get("leaseUntil")), (None, None), "nobody owns it");
    let until = std::time::Instant::now() + harness::worker::LEASE * TIMES_OF_A_LEASE;
    let mut others: i64 = 0;
    while std::time::Instant::now() < until {
        let id = format!("other{others}");
        // To and fro, so that nobody runs out of money.
        let (from, to) = if others % 2 == 0 { ("card", "shop") } else { ("shop", "card") };
        world.submit(&[transfer(&id, from, to, 1)], 1).await;
        world.wait_state(&id, State::Done, s(30)).await;
        others += 1;
        assert_eq!(world.transaction("t").await, held, "it is what it was");
    }
    world.queues.wait_depth(WORK, 0, s(30)).await;
    for worker in [&workers.0, &workers.1] {
        assert!(worker.metrics().await.sum("tandem_swept_total", &[("kind", "in_flight")]) < 0.5);
        // What is done is acknowledged a moment later.
        wait_until("each message is acknowledged", s(30), async || {
            worker.metrics().await.sum("tandem_messages_in_flight", &[]) < 0.5
        })
        .await;
    }
    world.producer(&["confirm", "t", "--wait"]).await.expect_success();
    assert_balances(&world, 50 - others % 2, 50 + others % 2).await;
    drop(workers);
    world.finish().await;
}

#[tokio::test]
async fn an_account_that_is_frozen_between_hold_and_confirmation_takes_nothing_and_all_comes_home()
{
    let world = world().await;
    let worker = worker(&world, "two-phase").await;
    rests(&world, "t", 50).await;
    world.producer(&["accounts", "freeze", "shop"]).await.expect_success();
    let confirmed = world.producer(&["confirm", "t", "--wait", "--wait-limit", "30"]).await;
    assert_eq!(confirmed.code, Some(4), "{confirmed:?}");
    assert_eq!(world.reason("t").await.as_deref(), Some("account_frozen"));
    assert_balances(&world, 100, 0).await;

    // The debit is reserved already: that its account is frozen does not matter any more.
    world.producer(&["accounts", "unfreeze", "shop"]).await.expect_success();
    rests(&world, "u", 50).await;
    world.producer(&["accounts", "freeze", "card"]).await.expect_success();
    world.producer(&["confirm", "u", "--value", "20", "--wait"]).await.expect_success();
    assert_balances(&world, 80, 20).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_wins_of_confirmations_and_releases_at_once_is_what_is_paid() {
    const HOLDS: i64 = 30;
    let world = world().await;
    let client = world.client().await;
    let worker = worker(&world, "two-phase").await;
    let ids: Vec<String> = (0..HOLDS).map(|n| format!("t{n}")).collect();
    let holds: Vec<_> =
        ids.iter().map(|id| on_hold(transfer(id, "card", "shop", 3), None)).collect();
    world.submit(&holds, 10).await;
    wait_until("all are held", s(60), async || {
        world.count(&[State::Held]).await == HOLDS.unsigned_abs()
    })
    .await;
    let raced = ids.iter().map(async |id| {
        let (one, two) = (Capture::Value(Amount::Int(1)), Capture::Value(Amount::Int(2)));
        let (one, two, released) =
            tokio::join!(client.confirm(id, &one), client.confirm(id, &two), client.release(id));
        assert_eq!(
            [one.is_ok(), two.is_ok(), released.is_ok()].map(u8::from).iter().sum::<u8>(),
            1
        );
        i64::from(one.is_ok()) + 2 * i64::from(two.is_ok())
    });
    let paid: i64 = join_all(raced).await.into_iter().sum();
    world.wait_final(s(60)).await;
    assert_balances(&world, 100 - paid, paid).await;
    drop(worker);
    world.finish().await;
}
