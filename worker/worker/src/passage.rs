//! What markers tell a sweeper about the queue: whether what is `initial` merely waits in it.
//!
//! The queue is first in, first out, so the sweeper publishes a *marker*. When the marker is
//! delivered, to whichever worker, all that was published before it has been delivered, too; what
//! was created well before the marker and is still `initial` has no message. Only the database's
//! clock counts, and no date that somebody has written into a document. Pure.

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
    pub(crate) passed: ServerMs,
}

impl Passage {
    /// Whether another marker is due.
    pub(crate) fn is_due(&self, now: ServerMs, orphan_ms: i64) -> bool {
        // After a fail-over the clock may be behind.
        now - self.published >= orphan_ms / 2 || now < self.published
    }

    /// Takes in the markers that have come through since the last round. The newest counts after a
    /// while: what was delivered before it may still wait in another worker for its turn.
    pub(crate) fn take_in(&mut self, markers: &[ServerMs], now: ServerMs, orphan_ms: i64) {
        // A marker from the future comes from a stranger, or from a server whose clock was ahead.
        let newest = markers.iter().copied().filter(|marker| *marker <= now).max();
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
}

/// Created before this moment and still `initial` means forgotten. While messages wait, only what
/// is well older than the newest marker that came through has been passed over; when none waits,
/// age alone tells.
pub(crate) fn horizon(now: ServerMs, depth: u32, passed: ServerMs, orphan_ms: i64) -> ServerMs {
    let head = if depth == 0 { now } else { passed };
    head - orphan_ms
}

/// What a sweeper has published waits in the queue like all else, however long ago it was created.
/// So its stamp counts until what was created as it was published would count as forgotten.
pub(crate) fn stamped_before(now: ServerMs, created_before: ServerMs) -> ServerMs {
    now.min(created_before.saturating_add(SWEEP_AGAIN_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_not_swept() {
        let (now, orphan) = (1_000_000, 30_000);
        assert_eq!(horizon(now, 0, 0, orphan), 970_000, "an empty queue: age alone tells");
        assert_eq!(horizon(now, 5, 400_000, orphan), 370_000, "only what was passed over");
        assert!(horizon(now, 5, 0, orphan) < 0, "no marker has come through: nothing is known");
    }

    #[test]
    fn what_was_published_again_is_not_swept_while_it_waits_in_a_backlog() {
        let (now, orphan) = (1_000_000, 30_000);
        let published = 420_000;
        let stamp = published + SWEEP_AGAIN_MS;
        let is_swept =
            |depth, passed| stamp <= stamped_before(now, horizon(now, depth, passed, orphan));
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
