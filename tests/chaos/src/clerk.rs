//! A clerk cancels and reverses single transactions while they are being submitted and settled.
//!
//! Works through a link of its own that nobody cuts; faults of the servers hit it as well. Its
//! answers are kept and judged. A request that failed proves nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use producer::{Client, Config, Error, State};
use tokio::sync::mpsc;

/// How long the clerk keeps trying.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the clerk is asked to do.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Cancel it, after a while.
    Cancel(String, Duration),
    /// Reverse it.
    Reverse(String),
}

/// The answer that the clerk got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It is canceled, or will be.
    Canceled(String),
    /// It can't be canceled any more: it is done, or will be.
    TooLate(String),
    /// It is taken back by this other transaction.
    Reversed(String, String),
}

/// The clerk's own connections.
pub struct Clerk {
    client: Client,
}

impl Clerk {
    /// Connects by the same environment as a program.
    ///
    /// # Errors
    /// When it makes no sense.
    pub async fn new(env: &BTreeMap<String, String>) -> Result<Clerk, String> {
        let of = |name: &str| env.get(name).cloned().unwrap_or_default();
        let config = Config::new(of("TANDEM_MONGODB_URI"), of("TANDEM_AMQP_URL"))
            .database(of("TANDEM_DATABASE"))
            .queue_prefix(of("TANDEM_QUEUE_PREFIX"))
            .name("chaos-clerk")
            .give_up_after(PATIENCE)
            .notes(|_| {});
        let client = Client::open(&config).await.map_err(|error| error.to_string())?;
        Ok(Clerk { client })
    }

    /// Does what it is asked until the channel is closed; returns the answers.
    pub async fn run(self, mut asks: mpsc::Receiver<Ask>) -> Vec<Answered> {
        let mut answered = Vec::new();
        while let Some(ask) = asks.recv().await {
            answered.extend(match ask {
                Ask::Cancel(id, after) => {
                    tokio::time::sleep(after).await;
                    self.cancel(id).await
                }
                Ask::Reverse(id) => self.reverse(id).await,
            });
        }
        self.client.close().await;
        answered
    }

    async fn cancel(&self, id: String) -> Option<Answered> {
        match self.client.cancel(&id).await {
            Ok(_) => Some(Answered::Canceled(id)),
            Err(Error::WrongState { state: State::Applied | State::Done, .. }) => {
                Some(Answered::TooLate(id))
            }
            Err(_) => None,
        }
    }

    async fn reverse(&self, id: String) -> Option<Answered> {
        let reversal = self.client.reverse(&id).await.ok()?;
        Some(Answered::Reversed(id, reversal.id.to_string()))
    }
}
