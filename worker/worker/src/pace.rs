//! How many messages are to be here so that a worker has about a second of work, or two where its
//! batches are to be larger: what it can't do soon is left to others.
//!
//! Measures only while the worker has as much as it may have, because how fast messages come is no
//! measure of how fast they could be done; and only when all that was here at the last change has
//! ended. A worker whose batches take long needs more in hand than a second of work, and that shows
//! in its pace: with twice as much in hand it is faster, and with less it is slower. So both are
//! tried. A pure decision; time is passed in.

use std::time::{Duration, Instant};

/// How many messages are ahead before the pace is known.
const MESSAGES_FIRST: f64 = 200.0;

/// The fewest: one that is worked on, and one that comes.
const MESSAGES_LEAST: f64 = 2.0;

/// Seconds of work that are in hand: at least half of it, at most twice as much.
pub const HAND: f64 = 1.0;

/// The same of a worker that is slower with less.
const HAND_MAX: f64 = 8.0;

/// A measurement takes at least so long.
const SAMPLE_LEAST: Duration = Duration::from_millis(100);

/// It ends when as many messages have ended as are in hand, or after so long.
const SAMPLE_MOST: Duration = Duration::from_secs(5);

/// When nothing has ended for so long, a measurement begins again: a server that answers nothing is
/// no pace.
const NOTHING_MOST: Duration = Duration::from_secs(30);

/// More in hand is kept if the worker is so many times as fast with it: larger batches cost less.
const FASTER: f64 = 9.0 / 8.0;

/// Less in hand is kept unless the worker has no more than this part of its pace with it.
const SLOWER: f64 = 3.0 / 4.0;

/// What has brought nothing is tried again after so long.
const REST: Duration = Duration::from_secs(60);

/// What has happened to the deliveries of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many have ended so far.
    pub ended: u64,
    /// How many the broker has no answer for.
    pub held: usize,
}

/// What is found out now.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trying {
    Nothing,
    /// Whether it is faster with more than these messages, than so many a second.
    More(u16, f64),
    /// Whether it is slower with less; if so, it gets so many seconds of work in hand.
    Less(u16, f64, f64),
}

/// The pace of a worker.
#[derive(Debug)]
pub struct Pace {
    /// How many have ended so far.
    seen: u64,
    /// Nothing is measured before so many have ended: those were here before the last change.
    from: Option<u64>,
    /// The number of messages ahead has just been changed.
    is_changed: bool,
    /// The measurement that is under way.
    begun: Option<(Instant, u64)>,
    trying: Trying,
    /// More was tried last, and has brought nothing.
    more_was_vain: bool,
    /// More is not tried before that.
    rests_until: Option<Instant>,
    /// Seconds of work that are in hand, and how many it is to have at least.
    hand: f64,
    least: f64,
    messages: f64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            seen: 0,
            from: None,
            is_changed: true,
            begun: None,
            trying: Trying::Nothing,
            more_was_vain: false,
            rests_until: None,
            hand: HAND,
            least: HAND,
            messages: MESSAGES_FIRST,
        }
    }
}

impl Pace {
    /// The most messages that are to be here.
    #[must_use]
    pub fn messages(&self) -> f64 {
        self.messages
    }

    /// So many seconds of work are to be in hand at least, from the next measurement on.
    pub fn hold(&mut self, seconds: f64) {
        self.least = seconds;
        self.hand = self.hand.max(seconds);
    }

    /// Takes notice that another number is delivered ahead.
    pub fn changed(&mut self) {
        (self.is_changed, self.begun) = (true, None);
    }

    /// Takes notice of what has happened, while so many messages are delivered ahead. True when the
    /// pace was measured anew.
    pub fn saw(&mut self, now: Instant, progress: Progress, ahead: u16) -> bool {
        let Progress { ended, held } = progress;
        if ended < std::mem::replace(&mut self.seen, ended) {
            // A new channel counts from the beginning.
            (self.from, self.begun, self.trying) = (None, None, Trying::Nothing);
        }
        if std::mem::take(&mut self.is_changed) {
            self.from = Some(ended + held as u64);
        }
        let has_enough = held * 2 > usize::from(ahead);
        let is_clean = self.from.is_none_or(|from| ended >= from);
        let Some((since, before)) = self.begun.filter(|_| has_enough) else {
            self.begun = (has_enough && is_clean).then_some((now, ended));
            return false;
        };
        let (took, count) = (now.saturating_duration_since(since), ended - before);
        if count == 0 && took >= NOTHING_MOST {
            self.begun = Some((now, ended));
        }
        let is_over = took >= SAMPLE_MOST || count >= u64::from(ahead);
        if took < SAMPLE_LEAST || !is_over || count == 0 {
            return false;
        }
        self.begun = Some((now, ended));
        self.measured(now, count as f64 / took.as_secs_f64(), ahead);
        true
    }

    fn measured(&mut self, now: Instant, per_s: f64, ahead: u16) {
        let messages = f64::from(ahead);
        match std::mem::replace(&mut self.trying, Trying::Nothing) {
            Trying::More(before, pace) if per_s < pace * FASTER || ahead <= before => {
                (self.messages, self.more_was_vain) = (before.into(), true);
                self.rests_until = Some(now + REST);
                return;
            }
            Trying::Less(before, pace, hand) if ahead < before && per_s < pace * SLOWER => {
                // Once it needs more than it had, more is tried at once.
                self.rests_until = (hand <= self.hand).then_some(now + REST);
                (self.messages, self.hand, self.more_was_vain) = (before.into(), hand, false);
                return;
            }
            Trying::Less(before, ..) if ahead < before => {
                (self.hand, self.more_was_vain) = ((self.hand / 2.0).max(self.least), false);
            }
            Trying::Less(..) | Trying::More(..) | Trying::Nothing => {}
        }
        let (seconds, hand) = (messages / per_s, self.hand);
        let rests = self.rests_until.is_some_and(|until| now < until);
        if seconds > hand * 2.0 {
            self.trying = Trying::Less(ahead, per_s, (hand * 2.0).min(HAND_MAX));
            self.messages = (per_s * hand).max(MESSAGES_LEAST);
        } else if seconds < hand / 2.0 {
            self.hand = (hand / 2.0).max(self.least);
            self.messages = (per_s * self.hand).max(messages);
        } else if !rests && hand > self.least && self.more_was_vain {
            self.trying = Trying::Less(ahead, per_s, hand);
            self.messages = (messages / 2.0).max(MESSAGES_LEAST);
        } else if !rests {
            self.trying = Trying::More(ahead, per_s);
            self.messages = messages * 2.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANES: usize = 2;
    const BATCH: usize = 2_000;
    const MOST: f64 = 16_000.0;
    const STEP: f64 = 0.01;

    /// A worker, its broker, and always more messages. A batch takes a fixed time, and more for
    /// each message; the messages of all lanes share what makes the second part take long.
    struct Model {
        fixed_s: f64,
        per_message_s: f64,
        /// The consumer's own, and those of consumers before it.
        unacknowledged: [usize; 2],
        waiting: usize,
        /// Of each batch its size, and how many seconds of each part are left.
        lanes: Vec<(usize, f64, f64)>,
        ended: u64,
        ahead: u16,
        changes: usize,
        now: Instant,
    }

    impl Model {
        fn new(fixed_s: f64, per_message_s: f64, ahead: u16) -> Model {
            let (unacknowledged, waiting, lanes) = ([0; 2], 0, Vec::new());
            let (ended, changes, now) = (0, 0, Instant::now());
            Model {
                fixed_s,
                per_message_s,
                unacknowledged,
                waiting,
                lanes,
                ended,
                ahead,
                changes,
                now,
            }
        }

        fn step(&mut self) {
            let delivered = usize::from(self.ahead).saturating_sub(self.unacknowledged[0]);
            self.unacknowledged[0] += delivered;
            self.waiting += delivered;
            while self.lanes.len() < LANES && self.waiting > 0 {
                let size = self.waiting.min(BATCH);
                self.waiting -= size;
                self.lanes.push((size, self.fixed_s, size as f64 * self.per_message_s));
            }
            let shared = self.lanes.len() as f64;
            for (_, fixed, work) in &mut self.lanes {
                match *fixed > 0.0 {
                    true => *fixed -= STEP,
                    false => *work -= STEP / shared,
                }
            }
            let over = |(_, fixed, work): &(usize, f64, f64)| *fixed <= 0.0 && *work <= 0.0;
            let ends: usize =
                self.lanes.iter().filter(|one| over(one)).map(|(size, ..)| size).sum();
            self.lanes.retain(|one| !over(one));
            self.ended += ends as u64;
            let of_before = ends.min(self.unacknowledged[1]);
            self.unacknowledged[1] -= of_before;
            self.unacknowledged[0] -= ends - of_before;
        }

        /// Runs so long; returns how many messages ended a second in its second half.
        fn run(&mut self, pace: &mut Option<Pace>, seconds: f64) -> f64 {
            let steps = (seconds / STEP) as u32;
            let mut half = 0;
            for n in 0..steps {
                self.step();
                self.now += Duration::from_secs_f64(STEP);
                if n == steps / 2 {
                    half = self.ended;
                }
                let progress =
                    Progress { ended: self.ended, held: self.unacknowledged.iter().sum() };
                let Some(pace) = pace.as_mut().filter(|_| n % 10 == 0) else { continue };
                let ahead = f64::from(self.ahead);
                if pace.saw(self.now, progress, self.ahead) {
                    let wanted = pace.messages().min(MOST);
                    if wanted >= ahead * 2.0 || wanted <= ahead / 2.0 {
                        let [own, before] = self.unacknowledged;
                        self.unacknowledged = [0, own + before];
                        self.ahead = wanted as u16;
                        self.changes += 1;
                        pace.changed();
                    }
                }
            }
            (self.ended - half) as f64 / (seconds / 2.0)
        }
    }

    fn settles(fixed_s: f64, per_message_s: f64, seconds: f64) -> (f64, Model) {
        let mut model = Model::new(fixed_s, per_message_s, 200);
        (model.run(&mut Some(Pace::default()), seconds), model)
    }

    #[test]
    fn a_slow_worker_has_about_a_second_of_its_work_in_hand() {
        for per_message_s in [0.000_5, 0.001, 0.01, 0.1] {
            let (per_s, model) = settles(0.01, per_message_s, 200.0);
            let seconds = f64::from(model.ahead) / per_s;
            assert!((0.4..2.2).contains(&seconds), "{seconds} s in hand at {per_s}/s");
            assert!(per_s * per_message_s > 0.8, "{per_s} where {} could be", 1.0 / per_message_s);
            assert!(model.changes < 30, "{} changes", model.changes);
        }
    }

    #[test]
    fn a_fast_worker_is_known_within_a_second() {
        let (_, model) = settles(0.02, 0.000_05, 1.0);
        assert!(model.ahead > 4_000, "{}", model.ahead);
    }

    #[test]
    fn a_worker_whose_batches_take_long_is_not_slowed_down() {
        for fixed_s in [0.02, 0.1, 0.3, 0.6, 1.0, 1.5, 3.0] {
            let freely = Model::new(fixed_s, 0.000_1, 16_000).run(&mut None, 120.0);
            let (per_s, model) = settles(fixed_s, 0.000_1, 120.0);
            assert!(per_s > freely * 0.7, "{per_s} of {freely} at {fixed_s} s: {}", model.ahead);
            assert!(model.changes < 30, "{} changes at {fixed_s}", model.changes);
        }
    }

    #[test]
    fn a_worker_that_becomes_slower_has_less_in_hand_and_more_when_it_is_fast_again() {
        let mut model = Model::new(0.02, 0.000_05, 200);
        let mut pace = Some(Pace::default());
        model.run(&mut pace, 10.0);
        assert!(model.ahead > 8_000, "{}", model.ahead);
        model.per_message_s = 0.002;
        model.run(&mut pace, 120.0);
        assert!(model.ahead < 2_000, "{}", model.ahead);
        model.per_message_s = 0.000_05;
        model.run(&mut pace, 10.0);
        assert!(model.ahead > 8_000, "{}", model.ahead);
    }

    #[test]
    fn a_worker_that_once_needed_much_in_hand_has_a_second_of_work_again_later() {
        let mut model = Model::new(3.0, 0.000_1, 200);
        let mut pace = Some(Pace::default());
        model.run(&mut pace, 120.0);
        assert!(pace.as_ref().expect("it is there").hand > HAND);
        (model.fixed_s, model.per_message_s) = (0.01, 0.001);
        model.run(&mut pace, 900.0);
        assert!((400..2_500).contains(&model.ahead), "{}", model.ahead);
        assert_eq!(pace.expect("it is there").hand, HAND);
    }

    #[test]
    fn on_a_new_channel_the_pace_is_measured_from_the_beginning() {
        let mut model = Model::new(0.01, 0.000_05, 200);
        let mut pace = Some(Pace::default());
        model.run(&mut pace, 60.0);
        assert!(model.ahead > 8_000, "{}", model.ahead);
        // The number ahead was changed, then it was quiet. What the old one had comes again.
        let quiet = Progress { ended: model.ended, held: 0 };
        let known = pace.as_mut().expect("it is there");
        known.changed();
        assert!(!known.saw(model.now, quiet, model.ahead));
        (model.ended, model.unacknowledged, model.waiting) = (0, [0; 2], 0);
        (model.lanes, model.per_message_s) = (Vec::new(), 0.002);
        model.run(&mut pace, 120.0);
        assert!(model.ahead < 2_000, "{}", model.ahead);
    }

    #[test]
    fn after_a_server_has_answered_nothing_for_a_while_the_pace_is_as_before() {
        let mut model = Model::new(0.01, 0.000_05, 200);
        let mut pace = Some(Pace::default());
        model.run(&mut pace, 60.0);
        let before = model.ahead;
        model.lanes.iter_mut().for_each(|(_, fixed, _)| *fixed = 60.0);
        let changes = model.changes;
        model.run(&mut pace, 63.0);
        assert!(model.ahead >= before / 2 && model.changes <= changes + 3, "{}", model.ahead);
    }

    #[test]
    fn nothing_is_measured_while_little_is_here() {
        let (mut pace, begun) = (Pace::default(), Instant::now());
        for n in 0..100 {
            let now = begun + Duration::from_millis(100 * n);
            assert!(!pace.saw(now, Progress { ended: n, held: 500 }, 1_000));
        }
        assert_eq!(pace.messages(), MESSAGES_FIRST);
    }

    #[test]
    fn a_server_that_answers_nothing_for_a_while_is_no_pace() {
        let (mut pace, begun) = (Pace::default(), Instant::now());
        for n in 0..100 {
            let now = begun + Duration::from_millis(100 * n);
            assert!(!pace.saw(now, Progress { ended: 7, held: 1_000 }, 1_000));
        }
        assert_eq!(pace.messages(), MESSAGES_FIRST);
    }
}
