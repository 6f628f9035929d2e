//! Whether settlement of the ledger is paused, for the parts that begin something.
//!
//! Owns how the parts of a worker hear of it: [`PauseTeller`] tells what the settings say, and a
//! [`Paused`] hears it. Promises that each change is told once in the log, with who and why, and is
//! seen in the metrics and on the pages. What a worker has begun is not interrupted: a pause only
//! keeps more from being begun. Never fails; where nobody looks at the settings any more the worker
//! ends for another reason.

use std::sync::Arc;

use ledger::ServerMs;
use mongo::Settlement;
use tokio::sync::watch;

use crate::health::Health;
use crate::metrics::Metrics;

/// What was last said of settlement, for those who act by it.
#[derive(Clone, Debug)]
pub struct Paused(watch::Receiver<Option<Settlement>>);

/// Tells the parts of a worker whether settlement is paused.
pub struct PauseTeller {
    told: watch::Sender<Option<Settlement>>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

impl Paused {
    /// Whether nothing may be begun.
    #[must_use]
    pub fn is_on(&self) -> bool {
        is_pause(&self.0.borrow())
    }

    /// When the last pause has ended, in milliseconds since 1970 of the database's clock; 0 where
    /// there was none, or it lasts.
    #[must_use]
    pub fn ended_at(&self) -> ServerMs {
        self.0.borrow().as_ref().filter(|said| !said.paused).map_or(0, |said| said.since)
    }

    /// Waits until nothing may be begun.
    pub async fn on(&mut self) {
        until(&mut self.0, is_pause).await;
    }

    /// Waits until settlement goes on.
    pub async fn over(&mut self) {
        until(&mut self.0, |said| !is_pause(said)).await;
    }

    /// Waits for the next change, also from one pause to another.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl PauseTeller {
    /// Tells nothing yet: settlement goes on.
    #[must_use]
    pub fn new(health: Arc<Health>, metrics: Arc<Metrics>) -> (PauseTeller, Paused) {
        let (told, paused) = watch::channel(None);
        (PauseTeller { told, health, metrics }, Paused(paused))
    }

    /// Tells what the settings say now.
    pub fn tell(&self, said: Option<&Settlement>) {
        let was_paused = is_pause(&self.told.borrow());
        let is_new = self.told.send_if_modified(|told| {
            let is_new = told.as_ref() != said;
            if is_new {
                *told = said.cloned();
            }
            is_new
        });
        if !is_new {
            return;
        }
        let pause = said.filter(|said| said.paused);
        self.metrics.paused(pause.is_some());
        self.health.paused(pause.map(Settlement::told));
        match (pause, said) {
            (Some(pause), _) => tracing::warn!(
                said = pause.told(),
                "settlement is paused: nothing new is begun, and what is begun is finished"
            ),
            (None, Some(said)) if was_paused => {
                tracing::info!(said = said.told(), "settlement goes on");
            }
            (None, None) if was_paused => {
                tracing::info!("settlement goes on: the settings say nothing of a pause any more");
            }
            (None, Some(_) | None) => {}
        }
    }
}

fn is_pause(said: &Option<Settlement>) -> bool {
    said.as_ref().is_some_and(|said| said.paused)
}

/// Waits until this is told. Where nobody tells any more the worker ends for another reason.
pub(crate) async fn until<T>(heard: &mut watch::Receiver<T>, is_it: impl FnMut(&T) -> bool) {
    let is_told = heard.wait_for(is_it).await.is_ok();
    if !is_told {
        std::future::pending::<()>().await;
    }
}

/// Somebody's word, for tests.
#[cfg(test)]
pub(crate) fn said(id: &str, paused: bool) -> Settlement {
    let (by, reason) = ("ada".to_owned(), Some("why".to_owned()));
    Settlement { id: id.to_owned(), paused, since: 0, by, reason }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn teller() -> (PauseTeller, Paused, Arc<Health>) {
        let health = Arc::<Health>::default();
        let (teller, paused) = PauseTeller::new(health.clone(), Arc::new(Metrics::new()));
        (teller, paused, health)
    }

    #[test]
    fn what_the_settings_say_is_heard_until_they_say_otherwise() {
        let (teller, mut paused, _) = teller();
        assert!(!paused.is_on() && paused.on().now_or_never().is_none());
        teller.tell(Some(&said("one", true)));
        assert!(paused.is_on() && paused.on().now_or_never().is_some());
        assert!(paused.over().now_or_never().is_none());
        teller.tell(Some(&said("two", false)));
        assert!(!paused.is_on() && paused.over().now_or_never().is_some());
    }

    #[test]
    fn a_pause_in_place_of_another_is_a_change_and_the_same_one_again_is_none() {
        let (teller, mut paused, _) = teller();
        teller.tell(Some(&said("one", true)));
        assert!(paused.changed().now_or_never().is_some());
        teller.tell(Some(&said("one", true)));
        assert!(paused.changed().now_or_never().is_none());
        teller.tell(Some(&said("two", true)));
        assert!(paused.changed().now_or_never().is_some());
    }

    #[test]
    fn a_pause_is_shown_and_counted_while_it_lasts() {
        let (teller, _paused, health) = teller();
        teller.tell(Some(&said("one", true)));
        assert!(teller.metrics.page().contains("tandem_paused 1\n"));
        assert!(health.pause().is_some_and(|told| told.ends_with("by ada: why")));
        teller.tell(Some(&said("two", false)));
        assert!(teller.metrics.page().contains("tandem_paused 0\n"));
        assert_eq!(health.pause(), None);
    }
}
