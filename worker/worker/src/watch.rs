//! Watching the ground that a worker stands on: the ledger's settings document, and the indexes of
//! others.
//!
//! Promises that a worker ends soon after the settings name a version or a feature that it does not
//! know, or choose otherwise than when it has started, and soon after an index that removes
//! documents turns up. One that may refuse writes is a warning: its owner is asked at the next
//! start. A database that is away is no reason to end.

use std::time::Duration;

use ledger::retry::jitter;
use mongo::{Finding, Misfit, NotReady, Store};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::components::{PartEnd, pause};
use crate::turn::Turn;

/// How often a worker looks that stands by.
const EVERY_IN_STANDBY: Duration = Duration::from_secs(5);

/// One that stands by looks at the indexes in one of so many looks only: whoever is at work does so
/// in each.
const LOOKS_PER_GROUND: u32 = 24;

/// Looks again and again until `stop`, about every `every`, and tells whether workers stand by for
/// one another now. The worker has started with `events` on or off.
///
/// # Errors
/// When the settings do not fit this version, events are not as they were, or something removes
/// documents.
pub async fn watch_ground(
    store: Store,
    events: bool,
    (standby, turn): (watch::Sender<bool>, Turn),
    every: Duration,
    stop: CancellationToken,
) -> PartEnd {
    let mut warned_of = Vec::new();
    for number in 0_u32.. {
        let stands_by = turn.is_standby();
        let every = if stands_by { every.max(EVERY_IN_STANDBY) } else { every };
        if !pause(&stop, every.mul_f64(0.5 + jitter())).await {
            break;
        }
        let with_ground = !stands_by || number.is_multiple_of(LOOKS_PER_GROUND);
        match look(&store, events, &standby, with_ground).await {
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
    events: bool,
    standby: &watch::Sender<bool>,
    with_ground: bool,
) -> Result<Option<Vec<Finding>>, NotReady> {
    let settings = store.check_settings().await?;
    if let Some(wanted) = settings.as_ref().map(|settings| settings.standby) {
        standby.send_if_modified(|standby| std::mem::replace(standby, wanted) != wanted);
    }
    match &settings {
        Some(settings) if settings.events != events => {
            Err(Misfit::EventsChanged { on: settings.events }.into())
        }
        Some(_) | None if with_ground => store.check_ground(settings).await.map(Some),
        Some(_) | None => Ok(None),
    }
}
