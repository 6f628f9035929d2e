//! What was inserted only: publishes the ids of transactions whose documents say that nobody else
//! will.
//!
//! Owns the looks at the index of such documents. Runs in every worker that is at work, while
//! settlement is not paused. Promises that a document is taken up before its id is published, by
//! one worker as a rule, and that the sweeper finds it when that worker dies in between. What a
//! look has found goes to the queue at once, in the order of its insertion, as if its producer had
//! published it. Fails quietly while a server is away: a later look tries again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::retry::jitter;
use ledger::transaction::TransactionId;
use mongo::MongoOutbox;
use queue::Publisher;
use tokio_util::sync::CancellationToken;

use crate::acting;
use crate::components::pause;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::sweeper::{SWEEP_AGAIN_MS, SweepError};
use crate::turn::Turn;

/// The mean time between two looks while nothing is found: half of it is what a transaction waits on
/// average. Each look reads an empty index.
const EVERY: Duration = Duration::from_millis(50);

/// A look that takes longer than this goes through many documents of others that are in the index,
/// too, or the server is slow.
const LONG: Duration = Duration::from_millis(100);

/// The pause after a long look, in lengths of that look: so looks cost the server little, whatever
/// stands in the index.
const PAUSE_PER_LOOK: u32 = 4;

/// The mean time between two looks while a server is away.
const EVERY_AFTER_A_FAILURE: Duration = Duration::from_millis(1_000);

/// How many are taken up with one command, well within its time limit.
const STEP: usize = 2_500;

/// One look of so many also looks for documents of which the field means nothing any more.
const LOOKS_PER_TIDYING: u64 = 20;

/// The most documents that lose the field in one look.
const TIDIED_PER_LOOK: u32 = 200;

/// What publishes the ids of what was inserted only.
pub(crate) struct Inserted {
    /// The name of the worker, by which it knows what it has taken up.
    pub name: String,
    /// Finds what is inserted, and takes it up.
    pub outbox: MongoOutbox,
    /// Where the ids go.
    pub publisher: Arc<Publisher>,
    /// While the broker is away, nothing is taken up.
    pub health: Arc<Health>,
    /// A worker that stands by leaves it to the one at work.
    pub turn: Turn,
    /// Counts them.
    pub metrics: Arc<Metrics>,
}

impl Inserted {
    /// Looks until `stop`. What a stop leaves unpublished is published by the sweeper.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let (mut taken, mut wait) = (Vec::new(), EVERY.mul_f64(jitter()));
        for look in 0_u64.. {
            if !pause(&stop, wait).await {
                return;
            }
            // What is taken up already is published here.
            if !self.turn.is_active() && taken.is_empty() {
                wait = EVERY;
                continue;
            }
            let begun = Instant::now();
            // While one step is published, the next one is taken up.
            let both = async {
                let tidies = look.is_multiple_of(LOOKS_PER_TIDYING);
                tokio::join!(self.publish(&taken), self.take_up(tidies))
            };
            let Some((published, next)) = stop.run_until_cancelled(both).await else { return };
            let looked;
            (taken, looked) = match next {
                Ok(next) => (next, Ok(())),
                Err(error) => (Vec::new(), Err(error)),
            };
            wait = match published.and(looked) {
                Ok(()) if taken.is_empty() => until_the_next(begun.elapsed()),
                Ok(()) => Duration::ZERO,
                Err(error) => {
                    error.log("unpublished");
                    EVERY_AFTER_A_FAILURE
                }
            };
            wait = wait.mul_f64(0.5 + jitter());
        }
    }

    /// Takes up what is found, at most one step.
    async fn take_up(&self, tidies: bool) -> Result<Vec<TransactionId>, SweepError> {
        // Where they are, another worker finds them, or this one later.
        if !self.turn.is_active() || !self.health.has_broker() {
            return Ok(Vec::new());
        }
        if tidies {
            self.outbox.forget_unpublished(TIDIED_PER_LOOK).await?;
        }
        let found = self.outbox.unpublished(STEP).await?;
        let found = acting::with_parked_counted(&self.metrics, found);
        if found.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.outbox.take_up(&found, &self.name, SWEEP_AGAIN_MS).await?)
    }

    async fn publish(&self, taken: &[TransactionId]) -> Result<(), SweepError> {
        if taken.is_empty() {
            return Ok(());
        }
        acting::publish(&self.publisher, &self.metrics, taken, "unpublished").await?;
        tracing::debug!(transactions = taken.len(), "published what was inserted only");
        Ok(())
    }
}

/// How long to wait after a look of this length that has found nothing.
fn until_the_next(look: Duration) -> Duration {
    if look > LONG { look * PAUSE_PER_LOOK } else { EVERY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_look_is_followed_by_a_longer_pause() {
        assert_eq!(until_the_next(Duration::from_millis(1)), EVERY);
        assert_eq!(until_the_next(LONG), EVERY);
        assert_eq!(until_the_next(Duration::from_secs(2)), Duration::from_secs(8));
    }
}
