//! What was inserted only: publishes the ids of transactions whose documents say that nobody else
//! will.
//!
//! Owns the looks at the index of such documents. Runs in every worker. Promises that a document is
//! taken up before its id is published, by one worker as a rule, and that the sweeper finds it by
//! its stamp when that worker dies in between. What a look has found goes to the queue at once, in
//! the order of its insertion, as if its producer had published it. Fails quietly while a server is
//! away: a later look tries again.

use std::sync::Arc;
use std::time::Duration;

use engine::Observer;
use ledger::message::Message;
use ledger::retry::jitter;
use mongo::{MongoOutbox, Store};
use queue::{Outgoing, Publisher};
use tokio_util::sync::CancellationToken;

use crate::acting::IDS_PER_MESSAGE;
use crate::components::pause;
use crate::metrics::Metrics;
use crate::sweeper::{STAMP_SPREAD_MS, SWEEP_AGAIN_MS, SweepError};

/// The mean time between two looks while nothing is found: half of it is what a transaction waits on
/// average. Each look reads an empty index.
const EVERY: Duration = Duration::from_millis(50);

/// The mean time between two looks while a server is away.
const EVERY_AFTER_A_FAILURE: Duration = Duration::from_millis(1_000);

/// How many are taken up with one command, well within its time limit.
const STEP: usize = 1_000;

/// One look of so many also looks for documents of which the field means nothing any more.
const LOOKS_PER_TIDYING: u64 = 20;

/// The most documents that lose the field in one look.
const TIDIED_PER_LOOK: u32 = 200;

/// What publishes the ids of what was inserted only.
pub(crate) struct Inserted {
    /// The database. Its clock says until when the sweeper leaves alone what is taken up.
    pub store: Store,
    /// Finds what is inserted, and takes it up.
    pub outbox: MongoOutbox,
    /// Where the ids go.
    pub publisher: Arc<Publisher>,
    /// Counts them.
    pub metrics: Arc<Metrics>,
}

impl Inserted {
    /// Looks until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut wait = EVERY.mul_f64(jitter());
        for look in 0_u64.. {
            if !pause(&stop, wait).await {
                return;
            }
            wait = match self.look(look.is_multiple_of(LOOKS_PER_TIDYING), &stop).await {
                Ok(true) => Duration::ZERO,
                Ok(false) => EVERY.mul_f64(0.5 + jitter()),
                Err(error) => {
                    error.log("unpublished");
                    EVERY_AFTER_A_FAILURE.mul_f64(0.5 + jitter())
                }
            };
        }
    }

    /// Publishes what is found, at most one step. Says whether there may be more at once.
    async fn look(&self, tidies: bool, stop: &CancellationToken) -> Result<bool, SweepError> {
        if tidies {
            self.outbox.forget_unpublished(TIDIED_PER_LOOK).await?;
        }
        let found = self.outbox.unpublished(STEP).await?;
        if let Some((count, code)) = found.parked {
            (0..count).for_each(|_| self.metrics.parked(code));
        }
        if found.ids.is_empty() {
            return Ok(false);
        }
        let spread = (jitter() * STAMP_SPREAD_MS) as i64;
        let sweep_after = self.store.server_now().await? + SWEEP_AGAIN_MS + spread;
        let taken = self.outbox.take_up(&found.ids, sweep_after).await?;
        let messages: Vec<_> =
            Message::chunked(&taken, IDS_PER_MESSAGE).map(|m| Outgoing::work(&m)).collect();
        // They are stamped: what a stop leaves unpublished is published by the sweeper.
        match stop.run_until_cancelled(self.publisher.publish(&messages)).await {
            Some(published) => published?,
            None => return Ok(false),
        }
        self.metrics.swept.with_label_values(&["unpublished"]).inc_by(taken.len() as u64);
        tracing::debug!(transactions = taken.len(), "published what was inserted only");
        // Where another worker was faster, it goes on with what is left.
        Ok(found.ids.len() == STEP && taken.len() == STEP)
    }
}
