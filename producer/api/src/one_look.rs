//! One look at the dead letters at a time, at whichever server.
//!
//! Owns the turn of a look: a lock in this server, so that its requests ask the database one after
//! the other, and behind it a lease that all servers share. Promises that the lease is renewed
//! while the look lasts; a look that has lost it is told so. Dropped without its end, as when a server
//! dies or a broker says nothing, it holds the others up until its lease has run out: by then the
//! broker has put its letters back. Fails with the error of the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::Error;
use mongo::LETTER_LEASE;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::Api;
use super::problem::Problem;

/// How long to wait before the next try to take the turn.
const TRY_EVERY: Duration = Duration::from_millis(150);

/// How often a turn is renewed.
fn renew_every() -> Duration {
    LETTER_LEASE / 4
}

/// The turn of one look.
pub struct OneLook {
    api: Arc<Api>,
    holder: String,
    is_lost: Arc<AtomicBool>,
    renewing: JoinHandle<()>,
    _here: OwnedMutexGuard<()>,
}

impl OneLook {
    /// Waits for the turn until this moment; none if it has not come by then.
    pub async fn begin(api: &Arc<Api>, until: Instant) -> Result<Option<OneLook>, Problem> {
        let Ok(here) = timeout_at(until, api.looking.clone().lock_owned()).await else {
            return Ok(None);
        };
        let holder = uuid::Uuid::new_v4().simple().to_string();
        let store = api.client.store();
        // Asked to its end each time: a turn that comes when nobody waits any more would be lost.
        while !store.take_letters(&holder).await.map_err(away)? {
            if Instant::now() >= until {
                return Ok(None);
            }
            tokio::time::sleep(TRY_EVERY).await;
        }
        let is_lost = Arc::new(AtomicBool::new(false));
        let renewing = tokio::spawn(renew(api.clone(), holder.clone(), is_lost.clone()));
        Ok(Some(OneLook { api: api.clone(), holder, is_lost, renewing, _here: here }))
    }

    /// Whether another look has taken the turn.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Gives the turn to the next one.
    pub async fn end(self) {
        self.renewing.abort();
        if let Err(error) = self.api.client.store().leave_letters(&self.holder).await {
            tracing::debug!(%error, "the next look waits until the turn of this one has run out");
        }
    }
}

impl Drop for OneLook {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// A turn that could not be taken changes nothing.
fn away(error: ledger::LedgerError) -> Problem {
    Problem::from(Error::from(error)).of_a_look()
}

async fn renew(api: Arc<Api>, holder: String, is_lost: Arc<AtomicBool>) {
    loop {
        tokio::time::sleep(renew_every()).await;
        match api.client.store().take_letters(&holder).await {
            Ok(true) => {}
            Ok(false) => return is_lost.store(true, Ordering::Relaxed),
            Err(error) => tracing::debug!(%error, "the turn of a look can't be renewed"),
        }
    }
}
