//! The parts of an incident, and its end.

use tokio::sync::watch;

/// What is the matter at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Everything is there.
    Before,
    /// Settlement is paused, and the backlog is submitted.
    Gathering,
    /// The broker is away.
    Away,
    /// The broker is away, and a replica of the API and a worker were killed.
    Killed,
    /// The broker is back. What was killed stays away.
    Back,
}

impl Phase {
    /// All of them, in their order.
    pub const ALL: [Phase; 5] =
        [Phase::Before, Phase::Gathering, Phase::Away, Phase::Killed, Phase::Back];

    /// Its name in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Before => "before",
            Phase::Gathering => "backlog comes",
            Phase::Away => "broker away",
            Phase::Killed => "replica killed",
            Phase::Back => "broker back",
        }
    }
}

/// Waits until it is said that it is over, or nobody is left who could say so.
pub async fn over(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|over| *over).await;
}
