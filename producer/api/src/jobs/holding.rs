//! A job that this server has, while it has it.
//!
//! Promises that the lease is renewed about every second, and what has been done is noted with it;
//! that a wish is heard by that, too; and that nothing is begun with a lease that may have run out:
//! its end is reckoned from before the renewal was sent, by a clock of this process that never goes
//! back. One write of the job is under way at a time, so no older one comes after a newer one.
//! Fails by telling that the job is lost: another server has it then.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use mongo::{JOB_LEASE, JobActor, JobEnd, JobProgress, JobRest, JobWish, SeenJob};

use crate::Api;

/// How often the lease is renewed, and a wish is looked for.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// So long before its end a lease counts as over: the next item takes some time to be sent.
const MARGIN: Duration = Duration::from_secs(3);

/// What is known of the job.
struct Known {
    wish: JobWish,
    actor: JobActor,
    progress: JobProgress,
    failures_noted: usize,
    /// When the renewal was sent that was answered last.
    renewed: Instant,
    /// What has become of it here, once this server does not have it any more.
    left: Option<&'static str>,
}

/// A job that this server has.
pub struct Holding {
    /// What all requests share.
    pub api: Arc<Api>,
    /// The job as it was taken.
    pub job: SeenJob,
    known: Mutex<Known>,
    writing: tokio::sync::Mutex<()>,
}

/// Whether a lease that was renewed so long ago surely lasts.
fn surely_lasts(since_renewed: Duration) -> bool {
    since_renewed < JOB_LEASE - MARGIN
}

impl Holding {
    /// A job that was taken; the command was sent at this moment.
    pub fn new(api: Arc<Api>, job: SeenJob, sent: Instant) -> Holding {
        let known = Known {
            wish: job.wish,
            actor: job.actor.clone(),
            progress: job.progress.clone(),
            failures_noted: job.progress.failures.len(),
            renewed: sent,
            left: None,
        };
        Holding { api, job, known: Mutex::new(known), writing: tokio::sync::Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Each change of what is known is complete at every line.
        self.known.lock().unwrap_or_else(|broken| broken.into_inner())
    }

    /// What somebody wants of it, as was heard last.
    pub fn wish(&self) -> JobWish {
        self.known().wish
    }

    /// In whose name it acts, as was heard last.
    pub fn actor(&self) -> JobActor {
        self.known().actor.clone()
    }

    /// How far it has come.
    pub fn progress(&self) -> JobProgress {
        self.known().progress.clone()
    }

    /// Changes how far it has come; that is noted with the next renewal.
    pub fn note<T>(&self, change: impl FnOnce(&mut JobProgress) -> T) -> T {
        change(&mut self.known().progress)
    }

    /// Whether this server does not have it any more.
    pub fn is_over(&self) -> bool {
        self.left().is_some()
    }

    /// What has become of it here, as a word for the log, once this server does not have it any
    /// more.
    pub fn left(&self) -> Option<&'static str> {
        self.known().left
    }

    /// Whether its next item may be begun.
    pub fn may_go_on(&self) -> bool {
        let known = self.known();
        known.left.is_none()
            && known.wish == JobWish::GoOn
            && surely_lasts(known.renewed.elapsed())
            && !self.api.stop.is_cancelled()
    }

    /// Renews the lease until the job is over.
    pub async fn keep(&self) {
        while !self.is_over() {
            tokio::time::sleep(BEAT_EVERY).await;
            self.beat().await;
        }
    }

    /// Renews the lease, notes how far the job has come, and hears what is wanted.
    pub async fn beat(&self) {
        let _alone = self.writing.lock().await;
        if self.is_over() {
            return;
        }
        let (progress, with_failures) = {
            let known = self.known();
            let more = known.progress.failures.len() > known.failures_noted;
            (known.progress.clone(), more)
        };
        let (store, sent) = (self.api.client.store(), Instant::now());
        let beat = store.beat_job(&self.job.id, self.job.lease, &progress, with_failures).await;
        let mut known = self.known();
        match beat {
            Ok(Some(beat)) => {
                (known.wish, known.actor, known.renewed) = (beat.wish, beat.actor, sent);
                known.failures_noted = progress.failures.len();
            }
            Ok(None) => {
                known.left = Some("lost");
                tracing::warn!(job = self.job.id, "another server has the job, or it is over");
            }
            Err(error) => tracing::warn!(%error, job = self.job.id, "a job can't be noted"),
        }
    }

    /// Gives the job back. If somebody wishes something else by now, it stays, and that is heard.
    pub async fn rest(&self, rest: JobRest) {
        let alone = self.writing.lock().await;
        let (store, progress) = (self.api.client.store(), self.progress());
        let write = || store.rest_job(&self.job.id, self.job.lease, &progress, &rest);
        match self.api.client.insist(write).await {
            Ok(true) => {
                self.known().left = Some(match rest {
                    JobRest::Paused | JobRest::PausedItself(_) => "paused",
                    JobRest::Released => "given back",
                });
            }
            Ok(false) => {
                drop(alone);
                self.beat().await;
            }
            // Its lease runs out, and another server goes on, or this one.
            Err(error) => {
                self.known().left = Some("not given back");
                tracing::warn!(%error, job = self.job.id, "a job can't be given back");
            }
        }
    }

    /// Ends the job.
    pub async fn end(&self, end: JobEnd) {
        let _alone = self.writing.lock().await;
        let (store, progress) = (self.api.client.store(), self.progress());
        let write = || store.end_job(&self.job.id, self.job.lease, &progress, &end);
        let left = match self.api.client.insist(write).await {
            Ok(true) => end.state.as_str(),
            Ok(false) => "lost",
            // As above: who goes on with it finds that nothing is left.
            Err(error) => {
                tracing::warn!(%error, job = self.job.id, "the end of a job can't be noted");
                "not noted"
            }
        };
        self.known().left = Some(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_begun_with_a_lease_that_may_have_run_out() {
        assert!(surely_lasts(Duration::ZERO) && surely_lasts(3 * BEAT_EVERY));
        for late in [JOB_LEASE - MARGIN, JOB_LEASE, Duration::from_secs(3_600)] {
            assert!(!surely_lasts(late), "{late:?}");
        }
    }
}
