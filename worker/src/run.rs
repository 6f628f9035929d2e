//! Start, run, drain: how the parts of a worker are put together and taken apart.
//!
//! Promises that after `stop` nothing new is begun, what is begun gets its time to finish, and the
//! rest is handed back. What does not finish in time is left to the leases: nothing is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::ledger::{Ledger, LedgerError};
use common::mongo::{MongoLedger, MongoOutbox, Store};
use common::queue::Publisher;
use common::retry::{Policy, jitter};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::acknowledge::{Acknowledger, Job};
use crate::consume::{self, Consuming};
use crate::engine::{Engine, Environment};
use crate::health::{self, Health};
use crate::lanes::{self, BatchSettings, Intake};
use crate::metrics::Metrics;
use crate::rabbit::Rabbit;
use crate::settings::Settings;
use crate::stop::Stop;
use crate::sweeper::Sweeper;

/// Why a worker does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is wrong; the message names it.
    #[error("{0}")]
    Settings(String),
    /// The address for the pages is taken or makes no sense.
    #[error("TANDEM_HTTP ({0}): {1}; choose another address, or `off`")]
    Http(String, std::io::Error),
}

/// The real clock and real randomness.
struct Real {
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
struct Parts<L> {
    settings: Settings,
    store: Store,
    engine: Arc<Engine<L, Real>>,
    publisher: Arc<Publisher>,
    acknowledger: Arc<Acknowledger<Rabbit>>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

/// Runs a worker until told to stop, then drains it.
///
/// # Errors
/// When it can't start because of its settings. A database or broker that is away is no error: it
/// waits for them, says so, and is not ready.
pub async fn run(settings: Settings, stop: Stop) -> Result<(), StartError> {
    run_on(settings, |ledger| ledger, stop).await
}

/// As [`run`], with something between the engine and its ledger.
///
/// # Errors
/// As [`run`].
pub async fn run_on<L: Ledger + 'static>(
    settings: Settings,
    wrap: impl FnOnce(MongoLedger) -> L,
    stop: Stop,
) -> Result<(), StartError> {
    settings.validate().map_err(StartError::Settings)?;
    let url = common::queue::parse_url(&settings.amqp.amqp_url);
    url.map_err(|error| StartError::Settings(error.to_string()))?;
    let listener = listen(&settings.http).await?;
    let parts = Parts::new(settings, wrap).await?;
    if let Some(listener) = listener {
        tokio::spawn(health::serve(listener, parts.health.clone(), parts.metrics.clone()));
    }
    tracing::info!(
        name = parts.settings.application(),
        mongodb = common::config::redacted(&parts.settings.mongo.mongodb_uri),
        amqp = common::config::redacted(&parts.settings.amqp.amqp_url),
        database = parts.store.database().name(),
        "worker starts"
    );
    if !parts.schema_is_there(stop.clone()).await {
        return Ok(());
    }
    parts.work(stop).await;
    Ok(())
}

async fn listen(address: &str) -> Result<Option<TcpListener>, StartError> {
    if address == "off" {
        return Ok(None);
    }
    let bound = TcpListener::bind(address).await;
    bound.map(Some).map_err(|error| StartError::Http(address.to_owned(), error))
}

impl<L: Ledger + 'static> Parts<L> {
    async fn new(
        settings: Settings,
        wrap: impl FnOnce(MongoLedger) -> L,
    ) -> Result<Parts<L>, StartError> {
        let name = settings.application();
        let store = Store::connect(&settings.mongo, &name, settings.timing.op_limit()).await;
        let store = store.map_err(StartError::Settings)?;
        let metrics = Arc::new(Metrics::new());
        let publisher = Arc::new(Publisher::new(&settings.amqp, &format!("{name} publishing")));
        let rabbit = Rabbit::new(publisher.clone(), MongoOutbox::new(store.clone()));
        let ledger = wrap(MongoLedger::new(store.clone(), settings.timing.lease()));
        let environment = Real { started: Instant::now() };
        let engine = Engine::new(ledger, environment, settings.engine_settings(), metrics.clone());
        Ok(Parts {
            acknowledger: Arc::new(Acknowledger::new(rabbit, metrics.clone())),
            engine: Arc::new(engine),
            health: Arc::default(),
            settings,
            store,
            publisher,
            metrics,
        })
    }

    /// Waits for the database and makes the collections. False when stopped before that.
    async fn schema_is_there(&self, mut stop: Stop) -> bool {
        let mut attempt = 0;
        loop {
            let ensured: Result<(), LedgerError> = tokio::select! {
                biased;
                () = stop.told() => return false,
                ensured = self.store.ensure_schema() => ensured,
            };
            match ensured {
                Ok(()) => return true,
                Err(error) => {
                    attempt += 1;
                    tracing::warn!(%error, "waiting for the database");
                    let delay = Policy::RECONNECT.delay(attempt, jitter());
                    if !stop.not_for(delay).await {
                        return false;
                    }
                }
            }
        }
    }

    async fn work(self, stop: Stop) {
        let outbox = MongoOutbox::new(self.store.clone());
        let watching = tokio::spawn(health::watch_database(
            self.store.clone(),
            outbox.clone(),
            self.health.clone(),
            self.metrics.clone(),
            stop.clone(),
        ));
        let sweeper = Sweeper {
            store: self.store.clone(),
            outbox,
            publisher: self.publisher.clone(),
            metrics: self.metrics.clone(),
            settings: self.settings.sweeper(),
        };
        let acknowledger = self.acknowledger.clone();
        let newest_marker = move || acknowledger.newest_marker();
        let sweeping = tokio::spawn(sweeper.run(newest_marker, stop.clone()));

        // As much as the broker delivers ahead, so that the consumer never waits for a lane.
        let ahead = usize::from(self.settings.prefetch);
        let (work, solo) = (mpsc::channel(ahead), mpsc::channel(1));
        let alone = BatchSettings { ids_max: 1, lanes: 1, ..self.settings.batches() };
        let lanes = [
            self.lane(work.1, self.settings.batches(), stop.clone()),
            self.lane(solo.1, alone, stop.clone()),
        ];
        let consuming = Consuming {
            amqp: self.settings.amqp.clone(),
            name: self.settings.application(),
            prefetch: self.settings.prefetch,
            acknowledger: self.acknowledger.clone(),
            work: work.0,
            solo: solo.0,
            health: self.health.clone(),
            metrics: self.metrics.clone(),
        };
        let mut stopped = stop.clone();
        let consuming = tokio::spawn(consuming.run(stop));
        stopped.told().await;
        let limit = Duration::from_millis(self.settings.drain_ms.into());
        tracing::info!(?limit, "stopping: finishing what is begun");
        let drained = tokio::time::timeout(limit, self.drain(consuming, lanes)).await;
        match drained {
            Ok(()) => tracing::info!("stopped; nothing is left in flight"),
            Err(_) => tracing::warn!("stopped before all was finished; leases will run out"),
        }
        sweeping.abort();
        watching.abort();
    }

    fn lane(
        &self,
        jobs: mpsc::Receiver<Job<lapin::Acker>>,
        settings: BatchSettings,
        stop: Stop,
    ) -> JoinHandle<()> {
        let (engine, metrics) = (self.engine.clone(), self.metrics.clone());
        let acknowledger = self.acknowledger.clone();
        tokio::spawn(async move {
            let intake = Intake::new(jobs);
            let rest =
                lanes::run(intake, settings, engine, acknowledger.clone(), metrics, stop).await;
            rest.hand_back(&acknowledger).await;
        })
    }

    async fn drain(
        &self,
        consuming: JoinHandle<Option<lapin::Connection>>,
        lanes: [JoinHandle<()>; 2],
    ) {
        let connection = consuming.await.ok().flatten();
        for lane in lanes {
            if let Err(error) = lane.await {
                tracing::error!(%error, "a lane broke down");
            }
        }
        if let Some(connection) = connection {
            consume::close(connection).await;
        }
        self.publisher.close().await;
    }
}
