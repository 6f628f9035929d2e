//! A clerk cancels and reverses single transactions while they are being submitted and settled.
//!
//! Works through a link of its own that nobody cuts; whatever the servers do, hits it as well. What
//! it was told is kept and judged. A request that failed says nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use common::config::{AmqpArgs, MongoArgs};
use common::mongo::Store;
use common::queue::Publisher;
use common::transaction::State;
use producer::console::Console;
use producer::context::Context;
use producer::transactions::{Canceling, Reversal, cancel_one, reverse_one};
use tokio::sync::mpsc;

/// How long the clerk insists.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the clerk is asked for.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Cancel it, after a while.
    Cancel(String, Duration),
    /// Reverse it.
    Reverse(String),
}

/// What the clerk was told.
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
    context: Context,
}

impl Clerk {
    /// Connects by the same environment as a program.
    ///
    /// # Errors
    /// When it makes no sense.
    pub async fn new(env: &BTreeMap<String, String>) -> Result<Clerk, String> {
        let of = |name: &str| env.get(name).cloned().unwrap_or_default();
        let database = Some(of("TANDEM_DATABASE"));
        let mongo = MongoArgs {
            mongodb_uri: of("TANDEM_MONGODB_URI"),
            database,
            one_document_statements: false,
        };
        let amqp =
            AmqpArgs { amqp_url: of("TANDEM_AMQP_URL"), queue_prefix: of("TANDEM_QUEUE_PREFIX") };
        let store = Store::connect(&mongo, "chaos-clerk", Duration::from_secs(5)).await?;
        let publisher = Publisher::new(&amqp, "chaos-clerk");
        let context = Context::new(store, publisher);
        let console = Arc::new(Console::quiet());
        Ok(Clerk { context: Context { give_up_after: PATIENCE, console, ..context } })
    }

    /// Does what it is asked until nobody asks any more; returns what it was told.
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
        self.context.publisher.close().await;
        answered
    }

    async fn cancel(&self, id: String) -> Option<Answered> {
        match cancel_one(&self.context, &id).await.ok()? {
            Canceling::Canceled(_) | Canceling::Underway(_) => Some(Answered::Canceled(id)),
            Canceling::TooLate(State::Applied | State::Done) => Some(Answered::TooLate(id)),
            Canceling::TooLate(_) | Canceling::Unknown => None,
        }
    }

    async fn reverse(&self, id: String) -> Option<Answered> {
        match reverse_one(&self.context, &id).await.ok()? {
            Reversal::Submitted(by) | Reversal::Already(by, _) => Some(Answered::Reversed(id, by)),
        }
    }
}
