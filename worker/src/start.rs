//! Starting: the address of the pages, the database, and what all parts share.
//!
//! Promises that a server that is away is waited for, and that whatever only somebody's hand can
//! put right ends the start with a sentence that says how.

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::ledger::Ledger;
use common::mongo::{MongoLedger, MongoOutbox, NotReady, Store};
use common::queue::Publisher;
use common::retry::{Policy, jitter};
use tokio::net::TcpListener;

use crate::acknowledge::Acknowledger;
use crate::engine::{Engine, Environment};
use crate::health::Health;
use crate::metrics::Metrics;
use crate::parts::Part;
use crate::rabbit::Rabbit;
use crate::settings::Settings;
use crate::stop::Stop;

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
pub(crate) struct Real {
    started: Instant,
}

impl Environment for Real {
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
pub(crate) struct Shared<L> {
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    pub(crate) engine: Arc<Engine<L, Real>>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) acknowledger: Arc<Acknowledger<Rabbit>>,
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

impl<L: Ledger + 'static> Shared<L> {
    pub(crate) async fn new(
        settings: Settings,
        wrap: impl FnOnce(MongoLedger) -> L,
    ) -> Result<Shared<L>, Failure> {
        let name = settings.application();
        let store = Store::connect(&settings.mongo, &name, settings.timing.op_limit()).await;
        let store = store.map_err(Failure::Settings)?;
        let metrics = Arc::new(Metrics::new());
        let publisher = Arc::new(Publisher::new(&settings.amqp, &format!("{name} publishing")));
        let rabbit = Rabbit::new(publisher.clone(), MongoOutbox::new(store.clone()));
        let ledger = wrap(MongoLedger::new(store.clone(), settings.timing.lease()));
        let environment = Real { started: Instant::now() };
        let engine = Engine::new(ledger, environment, settings.engine_settings(), metrics.clone());
        Ok(Shared {
            acknowledger: Arc::new(Acknowledger::new(rabbit, metrics.clone())),
            engine: Arc::new(engine),
            health: Arc::default(),
            settings,
            store,
            publisher,
            metrics,
        })
    }

    /// Waits for the database, sets it up when it is fresh, and checks that the user may work on it.
    /// False when stopped before that.
    pub(crate) async fn schema_is_there(&self, mut stop: Stop) -> Result<bool, Failure> {
        let mut attempt = 0;
        loop {
            let ensured = tokio::select! {
                biased;
                () = stop.told() => return Ok(false),
                ensured = self.ensure_database() => ensured,
            };
            match ensured {
                Ok(()) => return Ok(true),
                Err(error) if !error.passes() => return Err(Failure::NotReady(error)),
                Err(error) => {
                    attempt += 1;
                    tracing::warn!(%error, "waiting for the database");
                    let delay = Policy::RECONNECT.delay(attempt, jitter());
                    if !stop.not_for(delay).await {
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
