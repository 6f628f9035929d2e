//! Canceling: taking a transaction back before it is applied.
//!
//! Promises that two guarded updates decide, whatever workers do meanwhile: what is `initial`
//! becomes `canceled`, what is `pending` becomes `canceling`. The claim stays: the owner notices at
//! its commit and undoes what it has posted; a dead owner's successor does, after the takeover time.

use common::transaction::{Reason, ReasonCode, State};
use mongodb::bson::{Document, doc};

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
        self.insist(|| self.store().change("cancel", "transactions", statements(id))).await?;
        // Whatever the updates' answers were, or were lost: the document says what holds.
        let document = self.transaction(id).await?.ok_or_else(|| Error::no_transaction(id))?;
        match state_of(&document)? {
            State::Canceled => Ok(Standing::of(&document)),
            State::Canceling => {
                // A hint for whoever may take it over.
                self.publish(&[id.into()]).await?;
                Ok(Standing::of(&document))
            }
            state @ (State::Applied | State::Done) => {
                let problem = "can't be canceled any more";
                Err(Error::WrongState { id: id.to_owned(), state, problem })
            }
            state @ (State::Initial | State::Pending) => {
                let problem =
                    format!("is still {state}; the server refuses to change it, see audit");
                Err(Error::refused(id, problem))
            }
        }
    }
}

/// Both run one after the other: a claim between them turns the first one's case into the second's.
fn statements(id: &str) -> Vec<Document> {
    let reason = Reason::new(ReasonCode::Requested, "canceled on request").to_document();
    let statement = |from: State, to: State| {
        doc! {
            "q": { "_id": id, "state": from },
            "u": [{ "$set": {
                "state": to,
                "reason": { "$literal": &reason },
                "lastModified": "$$NOW",
            } }],
        }
    };
    let mut unclaimed = statement(State::Initial, State::Canceled);
    // What the sweeper leaves on waiting documents means nothing on a final one.
    if let Ok(pipeline) = unclaimed.get_array_mut("u") {
        pipeline.push(doc! { "$unset": ["sweepAfter"] }.into());
    }
    vec![unclaimed, statement(State::Pending, State::Canceling)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canceling_never_touches_the_owner() {
        let pending = &statements("t")[1];
        assert_eq!(pending.get_document("q").expect("q").get_str("state").ok(), Some("pending"));
        let set = pending.get_array("u").expect("u")[0].as_document().expect("a stage");
        let fields: Vec<_> = set.get_document("$set").expect("$set").keys().collect();
        assert_eq!(fields, ["state", "reason", "lastModified"]);
    }
}
