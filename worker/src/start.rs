//! Starting: the address of the pages, the database, and what all parts share.
//!
//! Promises that a server that is away is waited for, and that what does not pass by itself
//! ends the start with a message that says what to change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::ledger::Ledger;
use common::mongo::{MongoLedger, MongoOutbox, NotReady, Store};
use common::queue::Publisher;
use common::retry::{Reconnect, jitter};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::acknowledge::Acknowledger;
use crate::config::Config;
use crate::engine::{Engine, Environment};
use crate::health::Health;
use crate::metrics::Metrics;
use crate::parts::Part;
use crate::parts::pause;
use crate::rabbit::Rabbit;

/// Why a worker does not start, or does not end as told.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A setting is wrong; the message names it.
    #[error("{0}")]
    Settings(String),
    /// The address for the pages is taken or makes no sense.
    #[error("TANDEM_HTTP ({0}): {1}; choose another address, or `off`")]
    Http(String, std::io::Error),
    /// The database refuses, or is not as this version needs it.
    #[error("{0}")]
    NotReady(NotReady),
    /// A part could not go on.
    #[error("the {0} ended: {1}")]
    Ended(Part, String),
    /// Told to stop, it was not finished in time.
    #[error(
        "not finished within {0:?} (TANDEM_DRAIN_MS); what is in flight is taken over when its \
         lease ends"
    )]
    Unfinished(Duration),
}

/// The real clock and real randomness.
#[derive(Debug)]
pub struct SystemEnvironment {
    started: Instant,
}

impl Default for SystemEnvironment {
    fn default() -> SystemEnvironment {
        SystemEnvironment { started: Instant::now() }
    }
}

impl Environment for SystemEnvironment {
    fn now_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    async fn sleep(&self, delay: Duration) {
        tokio::time::sleep(delay).await;
    }

    fn jitter(&self) -> f64 {
        jitter()
    }

    fn token(&self) -> String {
        uuid::Uuid::new_v4().simple().to_string()
    }
}

/// What all parts share.
pub(crate) struct Shared<L, E> {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) engine: Arc<Engine<L, E>>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) acknowledger: Arc<Acknowledger<Rabbit, MongoOutbox>>,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
}

pub(crate) async fn listen(address: &str) -> Result<Option<TcpListener>, Failure> {
    if address == "off" {
        return Ok(None);
    }
    let bound = TcpListener::bind(address).await;
    bound.map(Some).map_err(|error| Failure::Http(address.to_owned(), error))
}

impl<L: Ledger + 'static, E: Environment + 'static> Shared<L, E> {
    pub(crate) async fn new(
        config: Config,
        ledger: impl FnOnce(MongoLedger) -> L,
        environment: E,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
    ) -> Result<Shared<L, E>, Failure> {
        let name = config.application();
        let store = Store::connect(&config.mongo, &name, config.timing.op_limit()).await;
        let store = store.map_err(Failure::Settings)?;
        let publisher = Arc::new(Publisher::new(&config.amqp, &format!("{name} publishing")));
        let outbox = MongoOutbox::new(store.clone());
        let ledger = ledger(MongoLedger::new(store.clone(), config.timing.lease()));
        let engine = Engine::new(ledger, environment, config.engine_settings(), metrics.clone());
        Ok(Shared {
            acknowledger: Arc::new(Acknowledger::new(
                Rabbit::new(publisher.clone()),
                outbox,
                metrics.clone(),
            )),
            engine: Arc::new(engine),
            health,
            config,
            store,
            publisher,
            metrics,
        })
    }

    /// Waits for the database, sets it up when it is fresh, and checks that the user may work on it.
    /// False when stopped before that.
    pub(crate) async fn schema_is_there(&self, stop: CancellationToken) -> Result<bool, Failure> {
        let mut reconnect = Reconnect::default();
        loop {
            let ensured = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(false),
                ensured = self.ensure_database() => ensured,
            };
            match ensured {
                Ok(()) => return Ok(true),
                Err(error) if !error.passes() => return Err(Failure::NotReady(error)),
                Err(error) => {
                    tracing::warn!(%error, "waiting for the database");
                    if !pause(&stop, reconnect.wait()).await {
                        return Ok(false);
                    }
                }
            }
        }
    }

    async fn ensure_database(&self) -> Result<(), NotReady> {
        self.store.ensure_schema().await?;
        self.store.check_rights().await
    }
}
