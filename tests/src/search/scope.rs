//! What is searched: few accounts, few transactions, few runs, and what may go wrong.

use common::account::Status;

use super::protocol::Bounds;

/// What a client or an operator does at any one moment, or never.
#[derive(Clone, Copy, Debug)]
pub enum Client {
    /// A client cancels a transaction.
    Cancels(&'static str),
    /// A client submits a transaction for the second time.
    SubmitsAgain(&'static str),
    /// An operator changes an account's status.
    Sets(&'static str, Status),
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is about, in a line.
    pub about: &'static str,
    /// Accounts with their balances; no floor but zero.
    pub accounts: &'static [(&'static str, i64)],
    /// Transfers: id, source, destination, value.
    pub transfers: &'static [(&'static str, &'static str, &'static str, i64)],
    /// The batch of each run of a worker.
    pub runs: &'static [&'static [&'static str]],
    /// What clients do.
    pub clients: &'static [Client],
    /// How many requests may lose their answer or come late, all runs together.
    pub losses: u8,
    /// The clock's last moment; a lease is 2, an operation may run for 1 after its start.
    pub horizon: u8,
    /// See [`Bounds::late_answers`].
    pub late_answers: bool,
    /// After so many claims a pending transaction is rolled back.
    pub attempts_max: u32,
    /// How long a claim lasts.
    pub lease: i64,
    /// By how much the clock of the accounts' member is behind.
    pub skew: i64,
}

const PAIR: &[(&str, i64)] = &[("a", 10), ("b", 0)];
const ONE: &[(&str, &str, &str, i64)] = &[("t", "a", "b", 7)];
const BOTH: &[&str] = &["t", "u"];

/// Every scope of the full search.
pub const SCOPES: [Scope; 9] = [
    Scope {
        name: "one-worker",
        about: "one transfer, a worker that is its own stalled predecessor, then another",
        accounts: PAIR,
        transfers: ONE,
        runs: &[&["t"], &["t"]],
        clients: &[],
        losses: 2,
        horizon: 9,
        late_answers: false,
        attempts_max: 5,
        lease: 1,
        skew: 0,
    },
    Scope {
        name: "takeovers",
        about: "one transfer, three workers that stall past their leases and go on",
        accounts: PAIR,
        transfers: ONE,
        runs: &[&["t"], &["t"], &["t"]],
        clients: &[],
        losses: 1,
        horizon: 13,
        late_answers: false,
        attempts_max: 5,
        lease: 1,
        skew: 0,
    },
    Scope {
        name: "given-up",
        about: "the same, but the second worker rolls back: attempts are used up",
        accounts: PAIR,
        transfers: ONE,
        runs: &[&["t"], &["t"], &["t"]],
        clients: &[],
        losses: 1,
        horizon: 13,
        late_answers: false,
        attempts_max: 1,
        lease: 1,
        skew: 0,
    },
    Scope {
        name: "cancel",
        about: "one transfer, two workers, a client that cancels at any moment",
        accounts: PAIR,
        transfers: ONE,
        runs: &[&["t"], &["t"]],
        clients: &[Client::Cancels("t")],
        losses: 1,
        horizon: 9,
        late_answers: false,
        attempts_max: 5,
        lease: 1,
        skew: 0,
    },
    Scope {
        name: "freeze",
        about: "one transfer, two workers, its destination frozen and opened at any moments",
        accounts: PAIR,
        transfers: ONE,
        runs: &[&["t"], &["t"]],
        clients: &[Client::Sets("b", Status::Frozen), Client::Sets("b", Status::Open)],
        losses: 1,
        horizon: 7,
        late_answers: false,
        attempts_max: 5,
        lease: 1,
        skew: 0,
    },
    Scope {
        name: "resubmission",
        about: "one transfer, two workers, a client that submits it again at any moment",
        accounts: PAIR,
        transfers: ONE,
        runs: &[&["t"], &["t"]],
        clients: &[Client::SubmitsAgain("t")],
        losses: 1,
        horizon: 7,
        late_answers: false,
        attempts_max: 5,
        lease: 1,
        skew: 0,
    },
    Scope {
        name: "refused",
        about: "two transfers compete for one account's money, two workers with both",
        accounts: &[("a", 10), ("b", 0)],
        transfers: &[("t", "a", "b", 7), ("u", "a", "b", 6)],
        runs: &[BOTH, BOTH],
        clients: &[],
        losses: 0,
        horizon: 6,
        late_answers: false,
        attempts_max: 5,
        lease: 1,
        skew: 0,
    },
    Scope {
        name: "shared-account",
        about: "two transfers share an account (what one credits, the other debits), two workers",
        accounts: &[("a", 10), ("b", 5), ("c", 0)],
        transfers: &[("t", "a", "b", 7), ("u", "b", "c", 4)],
        runs: &[BOTH, BOTH],
        clients: &[],
        losses: 1,
        horizon: 6,
        late_answers: false,
        attempts_max: 5,
        lease: 1,
        skew: 0,
    },
    Scope {
        name: "apart",
        about: "two transfers share an account, a worker for each, then one with both",
        accounts: &[("a", 10), ("b", 5), ("c", 0)],
        transfers: &[("t", "a", "b", 7), ("u", "b", "c", 4)],
        runs: &[&["t"], &["u"], BOTH],
        clients: &[],
        losses: 0,
        horizon: 6,
        late_answers: false,
        attempts_max: 5,
        lease: 1,
        skew: 0,
    },
];

impl Scope {
    /// The scope of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Scope> {
        SCOPES.iter().find(|scope| scope.name == name)
    }

    /// What bounds its search.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds {
            horizon: self.horizon,
            losses: self.losses,
            op_limit: super::engine::OP_LIMIT,
            late_answers: self.late_answers,
        }
    }
}
