//! The deliveries of a channel that are not acknowledged yet, and how to acknowledge many at once.
//!
//! A broker numbers the deliveries of a channel, and takes one acknowledgement for all up to a number.
//! Promises that such an acknowledgement never covers a delivery that somebody still works on, and
//! never goes out when nothing is left for it to cover: the broker would close the channel.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use lapin::Acker;
use tokio::sync::Mutex as Turn;

/// What is open on one channel.
#[derive(Default)]
pub struct Deliveries {
    open: Mutex<BTreeSet<u64>>,
    /// Acknowledgements go out in the order in which they were decided: one that covers nothing any
    /// more, because a later one has overtaken it, would be an error.
    turn: Turn<()>,
}

/// A delivery's handle.
pub struct Receipt {
    pub(crate) acker: Acker,
    pub(crate) number: u64,
    pub(crate) channel: Arc<Deliveries>,
}

/// How a delivery that has ended is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledge {
    /// By itself.
    Alone,
    /// Together with all before it.
    WithAllBefore,
    /// Together with one after it.
    Covered,
}

impl Deliveries {
    /// Takes notice of a delivery.
    pub fn receipt(self: &Arc<Self>, acker: Acker, number: u64) -> Receipt {
        self.open().insert(number);
        Receipt { acker, number, channel: self.clone() }
    }

    /// Waits for its turn to acknowledge on this channel.
    pub(crate) async fn turn(&self) -> impl Sized {
        self.turn.lock().await
    }

    /// Ends deliveries, and says for each how it is acknowledged.
    pub(crate) fn end(&self, numbers: &[u64]) -> Vec<Acknowledge> {
        let mut open = self.open();
        numbers.iter().for_each(|number| _ = open.remove(number));
        let first_open = open.first().copied().unwrap_or(u64::MAX);
        let covering = numbers.iter().copied().filter(|number| *number < first_open).max();
        let how = |number: &u64| match covering {
            Some(covering) if *number == covering => Acknowledge::WithAllBefore,
            Some(covering) if *number < covering => Acknowledge::Covered,
            Some(_) | None => Acknowledge::Alone,
        };
        numbers.iter().map(how).collect()
    }

    fn open(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.open.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::Acknowledge::{Alone, Covered, WithAllBefore};
    use super::*;

    fn deliveries(numbers: impl IntoIterator<Item = u64>) -> Deliveries {
        Deliveries { open: Mutex::new(numbers.into_iter().collect()), turn: Turn::default() }
    }

    #[test]
    fn one_acknowledgement_is_for_all_before_which_nobody_works_on() {
        let channel = deliveries(1..=6);
        assert_eq!(channel.end(&[2, 1, 4]), [WithAllBefore, Covered, Alone], "3 is open");
        assert_eq!(channel.end(&[3, 5]), [Covered, WithAllBefore], "4 was acknowledged alone");
        assert_eq!(channel.end(&[6]), [WithAllBefore]);
        assert_eq!(channel.end(&[]), []);
    }
}
