//! Giving lines their numbers.
//!
//! Promises that two who number at once leave no gap: a page is inserted under the number that
//! follows the page before, and who comes second finds it taken and reads on. What dies between its
//! commit and its page is numbered by a sweeper, from the note that the commit has left. Fails with
//! an error of the command; then asking again does what is left.

use std::sync::atomic::{AtomicU64, Ordering};

use ledger::event::Ended;
use ledger::{LedgerError, ServerMs};
use mongodb::bson::{RawDocument, rawdoc};

use super::{Ends, page};
use crate::names::{EVENTS, ORDER};
use crate::own::DUE_EVENTS;
use crate::write::none_refused;
use crate::{Store, due, raw_id};

/// The most lines of a page.
const LINES_MAX: usize = 500;

/// How often a numberer tries while others are numbering, too.
const TRIES_MAX: u32 = 30;

/// How many notes a sweeper looks at in one round.
const NOTES_AT_ONCE: i64 = 500;

/// What gives lines their numbers. It remembers which number is next, so that a worker that is alone
/// needs one command; a number that somebody else has taken meanwhile is read again.
#[derive(Debug)]
pub struct Numberer {
    store: Store,
    /// The number after the last one that is known to be durable; 0 where none is known.
    next: AtomicU64,
}

impl Numberer {
    /// One that knows nothing yet.
    #[must_use]
    pub fn new(store: Store) -> Numberer {
        Numberer { store, next: AtomicU64::new(0) }
    }

    /// Gives these lines their numbers, in this order, where they have none.
    ///
    /// # Errors
    /// When the server is away or refuses, or others are always first.
    pub async fn number(&self, lines: &[Ends]) -> Result<(), LedgerError> {
        const OPERATION: &str = "number";
        let mut left = lines.to_vec();
        let (mut tries, mut next) = (0, self.next.load(Ordering::Relaxed));
        while !left.is_empty() {
            if tries == TRIES_MAX {
                let problem = format!("the number {next} is taken by what is no page of the order");
                return Err(LedgerError::passing(OPERATION, problem));
            }
            if next == 0 {
                next = self.store.last_number().await? + 1;
            }
            let some = &left[..left.len().min(LINES_MAX)];
            let inserted = self.store.insert(ORDER, [page(next, some)]).await?;
            none_refused(OPERATION, inserted.refused)?;
            if inserted.existing.is_empty() && inserted.taken.is_empty() {
                next += some.iter().map(|line| u64::from(line.count)).sum::<u64>();
                self.next.store(next, Ordering::Relaxed);
                left.drain(..some.len());
                tries = 0;
                continue;
            }
            // Somebody else was first: with this number, or with some of these lines.
            (tries, next) = (tries + 1, 0);
            left = self.store.without_numbers(left).await?;
        }
        Ok(())
    }

    /// Numbers the lines whose worker has not: those whose notes are due. Then their notes say so.
    /// Returns how many notes there were. One whose line is gone or damaged says so, too, and is
    /// left to whoever tells its events.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn sweep(&self) -> Result<usize, LedgerError> {
        let notes = self.store.notes_without_numbers().await?;
        if notes.is_empty() {
            return Ok(0);
        }
        let ended = self.store.ended_by(&notes).await?;
        let ends = |(line, (ended, _)): (String, (Vec<Ended>, ServerMs))| {
            let count = u32::try_from(ended.len()).ok().filter(|count| *count > 0)?;
            Some(Ends { line, count })
        };
        let lines = ended.into_iter().filter_map(ends).collect();
        self.number(&self.store.without_numbers(lines).await?).await?;
        let noted = |line: &String| {
            rawdoc! {
                "q": DUE_EVENTS.with_id(raw_id(line)),
                "u": { "$set": { "numbered": true } },
            }
        };
        self.store.change("number", EVENTS, notes.iter().map(noted).collect()).await?;
        Ok(notes.len())
    }
}

impl Store {
    /// The lines whose notes are due and do not say that they are numbered.
    async fn notes_without_numbers(&self) -> Result<Vec<String>, LedgerError> {
        let find = due::find_due(rawdoc! { "$ne": true }, NOTES_AT_ONCE);
        let line = |note: &RawDocument| Some(note.get_str("_id").ok()?.to_owned());
        self.find("read the order", find, line).await
    }
}
