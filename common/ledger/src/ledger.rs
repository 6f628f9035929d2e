//! The ledger: what the protocol needs from a store of accounts and transactions.
//!
//! Owns the trait and its vocabulary. Every write is one guarded atomic update per document that
//! may be sent again without harm. A call is one command, so its caller limits its size
//! ([`CALL_IDS_MAX`], [`POSTINGS_MAX`], [`BYTES_MAX`]). A document that the server refuses to write
//! is named in the answer ([`Written::refused`]) and keeps no other document of the call from being
//! written. An `Err` means *unknown*: the write may have happened, may not have, or may still
//! happen later, but a [`Ledger::post`] never starts after its `before`. A read sees every write
//! that was acknowledged to this process before it. `mongo::MongoLedger` is the implementation;
//! `tests` holds a model of it for the simulator.

use std::collections::BTreeSet;
use std::future::Future;

use crate::account::Account;
use crate::amount::Amount;
use crate::event::{End, Ended};
use crate::journal::{Heading, Line};
use crate::transaction::{AccountId, Body, Leg, Parked, Reason, State, TransactionId};

/// A moment on the server's clock, in milliseconds since 1970.
pub type ServerMs = i64;

/// The most transactions of one call: a default batch is one command, and its answer stays below
/// 8 MiB, because what comes along of each document is limited ([`INLINE_BYTES_MAX`]).
pub const CALL_IDS_MAX: usize = 2_000;

/// The most postings of one call: many multi-leg transactions in one batch must not run into the
/// server's time limit, nor fill the worker's memory with bytes to send.
pub const POSTINGS_MAX: usize = 512;

/// The most bytes of one call, by [`Posting::bytes`] or by what is to be read. A command stays
/// below 8 MiB with it, half of what the server takes for a document.
pub const BYTES_MAX: usize = 4 << 20;

/// The most bytes of a transaction's content that come along when it is read together with others.
/// What is larger is read by [`Ledger::bodies`], once its size is known.
pub const INLINE_BYTES_MAX: usize = 3_500;

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
    /// The owner may post until then, and no post of its takes effect later: the fence.
    pub lease_until: ServerMs,
    /// Nobody else may claim it before then: the lease, its owner's grace, or a retry's delay.
    pub takeover_at: ServerMs,
    /// How often it has been claimed.
    pub attempts: u32,
    /// When it was submitted.
    pub created_at: ServerMs,
    /// How many of its claims, beyond the first, were for it alone.
    pub attempts_alone: u32,
    /// Somebody has set it apart: nobody claims it until it is brought back.
    pub parked: bool,
    /// It was canceled before anybody could post it: see [`Cancelation::never_posted`].
    pub never_posted: bool,
    /// The server's clock at this read.
    pub server_now: ServerMs,
    /// How many legs it has, and how many bytes its content is long.
    pub size: Size,
    /// What to do, or why the document makes no sense. None where it is longer than
    /// [`INLINE_BYTES_MAX`]: see [`Ledger::bodies`].
    pub body: Option<Result<Body, String>>,
}

impl Seen {
    /// What it posts; nothing where its content is not here or makes no sense.
    #[must_use]
    pub fn legs(&self) -> &[Leg] {
        self.body.as_ref().and_then(|body| body.as_ref().ok()).map_or(&[], Body::legs)
    }

    /// Whether its debits are put on hold before the rest is posted, as far as its content is here.
    #[must_use]
    pub fn is_hold(&self) -> bool {
        matches!(&self.body, Some(Ok(body)) if body.terms().hold)
    }

    /// Whether this is the first claim of a confirmed hold: the second claim of all, and no
    /// takeover.
    #[must_use]
    pub fn is_confirmed_now(&self) -> bool {
        let is_confirmed = matches!(&self.body, Some(Ok(body)) if body.terms().captured.is_some());
        is_confirmed && self.state == State::Pending && self.attempts == CONFIRMED_ATTEMPTS + 1
    }
}

/// What a confirmation sets a hold's attempts to. Not to none: nobody may take it for a transaction
/// of which nothing was posted.
pub const CONFIRMED_ATTEMPTS: u32 = 1;

/// A decision to cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancelation {
    /// Which transaction.
    pub id: TransactionId,
    /// Why.
    pub reason: Reason,
    /// Nobody has posted it or ever will. So whoever ends it need not know its accounts, and can
    /// end it although its document can't be read.
    pub never_posted: bool,
    /// It is a hold that nobody had confirmed when its owner read it. If somebody has meanwhile, it
    /// is left as it is: it may have marks that this owner does not know.
    pub unconfirmed: bool,
}

/// How much work a transaction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Its legs.
    pub legs: usize,
    /// The bytes of its content: accounts, amounts, currency.
    pub bytes: usize,
}

/// An account to look at, and the transactions whose marks on it are asked about.
pub type Look = (AccountId, Vec<TransactionId>);

/// About how many bytes of a command a look takes.
#[must_use]
pub fn look_bytes((account, marks): &Look) -> usize {
    update_bytes(account, marks)
}

/// An account as read.
#[derive(Clone, Debug)]
pub struct AccountRead {
    /// Its `_id`.
    pub id: AccountId,
    /// Which of the marks that were asked about it has. None when its marks can't be read.
    pub marks: Option<BTreeSet<TransactionId>>,
    /// The account, with those marks only, or why its document breaks the schema.
    pub account: Result<Account, String>,
    /// Whether balance and opening are stored as Tandem writes them; see
    /// [`account::is_as_written`](crate::account::is_as_written).
    pub as_written: bool,
}

/// What a write of several documents did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// How many of them it changed. When some were refused, it may have changed more.
    pub count: usize,
    /// Those that the server refuses to write, for a reason of each document's own.
    pub refused: Vec<Refused>,
}

/// One document that the server refuses to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its place among the items of the call.
    pub item: usize,
    /// What the server says.
    pub problem: String,
}

/// How long a claim lasts; see `settings::TimingSettings`.
#[derive(Clone, Copy, Debug)]
pub struct LeaseMs {
    /// The owner may post for so long.
    pub lease: i64,
    /// After that, others wait for so long.
    pub grace: i64,
}

/// Transactions after a claim.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    /// As they are now. Unknown ids are not there.
    pub seen: Vec<Seen>,
    /// Those that could be claimed by their state, and that the server refuses to write.
    pub refused: Vec<Refused>,
}

/// A transaction to be set apart: nobody can go on with it, and nobody should try until a person
/// has looked.
#[derive(Clone, Debug, PartialEq)]
pub struct Parking {
    /// Its `_id`.
    pub id: TransactionId,
    /// The state that it is in; it keeps it.
    pub state: State,
    /// Its owner's token, if it has one.
    pub claim: Option<String>,
    /// Why.
    pub why: Parked,
}

/// The legs of a batch that touch one account: one guarded update, all of them or none.
#[derive(Clone, Debug, PartialEq)]
pub struct Posting {
    /// The account.
    pub account: AccountId,
    /// The currency it must have.
    pub currency: Option<String>,
    /// The sum of the debits, as a positive amount.
    pub debits: Amount,
    /// The sum of the credits.
    pub credits: Amount,
    /// The transactions whose marks are set.
    pub transactions: Vec<TransactionId>,
    /// How many of them are debits of holds: their marks may stay for long, so an account has at
    /// most [`HOLDS_MAX`](crate::limits::HOLDS_MAX) of them.
    pub holds: u32,
    /// The settlement of applied transactions on the same account, carried by this update: two for
    /// the price of one.
    pub ride: Option<Removal>,
}

/// The marks of a batch that leave one account, with what they hold: one guarded update, all of
/// them or none.
#[derive(Clone, Debug, PartialEq)]
pub struct Removal {
    /// The account.
    pub account: AccountId,
    /// The sum of the held debits, as a positive amount.
    pub debits: Amount,
    /// The sum of the held credits.
    pub credits: Amount,
    /// What of the held debits goes home when they are settled: what was held and not captured.
    pub released: Amount,
    /// The transactions whose marks are removed.
    pub transactions: Vec<TransactionId>,
    /// How many of them are debits of holds.
    pub holds: u32,
}

impl Posting {
    /// About how many bytes it is long in a command: the account is named three times, each mark
    /// once.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let leaving = self.ride.as_ref().map_or(0, |ride| marks_bytes(&ride.transactions));
        update_bytes(&self.account, &self.transactions) + leaving
    }

    /// The removal of the marks that it sets, of holds in full. Its ride is none of it: that is
    /// gone with the post.
    #[must_use]
    pub fn into_removal(self) -> Removal {
        let Posting { account, debits, credits, transactions, holds, .. } = self;
        Removal { account, debits, credits, released: Amount::ZERO, transactions, holds }
    }

    /// Whether it moves Int64 minor units; a posting never mixes kinds.
    #[must_use]
    pub fn is_int(&self) -> bool {
        if self.debits.is_zero() { self.credits.is_int() } else { self.debits.is_int() }
    }
}

impl Removal {
    /// About how many bytes it is long in a command, as [`Posting::bytes`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        update_bytes(&self.account, &self.transactions)
    }
}

fn update_bytes(account: &AccountId, transactions: &[TransactionId]) -> usize {
    const OF_AN_UPDATE: usize = 300;
    3 * account.len() + marks_bytes(transactions) + OF_AN_UPDATE
}

fn marks_bytes(transactions: &[TransactionId]) -> usize {
    const OF_A_MARK: usize = 12;
    transactions.iter().map(|id| id.len() + OF_A_MARK).sum()
}

/// How the commit of a whole batch is guarded, beside the state `pending` and the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// By nothing else.
    AnyTime,
    /// For transactions that expire: only before their `expiresAt`, on the server's clock.
    InTime,
}

/// How marks leave an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalKind {
    /// The transaction is applied: held debits are gone for good, credits become spendable.
    Settle,
    /// The transaction is canceling: held debits go back, credits never come.
    Undo,
}

/// A transaction to be decided: what it asks for, or why it makes no sense.
pub type Content = (TransactionId, Result<Body, String>);

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its `_id`.
    pub id: TransactionId,
    /// Why it is canceled; none means done.
    pub refused: Option<Reason>,
}

impl Verdict {
    /// How it ends.
    #[must_use]
    pub fn end(&self) -> End {
        if self.refused.is_none() { End::Done } else { End::Canceled }
    }

    /// What its event is about.
    #[must_use]
    pub fn ended(&self) -> Ended {
        Ended { id: self.id.clone(), end: self.end() }
    }
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

/// What became of an attempt to end transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// They are final, and their line is durable.
    Written,
    /// Nothing happened and nothing will: one of them is not in the state that it leaves or not
    /// under this claim, or somebody else changes its document at this moment.
    Conflict,
}

/// What kind of failure it was: what decides whether and how the operation is sent again. Decided
/// once, where the driver's error enters (`mongo::fault`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It passes by itself (network, fail-over, write conflict): the same again may work.
    Passing,
    /// The command was too large, or took the server too long: the same again would fail again, and
    /// a part of it may work.
    TooMuch,
    /// The server does not take this command, for a reason that may lie in one of its documents: a
    /// part of it may work.
    Refused,
    /// The server does not take such commands from us (authorisation, options): no part of it will
    /// work until somebody has changed that.
    Denied,
}

/// What is known of the effect of an operation that failed. Decided once, where the driver's error
/// enters (`mongo::fault`). A third case, that it surely has had its effect, is no failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It has had none and will have none: it is a read, it was never sent, or the server has
    /// refused it before it wrote anything.
    None,
    /// It may have had its effect, wholly or in part, or may have it later.
    Unknown,
}

impl Effect {
    /// What is known of two attempts at the same.
    #[must_use]
    pub fn or(self, other: Effect) -> Effect {
        match (self, other) {
            (Effect::None, Effect::None) => Effect::None,
            (Effect::Unknown, _) | (_, Effect::Unknown) => Effect::Unknown,
        }
    }
}

/// A failed ledger operation.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{operation}: {message}")]
pub struct LedgerError {
    /// Which operation.
    pub operation: &'static str,
    /// What the driver or server said.
    pub message: String,
    /// What kind of failure it was.
    pub fault: Fault,
    /// What is known of its effect.
    pub effect: Effect,
}

impl LedgerError {
    /// An error that passes by itself.
    pub fn passing(operation: &'static str, message: impl Into<String>) -> LedgerError {
        let (message, fault) = (message.into(), Fault::Passing);
        LedgerError { operation, message, fault, effect: Effect::Unknown }
    }

    /// An error that lasts, and was found before anything was written.
    pub fn lasting(operation: &'static str, message: impl Into<String>) -> LedgerError {
        let (message, fault) = (message.into(), Fault::Refused);
        LedgerError { operation, message, fault, effect: Effect::None }
    }

    /// A call that is too large or too slow as it is.
    pub fn too_much(operation: &'static str, message: impl Into<String>) -> LedgerError {
        let (message, fault) = (message.into(), Fault::TooMuch);
        LedgerError { operation, message, fault, effect: Effect::Unknown }
    }

    /// The same of a read, or of something that can't take effect any more.
    #[must_use]
    pub fn without_effect(self) -> LedgerError {
        LedgerError { effect: Effect::None, ..self }
    }

    /// The same, after an earlier step has written or may have written.
    #[must_use]
    pub fn after_a_write(self) -> LedgerError {
        LedgerError { effect: Effect::Unknown, ..self }
    }

    /// Whether the same may work a little later.
    #[must_use]
    pub fn passes(&self) -> bool {
        match self.fault {
            Fault::Passing | Fault::TooMuch => true,
            Fault::Refused | Fault::Denied => false,
        }
    }
}

/// A store of accounts and transactions, as the protocol sees it.
pub trait Ledger: Send + Sync {
    /// Claims those of `ids` that are `initial`, or in flight past their takeover time, and not
    /// parked; then reads all of `ids`. Won are those whose `claim` is the token.
    fn claim(
        &self,
        ids: &[TransactionId],
        claim: &Claim,
    ) -> impl Future<Output = Result<Claimed, LedgerError>> + Send;

    /// Posts: each posting whole or not at all, and none once the server's clock is at `before`.
    /// A posting any of whose marks is already there does nothing. A ride is settled first, so its
    /// credits are spendable; where any of its marks is missing, the posting does nothing.
    fn post(
        &self,
        postings: &[Posting],
        before: ServerMs,
    ) -> impl Future<Output = Result<Written, LedgerError>> + Send;

    /// Removes marks: each removal whole where all its marks are there, else not at all.
    fn remove(
        &self,
        kind: RemovalKind,
        removals: &[Removal],
    ) -> impl Future<Output = Result<Written, LedgerError>> + Send;

    /// `pending` → `applied`, where still pending and under this claim: every leg is posted. The
    /// commit point.
    fn commit(
        &self,
        guard: Commit,
        ids: &[TransactionId],
        claim: &Claim,
    ) -> impl Future<Output = Result<Written, LedgerError>> + Send;

    /// Ends transactions of which no mark is left: `applied` → `done`, `canceling` → `canceled`,
    /// under this claim. Their line is written with it, and the note that its events are due if
    /// there are any: all of that at once or nothing. An `Err` means *unknown*, here too: the same
    /// line may be sent again, and is never written twice.
    fn end(
        &self,
        line: &Line,
        claim: &Claim,
    ) -> impl Future<Output = Result<Ending, LedgerError>> + Send;

    /// `pending` → `held`, where still pending and under this claim: nobody owns them from then on,
    /// and nobody may claim them before `not_before`, whatever becomes of them.
    fn rest(
        &self,
        ids: &[TransactionId],
        claim: &Claim,
        not_before: ServerMs,
    ) -> impl Future<Output = Result<Written, LedgerError>> + Send;

    /// `pending` → `canceling` with a reason each, where still pending and under this claim.
    fn cancel(
        &self,
        refused: &[Cancelation],
        claim: &Claim,
    ) -> impl Future<Output = Result<Written, LedgerError>> + Send;

    /// Gives the claim up: others may take over `after_ms` from now, and not before `not_before`.
    fn release(
        &self,
        ids: &[TransactionId],
        claim: &Claim,
        after_ms: i64,
        not_before: ServerMs,
    ) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// Takes a first claim back: those of `ids` that are `pending`, under this claim and claimed
    /// for the first time become `initial` again, as if nobody had claimed them. Only for
    /// transactions of which nothing was posted.
    fn unclaim(
        &self,
        ids: &[TransactionId],
        claim: &Claim,
    ) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// Sets transactions apart, each where it is still in its state and under its claim. It keeps
    /// state, marks and takeover time, and loses its claim. One whose document can't be written is
    /// noted elsewhere. Returns those that are parked now.
    fn park(
        &self,
        parkings: &[Parking],
    ) -> impl Future<Output = Result<Vec<TransactionId>, LedgerError>> + Send;

    /// Reads transactions; what it says is durable. Unknown ids are not in the answer.
    fn read(
        &self,
        ids: &[TransactionId],
    ) -> impl Future<Output = Result<Vec<Seen>, LedgerError>> + Send;

    /// Reads the contents of transactions, of any size. Unknown ids are not in the answer.
    fn bodies(
        &self,
        ids: &[TransactionId],
    ) -> impl Future<Output = Result<Vec<Content>, LedgerError>> + Send;

    /// Reads accounts, each once, and which of the marks that are asked about it has; what it says
    /// is durable. Unknown ids are not in the answer.
    fn accounts(
        &self,
        looks: &[Look],
    ) -> impl Future<Output = Result<Vec<AccountRead>, LedgerError>> + Send;

    /// Removes the notes that the events of these lines are due: they are confirmed.
    fn forget_events(
        &self,
        lines: &[String],
    ) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// Settles `initial` transactions in one native transaction: each is decided by
    /// [`netting::net`](crate::netting::net) and moved to its final state, the balances change, and
    /// their line is written, with the note that its events are due if there are any: all of it at
    /// once or nothing. What expires is done before its `expiresAt` only, by the server's clock.
    /// Held money and marks of others stay as they are. An `Err` means *unknown*, here too, but
    /// needs no fence: see `mongo::native`.
    fn transact(
        &self,
        contents: &[Content],
        heading: &Heading,
    ) -> impl Future<Output = Result<Transacted, LedgerError>> + Send;
}
