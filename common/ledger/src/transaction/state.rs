//! States and reasons: the closed sets that documents, metrics and scripts share.

use std::fmt;

use bson::{Bson, Document, doc};
use strum::{EnumCount, VariantArray};

/// Where a transaction stands. `Applied` is the commit point: from there it only goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumCount, VariantArray)]
pub enum State {
    /// Submitted for later: nobody looks at it before its `notBefore`.
    Scheduled,
    /// Submitted, not yet claimed by a worker.
    Initial,
    /// Claimed; its legs are being posted.
    Pending,
    /// On hold: its debits are reserved, and it rests, without an owner, until it is confirmed or
    /// released, or expires.
    Held,
    /// All legs are posted and it can't be undone any more.
    Applied,
    /// Settled: the end of a successful transaction.
    Done,
    /// Refused, given up or canceled: its legs are being undone.
    Canceling,
    /// Undone: the end of an unsuccessful transaction, with a [`Reason`].
    Canceled,
}

impl State {
    /// Every state, in the order of life.
    pub const ALL: [State; State::COUNT] =
        *State::VARIANTS.first_chunk().expect("as many as are counted");

    /// The states in which somebody owns the transaction.
    pub const IN_FLIGHT: [State; 3] = [State::Pending, State::Applied, State::Canceling];

    /// The states in which workers have something to do. Sweepers look for exactly these.
    pub const UNFINISHED: [State; 4] =
        [State::Initial, State::Pending, State::Applied, State::Canceling];

    /// The states in which it is open whether a transaction has its effect; in these it keeps its
    /// exclusive key.
    pub const UNDECIDED: [State; 4] =
        [State::Scheduled, State::Initial, State::Pending, State::Held];

    /// The states in which a transaction waits for a moment or for a client, and no worker for it.
    pub const RESTING: [State; 2] = [State::Scheduled, State::Held];

    /// The name in the document.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            State::Scheduled => "scheduled",
            State::Initial => "initial",
            State::Pending => "pending",
            State::Held => "held",
            State::Applied => "applied",
            State::Done => "done",
            State::Canceling => "canceling",
            State::Canceled => "canceled",
        }
    }

    /// Reads the name in the document.
    #[must_use]
    pub fn parse(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Whether nothing will ever happen to it again.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, State::Done | State::Canceled)
    }

    /// Whether it waits for a moment or for a client, so that a message about it has no use.
    #[must_use]
    pub fn is_resting(self) -> bool {
        matches!(self, State::Scheduled | State::Held)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<State> for Bson {
    fn from(state: State) -> Bson {
        Bson::String(state.as_str().to_owned())
    }
}

/// How a state or a code is told that a document has and this version does not know.
pub const UNKNOWN: &str = "unknown";

/// Why a transaction was canceled, as a closed set that scripts can rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumCount, VariantArray)]
pub enum ReasonCode {
    /// An account of it does not exist.
    AccountNotFound,
    /// An account is frozen.
    AccountFrozen,
    /// An account is closed.
    AccountClosed,
    /// An account has another currency than the transaction, or only one of them has any.
    CurrencyMismatch,
    /// A debit would take the balance below the floor.
    InsufficientFunds,
    /// A posting would take the account's holdings beyond
    /// [`Amount::MAX`](crate::amount::Amount::MAX).
    BalanceLimit,
    /// The amount is Int64 and the balance Decimal128, or the other way round.
    AmountTypeMismatch,
    /// The account document breaks the schema (a float balance, a missing field).
    AccountInvalid,
    /// The transaction document itself breaks the rules of [`Body::new`](super::Body::new).
    Invalid,
    /// It failed again and again before its commit point.
    RetriesExhausted,
    /// Somebody asked for it.
    Requested,
    /// It was not applied before its `expiresAt`.
    Expired,
    /// Its hold was released.
    Released,
    /// Its hold was not confirmed before its `holdExpiresAt`.
    HoldExpired,
    /// An account has as many marks of holds as it may have.
    HoldLimit,
}

impl ReasonCode {
    /// Every code.
    pub const ALL: [ReasonCode; ReasonCode::COUNT] =
        *ReasonCode::VARIANTS.first_chunk().expect("as many as are counted");

    /// Whether a fault is behind it (a document that makes no sense, failures that did not end),
    /// and not the business of its accounts.
    #[must_use]
    pub fn is_fault(self) -> bool {
        match self {
            ReasonCode::AccountInvalid | ReasonCode::Invalid | ReasonCode::RetriesExhausted => true,
            ReasonCode::AccountNotFound
            | ReasonCode::AccountFrozen
            | ReasonCode::AccountClosed
            | ReasonCode::CurrencyMismatch
            | ReasonCode::InsufficientFunds
            | ReasonCode::BalanceLimit
            | ReasonCode::AmountTypeMismatch
            | ReasonCode::Requested
            | ReasonCode::Expired
            | ReasonCode::Released
            | ReasonCode::HoldExpired
            | ReasonCode::HoldLimit => false,
        }
    }

    /// The code of this name.
    #[must_use]
    pub fn parse(code: &str) -> Option<ReasonCode> {
        ReasonCode::ALL.into_iter().find(|known| known.as_str() == code)
    }

    /// A code of a document as it is told: one of these, or [`UNKNOWN`].
    #[must_use]
    pub fn told(code: &str) -> &'static str {
        ReasonCode::parse(code).map_or(UNKNOWN, ReasonCode::as_str)
    }

    /// The name in the document and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ReasonCode::AccountNotFound => "account_not_found",
            ReasonCode::AccountFrozen => "account_frozen",
            ReasonCode::AccountClosed => "account_closed",
            ReasonCode::CurrencyMismatch => "currency_mismatch",
            ReasonCode::InsufficientFunds => "insufficient_funds",
            ReasonCode::BalanceLimit => "balance_limit",
            ReasonCode::AmountTypeMismatch => "amount_type_mismatch",
            ReasonCode::AccountInvalid => "account_invalid",
            ReasonCode::Invalid => "invalid",
            ReasonCode::RetriesExhausted => "retries_exhausted",
            ReasonCode::Requested => "requested",
            ReasonCode::Expired => "expired",
            ReasonCode::Released => "released",
            ReasonCode::HoldExpired => "hold_expired",
            ReasonCode::HoldLimit => "hold_limit",
        }
    }
}

/// Why a transaction was canceled: a code for scripts and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The machine-readable part.
    pub code: ReasonCode,
    /// The sentence, with the account and the numbers in it.
    pub message: String,
}

impl Reason {
    /// A reason with its sentence.
    #[must_use]
    pub fn new(code: ReasonCode, message: impl Into<String>) -> Reason {
        Reason { code, message: message.into() }
    }

    /// The sub-document `reason`.
    #[must_use]
    pub fn to_document(&self) -> Document {
        doc! { "code": self.code.as_str(), "message": &self.message }
    }
}

/// Why a transaction is parked, as a closed set that metrics and scripts can rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumCount, VariantArray)]
pub enum ParkCode {
    /// The server refuses to write its document.
    TransactionUnwritable,
    /// It may have marks on accounts, and its document does not say any more on which.
    TransactionUnreadable,
    /// An account that holds money for it can't be read, or the server refuses to write it.
    AccountUnusable,
    /// Its workers died with it, again and again, while it was alone.
    KillsWorker,
    /// Its `_id` is none that a message can hold.
    InvalidId,
}

impl ParkCode {
    /// Every code.
    pub const ALL: [ParkCode; ParkCode::COUNT] =
        *ParkCode::VARIANTS.first_chunk().expect("as many as are counted");

    /// A code of a document as it is told: one of these, or [`UNKNOWN`].
    #[must_use]
    pub fn told(code: &str) -> &'static str {
        let known = ParkCode::ALL.into_iter().find(|known| known.as_str() == code);
        known.map_or(UNKNOWN, ParkCode::as_str)
    }

    /// The name in the document and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ParkCode::TransactionUnwritable => "transaction_unwritable",
            ParkCode::TransactionUnreadable => "transaction_unreadable",
            ParkCode::AccountUnusable => "account_unusable",
            ParkCode::KillsWorker => "kills_worker",
            ParkCode::InvalidId => "invalid_id",
        }
    }
}

/// Why a transaction is parked: a code for scripts and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// The machine-readable part.
    pub code: ParkCode,
    /// The sentence, with what the server said.
    pub message: String,
}

impl Parked {
    /// A reason with its sentence.
    #[must_use]
    pub fn new(code: ParkCode, message: impl Into<String>) -> Parked {
        Parked { code, message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_states_are_the_manuals() {
        for state in State::ALL {
            assert_eq!(State::parse(state.as_str()), Some(state));
        }
        assert_eq!(State::parse("committed"), None);
    }
}
