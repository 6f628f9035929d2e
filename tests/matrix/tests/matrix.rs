//! The shortest form of the matrix, and that it sees an untrue word. CI runs `deploy/matrix
//! --pairs`, too.

use std::sync::Arc;

use client::Error;
use harness::failing::{FailingMongo, Failure};
use harness::proxy::Fault;
use harness::servers::Servers;
use matrix::class::{CLASSES, Class, LIE};
use matrix::cover::Extent;
use matrix::operation::Operation;
use matrix::run::{Options, Report, Row, run};
use matrix::told::{Told, read};

/// The driver's error is told as it is; every cell is chosen.
fn all_of(rows: &[Operation], class: Class) -> Options {
    Options {
        extent: Extent::All,
        rows: rows.iter().copied().map(Row::Client).collect(),
        classes: vec![class],
        wanted: |cell| cell.position.sent.has_concern,
        calls: 8,
        lanes: 0,
        reading: read,
    }
}

async fn on_a_server_of_its_own(name: &str, options: &Options) -> Report {
    let mongo = Arc::new(FailingMongo::start(name).await);
    let Servers { amqp_url, .. } = Servers::from_env();
    run(mongo, &amqp_url, options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_what_is_not_so_whichever_command_fails_in_whichever_way() {
    let options = Options {
        extent: Extent::Each,
        rows: Row::all(),
        classes: CLASSES.to_vec(),
        wanted: |_| true,
        calls: 24,
        lanes: 6,
        reading: read,
    };
    let report = on_a_server_of_its_own("matrix", &options).await;
    assert!(report.is_well(), "{report}");
}

/// The server has done what it says it refuses. So a decision that is right by the answer is wrong,
/// as it would be with a wrong class.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_what_was_done_turns_its_cell_red() {
    let rows = [Operation::Submit, Operation::CreateAccounts];
    let report = on_a_server_of_its_own("matrix-lies", &all_of(&rows, LIE)).await;
    assert!(report.outcomes.len() >= rows.len(), "{report}");
    assert_eq!(report.red().count(), report.outcomes.len(), "{report}");
}

/// Takes what is left open for a refusal.
fn read_as_refused(error: &Error) -> Told {
    match read(error) {
        Told::Unknown(words) => Told::Refused(words),
        told @ (Told::Accepted | Told::Refused(_)) => told,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_end_that_is_taken_for_a_refusal_turns_its_cell_red() {
    // No attempt learns within the client's patience that what it wrote lasts.
    let concern = Failure::WriteConcern { code: 64, labels: Some(&[]) };
    let class = Class { fault: Fault::Server(concern), times: usize::MAX, ..CLASSES[0].clone() };
    let rows = [Operation::Submit];
    let options = all_of(&rows, class);
    let honest = on_a_server_of_its_own("matrix-open", &options).await;
    assert!(honest.is_well(), "{honest}");
    let options = Options { reading: read_as_refused, ..options };
    let report = on_a_server_of_its_own("matrix-misread", &options).await;
    assert_eq!(report.red().count(), report.outcomes.len(), "{report}");
}
