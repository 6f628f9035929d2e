//! The scopes in which a worker chooses its engine.
//!
//! Wherever the engine chooses (when a batch begins, and after each conflict), both ways are
//! searched. So each scope holds native transactions beside two-phase workers, and every change of
//! mind between the two. The last worker, too, comes once for either way.

use engine::EngineKind::{self, Auto, TwoPhase};
use ledger::account::Status;

use super::scope::{APART, BOTH, Client, NEIGHBOURS, PAIR, RIDING, Scope};
use crate::sim::odd::Oddity;

/// One worker that chooses, and one that always goes in two phases.
const BESIDE: &[EngineKind] = &[Auto, TwoPhase];

const BOTH_CHOOSE: &[EngineKind] = &[Auto, Auto];

/// One transfer, and a worker that chooses beside one that does not.
const CHOOSING: Scope = Scope {
    name: "choosing",
    about: "one transfer; a worker that chooses its engine, and a two-phase one",
    engines: BESIDE,
    losses: 1,
    horizon: 6,
    short: (1, 4),
    ..PAIR
};

/// Two transfers that share an account.
const SHARING: Scope = Scope {
    name: "choosing-shared-account",
    about: "two transfers, one credits what the other debits; both workers have both, one chooses",
    accounts: &[("a", 10), ("b", 5), ("c", 0)],
    transfers: &[("t", "a", "b", 7), ("u", "b", "c", 4)],
    runs: &[BOTH, BOTH],
    losses: 0,
    horizon: 5,
    short: (0, 4),
    ..CHOOSING
};

/// See the module.
pub const SCOPES: [Scope; 14] = [
    SHARING,
    Scope {
        name: "choosing-refused",
        about: "two transfers compete for one account's money; two workers with both, one chooses",
        accounts: &[("a", 10), ("b", 0)],
        transfers: &[("t", "a", "b", 7), ("u", "a", "b", 6)],
        ..SHARING
    },
    Scope {
        name: "choosing-both",
        about: "two transfers that share an account; two workers with both, and both choose",
        engines: BOTH_CHOOSE,
        ..SHARING
    },
    Scope {
        name: "choosing-apart",
        about: "two transfers that share an account, a worker for each, and one of them chooses",
        runs: &[&["t"], &["u"]],
        losses: 1,
        horizon: 5,
        short: (0, 4),
        ..SHARING
    },
    Scope {
        name: "choosing-in-need",
        about: "the same, and one transfer needs the money that the other brings",
        accounts: &[("a", 10), ("b", 0), ("c", 0)],
        runs: &[&["u"], &["t"]],
        losses: 1,
        horizon: 5,
        short: (0, 4),
        ..SHARING
    },
    Scope {
        name: "choosing-in-competition",
        about: "two transfers compete for one account's money; a worker for each, one chooses",
        accounts: &[("a", 10), ("b", 0)],
        transfers: &[("t", "a", "b", 7), ("u", "a", "b", 6)],
        runs: &[&["t"], &["u"]],
        losses: 1,
        horizon: 5,
        short: (0, 4),
        ..SHARING
    },
    Scope {
        name: "choosing-riding",
        about: "two transfers, the first's settlement may ride or be in the way; one worker chooses",
        engines: BESIDE,
        short: (0, 3),
        ..RIDING
    },
    Scope {
        name: "choosing-announced-riding",
        about: "the same in need of the money that waits for a ride; ends are announced",
        accounts: &[("a", 10), ("b", 0), ("c", 0)],
        engines: BESIDE,
        events: true,
        short: (0, 2),
        ..RIDING
    },
    Scope {
        name: "choosing-takeovers",
        about: "one transfer, two workers that choose, and a two-phase one that takes over",
        engines: &[Auto, Auto, TwoPhase],
        runs: &[&["t"], &["t"], &["t"]],
        losses: 0,
        horizon: 6,
        short: (0, 3),
        ..CHOOSING
    },
    CHOOSING,
    Scope {
        name: "choosing-canceled",
        about: "one transfer, one worker chooses; a client that cancels at any moment",
        clients: &[Client::Cancels("t")],
        short: (0, 5),
        ..CHOOSING
    },
    Scope {
        name: "choosing-frozen",
        about: "one transfer, one worker chooses; its destination frozen and opened at any moments",
        clients: &[Client::Sets("b", Status::Frozen), Client::Sets("b", Status::Open)],
        short: (0, 4),
        ..CHOOSING
    },
    Scope {
        name: "choosing-announced",
        about: "one transfer, one worker chooses; a client that cancels; ends are announced",
        clients: &[Client::Cancels("t")],
        events: true,
        short: (0, 5),
        ..CHOOSING
    },
    Scope {
        name: "choosing-refuses",
        about: "two transfers, one to an account that refuses for a while; one worker chooses",
        accounts: NEIGHBOURS,
        transfers: APART,
        runs: &[BOTH, BOTH],
        clients: &[Client::Spoils("b", Oddity::Refuses), Client::Mends("b")],
        losses: 0,
        horizon: 3,
        short: (0, 1),
        ..CHOOSING
    },
];
