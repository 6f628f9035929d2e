//! A gate for one message: the proxy stops the message, the test lets it go on or drops it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::wait::wait_until;

/// How far the message has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Not yet seen.
    Awaited,
    /// It is held at the gate.
    Caught,
    /// The server has answered it, or its held answer has gone on.
    Passed,
}

/// What the test has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Wait,
    Forward,
    Discard,
}

#[derive(Debug)]
pub(super) struct Gate {
    stage: watch::Sender<Stage>,
    verdict: watch::Sender<Verdict>,
    hung_up: watch::Sender<bool>,
}

impl Gate {
    /// Holds the message until the test decides; returns whether it may pass.
    pub(super) async fn opens(&self) -> bool {
        self.stage.send_replace(Stage::Caught);
        let mut decided = self.verdict.subscribe();
        let verdict = decided.wait_for(|verdict| *verdict != Verdict::Wait).await;
        verdict.is_ok_and(|verdict| *verdict == Verdict::Forward)
    }

    /// Waits until the test wants the connection to the client closed.
    pub(super) async fn hung_up(&self) {
        let mut told = self.hung_up.subscribe();
        let told = told.wait_for(|told| *told).await.is_ok();
        assert!(told, "the gate lives as long as this borrow");
    }

    pub(super) fn passed(&self) {
        self.stage.send_replace(Stage::Passed);
    }
}

/// A message that the proxy holds or will hold.
#[derive(Clone, Debug)]
pub struct Held(pub(super) Arc<Gate>);

impl Held {
    pub(super) fn new() -> Held {
        Held(Arc::new(Gate {
            stage: watch::Sender::new(Stage::Awaited),
            verdict: watch::Sender::new(Verdict::Wait),
            hung_up: watch::Sender::new(false),
        }))
    }

    /// Whether it has been caught.
    #[must_use]
    pub fn is_caught(&self) -> bool {
        *self.0.stage.borrow() >= Stage::Caught
    }

    /// Waits until it has been caught.
    ///
    /// # Panics
    /// When that does not happen within `limit`.
    pub async fn caught(&self, limit: Duration) {
        wait_until("the proxy has caught the message", limit, async || self.is_caught()).await;
    }

    /// Sends it on, whether its sender still waits or not.
    pub fn release(&self) {
        self.0.verdict.send_replace(Verdict::Forward);
    }

    /// Drops it for ever.
    pub fn discard(&self) {
        self.0.verdict.send_replace(Verdict::Discard);
    }

    /// Closes the connection to the sender, who learns at once that something went wrong. The
    /// message itself stays held.
    pub fn hang_up(&self) {
        self.0.hung_up.send_replace(true);
    }

    /// Waits until the server has answered it (a held request), or it has gone on (a held reply).
    ///
    /// # Panics
    /// When that does not happen within `limit`.
    pub async fn passed(&self, limit: Duration) {
        wait_until("the held message has passed", limit, async || {
            *self.0.stage.borrow() == Stage::Passed
        })
        .await;
    }
}
