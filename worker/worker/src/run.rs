//! Run, drain: how the parts of a worker are put together and taken apart.
//!
//! Promises that after `stop` nothing new is begun, what is begun gets its time to finish, and the
//! rest is requeued. What does not finish in time is left to the leases: nothing is lost. A part
//! that ends by itself stops the worker in the same way, and makes it fail.

use std::sync::Arc;
use std::time::Duration;

use engine::Environment;
use futures_util::{FutureExt, TryFutureExt};
use ledger::Ledger;
use mongo::{MongoLedger, MongoOutbox};
use observe::pages;
use observe::tls::{self, Tls};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::batches::{BatchSettings, Collector, Running};
use crate::components::{Component, Components, PartEnd};
use crate::config::Config;
use crate::consume::Consuming;
use crate::deliveries::Receipt;
use crate::due::DueSweeper;
use crate::health::{self, Health, Told};
use crate::inserted::Inserted;
use crate::intake::{Intake, Jobs};
use crate::isolation_lock::IsolationLock;
use crate::job::Job;
use crate::lanes::Lanes;
use crate::metrics::Metrics;
use crate::paused::{PauseTeller, Paused};
use crate::report::Reporter;
use crate::start::{Failure, Shared, Starting};
use crate::summing::sum_up;
use crate::sweeper::Sweeper;
use crate::turn::{Turn, TurnKeeper};
use crate::watch::{Followed, Watcher, watch_ground};

/// What a program passes in instead of what a worker would make itself.
pub(crate) struct Given {
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    /// Is told each part, so that it can be ended from outside.
    pub started: Box<dyn FnMut(Component, AbortHandle) + Send>,
}

/// Runs a worker until told to stop, then drains it.
///
/// # Errors
/// When its settings are wrong, the database or the broker refuses it for good, a part of it ends,
/// or the drain takes too long. A server that is away is no error: it waits, says so, and is not
/// ready.
pub(crate) async fn run<L: Ledger + 'static, E: Environment + 'static>(
    config: Config,
    given: Given,
    ledger: impl FnOnce(MongoLedger) -> L,
    environment: E,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let Given { health, metrics, started } = given;
    config.validate().map_err(Failure::Settings)?;
    let url = queue::parse_url(&config.amqp.amqp_url);
    url.map_err(|error| Failure::Settings(error.to_string()))?;
    let listener = pages::listen(&config.http).await;
    let listener = listener.map_err(|error| Failure::Http(config.http.clone(), error))?;
    let tls = config.tls.clone().map(Tls::load).transpose().map_err(Failure::Settings)?;
    let starting = Starting::new(config, health, metrics).await?;
    let mut parts = Components::new(started);
    if let Some(listener) = listener {
        let told = Told { health: starting.health.clone(), metrics: starting.metrics.clone() };
        parts.start(Component::Pages, serve_pages(listener, tls, told));
    }
    tracing::info!(
        name = starting.config.application(),
        mongodb = settings::redacted(&starting.config.mongo.mongodb_uri),
        amqp = settings::redacted(&starting.config.amqp.amqp_url),
        database = starting.store.database().name(),
        "worker starts"
    );
    let found = tokio::select! {
        found = starting.schema_is_there(stop.clone()) => found?,
        (part, outcome) = parts.next() => return Err(Failure::Ended(part, why(outcome))),
    };
    let Some(found) = found else { return Ok(()) };
    Shared::new(starting, found, ledger, environment).work(parts, stop).await
}

/// Serves the pages until it is aborted, and reads their certificate again when it changes.
async fn serve_pages(listener: TcpListener, tls: Option<Tls>, told: Told) -> PartEnd {
    let tls = tls.map(Arc::new);
    let pages = pages::serve(listener, tls.clone(), Arc::new(told));
    let watching = async {
        if let Some(tls) = tls {
            tls::watch(tls, CancellationToken::new()).await;
        }
    };
    match tokio::join!(pages, watching).0 {}
}

impl<L: Ledger + 'static, E: Environment + 'static> Shared<L, E> {
    /// Works until `stop`, or until a part ends by itself; then drains what it can.
    async fn work(self, mut parts: Components, stop: CancellationToken) -> Result<(), Failure> {
        let told = self.told.clone();
        if let Some(events) = self.events.clone() {
            tokio::spawn(async move { events.connect().await });
        }
        let turns = IsolationLock::default();
        let (followed, turn) = self.start_turn_keeper(&mut parts, &told);
        self.start_watchers(&mut parts, followed, &turn, &told);
        self.start_due(&mut parts, turns.clone(), &turn, &told);
        self.start_inserted(&mut parts, &turn, &told);
        self.start_consumer(&mut parts, turns, &turn, &told);
        let reporting = self.reporter(&turn).start(told.clone());
        let failure = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            (part, outcome) = parts.next() => Some(self.ended(part, why(outcome))),
        };
        told.cancel();
        let limit = Duration::from_millis(self.config.drain_ms.into());
        tracing::info!(?limit, "stopping: finishing what is begun");
        let drained = tokio::time::timeout(limit, self.drain(&mut parts)).await;
        let drained = drained.unwrap_or(Err(Failure::Unfinished(limit)));
        reporting.end().await;
        match &drained {
            Ok(()) => tracing::info!("stopped; nothing is left in flight"),
            Err(error) => tracing::warn!(%error, "stopped before all was finished"),
        }
        failure.map_or(drained, Err)
    }

    fn reporter(&self, turn: &Turn) -> Reporter {
        let engine = self.engine.clone();
        let way = Box::new(move || engine.way());
        Reporter::new(
            self.store.clone(),
            self.metrics.clone(),
            &self.config,
            self.life.clone(),
            (way, turn.clone()),
        )
    }

    /// Says that a part ended too early, so that the worker is not ready any more.
    fn ended(&self, part: Component, why: String) -> Failure {
        tracing::error!(%part, why, "a part of the worker ended by itself");
        self.health.ended(part, &why);
        Failure::Ended(part, why)
    }

    /// Returns where it is told what the settings say while a worker runs, and this worker's turn.
    fn start_turn_keeper(
        &self,
        parts: &mut Components,
        stop: &CancellationToken,
    ) -> (Followed, Turn) {
        let (told, standby) = watch::channel(self.standby);
        let (teller, paused) = PauseTeller::new(self.health.clone(), self.metrics.clone());
        // A worker that starts while settlement is paused, or that is drained, begins nothing.
        teller.tell(&self.said);
        let (standing, turn) = TurnKeeper::standing(standby.clone(), paused.clone());
        let keeper = TurnKeeper {
            amqp: self.config.amqp.clone(),
            name: self.config.application(),
            publisher: self.publisher.clone(),
            health: self.health.clone(),
            metrics: self.metrics.clone(),
            standby,
            paused,
            standing,
        };
        parts.start(Component::TurnKeeper, keeper.run(stop.clone()));
        (Followed { standby: told, settlement: teller }, turn)
    }

    fn start_watchers(
        &self,
        parts: &mut Components,
        followed: Followed,
        turn: &Turn,
        stop: &CancellationToken,
    ) {
        let outbox = MongoOutbox::new(self.store.clone());
        let engine = self.engine.clone();
        let watching = health::watch_database(
            self.store.clone(),
            outbox.clone(),
            self.health.clone(),
            self.metrics.clone(),
            (turn.clone(), move |took| engine.learn_round_trip(took)),
            stop.clone(),
        );
        parts.start(Component::DatabaseWatcher, watching.map(done));
        let every = self.config.sweeper().every;
        let watcher = Watcher { name: self.config.application(), events: self.events.is_some() };
        let ways = (followed, turn.clone());
        let watching = watch_ground(self.store.clone(), watcher, ways, every, stop.clone());
        parts.start(Component::SettingsWatcher, watching);
        let sweeper = Sweeper {
            store: self.store.clone(),
            outbox,
            publisher: self.publisher.clone(),
            events: self.events.clone(),
            turn: turn.clone(),
            metrics: self.metrics.clone(),
            settings: self.config.sweeper(),
        };
        let acknowledger = self.acknowledger.clone();
        let markers = move || acknowledger.markers();
        let sweeping = sweeper.run(markers, stop.clone());
        parts.start(Component::Sweeper, sweeping.map(done));
        if self.has_history {
            let summing = sum_up(self.store.clone(), turn.clone(), stop.clone());
            parts.start(Component::Summing, summing.map(done));
        }
    }

    fn start_due(
        &self,
        parts: &mut Components,
        turns: IsolationLock,
        turn: &Turn,
        stop: &CancellationToken,
    ) {
        let due = DueSweeper {
            store: self.store.clone(),
            outbox: MongoOutbox::new(self.store.clone()),
            publisher: self.publisher.clone(),
            engine: self.engine.clone(),
            turns,
            turn: turn.clone(),
            metrics: self.metrics.clone(),
            every: self.config.sweeper().every,
            batch_size: self.config.batches().ids_max,
        };
        parts.start(Component::DueSweeper, due.run(stop.clone()).map(done));
    }

    fn start_inserted(&self, parts: &mut Components, turn: &Turn, stop: &CancellationToken) {
        let inserted = Inserted {
            name: self.config.application(),
            outbox: MongoOutbox::new(self.store.clone()),
            publisher: self.publisher.clone(),
            health: self.health.clone(),
            turn: turn.clone(),
            metrics: self.metrics.clone(),
        };
        parts.start(Component::Inserted, inserted.run(stop.clone()).map(done));
    }

    fn start_consumer(
        &self,
        parts: &mut Components,
        turns: IsolationLock,
        turn: &Turn,
        stop: &CancellationToken,
    ) {
        let ahead = self.config.ahead();
        // As much as the broker delivers ahead, so that the consumer never waits for a batch.
        let (work, suspects) = (mpsc::channel(ahead.most()), mpsc::channel(ahead.most()));
        // It waits for none of those that are processed in place of being isolated.
        let solo = mpsc::channel(ahead.most());
        let alone = BatchSettings { ids_max: 1, lanes: 1, ..self.config.batches() };
        for (part, jobs, settings) in [
            (Component::Batches, work.1, self.config.batches()),
            (Component::SuspectBatches, suspects.1, self.config.suspect_batches()),
            (Component::SoloBatches, solo.1, alone),
        ] {
            let (turns, paused) = (turns.clone(), turn.paused().clone());
            parts.start(part, self.batches(jobs, settings, (turns, paused), stop.clone()));
        }
        let consuming = Consuming {
            amqp: self.config.amqp.clone(),
            name: self.config.application(),
            acknowledger: self.acknowledger.clone(),
            room: self.room.clone(),
            publisher: self.publisher.clone(),
            health: self.health.clone(),
            metrics: self.metrics.clone(),
            turn: turn.clone(),
        };
        let jobs = Jobs { work: work.0, suspects: suspects.0, solo: solo.0 };
        let (acknowledger, room) = (self.acknowledger.clone(), self.room.clone());
        let intake = Intake::new(acknowledger, jobs, room, self.tracing.clone());
        let consuming = consuming.run(intake, ahead, stop.clone());
        let consuming = consuming.map_err(|error| error.to_string());
        parts.start(Component::Consumer, consuming);
    }

    fn batches(
        &self,
        jobs: mpsc::Receiver<Job<Receipt>>,
        settings: BatchSettings,
        (turns, paused): (IsolationLock, Paused),
        stop: CancellationToken,
    ) -> impl Future<Output = PartEnd> + use<L, E> {
        let (engine, metrics) = (self.engine.clone(), self.metrics.clone());
        let (acknowledger, health) = (self.acknowledger.clone(), self.health.clone());
        let lanes = Lanes::new(settings.lanes, move || health.known_workers() as usize);
        async move {
            let collector = Collector::new(jobs);
            let told = acknowledger.clone();
            let running = Running { engine, acknowledger: told, turns, metrics, paused };
            let rest = running.run(collector, (settings, lanes), stop).await;
            rest.requeue(&acknowledger).await;
            Ok(None)
        }
    }

    /// Waits for the parts that may have deliveries, then closes the connection to the broker.
    async fn drain(&self, parts: &mut Components) -> Result<(), Failure> {
        let (mut session, mut drained) = (None, Ok(()));
        while !parts.has_drained() {
            match parts.next().await {
                (_, Ok(None)) => {}
                (_, Ok(Some(last))) => session = Some(last),
                (part, Err(why)) => drained = Err(self.ended(part, why)),
            }
        }
        if let Some(session) = session {
            session.close().await;
        }
        self.publisher.close().await;
        if let Some(events) = &self.events {
            events.close().await;
        }
        self.tracing.stop().await;
        drained
    }
}

/// How a part ends that has nothing to say.
fn done((): ()) -> PartEnd {
    Ok(None)
}

/// Why a part ended before the worker was told to stop.
fn why(outcome: PartEnd) -> String {
    outcome.err().unwrap_or_else(|| "nobody had told it to".to_owned())
}
