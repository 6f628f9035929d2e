//! The deliveries of a channel that are not acknowledged yet, and how to acknowledge many at once.
//!
//! A broker numbers the deliveries of a channel, and takes one acknowledgement for all up to a
//! number; for a quorum queue each one by itself is an entry in its log. So many that have ended
//! wait a moment for those before them, but no more than three quarters of what is delivered ahead,
//! because the broker delivers nothing more for those. Promises that such an acknowledgement never
//! covers a delivery that somebody still works on, and never goes out when nothing is left for it
//! to cover: the broker would close the channel.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use lapin::Acker;
use tokio::sync::{Mutex as IsolationGuard, Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::pace::Progress;

/// No more than so many are acknowledged one by one at once.
const SINGLY_MAX: usize = 32;

/// What is open on one channel.
#[derive(Default)]
pub struct Deliveries {
    unacknowledged: Mutex<Unacknowledged>,
    /// One of them has ended.
    ended: Notify,
    /// Acknowledgements go out in the order in which they were decided: one that covers nothing any
    /// more, because a later one has overtaken it, would be an error.
    turn: IsolationGuard<()>,
    /// The channel is gone, or will be: its deliveries come again.
    lost: CancellationToken,
}

#[derive(Default)]
struct Unacknowledged {
    /// The broker delivers so many before the first is acknowledged.
    prefetch: usize,
    /// Somebody works on these.
    open: BTreeSet<u64>,
    /// These have ended.
    ended: BTreeSet<u64>,
    /// How many have ended so far, also before.
    ended_so_far: u64,
}

/// A delivery's handle.
pub struct Receipt {
    pub(crate) acker: Acker,
    pub(crate) number: u64,
    pub(crate) channel: Arc<Deliveries>,
    /// The memory that its body may take, until its end.
    pub(crate) bytes: Option<OwnedSemaphorePermit>,
}

/// How a delivery that has ended is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledge {
    /// By itself.
    Alone,
    /// Together with all before it.
    WithAllBefore,
    /// It was, or is together with one after it.
    Covered,
    /// Not yet.
    Later,
}

/// Whether many may wait for those before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// They may.
    Some,
    /// They have waited.
    None,
}

impl Deliveries {
    /// Takes notice of how many are delivered ahead from now on.
    pub fn delivers_ahead(&self, prefetch: u16) {
        self.unacknowledged().prefetch = prefetch.into();
    }

    /// What has happened so far.
    pub fn progress(&self) -> Progress {
        let Unacknowledged { open, ended, ended_so_far, .. } = &*self.unacknowledged();
        Progress { ended: *ended_so_far, held: open.len() + ended.len() }
    }

    /// Takes notice that none of them can be acknowledged any more.
    pub fn lose(&self) {
        self.lost.cancel();
    }

    /// Whether none is left to be acknowledged, or none can be any more.
    pub fn are_done(&self) -> bool {
        let Unacknowledged { open, ended, .. } = &*self.unacknowledged();
        self.lost.is_cancelled() || (open.is_empty() && ended.is_empty())
    }

    /// Waits until they can't be acknowledged any more.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Takes notice of a delivery.
    pub fn receipt(self: &Arc<Self>, acker: Acker, number: u64) -> Receipt {
        self.unacknowledged().open.insert(number);
        Receipt { acker, number, channel: self.clone(), bytes: None }
    }

    /// Waits for its turn to acknowledge on this channel.
    pub(crate) async fn turn(&self) -> impl Sized {
        self.turn.lock().await
    }

    /// Takes notice that deliveries have ended: they are to be acknowledged.
    pub(crate) fn end(&self, numbers: &[u64]) {
        let mut unacknowledged = self.unacknowledged();
        let open = numbers.iter().filter(|number| unacknowledged.open.remove(number)).copied();
        let ended: Vec<u64> = open.collect();
        unacknowledged.ended_so_far += ended.len() as u64;
        unacknowledged.ended.extend(ended);
        self.ended.notify_waiters();
    }

    /// Takes notice that the broker has a delivery back.
    pub(crate) fn give_back(&self, number: u64) {
        self.unacknowledged().open.remove(&number);
        self.ended.notify_waiters();
    }

    /// Says for each of these, which have ended, how it is acknowledged now. Only in one's turn.
    pub(crate) fn acknowledge(&self, numbers: &[u64], patience: Patience) -> Vec<Acknowledge> {
        let Unacknowledged { prefetch, open, ended, .. } = &mut *self.unacknowledged();
        let first_open = open.first().copied().unwrap_or(u64::MAX);
        let ours: Vec<u64> = numbers.iter().copied().filter(|one| ended.contains(one)).collect();
        let covering = ours.iter().copied().filter(|number| *number < first_open).max();
        let behind = ours.iter().filter(|number| **number > first_open).count();
        let has_room = || ended.range(first_open..).count() <= *prefetch * 3 / 4;
        let wait = patience == Patience::Some && behind > SINGLY_MAX && has_room();
        let how = |number: &u64| match covering {
            _ if !ended.contains(number) => Acknowledge::Covered,
            Some(covering) if *number == covering => Acknowledge::WithAllBefore,
            Some(covering) if *number < covering => Acknowledge::Covered,
            Some(_) | None if wait => Acknowledge::Later,
            Some(_) | None => Acknowledge::Alone,
        };
        let hows: Vec<Acknowledge> = numbers.iter().map(how).collect();
        if let Some(covering) = covering {
            *ended = ended.split_off(&(covering + 1));
        }
        if !wait {
            ours.iter().for_each(|number| _ = ended.remove(number));
        }
        hows
    }

    /// Waits until nobody works on a delivery before this one.
    pub(crate) async fn until_first(&self, number: u64) {
        loop {
            // Made before the look, so that what ends in between wakes it.
            let ended = self.ended.notified();
            if self.unacknowledged().open.first().is_none_or(|first| *first >= number) {
                return;
            }
            ended.await;
        }
    }

    fn unacknowledged(&self) -> MutexGuard<'_, Unacknowledged> {
        self.unacknowledged.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::Acknowledge::{Alone, Covered, Later, WithAllBefore};
    use super::*;

    fn deliveries(numbers: impl IntoIterator<Item = u64>) -> Deliveries {
        let open = numbers.into_iter().collect();
        let unacknowledged = Unacknowledged { prefetch: 200, open, ..Unacknowledged::default() };
        let unacknowledged = Mutex::new(unacknowledged);
        Deliveries { unacknowledged, ..Deliveries::default() }
    }

    fn ended(channel: &Deliveries, numbers: &[u64]) -> Vec<Acknowledge> {
        channel.end(numbers);
        channel.acknowledge(numbers, Patience::Some)
    }

    #[test]
    fn one_acknowledgement_is_for_all_before_which_nobody_works_on() {
        let channel = deliveries(1..=6);
        assert_eq!(ended(&channel, &[2, 1, 4]), [WithAllBefore, Covered, Alone], "3 is open");
        assert_eq!(ended(&channel, &[3, 5]), [Covered, WithAllBefore], "4 was acknowledged alone");
        assert_eq!(ended(&channel, &[6]), [WithAllBefore]);
        assert_eq!(ended(&channel, &[]), []);
    }

    #[test]
    fn many_wait_for_those_before_them_and_are_acknowledged_once() {
        let channel = deliveries(1..=200);
        let (first, second): (Vec<u64>, Vec<u64>) = ((1..=100).collect(), (101..=200).collect());
        assert_eq!(ended(&channel, &second), [Later; 100]);
        assert_eq!(channel.until_first(200).now_or_never(), None, "somebody works on the first");
        let hows = ended(&channel, &first);
        assert_eq!((hows[99], &hows[..99]), (WithAllBefore, &[Covered; 99][..]));
        assert_eq!(channel.until_first(200).now_or_never(), Some(()));
        let hows = channel.acknowledge(&second, Patience::None);
        assert_eq!((hows[99], &hows[..99]), (WithAllBefore, &[Covered; 99][..]));
        assert_eq!(channel.acknowledge(&second, Patience::None), [Covered; 100], "once");
    }

    #[test]
    fn what_waits_is_covered_by_those_that_end_later() {
        let channel = deliveries(1..=100);
        let (middle, rest): (Vec<u64>, Vec<u64>) = ((2..=90).collect(), vec![1, 91]);
        assert_eq!(ended(&channel, &middle), [Later; 89]);
        assert_eq!(ended(&channel, &rest), [Covered, WithAllBefore]);
        assert_eq!(channel.acknowledge(&middle, Patience::None), [Covered; 89]);
    }

    #[test]
    fn many_that_have_waited_are_acknowledged_one_by_one() {
        let channel = deliveries(1..=100);
        let numbers: Vec<u64> = (2..=100).collect();
        assert_eq!(ended(&channel, &numbers), [Later; 99]);
        assert_eq!(channel.acknowledge(&numbers, Patience::None), [Alone; 99]);
        assert_eq!(ended(&channel, &[1]), [WithAllBefore]);
    }

    #[test]
    fn no_more_wait_than_three_quarters_of_what_is_delivered_ahead() {
        let channel = deliveries(1..=200);
        let (middle, last): (Vec<u64>, Vec<u64>) = ((2..=151).collect(), (152..=200).collect());
        assert_eq!(ended(&channel, &middle), [Later; 150]);
        assert_eq!(ended(&channel, &last), [Alone; 49], "else nothing comes meanwhile");
        assert_eq!(ended(&channel, &[1]), [WithAllBefore]);
        let hows = channel.acknowledge(&middle, Patience::None);
        assert_eq!((hows[149], &hows[..149]), (WithAllBefore, &[Covered; 149][..]));
    }

    #[test]
    fn what_the_broker_has_back_is_waited_for_by_nobody() {
        let channel = deliveries(1..=2);
        channel.give_back(1);
        assert_eq!(channel.until_first(2).now_or_never(), Some(()));
        assert_eq!(ended(&channel, &[2]), [WithAllBefore]);
    }
}
