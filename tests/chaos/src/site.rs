//! Everything that runs in one run and can be hit by a fault.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::laid_out;
use harness::queues::Queues;
use ledger::account::{Account, Status};
use ledger::amount::Amount;
use mongo::ACCOUNTS;
use mongodb::bson::DateTime;
use queue::Publisher;
use settings::AmqpSettings;
use tokio::sync::Mutex;

use super::faults::now_ms;
use super::links::Link;
use super::load::{CURRENCY, FROZEN, Load, OPENING, accounts};
use super::observe::Observer;
use super::produce::Producer;
use super::programs::Place;
use super::run::Options;
use super::schedule::{PRODUCERS, WORKERS};
use super::servers::Servers;

/// Everything that can be hit.
pub struct Site {
    /// The servers.
    pub servers: Servers,
    /// The workers.
    pub workers: Vec<Place>,
    /// What a worker is started with, by number.
    pub worker_arguments: Vec<Vec<String>>,
    /// The producers.
    pub producers: Vec<Arc<Producer>>,
    /// The links, of workers first.
    pub links: Vec<Link>,
    /// The name of database and queues.
    pub name: String,
    /// What the database says.
    pub observer: Observer,
}

impl Site {
    /// Opens accounts on these servers, starts the workers, and waits until they consume.
    ///
    /// # Errors
    /// When the servers can't be used.
    pub async fn new(options: &Options, servers: Servers) -> Result<Site, String> {
        let name = format!("chaos_{}", now_ms());
        let observer = Observer::new(&servers.database.uri, &name, options.layout.clone()).await?;
        open(&observer).await?;
        let amqp =
            AmqpSettings { amqp_url: servers.brokers[0].url.clone(), queue_prefix: name.clone() };
        let publisher = Publisher::new(&amqp, "chaos");
        publisher.ensure().await.map_err(|error| error.to_string())?;
        publisher.close().await;
        let (logs, files) = (options.home.join("logs"), options.home.join("files"));
        std::fs::create_dir_all(&files).map_err(|error| format!("{}: {error}", files.display()))?;
        let mut links = Vec::new();
        for process in 0..WORKERS + PRODUCERS {
            links.push(Link::start(&servers, process).await);
        }
        let worker = |number: usize| format!("chaos-worker-{}", number + 1);
        let workers = (0..WORKERS)
            .map(|number| Place::new(&worker(number), "worker", links[number].env(&name), &logs));
        let arguments = (0..WORKERS).map(|number| {
            let engine = &options.engines[number % options.engines.len()];
            let name = worker(number);
            ["--http", "off", "--log-format", "json", "--engine", engine, "--name", &name]
                .map(str::to_owned)
                .to_vec()
        });
        let chunk_rows = (options.rate / PRODUCERS as u32).max(100);
        let producers = (0..PRODUCERS).map(|number| {
            let of = format!("chaos-producer-{}", number + 1);
            Arc::new(Producer {
                place: Place::new(&of, "producer", links[WORKERS + number].env(&name), &logs),
                number,
                load: Load { seed: options.seed, chunk_rows },
                // One producer waits for the end of each chunk, the other goes on at once.
                waits: number == 0,
                files: files.clone(),
                begun_ms: Mutex::default(),
                told: Mutex::default(),
                problems: Mutex::default(),
            })
        });
        let (workers, producers) = (workers.collect(), producers.collect());
        let worker_arguments = arguments.collect();
        let site = Site { servers, workers, worker_arguments, producers, links, name, observer };
        for number in 0..WORKERS {
            site.start_worker(number).await;
        }
        site.wait_for_workers().await?;
        Ok(site)
    }

    /// What a program is started with that no fault of a link hits.
    #[must_use]
    pub fn env(&self) -> BTreeMap<String, String> {
        let (uri, broker) = (&self.servers.database.uri, &self.servers.brokers[0].url);
        let env = [
            ("TANDEM_MONGODB_URI", uri),
            ("TANDEM_DATABASE", &self.name),
            ("TANDEM_AMQP_URL", broker),
            ("TANDEM_QUEUE_PREFIX", &self.name),
        ];
        env.map(|(name, value)| (name.to_owned(), value.clone())).into()
    }

    /// Starts a worker.
    pub async fn start_worker(&self, number: usize) {
        let arguments: Vec<&str> =
            self.worker_arguments[number].iter().map(String::as_str).collect();
        self.workers[number].start(&arguments).await;
    }

    async fn wait_for_workers(&self) -> Result<(), String> {
        let queues = Queues::new(&self.servers.brokers[0].url, &self.name);
        let begun = Instant::now();
        while queues.consumers().await.is_none_or(|consumers| (consumers as usize) < WORKERS) {
            if begun.elapsed() > Duration::from_secs(60) {
                return Err("the workers do not consume".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }
}

async fn open(observer: &Observer) -> Result<(), String> {
    observer.store.ensure_schema().await.map_err(|error| error.to_string())?;
    let store = &observer.store;
    let documents = accounts().into_iter().map(|id| {
        let account = Account::new(&id, Amount::Int(OPENING));
        let status = if id == FROZEN { Status::Frozen } else { Status::Open };
        let currency = Some(CURRENCY.to_owned());
        let account = Account { status, currency, ..account }.to_document(DateTime::now());
        laid_out::stored(store, ACCOUNTS, account)
    });
    let inserted = store.accounts().insert_many(documents).await;
    inserted.map(|_| ()).map_err(|error| error.to_string())
}
