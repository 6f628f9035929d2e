//! One call of one client, and the few accounts, transactions and claimants that all of them share.

use std::fmt;

use ledger::account::Status;
use ledger::event::End;
use ledger::transaction::{ParkCode, ReasonCode, State};
use ledger::{Claim, Commit, RemovalKind};
use model::sim::odd::Oddity;

pub const ACCOUNTS: [&str; 4] = ["a", "$balance", "c.d", "$$NOW"];

/// An account that is never there.
pub const MISSING: &str = "nobody";

/// The transactions, by index; the last is in the database from the start and is invalid.
pub const TRANSACTIONS: [&str; 6] = ["t0", "$state", "t.2", "$$ROOT", "large", "broken"];

/// The one whose content is too large to be read together with others.
pub const LARGE: usize = 4;

/// The one that breaks the rules of a body.
pub const BROKEN: usize = 5;

/// The exclusive keys.
pub const KEYS: [&str; 2] = ["one key", "$exclusiveKey"];

/// The names of lines.
pub const LINES: [&str; 6] = ["l0", "$line", "l.2", "$$NOW", "l4", "l5"];

/// One hour in milliseconds.
pub const HOUR: i64 = 3_600_000;

/// Whether a moment is long gone or far away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Past,
    Future,
}

/// How long a claim lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// The owner may post, nobody else may claim.
    Holds,
    /// The owner may not post any more, and others have to wait for its grace.
    InGrace,
    /// Others may claim.
    Over,
}

/// How the legs of transactions become postings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// One posting per account, as a batch begins.
    PerAccount,
    /// One posting per leg, as a batch goes on after a refusal.
    PerLeg,
    /// Only the first leg of each.
    FirstLeg,
}

/// One call of one client. Transactions, accounts and claimants are indices.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A producer submits a transaction, with its own content or that of another one.
    Insert {
        transaction: usize,
        content: usize,
    },
    /// While a native transaction has inserted the first and is open, another client tries once to
    /// insert the second; then the first is committed, or not. Both have exclusive keys.
    InsertBeside {
        first: usize,
        second: usize,
        commits: bool,
    },
    /// Somebody looks who has an exclusive key.
    Holder(usize),
    /// A client cancels.
    RequestCancel(usize),
    /// A client confirms a hold, in part or in full.
    Confirm(usize),
    /// A sweeper makes due what is scheduled.
    MakeDue(Vec<usize>),
    /// A sweeper cancels what has expired.
    Expire(Vec<usize>),
    /// A client reschedules.
    Reschedule(usize, When),
    /// An operator freezes, opens or closes an account.
    SetStatus(usize, Status),
    /// See [`ledger::Ledger`] for this and all that follow.
    Claim(Vec<usize>, Claimant, Lease),
    Unclaim(Vec<usize>, Claimant),
    Read(Vec<usize>),
    Bodies(Vec<usize>),
    /// With the marks of these transactions.
    Accounts(Vec<usize>, Vec<usize>),
    Post {
        ids: Vec<usize>,
        grouping: Grouping,
        before: When,
        /// Whose settlements ride along.
        settled: Vec<usize>,
    },
    Remove(RemovalKind, Vec<usize>, Grouping),
    Commit(Commit, Vec<usize>, Claimant),
    /// Each in this way, with a line.
    End(Vec<(usize, End)>, Claimant, Entitled),
    /// Nobody may claim them before the moment.
    Rest(Vec<usize>, Claimant, When),
    Cancel(Vec<(usize, ReasonCode)>, Claimant),
    Transact(Vec<usize>, Claimant, Entitled),
    /// Removes the note on a line.
    Forget(usize),
    /// Each as if it were in this state and under this claim.
    Park(Vec<(usize, State)>, Option<Claimant>, ParkCode),
    /// A worker parks a transaction that kills workers.
    ParkById(Vec<usize>),
    /// An operator brings a transaction back.
    Unpark(usize),
    /// Somebody makes an account odd.
    SpoilAccount(usize, Oddity),
    /// Somebody makes a transaction odd.
    SpoilTransaction(usize, Oddity),
    /// Somebody makes all documents what they were.
    Mend,
    Release {
        ids: Vec<usize>,
        by: Claimant,
        after: When,
        not_before: When,
    },
}

/// Under which name a line is written, and when its events are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entitled {
    pub line: usize,
    pub due: Option<When>,
}

/// Who claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimant {
    One,
    Two,
}

impl Claimant {
    /// Its claim, always with the same token, so that its earlier claims still hold.
    pub fn claim(self) -> Claim {
        let (token, application) = match self {
            Claimant::One => ("one", "worker-1"),
            Claimant::Two => ("$claim", "$application"),
        };
        Claim { token: token.to_owned(), application: application.to_owned() }
    }
}

/// The names of accounts that operations may touch, the missing one last.
pub fn account_names() -> Vec<&'static str> {
    ACCOUNTS.into_iter().chain([MISSING]).collect()
}

fn names(ids: &[usize]) -> String {
    let names: Vec<_> = ids.iter().map(|at| TRANSACTIONS[*at]).collect();
    format!("[{}]", names.join(", "))
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Operation::Insert { transaction, content } => {
                let (id, of) = (TRANSACTIONS[*transaction], TRANSACTIONS[*content]);
                write!(f, "{name} {id} with the content of {of}")
            }
            Operation::InsertBeside { first, second, commits } => {
                let (first, second) = (TRANSACTIONS[*first], TRANSACTIONS[*second]);
                let end = if *commits { "committed" } else { "aborted" };
                write!(f, "{name} {first} and {second}, then the first is {end}")
            }
            Operation::Holder(key) => write!(f, "{name} {}", KEYS[*key]),
            Operation::RequestCancel(at) | Operation::Confirm(at) => {
                write!(f, "{name} {}", TRANSACTIONS[*at])
            }
            Operation::Rest(ids, by, not_before) => {
                write!(f, "{name} {} by {by:?}, not before {not_before:?}", names(ids))
            }
            Operation::MakeDue(ids) | Operation::Expire(ids) => write!(f, "{name} {}", names(ids)),
            Operation::Reschedule(at, when) => {
                write!(f, "{name} {} to the {when:?}", TRANSACTIONS[*at])
            }
            Operation::SetStatus(at, to) => {
                write!(f, "{name} of {} to {}", account_names()[*at], to.as_str())
            }
            Operation::Claim(ids, by, lease) => {
                write!(f, "{name} {} by {by:?}, lease {lease:?}", names(ids))
            }
            Operation::Read(ids) | Operation::Bodies(ids) | Operation::ParkById(ids) => {
                write!(f, "{name} {}", names(ids))
            }
            Operation::Accounts(at, marks) => {
                let accounts: Vec<_> = at.iter().map(|at| account_names()[*at]).collect();
                write!(f, "{name} [{}], marks {}", accounts.join(", "), names(marks))
            }
            Operation::Park(each, by, code) => {
                let each: Vec<_> = each
                    .iter()
                    .map(|(at, state)| format!("{} {state}", TRANSACTIONS[*at]))
                    .collect();
                write!(f, "{name} [{}] of {by:?}: {}", each.join(", "), code.as_str())
            }
            Operation::Unpark(at) => write!(f, "{name} {}", TRANSACTIONS[*at]),
            Operation::SpoilAccount(at, oddity) => {
                write!(f, "{name} {}: {}", account_names()[*at], oddity.name())
            }
            Operation::SpoilTransaction(at, oddity) => {
                write!(f, "{name} {}: {}", TRANSACTIONS[*at], oddity.name())
            }
            Operation::Mend => write!(f, "{name}"),
            Operation::Post { ids, grouping, before, settled } => {
                write!(f, "{name} {} {grouping:?}, deadline in the {before:?}", names(ids))?;
                if settled.is_empty() { Ok(()) } else { write!(f, ", settling {}", names(settled)) }
            }
            Operation::Remove(_, ids, grouping) => write!(f, "{name} {} {grouping:?}", names(ids)),
            Operation::Commit(_, ids, by) | Operation::Unclaim(ids, by) => {
                write!(f, "{name} {} by {by:?}", names(ids))
            }
            Operation::Transact(ids, by, under) => {
                write!(f, "{name} {} by {by:?}, {under}", names(ids))
            }
            Operation::End(ends, by, under) => {
                let each: Vec<_> = ends
                    .iter()
                    .map(|(at, end)| format!("{} {}", TRANSACTIONS[*at], end.as_str()))
                    .collect();
                write!(f, "{name} [{}] by {by:?}, {under}", each.join(", "))
            }
            Operation::Forget(line) => write!(f, "{name} {}", LINES[*line]),
            Operation::Cancel(refused, by) => {
                let each: Vec<_> = refused
                    .iter()
                    .map(|(at, code)| format!("{}: {}", TRANSACTIONS[*at], code.as_str()))
                    .collect();
                write!(f, "{name} [{}] by {by:?}", each.join(", "))
            }
            Operation::Release { ids, by, after, not_before } => {
                let ids = names(ids);
                write!(f, "{name} {ids} by {by:?}, after {after:?}, not before {not_before:?}")
            }
        }
    }
}

impl fmt::Display for Entitled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, events due: {:?}", LINES[self.line], self.due)
    }
}

impl Operation {
    /// The transactions that it writes.
    pub fn transactions(&self) -> Vec<usize> {
        match self {
            Operation::Insert { transaction: at, .. }
            | Operation::RequestCancel(at)
            | Operation::Confirm(at)
            | Operation::Reschedule(at, _)
            | Operation::Unpark(at)
            | Operation::SpoilTransaction(at, _) => vec![*at],
            Operation::InsertBeside { first, second, .. } => vec![*first, *second],
            Operation::Claim(ids, ..)
            | Operation::Commit(_, ids, _)
            | Operation::Transact(ids, ..)
            | Operation::Unclaim(ids, _)
            | Operation::Rest(ids, ..)
            | Operation::ParkById(ids)
            | Operation::MakeDue(ids)
            | Operation::Expire(ids)
            | Operation::Release { ids, .. } => ids.clone(),
            Operation::Cancel(refused, _) => refused.iter().map(|(at, _)| *at).collect(),
            Operation::End(ends, ..) => ends.iter().map(|(at, _)| *at).collect(),
            Operation::Park(each, ..) => each.iter().map(|(at, _)| *at).collect(),
            Operation::SetStatus(..)
            | Operation::Holder(_)
            | Operation::Read(_)
            | Operation::Bodies(_)
            | Operation::Accounts(..)
            | Operation::Post { .. }
            | Operation::Remove(..)
            | Operation::SpoilAccount(..)
            | Operation::Forget(_)
            | Operation::Mend => Vec::new(),
        }
    }

    /// Its name, for the table of what was covered.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Insert { .. } => "insert",
            Operation::InsertBeside { .. } => "insert beside",
            Operation::Holder(_) => "holder of a key",
            Operation::RequestCancel(_) => "request cancel",
            Operation::Confirm(_) => "confirm",
            Operation::Rest(..) => "rest",
            Operation::MakeDue(_) => "make due",
            Operation::Expire(_) => "expire",
            Operation::Reschedule(..) => "reschedule",
            Operation::SetStatus(..) => "set status",
            Operation::Claim(..) => "claim",
            Operation::Unclaim(..) => "unclaim",
            Operation::Read(_) => "read",
            Operation::Bodies(_) => "bodies",
            Operation::Accounts(..) => "accounts",
            Operation::Park(..) => "park",
            Operation::ParkById(_) => "park by id",
            Operation::Unpark(_) => "unpark",
            Operation::SpoilAccount(..) => "spoil account",
            Operation::SpoilTransaction(..) => "spoil transaction",
            Operation::Mend => "mend",
            Operation::Post { settled, .. } if settled.is_empty() => "post",
            Operation::Post { .. } => "post with a ride",
            Operation::Remove(RemovalKind::Settle, ..) => "settle",
            Operation::Remove(RemovalKind::Undo, ..) => "undo",
            Operation::Transact(..) => "transact",
            Operation::Forget(_) => "forget",
            Operation::Commit(Commit::AnyTime, ..) => "commit",
            Operation::Commit(Commit::InTime, ..) => "commit in time",
            Operation::End(..) => "end",
            Operation::Cancel(..) => "cancel",
            Operation::Release { .. } => "release",
        }
    }
}
