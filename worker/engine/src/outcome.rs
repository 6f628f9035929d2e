//! What became of a transaction in one run: a closed set.

use ledger::Seen;
use ledger::transaction::State;

/// What one run made of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is `done` or `canceled`, durably: by this run or before it.
    Final,
    /// It is set apart, durably: only a person brings it back.
    Parked,
    /// It rests until a moment, or until a client acts: a message about it has no use.
    Resting,
    /// Somebody else owns it, or it waits for its retry; worth another look after this time.
    NotMine {
        /// Milliseconds until others may take over.
        after_ms: i64,
    },
    /// It was ours, is not finished, and was given up.
    Retry {
        /// Milliseconds until it may be claimed again.
        after_ms: i64,
    },
    /// As `Retry`, and with fewer others: one of those that failed together may be the reason.
    Apart {
        /// Milliseconds until it may be claimed again.
        after_ms: i64,
    },
    /// It was too much for one batch with the others, and may be claimed at once.
    Surplus {
        /// How many of this size one batch may hold.
        fits: usize,
    },
    /// There is no such document.
    Missing,
}

impl Outcome {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Final => "final",
            Outcome::Parked => "parked",
            Outcome::Resting => "resting",
            Outcome::NotMine { .. } => "not_mine",
            Outcome::Retry { .. } => "retry",
            Outcome::Apart { .. } => "apart",
            Outcome::Surplus { .. } => "surplus",
            Outcome::Missing => "missing",
        }
    }

    /// The outcome for a transaction that was read and is not ours.
    pub(super) fn of_other(seen: &Seen) -> Outcome {
        match seen.state {
            State::Done | State::Canceled => Outcome::Final,
            State::Scheduled | State::Held => Outcome::Resting,
            State::Initial | State::Pending | State::Applied | State::Canceling => {
                if seen.parked {
                    return Outcome::Parked;
                }
                // A date may be any number of milliseconds, whoever wrote it.
                let after_ms = seen.takeover_at.saturating_sub(seen.server_now).max(0);
                Outcome::NotMine { after_ms }
            }
        }
    }
}
