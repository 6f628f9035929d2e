//! `submit --in-order`: each row sees what the rows before it did, whatever the engine, and through
//! crashes and repetitions.

use std::fmt::Write;

use harness::wait::{s, wait_until};
use harness::world::World;
use ledger::amount::Amount;
use ledger::transaction::State;

/// A file of rows with ids, in this order.
fn file(world: &World, rows: &[(String, String, i64)]) -> String {
    let mut text = "id,source,destination,value\n".to_owned();
    for (at, (source, destination, value)) in rows.iter().enumerate() {
        writeln!(text, "t{at},{source},{destination},{value}").expect("a string takes everything");
    }
    world.write("rows.csv", text)
}

/// One amount that goes from account to account: no row can go before the one in front of it.
fn chain(length: usize) -> Vec<(String, String, i64)> {
    (0..length).map(|at| (format!("c{at}"), format!("c{}", at + 1), 100)).collect()
}

async fn accounts_of_chain(world: &World, length: usize) {
    let names: Vec<String> = (0..=length).map(|at| format!("c{at}")).collect();
    let balance = |at: usize| if at == 0 { 100 } else { 0 };
    let accounts: Vec<(&str, i64)> =
        names.iter().enumerate().map(|(at, name)| (name.as_str(), balance(at))).collect();
    world.accounts(&accounts).await;
}

#[tokio::test]
async fn each_row_has_the_money_of_the_row_before_it_with_either_engine() {
    for engine in ["two-phase", "transaction", "auto"] {
        let world = World::new().await;
        accounts_of_chain(&world, 25).await;
        let worker = world.worker("one").flag("--engine", engine).start().await;
        let file = file(&world, &chain(25));
        let arguments = ["submit", &file, "--in-order", "--wait", "--json"];
        let summary = world.producer(&arguments).await.expect_success().json();
        assert_eq!(summary["done"], 25, "{engine}: {summary}");
        assert_eq!(world.balance("c25").await, Amount::Int(100), "{engine}");
        world.assert_at_rest().await;
        drop(worker);
        world.finish().await;
    }
}

#[tokio::test]
async fn a_producer_that_dies_again_and_again_keeps_the_order() {
    let world = World::new().await;
    accounts_of_chain(&world, 60).await;
    let worker = world.worker("one").start().await;
    let file = file(&world, &chain(60));
    let arguments = ["submit", &file, "--in-order", "--wait", "--json"];
    for part in [5, 20, 40] {
        let mut producer = world.spawn_producer(&arguments, &[]);
        wait_until("a part is inserted", s(60), async || {
            world.count(&State::ALL).await >= part || producer.exited().is_some()
        })
        .await;
        producer.kill();
    }
    let summary = world.producer(&arguments).await.expect_success().json();
    assert_eq!(summary["done"], 60, "{summary}");
    assert_eq!(world.balance("c60").await, Amount::Int(100));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_refused_row_stops_nothing_unless_that_is_asked_for() {
    let world = World::new().await;
    world.accounts(&[("a", 10), ("poor", 0), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    let rows = [("a", "b", 1), ("poor", "b", 5), ("a", "b", 2), ("a", "poor", 3)];
    let rows =
        rows.map(|(source, destination, value)| (source.to_owned(), destination.to_owned(), value));
    let file = file(&world, &rows);
    let stopping = ["submit", &file, "--in-order", "--stop-at-refusal", "--wait", "--json"];
    for _again in 0..2 {
        let stopped = world.producer(&stopping).await;
        assert_eq!(stopped.code, Some(1), "{stopped:?}");
        assert_eq!(stopped.json()["not_submitted"], 2, "{stopped:?}");
        assert_eq!(world.count(&State::ALL).await, 2, "nothing behind it was submitted");
    }
    let summary = world.producer(&["submit", &file, "--in-order", "--wait", "--json"]).await;
    let summary = summary.expect_success().json();
    assert_eq!((&summary["done"], &summary["submitted"]), (&3.into(), &2.into()), "{summary}");
    assert_eq!(world.balance("b").await, Amount::Int(3));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn whoever_waits_for_no_worker_is_told_what_was_not_submitted() {
    let world = World::new().await;
    accounts_of_chain(&world, 3).await;
    let file = file(&world, &chain(3));
    let limited = ["submit", &file, "--in-order", "--wait", "--wait-limit", "5", "--json"];
    let told = world.producer(&limited).await;
    assert_eq!(told.code, Some(3), "{told:?}");
    let summary = told.json();
    assert_eq!((&summary["submitted"], &summary["not_submitted"]), (&1.into(), &2.into()));
    let worker = world.worker("one").start().await;
    let arguments = ["submit", &file, "--in-order", "--wait", "--json"];
    let summary = world.producer(&arguments).await.expect_success().json();
    assert_eq!(summary["done"], 3, "{summary}");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
