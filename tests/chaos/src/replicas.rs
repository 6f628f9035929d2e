//! An operator who cannot decide whether workers share the work or stand by for one another.

use std::time::Duration;

use mongo::{Choice, Store};
use tokio::sync::watch;

/// Between two changes.
const EVERY: Duration = Duration::from_secs(30);

/// Changes the ledger's way until it is told to stop; returns how often. While the database is away
/// the change fails, and comes later.
pub(crate) async fn change(store: Store, mut stop: watch::Receiver<bool>) -> u32 {
    let (mut changes, mut standby) = (0, true);
    loop {
        let choice = Choice { standby: Some(standby), ..Choice::default() };
        if store.apply_schema(choice).await.is_ok() {
            changes += 1;
            standby = !standby;
        }
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return changes,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}
