//! The audit that somebody in the console has begun.
//!
//! Promises that its progress is told while it runs, and that it ends with what it has found or
//! with its problem. It only reads, so it may be broken off at any moment, and begins anew at another
//! server. It waits for one that was asked for by the API.

use std::sync::Arc;
use std::time::Duration;

use mongo::{JobEnd, JobRest, JobState};

use super::decide::{Next, next};
use super::holding::Holding;
use crate::ledger::audited_in_turn;

/// How often it is looked whether it shall end before its end.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Audits, until the job is over or given back.
pub async fn run(holding: &Arc<Holding>) {
    let reading = holding.clone();
    let mut running = tokio::spawn(async move {
        let progress = |read: u64, what: &str| {
            reading.note(|progress| (progress.read, progress.reading) = (read, what.to_owned()));
        };
        audited_in_turn(&reading.api, progress).await
    });
    while !holding.is_over() {
        let ended = tokio::select! {
            ended = &mut running => ended,
            () = tokio::time::sleep(LOOK_EVERY) => {
                match next(holding.wish(), false, holding.api.stop.is_cancelled()) {
                    Next::Work | Next::End => {}
                    Next::Stop => {
                        let end = JobEnd { state: JobState::Stopped, why: None, found: None };
                        holding.end(end).await;
                    }
                    Next::Pause => holding.rest(JobRest::Paused).await,
                    Next::Leave => holding.rest(JobRest::Released).await,
                }
                continue;
            }
        };
        let end = match ended {
            Ok(Ok(found)) => JobEnd {
                state: JobState::Ended,
                why: None,
                found: serde_json::to_string(&found).ok(),
            },
            Ok(Err(problem)) => {
                JobEnd { state: JobState::Broken, why: Some(problem.detail), found: None }
            }
            Err(panicked) => {
                tracing::error!(%panicked, job = holding.job.id, "an audit broke down");
                let why = "it broke down, and the log says why".to_owned();
                JobEnd { state: JobState::Broken, why: Some(why), found: None }
            }
        };
        return holding.end(end).await;
    }
    // The driver gives no connection back whose command was broken off.
    running.abort();
}
