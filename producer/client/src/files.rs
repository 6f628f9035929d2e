//! What is known of a file: whether it was submitted before, as another batch, and its rows.
//!
//! Promises that a batch is noted before any of its rows is inserted, if this is called first, and
//! that nothing is noted where the content is known and that is not expected. Fails when MongoDB
//! stays away; the same call again goes on.

use std::time::Duration;

use ledger::LedgerError;
use ledger::transaction::State;
use mongo::SubmittedFile;
use mongodb::bson::DateTime;

use crate::client::Client;
use crate::error::{Effect, Error, Server};
use crate::known::{Answer, compare_known};
use crate::submission::Order;

/// How often somebody else may be faster. Two processes are enough to lose once.
const TRIES_MAX: u32 = 4;

impl Client {
    /// The batches under which this content was submitted, if there are any.
    ///
    /// # Errors
    /// When the server stays away or refuses.
    pub async fn submitted_file(&self, content: &str) -> Result<Option<SubmittedFile>, Error> {
        self.insist(|| self.store().submitted_file(content)).await
    }

    /// Notes a batch of a content. Returns what is known of the content if it was submitted as
    /// another batch and `repeated` does not say that this is expected; then nothing is noted.
    ///
    /// # Errors
    /// When the server stays away or refuses.
    pub async fn note_file(
        &self,
        content: &str,
        batch: &str,
        rows: u64,
        repeated: bool,
    ) -> Result<Option<SubmittedFile>, Error> {
        let store = self.store();
        for _ in 0..TRIES_MAX {
            match self.submitted_file(content).await? {
                Some(known) if known.is_of(batch) => return Ok(None),
                Some(known) if !repeated => return Ok(Some(known)),
                Some(_) => self.insist(|| store.note_batch(content, batch)).await?,
                None => {
                    if self.insist(|| store.note_file(content, batch, rows)).await? {
                        return Ok(None);
                    }
                }
            }
        }
        let problem = "the note of this file changes all the time".to_owned();
        let (server, after, effect) = (Server::MongoDb, Duration::ZERO, Effect::None);
        Err(Error::Unavailable { server, problem, after, effect })
    }

    /// What there is under the ids of these orders: nothing, the same transaction with its state, or
    /// another one, which is described.
    ///
    /// # Errors
    /// When the server stays away or refuses.
    pub async fn known(
        &self,
        orders: &[Order],
    ) -> Result<Vec<Option<Result<State, String>>>, Error> {
        let at: Vec<usize> = (0..orders.len()).collect();
        // Nothing was inserted at this moment by this call.
        let never = DateTime::MIN;
        let look = || async {
            let mut answers = vec![None; orders.len()];
            compare_known(self.store(), orders, &at, never, &mut answers).await?;
            Ok::<_, LedgerError>(answers)
        };
        let told = |answer: Answer| match answer {
            Answer::Unchanged(state) => Ok(state),
            Answer::Conflict { theirs, .. } => Err(theirs),
            other => Err(format!("{other:?}")),
        };
        let answers = self.insist(look).await?;
        Ok(answers.into_iter().map(|answer| answer.map(told)).collect())
    }
}
