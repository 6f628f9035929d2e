//! Canceling: taking transactions back before they are applied, one or many at once.
//!
//! Promises that guarded updates decide, whatever workers do at the same time: `initial` becomes
//! `canceled`, `pending` becomes `canceling`, and so does `held`, which is released. The claim
//! stays: the owner notices at its commit and undoes what it has posted. If the owner is dead, the
//! next owner does so after the takeover time. A canceling that the broker has not heard of counts
//! all the same: the workers' sweepers find it.

use ledger::transaction::{Reason, ReasonCode, State, TransactionId};
use mongodb::bson::Document;

use crate::client::Client;
use crate::error::{Effect, Error};
use crate::readable::state_of;
use crate::standing::Standing;
use crate::together::in_parts;

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
        let mut canceled = self.cancel_some(&[id]).await?;
        canceled.pop().unwrap_or_else(|| Err(Error::no_transaction(id)))
    }

    /// Cancels transactions, hundreds with one command; a result for each, in their order, as
    /// [`Client::cancel`] gives it. A failure of one does not affect the others. After
    /// [`Error::Unavailable`], cancel all of them again. While MongoDB is away, those that were not
    /// sent yet are not tried, and surely not canceled.
    pub async fn cancel_all(&self, ids: &[&str]) -> Vec<Result<Canceled, Error>> {
        in_parts(ids, |some| self.cancel_some(some)).await
    }

    /// A result for each, in their order; an error when MongoDB stays away.
    async fn cancel_some(&self, ids: &[&str]) -> Result<Vec<Result<Canceled, Error>>, Error> {
        let reason = Reason::new(ReasonCode::Requested, "canceled on request");
        let request = |_| self.store().request_cancel(ids, &reason);
        let ((), open) = self.insist_write(request).await?;
        // The documents show the result, even if an answer was lost.
        let documents = self.transactions_named(ids).await.map_err(Error::after_a_write)?;
        let known: Vec<Result<Standing, Error>> =
            ids.iter().map(|id| found(id, documents.get(*id), open)).collect();
        // A message for a worker that may take the transaction over.
        let goes_on = |known: &Result<Standing, Error>| {
            known.as_ref().is_ok_and(|standing| standing.state == Some(State::Canceling))
        };
        let to_tell = ids.iter().zip(&known).filter(|(_, known)| goes_on(known));
        let to_tell: Vec<TransactionId> = to_tell.map(|(id, _)| (*id).into()).collect();
        let failed = self.publish_or_leave(&to_tell).await.err();
        let canceled = |known: Result<Standing, Error>| {
            let unpublished = failed.clone().filter(|_| goes_on(&known));
            Ok(Canceled { standing: known?, unpublished })
        };
        Ok(known.into_iter().map(canceled).collect())
    }
}

/// How a transaction stands that was to be canceled, by its document, while an attempt may be open.
fn found(id: &str, document: Option<&Document>, open: Effect) -> Result<Standing, Error> {
    let document = document.ok_or_else(|| Error::no_transaction(id).unless_open(open))?;
    match state_of(document).map_err(|error| error.unless_open(open))? {
        State::Canceled | State::Canceling => Ok(Standing::of(document)),
        state @ (State::Applied | State::Done) => {
            let problem = "can't be canceled any more";
            Err(Error::WrongState { id: id.to_owned(), state, problem })
        }
        state @ (State::Scheduled | State::Initial | State::Pending | State::Held) => {
            let problem = format!("is still {state}; the server refuses to change it, see audit");
            Err(Error::refused(id, problem).unless_open(open))
        }
    }
}
