//! The sweeper: publishes ids that should be on the queue and may not be.
//!
//! Owns the recovery of what nobody has a message for: `initial` documents whose producer died
//! before publishing, transactions in flight whose owner is gone together with the message, native
//! transactions that a dead worker has left open. Runs in every worker at work, jittered; several at
//! once only publish an id twice. Promises not to flood the queue with ids that merely wait in a
//! backlog, and to find what was forgotten even if the queue never empties.
//!
//! A round *walks* the index by creation from a mark on, which all sweepers share and only move on,
//! and looks at the stamps that have come. [`walker`](super::walker) decides about each document,
//! [`passage`](super::passage) says what merely waits. Two slow looks go over what lies below the
//! mark, for what has appeared there late: a long transaction of somebody's, an import with old
//! dates, a producer whose clock is behind. One goes over all of it, again and again; the other
//! over the last minutes, where nearly all of that is. What has no date, or one in the future, has
//! looks of its own. All of them read so many index entries at most, whatever these are of.
//!
//! While settlement is paused, only open native transactions are ended and due events published.
//!
//! Only when all that was decided is done ([`acting`](super::acting)), the mark moves on. Fails
//! quietly while a server is away: the next round tries again. What fails for good is a warning,
//! and keeps no other look from its turn.

use std::sync::Arc;
use std::time::Duration;

use ledger::message::Message;
use ledger::retry::jitter;
use ledger::transaction::State;
use ledger::{LedgerError, ServerMs};
use mongo::{Below, MongoOutbox, Open, Place, Progress, Store};
use queue::{Outgoing, Publisher, QueueError, WORK};
use tokio_util::sync::CancellationToken;

use crate::components::pause;
use crate::events::Events;
use crate::metrics::Metrics;
use crate::passage::{Passage, stamped_before};
use crate::turn::Turn;
use crate::walker::{Fate, Look, Moments, at_most, fate, mark, walked};

/// The most stamps of one round and kind: what is left waits for the next.
const STAMPS_PER_ROUND: usize = 5_000;

/// The first piece of a walk: with a backlog, the first document ends it.
const FIRST_PIECE: u32 = 100;

/// How many index entries are read at a time.
const PIECE: u32 = 5_000;

/// The most pieces of one walk. Thirty thousand transactions a second need twelve of them in each
/// round of two seconds; the first walk of a large ledger needs many rounds.
const PIECES_PER_WALK: u32 = 20;

/// How many pieces of a backlog are read in an odd round for what is in flight among it.
const PIECES_BEYOND: i32 = 4;

/// How many pieces without a date are read in each round, whatever is in them.
const UNDATED_PIECES: u32 = 2;

/// The most pieces without a date in one round, while they are full of what has no message.
const UNDATED_PIECES_MAX: u32 = 20;

/// How many entries below the mark are read in one round.
const BELOW_PER_ROUND: u32 = 1_000;

/// What lies so closely below the mark is looked at in every second round.
const NEAR_MS: i64 = 10 * 60_000;

/// In one of so many rounds the sweeper walks into a backlog, looks for what is dated in the
/// future, and tidies up.
const ODD_ROUNDS: u64 = 8;

/// The most ids of one round whose documents are dated in the future: nobody knows how long they
/// have been there, and they may be part of a backlog.
const FUTURE_IDS_PER_ROUND: usize = 100;

/// By how much a producer's clock may be ahead before a document's date says nothing.
const FUTURE_MS: i64 = 60_000;

/// The most stamps without a meaning that are taken away in one round.
const TIDIED_PER_ROUND: u32 = 500;

/// How long what was swept is left alone.
pub(crate) const SWEEP_AGAIN_MS: i64 = 30_000;

/// How the sweeper goes about it.
#[derive(Clone, Copy, Debug)]
pub struct SweeperSettings {
    /// The mean time between rounds.
    pub every: Duration,
    /// How old an `initial` document is before it may have been forgotten.
    pub orphan_ms: i64,
}

/// What one sweeper needs.
pub struct Sweeper {
    /// The database. Its clock decides what is due.
    pub store: Store,
    /// Finds transactions that no message stands for any more.
    pub outbox: MongoOutbox,
    /// Where they go.
    pub publisher: Arc<Publisher>,
    /// Publishes events that are due, if the ledger has events.
    pub events: Option<Arc<Events>>,
    /// A worker that stands by leaves it to the one at work, which has seen the markers.
    pub turn: Turn,
    /// Counts them.
    pub metrics: Arc<Metrics>,
    /// How to go about it.
    pub settings: SweeperSettings,
}

/// Why a round could not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SweepError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl SweepError {
    /// A failure that passes is nothing to tell: others tell that a server is away.
    pub(crate) fn log(&self, kind: &str) {
        let lasts = match self {
            SweepError::Ledger(error) => !error.passes(),
            SweepError::Queue(error) => error.lasts(),
        };
        match lasts {
            true => tracing::warn!(error = %self, kind, "can't sweep: what was forgotten stays so"),
            false => tracing::debug!(error = %self, kind, "sweeping later"),
        }
    }
}

/// What a sweeper remembers from one round to the next.
#[derive(Debug, Default)]
struct Memory {
    passage: Passage,
    /// Where the last walk has brought the mark, in case it can't be noted.
    mark: Option<Place>,
    /// Where the looks at what stands before all dates, after them, and in the future go on.
    places: [Option<Place>; 3],
}

impl Sweeper {
    /// Sweeps until `stop`. `markers` tells which have come through the queue since it was last
    /// asked.
    pub async fn run(self, markers: impl Fn() -> Vec<ServerMs>, stop: CancellationToken) {
        let mut memory = Memory::default();
        for number in 0_u64.. {
            let wait = self.settings.every.mul_f64(0.5 + jitter());
            if !pause(&stop, wait).await {
                return;
            }
            if self.turn.is_standby() {
                continue;
            }
            // First, since nobody can write what an abandoned transaction holds; while settlement is
            // paused, clients still cancel and confirm.
            self.end_abandoned().await;
            if !self.turn.paused().is_on()
                && let Err(error) = self.round(&mut memory, number, &markers()).await
            {
                error.log("all");
            }
            // Also while settlement is paused: what has ended is told. Last, since many may be
            // due, and money comes first.
            if let Err(error) = self.sweep_events().await {
                error.log("events");
            }
        }
    }

    async fn round(
        &self,
        memory: &mut Memory,
        number: u64,
        markers: &[ServerMs],
    ) -> Result<(), SweepError> {
        let at = self.moments(&mut memory.passage, markers).await?;
        let told = |kind: &str, done: Result<(), SweepError>| {
            if let Err(error) = done {
                error.log(kind);
            }
        };
        told("stamped", self.sweep_stamped(&at).await);
        told("walk", self.walk(memory, number, &at).await);
        told("undated", self.sweep_undated(memory, &at).await);
        if number.is_multiple_of(ODD_ROUNDS) {
            told("future", self.sweep_future(memory, &at).await);
            let tidied = self.outbox.tidy_stamps(at.now, TIDIED_PER_ROUND).await;
            told("tidy", tidied.map_err(SweepError::from));
        }
        Ok(())
    }

    /// The moments of a round. Publishes a marker when one is due.
    async fn moments(
        &self,
        passage: &mut Passage,
        markers: &[ServerMs],
    ) -> Result<Moments, SweepError> {
        let now = self.store.server_now().await?;
        let orphan_ms = self.settings.orphan_ms;
        let depth = self.publisher.depth(WORK).await?;
        passage.since_pause(self.turn.paused().ended_at());
        passage.take_in(markers, now, orphan_ms);
        if depth > 0 && passage.is_due(now, orphan_ms) {
            self.publisher.publish(&[Outgoing::work(&Message::marker(now))]).await?;
            passage.published = now;
        }
        let horizon = passage.horizon(now, depth, orphan_ms);
        Ok(Moments { now, horizon, stamped_before: stamped_before(now, horizon), orphan_ms })
    }

    /// Looks at the stamps that have come.
    async fn sweep_stamped(&self, at: &Moments) -> Result<(), SweepError> {
        let kinds = [(at.now, &State::IN_FLIGHT[..]), (at.stamped_before, &[State::Initial])];
        for (until, states) in kinds {
            let open = self.outbox.stamped(until, states, STAMPS_PER_ROUND).await?;
            self.act(judged(open, Look::Stamped, at), at).await?;
        }
        Ok(())
    }

    /// Walks on from the mark, goes over something below it, and notes how far both have come.
    async fn walk(&self, memory: &mut Memory, round: u64, at: &Moments) -> Result<(), SweepError> {
        let progress = self.outbox.progress().await?;
        let begun = further(progress.mark.clone(), memory.mark.take());
        let mut from = begun.clone().unwrap_or_else(|| Place::before(i64::MIN));
        let end = Place::before(at.walk_end());
        let (mut held_at, mut next) = (None, Some(from.clone()));
        let mut beyond = if round.is_multiple_of(ODD_ROUNDS) { PIECES_BEYOND } else { 0 };
        for number in 0..PIECES_PER_WALK {
            // Another's mark may be further, where the age of what is forgotten is less.
            if from.date().is_none_or(|date| date >= at.walk_end()) {
                break;
            }
            let size = if number == 0 { FIRST_PIECE } else { PIECE };
            let piece = self.outbox.piece(&from, &end, size).await?;
            let walked = walked(piece.open, at);
            held_at = held_at.or(walked.held_at);
            self.act(walked.fates, at).await?;
            next = piece.next;
            let is_beyond = walked.stops && {
                beyond -= 1;
                beyond < 0
            };
            match &next {
                Some(next) if !is_beyond => from = next.clone(),
                Some(_) | None => break,
            }
        }
        let mark = mark(held_at, next, at);
        memory.mark = Some(mark.clone());
        let (below, place) = self.look_below(begun.as_ref(), &progress, round, at).await?;
        self.outbox.advance(&mark, (below, place.as_ref())).await?;
        Ok(())
    }

    /// Looks at a piece of what lies below the mark. Says where that look goes on.
    async fn look_below(
        &self,
        mark: Option<&Place>,
        progress: &Progress,
        number: u64,
        at: &Moments,
    ) -> Result<(Below, Option<Place>), SweepError> {
        let below = if number.is_multiple_of(2) { Below::Near } else { Below::Far };
        let Some((mark, date)) = mark.and_then(|mark| Some((mark, mark.date()?))) else {
            return Ok((below, None));
        };
        let (start, at_place) = match below {
            Below::Near => (Place::before(date.saturating_sub(NEAR_MS)), &progress.near),
            Below::Far => (Place::first(), &progress.far),
        };
        let is_within = |place: &&Place| match (place.date(), start.date()) {
            (Some(place), Some(start)) => place >= start && place < date,
            (Some(place), None) => place < date,
            (None, start) => start.is_none(),
        };
        let from = at_place.as_ref().filter(is_within).unwrap_or(&start);
        let piece = self.outbox.piece(from, mark, BELOW_PER_ROUND).await?;
        self.act(judged(piece.open, Look::Odd, at), at).await?;
        Ok((below, piece.next))
    }

    /// Looks at what has no date: it stands before all dates in the index, or after them.
    async fn sweep_undated(&self, memory: &mut Memory, at: &Moments) -> Result<(), SweepError> {
        let before = (Place::first(), Place::before(i64::MIN));
        let after = (Place::after_dates(), Place::last());
        for ((start, end), place) in [before, after].into_iter().zip(&mut memory.places) {
            for number in 0..UNDATED_PIECES_MAX {
                let from = place.take().unwrap_or_else(|| start.clone());
                let piece = self.outbox.piece(&from, &end, PIECE).await?;
                let judged = judged(piece.open, Look::Odd, at);
                let found = judged.iter().filter(|(_, fate)| *fate != Fate::Pass).count();
                self.act(judged, at).await?;
                *place = piece.next;
                let is_full = found * 2 >= PIECE as usize;
                if place.is_none() || (number + 1 >= UNDATED_PIECES && !is_full) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Looks at what is dated in the future.
    async fn sweep_future(&self, memory: &mut Memory, at: &Moments) -> Result<(), SweepError> {
        let (start, place) = (at.now + FUTURE_MS, &mut memory.places[2]);
        let from = place.take().filter(|place| place.date().is_some_and(|date| date > start));
        let from = from.unwrap_or_else(|| Place::before(start));
        let piece = self.outbox.piece(&from, &Place::after_dates(), PIECE).await?;
        let piece = at_most(piece, &from, FUTURE_IDS_PER_ROUND, at);
        *place = piece.next;
        self.act(judged(piece.open, Look::Odd, at), at).await
    }

    /// Ends native transactions that a dead worker has left open.
    async fn end_abandoned(&self) {
        match self.store.end_abandoned().await {
            Ok(0) => {}
            Ok(ended) => tracing::info!(ended, "ended native transactions whose worker is gone"),
            Err(error) => tracing::debug!(%error, "abandoned transactions have to run out"),
        }
    }

    /// Publishes events that nobody has confirmed.
    async fn sweep_events(&self) -> Result<(), SweepError> {
        let Some(events) = &self.events else { return Ok(()) };
        let count = events.sweep().await?;
        if count > 0 {
            tracing::info!(events = count, "published events that were due");
        }
        Ok(())
    }
}

fn judged(open: Vec<Open>, look: Look, at: &Moments) -> Vec<(Open, Fate)> {
    let with_fate = |open: Open| {
        let fate = fate(&open, look, at);
        (open, fate)
    };
    open.into_iter().map(with_fate).collect()
}

/// The further of two marks: what this sweeper has walked counts also if it could not be noted.
fn further(noted: Option<Place>, own: Option<Place>) -> Option<Place> {
    let date = |place: &Option<Place>| place.as_ref().and_then(Place::date);
    if date(&own) > date(&noted) { own } else { noted.or(own) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_goes_on_from_the_further_mark() {
        let (near, far) = (Some(Place::before(7)), Some(Place::before(8)));
        assert_eq!(further(near.clone(), far.clone()), far);
        assert_eq!(further(far.clone(), near.clone()), far);
        assert_eq!(further(None, near.clone()), near);
        assert_eq!(further(near.clone(), None), near);
        assert_eq!(further(None, None), None);
    }
}
