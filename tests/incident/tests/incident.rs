//! An incident in its short form.

use std::time::Duration;

use incident::run::{Options, run};

/// The short form of `deploy/incident`.
#[tokio::test]
async fn in_a_short_incident_nobody_is_told_what_is_not_so_and_nothing_accepted_is_lost() {
    let options = Options { away: Duration::from_secs(12), waiting: 2_000, clients: 8 };
    let report = run(&options).await.expect("it can be carried out");
    let text = report.markdown();
    assert!(report.is_well(), "{text}");
    for row in ["| broker away |", "| olivia: overview |", "| probe of replica 2 |"] {
        assert!(text.contains(row), "there is no row {row}:\n{text}");
    }
}
