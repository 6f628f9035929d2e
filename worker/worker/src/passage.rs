//! What markers tell a sweeper about the queue: whether what is `initial` merely waits in it.
//!
//! The queue is first in, first out, so the sweeper publishes a *marker*. When the marker is
//! delivered, to whichever worker, all that was published before it has been delivered, too; what
//! was created well before the marker and is still `initial` has no message. Only the database's
//! clock counts, and no date that somebody has written into a document. At a pause of settlement,
//! messages that were delivered go back to the queue: what markers have said before does not count
//! any more, and the time of the pause is no waiting. Pure.

use std::collections::VecDeque;

use ledger::ServerMs;

use crate::sweeper::SWEEP_AGAIN_MS;

/// What the markers say about the queue.
#[derive(Debug, Default)]
pub(crate) struct Passage {
    /// When this sweeper has published its last marker.
    pub(crate) published: ServerMs,
    /// Markers that have come through, and when that was seen.
    came: VecDeque<(ServerMs, ServerMs)>,
    /// The newest marker that came through long enough ago.
    passed: ServerMs,
    /// When the last pause of settlement has ended.
    resumed: ServerMs,
}

impl Passage {
    /// Forgets what markers have said before the end of the last pause, if that is news.
    pub(crate) fn since_pause(&mut self, resumed: ServerMs) {
        if resumed != self.resumed {
            *self = Passage { resumed, ..Passage::default() };
        }
    }

    /// Whether another marker is due.
    pub(crate) fn is_due(&self, now: ServerMs, orphan_ms: i64) -> bool {
        // After a fail-over the clock may be behind.
        now - self.published >= orphan_ms / 2 || now < self.published
    }

    /// Takes in the markers that have come through since the last round. The newest counts after a
    /// while: what was delivered before it may still wait in another worker for its turn.
    pub(crate) fn take_in(&mut self, markers: &[ServerMs], now: ServerMs, orphan_ms: i64) {
        // A marker from the future comes from a stranger, or from a server whose clock was ahead. One
        // from before the end of a pause may have come through before what was given back.
        let counts = |marker: &ServerMs| (self.resumed..=now).contains(marker);
        let newest = markers.iter().copied().filter(counts).max();
        if let Some(newest) = newest
            && newest > self.passed
            && self.came.back().is_none_or(|(last, _)| newest > *last)
        {
            self.came.push_back((newest, now));
        }
        while let Some((marker, seen)) = self.came.front().copied()
            && now - seen >= orphan_ms / 4
        {
            self.passed = marker;
            self.came.pop_front();
        }
    }

    /// Created before this moment and still `initial` means forgotten. While messages wait, only
    /// what is well older than the newest marker that came through has been passed over; when none
    /// waits, age alone tells, and for a while after a pause nothing does: what was created before
    /// it may have been delivered again just now.
    pub(crate) fn horizon(&self, now: ServerMs, depth: u32, orphan_ms: i64) -> ServerMs {
        let age_tells = depth == 0 && now - self.resumed >= orphan_ms;
        let head = if age_tells { now } else { self.passed };
        head - orphan_ms
    }
}

/// What a sweeper has published waits in the queue like all else, however long ago it was created.
/// So its stamp counts until what was created as it was published would count as forgotten.
pub(crate) fn stamped_before(now: ServerMs, created_before: ServerMs) -> ServerMs {
    now.min(created_before.saturating_add(SWEEP_AGAIN_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_at(passed: ServerMs) -> Passage {
        Passage { passed, ..Passage::default() }
    }

    #[test]
    fn what_was_given_back_at_a_pause_is_not_swept_while_it_waits_after_it() {
        const ORPHAN: i64 = 30_000;
        let mut passage = passed_at(400_000);
        passage.since_pause(1_000_000);
        // This one was in the queue during the pause, before or behind what was given back.
        passage.take_in(&[999_999], 1_001_000, ORPHAN);
        for depth in [0, 5] {
            let horizon = passage.horizon(1_029_999, depth, ORPHAN);
            assert!(horizon < 0, "{depth} wait: nothing is known yet");
        }
        assert_eq!(passage.horizon(1_030_000, 0, ORPHAN), 1_000_000, "its age tells again");
        passage.take_in(&[1_005_000], 1_010_000, ORPHAN);
        passage.since_pause(1_000_000);
        passage.take_in(&[], 1_017_500, ORPHAN);
        assert_eq!(passage.horizon(1_017_500, 5, ORPHAN), 975_000, "a marker of now tells");
    }

    #[test]
    fn a_backlog_is_not_swept() {
        let (now, orphan) = (1_000_000, 30_000);
        let horizon = |depth, passed| passed_at(passed).horizon(now, depth, orphan);
        assert_eq!(horizon(0, 0), 970_000, "an empty queue: age alone tells");
        assert_eq!(horizon(5, 400_000), 370_000, "only what was passed over");
        assert!(horizon(5, 0) < 0, "no marker has come through: nothing is known");
    }

    #[test]
    fn what_was_published_again_is_not_swept_while_it_waits_in_a_backlog() {
        let (now, orphan) = (1_000_000, 30_000);
        let published = 420_000;
        let stamp = published + SWEEP_AGAIN_MS;
        let is_swept = |depth, passed| {
            stamp <= stamped_before(now, passed_at(passed).horizon(now, depth, orphan))
        };
        assert!(!is_swept(5, published), "the marker came through before it");
        assert!(is_swept(5, published + orphan), "it was passed over");
        assert!(is_swept(0, 0), "nothing waits, so it has no message");
        assert_eq!(stamped_before(now, now), now, "a stamp of the future always counts");
    }

    #[test]
    fn a_marker_counts_a_while_after_it_came_and_never_from_the_future() {
        let mut passage = Passage::default();
        passage.take_in(&[1_000], 2_000, 400);
        assert_eq!(passage.passed, 0);
        passage.take_in(&[1_050], 2_099, 400);
        assert_eq!(passage.passed, 0);
        passage.take_in(&[1_050], 2_100, 400);
        assert_eq!(passage.passed, 1_000);
        passage.take_in(&[i64::MAX, 2_500], 3_000, 400);
        passage.take_in(&[i64::MAX], 9_000, 400);
        assert_eq!(
            passage.passed, 2_500,
            "a marker from the future says nothing, nor hides others"
        );
    }

    #[test]
    fn markers_are_published_twice_in_the_age_of_the_forgotten() {
        let passage = Passage { published: 1_000, ..Passage::default() };
        assert!(!passage.is_due(1_499, 1_000) && passage.is_due(1_500, 1_000));
        assert!(passage.is_due(999, 1_000), "the clock went back");
    }
}
