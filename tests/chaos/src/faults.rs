//! Making a fault happen, and noting when it began, when it was over, and which transactions were
//! unfinished.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use harness::process::Signal;
use harness::queues::Queues;
use ledger::message::Message;
use queue::WORK;

use super::observe::Unfinished;
use super::schedule::{Fault, Kind, Side, Target};
use super::servers::{Alarm, Broker};
use super::site::Site;

/// How long to look for a producer's process: between two chunks none runs.
const FIND_PRODUCER: Duration = Duration::from_secs(8);
/// How long to look for a worker that has claimed something: between two batches no worker has.
const FIND_CLAIM: Duration = Duration::from_secs(10);
/// How long such a worker runs between two looks at what it has claimed.
const BETWEEN_LOOKS: Duration = Duration::from_millis(15);
/// How many messages a client takes that goes away, if there are as many.
const MESSAGES_LEFT: usize = 100;
/// How long a queue may take to come back with its broker.
const REVIVED_WITHIN: Duration = Duration::from_secs(10);
/// How long a slow link delays every piece.
const SLOW: Duration = Duration::from_millis(60);

/// A fault that happened.
#[derive(Clone, Debug)]
pub struct Happened {
    /// What was planned.
    pub fault: Fault,
    /// When it began, in Unix milliseconds.
    pub began_ms: i64,
    /// The beginning of the recovery: the end of the fault, or for a killed process the kill.
    pub over_ms: i64,
    /// The transactions that were unfinished when it began, without those that come to rest as
    /// holds next; `None` if the database could not be asked.
    pub met: Option<Vec<String>>,
    /// Whether nothing else failed at the time.
    pub alone: bool,
}

/// Now, in Unix milliseconds. All programs run on one machine, so all clocks agree.
#[must_use]
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Site {
    /// Makes a fault happen, to its end. `Ok(None)` when its target was not there.
    ///
    /// # Errors
    /// When a server did not come back: then no later result says anything about the programs.
    pub async fn inflict(&self, fault: Fault) -> Result<Option<Happened>, String> {
        match fault.target {
            Target::Worker(number) => Ok(self.hit_worker(fault, number).await),
            Target::Producer(number) => Ok(self.hit_producer(fault, number).await),
            Target::Database => {
                let _alone = self.servers.database.alone().await;
                self.hit_database(fault).await
            }
            Target::Broker(number) => {
                let _alone = self.servers.one_broker.lock().await;
                self.hit_broker(fault, &self.servers.brokers[number]).await
            }
            Target::Link(process, side) => Ok(Some(self.hit_link(fault, process, side).await)),
        }
    }

    /// What is unfinished now, before the fault begins.
    async fn met(&self) -> Option<Vec<String>> {
        let unfinished = self.observer.unfinished().await?;
        Some(unfinished.into_iter().filter(|one| !one.rests_next).map(|one| one.id).collect())
    }

    /// Kills a worker while it has claimed transactions, and starts it again; `None` if it never
    /// had any. It is stopped while its claims are read, so nothing changes meanwhile.
    pub(super) async fn kill_holder(&self, fault: Fault, number: usize) -> Option<Happened> {
        let place = &self.workers[number];
        let looking = Instant::now();
        while looking.elapsed() < FIND_CLAIM {
            let pid = place.signal(Signal::Stop, None).await?;
            let began_ms = now_ms();
            let met = self.claimed_by(&place.name).await.filter(|met| !met.is_empty());
            if met.is_some() && place.kill().await {
                tokio::time::sleep(fault.lasts).await;
                self.start_worker(number).await;
                return Some(Happened { fault, began_ms, over_ms: began_ms, met, alone: true });
            }
            place.signal(Signal::Cont, Some(pid)).await;
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        None
    }

    /// What a worker holds.
    async fn claimed_by(&self, name: &str) -> Option<Vec<String>> {
        let claimed =
            |one: Unfinished| (one.claimed_by? == name && !one.rests_next).then_some(one.id);
        let unfinished = self.observer.unfinished().await?;
        Some(unfinished.into_iter().filter_map(claimed).collect())
    }

    async fn hit_worker(&self, fault: Fault, number: usize) -> Option<Happened> {
        let place = &self.workers[number];
        if fault.kind != Kind::WorkerKilled {
            let met = self.met().await;
            let pid = place.signal(Signal::Stop, None).await?;
            let began_ms = now_ms();
            tokio::time::sleep(fault.lasts).await;
            place.signal(Signal::Cont, Some(pid)).await;
            return Some(Happened { fault, began_ms, over_ms: now_ms(), met, alone: false });
        }
        if !place.kill().await {
            return None;
        }
        let began_ms = now_ms();
        // A dead worker claims nothing more, so its claims can be read after the kill.
        let met = self.claimed_by(&place.name).await;
        tokio::time::sleep(fault.lasts).await;
        self.start_worker(number).await;
        Some(Happened { fault, began_ms, over_ms: began_ms, met, alone: false })
    }

    async fn hit_producer(&self, fault: Fault, number: usize) -> Option<Happened> {
        let place = &self.producers[number].place;
        let met = self.met().await;
        let looking = Instant::now();
        // The kill comes at some moment in the life of the next process, not always at its first.
        let moment = Duration::from_millis(fault.lasts.subsec_millis().into()) / 4;
        while looking.elapsed() < FIND_PRODUCER {
            if place.signal(Signal::Cont, None).await.is_some() {
                tokio::time::sleep(moment).await;
                if fault.kind == Kind::ProducerKilled {
                    if place.signal(Signal::Kill, None).await.is_some() {
                        let began_ms = now_ms();
                        return Some(Happened {
                            fault,
                            began_ms,
                            over_ms: began_ms,
                            met,
                            alone: false,
                        });
                    }
                } else if let Some(pid) = place.signal(Signal::Stop, None).await {
                    let began_ms = now_ms();
                    tokio::time::sleep(fault.lasts).await;
                    place.signal(Signal::Cont, Some(pid)).await;
                    return Some(Happened {
                        fault,
                        began_ms,
                        over_ms: now_ms(),
                        met,
                        alone: false,
                    });
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        None
    }

    async fn hit_database(&self, fault: Fault) -> Result<Option<Happened>, String> {
        let database = &self.servers.database;
        database.wait_for_primary().await?;
        let met = self.met().await;
        let began_ms = now_ms();
        if fault.kind != Kind::PrimaryKilled {
            // The server refuses if no secondary could follow: then nothing has happened.
            if database.step_down().await.is_err() {
                return Ok(None);
            }
            database.wait_for_primary().await?;
            return Ok(Some(Happened { fault, began_ms, over_ms: now_ms(), met, alone: false }));
        }
        // Another member may have become primary at this very moment: then nothing has happened.
        if let Err(problem) = database.kill_primary().await {
            eprintln!("chaos: {} did not happen: {problem}", fault.kind.name());
            return Ok(None);
        }
        let elected = async {
            database.wait_for_primary().await?;
            Ok::<_, String>(now_ms())
        };
        let (over_ms, ()) = tokio::join!(elected, tokio::time::sleep(fault.lasts));
        database.restart().await?;
        Ok(Some(Happened { fault, began_ms, over_ms: over_ms?, met, alone: false }))
    }

    async fn hit_broker(&self, fault: Fault, broker: &Broker) -> Result<Option<Happened>, String> {
        let met = self.met().await;
        let began_ms = now_ms();
        if fault.kind == Kind::BrokerKilled {
            broker.kill().await?;
            tokio::time::sleep(fault.lasts).await;
            broker.restart().await?;
            self.revive_queue(broker).await?;
        } else if let Err(problem) = self.administer(fault, broker).await {
            eprintln!("chaos: {} did not happen: {problem}", fault.kind.name());
            return Ok(None);
        }
        Ok(Some(Happened { fault, began_ms, over_ms: now_ms(), met, alone: false }))
    }

    /// A broker that is killed soon after a quorum queue was declared may know the queue, and have
    /// lost its files. Then it takes no message for it and delivers none, until somebody deletes
    /// it. So this does what `deploy/operating.md` says.
    async fn revive_queue(&self, broker: &Broker) -> Result<(), String> {
        let queues = Queues::new(&broker.url, &self.name);
        let (begun, marker) = (Instant::now(), Message::marker(0).to_bytes());
        loop {
            let publishing = queues.try_publish_raw(WORK, &marker);
            let published = tokio::time::timeout(REVIVED_WITHIN, publishing).await;
            // During an alarm there is no answer, which says nothing of the queue.
            let Ok(Err(problem)) = published else { return Ok(()) };
            if begun.elapsed() > REVIVED_WITHIN {
                eprintln!("chaos: the broker has lost the work queue, which is deleted: {problem}");
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        queues.try_delete(WORK).await.map_err(|error| error.to_string())?;
        queues.try_declare().await.map_err(|error| error.to_string())
    }

    /// What an administrator may do to a broker that runs.
    async fn administer(&self, fault: Fault, broker: &Broker) -> Result<(), String> {
        let queues = Queues::new(&broker.url, &self.name);
        match fault.kind {
            Kind::ConnectionsClosed => broker.close_connections().await,
            Kind::QueueReplaced => {
                queues.try_replace(WORK).await.map_err(|error| error.to_string())
            }
            Kind::QueueDeleted => {
                queues.try_delete(WORK).await.map_err(|error| error.to_string())?;
                tokio::time::sleep(fault.lasts).await;
                queues.try_declare().await.map_err(|error| error.to_string())
            }
            Kind::MemoryAlarm | Kind::DiskAlarm => {
                let alarm = if fault.kind == Kind::DiskAlarm { Alarm::Disk } else { Alarm::Memory };
                let begun = broker.alarm(alarm, true).await;
                tokio::time::sleep(fault.lasts).await;
                // In any case: it may have begun although the administrator's program has failed.
                broker.alarm(alarm, false).await?;
                begun
            }
            Kind::MessagesLeft => {
                let left = queues.try_deliver_and_die(WORK, MESSAGES_LEFT).await;
                left.map(|_| ()).map_err(|error| error.to_string())
            }
            other => Err(format!("{} is not done to a broker", other.name())),
        }
    }

    async fn hit_link(&self, fault: Fault, process: usize, side: Side) -> Happened {
        let link = &self.links[process];
        let met = self.met().await;
        let began_ms = now_ms();
        match fault.kind {
            Kind::LinkRefused => link.refuse(side),
            Kind::LinkSlow => link.slow(side, SLOW),
            Kind::LinkHalfOpen => link.silence(side),
            // The other kinds have other targets.
            _cut => link.cut(side),
        }
        // For a cut, nothing is waited for and nothing is restored.
        tokio::time::sleep(fault.lasts).await;
        link.restore(side);
        Happened { fault, began_ms, over_ms: now_ms(), met, alone: false }
    }
}
