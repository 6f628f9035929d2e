//! When more messages are to be delivered because others wait in their place.
//!
//! A message that waits for a publication is delivered and not acknowledged, so it takes a place of
//! what the broker delivers ahead. While the broker takes no publications, any number of them may
//! wait. A broker counts for each consumer apart, also for those of one channel, so a new consumer
//! has all its places free. A pure decision: somebody else consumes.

use crate::decide::Origin;

/// How many messages a new consumer of a queue is to get before the first is acknowledged.
#[must_use]
pub fn window(origin: Origin, ahead: u16) -> u16 {
    match origin {
        Origin::Work => ahead,
        // One at a time, so that one is to blame for a death.
        Origin::Solo => 1,
    }
}

/// Whether so many that wait leave too few places to a consumer with this window.
#[must_use]
pub fn is_taken(window: u16, waiting: usize) -> bool {
    waiting > usize::from(window) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_publication_takes_no_place_of_what_does_not() {
        for (ahead, waiting, taken) in
            [(200, 0, false), (200, 100, false), (200, 101, true), (1, 0, false), (1, 1, true)]
        {
            assert_eq!(is_taken(window(Origin::Work, ahead), waiting), taken, "{ahead} {waiting}");
        }
        let solo = window(Origin::Solo, 16_000);
        assert_eq!((solo, is_taken(solo, 0), is_taken(solo, 1)), (1, false, true), "one at a time");
    }
}
