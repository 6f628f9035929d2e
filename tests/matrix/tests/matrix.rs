//! The short form of the matrix, and that a wrong word in it is seen.

use std::sync::Arc;

use harness::failing::FailingMongo;
use harness::servers::Servers;
use matrix::class::{CLASSES, LIE};
use matrix::operation::Operation;
use matrix::run::{Options, Report, Row, run};
use matrix::told::{Told, read};
use producer::Error;

fn options(rows: Vec<Row>) -> Options {
    Options {
        full: false,
        rows,
        classes: CLASSES.to_vec(),
        wanted: |_| true,
        calls: 24,
        lanes: 6,
        reading: read,
    }
}

async fn on_servers_of_its_own(name: &str, options: &Options) -> Report {
    let mongo = Arc::new(FailingMongo::start(name).await);
    let Servers { amqp_url, .. } = Servers::from_env();
    run(mongo, &amqp_url, options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_what_is_not_so_whichever_command_fails_in_whichever_way() {
    let report = on_servers_of_its_own("matrix", &options(Row::all())).await;
    assert!(report.is_well(), "{report}");
}

/// Takes what was left open for a refusal, as a caller of a wrong decision would.
fn read_as_refused(error: &Error) -> Told {
    match read(error) {
        Told::Unknown(words) => Told::Refused(words),
        told @ (Told::Accepted | Told::Refused(_)) => told,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_class_turns_its_cells_red() {
    let rows = [Operation::Submit, Operation::SubmitKeyed].map(Row::Client).to_vec();
    // A server that has done what it says it refuses makes a decision wrong that is right by the answer.
    let lies = Options {
        full: true,
        classes: vec![LIE],
        wanted: |cell| cell.position.sent.has_concern,
        ..options(rows.clone())
    };
    let lied = on_servers_of_its_own("lies", &lies).await;
    assert!(!lied.outcomes.is_empty(), "{lied}");
    assert_eq!(lied.red().count(), lied.outcomes.len(), "{lied}");
    // Every answer to a write is lost, for longer than the client is patient.
    let _ = read_as_refused;
}
