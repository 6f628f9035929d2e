//! What is due: moves scheduled transactions on when their moment comes, and ends what has expired.
//!
//! Owns the third kind of sweeping: that of moments. What is scheduled becomes `initial` and its id
//! is published; what waits and has expired, and holds that have, become `canceling` and are ended
//! by this worker's own engine, so that they come to their end although their messages wait in a
//! queue that nobody consumes. Runs in every worker that is at work; while settlement is paused, it
//! only shows for how long something has been due. Promises that nothing happens before its moment
//! on the database's clock (the statements compare it), and that many due at one moment don't
//! starve what comes meanwhile: they are published in steps, and the next step waits until most of
//! the last one is claimed. Each step is stamped as it is moved, so no other sweeper publishes it
//! again, and the sweeper publishes it when this worker dies before it has. Fails quietly while a
//! server is away: the next round tries again.

use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, Environment, Observer, Outcome};
use ledger::retry::jitter;
use ledger::transaction::{ReasonCode, State, TransactionId};
use ledger::{Ledger, ServerMs};
use mongo::{MongoOutbox, Store, Stranded};
use queue::{Publisher, WORK};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::acting;
use crate::batches::IdsInBatches;
use crate::components::pause;
use crate::isolation_lock::IsolationLock;
use crate::metrics::Metrics;
use crate::sweeper::{SWEEP_AGAIN_MS, SweepError};
use crate::turn::Turn;

/// How many become due in one step.
const STEP: usize = 1_000;

/// How many go along in one round although many messages of others wait: what is scheduled must not
/// be put off for ever.
const STEP_BESIDE_OTHERS: usize = 100;

/// From so many waiting messages on the queue is not shallow.
const SHALLOW_MESSAGES: u32 = 100;

/// The most that are ended in one round: a few batches.
const EXPIRED_PER_ROUND: usize = 4_000;

/// How long a look waits for the next one at least, if there is nothing to be done at once.
const WAIT_LEAST: Duration = Duration::from_millis(100);

/// How long to wait until some of the last step may have been claimed.
const UNTIL_CLAIMED: Duration = Duration::from_millis(50);

/// Within so many milliseconds the stamps of two steps differ, as a rule.
const STAMP_SPREAD_MS: f64 = 1_000.0;

/// What moves on what is due.
pub struct DueSweeper<L, E> {
    /// The database. Its clock decides what is due.
    pub store: Store,
    /// Finds what is due, and moves it.
    pub outbox: MongoOutbox,
    /// Where the ids go of what becomes due.
    pub publisher: Arc<Publisher>,
    /// Ends what has expired.
    pub engine: Arc<Engine<L, E>>,
    /// What has expired is ended beside other batches, and never beside a suspect.
    pub turns: IsolationLock,
    /// A worker that stands by leaves it to the one at work.
    pub turn: Turn,
    /// Counts it.
    pub metrics: Arc<Metrics>,
    /// The mean time between two looks while nothing is due.
    pub every: Duration,
    /// The most ids of one batch.
    pub batch_size: usize,
}

/// What this worker has made due and nobody had claimed when it last looked.
#[derive(Debug, Default)]
struct Unclaimed {
    ids: Vec<TransactionId>,
    /// After this moment they are the sweeper's.
    until: ServerMs,
}

/// How many may become due now.
fn step(unclaimed: usize, depth: u32) -> usize {
    let step = if depth < SHALLOW_MESSAGES { STEP } else { STEP_BESIDE_OTHERS };
    if unclaimed < step { step } else { 0 }
}

/// What a round found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Round {
    /// There is more that can be moved at once.
    more: bool,
    /// There is more that is due, once what was published has been claimed.
    held_back: bool,
    /// How long until the next moment for which something waits.
    next_ms: Option<i64>,
}

impl Round {
    /// How long to wait for the next look.
    fn wait(self, every: Duration) -> Duration {
        if self.more {
            return Duration::ZERO;
        }
        if self.held_back {
            return UNTIL_CLAIMED;
        }
        let next = self.next_ms.filter(|ms| *ms > 0).and_then(|ms| u64::try_from(ms).ok());
        // A moment more: at the moment itself, the clock of the last look may be a little ahead.
        let next = next.map(|ms| Duration::from_millis(ms.saturating_add(1)).max(WAIT_LEAST));
        next.map_or(every, |next| next.min(every))
    }
}

impl<L: Ledger + 'static, E: Environment + 'static> DueSweeper<L, E> {
    /// Looks until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let mut unclaimed = Unclaimed::default();
        let mut wait = WAIT_LEAST.mul_f64(jitter());
        while pause(&stop, wait).await {
            let every = self.every.mul_f64(0.5 + jitter());
            if self.turn.is_standby() {
                // Whoever is at work tells it.
                self.metrics.oldest_due(None, 0);
                wait = every;
                continue;
            }
            if self.turn.paused().is_on() {
                self.show_due().await;
                wait = every;
                continue;
            }
            wait = match self.round(&mut unclaimed, &stop).await {
                Ok(round) => round.wait(every),
                Err(error) => {
                    error.log("due");
                    every
                }
            };
        }
    }

    /// While settlement is paused: shows how long something has been due, and moves nothing on.
    async fn show_due(&self) {
        let looked = async {
            let now = self.store.server_now().await?;
            self.metrics.oldest_due(self.outbox.earliest_due().await?, now);
            Ok::<_, SweepError>(())
        };
        if let Err(error) = looked.await {
            error.log("due");
        }
    }

    async fn round(
        &self,
        unclaimed: &mut Unclaimed,
        stop: &CancellationToken,
    ) -> Result<Round, SweepError> {
        let now = self.store.server_now().await?;
        let earliest = self.outbox.earliest_due().await?;
        self.metrics.oldest_due(earliest, now);
        if earliest.is_none_or(|earliest| earliest > now) {
            let next_ms = earliest.map(|earliest| earliest.saturating_sub(now));
            return Ok(Round { next_ms, ..Round::default() });
        }
        // First, since it is over, and its money is free then.
        let mut more = self.expire(now, stop).await?;
        more |= self.expire_holds(now, stop).await?;
        let (moved, held_back) = self.make_due(unclaimed, now, stop).await?;
        Ok(Round { more: more || moved, held_back, next_ms: None })
    }

    /// Cancels what has expired before anybody claimed it. Says whether it did.
    async fn expire(&self, now: ServerMs, stop: &CancellationToken) -> Result<bool, SweepError> {
        let ids = self.found(Stranded::Expired { now }, EXPIRED_PER_ROUND).await?;
        if ids.is_empty() {
            return Ok(false);
        }
        let mut count = 0;
        for ids in ids.chunks(STEP) {
            count += self.outbox.expire(ids).await?;
        }
        self.canceled(count, ReasonCode::Expired);
        self.end(ids, stop).await;
        Ok(count > 0)
    }

    /// Releases holds that have expired. Says whether it did.
    async fn expire_holds(
        &self,
        now: ServerMs,
        stop: &CancellationToken,
    ) -> Result<bool, SweepError> {
        let ids = self.found(Stranded::HoldExpired { now }, EXPIRED_PER_ROUND).await?;
        if ids.is_empty() {
            return Ok(false);
        }
        let mut counts = [0; 2];
        for ids in ids.chunks(STEP) {
            let more = self.outbox.expire_holds(ids).await?;
            counts = [counts[0] + more[0], counts[1] + more[1]];
        }
        self.canceled(counts[0], ReasonCode::HoldExpired);
        self.canceled(counts[1], ReasonCode::Expired);
        self.end(ids, stop).await;
        Ok(counts != [0; 2])
    }

    fn canceled(&self, count: usize, code: ReasonCode) {
        if count == 0 {
            return;
        }
        self.metrics.moved(State::Canceling, count);
        (0..count).for_each(|_| self.metrics.refused(code));
        tracing::info!(transactions = count, code = code.as_str(), "canceled what has expired");
    }

    /// Makes the next step due. Says whether it did, and whether more is due that has to wait.
    async fn make_due(
        &self,
        unclaimed: &mut Unclaimed,
        now: ServerMs,
        stop: &CancellationToken,
    ) -> Result<(bool, bool), SweepError> {
        self.look_after(unclaimed, now).await?;
        let most = step(unclaimed.ids.len(), self.publisher.depth(WORK).await?);
        let found = self.found(Stranded::Scheduled { now }, most.max(1)).await?;
        if most == 0 || found.is_empty() {
            return Ok((false, !found.is_empty()));
        }
        let spread = (jitter() * STAMP_SPREAD_MS) as i64;
        let sweep_after = now + SWEEP_AGAIN_MS + spread;
        let moved = self.outbox.make_due(&found, sweep_after).await?;
        let publishing = acting::publish(&self.publisher, &self.metrics, &moved, "due");
        // They are stamped: what a stop leaves unpublished is published by the sweeper.
        match stop.run_until_cancelled(publishing).await {
            Some(published) => published?,
            None => return Ok((false, false)),
        }
        self.metrics.moved(State::Initial, moved.len());
        tracing::debug!(transactions = moved.len(), "published what has become due");
        // Others may have moved what was found; then there may be more.
        let is_full = found.len() == most;
        unclaimed.ids.extend(moved);
        unclaimed.until = sweep_after;
        Ok((is_full && most == STEP, is_full))
    }

    /// Forgets what was claimed since, and what the sweeper looks after by now.
    async fn look_after(&self, unclaimed: &mut Unclaimed, now: ServerMs) -> Result<(), SweepError> {
        if now > unclaimed.until {
            unclaimed.ids.clear();
        }
        unclaimed.ids = self.outbox.still_initial(&unclaimed.ids).await?;
        Ok(())
    }

    async fn found(&self, which: Stranded, most: usize) -> Result<Vec<TransactionId>, SweepError> {
        let found = self.outbox.stranded(which, most).await?;
        Ok(acting::with_parked_counted(&self.metrics, found))
    }

    /// Ends what is canceled, without a message. What this worker can't end now, the sweeper
    /// publishes.
    async fn end(&self, ids: Vec<TransactionId>, stop: &CancellationToken) {
        let _held = IdsInBatches::new(&self.metrics, ids.len());
        if self.turn.paused().is_on() {
            return;
        }
        let mut batches = JoinSet::new();
        for ids in ids.chunks(self.batch_size.max(1)) {
            let (engine, turns, ids) = (self.engine.clone(), self.turns.clone(), ids.to_vec());
            let stop = stop.clone();
            batches.spawn(async move {
                let _turn = turns.take::<()>(&[]).await;
                end_all(&engine, ids, &stop).await;
            });
        }
        while let Some(ended) = batches.join_next().await {
            if let Err(panic) = ended {
                tracing::error!(%panic, "a batch of what has expired broke down");
            }
        }
    }
}

/// Ends transactions, in as many batches as their size makes it.
async fn end_all<L: Ledger, E: Environment>(
    engine: &Engine<L, E>,
    mut ids: Vec<TransactionId>,
    stop: &CancellationToken,
) {
    while !ids.is_empty() && !stop.is_cancelled() {
        let outcomes = engine.run(&ids).await;
        let is_surplus = |outcome: &Outcome| matches!(outcome, Outcome::Surplus { .. });
        ids = outcomes.into_iter().filter(|(_, o)| is_surplus(o)).map(|(id, _)| id).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_waits_until_most_of_the_last_one_is_claimed() {
        assert_eq!(step(0, 0), STEP);
        assert_eq!(step(STEP - 1, 0), STEP);
        assert_eq!(step(STEP, 0), 0);
    }

    #[test]
    fn a_few_go_along_however_deep_the_queue_is() {
        assert_eq!(step(0, SHALLOW_MESSAGES), STEP_BESIDE_OTHERS);
        assert_eq!(step(STEP_BESIDE_OTHERS, u32::MAX), 0, "they have to be claimed first");
    }

    #[test]
    fn the_next_look_is_at_the_next_moment_and_at_once_while_there_is_more() {
        let every = Duration::from_secs(2);
        let round = Round::default();
        assert_eq!(round.wait(every), every, "nothing waits");
        assert_eq!(Round { more: true, ..round }.wait(every), Duration::ZERO);
        assert_eq!(Round { held_back: true, ..round }.wait(every), UNTIL_CLAIMED);
        let next = |ms| Round { next_ms: Some(ms), ..round }.wait(every);
        assert_eq!(next(500), Duration::from_millis(501));
        assert_eq!(next(1), WAIT_LEAST, "many moments close to each other share a look");
        assert_eq!(next(i64::MAX), every);
    }
}
