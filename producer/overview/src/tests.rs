//! What is told is what the example says, field by field.

use std::time::{Instant, SystemTime};

use mongo::FirstDue;
use serde_json::Value;

use super::example;
use super::knowledge::{Knowledge, Ledger};

#[test]
fn the_example_is_what_is_told() {
    let told: Value = serde_json::from_str(include_str!("example.json")).expect("JSON");
    assert_eq!(serde_json::to_value(example()).expect("JSON"), told);
}

/// What is told after each look: for how long the same transaction has been the first that is due.
#[test]
fn what_is_due_stands_still_only_while_the_same_one_is_the_first() {
    let (now, clock) = (Instant::now(), SystemTime::now());
    let mut knowledge = Knowledge::default();
    let mut still = |id: &str, at, seen_at| {
        let first_due = Some(FirstDue { id: id.to_owned(), at, seen_at });
        let ledger = Ledger { now: seen_at, first_due, ..Ledger::default() };
        knowledge.of_the_database(Ok(ledger), now, clock);
        knowledge.overview(0, now, clock).due.map(|due| (due.late_ms, due.still_ms))
    };
    assert_eq!(still("a", 1_000, 91_000), Some((90_000, 0)), "nobody knows what was before");
    assert_eq!(still("a", 1_000, 93_000), Some((92_000, 2_000)));
    assert_eq!(still("a", 1_000, 93_000), Some((92_000, 2_000)), "it was not asked anew");
    assert_eq!(still("b", 1_000, 95_000), Some((94_000, 0)), "one step was moved");
    assert_eq!(still("b", 1_000, 97_000), Some((96_000, 2_000)));
    assert_eq!(still("b", 50_000, 99_000), Some((49_000, 0)), "it was rescheduled");
    assert_eq!(still("b", 50_000, 160_000), Some((110_000, 61_000)), "nobody has looked meanwhile");
    knowledge.of_the_database(Err("away".to_owned()), now, clock);
    let told = knowledge.overview(0, now, clock).due.expect("it is known");
    assert_eq!(told.still_ms, 0, "while the database is away, nobody can move it");
    knowledge.of_the_database(Ok(Ledger::default()), now, clock);
    assert_eq!(knowledge.overview(0, now, clock).due, None);
}
