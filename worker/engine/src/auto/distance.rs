//! Whether the database is far away.
//!
//! The commands of a native transaction go one after the other, each with a round trip, and the
//! batch keeps its lane meanwhile; a batch in two phases gives its lane away after the commit. So
//! from far away full batches are quicker in two phases (`tests/bench/results/2026-11-25.md`). A
//! pure decision, about speed only.

use std::collections::VecDeque;
use std::time::Duration;

/// From this round trip on. With 10 ms two phases were 3 to 10 % faster; near the database natives
/// were, by 14 to 22 % (uniform, queue full).
const FAR: Duration = Duration::from_millis(5);

/// So many of the last round trips count. A busy server or worker makes most of them longer, and
/// none shorter, so the shortest says how far it is.
const KEPT: usize = 16;

/// The round trips of late.
#[derive(Debug, Default)]
pub(super) struct Distance {
    round_trips: VecDeque<Duration>,
}

impl Distance {
    /// Learns how long the answer to a question took that costs the server nothing.
    pub fn learn(&mut self, round_trip: Duration) {
        self.round_trips.push_back(round_trip);
        if self.round_trips.len() > KEPT {
            self.round_trips.pop_front();
        }
    }

    /// Whether it is far. As long as nobody knows, it is not.
    pub fn is_far(&self) -> bool {
        self.round_trips.iter().min().is_some_and(|shortest| *shortest >= FAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_of_late_says_how_far_it_is() {
        let mut distance = Distance::default();
        assert!(!distance.is_far(), "nobody knows");
        let mut learn = |ms: u64, times| {
            for _ in 0..times {
                distance.learn(Duration::from_millis(ms));
            }
            distance.is_far()
        };
        assert!(learn(12, 3));
        assert!(!learn(1, 1));
        assert!(!learn(40, KEPT - 1), "a server that is busy is not far away");
        assert!(learn(40, 1), "it has moved");
    }
}
