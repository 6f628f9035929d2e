//! How a transaction stands, and how it came to rest. Pure.

use ledger::transaction::State;
use mongodb::bson::Document;

/// How a transaction came to rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is on hold: its debits are reserved until it is confirmed or released, or expires. This
    /// is the only outcome that is not final, and no event says it.
    Held,
    /// Its whole effect is on the accounts. Nothing ever happens to it again.
    Done,
    /// It had no effect. Nothing ever happens to it again.
    Canceled {
        /// Why, as one of [`ReasonCode`](crate::ReasonCode)'s names.
        code: String,
        /// Why, in a sentence.
        message: String,
    },
}

/// A transaction as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its state; `None` if the document has an unknown one.
    pub state: Option<State>,
    /// The code and the message of its reason, if it is being canceled or is canceled.
    pub reason: Option<(String, String)>,
}

impl Standing {
    /// A transaction in a state, of which no reason is known.
    #[must_use]
    pub fn in_state(state: State) -> Standing {
        Standing { state: Some(state), reason: None }
    }

    /// What a transaction's document says.
    #[must_use]
    pub fn of(document: &Document) -> Standing {
        let state = document.get_str("state").ok().and_then(State::parse);
        let reason = document.get_document("reason").ok().map(|reason| {
            let text = |field: &str| reason.get_str(field).unwrap_or_default().to_owned();
            (reason.get_str("code").unwrap_or("unknown").to_owned(), text("message"))
        });
        Standing { state, reason }
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match self.state? {
            // A confirmed hold never comes back to this state.
            State::Held => Some(Outcome::Held),
            State::Done => Some(Outcome::Done),
            State::Canceled => {
                let (code, message) =
                    self.reason.clone().unwrap_or_else(|| ("unknown".to_owned(), String::new()));
                Some(Outcome::Canceled { code, message })
            }
            State::Scheduled
            | State::Initial
            | State::Pending
            | State::Applied
            | State::Canceling => None,
        }
    }
}
