//! Hearing of outcomes while waiting for them: what makes waiting short.
//!
//! Owns a listener that is opened when somebody has waited for a while, in a task of its own, and
//! opened anew some time after it broke. Promises nothing: a broker that is away, or a ledger
//! without events, is silent, so whoever waits also asks the database from time to time.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::error::Error;
use crate::outcomes::{Ended, Outcomes};
use crate::servers::Servers;

/// How long somebody has waited before listening is worth a connection.
const AFTER: Duration = Duration::from_millis(100);

/// How long to do without, when the broker is away or refuses.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

enum Ear {
    /// It is opened at this moment.
    Closed(Instant),
    /// In a task of its own, which goes on when nobody waits just now.
    Opening(JoinHandle<Result<Outcomes, Error>>),
    Open(Box<Outcomes>),
}

/// A listener that comes and goes.
pub struct Listening {
    servers: Arc<Servers>,
    ear: Ear,
}

impl Listening {
    /// One that is opened soon, when somebody still asks for it then.
    pub(crate) fn new(servers: Arc<Servers>) -> Listening {
        Listening { servers, ear: Ear::Closed(Instant::now() + AFTER) }
    }

    /// The next outcome that is heard of; never returns while nothing can be heard. It may be
    /// dropped and called again without losing one.
    pub async fn heard(&mut self) -> Ended {
        loop {
            match &mut self.ear {
                Ear::Closed(until) => {
                    sleep_until(*until).await;
                    let servers = self.servers.clone();
                    let opening = async move { Ok(Outcomes::open(&servers).await?) };
                    self.ear = Ear::Opening(tokio::spawn(opening));
                }
                Ear::Opening(opening) => {
                    self.ear = match opening.await {
                        Ok(Ok(outcomes)) => Ear::Open(Box::new(outcomes)),
                        Ok(Err(error)) => Listening::silent(&error.to_string()),
                        Err(panicked) => Listening::silent(&panicked.to_string()),
                    };
                }
                Ear::Open(outcomes) => match outcomes.next().await {
                    Ok(ended) => return ended,
                    Err(error) => self.ear = Listening::silent(&error.to_string()),
                },
            }
        }
    }

    /// Stops listening; what is asked of it later begins after a while.
    pub(crate) fn stop(&mut self) {
        self.ear = Ear::Closed(Instant::now() + AFTER);
    }

    fn silent(error: &str) -> Ear {
        tracing::debug!(error, "waiting without events");
        Ear::Closed(Instant::now() + AGAIN_AFTER)
    }
}
