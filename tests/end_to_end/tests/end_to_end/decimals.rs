//! A ledger in Decimal128, and the ends of the number range.

use harness::wait::s;
use harness::world::{World, transfer};
use ledger::account::Account;
use ledger::amount::Amount;
use ledger::transaction::{Body, Leg, State, TransactionId};

fn decimal(text: &str) -> Amount {
    Amount::parse(text).expect("a decimal")
}

fn pay(id: &str, from: &str, to: &str, value: &str) -> (TransactionId, Body) {
    (id.into(), Body::transfer(from, to, decimal(value)).expect("a valid transfer"))
}

#[tokio::test]
async fn a_decimal_ledger_is_exact_to_the_last_place() {
    let world = World::new().await;
    let accounts = [("a", "100.00"), ("b", "0.00"), ("c", "0.000000001")]
        .map(|(id, balance)| Account::new(id, decimal(balance)));
    world.open(&accounts).await;
    let worker = world.worker("one").start().await;
    // A tenth has no exact binary form: a sum of floats would be wrong.
    let mut all: Vec<_> = (0..300).map(|n| pay(&format!("t{n}"), "a", "b", "0.10")).collect();
    all.push(pay("dust", "c", "b", "0.000000001"));
    all.push(pay("too-much-dust", "c", "b", "0.000000002"));
    let leg =
        |account: &str, amount: &str| Leg { account: account.into(), amount: decimal(amount) };
    let split = vec![leg("a", "-0.30"), leg("b", "0.199999999"), leg("c", "0.100000001")];
    all.push(("split".into(), Body::new(split).expect("valid legs")));
    world.submit(&all, 20).await;
    world.wait_final(s(60)).await;
    assert_eq!(world.reason("too-much-dust").await.as_deref(), Some("insufficient_funds"));
    assert_eq!(world.count(&[State::Done]).await, 302);
    assert_eq!(world.balance("a").await, decimal("69.70"));
    assert_eq!(world.balance("b").await, decimal("30.200000000"));
    assert_eq!(world.balance("c").await, decimal("0.100000001"));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn whole_and_decimal_amounts_never_mix() {
    let world = World::new().await;
    world.open(&[Account::new("whole", Amount::Int(100))]).await;
    world.open(&[Account::new("decimal", decimal("100.00"))]).await;
    let worker = world.worker("one").start().await;
    let mixed = [
        transfer("whole-to-decimal", "whole", "decimal", 1),
        pay("decimal-to-whole", "decimal", "whole", "1.00"),
    ];
    world.submit(&mixed, 2).await;
    world.wait_final(s(30)).await;
    for (id, _) in &mixed {
        assert_eq!(world.reason(id).await.as_deref(), Some("amount_type_mismatch"), "{id}");
    }
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn sums_near_the_limit_are_exact_or_refused() {
    let world = World::new().await;
    let unlimited =
        |id: &str, balance: i64| Account { floor: None, ..Account::new(id, Amount::Int(balance)) };
    let accounts = [
        unlimited("bottom", -(Amount::MAX - 5)),
        unlimited("mint", 0),
        Account::new("top", Amount::Int(Amount::MAX - 5)),
        Account::new("small", Amount::Int(100)),
    ];
    world.open(&accounts).await;
    let worker = world.worker("one").start().await;
    let transfers = [
        transfer("fits-at-the-top", "small", "top", 5),
        transfer("over-the-top", "small", "top", 6),
        transfer("fits-at-the-bottom", "bottom", "small", 5),
        transfer("below-the-bottom", "bottom", "small", 6),
        // Their sum does not fit an amount, or even an Int64: they can't be one posting.
        transfer("huge-1", "mint", "top", Amount::MAX),
        transfer("huge-2", "mint", "top", Amount::MAX),
        transfer("huge-3", "mint", "small", Amount::MAX),
    ];
    for one in &transfers {
        world.submit(std::slice::from_ref(one), 1).await;
        world.wait_final(s(30)).await;
    }
    for id in ["over-the-top", "below-the-bottom", "huge-1", "huge-2", "huge-3"] {
        assert_eq!(world.reason(id).await.as_deref(), Some("balance_limit"), "{id}");
    }
    assert_eq!(world.balance("top").await, Amount::Int(Amount::MAX));
    assert_eq!(world.balance("bottom").await, Amount::Int(-Amount::MAX));
    assert_eq!(world.balance("small").await, Amount::Int(100));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_batch_whose_sums_overflow_settles_what_fits() {
    let world = World::new().await;
    let unlimited = |id: &str| Account { floor: None, ..Account::new(id, Amount::Int(0)) };
    world.open(&[unlimited("mint"), unlimited("vault"), unlimited("other")]).await;
    let worker = world.worker("one").start().await;
    let transfers = [
        transfer("first", "mint", "vault", Amount::MAX),
        transfer("second", "mint", "vault", Amount::MAX),
        transfer("third", "mint", "vault", Amount::MAX),
        transfer("small", "other", "vault", 1),
    ];
    world.submit(&transfers, 10).await;
    world.wait_final(s(60)).await;
    let done = world.count(&[State::Done]).await;
    assert!((1..=2).contains(&done), "one of the three, and perhaps the small one: {done}");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
