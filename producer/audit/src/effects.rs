//! What a transaction means for each of its accounts: pure functions of its content.
//!
//! Owns how a hold differs from other transactions: the mark of its debit stands for all that is
//! held, its effect is what is captured, and a credit of which nothing is captured has no mark.

use ledger::transaction::{AccountId, Body, Leg, State};

/// A leg, as its account's rules need it. All amounts are in units of 10^-9.
pub(super) struct Effect {
    pub account: AccountId,
    /// What was submitted. Of a debit, its mark stands for this.
    pub amount: i128,
    /// What it has for an effect: of a confirmed hold, what is captured.
    pub effect: i128,
    /// Whether it may have a mark.
    pub may_be_marked: bool,
    /// Whether it is a debit of a hold.
    pub is_hold: bool,
}

/// The legs of a transaction, with what is captured of each.
pub(super) fn parts(body: &Body) -> Vec<Effect> {
    let part = |(leg, effect): (&Leg, &Leg)| {
        let is_debit = leg.amount.is_negative();
        let is_posted = !body.awaits_confirmation() && !effect.amount.is_zero();
        Effect {
            account: leg.account.clone(),
            amount: leg.amount.nanos(),
            effect: effect.amount.nanos(),
            may_be_marked: is_debit || is_posted,
            is_hold: is_debit && body.terms().hold,
        }
    };
    body.legs().iter().zip(body.effect()).map(part).collect()
}

/// What a transaction can't be in this state.
pub(super) fn contradiction(state: State, body: &Body) -> Option<&'static str> {
    let terms = body.terms();
    match state {
        State::Held if !terms.hold => Some("not submitted as a hold"),
        State::Held if terms.captured.is_some() => Some("confirmed"),
        State::Applied | State::Done if body.awaits_confirmation() => {
            Some("a hold that was never confirmed")
        }
        State::Scheduled
        | State::Initial
        | State::Pending
        | State::Held
        | State::Applied
        | State::Done
        | State::Canceling
        | State::Canceled => None,
    }
}
