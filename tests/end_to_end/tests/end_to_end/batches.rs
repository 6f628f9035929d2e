//! Rows without ids: rows that are known under a batch's name change nothing, however the file
//! changed.

use harness::producer::Answer;
use harness::wait::s;
use harness::world::World;
use ledger::amount::Amount;
use ledger::transaction::State;
use serde_json::Value;

async fn world() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 1_000_000), ("b", 0)]).await;
    world
}

/// Submits a file of rows `source,destination,value`.
async fn submit(world: &World, rows: &[&str], more: &[&str]) -> Answer {
    let file = world.directory().join("rows.csv");
    let text = format!("source,destination,value\n{}\n", rows.join("\n"));
    std::fs::write(&file, text).expect("the file can be written");
    let file = file.to_str().expect("a plain path");
    world.producer(&[&["submit", file, "--json"], more].concat()).await
}

fn batch(summary: &Value) -> String {
    summary["batch"].as_str().unwrap_or_else(|| panic!("no batch in {summary}")).to_owned()
}

fn assert_counts(summary: &Value, submitted: u64, unchanged: u64) {
    let found = (summary["submitted"].as_u64(), summary["unchanged"].as_u64());
    assert_eq!(found, (Some(submitted), Some(unchanged)), "{summary}");
}

/// Settles everything; `b` has received this much.
async fn paid(world: &World, amount: i64) {
    let worker = world.worker("one").start().await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, world.count(&State::ALL).await);
    assert_eq!(world.balance("b").await, Amount::Int(amount));
    world.assert_at_rest().await;
    drop(worker);
}

#[tokio::test]
async fn a_corrected_file_is_paid_once() {
    let world = world().await;
    let wrong = ["a,b,1", "a,b,oops", "a,b,3", "a,b,1"];
    let first = submit(&world, &wrong, &["--skip-invalid"]).await.expect_success();
    assert_eq!(first.stderr.matches("oops").count(), 1, "{}", first.stderr);
    let first = first.json();
    assert_counts(&first, 3, 0);
    let corrected = ["a,b,1", "a,b,2", "a,b,3", "a,b,1"];
    let again = submit(&world, &corrected, &["--batch", &batch(&first)]).await;
    let again = again.expect_success().json();
    assert_counts(&again, 1, 3);
    assert_eq!(batch(&again), batch(&first));
    paid(&world, 7).await;
    world.finish().await;
}

#[tokio::test]
async fn rows_appended_to_a_file_are_paid_and_the_known_ones_are_not_paid_again() {
    let world = world().await;
    let first = submit(&world, &["a,b,1", "a,b,2"], &[]).await.expect_success().json();
    let name = batch(&first);
    let longer = ["a,b,1", "a,b,2", "a,b,4", "a,b,1"];
    let second = submit(&world, &longer, &["--batch", &name]).await.expect_success().json();
    assert_counts(&second, 2, 2);
    // The same bytes under the same name, and a file with ids, which needs no batch.
    let third = submit(&world, &longer, &["--batch", &name]).await.expect_success().json();
    assert_counts(&third, 0, 4);
    paid(&world, 8).await;
    world.finish().await;
}

#[tokio::test]
async fn the_order_and_the_spelling_of_rows_do_not_count() {
    let world = world().await;
    let named = ["--batch", "may payroll"];
    let first = ["a,b,1", "a,b,2", "a,b,2", "a,b,3"];
    assert_counts(&submit(&world, &first, &named).await.expect_success().json(), 4, 0);
    let turned = ["a,b,2", " a , \"b\" ,+3", "a,b,1", "", "a,b,02"];
    assert_counts(&submit(&world, &turned, &named).await.expect_success().json(), 0, 4);
    paid(&world, 8).await;
    world.finish().await;
}

#[tokio::test]
async fn a_row_that_stands_three_times_and_then_four_times_is_paid_four_times() {
    let world = world().await;
    let named = ["--batch", "may"];
    let first = submit(&world, &["a,b,5"; 3], &named).await.expect_success().json();
    assert_counts(&first, 3, 0);
    let second = submit(&world, &["a,b,5"; 4], &named).await.expect_success().json();
    assert_counts(&second, 1, 3);
    paid(&world, 20).await;
    world.finish().await;
}

#[tokio::test]
async fn results_name_the_ids_under_which_rows_were_submitted() {
    let world = world().await;
    let results = world.directory().join("results.jsonl");
    let path = results.to_str().expect("a plain path");
    let rows = ["a,b,1", "a,b,2", "a,b,1"];
    submit(&world, &rows, &["--results", path]).await.expect_success();
    let results = std::fs::read_to_string(&results).expect("the results are there");
    for (line, value) in results.lines().zip([1, 2, 1]) {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let id = line["id"].as_str().expect("an id");
        assert_eq!(world.transaction(id).await.get_i64("value").ok(), Some(value), "{line}");
    }
    assert_eq!(results.lines().count(), 3);
    paid(&world, 4).await;
    world.finish().await;
}

#[tokio::test]
async fn a_batch_is_named_to_people_and_checked() {
    let world = world().await;
    for (name, problem) in [("", "is empty"), ("a\tb", "control character")] {
        let refused = submit(&world, &["a,b,1"], &["--batch", name]).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(problem), "{}", refused.stderr);
    }
    assert_eq!(world.count(&State::ALL).await, 0, "nothing was written");
    let file = world.directory().join("rows.jsonl");
    let with_id = r#"{"id":"t","source":"a","destination":"b","value":1}"#;
    let without = r#"{"source":"a","destination":"b","value":1}"#;
    let named = ["submit", file.to_str().expect("a plain path"), "--batch", "May"];
    for (row, is_named) in [(with_id, false), (without, true)] {
        std::fs::write(&file, row).expect("the file can be written");
        let said = world.producer(&named).await.expect_success().stdout;
        assert_eq!(said.contains("\n  --batch May\n"), is_named, "{said}");
    }
    world.finish().await;
}
