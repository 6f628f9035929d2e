//! How many messages a worker ends in about a second: no more are to wait here, so that what one
//! worker can't do soon is left to others.
//!
//! Measures only while the worker has as much as it may have: how fast messages come is no measure
//! of how fast they could be done. Promises to find the pace of a fast worker within some tenths of
//! a second, and not to slow down a worker whose batches take longer than a second each: where
//! having less in hand has made it slower, it gets twice the time. A pure decision; time is passed
//! in.

use std::time::{Duration, Instant};

/// How many messages are ahead before the pace is known.
const MESSAGES_FIRST: f64 = 1_000.0;

/// The fewest: one that is worked on, and one that comes.
const MESSAGES_LEAST: f64 = 2.0;

/// For so long there is work in hand.
const HAND: f64 = 1.0;

/// The longest time for which there is ever work in hand.
const HAND_MAX: f64 = 8.0;

/// Nothing is measured in less.
const SAMPLE_LEAST: Duration = Duration::from_millis(100);

/// A measurement ends after so long, or when all that was in hand has ended before.
const SAMPLE: Duration = Duration::from_secs(1);

/// A worker that is so much slower with less in hand is slower because of that.
const SLOWER: f64 = 0.75;

/// What has happened to the deliveries of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many have ended so far.
    pub ended: u64,
    /// How many the broker has no answer for.
    pub held: usize,
}

/// The pace of a worker.
#[derive(Debug)]
pub struct Pace {
    /// The measurement that is under way.
    begun: Option<(Instant, u64)>,
    /// Seconds of work that are in hand.
    hand: f64,
    messages: f64,
    /// Messages a second when it was measured last, and how many were ahead then.
    last: Option<(f64, u16)>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { begun: None, hand: HAND, messages: MESSAGES_FIRST, last: None }
    }
}

impl Pace {
    /// The most messages that are to be here.
    #[must_use]
    pub fn messages(&self) -> f64 {
        self.messages
    }

    /// Takes notice of what has happened, while so many messages are delivered ahead. True when the
    /// pace was measured anew.
    pub fn saw(&mut self, now: Instant, progress: Progress, ahead: u16) -> bool {
        let has_enough = progress.held * 2 > usize::from(ahead);
        let Some((since, ended)) = self.begun.filter(|_| has_enough) else {
            self.begun = has_enough.then_some((now, progress.ended));
            return false;
        };
        // A new channel counts from the beginning.
        let Some(count) = progress.ended.checked_sub(ended) else {
            self.begun = None;
            return false;
        };
        let took = now.saturating_duration_since(since);
        let is_over = took >= SAMPLE || count >= u64::from(ahead);
        if took < SAMPLE_LEAST || !is_over || count == 0 {
            return false;
        }
        self.begun = Some((now, progress.ended));
        self.measured(count as f64 / took.as_secs_f64(), ahead);
        true
    }

    fn measured(&mut self, per_second: f64, ahead: u16) {
        let last = self.last.replace((per_second, ahead));
        let had_more = last.filter(|(_, before)| ahead < *before);
        let least = match had_more {
            Some((faster, before)) if per_second < faster * SLOWER => {
                self.hand = (self.hand * 2.0).min(HAND_MAX);
                f64::from(before)
            }
            Some(_) => {
                self.hand = (self.hand / 2.0).max(HAND);
                MESSAGES_LEAST
            }
            None => MESSAGES_LEAST,
        };
        self.messages = (per_second * self.hand).max(least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that ends so many messages a second, each at the earliest after so long; returns
    /// what it has ahead in the end.
    fn settles(pace: &mut Pace, mut ahead: u16, per_s: f64, least: f64, seconds: f64) -> u16 {
        let begun = Instant::now();
        let (mut ended, step) = (0.0, 0.1);
        for n in 0..(seconds / step) as u32 {
            let now = begun + Duration::from_secs_f64(f64::from(n) * step);
            let progress = Progress { ended: ended as u64, held: ahead.into() };
            // As whoever consumes does: not for a little.
            let differs =
                |wanted: f64| wanted > f64::from(ahead) * 1.9 || wanted < f64::from(ahead) / 1.9;
            if pace.saw(now, progress, ahead) && differs(pace.messages().min(16_000.0)) {
                ahead = pace.messages().min(16_000.0) as u16;
            }
            ended += per_s.min(f64::from(ahead) / least) * step;
        }
        ahead
    }

    #[test]
    fn a_worker_has_about_a_second_of_its_work_in_hand() {
        for per_s in [3.0, 100.0, 1_500.0, 9_000.0] {
            let ahead = settles(&mut Pace::default(), 1_000, per_s, 0.02, 10.0);
            assert!((0.5..2.0).contains(&(f64::from(ahead) / per_s)), "{ahead} at {per_s}/s");
        }
    }

    #[test]
    fn a_fast_worker_is_known_within_some_tenths_of_a_second() {
        let ahead = settles(&mut Pace::default(), 1_000, 50_000.0, 0.05, 0.5);
        assert!(ahead > 8_000, "{ahead}");
    }

    #[test]
    fn a_worker_whose_batches_take_long_is_not_slowed_down() {
        let mut pace = Pace::default();
        let ahead = settles(&mut pace, 1_000, 100_000.0, 3.0, 60.0);
        assert!(ahead >= 1_000, "{ahead}");
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
