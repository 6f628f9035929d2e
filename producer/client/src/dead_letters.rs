//! Dead letters: looking at them, bringing their transactions back, discarding them.
//!
//! A letter is brought back by its transactions, not by its bytes: each is looked at first, and
//! only what waits for a message gets one. Promises that what is published is confirmed before the
//! letter is removed. So a replay that dies midway loses nothing, and its repetition pays nothing
//! twice. Fails when a server stays away; what was replayed until then stays replayed.

use std::collections::HashMap;

use ledger::message::{Message, Parsed};
use ledger::transaction::{State, TransactionId};
use mongo::{Fields, TRANSACTIONS};
use queue::{DeadLetter, DeadLetters, HeldLetter};

use crate::client::Client;
use crate::error::Error;

/// How a transaction that a dead letter names stands, and so what a replay does with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It waits for a message: a replay publishes its id.
    Waiting,
    /// It is parked: a replay unparks it and publishes its id.
    Parked,
    /// It is in flight: its worker or a successor brings it to its end.
    InFlight(State),
    /// It is `done` or `canceled`: nothing is left to do.
    Final(State),
    /// There is no such transaction.
    Unknown,
    /// The database refuses to change its document, or its state is none of ours.
    Stuck(String),
}

impl Fate {
    /// The words of [`as_str`](Self::as_str).
    pub const WORDS: [&'static str; 6] =
        ["waiting", "parked", "in_flight", "final", "unknown", "stuck"];

    /// One word for scripts.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        let word = match self {
            Fate::Waiting => 0,
            Fate::Parked => 1,
            Fate::InFlight(_) => 2,
            Fate::Final(_) => 3,
            Fate::Unknown => 4,
            Fate::Stuck(_) => 5,
        };
        Fate::WORDS[word]
    }

    /// The state of the transaction, where it is in flight or final.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        match self {
            Fate::InFlight(state) | Fate::Final(state) => Some(*state),
            Fate::Waiting | Fate::Parked | Fate::Unknown | Fate::Stuck(_) => None,
        }
    }

    /// Why it can't be brought back, if it is stuck.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        match self {
            Fate::Stuck(problem) => Some(problem),
            Fate::Waiting | Fate::Parked | Fate::InFlight(_) | Fate::Final(_) | Fate::Unknown => {
                None
            }
        }
    }

    /// Whether a replay leaves nothing of it to the letter.
    fn is_served(&self) -> bool {
        match self {
            Fate::Waiting | Fate::Parked | Fate::InFlight(_) | Fate::Final(_) => true,
            Fate::Unknown | Fate::Stuck(_) => false,
        }
    }
}

/// What a dead letter asks for: its transactions, or why it names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The transactions that it names, with their fates.
    pub transactions: Vec<(TransactionId, Fate)>,
    /// Why the letter, or a part of it, can never be replayed.
    pub problem: Option<String>,
}

/// Whether a replay takes the letter out of the queue, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// It is out of the queue: every transaction is published, or in others' hands.
    Removed,
    /// It stays: all of its transactions are final, so there is nothing to replay.
    AllFinal,
    /// It stays: some of it can't be replayed.
    Stays,
}

impl Asked {
    /// What becomes of the letter when it is replayed.
    #[must_use]
    pub fn replay(&self) -> Replay {
        let fates = || self.transactions.iter().map(|(_, fate)| fate);
        if self.problem.is_some() || !fates().all(Fate::is_served) {
            Replay::Stays
        } else if fates().all(|fate| matches!(fate, Fate::Final(_))) {
            Replay::AllFinal
        } else {
            Replay::Removed
        }
    }
}

impl Client {
    /// Begins a look at the dead letters. Looking takes nothing out.
    ///
    /// # Errors
    /// When the broker stays away.
    pub async fn dead_letters(&self) -> Result<DeadLetters, Error> {
        let config = self.config();
        let (amqp, name) = (config.amqp(), config.name.as_str());
        self.insist(|| DeadLetters::look(&amqp, name)).await
    }

    /// How the transactions of a letter stand now.
    ///
    /// # Errors
    /// When the database stays away.
    pub async fn asked(&self, letter: &DeadLetter) -> Result<Asked, Error> {
        let (ids, problem) = match Message::parse(&letter.body) {
            Ok(Parsed { message, bad }) => {
                let problem = bad.first().map(|bad| bad.problem.clone());
                (message.ids, problem)
            }
            Err(problem) => (Vec::new(), Some(problem)),
        };
        if ids.is_empty() {
            let problem = problem.or_else(|| Some("it names no transactions".to_owned()));
            return Ok(Asked { transactions: Vec::new(), problem });
        }
        let known = self.states(&ids).await?;
        let noted = self.insist(|| self.store().parked_among(&ids)).await?;
        let fate = |id: TransactionId| {
            let fate = match known.get(&id) {
                None => Fate::Unknown,
                Some(None) => Fate::Stuck("its state is not one of ours; see audit".to_owned()),
                Some(Some(state)) if state.is_final() => Fate::Final(*state),
                Some(Some(_)) if noted.contains(&id) => Fate::Parked,
                Some(Some(State::Initial)) => Fate::Waiting,
                Some(Some(state)) => Fate::InFlight(*state),
            };
            (id, fate)
        };
        Ok(Asked { transactions: ids.into_iter().map(fate).collect(), problem })
    }

    /// Brings the transactions of a letter back, and removes the letter when nothing of it is left.
    /// Returns what it found; see [`Asked::replay`] for what became of the letter.
    ///
    /// # Errors
    /// When a server stays away: repeat it.
    pub async fn replay(&self, held: &HeldLetter) -> Result<Asked, Error> {
        let mut asked = self.asked(&held.letter).await?;
        let with = |fate: &Fate| {
            let found = asked.transactions.iter().filter(|(_, found)| found == fate);
            found.map(|(id, _)| id.clone()).collect::<Vec<_>>()
        };
        let (waiting, parked) = (with(&Fate::Waiting), with(&Fate::Parked));
        if !parked.is_empty() {
            let unparked = self.unpark(&parked).await?;
            // The letter stays until its ids are on their way.
            if let Some(error) = unparked.unpublished {
                return Err(error.after_a_write());
            }
            for (id, problem) in unparked.refused {
                let stuck = asked.transactions.iter_mut().filter(|(of, _)| *of == id);
                stuck.for_each(|(_, fate)| *fate = Fate::Stuck(problem.clone()));
            }
        }
        if !waiting.is_empty() {
            self.publish(&waiting).await.map_err(Error::after_a_write)?;
        }
        if asked.replay() == Replay::Removed {
            self.discard(held).await?;
        }
        Ok(asked)
    }

    /// Takes a letter out of the queue for good. Its transactions stay as they are.
    ///
    /// # Errors
    /// When the broker is away; the letter may then be in the queue still.
    pub async fn discard(&self, held: &HeldLetter) -> Result<(), Error> {
        held.remove().await.map_err(|error| Error::from(error).after_a_write())
    }

    /// The states of the transactions that are there; none where it is not one of ours.
    async fn states(
        &self,
        ids: &[TransactionId],
    ) -> Result<HashMap<TransactionId, Option<State>>, Error> {
        let wanted: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
        let fields = || Fields::Only(&["state"]);
        let find = || self.store().documents("find", TRANSACTIONS, &wanted, fields());
        let found = self.insist(find).await?;
        let state = |document: &mongodb::bson::RawDocumentBuf| {
            let id = document.get_str("_id").ok()?;
            let state = document.get_str("state").ok().and_then(State::parse);
            Some((id.into(), state))
        };
        Ok(found.iter().filter_map(state).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(fates: &[Fate], problem: Option<&str>) -> Asked {
        let transactions = fates.iter().map(|fate| ("t".into(), fate.clone())).collect();
        Asked { transactions, problem: problem.map(str::to_owned) }
    }

    #[test]
    fn a_letter_goes_only_when_nothing_of_it_is_left_and_something_was_replayed() {
        let paid = Fate::Final(State::Done);
        for (fates, problem, expected) in [
            (vec![Fate::Waiting, Fate::Parked, paid.clone()], None, Replay::Removed),
            (vec![Fate::InFlight(State::Applied)], None, Replay::Removed),
            (vec![paid.clone(), paid], None, Replay::AllFinal),
            (vec![Fate::Waiting, Fate::Unknown], None, Replay::Stays),
            (vec![Fate::Waiting, Fate::Stuck("no".into())], None, Replay::Stays),
            (vec![Fate::Waiting], Some("a bad id"), Replay::Stays),
            (vec![], Some("not JSON"), Replay::Stays),
        ] {
            assert_eq!(asked(&fates, problem).replay(), expected, "{fates:?}");
        }
    }
}
