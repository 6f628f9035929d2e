//! How long a page looks for what its filter names, where no index knows that.
//!
//! A list is read in stretches, newest first, each of a bounded number of documents. Owns when the
//! reading ends before the page is full: when its time is up. Promises that a page has looked at
//! one stretch at least, so a list goes on whatever its time is, and that a filter which an index
//! serves is read to its end, however long that takes.

use std::time::{Duration, Instant};

/// How long a page of a list looks: with the stretch that it has begun then, and the answer, it is
/// done within 200 ms.
pub const LOOK_FOR: Duration = Duration::from_millis(170);

/// The time of one page.
pub(super) struct Looking {
    begun: Instant,
    /// None where every document that is read is one of the list.
    limit: Option<Duration>,
}

/// What follows when a stretch has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The page ends: it is full, or the list has ended.
    Ends,
    /// The page ends because its time is up.
    Stops,
    /// The next stretch.
    GoesOn,
}

impl Looking {
    /// Looks from now on for so long.
    pub(super) fn new(limit: Option<Duration>) -> Looking {
        Looking { begun: Instant::now(), limit }
    }

    /// What follows a stretch: `left` items have room yet; `is_last` if nothing comes behind it.
    pub(super) fn step(&self, left: usize, is_last: bool) -> Step {
        let is_time_up = self.limit.is_some_and(|limit| self.begun.elapsed() >= limit);
        step(left, is_last, is_time_up)
    }
}

fn step(left: usize, is_last: bool, is_time_up: bool) -> Step {
    match (left == 0 || is_last, is_time_up) {
        (true, _) => Step::Ends,
        (false, true) => Step::Stops,
        (false, false) => Step::GoesOn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_looks_on_until_it_is_full_the_list_has_ended_or_its_time_is_up() {
        assert_eq!(step(1, false, false), Step::GoesOn);
        assert_eq!(step(1, false, true), Step::Stops);
        for is_time_up in [false, true] {
            assert_eq!(step(0, false, is_time_up), Step::Ends, "it is full");
            assert_eq!(step(1, true, is_time_up), Step::Ends, "there is no more");
        }
        let (endless, over) = (Looking::new(None), Looking::new(Some(Duration::ZERO)));
        assert_eq!((endless.step(1, false), over.step(1, false)), (Step::GoesOn, Step::Stops));
    }
}
