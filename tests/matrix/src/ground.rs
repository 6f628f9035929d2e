//! What cells stand on: a MongoDB that fails on demand, a broker, a database with a healthy client,
//! and workers inside this program.

use std::sync::Arc;
use std::time::Duration;

use audit::Options;
use client::Client;
use engine::EngineKind;
use harness::failing::FailingMongo;
use harness::proxy::Relay;
use harness::rest;
use harness::servers::Servers;
use harness::wait::{s, wait_until};
use harness::world::World;
use ledger::transaction::{State, TransactionId};
use mongo::Store;
use settings::{MongoSettings, TimingSettings};
use worker::{Worker, WorkerHandle};

/// The time limit of one command of clients and workers under test: short, so that a block does not
/// take long, and long enough for a busy machine.
pub const OP_LIMIT: Duration = Duration::from_millis(500);

/// How long a client under test tries again.
const GIVE_UP_AFTER: Duration = Duration::from_secs(3);

/// A database and its queues.
pub struct Ground {
    /// The server that fails on demand.
    pub mongo: Arc<FailingMongo>,
    /// The database, past all proxies.
    pub world: World,
    /// A client that nothing fails.
    pub client: Client,
}

impl Ground {
    /// A fresh database with its queues.
    ///
    /// # Panics
    /// When a server is away.
    pub async fn new(mongo: Arc<FailingMongo>, amqp_url: &str) -> Ground {
        let mongodb_uri = mongo.uri().to_owned();
        let world = World::on(Servers { mongodb_uri, amqp_url: amqp_url.to_owned() }).await;
        let client = world.client().await;
        Ground { mongo, world, client }
    }

    /// The name of a client's connections.
    #[must_use]
    pub fn app_name(name: &str) -> String {
        format!("tandem {name}")
    }

    /// A client whose commands go through a relay.
    ///
    /// # Panics
    /// When the relay's address makes no sense.
    pub async fn client_through(&self, relay: &Relay, name: &str) -> Client {
        let mongo = MongoSettings {
            mongodb_uri: relay.uri(),
            database: Some(self.world.name.clone()),
            one_document_statements: false,
            accept_index: vec![],
        };
        let store = Store::connect(&mongo, name, OP_LIMIT).await.expect("the address is good");
        let config = self.world.client_config().name(name).give_up_after(GIVE_UP_AFTER);
        Client::over(store, &config.publish_within(Duration::from_secs(1)))
    }

    /// Starts a worker that reaches MongoDB here.
    pub fn worker(&self, name: &str, engine: EngineKind, mongodb_uri: &str) -> WorkerHandle {
        let mut config = worker::Config::new(mongodb_uri, &self.world.servers.amqp_url);
        config.mongo.database = Some(self.world.name.clone());
        config.amqp.queue_prefix = self.world.name.clone();
        config.timing = TimingSettings {
            lease_ms: 1_500,
            grace_ms: 800,
            op_limit_ms: u32::try_from(OP_LIMIT.as_millis()).unwrap_or(u32::MAX),
            clock_skew_ms: 200,
        };
        config.name = Some(name.to_owned());
        config.engine = engine;
        (config.sweep_ms, config.orphan_ms, config.retry_first_ms) = (300, 1_000, 100);
        // On a busy machine an operation limit may pass without any fault.
        config.attempts_max = 1_000;
        config.drain_ms = 5_000;
        Worker::new(config).start()
    }

    /// A worker that nothing fails.
    pub fn healthy_worker(&self) -> WorkerHandle {
        self.worker("healthy", EngineKind::TwoPhase, self.mongo.uri())
    }

    /// Brings back what is parked, and waits until all is final that does not rest.
    ///
    /// # Panics
    /// When a healthy client and worker can't bring it there.
    pub async fn come_to_rest(&self) {
        let parked = self.client.parked(1_000).await.expect("MongoDB is there");
        let ids: Vec<TransactionId> =
            parked.iter().filter_map(|parked| Some(parked.id.as_str()?.into())).collect();
        if !ids.is_empty() {
            self.client.unpark(&ids).await.expect("the servers are there");
        }
        wait_until("every transaction is final or rests", s(60), async || {
            self.world.count(&State::UNFINISHED).await == 0
        })
        .await;
    }

    /// What is wrong with the books, by the harness's own check.
    pub async fn broken_rules(&self) -> Vec<String> {
        let store = &self.world.store;
        rest::problems(store).await
    }

    /// What is wrong with the books, by that and by the audit of the client.
    ///
    /// # Panics
    /// When MongoDB is away.
    pub async fn problems(&self) -> Vec<String> {
        let mut found = self.broken_rules().await;
        let options = Options { at_rest: true, ..Options::default() };
        let report = audit::run(&self.client, options, |_, _| {}).await.expect("MongoDB is there");
        found.extend(report.violations.iter().map(|violation| format!("audit: {violation:?}")));
        found.extend(report.unexplained.first.iter().map(|moved| format!("audit: {moved:?}")));
        found
    }

    /// Removes it.
    ///
    /// # Panics
    /// When a server is away.
    pub async fn finish(self) {
        self.client.close().await;
        self.world.finish().await;
    }
}

/// Stops a worker.
pub async fn stop(worker: WorkerHandle) {
    worker.stop();
    // What it has not finished is taken over by the next one.
    let _ = worker.wait().await;
}
