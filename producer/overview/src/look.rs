//! The questions to the database. I/O only: what follows from the answers is decided elsewhere.
//!
//! Promises to cost the database little, whatever is in it: a question that has to count is asked
//! again only after a hundred times as long as its answer took, so where counting takes long it is
//! done less often. A question that the user may not ask does not keep the others from being
//! answered. Fails when the database does not answer.

use std::time::{Duration, Instant};

use ledger::limits::COUNTED_MAX;
use ledger::{Fault, LedgerError};
use mongo::{Finding, FirstDue, Foreign, Resting, SeenWorker, Settlement, Store, Unfinished};

use super::knowledge::Ledger;

/// A question may take this share of the time.
const SHARE: u32 = 100;

/// The longest pause: a single slow answer should not make the numbers old.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A count that goes no further is cheap enough to be asked every few seconds.
const QUICK_MAX: u64 = 10_000;

/// How long before a question is asked again that the user may not ask.
const DENIED_PAUSE: Duration = Duration::from_secs(30);

/// A question that is asked again and again, and its last answer.
struct Asked<T> {
    answer: Option<(T, Instant)>,
    again_at: Option<Instant>,
    denied: Option<String>,
}

impl<T> Default for Asked<T> {
    fn default() -> Asked<T> {
        Asked { answer: None, again_at: None, denied: None }
    }
}

impl<T: Clone> Asked<T> {
    async fn ask<F>(&mut self, question: impl FnOnce() -> F) -> Result<(), LedgerError>
    where
        F: Future<Output = Result<T, LedgerError>>,
    {
        let begun = Instant::now();
        if self.again_at.is_some_and(|at| begun < at) {
            return Ok(());
        }
        let answered = question().await;
        self.take(answered, begun, Instant::now())
    }

    fn take(
        &mut self,
        answered: Result<T, LedgerError>,
        begun: Instant,
        now: Instant,
    ) -> Result<(), LedgerError> {
        match answered {
            Ok(answer) => {
                let pause = now.duration_since(begun).saturating_mul(SHARE).min(PAUSE_MAX);
                (self.answer, self.denied) = (Some((answer, now)), None);
                self.again_at = Some(now + pause);
            }
            Err(error) if error.fault == Fault::Denied => {
                (self.answer, self.denied) = (None, Some(error.to_string()));
                self.again_at = Some(now + DENIED_PAUSE);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn newest(&self) -> Option<T> {
        self.answer.as_ref().map(|(answer, _)| answer.clone())
    }
}

/// All questions, with their last answers.
#[derive(Default)]
pub struct Looks {
    settlement: Asked<Option<Settlement>>,
    drained: Asked<Vec<(String, Settlement)>>,
    workers: Asked<Vec<SeenWorker>>,
    /// Counted no further than [`QUICK_MAX`].
    quick: Asked<Unfinished>,
    /// Counted in full, which is asked only where the quick count was not enough.
    unfinished: Asked<Unfinished>,
    /// Counted no further than [`QUICK_MAX`].
    quick_resting: Asked<Resting>,
    /// Counted in full, as above.
    resting: Asked<Resting>,
    first_due: Asked<Option<FirstDue>>,
    noted: Asked<u64>,
    events_due: Asked<(u64, bool)>,
    foreign: Asked<Vec<Foreign>>,
    harms: Asked<Vec<Finding>>,
}

impl Looks {
    /// Asks what is due to be asked.
    ///
    /// # Errors
    /// When the database is away.
    pub async fn look(&mut self, store: &Store) -> Result<Ledger, LedgerError> {
        let now = store.server_now().await?;
        // One document, and few: they are asked each time. All rates rest on the workers.
        (self.settlement.again_at, self.workers.again_at) = (None, None);
        self.settlement.ask(|| store.settlement()).await?;
        self.drained.again_at = None;
        self.drained.ask(|| store.drained()).await?;
        self.workers.ask(|| store.workers()).await?;
        self.quick.ask(|| store.unfinished(QUICK_MAX)).await?;
        if self.quick.answer.as_ref().is_some_and(|(quick, _)| is_capped(quick)) {
            self.unfinished.ask(|| store.unfinished(COUNTED_MAX)).await?;
        }
        self.quick_resting.ask(|| store.resting(now, QUICK_MAX)).await?;
        if self.quick_resting.newest().is_some_and(|quick| quick.capped) {
            self.resting.ask(|| store.resting(now, COUNTED_MAX)).await?;
        }
        self.first_due.ask(|| store.first_due(now)).await?;
        self.noted.ask(|| store.noted_as_parked()).await?;
        self.events_due.ask(|| store.events_due()).await?;
        self.foreign.ask(|| store.foreign()).await?;
        self.harms.ask(|| store.harms()).await?;
        let denied = [
            &self.settlement.denied,
            &self.workers.denied,
            &self.quick.denied,
            &self.quick_resting.denied,
            &self.noted.denied,
            &self.events_due.denied,
            &self.harms.denied,
        ];
        Ok(Ledger {
            now,
            pause: self.settlement.newest().flatten().filter(|said| said.paused),
            drained: self.drained.newest().unwrap_or_default(),
            workers: self.workers.newest().unwrap_or_default(),
            unfinished: self
                .quick
                .answer
                .clone()
                .map(|quick| counted(quick, self.unfinished.answer.as_ref())),
            resting: self
                .quick_resting
                .answer
                .clone()
                .map(|quick| counted_resting(quick, self.resting.answer.as_ref())),
            first_due: self.first_due.newest().flatten(),
            noted: self.noted.newest(),
            events_due: self.events_due.newest(),
            foreign: self.foreign.newest(),
            harms: self.harms.newest(),
            denied: denied.into_iter().flatten().next().cloned(),
        })
    }
}

fn is_capped(counted: &Unfinished) -> bool {
    counted.capped
}

/// The numbers of the full count where the quick one has ended too early; the oldest is always the
/// newest that is known.
fn counted(
    quick: (Unfinished, Instant),
    full: Option<&(Unfinished, Instant)>,
) -> (Unfinished, Instant) {
    match full {
        Some((full, at)) if is_capped(&quick.0) => {
            (Unfinished { oldest: quick.0.oldest, ..full.clone() }, *at)
        }
        Some(_) | None => quick,
    }
}

/// The same of what rests. What is due is told by the quick count, which is newer, unless that has
/// not seen all of it.
fn counted_resting(
    quick: (Resting, Instant),
    full: Option<&(Resting, Instant)>,
) -> (Resting, Instant) {
    match full {
        Some((full, at)) if quick.0.capped && quick.0.due_capped => (full.clone(), *at),
        Some((full, at)) if quick.0.capped => {
            let Resting { due, due_capped, .. } = quick.0;
            (Resting { due, due_capped, ..full.clone() }, *at)
        }
        Some(_) | None => quick,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_holds_are_counted_in_full_and_what_is_due_is_always_new() {
        let (then, now) = (Instant::now(), Instant::now() + Duration::from_secs(30));
        let full = (Resting { held: 70_000, due: 9, ..Resting::default() }, then);
        let quick = Resting { held: 10_000, due: 3, capped: true, ..Resting::default() };
        let (told, at) = counted_resting((quick.clone(), now), Some(&full));
        assert_eq!((told.held, told.due, told.capped, at), (70_000, 3, false, then));
        let all_due = Resting { due_capped: true, ..quick.clone() };
        assert_eq!(counted_resting((all_due, now), Some(&full)), full);
        assert_eq!(counted_resting((quick.clone(), now), None), (quick, now));
    }

    #[test]
    fn a_long_backlog_is_counted_in_full_and_a_short_one_is_always_new() {
        let (then, now) = (Instant::now(), Instant::now() + Duration::from_secs(30));
        let full = (Unfinished { parked: 7, ..Unfinished::default() }, then);
        let capped = Unfinished { capped: true, ..Unfinished::default() };
        let (told, at) = counted((capped.clone(), now), Some(&full));
        assert_eq!((told.parked, told.capped, at), (7, false, then));
        assert_eq!(counted((capped.clone(), now), None), (capped, now));
        let short = (Unfinished::default(), now);
        assert_eq!(counted(short.clone(), Some(&full)), short, "the backlog is gone");
    }

    #[test]
    fn a_question_takes_a_hundredth_of_the_time() {
        let (begun, mut asked) = (Instant::now(), Asked::default());
        for (took_ms, pause_ms) in [(1, 100), (80, 8_000), (5_000, 60_000)] {
            let now = begun + Duration::from_millis(took_ms);
            assert!(asked.take(Ok(1), begun, now).is_ok());
            assert_eq!(asked.again_at, Some(now + Duration::from_millis(pause_ms)));
        }
    }

    #[test]
    fn what_may_not_be_asked_is_said_and_what_fails_otherwise_is_an_error() {
        let (now, mut asked) = (Instant::now(), Asked::default());
        assert!(asked.take(Ok(1), now, now).is_ok());
        assert!(asked.take(Err(LedgerError::passing("test", "away")), now, now).is_err());
        assert_eq!(asked.newest(), Some(1), "what was known stays");
        let denied = LedgerError { fault: Fault::Denied, ..LedgerError::passing("test", "no") };
        assert!(asked.take(Err(denied), now, now).is_ok());
        assert!(asked.newest().is_none() && asked.denied.is_some());
    }
}
