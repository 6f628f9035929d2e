//! The simulated workers: the real engine and the real acknowledger over the simulated client.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::{Announcer, Engine, EngineKind, EngineSettings, Outcome};
use futures_util::future::{join, join_all};
use ledger::message::Message;
use ledger::retry::Policy;
use ledger::transaction::TransactionId;
use worker::acknowledge::Acknowledger;
use worker::decide::{Origin, STRIKES_MAX};
use worker::job::{Admitted, Job};
use worker::metrics::Metrics;

use super::broker::Queued;
use super::client::{Client, Shared};
use super::planted::Planted;
use super::scenario::Scenario;

/// A batch in flight.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One worker process.
pub struct Worker {
    /// How often it was started.
    pub life: u32,
    /// Whether it is stalled. It does not notice.
    pub stalled: bool,
    /// Its batches in flight.
    pub tasks: Vec<Task>,
    /// The newest write that the server has acknowledged to it.
    pub newest_write: u64,
    client: Client,
    engine: Arc<Engine<Client, Client>>,
    acknowledger: Arc<Acknowledger<Client, Client>>,
}

/// Starts workers.
pub struct Staff {
    shared: Arc<Mutex<Shared>>,
    /// How many batches a worker has in flight.
    pub lanes: usize,
    /// By how much clocks may differ.
    pub skew_max: i64,
    settings: EngineSettings,
    engines: Vec<EngineKind>,
    planted: Option<Planted>,
    metrics: Arc<Metrics>,
    /// Whether the workers announce outcomes.
    pub events: bool,
}

impl Staff {
    /// A staff for a scenario.
    #[must_use]
    pub fn new(
        shared: Arc<Mutex<Shared>>,
        scenario: &Scenario,
        planted: Option<Planted>,
        metrics: Arc<Metrics>,
    ) -> Staff {
        let settings = EngineSettings {
            kind: EngineKind::TwoPhase,
            application: "simulated".into(),
            post_window_ms: scenario.op_limit,
            grace_ms: scenario.lease.grace,
            attempts_max: 5,
            retry: Policy { first: Duration::from_millis(5), max: Duration::from_millis(40) },
            tries_in_place: 3,
            ride_wait: scenario.ride_wait,
            rides_from: 1,
            full_from: 3,
            split_from: 3,
        };
        let engines = scenario.workers.clone();
        let (lanes, skew_max) = (scenario.lanes, scenario.skew_max);
        Staff {
            shared,
            lanes,
            skew_max,
            settings,
            engines,
            planted,
            metrics,
            events: scenario.events,
        }
    }

    /// Starts a worker.
    #[must_use]
    pub fn hire(&self, index: usize, life: u32) -> Worker {
        // One clock is right, one is fast, one is slow, by more than a lease.
        let clock_error = [0, 400, -400][index % 3];
        let client = Client::new(self.shared.clone(), (index, life), clock_error, self.planted);
        let settings = EngineSettings { kind: self.engines[index], ..self.settings.clone() };
        let metrics = self.metrics.clone();
        let announcer = self.events.then(|| Arc::new(client.clone()) as Arc<dyn Announcer>);
        let engine =
            Engine::new(client.clone(), client.clone(), announcer, settings, metrics.clone());
        Worker {
            life,
            stalled: false,
            tasks: Vec::new(),
            newest_write: 0,
            client: client.clone(),
            engine: Arc::new(engine),
            acknowledger: Arc::new(Acknowledger::new(client.clone(), client, metrics)),
        }
    }

    /// Makes a worker process deliveries, as its batches do.
    pub fn assign(&self, worker: &mut Worker, deliveries: Vec<(u64, Queued)>) {
        let (engine, acknowledger) = (worker.engine.clone(), worker.acknowledger.clone());
        let client = worker.client.clone();
        let too_early = self.planted == Some(Planted::AcknowledgeBeforeFinal);
        let count_buries = self.planted == Some(Planted::CountAloneBuries);
        let unsettled = self.planted == Some(Planted::NeighbourAcknowledgedUnsettled);
        worker.tasks.push(Box::pin(async move {
            let (mut jobs, mut debts) = (Vec::new(), Vec::new());
            for (receipt, queued) in deliveries {
                let Queued { mut body, solo, deliveries, .. } = queued;
                let mut origin = if solo { Origin::Solo } else { Origin::Work };
                if count_buries && origin == Origin::Work && deliveries >= STRIKES_MAX {
                    (origin, body) = (Origin::Solo, with_strikes(&body));
                }
                match acknowledger.admit(origin, deliveries, client.publishing(), body, receipt) {
                    Admitted::Job(job) => jobs.push(job),
                    Admitted::Debt(debt) => debts.push(debt),
                }
            }
            // The intake waits for them, and not the batch.
            let paying = join_all(debts.into_iter().map(async |debt| {
                let confirmed = acknowledger.pay(&debt).await;
                acknowledger.paid(debt, confirmed).await;
            }));
            let settling = settle(&engine, &acknowledger, jobs, (too_early, unsettled));
            join(paying, settling).await;
        }));
    }
}

/// The message as one that has one strike left.
fn with_strikes(body: &[u8]) -> Vec<u8> {
    let parsed = Message::parse(body).expect("workers and producers publish only such");
    Message { strikes: STRIKES_MAX - 1, ..parsed.message }.to_bytes()
}

/// Processes a batch. Planted: too early an acknowledgement, or one of what is not settled.
async fn settle(
    engine: &Engine<Client, Client>,
    acknowledger: &Acknowledger<Client, Client>,
    jobs: Vec<Job<u64>>,
    (too_early, unsettled): (bool, bool),
) {
    let ids: Vec<TransactionId> =
        jobs.iter().flat_map(|job| job.message.ids.iter().cloned()).collect();
    if ids.is_empty() {
        return;
    }
    if too_early {
        let claimed = ids.iter().map(|id| (id.clone(), Outcome::Final)).collect();
        acknowledger.finish(jobs, claimed).await;
        engine.run(&ids).await;
    } else {
        let mut outcomes = engine.run(&ids).await;
        if ends_with_its_neighbours(&outcomes) && unsettled {
            outcomes.iter_mut().for_each(|(_, outcome)| *outcome = Outcome::Final);
        }
        acknowledger.finish(jobs, outcomes).await;
    }
}

/// Whether some of a batch have ended, and others have not.
fn ends_with_its_neighbours(outcomes: &[(TransactionId, Outcome)]) -> bool {
    let ended = |(_, outcome): &(TransactionId, Outcome)| {
        matches!(outcome, Outcome::Final | Outcome::Parked)
    };
    outcomes.iter().any(ended) && !outcomes.iter().all(ended)
}
