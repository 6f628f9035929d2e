//! Canceling: taking a transaction back before it is applied.
//!
//! Promises that guarded updates decide, whatever workers do at the same time: `initial` becomes
//! `canceled`, `pending` becomes `canceling`, and so does `held`, which is released. The claim
//! stays: the owner notices at its commit and undoes what it has posted. If the owner is dead, the
//! next owner does so after the takeover time. A canceling that the broker has not heard of counts
//! all the same: the workers' sweepers find it.

use ledger::transaction::{Reason, ReasonCode, State};

use crate::client::Client;
use crate::error::Error;
use crate::readable::state_of;
use crate::standing::Standing;

/// A transaction that is canceled, or on its way to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canceled {
    /// How it stands.
    pub standing: Standing,
    /// Why the broker was not told, if so. It counts all the same: the workers' sweepers find it.
    pub unpublished: Option<Error>,
}

impl Client {
    /// Cancels a transaction that is not yet applied: it is `canceled`, or it is `canceling` and a
    /// worker undoes it. Doing it again changes nothing.
    ///
    /// # Errors
    /// [`Error::WrongState`] when it is applied or done: [`Client::reverse`] takes it back.
    /// [`Error::NotFound`], and when MongoDB stays away.
    pub async fn cancel(&self, id: &str) -> Result<Canceled, Error> {
        let reason = Reason::new(ReasonCode::Requested, "canceled on request");
        let request = |_| self.store().request_cancel(id, &reason);
        let ((), open) = self.insist_write(request).await?;
        // The document shows the result, even if an answer was lost.
        let document = self.transaction(id).await.map_err(Error::after_a_write)?;
        let document = document.ok_or_else(|| Error::no_transaction(id).unless_open(open))?;
        let standing = Standing::of(&document);
        match state_of(&document).map_err(|error| error.unless_open(open))? {
            State::Canceled => Ok(Canceled { standing, unpublished: None }),
            State::Canceling => {
                // A message for a worker that may take the transaction over.
                let unpublished = self.publish_or_leave(&[id.into()]).await.err();
                Ok(Canceled { standing, unpublished })
            }
            state @ (State::Applied | State::Done) => {
                let problem = "can't be canceled any more";
                Err(Error::WrongState { id: id.to_owned(), state, problem })
            }
            state @ (State::Scheduled | State::Initial | State::Pending | State::Held) => {
                let problem =
                    format!("is still {state}; the server refuses to change it, see audit");
                Err(Error::refused(id, problem).unless_open(open))
            }
        }
    }
}
