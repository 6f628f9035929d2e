//! What is told is what the example says, field by field.

use std::time::{Instant, SystemTime};

use mongo::{FirstDue, SeenWorker, Settlement, WorkerReport};
use serde_json::Value;

use super::example;
use super::knowledge::{Knowledge, Ledger};
use super::types::Activity;

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

#[test]
fn a_worker_is_shown_as_drained_when_it_says_so_and_who_has_drained_it_before_that() {
    let (now, clock) = (Instant::now(), SystemTime::now());
    let seen = |name: &str, drained| {
        let (name, activity) = (name.to_owned(), "standby".to_owned());
        let report =
            WorkerReport { id: name.clone(), name, activity, drained, ..Default::default() };
        SeenWorker { report, started_at: None, seen_at: 90_000 }
    };
    let (id, by, reason) = ("c".to_owned(), "ada".to_owned(), Some("why".to_owned()));
    let said = Settlement { id, paused: true, since: 60_000, by, reason };
    let ledger = Ledger {
        now: 90_000,
        drained: ["gone", "is", "will"].map(|name| (name.to_owned(), said.clone())).to_vec(),
        workers: vec![seen("is", true), seen("not", false), seen("will", false)],
        ..Ledger::default()
    };
    let mut knowledge = Knowledge::default();
    knowledge.of_the_database(Ok(ledger), now, clock);
    let workers = knowledge.overview(0, now, clock).workers;
    let told = workers.iter().map(|worker| {
        let since_ms = worker.drain.as_ref().map(|drain| drain.since_ms);
        (worker.name.as_str(), worker.activity, since_ms)
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            ("is", Activity::Drained, Some(30_000)),
            ("not", Activity::Standby, None),
            ("will", Activity::Standby, Some(30_000)),
        ]
    );
}
