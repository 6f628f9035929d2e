//! How many messages the broker delivers ahead: as many as hold a few batches of ids, and some
//! megabytes, and no more than the worker ends in about a second if others are at work, too, or in
//! two if they are many.
//!
//! The broker counts messages, and a message may hold one id or thousands, or be somebody else's
//! and large. Too few delivered ahead leave the lanes waiting; too many wait here, while other
//! workers have nothing, and have one more delivery on their count when this worker dies. A worker
//! that is alone at work, because others stand by for it, takes nothing from them: what is fresh is
//! not to wait in the broker behind what a dead one leaves, which is done in small batches.
//! Promises a bound for the messages, however few ids they hold, and that only few come along with
//! what two workers have died with. A pure decision: somebody else consumes.

use std::time::Instant;

use crate::pace::{HAND, Pace, Progress};

/// The fewest messages by what they hold: some are always on their way.
const MESSAGES_LEAST: f64 = 20.0;

/// The most messages: some megabytes.
const MESSAGES_MAX: f64 = 16_000.0;

/// How many messages are delivered ahead before it is known what they hold.
const MESSAGES_FIRST: u16 = 20;

/// The most along with what two workers have died with.
const MESSAGES_OF_TWO_DEATHS: f64 = 200.0;

/// So many bytes are delivered ahead, unless that would be fewer than the fewest messages.
pub const BYTES_AHEAD: usize = 32 << 20;

/// So many messages say what the next ones hold, or half of what is delivered ahead, or so many
/// bytes.
const SAMPLE: u32 = 100;
const SAMPLE_BYTES: usize = BYTES_AHEAD / 4;

/// Consuming anew costs some round trips, so it is done only for a difference of so many times.
const TIMES: f64 = 2.0;

/// Seconds of work in hand where many workers share: each has one batch in flight in place of two,
/// which is to be as large as both.
const HAND_OF_MANY: f64 = 2.0 * HAND;

/// Who works beside a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nobody: all others stand by for it, so what waits is for it alone.
    Nobody,
    /// Nobody or one, as it happens.
    Few,
    /// So many that each has a batch in flight that stands for several.
    Many,
}

/// What is known of a delivery.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivered {
    /// How many ids are to be processed.
    pub ids: usize,
    /// How long its body is.
    pub bytes: usize,
    /// How often it was delivered before.
    pub deliveries: u32,
}

/// What was delivered, and what is to be delivered ahead.
#[derive(Debug)]
pub struct Prefetch {
    prefetch: u16,
    /// How many ids are to be here; `None` where the operator has set the messages.
    aim: Option<usize>,
    messages: u32,
    sum: Delivered,
    /// How many messages there are to be by what they hold.
    by_contents: f64,
    /// Nobody else is to take what waits.
    is_alone: bool,
    pace: Pace,
}

impl Prefetch {
    /// As many messages as the operator says, or as many as hold so many ids.
    #[must_use]
    pub fn new(messages: Option<u16>, ids: usize) -> Prefetch {
        let aim = messages.is_none().then_some(ids);
        Prefetch {
            prefetch: messages.unwrap_or(MESSAGES_FIRST),
            aim,
            messages: 0,
            sum: Delivered::default(),
            by_contents: MESSAGES_FIRST.into(),
            is_alone: false,
            pace: Pace::default(),
        }
    }

    /// How many messages are to be delivered ahead now.
    #[must_use]
    pub fn messages(&self) -> u16 {
        self.prefetch
    }

    /// The most messages that are ever to be here.
    #[must_use]
    pub fn most(&self) -> usize {
        if self.aim.is_some() { MESSAGES_MAX as usize } else { self.prefetch.into() }
    }

    /// Takes notice of a message. True when from now on another number is to be delivered ahead.
    pub fn saw(&mut self, seen: Delivered) -> bool {
        let Some(aim) = self.aim else { return false };
        self.messages += 1;
        self.sum.ids += seen.ids;
        self.sum.bytes += seen.bytes;
        self.sum.deliveries = self.sum.deliveries.max(seen.deliveries);
        let sample = SAMPLE.min(u32::from(self.prefetch).div_ceil(2));
        if self.messages < sample && self.sum.bytes < SAMPLE_BYTES {
            return false;
        }
        let messages = f64::from(std::mem::take(&mut self.messages));
        let sum = std::mem::take(&mut self.sum);
        let by_ids = aim as f64 * messages / sum.ids.max(1) as f64;
        let by_bytes = BYTES_AHEAD as f64 * messages / sum.bytes.max(1) as f64;
        let most = if sum.deliveries > 1 { MESSAGES_OF_TWO_DEATHS } else { MESSAGES_MAX };
        self.by_contents = by_ids.min(by_bytes).clamp(MESSAGES_LEAST, most);
        self.fit()
    }

    /// Takes notice of what has happened to messages, and of who works beside this worker. True when
    /// from now on another number is to be delivered ahead.
    pub fn looked(&mut self, now: Instant, progress: Progress, beside: Beside) -> bool {
        let is_alone = beside == Beside::Nobody;
        let is_other = std::mem::replace(&mut self.is_alone, is_alone) != is_alone;
        self.pace.hold(if beside == Beside::Many { HAND_OF_MANY } else { HAND });
        let is_measured = self.pace.saw(now, progress, self.prefetch);
        self.aim.is_some() && (is_other || is_measured) && self.fit()
    }

    fn fit(&mut self) -> bool {
        let in_time = if self.is_alone { MESSAGES_MAX } else { self.pace.messages() };
        let wanted = self.by_contents.min(in_time);
        let now = f64::from(self.prefetch);
        if wanted < now * TIMES && wanted > now / TIMES {
            return false;
        }
        self.prefetch = wanted as u16;
        self.pace.changed();
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Of a worker that is as fast as can be.
    fn fast() -> Prefetch {
        let (mut ahead, begun) = (Prefetch::new(None, 16_000), Instant::now());
        let held = usize::from(MESSAGES_FIRST);
        for (seconds, ended) in [(0, 0), (1, 20), (2, 1_000_000)] {
            let now = begun + Duration::from_secs(seconds);
            assert!(!ahead.looked(now, Progress { ended, held }, Beside::Few));
        }
        ahead
    }

    fn after(ahead: &mut Prefetch, ids: usize) -> (bool, u16) {
        after_seen(ahead, Delivered { ids, bytes: 60, deliveries: 1 })
    }

    fn after_seen(ahead: &mut Prefetch, seen: Delivered) -> (bool, u16) {
        let before = ahead.messages();
        for _ in 0..2 * SAMPLE {
            ahead.saw(seen);
        }
        while ahead.messages > 0 {
            ahead.saw(seen);
        }
        (ahead.messages() != before, ahead.messages())
    }

    #[test]
    fn small_messages_come_in_numbers_and_large_ones_do_not() {
        let mut ahead = fast();
        assert_eq!(after(&mut ahead, 100), (true, 160));
        assert_eq!(after(&mut ahead, 20), (true, 800));
        assert_eq!(after(&mut ahead, 12), (false, 800), "not for less than twice as many");
        assert_eq!(after(&mut ahead, 38), (false, 800), "nor for more than half of them");
        assert_eq!(after(&mut ahead, 45), (true, 355), "half of them are enough");
        assert_eq!(after(&mut ahead, 1), (true, 16_000));
        assert_eq!(after(&mut ahead, 1_000), (true, 20));
        assert_eq!(after(&mut ahead, 1_000_000), (false, 20));
        assert_eq!(after(&mut ahead, 0), (true, 16_000));
    }

    #[test]
    fn of_large_messages_few_are_delivered_ahead_and_this_is_known_before_many_have_come() {
        let mut ahead = fast();
        assert_eq!(after(&mut ahead, 1), (true, 16_000));
        let large = Delivered { ids: 0, bytes: 1 << 20, deliveries: 0 };
        let come = (1..).find(|_| ahead.saw(large));
        assert_eq!((come, ahead.messages()), (Some(8), 32));
        let huge = Delivered { bytes: 100 << 20, ..large };
        assert_eq!((ahead.saw(huge), ahead.messages()), (false, 32), "not for half as many");
        assert_eq!(after(&mut ahead, 1), (true, 16_000), "small ones come in numbers again");
    }

    #[test]
    fn along_with_what_two_workers_have_died_with_only_few_are_delivered() {
        let mut ahead = fast();
        let twice = Delivered { ids: 1, bytes: 60, deliveries: 2 };
        assert_eq!(after_seen(&mut ahead, twice), (true, 200));
        assert_eq!(after(&mut ahead, 1), (true, 16_000), "after one death as many as ever");
        assert_eq!(after_seen(&mut ahead, twice), (true, 200));
    }

    #[test]
    fn no_more_are_delivered_ahead_than_end_in_about_a_second() {
        let mut ahead = Prefetch::new(None, 16_000);
        assert_eq!(ahead.messages(), 20, "nothing is known of them yet");
        assert_eq!(after(&mut ahead, 1), (true, 200), "nothing is known of the worker yet");
        let begun = Instant::now();
        let mut looked = |seconds, ended| {
            let now = begun + Duration::from_secs(seconds);
            let held = ahead.messages().into();
            let changed = ahead.looked(now, Progress { ended, held }, Beside::Few);
            (changed, ahead.messages())
        };
        assert_eq!(looked(0, 0), (false, 200));
        assert_eq!(looked(1, 200), (false, 200), "those were here before the change");
        assert_eq!(looked(2, 2_200), (true, 2_000));
        assert_eq!(looked(3, 2_200), (false, 2_000));
        assert_eq!(looked(4, 4_200), (false, 2_000));
        assert_eq!(looked(9, 6_200), (true, 400), "it has become slower");
        assert_eq!(after(&mut ahead, 1_000), (true, 20), "no more than they hold");
    }

    #[test]
    fn one_of_many_workers_has_twice_as_much_ahead_for_batches_that_are_twice_as_large() {
        let ahead_of = |beside| {
            let (mut ahead, begun) = (Prefetch::new(None, 16_000), Instant::now());
            after(&mut ahead, 1);
            for second in 0..60 {
                let (now, held) = (begun + Duration::from_secs(second), ahead.messages().into());
                ahead.looked(now, Progress { ended: second * 1_000, held }, beside);
            }
            usize::from(ahead.messages())
        };
        assert!((500..=1_000).contains(&ahead_of(Beside::Few)), "{}", ahead_of(Beside::Few));
        assert!((2_000..4_000).contains(&ahead_of(Beside::Many)), "{}", ahead_of(Beside::Many));
    }

    #[test]
    fn a_worker_for_which_others_stand_by_takes_as_much_as_it_may_at_once() {
        let (mut ahead, now) = (Prefetch::new(None, 16_000), Instant::now());
        let progress = Progress { ended: 0, held: 0 };
        assert!(
            !ahead.looked(now, progress, Beside::Nobody),
            "nothing is known of the messages yet"
        );
        assert_eq!(after(&mut ahead, 1), (true, 16_000));
        assert!(ahead.looked(now, progress, Beside::Few), "others work, too, from now on");
        assert_eq!(ahead.messages(), 200);
        assert!(ahead.looked(now, progress, Beside::Nobody));
        assert_eq!(ahead.messages(), 16_000);
    }

    #[test]
    fn what_the_operator_says_counts() {
        let mut ahead = Prefetch::new(Some(7), 16_000);
        assert_eq!(after(&mut ahead, 1), (false, 7));
        assert_eq!(ahead.most(), 7);
    }
}
