//! Publishing what many tasks have inserted at the same time, each of them one transaction.
//!
//! Owns what waits until it is published. One publication is under way at a time; what comes meanwhile
//! goes together with the next one. So thousands of keyed transactions of one call take a few messages
//! and one of the publisher's channels, and nobody beside them waits for a channel behind each of them. Fails
//! as the publication fails, for all that went together.

use std::sync::Mutex as BlockingMutex;
use std::time::Duration;

use common::trace::Traces;
use common::transaction::TransactionId;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Mutex, oneshot};

use crate::error::{Effect, Error, Server};

type Published = Result<(), Error>;

/// What is to be published, and who waits for it.
struct Waiting {
    ids: Vec<TransactionId>,
    traces: Traces,
    published: oneshot::Sender<Published>,
}

/// Publications that go together.
#[derive(Default)]
pub(super) struct Together {
    waiting: BlockingMutex<Vec<Waiting>>,
    /// Held by the one that publishes.
    turn: Mutex<()>,
}

impl Together {
    /// Publishes ids of durable transactions together with those of others, through `send`.
    pub async fn publish(
        &self,
        ids: Vec<TransactionId>,
        traces: Traces,
        send: impl AsyncFnOnce(Vec<TransactionId>, Traces) -> Published,
    ) -> Published {
        if ids.is_empty() {
            return Ok(());
        }
        let (published, mut answer) = oneshot::channel();
        self.waiting.lock().expect("no holder panics").push(Waiting { ids, traces, published });
        let _turn = self.turn.lock().await;
        let answer = match answer.try_recv() {
            Err(TryRecvError::Empty) => {
                self.publish_all(send).await;
                answer.try_recv()
            }
            // The one before has taken it along.
            answer => answer,
        };
        answer.unwrap_or_else(|_| {
            let problem = "whoever published it is gone".to_owned();
            let (server, after, effect) = (Server::RabbitMq, Duration::ZERO, Effect::None);
            Err(Error::Unavailable { server, problem, after, effect })
        })
    }

    /// Publishes all that waits, and answers it.
    async fn publish_all(&self, send: impl AsyncFnOnce(Vec<TransactionId>, Traces) -> Published) {
        let waiting = std::mem::take(&mut *self.waiting.lock().expect("no holder panics"));
        let (mut ids, mut traces, mut answers) = (Vec::new(), Traces::default(), Vec::new());
        for one in waiting {
            ids.extend(one.ids);
            traces.add_all(one.traces);
            answers.push(one.published);
        }
        let published = send(ids, traces).await;
        // Sending fails only if the one that waits has gone away.
        answers.into_iter().for_each(|answer| drop(answer.send(published.clone())));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn what_comes_while_others_are_published_goes_together() {
        let (together, gate) = (Arc::new(Together::default()), Arc::new(Semaphore::new(0)));
        let sent = Arc::new(BlockingMutex::new(Vec::new()));
        let publish = |id: &str| {
            let (together, gate, sent, id) =
                (together.clone(), gate.clone(), sent.clone(), TransactionId::from(id));
            tokio::spawn(async move {
                let send = async |ids: Vec<TransactionId>, _| {
                    gate.acquire().await.expect("it is never closed").forget();
                    let is_refused = ids.len() == 1;
                    sent.lock().expect("no panic").push(ids);
                    if is_refused { Err(Error::invalid("id", "alone")) } else { Ok(()) }
                };
                together.publish(vec![id], Traces::default(), send).await
            })
        };
        let first = publish("a");
        while together.turn.try_lock().is_ok() {
            tokio::task::yield_now().await;
        }
        let others = [publish("b"), publish("c"), publish("d")];
        while together.waiting.lock().expect("no panic").len() < others.len() {
            tokio::task::yield_now().await;
        }
        gate.add_permits(2);
        assert!(first.await.expect("no panic").is_err(), "its own answer");
        for other in others {
            assert_eq!(other.await.expect("no panic"), Ok(()));
        }
        let sent = sent.lock().expect("no panic").clone();
        assert_eq!(sent, [vec!["a".into()], vec!["b".into(), "c".into(), "d".into()]]);
    }

    #[tokio::test]
    async fn nobody_is_answered_for_one_that_was_dropped_midway() {
        let together = Together::default();
        let never = async |_, _| std::future::pending().await;
        {
            let mut first = Box::pin(together.publish(vec!["a".into()], Traces::default(), never));
            let mut second = Box::pin(together.publish(vec!["b".into()], Traces::default(), never));
            let polled = futures_util::poll!(&mut first);
            assert!(polled.is_pending() && futures_util::poll!(&mut second).is_pending());
        }
        let send = async |ids: Vec<TransactionId>, _| {
            assert_eq!(ids, ["b".into(), "c".into()]);
            Ok(())
        };
        assert_eq!(together.publish(vec!["c".into()], Traces::default(), send).await, Ok(()));
    }
}
