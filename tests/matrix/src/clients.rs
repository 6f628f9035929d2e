//! The rows of the client: a cell calls an operation, and asks what came of it.

use std::time::Duration;

use crate::cell::{Cell, Outcome, Position, positions};
use crate::ground::Ground;
use crate::operation::Operation;
use crate::told::{Reading, Told, told, untrue};
use harness::proxy::Relay;

/// How long a call may take: several blocks, and the client's patience.
const CALL_LIMIT: Duration = Duration::from_secs(60);
/// How long the server may take to answer what is left when the caller was told.
const SETTLE_LIMIT: Duration = Duration::from_secs(20);

/// A cell that has run, for a last look when all have.
pub struct Ran {
    /// What came of it.
    pub outcome: Outcome,
    operation: Operation,
    subject: String,
    /// Which items have to be there in the end; the others must not be.
    expected: Vec<bool>,
}

/// Runs an operation without fault; what it sends.
///
/// # Panics
/// When it fails.
pub async fn record(ground: &Ground, operation: Operation) -> Vec<Position> {
    let subject = format!("{}-recorded", operation.name());
    operation.prepare(ground, std::slice::from_ref(&subject)).await;
    let relay = Relay::start(ground.mongo.clone(), &Ground::app_name(&subject)).await;
    let client = ground.client_through(&relay, &subject).await;
    for result in operation.call(&client, &subject).await {
        let is_so = result.is_ok() == operation.succeeds();
        assert!(is_so, "{} without fault: {result:?}", operation.name());
    }
    client.close().await;
    positions(&relay.sent())
}

/// Runs one cell on what was prepared for its subject.
pub async fn run(
    ground: &Ground,
    operation: Operation,
    cell: Cell,
    subject: String,
    reading: Reading,
) -> Ran {
    let relay = Relay::start(ground.mongo.clone(), &Ground::app_name(&subject)).await;
    relay.spoil(cell.spoil());
    let client = ground.client_through(&relay, &subject).await;
    let called = tokio::time::timeout(CALL_LIMIT, operation.call(&client, &subject)).await;
    let mut problems = Vec::new();
    let told: Vec<Told> = match called {
        Ok(results) => results.into_iter().map(|result| told(result, reading)).collect(),
        Err(_) => {
            problems.push(format!("no answer within {CALL_LIMIT:?}"));
            Vec::new()
        }
    };
    relay.release();
    if !relay.settled(SETTLE_LIMIT).await {
        problems.push(format!("the server has not answered within {SETTLE_LIMIT:?}"));
    }
    client.close().await;
    let is_there = operation.effect(ground, &subject).await;
    problems.extend(told.iter().zip(&is_there).filter_map(|(told, there)| untrue(told, *there)));
    let mut expected = told.iter().map(|told| *told == Told::Accepted).collect();
    if told.iter().any(|told| matches!(told, Told::Unknown(_))) {
        let again = operation.call(&ground.client, &subject).await;
        let others = again.iter().filter(|result| result.is_ok() != operation.succeeds());
        problems.extend(others.map(|other| format!("told unknown, and a repetition: {other:?}")));
        expected = vec![operation.succeeds(); is_there.len()];
    }
    let outcome = Outcome { cell, told, problems, was_met: relay.spoiled() > 0 };
    Ran { outcome, operation, subject, expected }
}

impl Ran {
    /// Looks once more, when all cells have run.
    pub async fn close(mut self, ground: &Ground) -> Outcome {
        let is_there = self.operation.effect(ground, &self.subject).await;
        for (expected, there) in self.expected.iter().zip(&is_there) {
            match (expected, there) {
                (true, true) | (false, false) => {}
                (true, false) => self.outcome.problems.push("at last not there".to_owned()),
                (false, true) => self.outcome.problems.push("refused, at last there".to_owned()),
            }
        }
        self.outcome
    }
}
