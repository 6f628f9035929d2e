//! Submitting within the caller's own MongoDB transaction.

use std::time::{Duration, SystemTime};

use client::mongodb::error::Error as DriverError;
use client::mongodb::{ClientSession, Collection};
use client::{Client, Error, InSessionError, Outcome, Submission};
use futures_util::FutureExt;
use harness::wait::s;
use harness::worker::Worker;
use harness::world::World;
use ledger::amount::Amount;
use ledger::transaction::{State, UNPUBLISHED};
use mongodb::bson::{Document, doc};

async fn world() -> (World, Client, Worker) {
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    let database = world.store.database();
    // A collection that is made within a transaction would conflict with others that make it.
    database.create_collection("orders").await.expect("MongoDB is there");
    let client = world.client().await;
    // No sweep brings anything back during a test.
    let worker = world.worker("one").flag("--orphan-ms", 3_600_000).start().await;
    (world, client, worker)
}

fn orders(client: &Client) -> Collection<Document> {
    client.mongodb().database(client.store().database().name()).collection("orders")
}

async fn order_exists(client: &Client, id: &str) -> bool {
    orders(client).find_one(doc! { "_id": id }).await.expect("MongoDB is there").is_some()
}

fn payment(id: &str, value: i64) -> Submission {
    Submission::transfer("a", "b", value).with_id(id)
}

/// An order and its payment, in one transaction. The future is `Send`, as servers need it.
async fn order(
    client: &Client,
    id: &str,
    payment: &Submission,
) -> Result<ClientSession, DriverError> {
    let mut session = client.mongodb().start_session().await?;
    let context = (client.clone(), orders(client), doc! { "_id": id }, payment.clone());
    let placed = session.start_transaction().and_run(context, |session, context| {
        let (client, orders, order, payment) = context;
        async move {
            orders.insert_one(&*order).session(&mut *session).await?;
            client.submit_in(session, payment.clone()).await?;
            Ok(())
        }
        .boxed()
    });
    placed.await?;
    Ok(session)
}

#[tokio::test]
async fn an_order_and_its_payment_are_stored_together_or_not_at_all() {
    let (world, client, worker) = world().await;
    let session = order(&client, "kept", &payment("p", 5)).await.expect("it is committed");
    client.read_after(&session);
    assert_eq!(client.outcome("p").await.expect("it is there"), Outcome::Done);
    assert!(order_exists(&client, "kept").await);

    let mut session = client.mongodb().start_session().await.expect("MongoDB is there");
    session.start_transaction().await.expect("none runs");
    let dropped = doc! { "_id": "dropped" };
    orders(&client).insert_one(dropped).session(&mut session).await.expect("MongoDB is there");
    let receipt = client.submit_in(&mut session, payment("never", 5)).await.expect("it is valid");
    assert_eq!((&*receipt.id, receipt.known, receipt.state), ("never", None, State::Initial));
    assert!(receipt.cluster_time.is_some());
    assert_eq!(client.transaction("never").await, Ok(None), "nobody sees it before the commit");
    session.abort_transaction().await.expect("MongoDB is there");
    order(&client, "next", &payment("q", 1)).await.expect("it is committed");
    assert_eq!(client.outcome("q").await.expect("it is there"), Outcome::Done);
    assert_eq!(client.transaction("never").await, Ok(None));
    assert!(!order_exists(&client, "dropped").await);
    assert_eq!(world.balance("b").await, Amount::Int(6));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_submit_one_payment_at_once_all_have_it_and_it_is_paid_once() {
    let (world, client, worker) = world().await;
    let placed = (0..20).map(|n| {
        let client = client.clone();
        tokio::spawn(async move { order(&client, &format!("o{n}"), &payment("p", 7)).await })
    });
    for placed in placed.collect::<Vec<_>>() {
        placed.await.expect("no panic").expect("the same content is no conflict");
    }
    for n in 0..20 {
        assert!(order_exists(&client, &format!("o{n}")).await, "o{n}");
    }
    assert_eq!(client.outcome("p").await.expect("it is there"), Outcome::Done);
    assert_eq!(world.balance("b").await, Amount::Int(7));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_with_other_content_is_refused_also_in_a_race_and_nothing_is_stored() {
    let (world, client, worker) = world().await;
    let orders = orders(&client);
    let mut first = client.mongodb().start_session().await.expect("MongoDB is there");
    first.start_transaction().await.expect("none runs");
    orders.insert_one(doc! { "_id": "first" }).session(&mut first).await.expect("it is new");
    client.submit_in(&mut first, payment("p", 7)).await.expect("it is new");
    // The second one meets the first, which is not committed yet, and is run again.
    let second = tokio::spawn({
        let client = client.clone();
        async move { order(&client, "second", &payment("p", 8)).await }
    });
    let mut third = client.mongodb().start_session().await.expect("MongoDB is there");
    third.start_transaction().await.expect("none runs");
    let met = client.submit_in(&mut third, payment("p", 8)).await.expect_err("the first has it");
    match met {
        InSessionError::Driver(error) => {
            assert!(error.contains_label("TransientTransactionError"), "{error}");
        }
        InSessionError::Submission(error) => panic!("{error}"),
    }
    first.commit_transaction().await.expect("MongoDB is there");
    let refused = second.await.expect("no panic").expect_err("it has other content");
    let conflict = refused.get_custom::<Error>().expect("it is the client's error");
    assert!(
        matches!(conflict, Error::Conflict { differs, .. } if *differs == ["value"]),
        "{conflict}"
    );
    assert!(!order_exists(&client, "second").await);
    assert_eq!(client.outcome("p").await.expect("it is there"), Outcome::Done);
    assert_eq!(world.balance("b").await, Amount::Int(7));
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn an_exclusive_key_of_another_ends_the_transaction_and_names_who_has_it() {
    let (world, client, worker) = world().await;
    let keyed = |id: &str| payment(id, 1).held().with_exclusive_key("seat-17");
    order(&client, "first", &keyed("p")).await.expect("the key is free");
    assert_eq!(client.outcome("p").await.expect("it is there"), Outcome::Held);
    let refused = order(&client, "second", &keyed("q")).await.expect_err("the key is taken");
    match refused.get_custom::<Error>() {
        Some(Error::KeyInUse { id, key, holder }) => {
            assert_eq!([&**id, &**key, &**holder], ["q", "seat-17", "p"]);
        }
        other => panic!("{other:?}: {refused}"),
    }
    assert!(!order_exists(&client, "second").await);
    assert_eq!(client.transaction("q").await, Ok(None));
    client.cancel("p").await.expect("it is held");
    order(&client, "third", &keyed("r")).await.expect("the key is free again");
    assert_eq!(client.outcome("r").await.expect("it is there"), Outcome::Held);
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_is_scheduled_or_wrong_is_known_at_the_call() {
    let (world, client, worker) = world().await;
    let later = SystemTime::now() + Duration::from_secs(2);
    order(&client, "later", &payment("p", 1).not_before(later)).await.expect("it is committed");
    let stored = world.transaction("p").await;
    assert!(!stored.contains_key(UNPUBLISHED), "it waits for its moment: {stored}");
    world.wait_state("p", State::Done, s(60)).await;
    let wrong = [
        payment("", 1),
        payment("negative", -1),
        Submission::legs([("a", 1_i64), ("b", 1)]).with_id("unbalanced"),
    ];
    for wrong in wrong {
        let refused = order(&client, "wrong", &wrong).await.expect_err("it is refused");
        let error = refused.get_custom::<Error>();
        assert!(matches!(error, Some(Error::Invalid { .. })), "{refused}");
        assert!(!order_exists(&client, "wrong").await);
    }
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_session_of_another_client_of_the_driver_is_refused_by_the_driver() {
    let (world, client, worker) = world().await;
    let other = world.client().await;
    let mut session = other.mongodb().start_session().await.expect("MongoDB is there");
    session.start_transaction().await.expect("none runs");
    let refused = client.submit_in(&mut session, payment("p", 1)).await;
    assert!(matches!(refused, Err(InSessionError::Driver(_))), "{refused:?}");
    assert_eq!(client.transaction("p").await, Ok(None));
    drop(worker);
    world.finish().await;
}
