//! When a transaction has expired, as a pure decision on its terms and a moment of the server's
//! clock.
//!
//! Owns which moment ends what, and the reasons that say so. The statements of `mongo::schedules`
//! and the commit's guard make the same comparisons on the server, and those count: what is decided
//! here only saves work that the server would refuse.

use bson::DateTime;

use super::{Body, Reason, ReasonCode};
use crate::ServerMs;

/// Why a transaction is canceled whose `expiresAt` has come.
#[must_use]
pub fn expired() -> Reason {
    Reason::new(ReasonCode::Expired, "it was not applied before its expiresAt")
}

/// Why a hold is undone whose `holdExpiresAt` has come.
#[must_use]
pub fn hold_expired() -> Reason {
    Reason::new(ReasonCode::HoldExpired, "it was not confirmed before its holdExpiresAt")
}

impl Body {
    /// When it expires, if ever: from then on it can't be applied any more.
    #[must_use]
    pub fn expires_at(&self) -> Option<ServerMs> {
        self.terms().expires_at.map(DateTime::timestamp_millis)
    }

    /// Why it can't be applied any more at this moment, if so. A hold that waits for its
    /// confirmation ends at whichever of its two moments comes first.
    #[must_use]
    pub fn expiry(&self, now: ServerMs) -> Option<Reason> {
        let has_come = |end: Option<DateTime>| end.is_some_and(|end| end.timestamp_millis() <= now);
        if self.awaits_confirmation() && has_come(self.terms().hold_expires_at) {
            return Some(hold_expired());
        }
        has_come(self.terms().expires_at).then(expired)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Leg, Terms};
    use super::*;
    use crate::amount::Amount;

    fn body(terms: Terms) -> Body {
        let body = Body::transfer("a", "b", Amount::Int(5)).expect("valid");
        body.with_terms(terms).expect("they fit each other")
    }

    fn at(ms: ServerMs) -> Option<DateTime> {
        Some(DateTime::from_millis(ms))
    }

    fn code(body: &Body, now: ServerMs) -> Option<ReasonCode> {
        body.expiry(now).map(|reason| reason.code)
    }

    #[test]
    fn a_transaction_expires_at_its_moment_and_not_before() {
        let body = body(Terms { expires_at: at(1_000), ..Terms::default() });
        assert_eq!((code(&body, 999), code(&body, 1_000)), (None, Some(ReasonCode::Expired)));
    }

    #[test]
    fn what_asks_for_nothing_never_expires() {
        assert_eq!(code(&body(Terms::default()), ServerMs::MAX), None);
    }

    #[test]
    fn the_end_of_a_hold_means_nothing_once_it_is_confirmed() {
        let hold = Terms { hold: true, hold_expires_at: at(10), ..Terms::default() };
        assert_eq!(code(&body(hold.clone()), 10), Some(ReasonCode::HoldExpired));
        let leg = |account: &str, amount| Leg { account: account.into(), amount };
        let captured = vec![leg("a", Amount::Int(-5)), leg("b", Amount::Int(5))];
        let confirmed = Terms { captured: Some(captured), expires_at: at(20), ..hold };
        let confirmed = body(confirmed);
        assert_eq!((code(&confirmed, 19), code(&confirmed, 20)), (None, Some(ReasonCode::Expired)));
    }
}
