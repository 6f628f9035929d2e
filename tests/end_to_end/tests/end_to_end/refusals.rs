//! A transaction that must not be settled is canceled with its reason, has no effect, and does not
//! affect others.

use harness::wait::s;
use harness::world::{World, transfer};
use ledger::account::{Account, Status};
use ledger::amount::Amount;
use ledger::transaction::{Body, State};
use mongodb::bson::{DateTime, doc};
use serde_json::Value;

/// Accounts that refuse, each for its own reason, beside two that don't.
fn difficult_accounts() -> Vec<Account> {
    let account = |id: &str| Account::new(id, Amount::Int(100));
    let decimal = Amount::parse("100.00").expect("a decimal");
    vec![
        account("a"),
        account("b"),
        Account { status: Status::Frozen, ..account("frozen") },
        Account { status: Status::Closed, ..account("closed") },
        Account { currency: Some("EUR".into()), ..account("euros") },
        Account { floor: None, ..Account::new("full", Amount::Int(Amount::MAX)) },
        Account::new("decimal", decimal),
    ]
}

#[tokio::test]
async fn every_reason_is_named_and_the_rest_of_the_batch_is_settled() {
    let world = World::new().await;
    world.open(&difficult_accounts()).await;
    let euros = Body::transfer("a", "b", Amount::Int(1)).expect("valid");
    let refused = [
        (transfer("source-missing", "nobody", "b", 1), "account_not_found"),
        (transfer("destination-missing", "a", "nobody", 1), "account_not_found"),
        (transfer("source-frozen", "frozen", "b", 1), "account_frozen"),
        (transfer("destination-frozen", "a", "frozen", 1), "account_frozen"),
        (transfer("source-closed", "closed", "b", 1), "account_closed"),
        (transfer("destination-closed", "a", "closed", 1), "account_closed"),
        (transfer("account-in-euros", "a", "euros", 1), "currency_mismatch"),
        (("asked-in-euros".into(), euros.in_currency(Some("EUR".into()))), "currency_mismatch"),
        (transfer("too-much", "a", "b", 101), "insufficient_funds"),
        (transfer("too-full", "a", "full", 1), "balance_limit"),
        (transfer("other-kind", "a", "decimal", 1), "amount_type_mismatch"),
    ];
    let good = [transfer("good-1", "a", "b", 60), transfer("good-2", "b", "a", 5)];
    let mut all: Vec<_> = refused.iter().map(|(transaction, _)| transaction.clone()).collect();
    all.insert(5, good[0].clone());
    all.push(good[1].clone());
    let worker = world.worker("one").start().await;
    world.submit(&all, 100).await;
    world.wait_final(s(60)).await;
    for ((id, _), reason) in &refused {
        assert_eq!(world.state(id).await, State::Canceled, "{id}");
        assert_eq!(world.reason(id).await.as_deref(), Some(*reason), "{id}");
    }
    assert_eq!(world.count(&[State::Done]).await, 2);
    assert_eq!(world.balance("a").await, Amount::Int(45));
    assert_eq!(world.balance("b").await, Amount::Int(155));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

/// One line of the log says what became of the transaction, in whose hands.
fn assert_told_once(log: &str, id: &str) {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lines: Vec<Value> = lines.filter(|line| line["transaction"] == id).collect();
    let [line] = lines.as_slice() else { panic!("{id} is in {} lines:\n{log}", lines.len()) };
    assert_eq!(line["state"], "pending", "{line}");
    assert_eq!(line["attempt"], 1, "{line}");
    for field in ["claim", "worker", "code", "why"] {
        assert!(line[field].as_str().is_some_and(|text| !text.is_empty()), "no {field}: {line}");
    }
}

#[tokio::test]
async fn a_document_that_makes_no_sense_is_canceled_as_invalid() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let now = DateTime::now();
    let head = |id: &str| {
        doc! { "_id": id, "state": "initial", "createdAt": now, "lastModified": now }
    };
    let mut selfish = head("to-itself");
    selfish.extend(doc! { "source": "a", "destination": "a", "value": 1_i64 });
    let mut negative = head("negative");
    negative.extend(doc! { "source": "a", "destination": "b", "value": -1_i64 });
    let mut lopsided = head("lopsided");
    lopsided.extend(doc! { "legs": [
        { "account": "a", "amount": -5_i64 }, { "account": "b", "amount": 6_i64 },
    ] });
    let mut shapeless = head("shapeless");
    shapeless.extend(doc! { "legs": ["a", "b"] });
    let raw = [selfish, negative, lopsided, shapeless];
    world.store.transactions().insert_many(&raw).await.expect("the schema lets them in");
    world.insert(&[transfer("good", "a", "b", 10)]).await;
    let ids: Vec<_> =
        ["to-itself", "negative", "good", "lopsided", "shapeless"].map(Into::into).to_vec();
    let worker = world.worker("one").start().await;
    world.publish(&ids, 10).await;
    world.wait_final(s(60)).await;
    for document in &raw {
        let id = document.get_str("_id").expect("an id");
        assert_eq!(world.state(id).await, State::Canceled, "{id}");
        assert_eq!(world.reason(id).await.as_deref(), Some("invalid"), "{id}");
        assert_told_once(&worker.log(), id);
    }
    assert_eq!(world.balance("b").await, Amount::Int(10));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_fits_is_settled_when_the_sum_does_not() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0), ("rich", 1_000)]).await;
    let worker = world.worker("one").start().await;
    // Together they ask for more money than there is; the worker decides which of them are refused.
    let mut transfers: Vec<_> = (0..10).map(|n| transfer(&format!("t{n}"), "a", "b", 30)).collect();
    transfers.push(transfer("neighbour", "rich", "b", 500));
    world.submit(&transfers, 100).await;
    world.wait_final(s(60)).await;
    assert_eq!(world.state("neighbour").await, State::Done);
    assert_eq!(world.count(&[State::Done]).await, 4, "three of 30 and the neighbour");
    for n in 0..10 {
        let reason = world.reason(&format!("t{n}")).await;
        assert!(matches!(reason.as_deref(), None | Some("insufficient_funds")), "{reason:?}");
    }
    assert_eq!(world.balance("a").await, Amount::Int(10));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn money_that_is_only_on_its_way_cannot_be_spent() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0), ("c", 0)]).await;
    let worker = world.worker("one").start().await;
    // In one batch: b gets the money for the second only when the first is irrevocable.
    let transfers = [transfer("t1", "a", "b", 100), transfer("t2", "b", "c", 100)];
    world.submit(&transfers, 2).await;
    world.wait_final(s(60)).await;
    assert_eq!(world.state("t1").await, State::Done);
    assert_eq!(world.reason("t2").await.as_deref(), Some("insufficient_funds"));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn no_account_falls_below_its_floor_at_any_moment() {
    let world = World::new().await;
    let account = |id: &str, balance| Account::new(id, Amount::Int(balance));
    let accounts = [
        account("zero", 50),
        Account { floor: Some(Amount::Int(20)), ..account("positive", 50) },
        Account { floor: Some(Amount::Int(-30)), ..account("overdraft", 50) },
        Account { floor: None, ..account("system", 0) },
        account("sink", 0),
    ];
    world.open(&accounts).await;
    let workers = tokio::join!(
        world.worker("one").flag("--batch-size", 4).start(),
        world.worker("two").flag("--batch-size", 3).start(),
    );
    let transfers: Vec<_> = (0..80)
        .flat_map(|n| {
            ["zero", "positive", "overdraft", "system"]
                .map(|from| transfer(&format!("{from}-{n}"), from, "sink", 3))
        })
        .collect();
    world.submit(&transfers, 3).await;
    let below = doc! { "floor": { "$ne": null }, "$expr": { "$lt": ["$balance", "$floor"] } };
    harness::wait::wait_until("every transaction is final", s(60), async || {
        let accounts = world.store.accounts();
        let fallen = accounts.find_one(below.clone()).await.expect("MongoDB is there");
        assert!(fallen.is_none(), "below its floor: {fallen:?}");
        world.count(&State::UNFINISHED).await == 0
    })
    .await;
    for (id, left) in [("zero", 2), ("positive", 20), ("overdraft", -28), ("system", -240)] {
        assert_eq!(world.balance(id).await, Amount::Int(left), "{id}");
    }
    world.assert_at_rest().await;
    drop(workers);
    world.finish().await;
}
