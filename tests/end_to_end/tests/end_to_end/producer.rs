//! A transaction that the producer has accepted is never lost and never settled twice, whatever
//! happens to it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use harness::process::memory_max;
use harness::proxy::Part;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::amount::Amount;
use ledger::transaction::State;
use mongodb::bson::doc;
use queue::WORK;

/// A file of transfers of 1 from a to b, with ids.
fn transfers_csv(world: &World, rows: usize) -> PathBuf {
    let mut text = String::from("id,source,destination,value\n");
    for row in 0..rows {
        writeln!(text, "t{row},a,b,1").expect("a string takes everything");
    }
    written(world, "transfers.csv", &text)
}

fn written(world: &World, name: &str, text: &str) -> PathBuf {
    world.write(name, text).into()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

async fn world() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 10_000_000), ("b", 0)]).await;
    world
}

async fn settled_once(world: &World, transfers: u64) {
    world.wait_final(s(120)).await;
    assert_eq!(world.count(&[State::Done]).await, transfers);
    let moved = i64::try_from(transfers).expect("small");
    assert_eq!(world.balance("b").await, Amount::Int(moved));
    world.assert_at_rest().await;
}

#[tokio::test]
async fn a_file_is_settled_and_every_row_has_its_result() {
    let world = world().await;
    let worker = world.worker("one").start().await;
    let file = written(
        &world,
        "transfers.csv",
        "id,source,destination,value\nt1,a,b,10\nt2,b,a,99999\nt3,a,nobody,5\nt4,a,b,20\n",
    );
    let results = world.directory().join("results.jsonl");
    let arguments = ["submit", text(&file), "--wait", "--json", "--results", text(&results)];
    let answer = world.producer(&arguments).await.expect_success();
    let summary = answer.json();
    assert_eq!((&summary["rows"], &summary["done"]), (&4.into(), &2.into()), "{summary}");
    assert_eq!(summary["canceled"]["insufficient_funds"], 1, "{summary}");
    assert_eq!(summary["canceled"]["account_not_found"], 1, "{summary}");
    let results = std::fs::read_to_string(results).expect("the results are there");
    let lines: Vec<serde_json::Value> =
        results.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let outcomes: Vec<_> =
        lines.iter().map(|line| (&line["transaction"], &line["outcome"])).collect();
    for (found, expected) in outcomes.iter().zip([
        ("t1", "done"),
        ("t2", "canceled"),
        ("t3", "canceled"),
        ("t4", "done"),
    ]) {
        assert_eq!((found.0.as_str(), found.1.as_str()), (Some(expected.0), Some(expected.1)));
    }
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn submitting_again_changes_nothing_and_other_content_is_refused() {
    let world = world().await;
    let worker = world.worker("one").start().await;
    let file = transfers_csv(&world, 50);
    let arguments = ["submit", text(&file), "--wait", "--json"];
    world.producer(&arguments).await.expect_success();
    let again = world.producer(&arguments).await.expect_success().json();
    assert_eq!((&again["submitted"], &again["unchanged"]), (&0.into(), &50.into()), "{again}");
    let other = written(&world, "other.csv", "id,source,destination,value\nt7,a,b,2\nnew,a,b,1\n");
    let answer = world.producer(&["submit", text(&other), "--wait", "--json"]).await;
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let summary = answer.json();
    assert_eq!((&summary["conflicts"], &summary["done"]), (&1.into(), &1.into()), "{summary}");
    settled_once(&world, 51).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn rows_without_ids_are_not_doubled_by_submitting_the_file_again() {
    let world = world().await;
    let worker = world.worker("one").start().await;
    let rows = "a,b,1\n".repeat(30);
    let file = written(&world, "rows.csv", &format!("source,destination,value\n{rows}"));
    for _ in 0..2 {
        world.producer(&["submit", text(&file), "--wait"]).await.expect_success();
    }
    settled_once(&world, 30).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_file_with_a_bad_row_is_refused_as_a_whole_and_the_line_is_named() {
    let world = world().await;
    let bad = written(&world, "bad.csv", "id,source,destination,value\nt1,a,b,1\nt2,a,b,1.5e3\n");
    let answer = world.producer(&["submit", text(&bad)]).await;
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.stderr.contains("bad.csv:3"), "{}", answer.stderr);
    assert_eq!(world.count(&State::ALL).await, 0, "nothing was written");
    world.finish().await;
}

/// Everything that a killed producer had inserted is settled, and running it again adds the rest.
async fn settled_without_the_producer(world: &World, file: &Path, inserted: u64) {
    assert_eq!(world.count(&[State::Initial]).await, inserted);
    assert_eq!(world.queues.depth(WORK).await, Some(0), "something was published");
    let worker = world.worker("one").start().await;
    settled_once(world, inserted).await;
    world.producer(&["submit", text(file), "--wait"]).await.expect_success();
    settled_once(world, inserted).await;
    drop(worker);
}

#[tokio::test]
async fn a_producer_killed_before_it_knows_that_it_inserted_loses_nothing() {
    let world = world().await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let held = proxy.hold("insert", 1, Part::Reply);
    let file = transfers_csv(&world, 200);
    let env = [("TANDEM_MONGODB_URI", uri.as_str())];
    let mut producer = world.spawn_producer(&["submit", text(&file)], &env);
    held.caught(s(60)).await;
    producer.kill();
    held.discard();
    settled_without_the_producer(&world, &file, 200).await;
    world.finish().await;
}

#[tokio::test]
async fn a_producer_killed_between_insert_and_publish_loses_nothing() {
    let world = world().await;
    let (database, uri) = world.mongodb_proxy().await;
    let (broker, url) = world.amqp_proxy().await;
    let held = database.hold("insert", 1, Part::Request);
    let file = transfers_csv(&world, 200);
    let env = [("TANDEM_MONGODB_URI", uri.as_str()), ("TANDEM_AMQP_URL", url.as_str())];
    let mut producer = world.spawn_producer(&["submit", text(&file)], &env);
    held.caught(s(60)).await;
    // It is connected; from here on nothing that it sends reaches the broker.
    broker.silence();
    held.release();
    wait_until("all are inserted", s(60), async || world.count(&State::ALL).await == 200).await;
    producer.kill();
    settled_without_the_producer(&world, &file, 200).await;
    world.finish().await;
}

#[tokio::test]
async fn a_producer_killed_in_the_middle_is_completed_by_running_it_again() {
    let world = world().await;
    let worker = world.worker("one").start().await;
    let file = transfers_csv(&world, 20_000);
    let mut killed = 0;
    for part in [1, 4_000, 9_000] {
        let mut producer = world.spawn_producer(&["submit", text(&file)], &[]);
        wait_until("a part is inserted, or all", s(60), async || {
            world.count(&State::ALL).await >= part || producer.exited().is_some()
        })
        .await;
        killed += u32::from(producer.exited().is_none());
        producer.kill();
    }
    eprintln!("killed {killed} times");
    let answer = world.producer(&["submit", text(&file), "--wait", "--json"]).await;
    assert_eq!(answer.expect_success().json()["done"], 20_000);
    settled_once(&world, 20_000).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_producer_waits_for_a_broker_and_a_database_that_are_away() {
    let world = world().await;
    let (broker, url) = world.amqp_proxy().await;
    let (database, uri) = world.mongodb_proxy().await;
    let worker = world.worker("one").start().await;
    let file = transfers_csv(&world, 300);
    broker.refuse();
    database.refuse();
    let env = [("TANDEM_AMQP_URL", url.as_str()), ("TANDEM_MONGODB_URI", uri.as_str())];
    let mut producer = world.spawn_producer(&["submit", text(&file), "--wait"], &env);
    wait_until("it says that the database is away", s(60), async || {
        producer.log().contains("MongoDB")
    })
    .await;
    database.restore();
    wait_until("it says that the broker is away", s(60), async || {
        producer.log().contains("RabbitMQ")
    })
    .await;
    broker.restore();
    assert!(producer.exit(s(90)).await.success());
    settled_once(&world, 300).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn one_transfer_is_answered_with_its_end() {
    let world = world().await;
    let worker = world.worker("one").start().await;
    let transfer = async |id, value| {
        world.producer(&["transfer", "a", "b", value, "--id", id, "--wait"]).await
    };
    let done = transfer("good", "25").await.expect_success();
    assert!(done.stdout.contains("done"), "{done:?}");
    let refused = transfer("bad", "99999999").await;
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stdout.contains("insufficient_funds"), "{refused:?}");
    transfer("good", "25").await.expect_success();
    assert_eq!(transfer("good", "26").await.code, Some(1), "the id is taken");
    let stats = world.producer(&["stats", "--json"]).await.expect_success().json();
    assert_eq!((&stats["states"]["done"], &stats["states"]["canceled"]), (&1.into(), &1.into()));
    assert_eq!(world.balance("b").await, Amount::Int(25));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn frozen_accounts_refuse_until_they_are_unfrozen() {
    let world = world().await;
    let worker = world.worker("one").start().await;
    world.producer(&["accounts", "freeze", "b"]).await.expect_success();
    let refused = world.producer(&["transfer", "a", "b", "5", "--wait"]).await;
    assert!(refused.stdout.contains("account_frozen"), "{refused:?}");
    world.producer(&["accounts", "unfreeze", "b"]).await.expect_success();
    world.producer(&["transfer", "a", "b", "5", "--wait"]).await.expect_success();
    let with_money = world.producer(&["accounts", "close", "b"]).await;
    assert_eq!(with_money.code, Some(1), "there is money on it: {with_money:?}");
    world.producer(&["transfer", "b", "a", "5", "--wait"]).await.expect_success();
    world.producer(&["accounts", "close", "b"]).await.expect_success();
    let refused = world.producer(&["transfer", "a", "b", "5", "--wait"]).await;
    assert!(refused.stdout.contains("account_closed"), "{refused:?}");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn an_audit_of_a_live_ledger_finds_nothing_and_of_a_spoiled_one_names_the_document() {
    let world = world().await;
    let worker = world.worker("one").flag("--batch-size", 7).start().await;
    let transfers: Vec<_> = (0..1_500).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&transfers, 3).await;
    let mut live = 0;
    while world.count(&State::UNFINISHED).await > 0 {
        let answer = world.producer(&["audit", "--json"]).await.expect_success();
        live += u32::from(answer.json()["in_flight"].as_u64() > Some(0));
    }
    assert!(live > 0, "no audit has seen anything in flight");
    world.assert_at_rest().await;
    let spoil = doc! { "$inc": { "balance": 1_i64 } };
    let spoiled = world.store.accounts().update_one(doc! { "_id": "b" }, spoil).await;
    spoiled.expect("the account is there");
    world.assert_money_is_wrong().await;
    let audit = world.audit().await;
    assert!(audit.stdout.contains("accounts/b"), "{}", audit.stdout);
    let file = world.directory().join("tandem.prom");
    std::fs::write(&file, "an older page").expect("it can be written");
    let audit = world.producer(&["audit", "--metrics-file", text(&file)]).await;
    assert_eq!(audit.code, Some(1), "{audit:?}");
    let page = std::fs::read_to_string(&file).expect("it is there");
    let number = |name: &str| -> f64 {
        let line = page.lines().find(|line| line.starts_with(&format!("{name} ")));
        line.and_then(|line| line.split(' ').nth(1)).expect(&page).parse().expect("a number")
    };
    assert!(number("tandem_audit_violations") >= 1.0, "{page}");
    assert!(number("tandem_audit_transactions") == 1_500.0, "{page}");
    assert!(number("tandem_audit_timestamp_seconds") > 1.7e9, "{page}");
    let elsewhere = world.directory().join("nowhere/tandem.prom");
    let audit = world.producer(&["audit", "--metrics-file", text(&elsewhere)]).await;
    assert!(audit.stderr.contains("--metrics-file"), "{audit:?}");
    drop(worker);
    world.finish().await;
}

/// Submits so many rows and returns the producer's peak memory.
async fn memory_of_submitting(world: &World, rows: usize) -> u64 {
    let file = transfers_csv(world, rows);
    let mut producer = world.spawn_producer(&["submit", text(&file)], &[]);
    let mut most = 0;
    wait_until("the producer ends", s(900), async || {
        most = most.max(memory_max(producer.pid()).unwrap_or(0));
        producer.exited().is_some()
    })
    .await;
    assert!(producer.exit(s(1)).await.success(), "{}", producer.log());
    let inserted = world.count(&State::ALL).await;
    assert_eq!(inserted, rows as u64);
    eprintln!("{rows} rows: {} MB at most", most / 1_000_000);
    most
}

#[tokio::test]
async fn memory_stays_bounded_while_a_hundred_thousand_rows_are_submitted() {
    let world = world().await;
    let most = memory_of_submitting(&world, 100_000).await;
    assert!(most < 150_000_000, "{most} bytes");
    world.finish().await;
}

#[tokio::test]
async fn memory_stays_bounded_while_a_million_rows_are_submitted() {
    if std::env::var_os("TANDEM_SLOW_TESTS").is_none_or(|set| set != "1") {
        eprintln!("skipped: it takes minutes; set TANDEM_SLOW_TESTS=1");
        return;
    }
    let world = world().await;
    let most = memory_of_submitting(&world, 1_000_000).await;
    assert!(most < 250_000_000, "{most} bytes");
    world.finish().await;
}
