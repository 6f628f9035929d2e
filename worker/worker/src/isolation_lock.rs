//! Who works beside whom, so that a death is blamed on what was alone.
//!
//! Owns the turns of batches. A message that may have killed a worker is processed while nothing
//! else is; all others run beside each other. Promises that a message whose strikes count is not
//! processed beside a batch that may kill the worker. The message is here already while it waits
//! for the batches in flight to end, and a death in this time strikes it, too; so strikes alone
//! prove nothing (`suspects`).

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::job::Job;

/// The turns of one worker's batches. Those who come first go first.
#[derive(Clone, Default)]
pub struct IsolationLock(Arc<RwLock<()>>);

/// A batch's turn, until it is dropped.
pub struct IsolationGuard {
    _alone: Option<OwnedRwLockWriteGuard<()>>,
    _beside_others: Option<OwnedRwLockReadGuard<()>>,
}

impl IsolationLock {
    /// Waits until a batch may run.
    pub async fn take<R>(&self, jobs: &[Job<R>]) -> IsolationGuard {
        match jobs.iter().any(|job| job.runs_alone) {
            true => IsolationGuard {
                _alone: Some(self.0.clone().write_owned().await),
                _beside_others: None,
            },
            false => IsolationGuard {
                _alone: None,
                _beside_others: Some(self.0.clone().read_owned().await),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use ledger::message::Message;

    use super::*;
    use crate::decide::Origin;

    fn batch(strikes: u32) -> Vec<Job<()>> {
        let message = Message { strikes, ..Message::new(vec!["one".into()]) };
        vec![Job::of(message, Origin::Solo, ())]
    }

    #[tokio::test]
    async fn a_message_with_a_strike_is_processed_while_nothing_else_is() {
        let turns = IsolationLock::default();
        let (one, another) = (turns.take(&batch(0)).await, turns.take(&batch(0)).await);
        let suspects = batch(1);
        let mut suspect = Box::pin(turns.take(&suspects));
        assert!(suspect.as_mut().now_or_never().is_none(), "beside two others");
        let innocent = batch(0);
        let mut next = Box::pin(turns.take(&innocent));
        assert!(next.as_mut().now_or_never().is_none(), "it overtakes the suspect");
        drop((one, another));
        let alone = suspect.await;
        assert!(next.as_mut().now_or_never().is_none(), "beside the suspect");
        drop(alone);
        next.await;
    }
}
