//! Starting: the address of the pages, the database, and what all parts share.
//!
//! Promises that a server that is away is waited for, and that what does not pass by itself
//! ends the start with a message that says what to change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Announcer, Engine, Environment};
use ledger::retry::{Reconnect, jitter};
use ledger::{Ledger, LedgerError};
use mongo::{Choice, LedgerSettings, Misfit, MongoLedger, MongoOutbox, NotReady, Said, Store};
use observe::Tracing;
use queue::Publisher;
use tokio_util::sync::CancellationToken;

use crate::acknowledge::Acknowledger;
use crate::components::{Component, pause};
use crate::config::Config;
use crate::events::Events;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::publications::Publications;
use crate::rabbit::Rabbit;
use crate::suspects::MongoSuspects;

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
    Ended(Component, String),
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

/// What a database that is ready says: the ledger's settings, and what was last said of settlement.
pub(crate) type Found = (LedgerSettings, Said);

/// What is there before the database is known to be ready.
pub(crate) struct Starting {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tracing: Tracing,
}

/// What all parts share.
pub(crate) struct Shared<L, E> {
    pub(crate) config: Config,
    pub(crate) store: Store,
    /// The `_id` of the document that this life of the worker writes about itself.
    pub(crate) life: String,
    pub(crate) engine: Arc<Engine<L, E>>,
    pub(crate) publisher: Arc<Publisher>,
    /// None where the ledger has no events.
    pub(crate) events: Option<Arc<Events>>,
    /// Whether the ledger has statements.
    pub(crate) has_history: bool,
    /// Whether workers stood by for one another when this one started.
    pub(crate) standby: bool,
    /// What was said of settlement, and of this worker, when it started.
    pub(crate) said: Said,
    pub(crate) room: Arc<Publications>,
    pub(crate) acknowledger: Arc<Acknowledger<Rabbit, MongoSuspects>>,
    /// Tells the parts to stop. Of their own, so that the end of one part stops the others.
    pub(crate) told: CancellationToken,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tracing: Tracing,
}

impl<L: Ledger + 'static, E: Environment + 'static> Shared<L, E> {
    /// On a database that is ready.
    pub(crate) fn new(
        starting: Starting,
        (settings, said): Found,
        ledger: impl FnOnce(MongoLedger) -> L,
        environment: E,
    ) -> Shared<L, E> {
        let Starting { config, store, health, metrics, tracing } = starting;
        let name = config.application();
        let publisher = Arc::new(Publisher::new(&config.amqp, &format!("{name} publishing")));
        let outbox = MongoOutbox::new(store.clone());
        let ledger = ledger(MongoLedger::new(store.clone(), config.timing.lease()));
        let events = || Arc::new(Events::new(store.clone(), &config.amqp, &name, metrics.clone()));
        let events = settings.events.then(events);
        let announcer = events.clone().map(|events| events as Arc<dyn Announcer>);
        let told = config.engine_settings();
        let engine = Engine::new(ledger, environment, announcer, told, metrics.clone());
        let told = CancellationToken::new();
        let room = Arc::new(Publications::new(publisher.clone(), told.clone()));
        let rabbit = Rabbit::new(room.clone());
        let life = uuid::Uuid::new_v4().simple().to_string();
        let suspects = MongoSuspects::new(store.clone(), outbox, life.clone());
        Shared {
            acknowledger: Arc::new(Acknowledger::new(rabbit, suspects, metrics.clone())),
            life,
            room,
            told,
            engine: Arc::new(engine),
            events,
            has_history: settings.history,
            standby: settings.standby,
            said,
            health,
            config,
            store,
            publisher,
            metrics,
            tracing,
        }
    }
}

impl Starting {
    pub(crate) async fn new(
        config: Config,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
    ) -> Result<Starting, Failure> {
        let name = config.application();
        let store = Store::connect(&config.mongo, &name, config.timing.op_limit()).await;
        let store = store.map_err(Failure::Settings)?;
        // Its own batches are sampled where their transactions are.
        let tracing =
            Tracing::start(config.otlp_endpoint.as_deref(), 0.0, ("tandem-worker", &name));
        let tracing = tracing.map_err(Failure::Settings)?;
        metrics.trace(tracing.clone());
        Ok(Starting { config, store, health, metrics, tracing })
    }

    /// Waits for the database, sets it up when it is fresh, and checks that the user may work on
    /// it. Returns the ledger's settings and what was last said of settlement; none when stopped
    /// before that.
    pub(crate) async fn schema_is_there(
        &self,
        stop: CancellationToken,
    ) -> Result<Option<Found>, Failure> {
        let (mut reconnect, mut is_told) = (Reconnect::default(), false);
        loop {
            let ensured = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(None),
                ensured = self.ensure_database() => ensured,
            };
            match ensured {
                Ok(found) => return Ok(Some(found)),
                Err(error) if !error.passes() => return Err(Failure::NotReady(error)),
                Err(error) => {
                    match is_told {
                        true => tracing::debug!(%error, "still waiting for the database"),
                        false => tracing::warn!(%error, "waiting for the database"),
                    }
                    is_told = true;
                    if !pause(&stop, reconnect.wait()).await {
                        return Ok(None);
                    }
                }
            }
        }
    }

    async fn ensure_database(&self) -> Result<Found, NotReady> {
        let events = self.config.events;
        self.store.ensure_schema_with(Choice { events, ..Choice::default() }).await?;
        self.store.check_rights().await?;
        let (settings, said) = self.store.check_followed(&self.config.application()).await?;
        let settings = settings.ok_or_else(|| {
            NotReady::Ledger(LedgerError::passing("settings", "they have just been removed"))
        })?;
        match events {
            Some(wanted) if wanted != settings.events => Err(Misfit::Events { wanted }.into()),
            Some(_) | None => Ok((settings, said)),
        }
    }
}
