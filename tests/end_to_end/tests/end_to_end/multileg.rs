//! Transactions of many legs: all of them or none.

use harness::proxy::Part;
use harness::wait::s;
use harness::world::{World, legs, transfer};
use ledger::amount::Amount;
use ledger::transaction::{LEGS_MAX, State};

async fn assert_balances(world: &World, expected: &[(&str, i64)]) {
    for (account, balance) in expected {
        assert_eq!(world.balance(account).await, Amount::Int(*balance), "{account}");
    }
}

#[tokio::test]
async fn a_purchase_pays_seller_fee_and_tax_at_once() {
    let world = World::new().await;
    world.accounts(&[("buyer", 1_000), ("seller", 0), ("fees", 0), ("tax", 0)]).await;
    let worker = world.worker("one").start().await;
    let purchase = [("buyer", -100), ("seller", 80), ("fees", 1), ("tax", 19)];
    let purchases: Vec<_> = (0..30).map(|n| legs(&format!("p{n}"), &purchase)).collect();
    world.submit(&purchases, 7).await;
    world.wait_final(s(60)).await;
    // There is money for ten of them.
    assert_eq!(world.count(&[State::Done]).await, 10);
    assert_balances(&world, &[("buyer", 0), ("seller", 800), ("fees", 10), ("tax", 190)]).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn one_refused_leg_refuses_all_of_them() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 5), ("c", 0), ("d", 0)]).await;
    let worker = world.worker("one").start().await;
    let both = legs("both", &[("a", -50), ("b", -10), ("c", 30), ("d", 30)]);
    let missing = legs("missing", &[("a", -50), ("c", 25), ("nobody", 25)]);
    world.submit(&[both, missing, transfer("good", "a", "d", 100)], 3).await;
    world.wait_final(s(60)).await;
    assert_eq!(world.reason("both").await.as_deref(), Some("insufficient_funds"));
    assert_eq!(world.reason("missing").await.as_deref(), Some("account_not_found"));
    // While the others held a's money, the valid one may have found too little: then it is refused.
    let good = world.state("good").await;
    let expected = if good == State::Done { (0, 100) } else { (100, 0) };
    assert_balances(&world, &[("a", expected.0), ("b", 5), ("c", 0), ("d", expected.1)]).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_payroll_pays_everybody_in_one_transaction() {
    const PEOPLE: usize = 500;
    let world = World::new().await;
    let names: Vec<String> = (0..PEOPLE).map(|n| format!("person-{n}")).collect();
    let mut accounts = vec![("employer", 1_000_000)];
    accounts.extend(names.iter().map(|name| (name.as_str(), 0)));
    world.accounts(&accounts).await;
    let total = i64::try_from(PEOPLE).expect("small") * 1_000;
    let mut payroll = vec![("employer", -total)];
    payroll.extend(names.iter().map(|name| (name.as_str(), 1_000)));
    let worker = world.worker("one").start().await;
    world.submit(&[legs("march", &payroll), legs("april", &payroll)], 1).await;
    // There is no money for May: nobody gets anything.
    world.submit(&[legs("may", &payroll)], 1).await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 2);
    assert_balances(&world, &[("employer", 0), ("person-0", 2_000), ("person-499", 2_000)]).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_batch_of_the_largest_transactions_is_settled() {
    let world = World::new().await;
    let names: Vec<String> = (0..LEGS_MAX - 1).map(|n| format!("account-{n}")).collect();
    let mut accounts = vec![("source", 1_000_000)];
    accounts.extend(names.iter().map(|name| (name.as_str(), 0)));
    world.accounts(&accounts).await;
    let total = i64::try_from(names.len()).expect("small");
    let mut largest = vec![("source", -total)];
    largest.extend(names.iter().map(|name| (name.as_str(), 1)));
    let transactions: Vec<_> = (0..5).map(|n| legs(&format!("t{n}"), &largest)).collect();
    let worker = world.worker("one").flag("--op-limit-ms", 5_000).flag("--grace-ms", 6_000);
    let worker = worker.flag("--lease-ms", 20_000).start().await;
    world.submit(&transactions, 5).await;
    world.wait_final(s(90)).await;
    assert_eq!(world.count(&[State::Done]).await, 5);
    assert_balances(&world, &[("account-0", 5), ("account-998", 5)]).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_worker_killed_between_the_legs_leaves_all_of_them_or_none() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0), ("c", 0), ("d", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let mut first = world.worker("first").mongodb(&uri).start().await;
    let held = proxy.hold("settle", 1, Part::Reply);
    let good = legs("good", &[("a", -30), ("b", 10), ("c", 10), ("d", 10)]);
    let refused = legs("refused", &[("a", -30), ("b", 10), ("c", 10), ("nobody", 10)]);
    world.submit(&[good, refused], 2).await;
    held.caught(s(20)).await;
    first.kill();
    held.discard();
    let second = world.worker("second").start().await;
    world.wait_final(s(60)).await;
    assert_balances(&world, &[("a", 70), ("b", 10), ("c", 10), ("d", 10)]).await;
    world.assert_at_rest().await;
    drop(second);
    world.finish().await;
}
