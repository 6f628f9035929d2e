//! Being told to stop: one flag that every part of the worker watches.

use std::time::Duration;

use tokio::sync::watch;

/// The watching end. Clones watch the same flag.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// The telling end. Dropping it tells, too.
#[derive(Debug)]
pub struct StopTeller(watch::Sender<bool>);

/// A flag that is not set yet.
#[must_use]
pub fn stop() -> (StopTeller, Stop) {
    let (sender, receiver) = watch::channel(false);
    (StopTeller(sender), Stop(receiver))
}

impl StopTeller {
    /// Tells everybody to stop.
    pub fn tell(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Waits until told.
    pub async fn told(&mut self) {
        // An error means that the teller is gone: as good as told.
        drop(self.0.wait_for(|told| *told).await);
    }

    /// Waits for a while. False when told before its end.
    pub async fn not_for(&mut self, delay: Duration) -> bool {
        tokio::time::timeout(delay, self.told()).await.is_err()
    }
}
