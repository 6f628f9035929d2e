//! The index of what waits for a worker: a ledger with history has it in one with what lasts.
//!
//! Owns the choice between the two. Each index of `transactions` costs a native transaction on
//! MongoDB 6.0 a third of a plain update, so a ledger has one of them, and queries have to name the
//! one that it has. Promises to follow the settings within [`KEPT`]: somebody may switch history on
//! or off, and drop the index that is left, while workers run; until then their queries fail, and
//! harm nothing. Fails when the settings can't be read.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ledger::LedgerError;
use ledger::transaction::State;
use mongodb::bson::doc;

use super::Store;
use super::index::Index;
use super::names::{BY_STATE, UNCLAIMED};

/// How long the answer counts.
const KEPT: Duration = Duration::from_secs(10);

/// The index of `initial` documents whose message got lost, oldest first, of a ledger without
/// history.
pub(super) fn index() -> Index {
    Index::new(UNCLAIMED, doc! { "createdAt": 1 }, doc! { "state": State::Initial })
}

/// What was found, and when.
pub(super) type Known = Arc<Mutex<Option<(Instant, &'static str)>>>;

impl Store {
    /// The name of the index that has what is `initial`, by `createdAt`.
    ///
    /// # Errors
    /// When the server is away, or the ledger is being set up or its settings can't be read.
    pub async fn waiting_index(&self) -> Result<&'static str, LedgerError> {
        let known = *self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, name)) = known.filter(|(found, _)| found.elapsed() < KEPT) {
            return Ok(name);
        }
        let name = if self.complete_settings().await?.history { BY_STATE } else { UNCLAIMED };
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), name));
        Ok(name)
    }
}
