//! An account that can't be read or written costs only the transactions that name it.

use harness::odd::{self, account_faults};
use harness::wait::s;
use harness::world::{World, transfer};
use ledger::account::Account;
use ledger::amount::Amount;
use ledger::transaction::{Body, State};
use mongodb::bson::{DateTime, Document, doc};

use super::{
    SOON, add_rule, good, is_parked, set_validator, submit_beside, wait_done, wait_ended_or_parked,
    worker_without_sweeper,
};

#[tokio::test]
async fn a_floor_beyond_the_limits_stops_no_transaction_that_does_not_touch_it() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("d", 0), ("poor", 0)]).await;
    let mut x = Account::new("x", Amount::ZERO).to_document(DateTime::now());
    x.insert("floor", i64::MIN);
    odd::insert(&world.store.accounts(), &[x]).await;
    let worker = worker_without_sweeper(&world).start().await;
    let transfers =
        [transfer("t1", "a", "x", 5), transfer("t2", "poor", "d", 5), transfer("t3", "a", "d", 5)];
    world.submit(&transfers, 3).await;
    world.wait_state("t3", State::Done, SOON).await;
    world.wait_state("t2", State::Canceled, SOON).await;
    assert_eq!(world.reason("t2").await.as_deref(), Some("insufficient_funds"));
    world.wait_final(SOON).await;
    if world.state("t1").await == State::Canceled {
        assert_eq!(world.reason("t1").await.as_deref(), Some("account_invalid"));
    }
    let audit = world.audit().await;
    assert!(audit.is_success() || audit.stdout.contains("accounts/x"), "{}", audit.stdout);
    odd::edit(&world.store.accounts(), "x", doc! { "$set": { "floor": 0_i64 } }).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn an_account_that_cannot_be_read_is_neither_credited_nor_debited() {
    let world = World::new().await;
    let decimal = |text: &str| Amount::parse(text).expect("a decimal");
    world.accounts(&[("a", 1_000), ("b", 0), ("int", 1_000)]).await;
    world.open(&[Account::new("decimal", decimal("1000.00"))]).await;
    let faults = account_faults();
    let before: Vec<Document> = faults.iter().map(|fault| fault.account(&fault.name)).collect();
    odd::insert(&world.store.accounts(), &before).await;
    let mut wrong = Vec::new();
    for fault in &faults {
        let (payer, value) =
            if fault.decimal { ("decimal", decimal("5.00")) } else { ("int", Amount::Int(5)) };
        let move_5 = |from: &str, to: &str| Body::transfer(from, to, value).expect("valid");
        wrong.push((format!("credit-{}", fault.name).into(), move_5(payer, &fault.name)));
        wrong.push((format!("debit-{}", fault.name).into(), move_5(&fault.name, payer)));
    }
    world.insert(&wrong).await;
    let worker = worker_without_sweeper(&world).start().await;
    let good = good(20);
    let odd_ids: Vec<&str> = wrong.iter().map(|(id, _)| id.as_ref()).collect();
    submit_beside(&world, &good, &odd_ids).await;
    wait_done(&world, &good, SOON).await;
    for id in &odd_ids {
        wait_ended_or_parked(&world, id, s(60)).await;
        // If the marks can't be read, nobody knows whether the account holds money for it.
        if id.contains("pendingTransactions") && is_parked(&world, id).await {
            continue;
        }
        let reason = world.reason(id).await;
        assert_eq!(reason.as_deref(), Some("account_invalid"), "{id}");
        assert_eq!(world.state(id).await, State::Canceled, "{id}");
    }
    for account in &before {
        let id = account.get_str("_id").expect("an id");
        let now = world.store.accounts().find_one(doc! { "_id": id }).await;
        let now = now.expect("MongoDB is there").expect("the account is there");
        // Compared as text: NaN is not equal to itself.
        assert_eq!(format!("{now:?}"), format!("{account:?}"), "{id} has changed");
    }
    assert_eq!(world.balance("int").await, Amount::Int(1_000));
    assert_eq!(world.balance("decimal").await, decimal("1000.00"));
    let names: Vec<&str> = faults.iter().map(|fault| fault.name.as_str()).collect();
    super::remove(&world, "accounts", &names).await;
    world.producer(&["unpark", "--all"]).await.expect_success();
    world.wait_final(s(30)).await;
    assert_eq!(world.count(&[State::Done]).await, good.len() as u64);
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

/// Names of accounts in a ring of transfers: t00 from a00 to a01, and so on.
fn ring(size: usize) -> (Vec<String>, Vec<(ledger::transaction::TransactionId, Body)>) {
    let names: Vec<String> = (0..size).map(|n| format!("a{n:02}")).collect();
    let transfers = (0..size)
        .map(|n| transfer(&format!("t{n:02}"), &names[n], &names[(n + 1) % size], 10))
        .collect();
    (names, transfers)
}

#[tokio::test]
async fn an_account_that_the_server_will_not_change_costs_only_those_who_name_it() {
    let world = World::new().await;
    // In the middle of one statement for all of them, in whichever order they are processed.
    let (names, transfers) = ring(20);
    let accounts: Vec<_> = names.iter().map(|name| (name.as_str(), 100)).collect();
    world.accounts(&accounts).await;
    let worker = worker_without_sweeper(&world).start().await;
    let before = add_rule(&world, "accounts", doc! { "_id": { "$ne": "a10" } }).await;
    world.submit(&transfers, 100).await;
    let (touching, others): (Vec<_>, Vec<_>) =
        transfers.into_iter().partition(|(id, _)| ["t09", "t10"].contains(&id.as_ref()));
    wait_done(&world, &others, SOON).await;
    world.wait_final(s(60)).await;
    for (id, _) in &touching {
        assert_eq!(world.reason(id).await.as_deref(), Some("account_invalid"), "{id}");
    }
    set_validator(&world, "accounts", before).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_state_that_the_server_will_not_write_costs_only_that_transaction() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let worker = worker_without_sweeper(&world).start().await;
    let never = doc! { "$nor": [{ "_id": "odd", "state": State::Applied }] };
    let before = add_rule(&world, "transactions", never).await;
    world.insert(&[transfer("odd", "a", "b", 7)]).await;
    let good = good(20);
    submit_beside(&world, &good, &["odd"]).await;
    wait_done(&world, &good, SOON).await;
    wait_ended_or_parked(&world, "odd", s(60)).await;
    set_validator(&world, "transactions", before).await;
    if world.state("odd").await != State::Canceled {
        world.producer(&["unpark", "odd"]).await.expect_success();
        world.wait_state("odd", State::Done, s(30)).await;
    }
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
