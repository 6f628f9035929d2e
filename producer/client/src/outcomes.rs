//! Outcomes as they come: a subscription to the events of the ledger.
//!
//! Promises that what is no event of ours is passed over. Fails with [`Error::Unavailable`] when
//! the connection to the broker breaks.

use std::time::Duration;

use futures_util::{Stream, stream};
use ledger::transaction::TransactionId;
use queue::{QueueError, Subscription};
use serde_json::Value;

use crate::error::{Effect, Error, Server};
use crate::servers::Servers;
use crate::standing::Outcome;

/// A transaction that has come to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The transaction.
    pub id: TransactionId,
    /// How it has ended. When it is done, credited money is spendable.
    pub outcome: Outcome,
    /// The whole event, as `common/schemas/outcome.json` describes it.
    pub event: Value,
}

impl Ended {
    /// Reads the body of an event; none of what is no event of ours.
    pub(crate) fn of(event: Value) -> Option<Ended> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let outcome = match event["state"].as_str()? {
            "done" => Outcome::Done,
            "canceled" => Outcome::Canceled {
                code: text(&event["reason"]["code"]).unwrap_or_else(|| "unknown".to_owned()),
                message: text(&event["reason"]["message"]).unwrap_or_default(),
            },
            _ => return None,
        };
        Some(Ended { id: event["id"].as_str()?.into(), outcome, event })
    }
}

/// Outcomes as they come.
pub struct Outcomes {
    subscription: Subscription,
}

impl Outcomes {
    pub(crate) async fn open(servers: &Servers) -> Result<Outcomes, QueueError> {
        let config = &servers.config;
        let subscription = Subscription::open(&config.amqp(), &config.name).await?;
        Ok(Outcomes { subscription })
    }

    /// The next one, whenever it comes. A repeat is told again.
    ///
    /// # Errors
    /// When the connection to the broker is lost; call
    /// [`Client::outcomes`](crate::Client::outcomes) again.
    pub async fn next(&mut self) -> Result<Ended, Error> {
        loop {
            let Some(body) = self.subscription.next().await? else {
                let problem = "RabbitMQ: the queue of this listener was removed".to_owned();
                let server = Server::RabbitMq;
                let (after, effect) = (Duration::ZERO, Effect::None);
                return Err(Error::Unavailable { server, problem, after, effect });
            };
            // Anybody with a login may publish there; what is no event is not for us.
            if let Some(ended) = serde_json::from_slice(&body).ok().and_then(Ended::of) {
                return Ok(ended);
            }
        }
    }

    /// The same as a stream, which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Ended, Error>> + Send {
        stream::unfold(Some(self), |outcomes| async {
            let mut outcomes = outcomes?;
            match outcomes.next().await {
                Ok(ended) => Some((Ok(ended), Some(outcomes))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// Ends it.
    pub async fn close(self) {
        self.subscription.close().await;
    }
}
