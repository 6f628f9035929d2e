//! Scopes in which transactions expire: expiry meets commits of both engines, takeovers and
//! cancels.

use engine::EngineKind;

use super::scope::{Client, PAIR, Scope};

/// One transfer that expires while two workers are at it.
const EXPIRING: Scope = Scope {
    name: "expiring",
    about: "one transfer that expires, two workers; a sweeper that looks at any moment",
    clients: &[Client::ExpiresUnclaimed("t")],
    expires_at: Some(2),
    losses: 1,
    horizon: 6,
    short: (1, 4),
    ..PAIR
};

/// The scopes, the longest searches first.
pub(super) const SCOPES: [Scope; 4] = [
    Scope {
        name: "expiring-natively",
        about: "one transfer that expires; a worker that chooses its engine, and a two-phase one",
        engines: &[EngineKind::Auto, EngineKind::TwoPhase],
        expires_at: Some(2),
        // The planted fault takes a lost answer.
        short: (1, 3),
        ..EXPIRING
    },
    Scope {
        name: "expiring-takeovers",
        about: "the same with three workers that stall past their leases and go on",
        runs: &[&["t"], &["t"], &["t"]],
        expires_at: Some(4),
        losses: 0,
        horizon: 7,
        short: (0, 6),
        ..EXPIRING
    },
    Scope {
        name: "expiring-canceled",
        about: "one transfer that expires, two workers; a sweeper and a client that cancels",
        clients: &[Client::ExpiresUnclaimed("t"), Client::Cancels("t")],
        short: (0, 4),
        ..EXPIRING
    },
    EXPIRING,
];
