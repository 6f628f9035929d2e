//! The servers that all parts of a client share, and how long it tries when one of them is away.
//!
//! Promises that an attempt is repeated only while its failures pass, and that what is said of a
//! failure counts in every attempt before it: if one of them may still take effect, the whole call
//! may.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ledger::message::Message;
use ledger::retry::Reconnect;
use ledger::transaction::TransactionId;
use mongo::Store;
use observe::Traces;
use queue::{ANSWER_LIMIT, Outgoing, Publisher};
use tokio::sync::OnceCell;

use crate::config::Config;
use crate::error::{AttemptError, Effect, Error, Server};

/// After so many failed attempts the note is repeated.
const NOTE_EVERY: u32 = 5;

/// What the parts of a client share.
pub(crate) struct Servers {
    pub store: Store,
    pub publisher: Publisher,
    pub config: Config,
    /// Set once the ledger was seen to have the indexes for lists and statements.
    pub history: OnceCell<()>,
    /// Set once the ledger was seen to give numbers to what ends.
    pub numbers: OnceCell<()>,
    /// Whether publications are left to the workers' sweepers for now.
    pub leaves: AtomicBool,
}

impl Servers {
    /// Publishes ids until the broker has them, or `limit` has passed since the first failure.
    pub async fn publish(
        &self,
        ids: &[TransactionId],
        traces: &Traces,
        limit: Duration,
    ) -> Result<(), Error> {
        let messages = Message::chunked(ids, self.config.ids_per_message);
        let outgoing = |message: Message| Outgoing::work(&message).traced(&message.ids, traces);
        let messages: Vec<Outgoing> = messages.map(outgoing).collect();
        self.insist(limit, || self.publisher.publish(&messages)).await
    }

    /// Publishes ids of durable transactions, for a short time only: see
    /// [`Config::publish_within`].
    pub async fn publish_or_leave(
        &self,
        ids: &[TransactionId],
        traces: &Traces,
    ) -> Result<(), Error> {
        if self.leaves.load(Ordering::Relaxed) {
            let problem = "RabbitMQ is away; the workers publish it when it is back".to_owned();
            let (server, effect) = (Server::RabbitMq, Effect::None);
            return Err(Error::Unavailable { server, problem, after: Duration::ZERO, effect });
        }
        let limit = self.config.publish_within;
        let publishing = self.publish(ids, traces, limit);
        tokio::time::timeout(limit + ANSWER_LIMIT, publishing).await.unwrap_or_else(|_| {
            let problem = "RabbitMQ: no answer to publishing".to_owned();
            let (server, effect) = (Server::RabbitMq, Effect::None);
            Err(Error::Unavailable { server, problem, after: limit, effect })
        })
    }

    /// Tries until it succeeds, fails for good, or `limit` has passed since the first failure.
    pub async fn insist<T, E, F>(
        &self,
        limit: Duration,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, Error>
    where
        E: AttemptError,
        F: Future<Output = Result<T, E>>,
    {
        self.insist_write(limit, |_| attempt()).await.map(|(value, _)| value)
    }

    /// The same with a write, which is told what is known of the attempts before it.
    pub async fn insist_write<T, E, F>(
        &self,
        limit: Duration,
        mut attempt: impl FnMut(Effect) -> F,
    ) -> Result<(T, Effect), Error>
    where
        E: AttemptError,
        F: Future<Output = Result<T, E>>,
    {
        let mut open = Effect::None;
        let mut failed_since: Option<Instant> = None;
        let (mut failures, mut reconnect) = (0, Reconnect::default());
        loop {
            let error = match attempt(open).await {
                Ok(value) => return Ok((value, open)),
                Err(error) => error,
            };
            open = open.or(error.effect());
            let since = *failed_since.get_or_insert_with(Instant::now);
            if !error.passes() || since.elapsed() >= limit {
                return Err(Error::of_server(&error, limit, open));
            }
            failures += 1;
            self.note(failures, &error.told());
            tokio::time::sleep(reconnect.wait()).await;
        }
    }

    /// Reports that a server is tried again: after the first failure, and then from time to time.
    pub fn note(&self, failures: u32, problem: &str) {
        if failures % NOTE_EVERY == 1 {
            (self.config.notes)(&format!("{problem}; trying again"));
        }
    }
}
