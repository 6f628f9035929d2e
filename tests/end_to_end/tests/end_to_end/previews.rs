//! `submit --check`: what a file would do, without doing it.

use harness::world::{World, transfer};
use ledger::transaction::State;
use serde_json::json;

#[tokio::test]
async fn a_check_says_what_a_file_would_do_and_writes_nothing() {
    let world = World::new().await;
    world.accounts(&[("rich", 1_000), ("poor", 5), ("cold", 50), ("b", 0)]).await;
    world.producer(&["accounts", "freeze", "cold"]).await.expect_success();
    world.insert(&[transfer("known", "rich", "b", 7)]).await;
    let rows = "id,source,destination,value\nknown,rich,b,7\nt1,rich,b,10\nt2,poor,b,6\n\
                t3,cold,b,1\nt4,rich,nobody,2\nt5,b,rich,3\n";
    let file = &world.write("rows.csv", rows);
    let checked = world.producer(&["submit", file, "--check", "--json"]).await;
    assert_eq!(checked.code, Some(1), "{checked:?}");
    let found = checked.json();
    assert_eq!(
        found["totals"][""],
        json!({ "rows": 6, "sum": "29", "smallest": "1", "largest": "10", "shown": "29" })
    );
    assert_eq!(found["known"], json!({ "initial": 1 }));
    let examples = |name: &str| found["accounts"][name]["examples"].clone();
    assert_eq!(examples("missing"), json!(["nobody"]));
    assert_eq!(examples("frozen"), json!(["cold"]));
    assert_eq!(examples("short"), json!(["poor (needs 6, has 5)"]));
    assert_eq!(examples("short_at_first"), json!(["b (needs 3, has 0)"]));
    let said = world.producer(&["submit", file, "--check"]).await.stdout;
    assert!(
        said.contains("1 missing: nobody") && said.ends_with("nothing was written\n"),
        "{said}"
    );
    assert_eq!(world.count(&State::ALL).await, 1, "nothing was written");
    world.finish().await;
}

#[tokio::test]
async fn where_an_account_is_missing_the_one_that_looks_like_it_is_named() {
    let world = World::new().await;
    // As other programs have made them; Tandem makes only `a`.
    world.accounts(&[("a", 100), ("bob ", 0), ("Jose\u{301}", 0), ("Carol", 0)]).await;
    let api = world.api(&[]).await;
    let worker = world.worker("one").start().await;
    for (asked, other) in
        [("bob", r#""bob ""#), ("Jos\u{e9}", r#""Jose\u{301}""#), ("carol", r#""Carol""#)]
    {
        let told = format!("there is {other}, which looks like it");
        let file = &world.write("rows.csv", format!("source,destination,value\na,{asked},1\n"));
        let checked = world.producer(&["submit", file, "--check"]).await;
        assert!(checked.stdout.contains(&told), "{checked:?}");
        let json = world.producer(&["submit", file, "--check", "--json"]).await.json();
        assert_eq!(json["accounts"]["missing"]["examples"], json!([asked]), "{json}");
        let shown = world.producer(&["accounts", "show", asked]).await;
        assert!(shown.code == Some(1) && shown.stderr.contains(&told), "{shown:?}");
        let path = format!("/v1/accounts/{}", ledger::uri::segment(asked));
        let answer = api.get(&path).await.expect(404).json();
        assert!(answer["detail"].as_str().is_some_and(|it| it.contains(&told)), "{answer}");
        let id = format!("to-{other}").replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let refused = world.producer(&["transfer", "a", asked, "1", "--id", &id, "--wait"]).await;
        assert_ne!(refused.code, Some(0), "{refused:?}");
        let status = world.producer(&["status", &id]).await;
        assert!(status.stderr.contains(&told), "{status:?}");
    }
    let shown = world.producer(&["accounts", "show", "nobody"]).await;
    assert!(!shown.stderr.contains("looks like"), "{shown:?}");
    drop((worker, api));
    world.finish().await;
}

#[tokio::test]
async fn a_check_says_what_would_refuse_a_file_and_the_same_rows_of_another_batch() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let write =
        |name: &str, rows: &str| world.write(name, format!("source,destination,value\n{rows}"));
    let good = write("good.csv", "a,b,1\na,b,2\n");
    let check = async |file: &str, more: &[&str]| {
        world.producer(&[&["submit", file, "--check", "--json"], more].concat()).await
    };
    let clean = check(&good, &[]).await.expect_success().json();
    assert_eq!(clean["refused"], json!([]), "{clean}");
    world.producer(&["submit", &good, "--batch", "may"]).await.expect_success();
    for (file, more, expected) in [
        (&good, &[][..], "as the batch \"may\""),
        (&write("cut.csv", "a,b,1\na,b,2"), &[], "--allow unfinished-line"),
        (&write("bad.csv", "a,b,x\na,b,1\n"), &[], "1 of 2 rows are invalid"),
        (&good, &["--batch", "may", "--expect-rows", "3"], "the file has 2 rows, not 3"),
    ] {
        let refused = check(file, more).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        let why = refused.json()["refused"].to_string();
        assert!(why.replace('\\', "").contains(expected), "{why} should say {expected:?}");
    }
    let known = check(&good, &["--batch", "may"]).await.expect_success().json();
    assert_eq!(known["known"], json!({ "initial": 2 }));
    assert_eq!(world.count(&State::ALL).await, 2, "nothing more was written");
    world.finish().await;
}
