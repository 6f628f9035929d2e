//! The scopes with a transaction on hold.
//!
//! A worker reserves the debit and lets the transaction rest. A client confirms a part of it,
//! releases it, or a sweeper finds that it has expired: each at any moment, or never. Whatever
//! comes second changes nothing. Workers come before and after that, stall, and go on. In the end
//! whatever still rests is released.

use ledger::account::Status;

use super::scope::{BOTH, Client, PAIR, RIDING, Scope};

/// One transfer of 7 on hold, of which 4 are captured.
const HOLDING: Scope = Scope {
    name: "hold-confirmed",
    about: "one transfer on hold, two workers; a client confirms a part of it at any moment",
    held: &["t"],
    clients: &[Client::Confirms("t", 4)],
    losses: 2,
    horizon: 7,
    // A late copy of a claim makes a hold's first owner its owner once more only from here on.
    short: (2, 5),
    ..PAIR
};

/// See the module.
pub const SCOPES: [Scope; 7] = [
    Scope {
        name: "hold-takeovers",
        about: "the same with three workers that stall past their leases and go on",
        runs: &[&["t"], &["t"], &["t"]],
        losses: 1,
        horizon: 9,
        short: (0, 7),
        ..HOLDING
    },
    Scope {
        name: "hold-released",
        about: "one transfer on hold, two workers; clients confirm and cancel it at any moments",
        clients: &[Client::Confirms("t", 4), Client::Cancels("t")],
        losses: 1,
        short: (1, 6),
        ..HOLDING
    },
    Scope {
        name: "hold-expires",
        about: "the same, and it expires",
        clients: &[Client::Confirms("t", 4), Client::Expires("t")],
        hold_expires_at: Some(3),
        losses: 1,
        short: (1, 4),
        ..HOLDING
    },
    HOLDING,
    Scope {
        name: "hold-refused",
        about: "one transfer on hold, two workers; its destination frozen and opened at any moments",
        clients: &[
            Client::Confirms("t", 4),
            Client::Sets("b", Status::Frozen),
            Client::Sets("b", Status::Open),
        ],
        losses: 1,
        horizon: 6,
        short: (0, 4),
        ..HOLDING
    },
    Scope {
        name: "hold-in-competition",
        about: "a transfer on hold and another compete for one account's money; two workers with both",
        transfers: &[("t", "a", "b", 7), ("u", "a", "b", 6)],
        runs: &[BOTH, BOTH],
        losses: 1,
        horizon: 5,
        short: (0, 3),
        ..HOLDING
    },
    Scope {
        name: "hold-riding",
        about: "a hold is confirmed, and its settlement rides on the post of another transfer",
        held: &["t"],
        runs: &[&["t"], &["t"]],
        second: &[&[], &["u"]],
        clients: &[Client::Confirms("t", 4)],
        horizon: 5,
        short: (0, 3),
        ..RIDING
    },
];
