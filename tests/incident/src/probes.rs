//! What probes are told: `/readyz` of each replica of the API, as a load balancer asks it.
//!
//! Promises to note each answer that says a replica takes no requests while the replica runs: an
//! API without its broker goes on.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::http;
use tokio::sync::watch;
use tokio::time::sleep;

use super::phase::over;
use super::seen::{Outcome, Record, Seen};

const EVERY: Duration = Duration::from_secs(1);
const READY: u16 = 200;

/// Asks until it is told to stop; what is dead by then has no answer, and that is as it should be.
pub async fn ask(
    number: usize,
    probes: SocketAddr,
    record: Arc<Record>,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        let (phase, begun) = (record.phase(), Instant::now());
        let answer = http::get(probes, "/readyz").await;
        let outcome = match &answer {
            Some(answer) => Outcome::Status(answer.status),
            None => Outcome::NoAnswer,
        };
        if let Some(answer) = answer.as_ref().filter(|answer| answer.status != READY) {
            let (status, body) = (answer.status, answer.body.trim());
            record.probe(format!("/readyz of replica {number} said {status} ({body})"));
        }
        let said = answer.filter(|answer| answer.status != READY).map(|answer| answer.body);
        let what = format!("probe of replica {number}");
        record.see(Seen { what, phase, took: begun.elapsed(), outcome, said });
        tokio::select! {
            () = over(&mut stopped) => return,
            () = sleep(EVERY) => {}
        }
    }
}
