//! Watching the ledger's settings document.
//!
//! Promises that a worker ends soon after the settings name a version or a feature that it does
//! not know, or choose otherwise than when it has started. A database that is away is no reason to end.

use std::time::Duration;

use common::mongo::{NotReady, Store};
use common::retry::jitter;
use tokio_util::sync::CancellationToken;

use crate::parts::Outcome;
use crate::parts::pause;

/// Looks again and again until `stop`, about every `every`. The worker has started with `events` on
/// or off.
///
/// # Errors
/// When the settings do not fit this version, or events are not as they were.
pub async fn watch_settings(
    store: Store,
    events: bool,
    every: Duration,
    stop: CancellationToken,
) -> Outcome {
    while pause(&stop, every.mul_f64(0.5 + jitter())).await {
        match store.check_settings().await {
            Ok(Some(settings)) if settings.events != events => {
                let now = if settings.events { "on" } else { "off" };
                return Err(format!("the ledger has events {now} now; start the worker again"));
            }
            Ok(Some(_) | None) => {}
            Err(NotReady::Misfit(misfit)) => return Err(misfit.to_string()),
            Err(error) if error.passes() => {
                tracing::debug!(%error, "looking at the settings later");
            }
            Err(error) => tracing::warn!(%error, "can't look at the settings"),
        }
    }
    Ok(None)
}
