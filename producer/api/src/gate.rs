//! Whether submissions are taken now.
//!
//! A submission is durable in the database before it is published, so a broker that is away loses
//! none. But nobody settles what piles up meanwhile. So while the broker is away or blocked, or too
//! many messages wait, new submissions are refused before anything of them is written. Promises to
//! open again within a few seconds after the reason has gone.
//!
//! Submissions that had been written when the broker went away are accepted, and the sweepers
//! publish them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::Client;
use queue::WORK;
use tokio_util::sync::CancellationToken;

use super::problem::{AWAY, Code, Problem};

/// How often to look at the queue.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why submissions are refused, and until when.
#[derive(Default)]
pub struct Gate(Mutex<Option<(Instant, String)>>);

impl Gate {
    /// Refuses while it is closed.
    pub fn check(&self) -> Result<(), Problem> {
        match &*self.0.lock().expect("no holder panics") {
            Some((until, why)) if Instant::now() < *until => {
                Err(Problem::new(Code::Unavailable, why.clone()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Closes it for a while. Whoever comes first after that finds out whether it works again.
    pub fn close(&self, why: impl Into<String>) {
        let why = why.into();
        let mut closed = self.0.lock().expect("no holder panics");
        if closed.is_none() {
            tracing::warn!(why, "submissions are refused for a while");
        }
        *closed = Some((Instant::now() + AWAY, why));
    }

    fn open(&self) {
        let mut closed = self.0.lock().expect("no holder panics");
        // What a submission has found out counts for the whole while: a broker that blocks
        // publishers still says how many messages wait.
        if closed.as_ref().is_some_and(|(until, _)| Instant::now() >= *until) {
            tracing::info!("submissions are taken again");
            *closed = None;
        }
    }
}

/// Looks at the queue again and again, until `stop`.
pub async fn watch(gate: Arc<Gate>, client: Client, most: u32, stop: CancellationToken) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    while stop.run_until_cancelled(looks.tick()).await.is_some() {
        match client.publisher().depth(WORK).await {
            Ok(depth) if depth > most => {
                gate.close(format!("{depth} messages wait for workers; {most} is the limit"));
            }
            Ok(_) => gate.open(),
            Err(error) => gate.close(error.to_string()),
        }
    }
}
