//! One look for all viewers: who asks for the overview gets what the sampler has seen.
//!
//! Owns the two tasks that look at database and broker. Promises that ten viewers cost the servers
//! as much as one, that nobody is looked at when nobody has asked for a minute (what was seen
//! stays, for the charts), and that an answer comes also while a server is away: with what was
//! known, and how old that is. The broker is asked on a connection of its own, so that a failed
//! question delays no submission.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use client::Client;
use queue::Publisher;
use tokio::sync::{Notify, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::knowledge::{EVERY, Knowledge};
use super::look::Looks;
use super::types::Overview;

/// How long to look after the last viewer has asked.
const LINGER: Duration = Duration::from_secs(60);

/// A look that takes longer has failed.
const LOOK_LIMIT: Duration = Duration::from_secs(3);

/// How long the first viewer waits for the first look.
const FIRST_LIMIT: Duration = Duration::from_secs(4);

/// Looks, for all who watch.
pub struct Sampler {
    client: Client,
    broker: Publisher,
    knowledge: Mutex<Knowledge>,
    asked_at: Mutex<Option<Instant>>,
    wake: Notify,
    answers: watch::Sender<Answers>,
}

/// What has come since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Looks at the database that have ended; the overview is told anew with each.
    pub looks: u64,
    /// Since somebody looks again, whether both servers have answered or failed to.
    complete: bool,
}

impl Sampler {
    /// A sampler that looks when [`Sampler::run`] runs and somebody asks.
    pub fn new(client: Client) -> Sampler {
        let config = client.config();
        let broker = Publisher::new(&config.amqp(), &format!("{} looking", config.name));
        Sampler {
            client,
            broker,
            knowledge: Mutex::default(),
            asked_at: Mutex::default(),
            wake: Notify::new(),
            answers: watch::Sender::default(),
        }
    }

    /// What is known now, and the number of the point that comes next. Waits for the first look.
    pub async fn overview(&self) -> (Overview, u64) {
        self.ask();
        let mut answers = self.answers.subscribe();
        // Without an answer of both: what one of them has said, and that the other one has not.
        drop(timeout(FIRST_LIMIT, answers.wait_for(|answers| answers.complete)).await);
        self.overview_from(0)
    }

    /// The same without waiting, with the points from this number on.
    pub fn overview_from(&self, number: u64) -> (Overview, u64) {
        self.ask();
        let knowledge = self.knowledge();
        let overview = knowledge.overview(number, Instant::now(), SystemTime::now());
        (overview, knowledge.flow.next())
    }

    /// Tells when there was another look.
    pub fn answers(&self) -> watch::Receiver<Answers> {
        self.answers.subscribe()
    }

    /// Notes that somebody wants to know.
    fn ask(&self) {
        *self.asked_at.lock().expect("no holder panics") = Some(Instant::now());
        self.wake.notify_one();
    }

    fn is_wanted(&self) -> bool {
        let asked_at = *self.asked_at.lock().expect("no holder panics");
        asked_at.is_some_and(|at| at.elapsed() < LINGER)
    }

    fn knowledge(&self) -> MutexGuard<'_, Knowledge> {
        self.knowledge.lock().expect("no holder panics")
    }

    /// Looks while somebody wants to know, until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let looking = async {
            loop {
                self.wake.notified().await;
                if !self.is_wanted() {
                    continue;
                }
                tokio::join!(self.look_at_the_database(), self.look_at_the_broker());
                self.knowledge().pause();
                self.answers.send_modify(|answers| answers.complete = false);
                self.broker.close().await;
            }
        };
        stop.run_until_cancelled(looking).await;
        self.broker.close().await;
    }

    async fn look_at_the_database(&self) {
        let (mut looks, mut ticks) = (Looks::default(), interval(EVERY));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.is_wanted() {
            ticks.tick().await;
            let looking = timeout(LOOK_LIMIT, looks.look(self.client.store())).await;
            let looked = match looking {
                Ok(looked) => looked.map_err(|error| error.to_string()),
                Err(_) => Err(format!("MongoDB: no answer within {LOOK_LIMIT:?}")),
            };
            self.knowledge().of_the_database(looked, Instant::now(), SystemTime::now());
            self.tell(1);
        }
    }

    async fn look_at_the_broker(&self) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.is_wanted() {
            ticks.tick().await;
            let looking = timeout(LOOK_LIMIT, self.broker.levels()).await;
            let looked = match looking {
                Ok(looked) => looked.map_err(|error| error.to_string()),
                Err(_) => Err(format!("RabbitMQ: no answer within {LOOK_LIMIT:?}")),
            };
            self.knowledge().amqp.heard(looked, Instant::now(), SystemTime::now());
            self.tell(0);
        }
    }

    fn tell(&self, looks: u64) {
        let complete = self.knowledge().is_complete();
        self.answers.send_modify(|answers| {
            answers.looks += looks;
            answers.complete = complete;
        });
    }
}
