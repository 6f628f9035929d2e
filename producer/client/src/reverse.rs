//! Reversing: taking an applied transaction back by a new one with its legs turned round.
//!
//! Promises at most one effective reversal for each original: its id is made from the original's,
//! and the id of the next attempt is used only when the attempt before is finally canceled, without
//! effect.

use std::sync::Arc;

use ledger::transaction::{Body, State, TransactionId};
use mongodb::bson::Document;

use crate::client::Client;
use crate::derived::named_after;
use crate::differences::differences;
use crate::error::Error;
use crate::origin::Origin;
use crate::readable::state_of;
use crate::submission::{Receipt, Submission};

/// The most reversals of one original that are looked at.
const ATTEMPTS_MAX: u32 = 10_000;

/// The most reversals of reversals that are looked at.
const CHAIN_MAX: usize = 100;

impl Client {
    /// Takes an applied transaction back by a new one with its legs turned round. The receipt is
    /// that of the reversal, with the state of one that was there before. Doing it again changes
    /// nothing.
    ///
    /// # Errors
    /// [`Error::WrongState`] when there is no effect to take back, or its reversal was itself
    /// reversed: it names the transaction to reverse then. [`Error::NotFound`], and when a server
    /// stays away.
    pub async fn reverse(&self, id: &str) -> Result<Receipt, Error> {
        self.reverse_from(id, None).await
    }

    /// The same, with where the reversal comes from.
    pub async fn reverse_from(
        &self,
        id: &str,
        origin: Option<Arc<Origin>>,
    ) -> Result<Receipt, Error> {
        let (body, ids) = (self.reversed(id).await?, self.known_rules().await?);
        for attempt in 1..=ATTEMPTS_MAX {
            let reversal = ids.derived(reversal_id(id, attempt));
            let existing = match self.transaction(&reversal).await? {
                Some(existing) => existing,
                None => {
                    let submission = Submission::of(body.clone()).with_id(reversal.as_str());
                    let submission = submission.with_origin(origin.clone());
                    match self.submit(submission).await {
                        Ok(receipt) if receipt.known.is_none() => return Ok(receipt),
                        // Another client was faster: look at the result.
                        Ok(_) | Err(Error::Conflict { .. }) => {}
                        Err(error) => return Err(error),
                    }
                    let found = self.transaction(&reversal).await.map_err(Error::after_a_write)?;
                    found.ok_or_else(|| {
                        Error::refused(&format!("transactions/{reversal}"), "is gone")
                    })?
                }
            };
            match standing(&existing, id, &body)? {
                Standing::NextAttempt => {}
                Standing::Effective(state) => {
                    self.require_not_taken_back(&reversal).await?;
                    let id: TransactionId = reversal.into();
                    let unpublished = match state.is_final() {
                        true => None,
                        false => self.publish_or_leave(std::slice::from_ref(&id)).await.err(),
                    };
                    return Ok(Receipt { id, known: Some(state), state, unpublished });
                }
            }
        }
        let problem = format!("{ATTEMPTS_MAX} reversals of it were canceled; see why first");
        Err(Error::refused(id, problem))
    }

    /// An error if a reversal was itself reversed, so that the original has its effect again.
    async fn require_not_taken_back(&self, reversal: &str) -> Result<(), Error> {
        let mut chain = vec![reversal.to_owned()];
        while let Some(next) = self.effective_reversal(&chain[chain.len() - 1]).await? {
            if chain.len() == CHAIN_MAX {
                let problem = format!("{CHAIN_MAX} reversals reverse each other; see why first");
                return Err(Error::refused(reversal, problem));
            }
            chain.push(next);
        }
        if !chain.len().is_multiple_of(2) {
            return Ok(());
        }
        // Whoever is told this takes the last one back.
        let last = chain.pop().expect("there is one");
        let document =
            self.transaction(&last).await?.ok_or_else(|| Error::no_transaction(&last))?;
        let problem = "takes an earlier reversal back, so what that reversed has its effect again";
        Err(Error::WrongState { id: last, state: state_of(&document)?, problem })
    }

    /// The id of the reversal that takes a transaction back, or is about to.
    async fn effective_reversal(&self, id: &str) -> Result<Option<String>, Error> {
        let ids = self.known_rules().await?;
        for attempt in 1..=ATTEMPTS_MAX {
            let reversal = ids.derived(reversal_id(id, attempt));
            let Some(existing) = self.transaction(&reversal).await? else { return Ok(None) };
            let is_of_it = existing.get_str("reverses").ok() == Some(id);
            if is_of_it && state_of(&existing)? != State::Canceled {
                return Ok(Some(reversal));
            }
        }
        Ok(None)
    }

    async fn reversed(&self, id: &str) -> Result<Body, Error> {
        let original = self.transaction(id).await?.ok_or_else(|| Error::no_transaction(id))?;
        let wrong = |state, problem| Error::WrongState { id: id.to_owned(), state, problem };
        match state_of(&original)? {
            State::Applied | State::Done => {}
            state @ (State::Scheduled | State::Initial | State::Pending | State::Held) => {
                return Err(wrong(state, "has no effect yet"));
            }
            state @ (State::Canceling | State::Canceled) => {
                return Err(wrong(state, "has no effect"));
            }
        }
        let body = Body::from_document(&original).map_err(|problem| {
            Error::refused(&format!("transactions/{id}"), format!("{problem}; see audit"))
        })?;
        Ok(body.reversed(id))
    }
}

/// Always the same for one original and one attempt.
fn reversal_id(original: &str, attempt: u32) -> String {
    let of = |original: &str| match attempt {
        1 => format!("reverse:{original}"),
        later => format!("reverse:{original}:{later}"),
    };
    named_after(original, of)
}

/// What exists under a reversal's id.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    /// The reversal, effective or still on its way.
    Effective(State),
    /// Nothing that counts: a reversal that was canceled, or another transaction (an original may
    /// itself be called `t:2`). Neither ever changes, so all callers agree.
    NextAttempt,
}

fn standing(existing: &Document, original: &str, reversed: &Body) -> Result<Standing, Error> {
    if existing.get_str("reverses").ok() != Some(original) {
        return Ok(Standing::NextAttempt);
    }
    let state = state_of(existing)?;
    if state == State::Canceled {
        return Ok(Standing::NextAttempt);
    }
    match Body::from_document(existing) {
        Ok(stored) if differences(reversed, &stored).is_empty() => Ok(Standing::Effective(state)),
        Ok(_) | Err(_) => {
            let id = format!("transactions/{}", existing.get_str("_id").unwrap_or_default());
            let problem =
                format!("says it reverses {original}, with other legs; not made by reverse");
            Err(Error::refused(&id, problem))
        }
    }
}

#[cfg(test)]
mod tests {
    use ledger::amount::Amount;
    use ledger::limits::NAME_BYTES_MAX;
    use ledger::transaction::{Leg, Terms, check_name};
    use mongodb::bson::{Bson, DateTime};

    use super::*;

    fn stored(body: &Body, state: State) -> Document {
        let mut document = body.to_document("reverse:t", DateTime::from_millis(0));
        document.insert("state", Bson::from(state));
        document
    }

    #[test]
    fn only_a_canceled_reversal_is_followed_by_another() {
        let body = Body::transfer("a", "b", Amount::Int(1)).expect("valid").reversed("t");
        for state in State::ALL {
            let expected = match state {
                State::Canceled => Standing::NextAttempt,
                state => Standing::Effective(state),
            };
            assert_eq!(standing(&stored(&body, state), "t", &body).expect("ours"), expected);
        }
    }

    #[test]
    fn every_id_can_be_reversed_and_always_by_the_same_one() {
        let mut met = std::collections::HashSet::new();
        for length in [1, 191, 192, 193, 199, NAME_BYTES_MAX] {
            for letter in ["x", "y"] {
                let original = letter.repeat(length);
                for attempt in [1, 2, ATTEMPTS_MAX] {
                    let reversal = reversal_id(&original, attempt);
                    assert_eq!(check_name("id", &reversal), Ok(()), "{length} {attempt}");
                    assert_eq!(reversal, reversal_id(&original, attempt));
                    assert!(met.insert(reversal), "{length} {attempt} has the id of another");
                }
            }
        }
        assert_eq!(reversal_id("t", 1), "reverse:t");
        assert!(reversal_id(&"x".repeat(192), 1).ends_with("xxx"));
        assert!(reversal_id(&"x".repeat(193), 1).starts_with("reverse:sha256:"));
    }

    #[test]
    fn the_reversal_of_a_hold_takes_back_what_was_captured() {
        let leg =
            |account: &str, amount| Leg { account: account.into(), amount: Amount::Int(amount) };
        let captured = Some(vec![leg("card", -30), leg("shop", 30), leg("fee", 0)]);
        let terms = Terms { hold: true, captured, ..Terms::default() };
        let hold = Body::new(vec![leg("card", -50), leg("shop", 48), leg("fee", 2)]);
        let hold = hold.and_then(|hold| hold.with_terms(terms)).expect("valid");
        let reversal = hold.reversed("t");
        assert_eq!(reversal.legs(), [leg("card", 30), leg("shop", -30)]);
        assert!(!reversal.terms().hold, "it moves money back at once");
        let document = stored(&reversal, State::Done);
        let found = standing(&document, "t", &reversal).expect("ours");
        assert_eq!(found, Standing::Effective(State::Done));
    }

    #[test]
    fn ids_that_look_like_a_later_attempt_do_not_mix() {
        assert_eq!(reversal_id("t", 2), reversal_id("t:2", 1));
        let original = Body::transfer("a", "b", Amount::Int(1)).expect("valid");
        let (ours, theirs) = (original.reversed("t"), original.reversed("t:2"));
        let document = stored(&theirs, State::Done);
        assert_eq!(standing(&document, "t", &ours).expect("theirs"), Standing::NextAttempt);
        let other = Body::transfer("a", "b", Amount::Int(2)).expect("valid").reversed("t");
        assert!(standing(&stored(&other, State::Done), "t", &ours).is_err());
    }
}
