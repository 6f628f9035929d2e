//! Who runs jobs: the task of each server that takes what nobody has.
//!
//! Owns when a server looks, and what becomes of a job that breaks down. Promises that a job runs
//! at the server that has its lease and at no other, as far as clocks allow; that a server that
//! stops gives its jobs back; and that looking costs little, whether there are jobs or not. While
//! the database is away it looks again and again, and says nothing: the pages do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::limits::echo;
use mongo::{JobEnd, JobKind, JobRest, JobState};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::decide::{First, first};
use super::holding::Holding;
use super::{audit, bulk, log};
use crate::Api;

/// How often a server looks for a job that nobody has: one query through an index of at most two
/// entries.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// Takes jobs that nobody has and runs them, until this server stops; then gives them back.
pub async fn watch(api: Arc<Api>, stop: CancellationToken) {
    let (holder, mut running) = (holder(), JoinSet::new());
    while !stop.is_cancelled() {
        take_what_is_free(&api, &holder, &mut running).await;
        while running.try_join_next().is_some() {}
        let woken = async {
            tokio::select! {
                () = api.jobs.0.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        };
        stop.run_until_cancelled(woken).await;
    }
    while running.join_next().await.is_some() {}
}

/// This server, as pages name it.
fn holder() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}, process {}", echo(host.trim()), std::process::id())
}

async fn take_what_is_free(api: &Arc<Api>, holder: &str, running: &mut JoinSet<()>) {
    let store = api.client.store();
    let alive = match store.alive_jobs().await {
        Ok(alive) => alive,
        Err(error) => return tracing::debug!(%error, "jobs can't be looked for"),
    };
    for job in alive.iter().filter(|job| job.is_free()) {
        let sent = Instant::now();
        match store.take_job(job, holder).await {
            Ok(Some(job)) => drop(running.spawn(run(Holding::new(api.clone(), job, sent)))),
            // Another server was faster.
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, job = job.id, "a job can't be taken"),
        }
    }
}

/// Runs a job that this server has, until it is over or given back.
async fn run(holding: Holding) {
    let holding = Arc::new(holding);
    let (keeping, working) = (holding.clone(), holding.clone());
    let keeping = tokio::spawn(async move { keeping.keep().await });
    let work = async move {
        match (first(&working.job), working.job.kind) {
            (First::GoOn, JobKind::Bulk) => bulk::run(&working).await,
            (First::GoOn, JobKind::Audit) => audit::run(&working).await,
            (First::Pause(why), _) => working.rest(JobRest::PausedItself(why)).await,
            (First::Break(why), _) => {
                let end = JobEnd { state: JobState::Broken, why: Some(why), found: None };
                working.end(end).await;
            }
        }
    };
    if let Err(panicked) = tokio::spawn(work).await {
        tracing::error!(%panicked, job = holding.job.id, "a job broke down");
        let why = Some("it broke down, and the log says why".to_owned());
        holding.end(JobEnd { state: JobState::Broken, why, found: None }).await;
    }
    keeping.abort();
    let (job, progress) = (&holding.job, holding.progress());
    let by = (holding.actor().who.name, job.actor.who.request.clone().unwrap_or_default());
    let what = (&*job.id, &*job.operation, &*job.words, job.total);
    log(what, (&by.0, &by.1), holding.left().unwrap_or("lost"), &progress);
}
