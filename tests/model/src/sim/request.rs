//! The requests of clients to the database, and its answers.

use std::sync::Arc;

use ledger::account::Status;
use ledger::event::Ended;
use ledger::journal::{Heading, Line};
use ledger::transaction::{AccountId, Body, Leg, Parked, TransactionId};
use ledger::{
    AccountRead, Cancelation, Claim, Commit, Content, Ending, Fault, Look, Parking, Posting,
    Removal, RemovalKind, Seen, ServerMs, Transacted, Written,
};

use super::odd::Oddity;
use super::order::Ends;

/// One request of a client.
#[derive(Clone, Debug)]
pub enum Request {
    /// A producer inserts a submission.
    Insert(TransactionId, Body),
    /// A producer asks to cancel.
    AskCancel(TransactionId),
    /// An attempt of a call inserts a submission with an exclusive key, in a native transaction
    /// that stays open. The attempt, the call, the id, the content.
    InsertKeyed(String, String, TransactionId, Box<Body>),
    /// An attempt commits its native transaction.
    CommitKeyed(String),
    /// Reads which undecided transaction has an exclusive key.
    Holder(String),
    /// A client confirms a hold, with what it captures.
    Confirm(TransactionId, Vec<Leg>),
    /// A sweeper ends a hold that has expired.
    ExpireHold(TransactionId),
    /// A sweeper makes due what is scheduled, if its moment has come.
    MakeDue(TransactionId),
    /// A sweeper cancels what waits, if it has expired.
    Expire(TransactionId),
    /// A client reschedules to a moment.
    Reschedule(TransactionId, ServerMs),
    /// An operator freezes, opens or closes an account.
    SetStatus(AccountId, Status),
    /// A document becomes odd.
    Spoil(Arc<str>, Oddity),
    /// A document becomes what it was.
    Mend(Arc<str>),
    /// An operator brings back a parked transaction.
    Unpark(TransactionId),
    /// A worker parks a transaction that kills workers, whoever owns it.
    ParkById(Vec<TransactionId>, Parked),
    /// See [`ledger::Ledger`]; the number is the worker's own idea of the time.
    Claim(Vec<TransactionId>, Claim, ServerMs),
    /// Reads transactions.
    Read(Vec<TransactionId>),
    /// Reads their contents.
    Bodies(Vec<TransactionId>),
    /// Reads accounts, and which of the marks that are asked about they have.
    Accounts(Vec<Look>),
    /// Posts, each before the deadline.
    Post(Vec<Posting>, ServerMs),
    /// Removes marks.
    Remove(RemovalKind, Vec<Removal>),
    /// Applies transactions.
    Commit(Commit, Vec<TransactionId>, Claim),
    /// Ends transactions in a native transaction, by a number of its own.
    End(u64, Line, Claim),
    /// Lets holds rest; nobody may claim them before the moment.
    Rest(Vec<TransactionId>, Claim, ServerMs),
    /// Moves transactions to `canceling`.
    Cancel(Vec<Cancelation>, Claim),
    /// Releases a claim.
    Release(Vec<TransactionId>, Claim, i64, ServerMs),
    /// Takes a first claim back.
    Unclaim(Vec<TransactionId>, Claim),
    /// Parks transactions.
    Park(Vec<Parking>),
    /// Settles in a native transaction, by a number of its own.
    Transact(u64, Vec<Content>, Heading),
    /// Notes the events of a line as due, beside its commit: a planted fault.
    Note(String, ServerMs),
    /// Removes the notes on these lines.
    Forget(Vec<String>),
    /// Gives what lines have ended its numbers, by a number of its own. Whether it looks first which
    /// of them have theirs: a worker does only when somebody was in its way.
    Number(u64, Vec<Ends>, bool),
    /// Publishes events. This goes to the broker.
    Announce(Vec<Ended>),
}

impl Request {
    /// The name in traces and in the coverage table.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Request::Insert(..) => "insert",
            Request::InsertKeyed(..) => "insert keyed",
            Request::CommitKeyed(_) => "commit keyed",
            Request::Holder(_) => "holder of a key",
            Request::AskCancel(_) => "ask cancel",
            Request::Confirm(..) => "confirm",
            Request::ExpireHold(_) => "expire hold",
            Request::Rest(..) => "rest",
            Request::MakeDue(_) => "make due",
            Request::Expire(_) => "expire",
            Request::Reschedule(..) => "reschedule",
            Request::SetStatus(..) => "set status",
            Request::Spoil(..) => "spoil",
            Request::Mend(_) => "mend",
            Request::Unpark(_) => "unpark",
            Request::ParkById(..) => "park by id",
            Request::Claim(..) => "claim",
            Request::Read(_) => "read",
            Request::Bodies(_) => "bodies",
            Request::Accounts(..) => "accounts",
            Request::Post(postings, _) if postings.iter().any(|p| p.ride.is_some()) => "post+ride",
            Request::Post(..) => "post",
            Request::Remove(RemovalKind::Settle, _) => "settle",
            Request::Remove(RemovalKind::Undo, _) => "undo",
            Request::Commit(..) => "commit",
            Request::End(..) => "end",
            Request::Cancel(..) => "cancel",
            Request::Release(..) => "release",
            Request::Unclaim(..) => "unclaim",
            Request::Park(_) => "park",
            Request::Transact(..) => "transact",
            Request::Note(..) => "note",
            Request::Forget(_) => "forget",
            Request::Number(..) => "number",
            Request::Announce(_) => "announce",
        }
    }

    /// The transaction that a sweeper or a client may move on from its rest.
    #[must_use]
    pub fn moves_on(&self) -> Option<&TransactionId> {
        match self {
            Request::AskCancel(id)
            | Request::Confirm(id, _)
            | Request::ExpireHold(id)
            | Request::MakeDue(id)
            | Request::Expire(id) => Some(id),
            Request::Insert(..)
            | Request::InsertKeyed(..)
            | Request::CommitKeyed(_)
            | Request::Holder(_)
            | Request::Reschedule(..)
            | Request::SetStatus(..)
            | Request::Spoil(..)
            | Request::Mend(_)
            | Request::Unpark(_)
            | Request::ParkById(..)
            | Request::Claim(..)
            | Request::Read(_)
            | Request::Bodies(_)
            | Request::Accounts(_)
            | Request::Post(..)
            | Request::Remove(..)
            | Request::Commit(..)
            | Request::End(..)
            | Request::Rest(..)
            | Request::Cancel(..)
            | Request::Release(..)
            | Request::Unclaim(..)
            | Request::Park(_)
            | Request::Transact(..)
            | Request::Note(..)
            | Request::Forget(_)
            | Request::Number(..)
            | Request::Announce(_) => None,
        }
    }

    /// How many documents it touches one after the other. A read is one step.
    #[must_use]
    pub fn steps(&self) -> usize {
        match self {
            Request::Insert(..)
            | Request::InsertKeyed(..)
            | Request::CommitKeyed(_)
            | Request::Holder(_)
            | Request::AskCancel(_)
            | Request::Confirm(..)
            | Request::ExpireHold(_)
            | Request::MakeDue(_)
            | Request::Expire(_)
            | Request::Reschedule(..)
            | Request::SetStatus(..)
            | Request::Spoil(..)
            | Request::Mend(_)
            | Request::Unpark(_)
            | Request::Read(_)
            | Request::Bodies(_)
            | Request::Accounts(..)
            | Request::Note(..) => 1,
            Request::Forget(lines) => lines.len(),
            Request::Claim(ids, ..)
            | Request::Commit(_, ids, _)
            | Request::Rest(ids, ..)
            | Request::Release(ids, ..)
            | Request::Unclaim(ids, _)
            | Request::ParkById(ids, _) => ids.len(),
            Request::Post(postings, _) => postings.len(),
            Request::Remove(_, removals) => removals.len(),
            Request::Cancel(refused, _) => refused.len(),
            Request::Park(parkings) => parkings.len(),
            // They read, then they write.
            Request::Transact(..) | Request::End(..) | Request::Number(..) => 2,
            Request::Announce(events) => events.len(),
        }
    }

    /// Whether it writes nothing.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            Request::Read(_) | Request::Bodies(_) | Request::Accounts(..) | Request::Holder(_)
        )
    }

    /// Whether it is a native transaction, or several commands: each has its own clock, and its client
    /// may take any time between them.
    #[must_use]
    pub fn is_native(&self) -> bool {
        matches!(self, Request::Transact(..) | Request::End(..) | Request::Number(..))
    }

    /// Whether it goes to the broker, whatever the database does.
    #[must_use]
    pub fn is_for_the_broker(&self) -> bool {
        matches!(self, Request::Announce(_))
    }

    /// The documents that a worker's command names.
    #[must_use]
    pub fn documents(&self) -> Vec<&Arc<str>> {
        match self {
            Request::Insert(..)
            | Request::InsertKeyed(..)
            | Request::CommitKeyed(_)
            | Request::Holder(_)
            | Request::AskCancel(_)
            | Request::Confirm(..)
            | Request::ExpireHold(_)
            | Request::MakeDue(_)
            | Request::Expire(_)
            | Request::Reschedule(..)
            | Request::SetStatus(..)
            | Request::Spoil(..)
            | Request::Mend(_)
            | Request::Unpark(_)
            | Request::Note(..)
            | Request::Forget(_)
            | Request::Number(..)
            | Request::Announce(_) => Vec::new(),
            Request::Claim(ids, ..)
            | Request::Read(ids)
            | Request::Bodies(ids)
            | Request::Commit(_, ids, _)
            | Request::Rest(ids, ..)
            | Request::Release(ids, ..)
            | Request::Unclaim(ids, _)
            | Request::ParkById(ids, _) => ids.iter().collect(),
            Request::Accounts(looks) => looks.iter().map(|(account, _)| account).collect(),
            Request::Post(postings, _) => postings.iter().map(|posting| &posting.account).collect(),
            Request::Remove(_, removals) => {
                removals.iter().map(|removal| &removal.account).collect()
            }
            Request::Cancel(refused, _) => refused.iter().map(|refused| &refused.id).collect(),
            Request::Park(parkings) => parkings.iter().map(|parking| &parking.id).collect(),
            Request::Transact(_, contents, _) => contents.iter().map(|(id, _)| id).collect(),
            Request::End(_, line, _) => line.entries.iter().map(|entry| &entry.id).collect(),
        }
    }
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// How many documents matched (or changed, for accounts), and which were refused.
    Written(Written),
    /// Transactions read.
    Seen(Vec<Seen>),
    /// Contents of transactions read.
    Bodies(Vec<Content>),
    /// Accounts read.
    Accounts(Vec<AccountRead>),
    /// Which transactions are parked now.
    Parked(Vec<TransactionId>),
    /// The result of a native transaction.
    Transacted(Transacted),
    /// Whether transactions have ended.
    Ended(Ending),
    /// Whether all of the lines have their numbers.
    Numbered(bool),
    /// No answer, or one that does not tell what happened.
    Failed(Fault),
}
