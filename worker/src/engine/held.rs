//! A transaction that a batch owns, and what is known of it at once.

use common::ledger::Seen;
use common::transaction::{Body, Reason, ReasonCode, State};

/// See the module.
pub(super) struct Held {
    pub state: State,
    pub attempts: u32,
    pub body: Result<Body, String>,
    /// Why it is to be canceled, once that is decided.
    pub refused: Option<Reason>,
    /// Every leg is known to be posted: by this batch.
    pub posted: bool,
}

impl Held {
    /// A transaction as its claim found it. Before the commit point it is refused when it makes no
    /// sense, or has been tried too often; after it nothing stops it any more.
    pub fn claimed(seen: Seen, attempts_max: u32) -> Held {
        let Seen { state, attempts, body, .. } = seen;
        let refused = match state {
            State::Pending => match &body {
                Err(problem) => Some(Reason::new(ReasonCode::Invalid, problem.clone())),
                Ok(_) if attempts > attempts_max => {
                    let message = format!("given up after {} attempts", attempts - 1);
                    Some(Reason::new(ReasonCode::RetriesExhausted, message))
                }
                Ok(_) => None,
            },
            State::Initial | State::Applied | State::Canceling | State::Done | State::Canceled => {
                None
            }
        };
        Held { state, attempts, body, refused, posted: false }
    }

    /// Whether it is committed and has legs to settle.
    pub fn is_settleable(&self) -> bool {
        self.state == State::Applied && self.body.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::amount::Amount;

    fn claimed(state: State, attempts: u32, body: Result<Body, String>) -> Option<ReasonCode> {
        let seen = Seen {
            id: "t".into(),
            state,
            claim: None,
            lease_until: 0,
            takeover_at: 0,
            attempts,
            created_at: 0,
            server_now: 0,
            body,
        };
        Held::claimed(seen, 3).refused.map(|reason| reason.code)
    }

    #[test]
    fn only_what_is_not_committed_is_ever_given_up() {
        let body = Body::transfer("a", "b", Amount::Int(1)).map_err(|error| error.to_string());
        let broken = || Err("no legs".to_owned());
        assert_eq!(claimed(State::Pending, 3, body.clone()), None);
        assert_eq!(claimed(State::Pending, 4, body.clone()), Some(ReasonCode::RetriesExhausted));
        assert_eq!(claimed(State::Pending, 1, broken()), Some(ReasonCode::Invalid));
        for state in [State::Applied, State::Canceling] {
            assert_eq!(claimed(state, 1_000, body.clone()), None, "{state}");
            assert_eq!(claimed(state, 1, broken()), None, "{state}");
        }
    }
}
