//! A transaction that a batch owns, and what is known of it at once.

use ledger::transaction::{Body, ParkCode, Parked, Reason, ReasonCode, State, TransactionId};
use ledger::{Cancelation, Seen, ServerMs, Size};

/// How a transaction goes on that this run does not bring to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// As it is, after a while.
    Later,
    /// With fewer others, after a while: one of them may be the reason.
    Apart,
    /// At once, with fewer others: the batch has as much work as one may have.
    Surplus,
}

/// What a batch knows of one transaction.
pub(super) struct Owned {
    pub state: State,
    pub attempts: u32,
    pub created_at: ServerMs,
    attempts_alone: u32,
    never_posted: bool,
    pub size: Size,
    /// What it asks for. None until it is loaded, where it is large.
    body: Option<Result<Body, String>>,
    /// Why it is to be canceled, once that is decided.
    pub refused: Option<Reason>,
    /// Why it is to be set apart, once that is decided.
    pub parking: Option<Parked>,
    /// Every leg is known to be posted: by this batch.
    pub posted: bool,
    /// The latest deadline of a post for it whose outcome is unknown. It may still arrive, so until
    /// this moment plus grace no mark of it may be removed.
    pub doubt: Option<ServerMs>,
    /// It takes no further part in this run.
    pub left: Option<Left>,
}

impl Owned {
    /// A transaction as its claim found it.
    pub fn claimed(seen: Seen, attempts_max: u32) -> Owned {
        let Seen { state, attempts, created_at, attempts_alone, never_posted, size, .. } = seen;
        debug_assert!(State::IN_FLIGHT.contains(&state), "claimed, and yet {state}");
        let mut owned = Owned {
            state,
            attempts,
            created_at,
            attempts_alone,
            never_posted,
            size,
            body: None,
            refused: None,
            parking: None,
            posted: false,
            doubt: None,
            left: None,
        };
        if let Some(body) = seen.body {
            owned.load(body, attempts_max, seen.server_now);
        }
        owned
    }

    /// Takes in what it asks for, and decides what follows from that alone. Before the commit point
    /// it is refused when it makes no sense, has expired, or has failed alone too often; after it
    /// nothing stops it any more. One that may have been posted and can't be read any more is set
    /// apart: nobody knows which accounts have its marks.
    pub fn load(&mut self, body: Result<Body, String>, attempts_max: u32, now: ServerMs) {
        let unreadable = |problem: &String| {
            Some(Parked::new(
                ParkCode::TransactionUnreadable,
                format!("it can't be read: {problem}"),
            ))
        };
        match (self.state, &body) {
            (State::Pending, Err(problem)) if self.attempts > 1 => {
                self.parking = unreadable(problem);
            }
            (State::Pending, Err(problem)) => {
                self.refused = Some(Reason::new(ReasonCode::Invalid, problem.clone()));
                self.never_posted = true;
            }
            (State::Pending, Ok(_)) if self.attempts_alone >= attempts_max => {
                let message = format!("given up after {} attempts alone", self.attempts_alone);
                self.refused = Some(Reason::new(ReasonCode::RetriesExhausted, message));
            }
            (State::Canceling, Err(_)) if self.never_posted => {}
            (State::Applied | State::Canceling, Err(problem)) => {
                self.parking = unreadable(problem);
            }
            (State::Pending | State::Applied | State::Canceling, Ok(_))
            | (
                State::Scheduled | State::Initial | State::Held | State::Done | State::Canceled,
                _,
            ) => {}
        }
        self.body = Some(body);
        // Its first owner has not posted it yet.
        self.never_posted |= self.look_at_the_clock(now) && self.attempts <= 1;
    }

    /// Refuses it if it has expired by this moment of the server's clock and is not committed; says
    /// whether it did. The guard of its commit decides; this spares posts that would be undone.
    pub fn look_at_the_clock(&mut self, now: ServerMs) -> bool {
        if self.state != State::Pending || self.refused.is_some() {
            return false;
        }
        let Some(reason) = self.body().and_then(|body| body.expiry(now)) else { return false };
        self.refused = Some(reason);
        self.posted = false;
        true
    }

    /// Its cancelation, if it is to be canceled.
    pub fn cancelation(&self, id: &TransactionId) -> Option<Cancelation> {
        if !self.goes_on() || self.state != State::Pending {
            return None;
        }
        let reason = self.refused.clone()?;
        let unconfirmed = self.awaits_confirmation();
        Some(Cancelation { id: id.clone(), reason, never_posted: self.never_posted, unconfirmed })
    }

    /// What it asks for, where that makes sense.
    pub fn body(&self) -> Option<&Body> {
        self.body.as_ref()?.as_ref().ok()
    }

    /// Whether its debits are put on hold before the rest is posted.
    pub fn is_hold(&self) -> bool {
        self.body().is_some_and(|body| body.terms().hold)
    }

    /// Whether it is to rest, once it is posted, until somebody confirms it.
    pub fn awaits_confirmation(&self) -> bool {
        self.body().is_some_and(Body::awaits_confirmation)
    }

    /// Whether somebody may have confirmed it since it was read here, as far as this look shows. A
    /// claim of which a copy arrives late may make this batch the owner again after it has come to
    /// rest.
    pub fn may_be_confirmed_since(&self, seen: &Seen) -> bool {
        let awaits =
            |body: &Result<Body, String>| body.as_ref().is_ok_and(Body::awaits_confirmation);
        self.awaits_confirmation() && !seen.body.as_ref().is_some_and(awaits)
    }

    /// Whether what it asks for has not been read yet.
    pub fn is_unread(&self) -> bool {
        self.body.is_none()
    }

    /// Whether it takes part in what comes next.
    pub fn goes_on(&self) -> bool {
        self.left.is_none() && self.parking.is_none()
    }

    /// Whether its marks may be removed now: no post for it can still arrive.
    fn is_certain(&self) -> bool {
        self.goes_on() && self.doubt.is_none()
    }

    /// Whether there is work left on accounts: it was not refused or set apart by what its document
    /// says alone.
    pub fn is_work(&self) -> bool {
        self.refused.is_none() && self.parking.is_none()
    }

    /// Whether it is to be posted.
    pub fn is_undecided(&self) -> bool {
        self.goes_on() && self.state == State::Pending && self.refused.is_none() && !self.posted
    }

    /// Whether it is posted and nothing speaks against its next step.
    pub fn is_posted(&self) -> bool {
        self.goes_on() && self.state == State::Pending && self.posted
    }

    /// Whether it is committed and has legs to settle.
    pub fn is_settleable(&self) -> bool {
        self.is_certain() && self.state == State::Applied
    }

    /// Whether its commit is the next step for it. For assertions: the guards are in the
    /// statements.
    pub fn may_commit(&self) -> bool {
        self.is_posted() && self.refused.is_none() && !self.awaits_confirmation()
    }

    /// The same of its end, once its marks are gone.
    pub fn may_end(&self) -> bool {
        self.is_certain() && matches!(self.state, State::Applied | State::Canceling)
    }

    /// Whether nobody has posted it, and nobody ever will: it has no marks.
    pub fn never_posted(&self) -> bool {
        self.never_posted
    }

    /// Whether its legs are to be undone.
    pub fn is_undoable(&self) -> bool {
        self.is_certain() && self.state == State::Canceling
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::DateTime;
    use ledger::amount::Amount;
    use ledger::transaction::Terms;

    const NOW: ServerMs = 1_000;

    fn claimed(state: State, attempts: u32, body: Result<Body, String>) -> Owned {
        claimed_as(state, attempts, body, false)
    }

    fn claimed_as(
        state: State,
        attempts: u32,
        body: Result<Body, String>,
        never_posted: bool,
    ) -> Owned {
        let seen = Seen {
            id: "t".into(),
            state,
            claim: None,
            lease_until: 0,
            takeover_at: 0,
            attempts,
            attempts_alone: attempts - 1,
            created_at: 0,
            parked: false,
            never_posted,
            server_now: 0,
            size: Size::default(),
            body: Some(body),
        };
        Owned::claimed(seen, 3)
    }

    fn sound() -> Result<Body, String> {
        Body::transfer("a", "b", Amount::Int(1)).map_err(|error| error.to_string())
    }

    #[test]
    fn only_what_is_not_committed_is_ever_given_up() {
        let code = |owned: Owned| owned.refused.map(|reason| reason.code);
        let broken = || Err("no legs".to_owned());
        assert_eq!(code(claimed(State::Pending, 3, sound())), None);
        assert_eq!(code(claimed(State::Pending, 4, sound())), Some(ReasonCode::RetriesExhausted));
        assert_eq!(code(claimed(State::Pending, 1, broken())), Some(ReasonCode::Invalid));
        for state in [State::Applied, State::Canceling] {
            assert_eq!(code(claimed(state, 1_000, sound())), None, "{state}");
            assert_eq!(code(claimed(state, 1, broken())), None, "{state}");
        }
    }

    #[test]
    fn what_has_expired_when_it_is_claimed_is_refused_and_only_a_first_owner_knows_it_unposted() {
        let expires = |at| {
            let terms = Terms { expires_at: Some(DateTime::from_millis(at)), ..Terms::default() };
            sound().map(|body| body.with_terms(terms).expect("they fit each other"))
        };
        let canceled = |attempts, at| {
            let mut owned = claimed(State::Pending, attempts, expires(NOW + 1));
            owned.load(expires(at), 3, NOW);
            owned.cancelation(&"t".into()).map(|c| (c.reason.code, c.never_posted))
        };
        assert_eq!(canceled(1, NOW + 1), None);
        assert_eq!(canceled(1, NOW), Some((ReasonCode::Expired, true)));
        assert_eq!(canceled(2, NOW), Some((ReasonCode::Expired, false)));
        let mut committed = claimed(State::Applied, 1, expires(NOW));
        assert!(!committed.look_at_the_clock(NOW), "it only goes forward");
    }

    #[test]
    fn what_expires_before_its_commit_is_undone() {
        let terms = Terms { expires_at: Some(DateTime::from_millis(NOW)), ..Terms::default() };
        let body = sound().map(|body| body.with_terms(terms).expect("they fit each other"));
        let mut owned = claimed(State::Pending, 1, Ok(body.expect("sound")));
        owned.posted = true;
        assert!(owned.look_at_the_clock(NOW));
        let cancelation = owned.cancelation(&"t".into()).expect("it has expired");
        assert!(!cancelation.never_posted, "its legs are posted");
    }

    #[test]
    fn what_may_have_marks_and_cannot_be_read_is_set_apart() {
        let broken = || Err("no legs".to_owned());
        assert!(claimed(State::Pending, 2, broken()).parking.is_some());
        assert!(claimed(State::Applied, 2, broken()).parking.is_some());
        assert!(claimed(State::Canceling, 2, broken()).parking.is_some());
        assert!(claimed(State::Pending, 1, broken()).parking.is_none());
        assert!(claimed(State::Pending, 2, sound()).parking.is_none());
    }

    #[test]
    fn what_was_never_posted_is_canceled_though_it_cannot_be_read_whoever_comes_next() {
        let broken = || Err("no legs".to_owned());
        let never_posted = |owned: Owned| owned.cancelation(&"t".into()).map(|c| c.never_posted);
        assert_eq!(never_posted(claimed(State::Pending, 1, broken())), Some(true));
        assert_eq!(never_posted(claimed(State::Pending, 4, sound())), Some(false));
        for attempts in [1, 2, 1_000] {
            let owned = claimed_as(State::Canceling, attempts, broken(), true);
            assert!(owned.parking.is_none() && owned.is_undoable(), "{attempts}");
        }
    }
}
