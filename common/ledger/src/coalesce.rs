//! What several tasks want at the same time, done once for all of them.
//!
//! Where many come at once, each would cost the servers a command and the broker a message of its
//! own, and take a place for which others wait. Who finds nobody at work begins; who comes
//! meanwhile waits, and the first of those who wait does the work of all. Promises that each gets
//! the answer to its own, and waits for no more than the work that is under way and its own. Fails
//! with `None` where the one who did the work broke down or was dropped: then nobody knows how much
//! of it was done.

use std::sync::{Mutex, MutexGuard};

use tokio::sync::oneshot::{self, Sender, error::TryRecvError};

/// Those who want something done, each with the way back for the answer.
pub struct Coalesced<T, R> {
    waiting: Mutex<Vec<(T, Sender<R>)>>,
    turn: tokio::sync::Mutex<()>,
}

impl<T, R> Default for Coalesced<T, R> {
    fn default() -> Coalesced<T, R> {
        Coalesced { waiting: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }
}

impl<T, R> Coalesced<T, R> {
    /// Has something done, by `work` or by that of somebody else; `work` answers for each in their
    /// order.
    pub async fn run<F>(&self, wanted: T, work: impl FnOnce(Vec<T>) -> F) -> Option<R>
    where
        F: Future<Output = Vec<R>>,
    {
        let (answer, mut answered) = oneshot::channel();
        self.waiting().push((wanted, answer));
        let _turn = self.turn.lock().await;
        match answered.try_recv() {
            // Nobody has taken it along.
            Err(TryRecvError::Empty) => {}
            taken_along => return taken_along.ok(),
        }
        let (all, answers): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *self.waiting()).into_iter().unzip();
        for (answer, result) in answers.into_iter().zip(work(all).await) {
            // Sending fails only if nobody waits for it any more.
            drop(answer.send(result));
        }
        answered.try_recv().ok()
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<(T, Sender<R>)>> {
        // No holder leaves it half changed.
        self.waiting.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use futures_util::future::join_all;
    use futures_util::{FutureExt, join};
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn those_who_come_while_somebody_works_are_served_together_and_each_gets_its_own_answer()
    {
        let (joint, go_on, rounds) = (Coalesced::default(), Notify::new(), Mutex::new(Vec::new()));
        let double = async |wanted: Vec<u32>| {
            rounds.lock().expect("one thread").push(wanted.len());
            go_on.notified().await;
            wanted.into_iter().map(|number| number * 2).collect()
        };
        let first = joint.run(1, double);
        let others = join_all([2, 3, 4].map(|number| joint.run(number, double)));
        let going_on = async {
            for _ in 0..8 {
                tokio::task::yield_now().await;
                go_on.notify_one();
            }
        };
        let (first, others, ()) = join!(first, others, going_on);
        assert_eq!((first, others), (Some(2), vec![Some(4), Some(6), Some(8)]));
        assert_eq!(*rounds.lock().expect("one thread"), [1, 3]);
        assert!(joint.waiting().is_empty());
    }

    #[tokio::test]
    async fn who_was_taken_along_by_one_that_broke_down_gets_no_answer_and_the_next_one_does() {
        let joint = Coalesced::<u32, u32>::default();
        let broken = joint.run(1, |_| async { panic!("on purpose") });
        let taken_along = joint.run(2, |wanted| async { wanted });
        let broken = AssertUnwindSafe(broken).catch_unwind();
        // Both stand in line before the first of them works.
        let held = joint.turn.lock().await;
        let (broken, taken_along, ()) = join!(broken, taken_along, async { drop(held) });
        assert!(broken.is_err());
        assert_eq!(taken_along, None);
        assert_eq!(joint.run(3, |wanted| async { wanted }).await, Some(3));
    }

    #[tokio::test]
    async fn nobody_is_answered_for_one_that_was_dropped_midway() {
        let joint = Coalesced::default();
        let never = async |_| std::future::pending().await;
        {
            let mut first = Box::pin(joint.run("a", never));
            let mut second = Box::pin(joint.run("b", never));
            let polled = futures_util::poll!(&mut first);
            assert!(polled.is_pending() && futures_util::poll!(&mut second).is_pending());
        }
        let work = async |wanted: Vec<&str>| {
            assert_eq!(wanted, ["b", "c"]);
            vec![(); wanted.len()]
        };
        assert_eq!(joint.run("c", work).await, Some(()));
    }
}
