//! The end of a run: everything becomes final, and the workers end as they are told to.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use harness::process::Signal;

use super::clerk::Clerks;
use super::faults::now_ms;
use super::neighbour::Neighbour;
use super::observe::Resting;
use super::site::Site;

/// How long everything may take to come to rest.
const REST_LIMIT: Duration = Duration::from_secs(240);
/// At the end a hold is left to expire if it does so within this time, in milliseconds.
const LEFT_TO_EXPIRE_MS: i64 = 30_000;
/// Between two times that the neighbour puts right what it has done.
const TIDY_EVERY: Duration = Duration::from_secs(5);
/// How long a worker may take to end when it is told to; its own limit for that is 20 s.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);

/// Waits until everything is final. The neighbour helps with what it has done, and the clerks
/// release holds that would rest for ever, or for too long.
pub(crate) async fn come_to_rest(
    site: &Site,
    mut neighbour: Option<&mut Neighbour>,
    clerks: &Clerks,
    swept: &mut HashSet<String>,
) -> Vec<String> {
    let begun = Instant::now();
    let mut tidied: Option<Instant> = None;
    loop {
        if let Some(neighbour) = &mut neighbour
            && tidied.is_none_or(|tidied| tidied.elapsed() > TIDY_EVERY)
        {
            if let Err(problem) = neighbour.tidy().await {
                eprintln!("chaos: {problem}");
            }
            tidied = Some(Instant::now());
        }
        let unfinished = site.observer.unfinished_of_all().await;
        let resting = site.observer.resting().await;
        let is_empty = unfinished.as_ref().is_some_and(Vec::is_empty)
            && resting.as_ref().is_some_and(Vec::is_empty);
        // Asked once more: what was held or scheduled at the first look may have been moved before
        // the second.
        if is_empty && site.observer.unfinished_of_all().await.is_some_and(|left| left.is_empty()) {
            // What could not be deleted, because a worker that died had claimed it, is canceled by
            // now.
            return match neighbour {
                Some(neighbour) => neighbour.tidy().await.err().into_iter().collect(),
                None => Vec::new(),
            };
        }
        let patient_until = now_ms() + LEFT_TO_EXPIRE_MS;
        let rests_on = |one: &&Resting| one.is_held && one.due_ms > patient_until;
        for one in resting.iter().flatten().filter(rests_on) {
            swept.insert(one.id.clone());
            clerks.sweep(&one.id).await;
        }
        if begun.elapsed() > REST_LIMIT {
            let left = unfinished.unwrap_or_default();
            let some: Vec<_> = left.iter().take(5).collect();
            let resting = resting.unwrap_or_default();
            let some_resting: Vec<_> = resting.iter().take(5).collect();
            return vec![format!(
                "{} are not final {REST_LIMIT:?} after the last fault, like {some:?}; {} are on hold or \
                 scheduled, like {some_resting:?}",
                left.len(),
                resting.len()
            )];
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Lets the workers end as they are told to.
pub(crate) async fn drain(site: &Site) -> Vec<String> {
    let mut violations = Vec::new();
    for worker in &site.workers {
        violations.extend(worker.ended_unasked().await);
        worker.signal(Signal::Term, None).await;
    }
    let begun = Instant::now();
    for worker in &site.workers {
        let ended = loop {
            match worker.ended().await {
                Some(ended) => break Some(ended),
                None if begun.elapsed() > DRAIN_LIMIT => break None,
                None => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        let well = ended.as_ref().is_some_and(|e| e.status.is_none_or(|status| status.success()));
        if !well {
            violations.push(format!("{} did not end as told: {ended:?}", worker.name));
        }
    }
    violations
}
