//! Rows without ids: rows that are known under a batch's name change nothing, however the file
//! changed.

use harness::producer::Answer;
use harness::wait::s;
use harness::world::World;
use ledger::amount::Amount;
use ledger::transaction::State;
use serde_json::Value;

pub(super) async fn world() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 1_000_000), ("b", 0)]).await;
    world
}

/// Submits a file of rows `source,destination,value`.
pub(super) async fn submit(world: &World, rows: &[&str], more: &[&str]) -> Answer {
    let text = format!("source,destination,value\n{}\n", rows.join("\n"));
    let file = world.write("rows.csv", text);
    world.producer(&[&["submit", &file, "--json"], more].concat()).await
}

fn batch(summary: &Value) -> String {
    summary["batch"].as_str().unwrap_or_else(|| panic!("no batch in {summary}")).to_owned()
}

pub(super) fn assert_counts(summary: &Value, submitted: u64, unchanged: u64) {
    let found = (summary["submitted"].as_u64(), summary["unchanged"].as_u64());
    assert_eq!(found, (Some(submitted), Some(unchanged)), "{summary}");
}

/// Settles everything; `b` has received this much.
pub(super) async fn paid(world: &World, amount: i64) {
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

#[tokio::test]
async fn the_same_rows_are_not_paid_as_another_batch_unless_that_is_said() {
    let world = world().await;
    let rows = ["a,b,1", "a,b,2", "a,b,2"];
    let first = submit(&world, &rows, &["--batch", "may payroll"]).await.expect_success().json();
    assert_counts(&first, 3, 0);
    // Saved again by another program: with a mark, other line ends, quotes, and in another order.
    let text = "\u{feff}Source,Destination,Value\r\na,b,2\r\n\"a\",b,+2\r\na,b,01\r\n,,\r\n";
    let saved = ["submit", &world.write("saved.csv", text), "--json"];
    let submit_saved = async |more: &[&str]| world.producer(&[&saved, more].concat()).await;
    for more in [&[][..], &["--batch", "june"]] {
        let refused = submit_saved(more).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("as the batch \"may payroll\""), "{refused:?}");
    }
    assert_eq!(world.count(&State::ALL).await, 3, "nothing was written");
    // Both ways that the error names.
    let known = submit_saved(&["--batch", "may payroll"]).await.expect_success().json();
    assert_counts(&known, 0, 3);
    let once_more = ["--batch", "june", "--allow", "repeated-content"];
    assert_counts(&submit_saved(&once_more).await.expect_success().json(), 3, 0);
    // From now on both batches are known, and go on without the flag.
    for batch in ["may payroll", "june"] {
        let again = submit_saved(&["--batch", batch]).await.expect_success().json();
        assert_counts(&again, 0, 3);
    }
    paid(&world, 10).await;
    world.finish().await;
}

#[tokio::test]
async fn a_file_that_was_saved_again_is_noticed_and_the_remedy_completes_the_first_one() {
    let world = world().await;
    let first = submit(&world, &["a,b,1", "a,b,2"], &[]).await.expect_success().json();
    assert_counts(&first, 2, 0);
    let turned = ["\"a\",b, 2\r", "a,b,1\r", ",,\r"];
    let refused = submit(&world, &turned, &[]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let remedy = format!("\n  --batch {}\n", batch(&first));
    assert!(refused.stderr.contains(&remedy), "{refused:?}");
    let again = submit(&world, &turned, &["--batch", &batch(&first)]).await;
    assert_counts(&again.expect_success().json(), 0, 2);
    paid(&world, 3).await;
    world.finish().await;
}

#[tokio::test]
async fn a_file_of_another_program_is_read_by_its_own_columns() {
    let world = world().await;
    let text = "Booked,Ref,From,To,Amount,Purpose\n2026-11-01,r1,a,b,5,rent\n,,,,,\n";
    let file = &world.write("bank.csv", text);
    let plain = world.producer(&["submit", file]).await;
    assert_eq!(plain.code, Some(2), "{plain:?}");
    assert!(plain.stderr.contains("--columns FIELD=NAME"), "{}", plain.stderr);
    let columns = "id=Ref,source=From,destination=To,value=Amount";
    let named = ["submit", file, "--json", "--columns", columns];
    let more = ["--ignore-columns", "Booked", "--metadata-columns", "Purpose"];
    let more = [&named[..], &more, &["--expect-rows", "1", "--expect-total", "5"]].concat();
    assert_counts(&world.producer(&more).await.expect_success().json(), 1, 0);
    let metadata = world.transaction("r1").await;
    let metadata = metadata.get_document("metadata").expect("metadata");
    assert_eq!(metadata.get_str("Purpose").ok(), Some("rent"));
    paid(&world, 5).await;
    world.finish().await;
}

#[tokio::test]
async fn nothing_of_a_doubtful_file_is_paid_until_its_owner_says_that_it_is_right() {
    let world = world().await;
    let submit_text = async |text: &str, more: &[&str]| {
        let text = format!("id,source,destination,value\n{text}");
        let file = world.write("doubtful.csv", text);
        world.producer(&[&["submit", &file, "--json"], more].concat()).await
    };
    for (text, flag) in
        [("1.23457E+15,a,b,1\n", "rounded-ids"), ("t1,a,b,1\nt2,a,b,12", "unfinished-line")]
    {
        let refused = submit_text(text, &[]).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(&format!("--allow {flag}")), "{}", refused.stderr);
    }
    let cut_sums = ["--allow", "unfinished-line", "--expect-total", "1262"];
    let cut = submit_text("t1,a,b,12\nt2,a,b,12", &cut_sums).await;
    assert_eq!(cut.code, Some(2), "{cut:?}");
    assert!(cut.stderr.contains("the sum of rows without a currency is 24, not 1262"), "{cut:?}");
    assert_eq!(world.count(&State::ALL).await, 0, "nothing was written");
    let sums = ["--expect-rows", "2", "--expect-total", "1262"];
    let whole = submit_text("t1,a,b,12\nt2,a,b,1250\n", &sums).await;
    assert_counts(&whole.expect_success().json(), 2, 0);
    let allowed =
        submit_text("1.23457E+15,a,b,1", &["--allow", "rounded-ids,unfinished-line"]).await;
    assert_counts(&allowed.expect_success().json(), 1, 0);
    paid(&world, 1_263).await;
    world.finish().await;
}
