//! Which way the next batch goes, where the engine chooses.
//!
//! A native transaction is the cheaper way for most loads, as long as its documents are nobody else's
//! at that moment. So the engine begins with the native way, and leaves it for one of two reasons:
//!
//! - Where other workers settle on the same accounts, attempts are lost to conflicts. The engine adds up
//!   how much time is lost so, and goes on in two phases when that is more than two phases cost.
//! - Where many transactions are for few accounts, or have many legs, native batches wait for each
//!   other, and two phases may be faster on the same servers. So while there is always more to do, the
//!   engine tries two phases for a moment, and stays with what has settled more.
//!
//! After a while it tries the other way again, because the load may have changed; each time in vain makes
//! the next while twice as long. A pure decision: the clock and the randomness are passed in. Either way
//! is right at any moment, so a wrong choice costs time only.

use super::pace::Pace;

/// From this share of lost time on, two phases are better: they settle some 0.7 times as many
/// transactions in the same time.
const LOST_MAX: f64 = 0.3;

/// So many attempts must be lost before they are taken for more than chance: a fresh collection, or
/// what this worker itself has still under way in two phases, costs an attempt or two.
const LOSSES_LEAST: f64 = 3.0;

/// Until so many attempts are committed, they are small: what may be lost should not be much.
const COMMITS_LEAST: f64 = 3.0;

/// How many transactions such a small attempt has.
const TRIAL: usize = 250;

/// After so many attempts, all of them count for half.
const ATTEMPTS_MAX: f64 = 16.0;

/// The shortest and the longest time in two phases, in milliseconds.
const WAIT_FIRST_MS: i64 = 4_000;
const WAIT_MAX_MS: i64 = 128_000;

/// The shortest and the longest time between two comparisons of the ways, in milliseconds. A comparison
/// costs about a second and a half on the slower way.
const COMPARED_FIRST_MS: i64 = 16_000;
const COMPARED_MAX_MS: i64 = 128_000;

/// How long two phases are tried at most, in milliseconds: if the load becomes light meanwhile, there is
/// nothing to compare.
const TRIED_MAX_MS: i64 = 3_000;

/// How many times as much two phases have to settle: less is chance.
const FASTER: f64 = 1.05;

/// After so many times the last wait without a retreat, the next wait is short again.
const CALM: i64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Native transactions, since this moment.
    Native(i64),
    /// Two phases, until this moment.
    TwoPhase(i64),
}

/// Attempts, and the milliseconds that they took. They count for less and less.
#[derive(Clone, Copy, Debug, Default)]
struct Attempts {
    number: f64,
    ms: f64,
}

impl Attempts {
    fn add(&mut self, took_ms: i64) {
        self.number += 1.0;
        // An attempt takes some time, also where the clock does not show it.
        self.ms += took_ms.max(1) as f64;
    }

    fn halve(&mut self) {
        *self = Attempts { number: self.number / 2.0, ms: self.ms / 2.0 };
    }
}

/// What the engine has seen of conflicts.
#[derive(Debug)]
pub(super) struct Chooser {
    mode: Mode,
    /// How long two phases last, when it comes to that again.
    wait_ms: i64,
    committed: Attempts,
    lost: Attempts,
    /// The measurement of the way that is gone now.
    pace: Pace,
    /// What the native way has settled a second when it was measured last.
    native_rate: Option<f64>,
    /// What two phases have, if they were better then.
    two_phase_rate: Option<f64>,
    /// Whether two phases are only tried.
    is_trial: bool,
    /// When two phases are tried next, and how long after that again, if in vain.
    compare_at: i64,
    compare_wait_ms: i64,
}

impl Default for Chooser {
    fn default() -> Chooser {
        Chooser {
            mode: Mode::Native(i64::MIN),
            wait_ms: WAIT_FIRST_MS,
            committed: Attempts::default(),
            lost: Attempts::default(),
            pace: Pace::default(),
            native_rate: None,
            two_phase_rate: None,
            is_trial: false,
            compare_at: i64::MIN,
            compare_wait_ms: COMPARED_FIRST_MS,
        }
    }
}

impl Chooser {
    /// Whether a batch that begins now goes the native way.
    pub fn is_native(&mut self, now_ms: i64) -> bool {
        match self.mode {
            Mode::Native(_) => true,
            Mode::TwoPhase(until) if now_ms < until => false,
            Mode::TwoPhase(_) => {
                self.go_native(now_ms);
                true
            }
        }
    }

    fn go_native(&mut self, now_ms: i64) {
        let fresh = Attempts::default();
        (self.mode, self.committed, self.lost) = (Mode::Native(now_ms), fresh, fresh);
        (self.pace, self.is_trial) = (Pace::after_change(now_ms), false);
    }

    fn go_in_phases(&mut self, now_ms: i64, wait_ms: i64) {
        self.mode = Mode::TwoPhase(now_ms.saturating_add(wait_ms));
        self.pace = Pace::after_change(now_ms);
    }

    /// Learns that a batch of so many transactions is decided; a full one was not waited for.
    pub fn decided(&mut self, count: usize, is_full: bool, now_ms: i64, jitter: f64) {
        if !is_full {
            self.pace.light();
            return;
        }
        let Some(rate) = self.pace.full(count, now_ms) else { return };
        match self.mode {
            Mode::Native(_) => {
                self.native_rate = Some(rate);
                if self.two_phase_rate.is_some_and(|other| other > rate * FASTER) {
                    self.stay_in_phases(now_ms, jitter);
                } else if now_ms >= self.compare_at {
                    self.go_in_phases(now_ms, TRIED_MAX_MS);
                    self.is_trial = true;
                    self.put_comparison_off(now_ms, jitter);
                } else {
                    self.two_phase_rate = None;
                }
            }
            Mode::TwoPhase(_) => {
                let is_faster = self.native_rate.is_none_or(|native| rate > native * FASTER);
                self.two_phase_rate = is_faster.then_some(rate);
                if self.is_trial && is_faster {
                    self.compare_wait_ms = COMPARED_FIRST_MS;
                    self.stay_in_phases(now_ms, jitter);
                } else if self.is_trial {
                    self.go_native(now_ms);
                }
            }
        }
    }

    /// Two phases have settled more.
    fn stay_in_phases(&mut self, now_ms: i64, jitter: f64) {
        self.is_trial = false;
        let wait_ms = self.put_comparison_off(now_ms, jitter);
        self.go_in_phases(now_ms, wait_ms);
    }

    /// Returns how long.
    fn put_comparison_off(&mut self, now_ms: i64, jitter: f64) -> i64 {
        let wait_ms = jittered(self.compare_wait_ms, jitter);
        self.compare_wait_ms = (2 * self.compare_wait_ms).min(COMPARED_MAX_MS);
        self.compare_at = now_ms.saturating_add(wait_ms);
        wait_ms
    }

    /// The most transactions of an attempt.
    pub fn most(&self) -> usize {
        if self.committed.number < COMMITS_LEAST { TRIAL } else { usize::MAX }
    }

    /// Learns how long an attempt to commit took, and whether a conflict has undone it.
    pub fn learn(&mut self, was_lost: bool, took_ms: i64, now_ms: i64, jitter: f64) {
        // Otherwise the attempt belongs to a batch that began before the retreat.
        let Mode::Native(since) = self.mode else { return };
        let attempts = if was_lost { &mut self.lost } else { &mut self.committed };
        attempts.add(took_ms);
        if self.committed.number + self.lost.number > ATTEMPTS_MAX {
            self.committed.halve();
            self.lost.halve();
        }
        if now_ms.saturating_sub(since) > CALM * self.wait_ms {
            self.wait_ms = WAIT_FIRST_MS;
        }
        let share = self.lost.ms / (self.lost.ms + self.committed.ms);
        if was_lost && self.lost.number >= LOSSES_LEAST && share > LOST_MAX {
            self.go_in_phases(now_ms, jittered(self.wait_ms, jitter));
            self.wait_ms = (2 * self.wait_ms).min(WAIT_MAX_MS);
        }
    }
}

/// Workers that leave the native way together must not come back together.
fn jittered(wait_ms: i64, jitter: f64) -> i64 {
    (wait_ms as f64 * (0.75 + 0.5 * jitter)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDDLE: f64 = 0.5;

    fn lose_until_retreat(chooser: &mut Chooser, now: i64) -> i32 {
        let mut losses = 0;
        while chooser.is_native(now) {
            chooser.learn(true, 50, now, MIDDLE);
            losses += 1;
            assert!(losses < 20, "never gives up");
        }
        losses
    }

    #[test]
    fn a_few_losses_are_borne_and_many_are_not() {
        let mut chooser = Chooser::default();
        // Lost attempts at the beginning are chance, however long they take.
        chooser.learn(true, 60_000, 0, MIDDLE);
        chooser.learn(false, 20, 0, MIDDLE);
        assert!(chooser.is_native(0));
        let mut chooser = Chooser::default();
        for step in 0..1_000 {
            // Every fifth attempt is lost: still cheaper than two phases.
            chooser.learn(step % 5 == 0, 20, step * 20, MIDDLE);
            assert!(chooser.is_native(step * 20), "after {step}");
        }
        assert_eq!(chooser.most(), usize::MAX);
        assert!(lose_until_retreat(&mut chooser, 20_000) <= 8);
        assert!(chooser.is_native(60_000) && chooser.most() == TRIAL);
        let mut chooser = Chooser::default();
        assert_eq!(lose_until_retreat(&mut chooser, 0), 3);
    }

    #[test]
    fn it_tries_again_after_waits_that_double() {
        let (mut chooser, mut now, mut wait) = (Chooser::default(), 0, WAIT_FIRST_MS);
        for _ in 0..10 {
            lose_until_retreat(&mut chooser, now);
            assert!(!chooser.is_native(now + wait - 1));
            now += wait;
            assert!(chooser.is_native(now));
            wait = (2 * wait).min(WAIT_MAX_MS);
        }
        assert_eq!(wait, WAIT_MAX_MS);
        // The others have gone.
        for step in 0..100 {
            chooser.learn(false, 50, now + step, MIDDLE);
            assert!(chooser.is_native(now + step));
        }
    }

    #[test]
    fn a_short_peace_does_not_shorten_the_next_wait_and_a_long_one_does() {
        for (peace_ms, expected) in [(100, 2 * WAIT_FIRST_MS), (60_000, WAIT_FIRST_MS)] {
            let mut chooser = Chooser::default();
            lose_until_retreat(&mut chooser, 0);
            let now = WAIT_FIRST_MS + peace_ms;
            assert!(chooser.is_native(WAIT_FIRST_MS));
            lose_until_retreat(&mut chooser, now);
            assert!(!chooser.is_native(now + expected - 1), "{peace_ms}");
            assert!(chooser.is_native(now + expected), "{peace_ms}");
        }
    }

    #[test]
    fn workers_that_retreat_together_come_back_apart() {
        let until = |jitter| {
            let mut chooser = Chooser::default();
            while chooser.is_native(0) {
                chooser.learn(true, 50, 0, jitter);
            }
            (0..).find(|now| chooser.is_native(*now)).expect("some time")
        };
        assert!(until(0.9) - until(0.1) > WAIT_FIRST_MS / 4);
    }

    /// Settles full batches of 1,000 until a moment, at these rates for native batches and in two
    /// phases; returns the share of time in two phases, and how often the way has changed.
    fn work(
        chooser: &mut Chooser,
        (from, to): (i64, i64),
        (native, two_phase): (i64, i64),
    ) -> (f64, usize) {
        let (mut now, mut in_phases_ms, mut changes, mut before) = (from, 0, 0, None);
        while now < to {
            let is_native = chooser.is_native(now);
            changes += usize::from(before.replace(is_native).is_some_and(|last| last != is_native));
            let took = 1_000_000 / if is_native { native } else { two_phase };
            now += took;
            in_phases_ms += if is_native { 0 } else { took };
            chooser.decided(1_000, true, now, MIDDLE);
        }
        (in_phases_ms as f64 / (to - from) as f64, changes)
    }

    #[test]
    fn it_stays_with_the_way_that_settles_more_and_does_not_flap() {
        let mut chooser = Chooser::default();
        let (share, _) = work(&mut chooser, (0, 10_000), (6_000, 8_000));
        assert!(share > 0.8, "two phases are faster, and had {share} of ten seconds");
        let (share, changes) = work(&mut chooser, (10_000, 600_000), (6_000, 8_000));
        assert!(share > 0.95 && changes <= 20, "{share}, {changes} changes");

        let mut chooser = Chooser::default();
        let (share, _) = work(&mut chooser, (0, 10_000), (10_000, 8_000));
        assert!(share < 0.2, "native batches are faster, and two phases had {share}");
        let (share, changes) = work(&mut chooser, (10_000, 600_000), (10_000, 8_000));
        assert!(share < 0.05 && changes <= 20, "{share}, {changes} changes");
    }

    #[test]
    fn it_follows_a_load_that_changes() {
        let mut chooser = Chooser::default();
        work(&mut chooser, (0, 60_000), (6_000, 8_000));
        let (share, _) = work(&mut chooser, (60_000, 400_000), (10_000, 8_000));
        assert!(share < 0.4, "native batches have become faster, and two phases had {share}");
        let (share, _) = work(&mut chooser, (400_000, 900_000), (6_000, 8_000));
        assert!(share > 0.6, "two phases have become faster, and had {share}");
    }

    #[test]
    fn a_light_load_is_not_compared() {
        let mut chooser = Chooser::default();
        for now in (0..60_000).step_by(10) {
            assert!(chooser.is_native(now));
            chooser.decided(10, false, now, MIDDLE);
        }
        // It becomes light in the middle of a trial.
        let mut now = 0;
        while chooser.is_native(now) {
            now += 100;
            chooser.decided(1_000, true, now, MIDDLE);
        }
        chooser.decided(10, false, now + 100, MIDDLE);
        assert!(chooser.is_native(now + TRIED_MAX_MS));
    }
}
