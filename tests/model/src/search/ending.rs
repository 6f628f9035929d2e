//! The scopes in which batches of several transactions end: with one line for all of them, and
//! events after it.
//!
//! A worker that dies after its end is committed and before its event goes out is one to which
//! nothing more happens then. One that stalls before its end, and goes on, meets another that has
//! ended the same batch or a part of it.

use super::scope::{APART, BOTH, Client, NEIGHBOURS, PAIR, Scope};
use crate::sim::odd::Oddity;

/// Two transfers that share nothing but their batch.
const ENDING: Scope = Scope {
    name: "ending-together",
    about: "two transfers in one batch, two workers with both; ends are announced",
    accounts: NEIGHBOURS,
    transfers: APART,
    runs: &[BOTH, BOTH],
    losses: 0,
    horizon: 5,
    short: (0, 4),
    events: true,
    ..PAIR
};

/// See the module.
pub(super) const SCOPES: [Scope; 4] = [
    Scope {
        name: "ending-canceled",
        about: "the same, and a client that cancels one of them at any moment",
        clients: &[Client::Cancels("t")],
        short: (0, 1),
        ..ENDING
    },
    Scope {
        name: "ending-apart",
        about: "two transfers, a worker with both and another with one of them; one is lost or late",
        runs: &[BOTH, &["t"]],
        losses: 1,
        short: (0, 4),
        ..ENDING
    },
    ENDING,
    Scope {
        name: "ending-refused",
        about: "two transfers in one batch, the end of one can't be written for a while or for good",
        runs: &[BOTH, &["t"]],
        clients: &[Client::Spoils("t", Oddity::Refuses), Client::Mends("t")],
        horizon: 4,
        short: (0, 1),
        ..ENDING
    },
];
