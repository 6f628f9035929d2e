//! Whether conflicts with others cost too much, where the engine chooses.
//!
//! A native transaction is the cheaper way, as long as its documents are nobody else's at that
//! moment. Where other workers settle on the same accounts, attempts are lost to conflicts. So the
//! engine goes the native way, adds up how much time is lost there, and goes on in two phases when
//! that is more than two phases cost. After a while it tries again, because the others may have
//! gone; each time in vain makes the next while twice as long. A pure decision: the clock and the
//! randomness are passed in. Either way is right at any moment, so a wrong choice costs time only.

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
pub(super) struct Conflicts {
    mode: Mode,
    /// How long two phases last, when it comes to that again.
    wait_ms: i64,
    committed: Attempts,
    lost: Attempts,
}

impl Default for Conflicts {
    fn default() -> Conflicts {
        Conflicts {
            mode: Mode::Native(i64::MIN),
            wait_ms: WAIT_FIRST_MS,
            committed: Attempts::default(),
            lost: Attempts::default(),
        }
    }
}

impl Conflicts {
    /// Whether a batch that begins now goes the native way.
    pub fn is_native(&mut self, now_ms: i64) -> bool {
        match self.mode {
            Mode::Native(_) => true,
            Mode::TwoPhase(until) if now_ms < until => false,
            Mode::TwoPhase(_) => {
                let fresh = Attempts::default();
                (self.mode, self.committed, self.lost) = (Mode::Native(now_ms), fresh, fresh);
                true
            }
        }
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
            // Workers that retreat together must not come back together.
            let wait = self.wait_ms as f64 * (0.75 + 0.5 * jitter);
            self.mode = Mode::TwoPhase(now_ms.saturating_add(wait as i64));
            self.wait_ms = (2 * self.wait_ms).min(WAIT_MAX_MS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDDLE: f64 = 0.5;

    fn lose_until_retreat(conflicts: &mut Conflicts, now: i64) -> i32 {
        let mut losses = 0;
        while conflicts.is_native(now) {
            conflicts.learn(true, 50, now, MIDDLE);
            losses += 1;
            assert!(losses < 20, "never gives up");
        }
        losses
    }

    #[test]
    fn a_few_losses_are_borne_and_many_are_not() {
        let mut conflicts = Conflicts::default();
        // Lost attempts at the beginning are chance, however long they take.
        conflicts.learn(true, 60_000, 0, MIDDLE);
        conflicts.learn(false, 20, 0, MIDDLE);
        assert!(conflicts.is_native(0));
        let mut conflicts = Conflicts::default();
        for step in 0..1_000 {
            // Every fifth attempt is lost: still cheaper than two phases.
            conflicts.learn(step % 5 == 0, 20, step * 20, MIDDLE);
            assert!(conflicts.is_native(step * 20), "after {step}");
        }
        assert_eq!(conflicts.most(), usize::MAX);
        assert!(lose_until_retreat(&mut conflicts, 20_000) <= 8);
        assert!(conflicts.is_native(60_000) && conflicts.most() == TRIAL);
        let mut conflicts = Conflicts::default();
        assert_eq!(lose_until_retreat(&mut conflicts, 0), 3);
    }

    #[test]
    fn it_tries_again_after_waits_that_double() {
        let (mut conflicts, mut now, mut wait) = (Conflicts::default(), 0, WAIT_FIRST_MS);
        for _ in 0..10 {
            lose_until_retreat(&mut conflicts, now);
            assert!(!conflicts.is_native(now + wait - 1));
            now += wait;
            assert!(conflicts.is_native(now));
            wait = (2 * wait).min(WAIT_MAX_MS);
        }
        assert_eq!(wait, WAIT_MAX_MS);
        // The others have gone.
        for step in 0..100 {
            conflicts.learn(false, 50, now + step, MIDDLE);
            assert!(conflicts.is_native(now + step));
        }
    }

    #[test]
    fn a_short_peace_does_not_shorten_the_next_wait_and_a_long_one_does() {
        for (peace_ms, expected) in [(100, 2 * WAIT_FIRST_MS), (60_000, WAIT_FIRST_MS)] {
            let mut conflicts = Conflicts::default();
            lose_until_retreat(&mut conflicts, 0);
            let now = WAIT_FIRST_MS + peace_ms;
            assert!(conflicts.is_native(WAIT_FIRST_MS));
            lose_until_retreat(&mut conflicts, now);
            assert!(!conflicts.is_native(now + expected - 1), "{peace_ms}");
            assert!(conflicts.is_native(now + expected), "{peace_ms}");
        }
    }

    #[test]
    fn workers_that_retreat_together_come_back_apart() {
        let until = |jitter| {
            let mut conflicts = Conflicts::default();
            while conflicts.is_native(0) {
                conflicts.learn(true, 50, 0, jitter);
            }
            (0..).find(|now| conflicts.is_native(*now)).expect("some time")
        };
        assert!(until(0.9) - until(0.1) > WAIT_FIRST_MS / 4);
    }
}
