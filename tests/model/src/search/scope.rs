//! What is searched: few accounts, few transactions, few runs, and what may go wrong.

use engine::EngineKind;
use ledger::account::Status;

use super::engine::OP_LIMIT;
use super::protocol::Bounds;
use super::{choosing, ending, expiring, holding};
use crate::sim::odd::Oddity;

/// What a client or an operator does once, at any moment, or never.
#[derive(Clone, Copy, Debug)]
pub enum Client {
    /// A client cancels a transaction.
    Cancels(&'static str),
    /// A client confirms a hold and captures so much of it.
    Confirms(&'static str, i64),
    /// A sweeper looks whether a hold has expired.
    Expires(&'static str),
    /// A client submits a transaction for the second time.
    SubmitsAgain(&'static str),
    /// An operator changes an account's status.
    Sets(&'static str, Status),
    /// A document becomes odd.
    Spoils(&'static str, Oddity),
    /// A document becomes what it was.
    Mends(&'static str),
    /// An operator brings back a parked transaction.
    BringsBack(&'static str),
    /// A sweeper cancels a transaction that has expired before anybody claimed it.
    ExpiresUnclaimed(&'static str),
}

/// What is searched, and within which bounds.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is about, in a line.
    pub about: &'static str,
    /// Accounts with their balances; their floor is zero.
    pub accounts: &'static [(&'static str, i64)],
    /// Transfers: id, source, destination, value.
    pub transfers: &'static [(&'static str, &'static str, &'static str, i64)],
    /// Which of them are on hold.
    pub held: &'static [&'static str],
    /// Until when those may be confirmed.
    pub hold_expires_at: Option<i64>,
    /// The batch of each run of a worker.
    pub runs: &'static [&'static [&'static str]],
    /// The engine of each run; where none is named, two phases.
    pub engines: &'static [EngineKind],
    /// The batch that a run begins when its first one has committed: then settlements ride.
    pub second: &'static [&'static [&'static str]],
    /// What clients do.
    pub clients: &'static [Client],
    /// How many requests may lose their answer or come late, all runs together.
    pub losses: u8,
    /// The clock's last moment.
    pub horizon: u8,
    /// The same two for the short form.
    pub short: (u8, u8),
    /// See [`Bounds::late_answers`].
    pub late_answers: bool,
    /// After so many claims a pending transaction is rolled back.
    pub attempts_max: u32,
    /// How long a claim lasts.
    pub lease: i64,
    /// By how much the clock of the accounts' member is behind.
    pub skew: i64,
    /// Whether the workers announce outcomes.
    pub events: bool,
    /// When every transfer expires, if they do.
    pub expires_at: Option<i64>,
}

/// One transfer and two runs of a worker; the other scopes are variations of it.
pub(super) const PAIR: Scope = Scope {
    name: "one-worker",
    about: "one transfer, a worker that is its own stalled predecessor, then another",
    accounts: &[("a", 10), ("b", 0)],
    transfers: &[("t", "a", "b", 7)],
    held: &[],
    hold_expires_at: None,
    runs: &[&["t"], &["t"]],
    engines: &[],
    second: &[],
    clients: &[],
    losses: 2,
    horizon: 6,
    short: (1, 6),
    late_answers: false,
    attempts_max: 5,
    lease: 1,
    skew: 1,
    events: false,
    expires_at: None,
};

/// A settlement that rides, and another worker that has both transactions.
pub(super) const RIDING: Scope = Scope {
    name: "riding",
    about: "two transfers, the first's settlement rides on the post of the second; two workers",
    accounts: &[("a", 10), ("b", 5), ("c", 0)],
    transfers: &[("t", "a", "b", 7), ("u", "b", "c", 4)],
    runs: &[&["t"], BOTH],
    second: &[&["u"]],
    losses: 0,
    horizon: 5,
    short: (0, 4),
    ..PAIR
};

/// Two transfers that have no account in common.
pub(super) const APART: &[(&str, &str, &str, i64)] = &[("t", "a", "b", 7), ("u", "c", "d", 4)];

pub(super) const NEIGHBOURS: &[(&str, i64)] = &[("a", 10), ("b", 0), ("c", 5), ("d", 0)];

const THREE: &[&[&str]] = &[&["t"], &["t"], &["t"]];

pub(super) const BOTH: &[&str] = &["t", "u"];

/// The scopes of the two-phase engine, the longest searches first.
const SCOPES: [Scope; 22] = [
    Scope {
        name: "takeovers",
        about: "one transfer, three workers that stall past their leases and go on",
        runs: THREE,
        losses: 1,
        horizon: 9,
        short: (0, 9),
        ..PAIR
    },
    Scope {
        name: "given-up",
        about: "the same, but whoever takes over rolls back: attempts are used up",
        runs: THREE,
        losses: 1,
        horizon: 9,
        short: (0, 9),
        attempts_max: 1,
        ..PAIR
    },
    Scope {
        name: "shared-account",
        about: "two transfers, one credits what the other debits; two workers with both",
        accounts: &[("a", 10), ("b", 5), ("c", 0)],
        transfers: &[("t", "a", "b", 7), ("u", "b", "c", 4)],
        runs: &[BOTH, BOTH],
        losses: 1,
        horizon: 5,
        short: (0, 5),
        ..PAIR
    },
    Scope {
        name: "refused",
        about: "two transfers compete for one account's money; two workers with both",
        transfers: &[("t", "a", "b", 7), ("u", "a", "b", 6)],
        runs: &[BOTH, BOTH],
        losses: 1,
        horizon: 5,
        short: (0, 5),
        ..PAIR
    },
    RIDING,
    Scope {
        name: "riding-in-need",
        about: "the same, and the second needs the money that rides",
        accounts: &[("a", 10), ("b", 0), ("c", 0)],
        ..RIDING
    },
    Scope {
        name: "chained",
        about: "two transfers, one needs the money that the other brings; two workers with both",
        accounts: &[("a", 10), ("b", 0), ("c", 0)],
        transfers: &[("t", "a", "b", 7), ("u", "b", "c", 4)],
        runs: &[BOTH, BOTH],
        losses: 0,
        horizon: 5,
        short: (0, 4),
        ..PAIR
    },
    Scope {
        name: "apart",
        about: "two transfers share an account; a worker for each, then one with both",
        accounts: &[("a", 10), ("b", 5), ("c", 0)],
        transfers: &[("t", "a", "b", 7), ("u", "b", "c", 4)],
        runs: &[&["t"], &["u"], BOTH],
        losses: 0,
        horizon: 5,
        short: (0, 4),
        ..PAIR
    },
    Scope {
        name: "freeze",
        about: "one transfer, two workers; its destination frozen and opened at any moments",
        clients: &[Client::Sets("b", Status::Frozen), Client::Sets("b", Status::Open)],
        losses: 1,
        short: (0, 6),
        ..PAIR
    },
    PAIR,
    Scope {
        name: "late-answers",
        about: "the same with answers that take any time, too",
        losses: 1,
        short: (0, 6),
        late_answers: true,
        ..PAIR
    },
    Scope {
        name: "cancel",
        about: "one transfer, two workers; a client that cancels at any moment",
        clients: &[Client::Cancels("t")],
        losses: 1,
        ..PAIR
    },
    Scope {
        name: "announced",
        about: "one transfer, two workers that announce its end",
        losses: 1,
        short: (1, 6),
        events: true,
        ..PAIR
    },
    Scope {
        name: "announced-canceled",
        about: "the same, and a client that cancels at any moment",
        clients: &[Client::Cancels("t")],
        losses: 1,
        short: (0, 6),
        events: true,
        ..PAIR
    },
    Scope {
        name: "announced-riding",
        about: "two transfers, the first's settlement rides; another worker; ends are announced",
        events: true,
        ..RIDING
    },
    Scope {
        name: "account-refuses",
        about: "two transfers, one to an account that refuses for a while or for good; two workers",
        accounts: NEIGHBOURS,
        transfers: APART,
        runs: &[BOTH, BOTH],
        clients: &[Client::Spoils("b", Oddity::Refuses), Client::Mends("b")],
        losses: 0,
        horizon: 3,
        short: (0, 1),
        ..PAIR
    },
    Scope {
        name: "account-unreadable",
        about: "the same with an account whose numbers and marks can't be read",
        accounts: NEIGHBOURS,
        transfers: APART,
        runs: &[BOTH, BOTH],
        clients: &[Client::Spoils("b", Oddity::BrokenMarks), Client::Mends("b")],
        losses: 0,
        horizon: 3,
        short: (0, 1),
        ..PAIR
    },
    Scope {
        name: "transaction-refuses",
        about: "two transfers, one of them can't be written for a while or for good; two workers",
        accounts: NEIGHBOURS,
        transfers: APART,
        runs: &[BOTH, BOTH],
        clients: &[Client::Spoils("t", Oddity::Refuses), Client::Mends("t")],
        losses: 0,
        horizon: 3,
        short: (0, 1),
        ..PAIR
    },
    Scope {
        name: "refuses-and-late",
        about: "one transfer to an account that refuses for a while; a request may be late",
        clients: &[Client::Spoils("b", Oddity::Refuses), Client::Mends("b")],
        losses: 1,
        horizon: 5,
        short: (1, 3),
        ..PAIR
    },
    Scope {
        name: "set-apart-and-late",
        about: "one transfer that can't be written for a while; a request may be late",
        clients: &[Client::Spoils("t", Oddity::Refuses), Client::Mends("t")],
        losses: 1,
        horizon: 5,
        short: (1, 3),
        ..PAIR
    },
    Scope {
        name: "brought-back",
        about: "the same, and an operator who brings it back at any moment",
        clients: &[
            Client::Spoils("t", Oddity::Refuses),
            Client::Mends("t"),
            Client::BringsBack("t"),
        ],
        losses: 1,
        horizon: 3,
        short: (1, 1),
        ..PAIR
    },
    Scope {
        name: "resubmission",
        about: "one transfer, two workers; a client that submits it again at any moment",
        clients: &[Client::SubmitsAgain("t")],
        losses: 1,
        ..PAIR
    },
];

impl Scope {
    /// Every scope, the longest searches first, of the two-phase engine, of batches that end, of
    /// holds, and of both engines.
    pub fn all() -> impl Iterator<Item = &'static Scope> {
        let two_phase = SCOPES.iter().chain(&ending::SCOPES).chain(&holding::SCOPES);
        two_phase.chain(&choosing::SCOPES).chain(&expiring::SCOPES)
    }

    /// The scope of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Scope> {
        Scope::all().find(|scope| scope.name == name)
    }

    /// Whether a worker chooses its engine; then the last one does, too.
    #[must_use]
    pub fn chooses(&self) -> bool {
        self.engines.contains(&EngineKind::Auto)
    }

    /// The engine of a run.
    #[must_use]
    pub fn engine(&self, run: usize) -> EngineKind {
        match self.engines.get(run) {
            Some(engine) => *engine,
            None if self.chooses() && run == self.runs.len() => EngineKind::Auto,
            None => EngineKind::TwoPhase,
        }
    }

    /// The same with the bounds of the tests.
    #[must_use]
    pub fn short(&self) -> Scope {
        let (losses, horizon) = self.short;
        Scope { losses, horizon, ..*self }
    }

    /// The bounds of its search.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        let Scope { horizon, losses, late_answers, .. } = *self;
        Bounds { horizon, losses, op_limit: OP_LIMIT, late_answers }
    }

    /// The bounds as text.
    #[must_use]
    pub fn told(&self) -> String {
        let Scope { runs, losses, horizon, lease, skew, .. } = self;
        format!(
            "{} runs, lost answers at most {losses}, clock 0 to {horizon} (lease {lease}, operation \
             limit {OP_LIMIT}, skew {skew}, grace {})",
            runs.len(),
            i64::from(OP_LIMIT) + skew
        )
    }
}
