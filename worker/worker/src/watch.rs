//! Watching the ground that a worker stands on: the ledger's settings document, what was last said of
//! settlement, and the indexes of others.
//!
//! Promises that a worker ends soon after the settings name a version or a feature that it does not
//! know, or choose otherwise than when it has started, and soon after an index that removes
//! documents turns up. One that may refuse writes is a warning: its owner is asked at the next
//! start. Promises that a worker at work sees within a second that settlement is paused or that it is
//! drained, one that is drained that somebody has resumed it, and one that stands by both within three
//! seconds, and when it gets the turn. A database that is away is no reason to end.

use std::time::{Duration, Instant};

use ledger::retry::jitter;
use mongo::{Finding, Misfit, NotReady, Store};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::components::{PartEnd, pause};
use crate::paused::PauseTeller;
use crate::turn::Turn;

/// The longest pause between two looks of a worker at the settings and at what was said of
/// settlement: three documents, each by its `_id`, in one command. A change stream would cost the
/// database more, because it reads everything that is written.
const EVERY: Duration = Duration::from_millis(900);

/// The same of one that stands by: it begins nothing, and looks when it gets the turn.
const EVERY_IN_STANDBY: Duration = Duration::from_secs(3);

/// One that stands by looks at the indexes this seldom: whoever is at work does so in each sweep.
const GROUND_EVERY_IN_STANDBY: Duration = Duration::from_secs(120);

/// Where it is told what the settings say that workers follow while they run.
pub struct Followed {
    /// Whether workers stand by for one another.
    pub standby: watch::Sender<bool>,
    /// Whether settlement is paused, and whether this worker is drained.
    pub settlement: PauseTeller,
}

/// The worker that looks.
pub struct Watcher {
    /// Its name, by which it is drained.
    pub name: String,
    /// Whether it has started with events on.
    pub events: bool,
}

/// Looks at the settings again and again until `stop`, and at indexes about every `every`, and
/// tells what workers follow.
///
/// # Errors
/// When the settings do not fit this version, events are not as they were, or something removes
/// documents.
pub async fn watch_ground(
    store: Store,
    watcher: Watcher,
    (followed, mut turn): (Followed, Turn),
    every: Duration,
    stop: CancellationToken,
) -> PartEnd {
    let (mut warned_of, mut ground_at) = (Vec::new(), None::<Instant>);
    loop {
        let is_idle = turn.is_standby() && !turn.paused().is_drained();
        let longest = if is_idle { EVERY_IN_STANDBY } else { EVERY };
        let waited = tokio::select! {
            biased;
            waited = pause(&stop, longest.mul_f64(0.8 + 0.2 * jitter())) => waited,
            () = turn.begins() => true,
        };
        if !waited {
            break;
        }
        let ground_every = if turn.is_standby() { GROUND_EVERY_IN_STANDBY } else { every };
        let ground_every = ground_every.mul_f64(0.5 + jitter());
        let with_ground = ground_at.is_none_or(|at| at.elapsed() >= ground_every);
        if with_ground {
            ground_at = Some(Instant::now());
        }
        match look(&store, &watcher, &followed, with_ground).await {
            Ok(None) => {}
            Ok(Some(refusing)) => {
                for finding in refusing.iter().filter(|finding| !warned_of.contains(*finding)) {
                    tracing::warn!("{finding}");
                }
                warned_of = refusing;
            }
            Err(NotReady::Misfit(misfit)) => return Err(misfit.to_string()),
            Err(error @ NotReady::Unfit(_)) => return Err(error.to_string()),
            Err(error) if error.passes() => {
                tracing::debug!(%error, "looking at the settings and indexes later");
            }
            Err(error) => tracing::warn!(%error, "can't look at the settings and indexes"),
        }
    }
    Ok(None)
}

/// The indexes that may refuse writes and that nobody has accepted, if they are looked at.
async fn look(
    store: &Store,
    watcher: &Watcher,
    followed: &Followed,
    with_ground: bool,
) -> Result<Option<Vec<Finding>>, NotReady> {
    let (settings, said) = store.check_followed(&watcher.name).await?;
    // Where they are missing, somebody may have dropped the database: then all stays as it was.
    if let Some(settings) = &settings {
        let wanted = settings.standby;
        followed.standby.send_if_modified(|standby| std::mem::replace(standby, wanted) != wanted);
        followed.settlement.tell(&said);
    }
    match &settings {
        Some(settings) if settings.events != watcher.events => {
            Err(Misfit::EventsChanged { on: settings.events }.into())
        }
        Some(_) | None if with_ground => store.check_ground(settings).await.map(Some),
        Some(_) | None => Ok(None),
    }
}
