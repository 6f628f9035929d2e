//! The servers as chaos sees them: where they are, how they die, how they come back.
//!
//! They are children of this program. A server that is started again has its data and its port.
//! Fails with a sentence.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mongodb::Client;
use mongodb::bson::doc;
use tokio::sync::Mutex;

use harness::console::Failure;
use harness::deployment::identity::{Identity, stop};
use harness::deployment::mongodb::{REPLICA_SET, client as mongodb_client};
use harness::deployment::{Deployment, Server, cluster};
use harness::servers::address_of;

use super::home::{BROKERS_MAX, Home};

/// The least that has a majority when one is away.
const MEMBERS: usize = 3;
/// How long an administrator's request to close all connections may take, in seconds.
const CLOSE_LIMIT_S: &str = "20";
/// How long a member may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// How long the replica set may be without a primary.
const SERVES_LIMIT: Duration = Duration::from_secs(120);

/// All servers of a run.
pub struct Servers {
    /// The replica set.
    pub database: Database,
    /// The broker, or the nodes of its cluster.
    pub brokers: Vec<Broker>,
    /// Held while a broker, or a queue, is being hit: one at a time.
    pub one_broker: Mutex<()>,
}

impl Servers {
    /// Starts a replica set, and a broker or a cluster of them.
    ///
    /// # Errors
    /// When one does not start. The home ends what runs.
    pub async fn start(home: &Home, clustered: bool) -> Result<Servers, Failure> {
        let mut database =
            Deployment::new(&home.database()).only(Server::Mongodb).members(MEMBERS).private();
        let directories = home.brokers(if clustered { BROKERS_MAX } else { 1 });
        let (_, brokers) = tokio::try_join!(database.up(), cluster::up(&directories))?;
        Ok(Servers {
            database: Database::new(database).await.map_err(Failure)?,
            brokers: brokers.into_iter().map(Broker::new).collect(),
            one_broker: Mutex::new(()),
        })
    }
}

/// Kills exactly this process, and waits until it is gone: what is dying would still look as if it
/// ran to who starts it again.
fn kill(process: Option<&Identity>, what: &str) -> Result<(), String> {
    match stop(&process.cloned().into_iter().collect::<Vec<_>>(), Duration::ZERO) {
        Ok(killed) if killed.is_empty() => Err(format!("{what} is not there")),
        Ok(_) => Ok(()),
        Err(failure) => Err(failure.to_string()),
    }
}

struct Member {
    address: SocketAddr,
    /// Past all proxies, and to this member only.
    client: Client,
}

/// The replica set.
pub struct Database {
    /// Where clients connect, past all proxies.
    pub uri: String,
    /// Its name.
    pub replica_set: String,
    members: Vec<Member>,
    deployment: Mutex<Deployment>,
    /// Held while a member is being hit: one at a time, so that a majority stays.
    one_member: Mutex<()>,
}

impl Database {
    async fn new(deployment: Deployment) -> Result<Database, String> {
        let set = deployment.mongodb().ok_or("no replica set was started")?;
        let uri = set.uri();
        let mut members = Vec::new();
        for member in &set.members {
            let address = SocketAddr::from(([127, 0, 0, 1], member.port));
            let client = mongodb_client(member.port, ANSWER_LIMIT).await;
            let client = client.map_err(|error| error.to_string())?;
            members.push(Member { address, client });
        }
        Ok(Database {
            uri,
            replica_set: REPLICA_SET.to_owned(),
            members,
            deployment: Mutex::new(deployment),
            one_member: Mutex::new(()),
        })
    }

    /// Where the members are.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| member.address).collect()
    }

    /// Keeps everybody else from hitting a member until the guard goes.
    pub async fn alone(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.one_member.lock().await
    }

    /// The primary's number.
    async fn primary(&self) -> Option<usize> {
        let asked = self.members.iter().map(async |member| {
            let hello = member.client.database("admin").run_command(doc! { "hello": 1 }).await;
            hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false))
        });
        let answers = futures_util::future::join_all(asked).await;
        answers.iter().position(|is_primary| *is_primary)
    }

    /// Waits until there is a writable primary.
    ///
    /// # Errors
    /// When there is none in time.
    pub async fn wait_for_primary(&self) -> Result<(), String> {
        let begun = Instant::now();
        while self.primary().await.is_none() {
            if begun.elapsed() > SERVES_LIMIT {
                return Err(format!("no primary within {SERVES_LIMIT:?}"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Kills the primary.
    ///
    /// # Errors
    /// When there is none.
    pub async fn kill_primary(&self) -> Result<(), String> {
        let primary = self.primary().await.ok_or("there is no primary to kill")?;
        let deployment = self.deployment.lock().await;
        let member = deployment.mongodb().and_then(|set| set.members.get(primary));
        kill(member.and_then(|member| member.process.as_ref()), "the primary")
    }

    /// Starts again whatever member was killed, and waits until all are in step.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn restart(&self) -> Result<(), String> {
        let up = self.deployment.lock().await.up().await;
        up.map(|_| ()).map_err(|failure| format!("the database did not come back: {failure}"))
    }

    /// Lets the primary step down.
    ///
    /// # Errors
    /// When there is none, or it refuses.
    pub async fn step_down(&self) -> Result<(), String> {
        let primary = self.primary().await.ok_or("there is no primary to step down")?;
        let command = doc! { "replSetStepDown": 10, "secondaryCatchUpPeriodSecs": 5 };
        let answer = self.members[primary].client.database("admin").run_command(command).await;
        answer.map(|_| ()).map_err(|error| format!("stepping down: {error}"))
    }
}

/// What a broker may run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// Its memory.
    Memory,
    /// The space on its disk.
    Disk,
}

/// A broker's node.
pub struct Broker {
    /// Where clients connect, past all proxies.
    pub url: String,
    deployment: Mutex<Deployment>,
}

impl Broker {
    fn new(deployment: Deployment) -> Broker {
        let url = deployment.uri(Server::Rabbitmq).unwrap_or_default();
        Broker { url, deployment: Mutex::new(deployment) }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        address_of(&self.url)
    }

    /// Kills it.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn kill(&self) -> Result<(), String> {
        let deployment = self.deployment.lock().await;
        kill(deployment.rabbitmq().and_then(|node| node.process.as_ref()), "the broker")
    }

    /// Starts it again, and waits until it serves.
    ///
    /// # Errors
    /// When it does not.
    pub async fn restart(&self) -> Result<(), String> {
        let up = self.deployment.lock().await.up().await;
        up.map(|_| ()).map_err(|failure| format!("the broker did not come back: {failure}"))
    }

    /// Closes all connections, as an administrator would.
    ///
    /// # Errors
    /// When the administrator's program fails.
    pub async fn close_connections(&self) -> Result<(), String> {
        let close = ["--timeout", CLOSE_LIMIT_S, "close_all_connections", "chaos"];
        let closed = self.deployment.lock().await.rabbitmqctl(&close).await;
        closed.map_err(|failure| failure.to_string())
    }

    /// Sounds an alarm, which blocks everybody who publishes, or ends it.
    ///
    /// # Errors
    /// When the administrator's program fails.
    pub async fn alarm(&self, alarm: Alarm, on: bool) -> Result<(), String> {
        let limit = match (alarm, on) {
            (Alarm::Memory, true) => ["set_vm_memory_high_watermark", "0.00001"],
            (Alarm::Memory, false) => ["set_vm_memory_high_watermark", "0.4"],
            (Alarm::Disk, true) => ["set_disk_free_limit", "1000000GB"],
            (Alarm::Disk, false) => ["set_disk_free_limit", "1MB"],
        };
        let set = self.deployment.lock().await.rabbitmqctl(&limit).await;
        set.map_err(|failure| failure.to_string())
    }
}
