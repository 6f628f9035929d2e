//! `submit --results`: what became of each row, in a file that can be corrected and sent again.

use ledger::amount::Amount;
use serde_json::Value;

use crate::batches::{assert_counts, paid, submit, world};

#[tokio::test]
async fn results_name_the_ids_under_which_rows_were_submitted() {
    let world = world().await;
    let results = world.path("results.jsonl");
    let rows = ["a,b,1", "a,b,2", "a,b,1"];
    submit(&world, &rows, &["--results", &results]).await.expect_success();
    let results = std::fs::read_to_string(&results).expect("the results are there");
    for (line, value) in results.lines().zip([1, 2, 1]) {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let id = line["transaction"].as_str().expect("an id");
        assert_eq!(world.transaction(id).await.get_i64("value").ok(), Some(value), "{line}");
    }
    assert_eq!(results.lines().count(), 3);
    paid(&world, 4).await;
    world.finish().await;
}

#[tokio::test]
async fn a_file_of_results_is_corrected_step_by_step_and_only_what_was_not_done_is_paid() {
    for (name, next) in [("results.csv", "more.csv"), ("results.jsonl", "more.jsonl")] {
        let world = world().await;
        world.accounts(&[("poor", 0)]).await;
        let worker = world.worker("one").start().await;
        let [results, next] = [name, next].map(|name| world.path(name));
        let rows = ["a,b,1", "poor,b,5", "a,b,oops", "a,b,1", "a,b,ouch"];
        let more = ["--skip-invalid", "--wait", "--results", &results];
        let first = submit(&world, &rows, &more).await.expect_success().json();
        assert_eq!((&first["done"], &first["invalid"]), (&2.into(), &2.into()), "{first}");
        // The owner corrects one bad row, whose content others have, and funds the poor account.
        let correct = |file: &str, bad: &str, good: &str| {
            let text = std::fs::read_to_string(file).expect("the results are there");
            let corrected = text.replace(&format!("\"{bad}\""), &format!("\"{good}\""));
            let corrected = corrected.replace(&format!(",{bad}\n"), &format!(",{good}\n"));
            std::fs::write(file, corrected).expect("it can be written");
        };
        correct(&results, "oops", "1");
        let fund = ["transfer", "a", "poor", "5", "--id", "fund", "--wait"];
        world.producer(&fund).await.expect_success();
        let again = ["submit", &results, "--json", "--wait", "--skip-invalid", "--results", &next];
        let second = world.producer(&again).await.expect_success().json();
        assert_counts(&second, 2, 2);
        // Then the other one, in the new results and in the old ones: it is one payment.
        correct(&results, "ouch", "7");
        correct(&next, "ouch", "7");
        for (file, submitted) in [(&next, 1), (&results, 0), (&next, 0)] {
            let third = world.producer(&["submit", file, "--json", "--wait"]).await;
            assert_counts(&third.expect_success().json(), submitted, 5 - submitted);
        }
        assert_eq!(world.balance("b").await, Amount::Int(1 + 5 + 1 + 1 + 7), "{name}");
        world.assert_at_rest().await;
        drop(worker);
        world.finish().await;
    }
}

#[tokio::test]
async fn what_stands_twice_or_was_stopped_is_not_paid_by_sending_the_results_again() {
    let world = world().await;
    let results = &world.path("results.csv");
    let rows = "id,source,destination,value\nt1,a,b,1\nt1,a,b,1\nt2,a,b,4\n";
    let file = world.write("rows.csv", rows);
    let first = ["submit", &file, "--json", "--skip-invalid"];
    assert_counts(&world.producer(&first).await.expect_success().json(), 2, 0);
    world.producer(&["cancel", "t2"]).await.expect_success();
    let worker = world.worker("one").start().await;
    let again = [&first[..], &["--wait", "--results", results]].concat();
    assert_counts(&world.producer(&again).await.expect_success().json(), 0, 2);
    let resent = ["submit", results, "--json", "--skip-invalid", "--wait"];
    let resent = world.producer(&resent).await.expect_success().json();
    assert_eq!((&resent["invalid"], &resent["unchanged"]), (&1.into(), &2.into()), "{resent}");
    assert_eq!(world.balance("b").await, Amount::Int(1));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn results_of_another_programs_file_are_sent_again_with_the_same_flags_and_pay_nothing_twice()
{
    let world = world().await;
    let worker = world.worker("one").start().await;
    let [results, lines] = ["results.csv", "results.jsonl"].map(|name| world.path(name));
    let text = "Ref,From,To,Amount,id\nr1,a,b,5,x\nr2,a,b,oops,y\nr3,a,\"b,7,z\n";
    let file = world.write("bank.csv", text);
    let flags = ["--columns", "id=Ref,source=From,destination=To,value=Amount"];
    let flags =
        [&flags[..], &["--ignore-columns", "id", "--skip-invalid", "--wait", "--json"]].concat();
    let refused = [&["submit", &file, "--results", &lines], &flags[..]].concat();
    let refused = world.producer(&refused).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("let the name end in .csv"), "{refused:?}");
    let first = [&["submit", &file, "--results", &results], &flags[..]].concat();
    assert_counts(&world.producer(&first).await.expect_success().json(), 1, 0);
    // Both are corrected, one after the other.
    let correct = |bad: &str, good: &str| {
        let text = std::fs::read_to_string(&results).expect("the results are there");
        assert!(text.contains(bad), "{text}");
        std::fs::write(&results, text.replace(bad, good)).expect("it can be written");
    };
    let again = [&["submit", &results], &flags[..]].concat();
    correct(",oops,", ",6,");
    assert_counts(&world.producer(&again).await.expect_success().json(), 1, 1);
    correct(",,,,\"r3,a,\"\"b,7,z\"", ",a,b,7,z");
    for submitted in [1, 0] {
        let sent = world.producer(&again).await.expect_success().json();
        assert_counts(&sent, submitted, 3 - submitted);
    }
    assert_eq!(world.balance("b").await, Amount::Int(5 + 6 + 7));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
