//! Canceling: taking a transaction back before it is applied.
//!
//! Promises that guarded updates decide, whatever workers do at the same time: `initial`
//! becomes `canceled`, `pending` becomes `canceling`, and so does `held`, which is released. The claim stays: the owner notices at its
//! commit and undoes what it has posted. If the owner is dead, the next owner does so after the
//! takeover time.

use common::transaction::{Reason, ReasonCode, State};

use crate::client::{Client, state_of};
use crate::error::Error;
use crate::watch::Standing;

impl Client {
    /// Cancels a transaction that is not yet applied: it is `canceled`, or it is `canceling` and a
    /// worker undoes it. Doing it again changes nothing.
    ///
    /// # Errors
    /// [`Error::WrongState`] when it is applied or done: [`Client::reverse`] takes it back.
    /// [`Error::NotFound`], and when a server stays away.
    pub async fn cancel(&self, id: &str) -> Result<Standing, Error> {
        let reason = Reason::new(ReasonCode::Requested, "canceled on request");
        self.insist(|| self.store().request_cancel(id, &reason)).await?;
        // The document shows the result, even if an answer was lost.
        let document = self.transaction(id).await?.ok_or_else(|| Error::no_transaction(id))?;
        match state_of(&document)? {
            State::Canceled => Ok(Standing::of(&document)),
            State::Canceling => {
                // A message for a worker that may take the transaction over.
                self.publish(&[id.into()]).await?;
                Ok(Standing::of(&document))
            }
            state @ (State::Applied | State::Done) => {
                let problem = "can't be canceled any more";
                Err(Error::WrongState { id: id.to_owned(), state, problem })
            }
            state @ (State::Scheduled | State::Initial | State::Pending | State::Held) => {
                let problem =
                    format!("is still {state}; the server refuses to change it, see audit");
                Err(Error::refused(id, problem))
            }
        }
    }
}
