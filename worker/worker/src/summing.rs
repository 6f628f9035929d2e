//! Summing up lines of the journal, for statements.
//!
//! Owns when it is done: nobody waits for it. Several workers that sum up the same hinder nobody,
//! and whoever finds that another one is at it leaves it to that one for a while. Where it fails,
//! statements read lines, and a failure that lasts is told once.

use std::time::Duration;

use ledger::retry::jitter;
use mongo::{SETTLED_MS, Store};
use tokio_util::sync::CancellationToken;

use crate::components::pause;
use crate::turn::Turn;

/// How often to look for lines that have settled.
const EVERY: Duration = Duration::from_secs(16);

/// The pause between two attempts while more is waiting.
const PAUSE: Duration = Duration::from_millis(50);

/// Sums up again and again until `stop`. A worker that stands by leaves it to the one at work.
pub(crate) async fn sum_up(store: Store, turn: Turn, stop: CancellationToken) {
    let (mut wait, mut told) = (EVERY.mul_f64(jitter()), None);
    while pause(&stop, wait).await {
        if turn.is_standby() {
            wait = EVERY;
            continue;
        }
        let Some(summed) = stop.run_until_cancelled(store.sum_up(SETTLED_MS)).await else { return };
        let is_behind = summed.as_ref().is_ok_and(|summed| summed.is_behind);
        wait = if is_behind { PAUSE } else { EVERY.mul_f64(0.5 + jitter()) };
        let Err(error) = summed else { continue };
        let message = error.to_string();
        if error.passes() || told.as_ref() == Some(&message) {
            tracing::debug!(%error, "summing up lines later");
        } else {
            tracing::warn!(
                %error, "can't sum up lines: statements with `from` read them one by one"
            );
            told = Some(message);
        }
    }
}
