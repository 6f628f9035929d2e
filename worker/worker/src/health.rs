//! Health: whether broker and database are there, as `/readyz` and the metrics tell.
//!
//! Owns what the pages of a worker say: `/readyz` that it can work, `/metrics` how it does.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use ledger::ServerMs;
use mongo::{MongoOutbox, Store};
use observe::pages::{Pages, StatusCode};
use tokio_util::sync::CancellationToken;

use crate::components::{Component, pause};
use crate::metrics::{Metrics, Server};
use crate::turn::Turn;

/// How often to look at the database.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How often a worker looks that stands by.
const LOOK_EVERY_IN_STANDBY: Duration = Duration::from_secs(6);

/// In one of so many looks of all workers together one asks for what is not final: the server goes
/// through all that is in flight for it, and each further worker has more in flight.
const LOOKS_PER_BACKLOG: u32 = 5;

/// What is there.
#[derive(Debug, Default)]
pub struct Health {
    broker: AtomicBool,
    database: AtomicBool,
    workers: AtomicU32,
    ended: OnceLock<String>,
    pauses: Mutex<Pauses>,
}

/// Since when, by whom and why nothing is begun.
#[derive(Debug, Default)]
struct Pauses {
    /// Of the ledger.
    ledger: Option<String>,
    /// Of this worker, which is drained.
    worker: Option<String>,
}

impl Health {
    /// Notes whether the broker is there.
    pub fn broker(&self, there: bool) {
        self.broker.store(there, Ordering::Relaxed);
    }

    /// Whether the broker is there.
    #[must_use]
    pub fn has_broker(&self) -> bool {
        self.broker.load(Ordering::Relaxed)
    }

    /// Notes whether the database is there.
    pub fn database(&self, there: bool) {
        self.database.store(there, Ordering::Relaxed);
    }

    /// Whether the database is there.
    #[must_use]
    pub fn has_database(&self) -> bool {
        self.database.load(Ordering::Relaxed)
    }

    /// Notes how many workers there are, itself included, as the broker knows.
    pub fn workers(&self, number: u32) {
        self.workers.store(number, Ordering::Relaxed);
    }

    /// How many workers there are, itself included, as far as is known.
    #[must_use]
    pub fn known_workers(&self) -> u32 {
        self.workers.load(Ordering::Relaxed).max(1)
    }

    /// How many looks of its own it makes for each question about what is not final.
    fn looks_per_backlog(&self) -> u32 {
        LOOKS_PER_BACKLOG.saturating_mul(self.known_workers())
    }

    /// Notes that a part of the worker has ended though nobody had told it to. The first counts.
    pub fn ended(&self, part: Component, why: &str) {
        self.ended.get_or_init(|| format!("{part}: ended ({why})\n"));
    }

    /// Notes since when settlement is paused, and since when this worker is drained, by whom and why;
    /// none when it goes on. A worker that begins nothing for one of these reasons is ready: the
    /// process is as it should be.
    pub fn paused(&self, ledger: Option<String>, worker: Option<String>) {
        *self.pauses.lock().expect("no holder panics") = Pauses { ledger, worker };
    }

    /// A line for each reason for which nothing is begun.
    fn pauses(&self) -> String {
        let pauses = self.pauses.lock().expect("no holder panics");
        let line = |what, said: &Option<String>| {
            said.as_ref().map(|said| format!("{what} {said}\n")).unwrap_or_default()
        };
        line("settlement: paused", &pauses.ledger) + &line("worker: drained", &pauses.worker)
    }

    /// Whether it can work.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let there = |server: &AtomicBool| server.load(Ordering::Relaxed);
        there(&self.broker) && there(&self.database) && self.ended.get().is_none()
    }

    /// What `/readyz` says.
    pub(crate) fn page(&self) -> (StatusCode, String) {
        let name = |there: bool| if there { "ok" } else { "away" };
        let broker = self.broker.load(Ordering::Relaxed);
        let database = self.database.load(Ordering::Relaxed);
        let ended = self.ended.get();
        let status = match self.is_ready() {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        };
        let ended = ended.map_or("", String::as_str);
        let pauses = self.pauses();
        (status, format!("broker: {}\ndatabase: {}\n{pauses}{ended}", name(broker), name(database)))
    }
}

/// What a worker tells on its pages.
pub(crate) struct Told {
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Pages for Told {
    fn ready(&self) -> (StatusCode, String) {
        self.health.page()
    }

    fn metrics(&self) -> String {
        self.metrics.page()
    }
}

/// Looks at the database again and again, until `stop`; `told` learns how long each answer took.
pub async fn watch_database(
    store: Store,
    outbox: MongoOutbox,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    (turn, told): (Turn, impl Fn(Duration) + Send),
    stop: CancellationToken,
) {
    let (mut there, mut looks) = (true, u32::MAX);
    loop {
        let every = if turn.is_standby() { LOOK_EVERY_IN_STANDBY } else { LOOK_EVERY };
        let is_due = looks >= health.looks_per_backlog();
        looks = if is_due { 1 } else { looks + 1 };
        let asked = Instant::now();
        match store.server_now().await {
            Ok(now) => {
                told(asked.elapsed());
                if !there {
                    tracing::info!("the database is back");
                }
                there = true;
                if is_due {
                    let again_in = every.saturating_mul(health.looks_per_backlog());
                    count_backlog(&outbox, &metrics, now, again_in).await;
                }
            }
            Err(error) => {
                if there {
                    tracing::warn!(%error, "the database is away");
                }
                (there, looks) = (false, u32::MAX);
            }
        }
        health.database(there);
        metrics.server(Server::Database, there);
        if !pause(&stop, every).await {
            return;
        }
    }
}

/// Counts what is not final, which is done the next time after so long. That it fails says nothing
/// of whether the database is there.
async fn count_backlog(outbox: &MongoOutbox, metrics: &Metrics, now: ServerMs, again_in: Duration) {
    match outbox.backlog().await {
        Ok(backlog) => metrics.backlog(&backlog, now, again_in),
        Err(error) if error.passes() => {
            tracing::debug!(%error, "counting what is not final later");
        }
        Err(error) => tracing::warn!(%error, "can't count what is not final"),
    }
}
