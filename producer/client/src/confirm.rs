//! Confirming holds, one or many at once.
//!
//! Promises that each hold is confirmed by one guarded update, whether alone or among hundreds, and
//! that each gets its own answer. An update that has matched says by itself that it is the
//! confirmation that counts. Only where fewer have matched than were sent (somebody was faster, a
//! hold has expired, or an answer was lost) the documents are read again, and they say what became
//! of each. Doing it again changes nothing. Fails when MongoDB stays away; any of the holds may be
//! confirmed then. While an attempt is open, that a hold is still held is no reason for a refusal.

use std::collections::HashMap;

use ledger::notation::Notation;
use ledger::transaction::{Leg, State, TransactionId};
use mongodb::bson::Document;

use crate::client::Client;
use crate::error::{Effect, Error};
use crate::hold::{Capture, Decided, HoldState, look, not_confirmed};
use crate::standing::Standing;
use crate::together::in_parts;

/// The most legs that one command captures. A leg has a name of 200 bytes at most.
const LEGS_PER_COMMAND_MAX: usize = 10_000;

/// A hold, and what to capture of it.
type Wish = (TransactionId, Capture);

/// A hold, and what is captured of each of its legs.
type Captured = (TransactionId, Vec<Leg>);

/// What is known of a wish: how its hold stands, what was captured, and whether that was so before.
type Known = Result<(Standing, Vec<Leg>, bool), Error>;

impl Client {
    /// Confirms a hold: a worker posts what is captured, and what is not captured goes home. Doing
    /// it again changes nothing.
    ///
    /// # Errors
    /// [`Error::Captured`] when it was confirmed with another capture, [`Error::WrongState`] when
    /// it is no hold, not held yet, released or expired, [`Error::Invalid`] when the capture does
    /// not fit the transaction, [`Error::NotFound`], and when MongoDB stays away.
    pub async fn confirm(&self, id: &str, capture: &Capture) -> Result<Decided, Error> {
        let mut decided = self.confirm_some(&[(id.into(), capture.clone())]).await?;
        decided.pop().unwrap_or_else(|| Err(Error::no_transaction(id)))
    }

    /// Confirms holds, hundreds with one command; a result for each, in their order, as
    /// [`Client::confirm`] gives it. A failure of one does not affect the others. After
    /// [`Error::Unavailable`], confirm all of them again: what is confirmed already stays so. While
    /// MongoDB is away, those that were not sent yet are not tried, and surely not confirmed.
    pub async fn confirm_all(
        &self,
        holds: impl IntoIterator<Item = (TransactionId, Capture)>,
    ) -> Vec<Result<Decided, Error>> {
        let wishes: Vec<Wish> = holds.into_iter().collect();
        in_parts(&wishes, |some| self.confirm_some(some)).await
    }

    /// A result for each, in their order; an error when MongoDB stays away.
    async fn confirm_some(&self, wishes: &[Wish]) -> Result<Vec<Result<Decided, Error>>, Error> {
        let documents = self.of_wishes(wishes.iter()).await?;
        let notation = self.store().notation();
        let (mut known, mut held): (Vec<Known>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut captures: Vec<Captured> = Vec::new();
        for (at, (id, capture)) in wishes.iter().enumerate() {
            known.push(match find(&documents, (id, capture), &notation) {
                Ok((standing, HoldState::Confirmed(captured))) => Ok((standing, captured, true)),
                Ok((_, HoldState::Held(captured))) => {
                    held.push(at);
                    captures.push((id.clone(), captured.clone()));
                    Ok((confirmed(), captured, false))
                }
                Err(error) => Err(error),
            });
        }
        let (count, open) = self.confirm_held(&captures).await?;
        if count < captures.len() {
            let documents = self.of_wishes(held.iter().map(|at| &wishes[*at])).await;
            let documents = documents.map_err(Error::after_a_write)?;
            for at in held {
                known[at] = after_all(&documents, &wishes[at], (open, &notation));
            }
        }
        Ok(self.told(wishes, known).await)
    }

    /// The documents of these holds, by their ids.
    async fn of_wishes(
        &self,
        wishes: impl Iterator<Item = &Wish>,
    ) -> Result<HashMap<String, Document>, Error> {
        let ids: Vec<&str> = wishes.map(|(id, _)| id.as_ref()).collect();
        self.transactions_named(&ids).await
    }

    /// Sends the updates; returns how many have matched, and whether an attempt is open. After an
    /// answer that was lost, those that it was about match no more.
    async fn confirm_held(&self, holds: &[Captured]) -> Result<(usize, Effect), Error> {
        let (mut count, mut any_open) = (0, Effect::None);
        for (at, holds) in commands(holds).enumerate() {
            let confirmed = self.insist_write(|_| self.store().confirm_holds(holds)).await;
            // The commands before this one have confirmed theirs.
            let confirmed = confirmed.map_err(|e| if at == 0 { e } else { e.after_a_write() });
            let (written, open) = confirmed?;
            count += written.count;
            any_open = any_open.or(open);
        }
        Ok((count, any_open))
    }

    /// Tells the workers of all that is not at its end yet.
    async fn told(&self, wishes: &[Wish], known: Vec<Known>) -> Vec<Result<Decided, Error>> {
        let goes_on = |known: &Known| {
            known.as_ref().is_ok_and(|(standing, ..)| !standing.state.is_some_and(State::is_final))
        };
        let to_tell = wishes.iter().zip(&known).filter(|(_, known)| goes_on(known));
        let to_tell: Vec<TransactionId> = to_tell.map(|((id, _), _)| id.clone()).collect();
        let failed = self.publish_or_leave(&to_tell).await.err();
        let decided = |known: Known| {
            let unpublished = failed.clone().filter(|_| goes_on(&known));
            let (standing, captured, known) = known?;
            Ok(Decided { standing, captured, known, unpublished })
        };
        known.into_iter().map(decided).collect()
    }
}

/// How a hold stands that this call has confirmed.
fn confirmed() -> Standing {
    Standing { state: Some(State::Pending), reason: None }
}

fn find(
    documents: &HashMap<String, Document>,
    (id, capture): (&str, &Capture),
    notation: &Notation,
) -> Result<(Standing, HoldState), Error> {
    let document = documents.get(id).ok_or_else(|| Error::no_transaction(id))?;
    Ok((Standing::of(document), look(document, capture, notation)?))
}

/// What the document says after the update was sent.
fn after_all(
    documents: &HashMap<String, Document>,
    (id, capture): &Wish,
    (open, notation): (Effect, &Notation),
) -> Known {
    match find(documents, (id, capture), notation)? {
        (standing, HoldState::Confirmed(captured)) => Ok((standing, captured, false)),
        (_, HoldState::Held(_)) => Err(not_confirmed(&documents[id.as_ref()]).unless_open(open)),
    }
}

/// So many at a time that no command is too large.
fn commands(mut holds: &[Captured]) -> impl Iterator<Item = &[Captured]> {
    std::iter::from_fn(move || {
        let mut legs = 0;
        let fits = |(_, captured): &&Captured| {
            legs += captured.len();
            legs <= LEGS_PER_COMMAND_MAX
        };
        let count = holds.iter().take_while(fits).count().max(1);
        let (now, later) = holds.split_at(count.min(holds.len()));
        holds = later;
        (!now.is_empty()).then_some(now)
    })
}

#[cfg(test)]
mod tests {
    use ledger::amount::Amount;

    use super::*;

    #[test]
    fn every_hold_is_in_one_command_and_no_command_has_too_many_legs() {
        let leg = Leg { account: "a".into(), amount: Amount::Int(0) };
        let hold = |legs: usize| ("t".into(), vec![leg.clone(); legs]);
        let sizes = |legs: &[usize]| {
            let holds: Vec<Captured> = legs.iter().map(|legs| hold(*legs)).collect();
            commands(&holds).map(<[Captured]>::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&[2; 500]), [500]);
        assert_eq!(sizes(&[1_000; 25]), [10, 10, 5]);
        assert_eq!(sizes(&[LEGS_PER_COMMAND_MAX + 1, 2]), [1, 1], "each is sent, whatever it has");
    }
}
