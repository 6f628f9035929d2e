//! Observing a run: what is unfinished, which workers have died by themselves, and how far the run
//! is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::faults::now_ms;
use super::site::Site;

/// The pause between two looks at what is unfinished.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The pause between two lines of progress.
const SAY_EVERY: Duration = Duration::from_secs(5);

/// How much was unfinished at a moment.
pub type Sample = (i64, usize);

/// What is known while it runs.
#[derive(Default)]
pub struct Progress {
    /// Faults that are over.
    pub faults: AtomicUsize,
    /// Faults that have begun and are not over.
    pub in_effect: AtomicUsize,
    /// How much was unfinished when.
    pub samples: Mutex<Vec<Sample>>,
    /// Workers that have ended although nobody has killed them.
    pub violations: Mutex<Vec<String>>,
}

impl Progress {
    /// Says a line.
    pub fn say(&self, text: impl std::fmt::Display) {
        eprintln!("chaos: {text}");
    }
}

/// Looks at what is unfinished and whether all workers live, and prints how far the run is.
pub async fn look(site: Arc<Site>, progress: Arc<Progress>, length: Duration) {
    let begun = Instant::now();
    let mut said = Instant::now();
    let mut last = 0;
    loop {
        if let Some(unfinished) = site.observer.unfinished().await {
            last = unfinished.len();
            progress.samples.lock().await.push((now_ms(), last));
        }
        for worker in &site.workers {
            progress.violations.lock().await.extend(worker.ended_unasked().await);
        }
        if said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            let submitted = site.observer.store.transactions().estimated_document_count().await;
            progress.say(format!(
                "{} s of {} s and rest: {} faults, {} in effect, about {} transactions, {last} \
                 unfinished",
                begun.elapsed().as_secs(),
                length.as_secs(),
                progress.faults.load(Ordering::Relaxed),
                progress.in_effect.load(Ordering::Relaxed),
                submitted.unwrap_or_default(),
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
