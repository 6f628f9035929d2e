//! What workers make of holds: they rest, are confirmed and released, and nobody disturbs them.

use harness::wait::{s, wait_until};
use harness::world::{World, legs, transfer};
use ledger::amount::Amount;
use ledger::limits::HOLDS_MAX;
use ledger::transaction::{Body, Leg, Reason, ReasonCode, State, Terms, TransactionId};
use mongodb::bson::{Document, doc};

/// The same transaction as a hold.
fn held((id, body): (TransactionId, Body)) -> (TransactionId, Body) {
    (id, body.with_terms(Terms { hold: true, ..Terms::default() }).expect("a hold"))
}

/// Confirms a hold and lets the workers know.
async fn confirm(world: &World, id: &str, captured: &[(&str, i64)]) {
    let leg = |(account, amount): &(&str, i64)| Leg {
        account: (*account).into(),
        amount: Amount::Int(*amount),
    };
    let captured: Vec<Leg> = captured.iter().map(leg).collect();
    world.store.confirm_holds(&[(id.into(), captured)]).await.expect("MongoDB is there");
    world.publish(&[id.into()], 1).await;
}

async fn release(world: &World, id: &str) {
    let reason = Reason::new(ReasonCode::Released, "released by the test");
    world.store.release_holds(&[id], &reason).await.expect("MongoDB is there");
    world.publish(&[id.into()], 1).await;
}

async fn account(world: &World, id: &str) -> Document {
    let found = world.store.accounts().find_one(doc! { "_id": id }).await;
    found.expect("MongoDB is there").expect("the account is there")
}

async fn assert_balances(world: &World, expected: &[(&str, i64)]) {
    for (account, balance) in expected {
        assert_eq!(world.balance(account).await, Amount::Int(*balance), "{account}");
    }
}

#[tokio::test]
async fn a_hold_reserves_its_debit_and_touches_nobody_else_until_it_is_confirmed_in_part() {
    for engine in ["two-phase", "auto"] {
        let world = World::new().await;
        world.accounts(&[("card", 100), ("shop", 0), ("fees", 0)]).await;
        let worker = world.worker("one").env("TANDEM_ENGINE", engine).start().await;
        let before = account(&world, "shop").await;
        world.submit(&[held(legs("t", &[("card", -70), ("shop", 60), ("fees", 10)]))], 1).await;
        world.wait_state("t", State::Held, s(30)).await;
        assert_balances(&world, &[("card", 30), ("shop", 0), ("fees", 0)]).await;
        assert_eq!(account(&world, "shop").await, before, "nothing of it is on the receiver");
        let card = account(&world, "card").await;
        assert_eq!(card.get_i64("pendingDebits").ok(), Some(70));
        assert_eq!(card.get("pendingHolds").and_then(|holds| holds.as_i64()), Some(1));

        // What is on hold can't be spent, and what is not can.
        world.submit(&[transfer("too-much", "card", "shop", 31)], 1).await;
        world.submit(&[transfer("enough", "card", "shop", 30)], 1).await;
        world.wait_state("too-much", State::Canceled, s(30)).await;
        world.wait_state("enough", State::Done, s(30)).await;

        confirm(&world, "t", &[("card", -44), ("shop", 40), ("fees", 4)]).await;
        world.wait_state("t", State::Done, s(30)).await;
        assert_balances(&world, &[("card", 26), ("shop", 70), ("fees", 4)]).await;
        let card = account(&world, "card").await;
        assert_eq!(card.get_i64("pendingDebits").ok(), Some(0));
        assert_eq!(card.get("pendingHolds").and_then(|holds| holds.as_i64()), Some(0));
        drop(worker);
        world.finish().await;
    }
}

#[tokio::test]
async fn a_released_hold_goes_home_and_says_why() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    world.submit(&[held(transfer("t", "a", "b", 70))], 1).await;
    world.wait_state("t", State::Held, s(30)).await;
    release(&world, "t").await;
    world.wait_state("t", State::Canceled, s(30)).await;
    assert_eq!(world.reason("t").await.as_deref(), Some("released"));
    assert_balances(&world, &[("a", 100), ("b", 0)]).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_could_not_be_confirmed_later_is_refused_at_once() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    world.submit(&[held(transfer("nobody", "a", "missing", 70))], 1).await;
    world.submit(&[held(transfer("poor", "b", "a", 70))], 1).await;
    for (id, code) in [("nobody", "account_not_found"), ("poor", "insufficient_funds")] {
        world.wait_state(id, State::Canceled, s(30)).await;
        assert_eq!(world.reason(id).await.as_deref(), Some(code));
    }
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_confirmed_hold_whose_receiver_refuses_goes_home_in_full() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    world.submit(&[held(transfer("t", "a", "b", 70))], 1).await;
    world.wait_state("t", State::Held, s(30)).await;
    let frozen = doc! { "$set": { "status": "frozen" } };
    world.store.accounts().update_one(doc! { "_id": "b" }, frozen).await.expect("MongoDB is there");
    confirm(&world, "t", &[("a", -50), ("b", 50)]).await;
    world.wait_state("t", State::Canceled, s(30)).await;
    assert_eq!(world.reason("t").await.as_deref(), Some("account_frozen"));
    assert_balances(&world, &[("a", 100), ("b", 0)]).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn an_account_has_so_many_holds_and_no_more_and_can_confirm_all_of_them() {
    let world = World::new().await;
    let most = usize::try_from(HOLDS_MAX).expect("small");
    world.accounts(&[("a", 1_000_000), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    let one = |n: usize| held(transfer(&format!("t{n}"), "a", "b", 5));
    let holds: Vec<_> = (0..most + 10).map(one).collect();
    world.submit(&holds, 100).await;
    wait_until("all have rested or were refused", s(60), async || {
        world.count(&[State::Held, State::Canceled]).await == most as u64 + 10
    })
    .await;
    assert_eq!(world.count(&[State::Held]).await, most as u64);
    world.submit(&[transfer("plain", "a", "b", 1)], 1).await;
    world.wait_state("plain", State::Done, s(30)).await;
    let open = world.store.transactions().distinct("_id", doc! { "state": "held" }).await;
    for id in open.expect("MongoDB is there") {
        let id = id.as_str().expect("a text");
        let captured = [("a", -2), ("b", 2)]
            .map(|(account, amount)| Leg { account: account.into(), amount: Amount::Int(amount) });
        world
            .store
            .confirm_holds(&[(id.into(), captured.to_vec())])
            .await
            .expect("MongoDB is there");
        world.publish(&[id.into()], 1).await;
    }
    wait_until("all confirmed ones are done", s(60), async || {
        world.count(&[State::Done]).await == most as u64 + 1
    })
    .await;
    let paid = 2 * i64::from(HOLDS_MAX) + 1;
    assert_balances(&world, &[("a", 1_000_000 - paid), ("b", paid)]).await;
    let refused = world.store.transactions().find_one(doc! { "state": "canceled" }).await;
    let refused = refused.expect("MongoDB is there").expect("ten were refused");
    let reason = refused.get_document("reason").expect("a reason");
    assert_eq!(reason.get_str("code").ok(), Some("hold_limit"));
    drop(worker);
    world.finish().await;
}
