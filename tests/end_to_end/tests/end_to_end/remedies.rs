//! What is refused because of a document says field, value, kind and remedy. Each remedy is
//! followed here, as it is told, and then it settles.

use harness::odd;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::account::Account;
use ledger::amount::Amount;
use ledger::transaction::State;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::neighbours::add_rule;
use super::numbers::{ENGINES, pays, submit};

/// The first number that a sentence tells to write, as `mongosh` would read it.
fn advised(sentence: &str) -> Bson {
    let (_, advice) = sentence.split_once("; write ").unwrap_or_else(|| panic!("{sentence}"));
    let at = advice.find("Number").unwrap_or_else(|| panic!("{sentence}"));
    let (function, rest) = advice[at..].split_once("(\"").expect("a call");
    let (number, _) = rest.split_once("\")").expect("its end");
    match function {
        "NumberLong" => Bson::Int64(number.parse().expect("a whole number")),
        "NumberDecimal" => Bson::Decimal128(number.parse().expect("a decimal")),
        other => panic!("{other} in {sentence}"),
    }
}

/// The sentence of a cancelation.
async fn reason(world: &World, id: &str) -> String {
    let canceled = world.transaction(id).await;
    let reason = canceled.get_document("reason").and_then(|reason| reason.get_str("message"));
    reason.unwrap_or_else(|_| panic!("{canceled}")).to_owned()
}

/// What is paid as a sentence advises is done.
async fn assert_settles(world: &World, paid: Document, advice: &str) {
    let id = paid.get_str("_id").expect("an id").to_owned();
    submit(world, &[paid]).await;
    world.wait_final(s(30)).await;
    assert_eq!(world.state(&id).await, State::Done, "{id}: {advice}");
}

/// The sentence why a transaction is parked.
pub(super) async fn parked(world: &World, id: &str) -> String {
    let notes = world.store.database().collection::<Document>(mongo::NOTES);
    let mut sentence = None;
    wait_until(&format!("{id} is parked"), s(60), async || {
        let note = notes.find_one(doc! { "_id": id }).await.expect("MongoDB is there");
        let transaction = world.transaction(id).await;
        let within = transaction.get_document("parked").ok().cloned();
        sentence = note.or(within).and_then(|why| Some(why.get_str("message").ok()?.to_owned()));
        sentence.is_some()
    })
    .await;
    sentence.expect("it was waited for")
}

/// A field of an account, the value in it, and what is told of it.
fn wrong_accounts() -> Vec<(&'static str, Bson, &'static str)> {
    vec![
        ("balance", 100.5.into(), "balance: 100.5 is a double with a fraction"),
        ("balance", 1e16.into(), "balance: 10000000000000000 is a double of 2^53 or more"),
        ("balance", f64::NAN.into(), "balance: NaN is no number"),
        ("balance", "100".into(), "balance: \"100\" is a text"),
        ("balance", true.into(), "balance: a value of the type Boolean is no number"),
        ("pendingDebits", 0.5.into(), "pendingDebits: 0.5 is a double with a fraction"),
        ("floor", "-50".into(), "floor: \"-50\" is a text"),
    ]
}

#[tokio::test]
async fn what_is_wrong_with_an_account_is_told_with_a_remedy_that_helps() {
    for engine in ENGINES {
        let world = World::new().await;
        world.accounts(&[("whole", 0)]).await;
        world.open(&[Account::new("exact", Amount::parse("0.00").expect("a decimal"))]).await;
        let worker = world.worker("one").flag("--engine", engine).start().await;
        for (at, (field, value, told)) in wrong_accounts().into_iter().enumerate() {
            let id = format!("account-{at}");
            let mut document = doc! { "_id": &id, "balance": 2_000_i64 };
            document.insert(field, value);
            odd::insert(&world.store.accounts(), &[document]).await;
            let (before, after) = (format!("before-{at}"), format!("after-{at}"));
            world.submit(&[transfer(&before, &id, "whole", 1)], 1).await;
            world.wait_state(&before, State::Canceled, s(30)).await;
            let reason = reason(&world, &before).await;
            assert!(reason.contains(&format!("account {id:?}: {told}")), "{reason}");
            let right = advised(&reason);
            let is_decimal = matches!(right, Bson::Decimal128(_));
            // Pending sums of what Tandem has never posted mean nothing.
            let right = if field == "pendingDebits" { Bson::Int64(0) } else { right };
            odd::edit(&world.store.accounts(), &id, doc! { "$set": { field: right } }).await;
            let (to, value) = match is_decimal {
                true => ("exact", Amount::parse("1.50").expect("a decimal")),
                false => ("whole", Amount::Int(1)),
            };
            assert_settles(&world, pays(&after, &id, to, value), &reason).await;
        }
        world.assert_at_rest().await;
        drop(worker);
        world.finish().await;
    }
}

#[tokio::test]
async fn what_is_no_number_on_an_account_is_told_with_a_remedy_that_helps() {
    let world = World::new().await;
    world.accounts(&[("b", 10)]).await;
    let worker = world.worker("one").start().await;
    for (at, (field, wrong, told, right)) in [
        ("status", Bson::from("thawed"), "is not open, frozen or closed", Bson::from("open")),
        ("status", 7.into(), "status is of the type Int32, and no text", Bson::from("open")),
        (
            "pendingTransactions",
            "t".into(),
            "is of the type String, and no list; write []",
            Bson::Array(vec![]),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("account-{at}");
        let mut document = doc! { "_id": &id, "balance": 5_i64 };
        document.insert(field, wrong);
        odd::insert(&world.store.accounts(), &[document]).await;
        let (before, after) = (format!("before-{at}"), format!("after-{at}"));
        world.submit(&[transfer(&before, "b", &id, 1)], 1).await;
        // Where marks can't be read, nobody knows that there is none: it is parked while it is
        // being undone.
        wait_until("it is canceled or parked", s(30), async || {
            let found = world.transaction(&before).await;
            found.contains_key("parked") || world.state(&before).await == State::Canceled
        })
        .await;
        let reason = reason(&world, &before).await;
        assert!(reason.contains(told), "{reason}");
        odd::edit(&world.store.accounts(), &id, doc! { "$set": { field: right } }).await;
        world.producer(&["unpark", "--all"]).await.expect_success();
        world.wait_state(&before, State::Canceled, s(30)).await;
        world.submit(&[transfer(&after, &id, "b", 1)], 1).await;
        world.wait_state(&after, State::Done, s(30)).await;
    }
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

/// Without a validator, a worker finds out what is wrong with a value.
#[tokio::test]
async fn what_is_wrong_with_a_value_is_told_with_a_remedy_that_helps() {
    for engine in ENGINES {
        let world = World::new().await;
        super::numbers::drop_validators(&world).await;
        let exact =
            |id: &str, balance: &str| Account::new(id, Amount::parse(balance).expect("a decimal"));
        let unlimited = Account { floor: None, ..Account::new("a", Amount::ZERO) };
        world.open(&[unlimited, Account::new("b", Amount::ZERO)]).await;
        world.open(&[exact("x", "100.00"), exact("y", "0.00")]).await;
        let worker = world.worker("one").flag("--engine", engine).start().await;
        for (at, (value, told)) in [
            (Bson::from(12.5), "value: 12.5 is a double with a fraction"),
            (Bson::from(0.1 + 0.2), "value: 0.30000000000000004 is a double with a fraction"),
            (Bson::from(1e16), "value: 10000000000000000 is a double of 2^53 or more"),
            (Bson::from("12.50"), "value: \"12.50\" is a text"),
            (Bson::from("7"), "value: \"7\" is a text"),
            (Bson::from(vec![1]), "value: a value of the type Array is no number"),
            (Bson::from(f64::INFINITY), "value: inf is no number"),
        ]
        .into_iter()
        .enumerate()
        {
            let (before, after) = (format!("before-{at}"), format!("after-{at}"));
            submit(&world, &[pays(&before, "a", "b", value)]).await;
            world.wait_state(&before, State::Canceled, s(30)).await;
            let reason = reason(&world, &before).await;
            assert!(reason.contains(told), "{reason}");
            let value = advised(&reason);
            let is_decimal = matches!(value, Bson::Decimal128(_));
            let (from, to) = if is_decimal { ("x", "y") } else { ("a", "b") };
            assert_settles(&world, pays(&after, from, to, value), &reason).await;
        }
        world.assert_at_rest().await;
        drop(worker);
        world.finish().await;
    }
}

/// With a validator, the server refuses the claim of what was there before it.
#[tokio::test]
async fn what_the_validator_refuses_is_told_by_field_and_comes_back_as_it_says() {
    for engine in ENGINES {
        let world = World::new().await;
        world.open(&[Account::new("x", Amount::parse("100.00").expect("a decimal"))]).await;
        world.open(&[Account::new("y", Amount::parse("0.00").expect("a decimal"))]).await;
        let wrong = pays("t", "x", "y", "12.50");
        odd::insert(&world.store.transactions(), &[wrong]).await;
        let worker = world.worker("one").flag("--engine", engine).start().await;
        world.publish(&["t".into()], 1).await;
        let why = parked(&world, "t").await;
        for told in ["value: \"12.50\" is a text", "(code 121)", "producer unpark t"] {
            assert!(why.contains(told), "{why}");
        }
        let right = doc! { "$set": { "value": advised(&why) } };
        odd::edit(&world.store.transactions(), "t", right).await;
        world.producer(&["unpark", "t"]).await.expect_success();
        world.wait_state("t", State::Done, s(60)).await;
        world.assert_at_rest().await;
        drop(worker);
        world.finish().await;
    }
}

#[tokio::test]
async fn a_rule_of_the_owners_own_is_told_with_the_value_that_breaks_it() {
    let world = World::new().await;
    world.accounts(&[("a", 10), ("b", 0)]).await;
    let blocked = Account::new("blocked", Amount::Int(10)).to_document(DateTime::now());
    let mut blocked = blocked;
    blocked.insert("blocked", true);
    odd::insert(&world.store.accounts(), &[blocked]).await;
    let mut unreviewed = odd::transfer("t", "a", "b", 1);
    unreviewed.insert("reviewed", "not yet");
    odd::insert(&world.store.transactions(), &[unreviewed]).await;
    add_rule(&world, "transactions", doc! { "reviewed": { "$ne": "not yet" } }).await;
    add_rule(&world, "accounts", doc! { "blocked": { "$ne": true } }).await;
    let worker = world.worker("one").start().await;
    world.publish(&["t".into()], 1).await;
    world.submit(&[transfer("u", "blocked", "b", 1)], 1).await;
    let why = parked(&world, "t").await;
    for told in ["a rule of the validator is not met", "reviewed", "\"not yet\""] {
        assert!(why.contains(told), "{why}");
    }
    world.wait_state("u", State::Canceled, s(30)).await;
    let reason = reason(&world, "u").await;
    for told in ["account \"blocked\"", "a rule of the validator is not met", "true"] {
        assert!(reason.contains(told), "{reason}");
    }
    let reviewed = doc! { "$set": { "reviewed": "yes" } };
    odd::edit(&world.store.transactions(), "t", reviewed).await;
    world.producer(&["unpark", "t"]).await.expect_success();
    world.wait_state("t", State::Done, s(60)).await;
    odd::edit(&world.store.accounts(), "blocked", doc! { "$set": { "blocked": false } }).await;
    world.submit(&[transfer("v", "blocked", "b", 1)], 1).await;
    world.wait_state("v", State::Done, s(30)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
