//! The ledger: what the protocol needs from a store of accounts and transactions.
//!
//! Owns the trait and its vocabulary. Every write is one guarded atomic update per document that
//! may be sent again without harm. An `Err` means *unknown*: the write may have happened, may not
//! have, or may still happen later, but a [`Ledger::post`] never starts after its `before`.
//! `mongo::MongoLedger` is the implementation; `tests` holds a model of it for the simulator.

use std::future::Future;

use crate::account::Account;
use crate::amount::Amount;
use crate::netting::{Order, Verdict};
use crate::transaction::{AccountId, Body, Reason, State, TransactionId};

/// A moment on the server's clock, in milliseconds since 1970.
pub type ServerMs = i64;

/// The ownership of one batch: the token that every state change is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Unique per batch run.
    pub token: String,
    /// Who claims, for people and metrics.
    pub application: String,
}

/// A transaction as read after a claim: won, owned by somebody else, or final.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its `_id`.
    pub id: TransactionId,
    /// Its state, after the claim.
    pub state: State,
    /// The token of its owner, if it has one.
    pub claim: Option<String>,
    /// The owner may post until then; the fence of design §3.
    pub lease_until: ServerMs,
    /// Nobody else may claim it before then: the lease, its owner's grace, or a retry's delay.
    pub takeover_at: ServerMs,
    /// How often it has been claimed.
    pub attempts: u32,
    /// When it was submitted.
    pub created_at: ServerMs,
    /// The server's clock at this read.
    pub server_now: ServerMs,
    /// What to do, or why the document makes no sense.
    pub body: Result<Body, String>,
}

/// An account as read, or why its document breaks the schema.
pub type AccountRead = (AccountId, Result<Account, String>);

/// The legs of a batch that touch one account: one guarded update, all of them or none.
#[derive(Clone, Debug, PartialEq)]
pub struct Posting {
    /// The account.
    pub account: AccountId,
    /// The currency it must have.
    pub currency: Option<String>,
    /// The sum of the debits, as a positive amount, and of the credits.
    pub debits: Amount,
    /// See `debits`.
    pub credits: Amount,
    /// The transactions whose marks are set or removed.
    pub transactions: Vec<TransactionId>,
    /// What leaves the account with the same update. Only a post carries anybody.
    pub ride: Option<Ride>,
}

/// The settlement of applied transactions on one account, carried by the next post to it: two
/// updates for the price of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Ride {
    /// The sum of the held debits, as a positive amount, and of the credits that become spendable.
    pub debits: Amount,
    /// See `debits`.
    pub credits: Amount,
    /// The transactions whose marks are removed.
    pub transactions: Vec<TransactionId>,
}

impl Posting {
    /// Whether it moves Int64 minor units; a posting never mixes kinds.
    #[must_use]
    pub fn is_int(&self) -> bool {
        if self.debits.is_zero() { self.credits.is_int() } else { self.debits.is_int() }
    }
}

/// A state change of a whole batch; each is compared with the state it leaves and the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// `pending` → `applied`: every leg is posted.
    Commit,
    /// `applied` → `done`: every leg is settled.
    Finish,
    /// `canceling` → `canceled`: every leg is undone.
    Abandon,
}

impl Advance {
    /// The state it leaves and the state it enters.
    #[must_use]
    pub fn states(self) -> (State, State) {
        match self {
            Advance::Commit => (State::Pending, State::Applied),
            Advance::Finish => (State::Applied, State::Done),
            Advance::Abandon => (State::Canceling, State::Canceled),
        }
    }
}

/// How marks leave an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The transaction is applied: held debits are gone for good, credits become spendable.
    Settle,
    /// The transaction is canceling: held debits go back, credits never come.
    Undo,
}

/// What became of an attempt to settle a batch in one native transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transacted {
    /// It is committed, durably: each is `done`, or `canceled` with its reason.
    Committed(Vec<Verdict>),
    /// Nothing happened and nothing will: one of them is not `initial` any more, or somebody else
    /// changes a document of it at this moment.
    Conflict,
}

/// A failed ledger operation: its outcome is unknown to the caller.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{operation}: {message}")]
pub struct LedgerError {
    /// Which operation.
    pub operation: &'static str,
    /// What the driver or server said.
    pub message: String,
    /// Whether trying again in place may help (network, failover, time limit, write conflict).
    pub transient: bool,
}

/// See the module.
pub trait Ledger: Send + Sync {
    /// Claims those of `ids` that are `initial`, or in flight past their takeover time, then reads
    /// all of `ids`. Won are those whose `claim` is the token. Unknown ids are not in the answer.
    fn claim(
        &self,
        ids: &[TransactionId],
        claim: &Claim,
    ) -> impl Future<Output = Result<Vec<Seen>, LedgerError>> + Send;

    /// Posts: each posting whole or not at all, and none once the server's clock is at `before`.
    /// A posting any of whose marks is already there does nothing. A ride is settled first, so its
    /// credits are spendable; where any of its marks is missing, the posting does nothing.
    /// Returns how many took effect.
    fn post(
        &self,
        postings: &[Posting],
        before: ServerMs,
    ) -> impl Future<Output = Result<usize, LedgerError>> + Send;

    /// Removes marks: each posting whole where all its marks are there, else not at all.
    /// Returns how many took effect.
    fn remove(
        &self,
        removal: Removal,
        postings: &[Posting],
    ) -> impl Future<Output = Result<usize, LedgerError>> + Send;

    /// Moves those of `ids` that are in the state it leaves and under this claim; returns how many.
    fn advance(
        &self,
        step: Advance,
        ids: &[TransactionId],
        claim: &Claim,
    ) -> impl Future<Output = Result<usize, LedgerError>> + Send;

    /// `pending` → `canceling` with a reason each, where still pending and under this claim;
    /// returns how many.
    fn cancel(
        &self,
        refused: &[(TransactionId, Reason)],
        claim: &Claim,
    ) -> impl Future<Output = Result<usize, LedgerError>> + Send;

    /// Gives the claim up: others may take over `after_ms` from now, and not before `not_before`.
    fn release(
        &self,
        ids: &[TransactionId],
        claim: &Claim,
        after_ms: i64,
        not_before: ServerMs,
    ) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// Reads transactions; what it says is durable.
    fn read(
        &self,
        ids: &[TransactionId],
    ) -> impl Future<Output = Result<Vec<Seen>, LedgerError>> + Send;

    /// Reads accounts; what it says is durable. An account that breaks the schema is an `Err` item.
    fn accounts(
        &self,
        ids: &[AccountId],
    ) -> impl Future<Output = Result<Vec<AccountRead>, LedgerError>> + Send;

    /// Settles `initial` transactions in one native transaction: each is decided by
    /// [`netting::net`](crate::netting::net) and moved to its final state, and the balances change,
    /// all of it at once or nothing. Held money and marks of others stay as they are. An `Err`
    /// means *unknown*, here too, but needs no fence: see `mongo::native`.
    fn transact(
        &self,
        orders: &[Order],
        application: &str,
    ) -> impl Future<Output = Result<Transacted, LedgerError>> + Send;
}
