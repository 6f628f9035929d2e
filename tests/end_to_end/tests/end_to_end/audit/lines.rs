//! Books against lines: each fault between the journal and the documents of transactions is named,
//! and what is written while an audit runs is no fault.

use std::time::Duration;

use audit::Rule;
use client::Capture;
use harness::odd;
use harness::wait::s;
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongodb::bson::{Bson, Document, doc};

use super::{READ_BEFORE, audit_with_pause, audited, fill, found, hold, journal};

const SOON: Duration = Duration::from_secs(30);

/// A fault that somebody has planted by hand.
enum Plant {
    /// In the line of the transfers.
    Line(Document),
    /// In the document of a transaction.
    Transaction(&'static str, Document),
    /// The line is removed.
    NoLine,
    /// One more line.
    OneMore(Document),
}

/// A ledger at rest: `t`, `u` and `v` are in one line, a refused one and a hold of which a part was
/// captured in others, and `waits` is in none.
async fn at_rest() -> (World, Document) {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0), ("c", 0)]).await;
    let worker = world.worker("one").start().await;
    let refused = transfer("refused", "b", "a", 5_000);
    world.submit(&[refused, hold("held")], 2).await;
    world.wait_state("refused", State::Canceled, SOON).await;
    world.wait_state("held", State::Held, SOON).await;
    let client = world.client().await;
    let part = Capture::Value(ledger::amount::Amount::Int(7));
    client.confirm("held", &part).await.expect("it is held");
    world.wait_state("held", State::Done, SOON).await;
    let together =
        [transfer("t", "a", "b", 5), transfer("u", "a", "c", 2), transfer("v", "a", "b", 1)];
    world.submit(&together, 3).await;
    for id in ["t", "u", "v"] {
        world.wait_state(id, State::Done, SOON).await;
    }
    drop(worker);
    world.insert(&[transfer("waits", "a", "b", 1)]).await;
    let named = world.transaction("t").await;
    let line = journal(&world).find_one(doc! { "_id": named.get("line") }).await;
    let line = line.expect("MongoDB is there").expect("its line is there");
    assert_eq!(line.get_array("done").expect("a list").len(), 3, "{line}");
    (world, line)
}

/// Plants a fault, audits, and puts everything back.
async fn with(world: &World, line: &Document, plant: &Plant) -> Vec<String> {
    let (journal, transactions) = (journal(world), world.store.transactions());
    let own = line.get_str("_id").expect("a text");
    let mut before = None;
    match plant {
        Plant::Line(update) => odd::edit(&journal, own, update.clone()).await,
        Plant::Transaction(id, update) => {
            before = Some(world.transaction(id).await);
            odd::edit(&transactions, id, update.clone()).await;
        }
        Plant::NoLine => {
            journal.delete_one(doc! { "_id": own }).await.expect("MongoDB is there");
        }
        Plant::OneMore(line) => odd::insert(&journal, std::slice::from_ref(line)).await,
    }
    let report = audited(world).await;
    journal.delete_many(doc! { "_id": { "$in": [own, "more"] } }).await.expect("MongoDB is there");
    odd::insert(&journal, std::slice::from_ref(line)).await;
    if let Some(before) = before {
        let itself = doc! { "_id": before.get("_id") };
        let replace = transactions.replace_one(itself, before);
        replace.bypass_document_validation(true).await.expect("MongoDB is there");
    }
    let of_lines = report.violations.iter().filter(|one| one.rule == Rule::Line);
    let mut found: Vec<String> = of_lines.map(ToString::to_string).collect();
    found.sort_unstable();
    found
}

fn set(field: &str, value: impl Into<Bson>) -> Document {
    doc! { "$set": { field: value } }
}

/// A line that nothing but a hand has written.
fn one_more(done: Bson) -> Plant {
    Plant::OneMore(doc! {
        "_id": "more", "kind": "tandem-line", "at": mongodb::bson::DateTime::now(),
        "application": "w", "accounts": ["a", "b"], "nets": [-5_i64, 5_i64], "done": [done],
        "canceled": [],
    })
}

/// Faults, and what is said of each. `LINE` stands for the name of the line.
fn faults(line: &Document) -> Vec<(Plant, Vec<&'static str>)> {
    let entry = |id: &str| -> Bson {
        vec![Bson::from(id), 0.into(), (-5_i64).into(), 1.into(), 5_i64.into()].into()
    };
    let done = line.get_array("done").expect("a list");
    let place = |id: &str| {
        done.iter().position(|one| one.as_array().is_some_and(|one| one[0] == Bson::from(id)))
    };
    let of_t = |at: usize| format!("done.{}.{at}", place("t").expect("it has one"));
    let without_u: Vec<Bson> = done
        .iter()
        .enumerate()
        .filter(|(at, _)| Some(*at) != place("u"))
        .map(|(_, one)| one.clone())
        .collect();
    let twice: Vec<Bson> = done.iter().chain(done.first()).cloned().collect();
    let gone = |id: &str| match id {
        "t" => "transactions/t: names the line LINE, which is not there (rule 11)",
        "u" => "transactions/u: names the line LINE, which is not there (rule 11)",
        _ => "transactions/v: names the line LINE, which is not there (rule 11)",
    };
    let all_gone = || ["t", "u", "v"].map(gone).to_vec();
    vec![
        (Plant::NoLine, all_gone()),
        (Plant::Line(set("kind", "somebody's")), all_gone()),
        (
            Plant::Line(set("done", without_u)),
            vec![
                "tandem.journal/LINE: its net of account ",
                "transactions/u: names the line LINE, which has no entry of it (rule 11)",
            ],
        ),
        (
            Plant::Line(set("done", twice)),
            vec!["tandem.journal/LINE: has two entries of ", "tandem.journal/LINE: its net of "],
        ),
        (
            Plant::Line(set(&of_t(2), -6_i64)),
            vec![
                "tandem.journal/LINE: its net of account \"a\" is -8, and should be -9 (rule 11)",
                "transactions/t: differs from the line LINE: -5 on account \"a\", and -6 on account",
            ],
        ),
        (
            Plant::Line(set("nets.0", -7_i64)),
            vec!["tandem.journal/LINE: its net of account \"a\" is -7, and should be -8 (rule 11)"],
        ),
        (
            Plant::Line(set("accounts", "a")),
            vec!["tandem.journal/LINE: can't be read: its `accounts` is no list (rule 11)"],
        ),
        (
            Plant::Transaction("t", doc! { "$unset": { "line": "" } }),
            vec![
                "transactions/t: is done, and names no line (rule 11)",
                "transactions/t: names no line, and is in the line LINE (rule 11)",
            ],
        ),
        (
            Plant::Transaction("t", set("line", "nowhere")),
            vec![
                "transactions/t: names the line nowhere, and is in the line LINE, too (rule 11)",
                "transactions/t: names the line nowhere, which is not there (rule 11)",
            ],
        ),
        (
            Plant::Transaction("t", set("state", "canceled")),
            vec!["transactions/t: is canceled, and done in the line LINE (rule 11)"],
        ),
        (
            Plant::Transaction("t", set("value", 6_i64)),
            vec!["transactions/t: differs from the line LINE: -6 on account \"a\", and -5 on"],
        ),
        (
            one_more(entry("nobody")),
            vec!["tandem.journal/more: has an entry of transactions/nobody, which is not there"],
        ),
        (
            one_more(entry("waits")),
            vec!["transactions/waits: is initial, and done in the line more"],
        ),
        (
            one_more(entry("t")),
            vec!["transactions/t: names the line LINE, and is in the line more, too (rule 11)"],
        ),
    ]
}

#[tokio::test]
async fn each_fault_between_books_and_lines_is_named_and_nothing_else() {
    let (world, line) = at_rest().await;
    let report = audited(&world).await;
    assert_eq!((report.violations, report.lines > 2), (vec![], true));
    let own = line.get_str("_id").expect("a text");
    for (number, (plant, expected)) in faults(&line).into_iter().enumerate() {
        let found = with(&world, &line, &plant).await;
        let expected: Vec<String> = expected.iter().map(|one| one.replace("LINE", own)).collect();
        let same = found.len() == expected.len()
            && found.iter().zip(&expected).all(|(found, expected)| found.starts_with(expected));
        assert!(same, "fault {number}: {found:#?}, and not {expected:#?}");
    }
    // What others have put there is no line.
    let foreign = doc! { "_id": "more", "kind": "mine", "done": "yes" };
    assert_eq!(with(&world, &line, &Plant::OneMore(foreign)).await, Vec::<String>::new());
    assert_eq!(audited(&world).await.violations, []);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_is_written_while_the_transactions_are_read_is_no_fault() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000), ("b", 0)]).await;
    let client = world.client().await;
    // The first is read before the pause, and the others after it.
    world.insert(&[transfer("before", "a", "b", 1)]).await;
    fill(&world, READ_BEFORE).await;
    world.insert(&[transfer("behind", "a", "b", 2), transfer("other", "a", "b", 3)]).await;
    let report = audit_with_pause(&client, async {
        let worker = world.worker("one").start().await;
        world.publish(&["before".into(), "behind".into()], 2).await;
        for id in ["before", "behind"] {
            world.wait_state(id, State::Done, SOON).await;
        }
        drop(worker);
        let lines = [world.transaction("before").await, world.transaction("behind").await];
        assert_eq!(lines[0].get("line"), lines[1].get("line"), "they end together");
    })
    .await;
    assert_eq!((report.violations, report.lines), (vec![], 2));

    // Somebody who names that line without being in it is found there, too.
    let plant = async {
        let worker = world.worker("two").start().await;
        world.insert(&[transfer("late", "a", "b", 4)]).await;
        world.publish(&["other".into(), "late".into()], 2).await;
        for id in ["other", "late"] {
            world.wait_state(id, State::Done, s(30)).await;
        }
        drop(worker);
        let mut stray = world.transaction("late").await;
        stray.insert("_id", "stray");
        stray.insert("state", "canceled");
        odd::insert(&world.store.transactions(), &[stray]).await;
    };
    let report = audit_with_pause(&client, plant).await;
    assert_eq!(found(&report), ["transactions/stray"], "{report:?}");
    world.finish().await;
}
