//! How many messages a broker may deliver before the first is acknowledged, beside those that wait.
//!
//! A message that waits for a publication is delivered and not acknowledged, so it takes a place of what is
//! delivered ahead. While the broker takes no publications, any number of them may wait: then the window
//! grows with them. A pure decision: somebody else consumes.

use crate::decide::Origin;

/// How many messages are to be delivered before the first is acknowledged, when so many are to be
/// processed and so many wait for a publication.
pub fn window(origin: Origin, ahead: u16, waiting: usize) -> u16 {
    let (least, waiting) = match origin {
        // Room for as many more, so that it is not made anew for each of them.
        Origin::Work => (ahead, 2 * waiting),
        // One at a time, so that one is to blame for a death.
        Origin::Solo => (1, waiting),
    };
    u16::try_from(waiting).unwrap_or(u16::MAX).saturating_add(least)
}

/// Whether so many delivered ahead leave enough for new messages, and are no more than needed.
pub fn fits(origin: Origin, prefetch: u16, ahead: u16, waiting: usize) -> bool {
    let free = usize::from(prefetch).saturating_sub(waiting);
    let (least, most) = match origin {
        Origin::Work => {
            ((usize::from(ahead) / 2).max(1), usize::from(window(origin, ahead, waiting)) * 2)
        }
        Origin::Solo => (1, 1),
    };
    (free >= least || prefetch == u16::MAX) && free <= most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_publication_takes_no_place_of_what_does_not() {
        for (prefetch, waiting, good) in
            [(200, 0, true), (200, 100, true), (200, 101, false), (u16::MAX, 65_535, true)]
        {
            assert_eq!(fits(Origin::Work, prefetch, 200, waiting), good, "{prefetch} {waiting}");
        }
        assert!(!fits(Origin::Work, 1, 1, 1), "also where the operator wants one");
        assert_eq!(window(Origin::Work, 200, 101), 402);
        assert!(fits(Origin::Work, 402, 200, 101));
        assert!(!fits(Origin::Work, 1_000, 200, 0), "taken back");
        assert_eq!(window(Origin::Work, 200, 1_000_000), u16::MAX);
        for waiting in 0..5 {
            let prefetch = window(Origin::Solo, 200, waiting);
            assert_eq!(usize::from(prefetch), waiting + 1, "one at a time is new");
            assert!(fits(Origin::Solo, prefetch, 200, waiting));
            assert!(!fits(Origin::Solo, prefetch, 200, waiting + 1));
        }
    }
}
