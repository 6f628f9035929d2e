//! Whether this worker may begin something: settlement of the ledger may be paused, and this worker
//! may be drained.
//!
//! Owns how the parts of a worker hear of it: [`PauseTeller`] tells what was said, and a [`Paused`]
//! hears it. Promises that each change is told once in the log, with who and why, and is seen in the
//! metrics and on the pages. What a worker has begun is not interrupted: a pause only keeps more from
//! being begun. Never fails; where nobody looks at what was said any more the worker ends for another
//! reason.

use std::sync::Arc;

use ledger::ServerMs;
use mongo::{Said, Settlement};
use tokio::sync::watch;

use crate::health::Health;
use crate::metrics::Metrics;

/// What was last said of settlement, for those who act by it.
#[derive(Clone, Debug)]
pub struct Paused(watch::Receiver<Said>);

/// Tells the parts of a worker whether settlement is paused, and whether it is drained.
pub struct PauseTeller {
    told: watch::Sender<Said>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

impl Paused {
    /// Whether nothing may be begun.
    #[must_use]
    pub fn is_on(&self) -> bool {
        is_on(&self.0.borrow())
    }

    /// Whether settlement of the ledger is paused.
    #[must_use]
    pub fn is_of_ledger(&self) -> bool {
        is_pause(self.0.borrow().ledger.as_ref())
    }

    /// Whether this worker is drained.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        is_drained(&self.0.borrow())
    }

    /// When the last of the pauses has ended that have, in milliseconds since 1970 of the database's
    /// clock; 0 where there was none.
    #[must_use]
    pub fn ended_at(&self) -> ServerMs {
        let said = self.0.borrow();
        let ended = [&said.ledger, &said.worker].into_iter().flatten().filter(|said| !said.paused);
        ended.map(|said| said.since).max().unwrap_or_default()
    }

    /// Waits until nothing may be begun.
    pub async fn on(&mut self) {
        until(&mut self.0, is_on).await;
    }

    /// Waits until something may be begun.
    pub async fn over(&mut self) {
        until(&mut self.0, |said| !is_on(said)).await;
    }

    /// Waits until this worker is drained.
    pub async fn drained(&mut self) {
        until(&mut self.0, is_drained).await;
    }

    /// Waits until this worker is not drained.
    pub async fn undrained(&mut self) {
        until(&mut self.0, |said| !is_drained(said)).await;
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
        let (told, paused) = watch::channel(Said::default());
        (PauseTeller { told, health, metrics }, Paused(paused))
    }

    /// Tells what was said by now.
    pub fn tell(&self, said: &Said) {
        let before = self.told.borrow().clone();
        if before == *said {
            return;
        }
        self.told.send_replace(said.clone());
        let [pause, drain] = [&said.ledger, &said.worker]
            .map(|said| said.as_ref().filter(|said| said.paused).map(Settlement::told));
        self.metrics.paused(pause.is_some());
        self.metrics.drained(drain.is_some());
        self.health.paused(pause, drain);
        if before.ledger != said.ledger {
            log_of_ledger(before.ledger.as_ref(), said.ledger.as_ref());
        }
        if before.worker != said.worker {
            log_of_worker(before.worker.as_ref(), said.worker.as_ref());
        }
    }
}

fn log_of_ledger(before: Option<&Settlement>, said: Option<&Settlement>) {
    match said {
        Some(said) if said.paused => tracing::warn!(
            said = said.told(),
            "settlement is paused: nothing new is begun, and what is begun is finished"
        ),
        Some(said) if is_pause(before) => {
            tracing::info!(said = said.told(), "settlement goes on");
        }
        None if is_pause(before) => {
            tracing::info!("settlement goes on: nothing is said of a pause any more");
        }
        Some(_) | None => {}
    }
}

fn log_of_worker(before: Option<&Settlement>, said: Option<&Settlement>) {
    match said {
        Some(said) if said.paused => tracing::warn!(
            said = said.told(),
            "this worker is drained: it begins nothing new, and finishes what it has begun"
        ),
        Some(said) if is_pause(before) => {
            tracing::info!(said = said.told(), "this worker settles again");
        }
        None if is_pause(before) => {
            tracing::info!("this worker settles again: nothing is said of it any more");
        }
        Some(_) | None => {}
    }
}

fn is_pause(said: Option<&Settlement>) -> bool {
    said.is_some_and(|said| said.paused)
}

fn is_drained(said: &Said) -> bool {
    is_pause(said.worker.as_ref())
}

fn is_on(said: &Said) -> bool {
    is_pause(said.ledger.as_ref()) || is_drained(said)
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

/// The same of the ledger alone.
#[cfg(test)]
pub(crate) fn said_of_ledger(id: &str, paused: bool) -> Said {
    Said { ledger: Some(said(id, paused)), worker: None }
}

/// The same of this worker alone.
#[cfg(test)]
pub(crate) fn said_of_worker(id: &str, paused: bool) -> Said {
    Said { ledger: None, worker: Some(said(id, paused)) }
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
    fn what_was_said_is_heard_until_something_else_is_said() {
        for of in [said_of_ledger, said_of_worker] {
            let (teller, mut paused, _) = teller();
            assert!(!paused.is_on() && paused.on().now_or_never().is_none());
            teller.tell(&of("one", true));
            assert!(paused.is_on() && paused.on().now_or_never().is_some());
            assert!(paused.over().now_or_never().is_none());
            teller.tell(&of("two", false));
            assert!(!paused.is_on() && paused.over().now_or_never().is_some());
        }
    }

    #[test]
    fn a_drained_worker_begins_nothing_when_settlement_goes_on() {
        let (teller, mut paused, _) = teller();
        let both = |ledger, worker| Said {
            ledger: Some(said("one", ledger)),
            worker: Some(said("two", worker)),
        };
        teller.tell(&both(true, true));
        teller.tell(&both(false, true));
        assert!(paused.is_on() && paused.is_drained() && !paused.is_of_ledger());
        assert!(paused.undrained().now_or_never().is_none());
        teller.tell(&both(true, false));
        assert!(paused.is_on() && !paused.is_drained() && paused.is_of_ledger());
        assert!(paused.drained().now_or_never().is_none());
    }

    #[test]
    fn the_last_pause_that_has_ended_counts_of_the_ledger_or_of_the_worker() {
        let (teller, paused, _) = teller();
        assert_eq!(paused.ended_at(), 0);
        let at = |since, paused| Some(Settlement { since, ..said("one", paused) });
        for (ledger, worker, ended) in [
            (at(5, false), None, 5),
            (at(5, false), at(7, true), 5),
            (at(5, false), at(7, false), 7),
            (at(9, true), at(7, false), 7),
        ] {
            teller.tell(&Said { ledger, worker });
            assert_eq!(paused.ended_at(), ended);
        }
    }

    #[test]
    fn a_pause_in_place_of_another_is_a_change_and_the_same_one_again_is_none() {
        let (teller, mut paused, _) = teller();
        teller.tell(&said_of_ledger("one", true));
        assert!(paused.changed().now_or_never().is_some());
        teller.tell(&said_of_ledger("one", true));
        assert!(paused.changed().now_or_never().is_none());
        teller.tell(&said_of_ledger("two", true));
        assert!(paused.changed().now_or_never().is_some());
    }

    #[test]
    fn a_pause_is_shown_and_counted_while_it_lasts() {
        let (teller, _paused, health) = teller();
        let shown = |line: &str| teller.metrics.page().contains(line);
        teller.tell(&said_of_ledger("one", true));
        assert!(shown("tandem_paused 1\n") && shown("tandem_drained 0\n"));
        assert!(health.page().1.contains("\nsettlement: paused since "), "{}", health.page().1);
        teller.tell(&said_of_worker("two", true));
        assert!(shown("tandem_paused 0\n") && shown("tandem_drained 1\n"));
        assert!(health.page().1.contains("\nworker: drained since "), "{}", health.page().1);
        assert!(!health.page().1.contains("settlement"), "{}", health.page().1);
        teller.tell(&said_of_worker("three", false));
        assert!(shown("tandem_paused 0\n") && shown("tandem_drained 0\n"));
        assert!(!health.page().1.contains("since"), "{}", health.page().1);
    }
}
