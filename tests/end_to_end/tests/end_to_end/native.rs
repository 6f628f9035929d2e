//! The second engine: each batch in one native transaction. It gives the same results as the
//! two-phase engine, also beside two-phase workers on the same accounts, and whatever happens to
//! its process.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use harness::odd;
use harness::proxy::Part;
use harness::wait::{promised, s, wait_until};
use harness::worker::{GRACE, LEASE, Plan};
use harness::world::{World, legs, transfer};
use ledger::account::{Account, Status};
use ledger::amount::Amount;
use ledger::transaction::{Body, State, TransactionId};
use mongodb::bson::{Bson, DateTime, doc};

/// The time beyond lease and grace: noticing, ending open native transactions, starting the next
/// worker.
const SLACK: Duration = Duration::from_secs(5);

fn native(plan: Plan) -> Plan {
    plan.flag("--engine", "transaction")
}

fn accounts_that_refuse() -> Vec<Account> {
    let account = |id: &str| Account::new(id, Amount::Int(100));
    vec![
        account("a"),
        account("b"),
        account("c"),
        account("poor"),
        Account { status: Status::Frozen, ..account("frozen") },
        Account { status: Status::Closed, ..account("closed") },
        Account { currency: Some("EUR".into()), ..account("euros") },
        Account { floor: None, ..Account::new("full", Amount::Int(Amount::MAX)) },
        Account::new("unmoved", Amount::parse("100.00").expect("a decimal")),
        Account::new("decimal", Amount::parse("100.00").expect("a decimal")),
        Account::new("decimal-b", Amount::parse("0.50").expect("a decimal")),
    ]
}

fn accepted_and_refused() -> Vec<(TransactionId, Body)> {
    let cents = Amount::parse("12.25").expect("a decimal");
    let decimal = Body::transfer("decimal", "decimal-b", cents).expect("valid");
    vec![
        transfer("01", "a", "b", 60),
        transfer("02", "a", "nobody", 1),
        transfer("03", "a", "frozen", 1),
        transfer("04", "closed", "b", 1),
        transfer("05", "a", "euros", 1),
        transfer("06", "poor", "b", 101),
        transfer("07", "a", "full", 1),
        transfer("08", "a", "unmoved", 1),
        legs("09", &[("b", -30), ("c", 20), ("a", 10)]),
        legs("10", &[("b", -30), ("c", 20), ("nobody", 10)]),
        ("11".into(), decimal),
        transfer("12", "c", "b", 1),
    ]
}

/// The content of the database, without times, names of lines and the order of fields. Only what
/// went in phases has times between its beginning and its end.
async fn ends(world: &World, in_phases: bool) -> BTreeMap<String, BTreeMap<String, Bson>> {
    let mut ends = BTreeMap::new();
    for (id, _) in accepted_and_refused() {
        let mut document = world.transaction(&id).await;
        for (time, has) in [
            ("createdAt", true),
            ("claimedAt", in_phases),
            ("decidedAt", in_phases),
            ("lastModified", true),
        ] {
            let found = document.remove(time);
            let fits = match found {
                Some(Bson::DateTime(_)) => has,
                None => !has,
                Some(_) => false,
            };
            assert!(fits, "{id}: {time}: {found:?}");
        }
        let line = document.remove("line");
        assert!(matches!(line, Some(Bson::String(_))), "{id}: {line:?}");
        ends.insert(id.to_string(), document.into_iter().collect());
    }
    for account in accounts_that_refuse() {
        let found = world.store.accounts().find_one(doc! { "_id": account.id.as_ref() }).await;
        let document = found.expect("MongoDB is there").expect("the account is there");
        let fields = document.into_iter().filter(|(field, _)| field != "createdAt").collect();
        ends.insert(account.id.to_string(), fields);
    }
    ends
}

#[tokio::test]
async fn the_ends_are_those_of_two_phases_to_the_last_field() {
    let mut by_engine = Vec::new();
    for engine in ["two-phase", "transaction"] {
        let world = World::new().await;
        world.open(&accounts_that_refuse()).await;
        let worker = world.worker("one").flag("--engine", engine).start().await;
        world.submit(&accepted_and_refused(), 100).await;
        world.wait_final(s(60)).await;
        by_engine.push(ends(&world, engine == "two-phase").await);
        world.assert_at_rest().await;
        let batches =
            worker.metrics().await.sum("tandem_phase_seconds_count", &[("phase", "transaction")]);
        assert_eq!(batches > 0.0, engine == "transaction", "the engine is the one asked for");
        drop(worker);
        world.finish().await;
    }
    assert_eq!(by_engine[0], by_engine[1]);
}

#[tokio::test]
async fn accounts_that_are_large_or_have_a_field_name_that_is_no_text_are_settled_like_others() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("small", 0)]).await;
    let account = |id: &str| Account::new(id, Amount::Int(0)).to_document(DateTime::now());
    let mut large = account("large");
    large.insert("photo", "x".repeat(100_000));
    let mut unreadable = account("unreadable");
    unreadable.insert("currency", odd::large());
    let collection = world.store.accounts();
    odd::insert(&collection, &[large, unreadable]).await;
    let named = odd::with_a_name_that_is_no_text(account("named"));
    odd::insert_raw(&collection, &named).await;
    let pays = |to: &str, value| transfer(&format!("to-{to}"), "a", to, value);
    let submitted = [("small", 1), ("large", 20), ("named", 300), ("nobody", 5), ("unreadable", 6)];
    // They are there before the worker is, so that they are one batch.
    world.submit(&submitted.map(|(to, value)| pays(to, value)), 100).await;
    let worker = native(world.worker("one")).start().await;
    world.wait_final(s(60)).await;
    for (to, value) in &submitted[..3] {
        assert_eq!(world.state(&format!("to-{to}")).await, State::Done, "{to}");
        // The client can't read the one with the odd name.
        let paid = collection.count_documents(doc! { "_id": to, "balance": value }).await;
        assert_eq!(paid.expect("MongoDB is there"), 1, "{to}");
    }
    for (to, code) in [("nobody", "account_not_found"), ("unreadable", "account_invalid")] {
        let canceled = world.transaction(&format!("to-{to}")).await;
        let reason = canceled.get_document("reason").expect("it is canceled");
        assert_eq!(reason.get_str("code").expect("a code"), code, "{to}");
    }
    assert_eq!(world.balance("a").await, Amount::Int(1_000 - 321));
    let posts = worker.metrics().await.sum("tandem_phase_seconds_count", &[("phase", "post")]);
    assert_eq!(posts, 0.0, "all of it went natively");
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn both_engines_settle_side_by_side_on_the_same_hot_accounts() {
    let world = World::new().await;
    world.accounts(&[("hub", 1_000), ("x", 1_000), ("y", 1_000)]).await;
    let busy = |plan: Plan| plan.flag("--lanes", 3).flag("--batch-size", 20);
    let workers = tokio::join!(
        busy(world.worker("phases")).start(),
        busy(native(world.worker("native-one"))).start(),
        busy(native(world.worker("native-two"))).start(),
        busy(world.worker("chooses").flag("--engine", "auto")).start(),
    );
    let mut hub = 1_000;
    let transfers: Vec<_> = (0..600_i64)
        .map(|n| {
            let other = if n % 2 == 0 { "x" } else { "y" };
            let (from, to) = if n % 3 == 0 { ("hub", other) } else { (other, "hub") };
            hub += if n % 3 == 0 { -1 } else { 1 };
            transfer(&format!("t{n}"), from, to, 1)
        })
        .collect();
    world.submit(&transfers, 7).await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 600);
    assert_eq!(world.balance("hub").await, Amount::Int(hub));
    world.assert_at_rest().await;
    drop(workers);
    world.finish().await;
}

#[tokio::test]
async fn what_two_phases_left_in_flight_is_finished() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let mut first = world.worker("first").mongodb(&uri).start().await;
    let commit = proxy.hold("applied", 1, Part::Request);
    world.submit(&[transfer("held", "a", "b", 10)], 1).await;
    commit.caught(s(20)).await;
    assert_eq!(world.balance("a").await, Amount::Int(90), "it is posted");
    first.kill();
    commit.discard();
    let second = native(world.worker("second")).start().await;
    // The amount that the account holds stays as it is.
    world.submit(&[transfer("too much", "a", "b", 91), transfer("fits", "a", "b", 90)], 2).await;
    world.wait_state("fits", State::Done, s(30)).await;
    assert_eq!(world.reason("too much").await.as_deref(), Some("insufficient_funds"));
    world.wait_state("held", State::Done, s(30)).await;
    world.assert_at_rest().await;
    drop(second);
    world.finish().await;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    RequestLost,
    ReplyLost,
    RequestLate,
}

async fn another_worker_finishes(operation: &str, loss: Loss, engine: &str) {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0), ("c", 50)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let mut first = native(world.worker("first")).mongodb(&uri).start().await;
    let part = if loss == Loss::ReplyLost { Part::Reply } else { Part::Request };
    let held = proxy.hold(operation, 1, part);
    let transactions = [
        transfer("t1", "a", "b", 10),
        transfer("t2", "c", "b", 20),
        transfer("refused", "a", "nobody", 5),
    ];
    world.submit(&transactions, 10).await;
    held.caught(s(20)).await;
    first.kill();
    let died = Instant::now();
    if loss != Loss::RequestLate {
        held.discard();
    }
    let second = world.worker("second").flag("--engine", engine).launch();
    world.wait_final(s(60)).await;
    let took = died.elapsed();
    if loss == Loss::RequestLate {
        held.release();
        held.passed(s(20)).await;
    }
    assert_eq!(world.count(&[State::Done]).await, 2);
    assert_eq!(world.reason("refused").await.as_deref(), Some("account_not_found"));
    world.assert_at_rest().await;
    assert!(took < promised(LEASE + GRACE + SLACK), "recovery took {took:?}");
    eprintln!("{operation}: finished {took:.1?} after the death");
    drop(second);
    world.finish().await;
}

macro_rules! killed_in {
    ($($name:ident: $operation:literal, $successor:literal;)*) => {$(
        mod $name {
            use super::{Loss, another_worker_finishes};

            #[tokio::test]
            async fn killed_before_the_request_arrives() {
                another_worker_finishes($operation, Loss::RequestLost, $successor).await;
            }

            #[tokio::test]
            async fn killed_before_the_reply_arrives() {
                another_worker_finishes($operation, Loss::ReplyLost, $successor).await;
            }

            #[tokio::test]
            async fn killed_and_the_request_arrives_after_the_end() {
                another_worker_finishes($operation, Loss::RequestLate, $successor).await;
            }
        }
    )*};
}

killed_in! {
    reading: "transact read", "transaction";
    writing_accounts: "transact accounts", "transaction";
    writing_transactions: "transact transactions", "two-phase";
    committing: "commit", "transaction";
}

#[tokio::test]
async fn a_commit_whose_reply_is_lost_counts_once() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let worker = native(world.worker("one")).mongodb(&uri).start().await;
    let commit = proxy.hold("commit", 1, Part::Reply);
    world.submit(&[transfer("t", "a", "b", 10)], 1).await;
    commit.caught(s(20)).await;
    commit.hang_up();
    commit.discard();
    world.queues.wait_depth("work", 0, s(30)).await;
    world.submit(&[transfer("next", "b", "a", 1)], 1).await;
    world.wait_state("next", State::Done, s(30)).await;
    assert_eq!(world.balance("b").await, Amount::Int(9));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_worker_that_stalls_before_its_commit_finds_everything_done() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let mut first = native(world.worker("first")).mongodb(&uri).flag("--prefetch", 1).start().await;
    let commit = proxy.hold("commit", 1, Part::Request);
    world.submit(&[transfer("t", "a", "b", 10)], 1).await;
    commit.caught(s(20)).await;
    first.freeze().await;
    let second = native(world.worker("second")).start().await;
    world.publish(&["t".into()], 1).await;
    world.wait_state("t", State::Done, s(30)).await;
    commit.release();
    first.thaw();
    commit.passed(s(20)).await;
    drop(second);
    world.submit(&[transfer("later", "b", "a", 4)], 1).await;
    world.wait_state("later", State::Done, s(30)).await;
    assert_eq!(world.balance("b").await, Amount::Int(6));
    world.assert_at_rest().await;
    assert!(first.exited().is_none(), "it goes on");
    world.finish().await;
}

/// Another client writes just before an operation of a batch arrives.
async fn overtaken_at(operation: &str, others: impl AsyncFnOnce(&World)) -> World {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let worker = native(world.worker("one")).mongodb(&uri).start().await;
    let writing = proxy.hold(operation, 1, Part::Request);
    world.submit(&[transfer("t", "a", "b", 10)], 1).await;
    writing.caught(s(20)).await;
    others(&world).await;
    writing.release();
    world.wait_final(s(30)).await;
    wait_until("what was read is compared with what is there", s(30), async || {
        worker.metrics().await.sum("tandem_retries_total", &[("operation", "transact")]) > 0.0
    })
    .await;
    world
}

#[tokio::test]
async fn a_balance_that_changes_after_it_was_read_is_read_again() {
    let world = overtaken_at("transact accounts", async |world| {
        let spent = doc! { "$inc": { "balance": -95_i64, "openingBalance": -95_i64 } };
        let updated = world.store.accounts().update_one(doc! { "_id": "a" }, spent).await;
        assert_eq!(updated.expect("MongoDB is there").modified_count, 1);
    })
    .await;
    assert_eq!(world.reason("t").await.as_deref(), Some("insufficient_funds"));
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn an_account_frozen_after_it_was_read_refuses() {
    let world = overtaken_at("transact accounts", async |world| {
        world.producer(&["accounts", "freeze", "b"]).await.expect_success();
    })
    .await;
    assert_eq!(world.reason("t").await.as_deref(), Some("account_frozen"));
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn a_transaction_canceled_while_it_is_being_settled_has_no_effect() {
    // Before the snapshot the state shows the change; after it, the server's comparison does.
    for operation in ["transact read", "transact accounts"] {
        let world = overtaken_at(operation, async |world| {
            world.producer(&["cancel", "t"]).await.expect_success();
        })
        .await;
        assert_eq!(world.reason("t").await.as_deref(), Some("requested"));
        assert_eq!(world.balance("a").await, Amount::Int(100));
        world.assert_at_rest().await;
        world.finish().await;
    }
}

#[tokio::test]
async fn a_dead_workers_open_transaction_does_not_time_two_phases_out() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    // What a worker leaves that dies between its update and its commit.
    let mut dead = world.store.database().client().start_session().await.expect("a session");
    dead.start_transaction().await.expect("it is only noted");
    let accounts = world.store.accounts();
    let held = accounts.update_one(doc! { "_id": "b" }, doc! { "$inc": { "balance": 7 } });
    held.session(&mut dead).await.expect("nobody else writes");
    // No sweeper helps: the write that waits has to.
    let worker = world.worker("one").flag("--sweep-ms", 3_600_000).start().await;
    world.submit(&[transfer("t", "a", "b", 5)], 1).await;
    world.wait_state("t", State::Done, s(30)).await;
    assert_eq!(world.transaction("t").await.get_i32("attempts").ok(), Some(1), "{}", worker.log());
    assert!(!worker.log().contains("WARN"), "{}", worker.log());
    assert_eq!(world.balance("b").await, 5.into());
    drop((dead, worker));
    world.assert_at_rest().await;
    world.finish().await;
}
