//! A MongoDB replica set of one or three members on 127.0.0.1.
//!
//! Owns the members' command lines and the wait until the set serves: there is a writable primary
//! and every other member is a secondary. The set is initiated when no member knows one, so an
//! interrupted start is completed by the next. Fails with the end of a member's log.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::ClientOptions;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answers;
use super::directory::Directory;
use super::identity::Identity;
use crate::console::{Failure, tail};

/// The replica set's name.
pub const REPLICA_SET: &str = "tandem";
const DATABASE: &str = "tandem";
const ALREADY_INITIALIZED: i32 = 23;
const READY_LIMIT: Duration = Duration::from_secs(90);
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const INITIATE_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

/// Half the server's defaults, or less: failover takes seconds, as does a start of three members.
const ELECTION_TIMEOUT_MS: i32 = 5_000;
const HEARTBEAT_INTERVAL_MS: i32 = 1_000;
/// Of three members, the primary otherwise waits 15 s for its clients before it ends.
const QUIESCE_MS: u32 = 1_000;
/// For so many seconds the server keeps every version of every document; by itself it keeps them
/// for 300 s. Under load these versions fill its cache, and evicting them costs more the longer the
/// load lasts. `producer audit` reads the accounts in one snapshot, and a statement its page; both
/// begin anew when the server no longer has it.
const HISTORY_S: u32 = 5;

/// One `mongod`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Where it listens.
    pub port: u16,
    /// The process that was started last.
    pub process: Option<Identity>,
}

impl Member {
    /// Whether its process runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.process.as_ref().is_some_and(Identity::is_alive)
    }

    /// Its process id; 0 before it has ever run.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, |process| process.pid)
    }
}

/// The members and how they run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicaSet {
    /// In the order of their numbers.
    pub members: Vec<Member>,
    /// With little memory, beside whatever else a development machine runs; otherwise with as much
    /// as the server takes by itself.
    pub frugal: bool,
    /// Takes the commands of the server's own tests, among them `configureFailPoint`.
    pub test_commands: bool,
}

impl ReplicaSet {
    /// A set that has never run.
    #[must_use]
    pub fn at(ports: &[u16], frugal: bool) -> ReplicaSet {
        let members = ports.iter().map(|port| Member { port: *port, process: None });
        ReplicaSet { members: members.collect(), frugal, test_commands: false }
    }

    /// Where applications connect.
    #[must_use]
    pub fn uri(&self) -> String {
        let hosts = self.members.iter().map(|member| format!("127.0.0.1:{}", member.port));
        let hosts = hosts.collect::<Vec<_>>().join(",");
        format!("mongodb://{hosts}/{DATABASE}?replicaSet={REPLICA_SET}")
    }

    /// What `deploy/up --json` says about the set.
    #[must_use]
    pub fn describe(&self, directory: &Directory) -> Value {
        let members = self.members.iter().enumerate().map(|(index, member)| {
            json!({
                "port": member.port,
                "pid": member.pid(),
                "data_dir": data(directory, index),
                "log": log(directory, index),
            })
        });
        json!({
            "uri": self.uri(),
            "external": false,
            "port": self.members.first().map(|member| member.port),
            "pid": self.members.first().map(Member::pid),
            "replica_set": REPLICA_SET,
            "members": members.collect::<Vec<_>>(),
        })
    }

    /// What starts a member.
    #[must_use]
    pub fn command(&self, directory: &Directory, index: usize, mongod: &Path) -> Command {
        let quiesce = format!("shutdownTimeoutMillisForSignaledShutdown={QUIESCE_MS}");
        let history = format!("minSnapshotHistoryWindowInSeconds={HISTORY_S}");
        let mut command = Command::new(mongod);
        command
            .args(["--replSet", REPLICA_SET, "--bind_ip", "127.0.0.1", "--port"])
            .arg(self.members[index].port.to_string())
            .arg("--dbpath")
            .arg(data(directory, index))
            .arg("--logpath")
            .arg(log(directory, index))
            .args(["--logappend", "--quiet", "--nounixsocket", "--pidfilepath"])
            .arg(directory.run.join(format!("{}.pid", name(index))))
            .args(["--setParameter", &quiesce, "--setParameter", &history]);
        if self.frugal {
            let cache = if self.members.len() == 1 { "1" } else { "0.25" };
            command.args(["--wiredTigerCacheSizeGB", cache]);
            command.args(["--setParameter", "diagnosticDataCollectionEnabled=false"]);
        }
        if self.test_commands {
            command.args(["--setParameter", "enableTestCommands=1"]);
        }
        command
    }

    /// Returns when the set serves.
    ///
    /// # Errors
    /// When a member has ended by itself, or the set does not serve in time.
    pub async fn wait(&self, directory: &Directory) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut clients = Vec::new();
        for member in &self.members {
            clients.push(
                client(member.port, ANSWER_LIMIT)
                    .await
                    .map_err(|error| Failure(error.to_string()))?,
            );
        }
        let mut problem = "it was not asked yet".to_owned();
        while begun.elapsed() < READY_LIMIT {
            self.require_alive(directory)?;
            match self.hellos(&clients).await {
                Ok(replies) if !replies.iter().any(|reply| reply.contains_key("setName")) => {
                    problem = match self.initiate(&clients[0]).await {
                        Ok(()) => "it has just been initiated".to_owned(),
                        Err(error) => error,
                    };
                }
                Ok(replies) if serves(&replies) => return Ok(()),
                Ok(_) => problem = "no writable primary with all members in step".to_owned(),
                Err(error) => problem = error,
            }
            tokio::time::sleep(POLL).await;
        }
        let end = tail(&log(directory, 0));
        Err(Failure(format!(
            "the replica set does not serve after {READY_LIMIT:?}: {problem}\n{end}"
        )))
    }

    async fn hellos(&self, clients: &[Client]) -> Result<Vec<Document>, String> {
        let mut replies = Vec::new();
        for (member, client) in self.members.iter().zip(clients) {
            // Asked first, because the driver waits for half a second after a refused connection.
            if !answers(member.port).await {
                return Err(format!("nothing listens on port {}", member.port));
            }
            let reply = command(client, doc! { "hello": 1 }, ANSWER_LIMIT).await;
            replies.push(reply?.map_err(|error| error.to_string())?);
        }
        Ok(replies)
    }

    async fn initiate(&self, first: &Client) -> Result<(), String> {
        let hosts = (0..).zip(&self.members).map(|(index, member)| {
            let index: i32 = index;
            doc! { "_id": index, "host": format!("127.0.0.1:{}", member.port) }
        });
        let settings = doc! {
            "electionTimeoutMillis": ELECTION_TIMEOUT_MS,
            "heartbeatIntervalMillis": HEARTBEAT_INTERVAL_MS,
        };
        let members = hosts.collect::<Vec<_>>();
        let config = doc! { "_id": REPLICA_SET, "members": members, "settings": settings };
        match command(first, doc! { "replSetInitiate": config }, INITIATE_LIMIT).await? {
            Ok(_) => Ok(()),
            Err(error) if is_already_initialized(&error) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn require_alive(&self, directory: &Directory) -> Result<(), Failure> {
        let Some(ended) = self.members.iter().position(|member| !member.is_alive()) else {
            return Ok(());
        };
        let (name, log) = (name(ended), tail(&log(directory, ended)));
        let out = tail(&output(directory, ended));
        Err(Failure(format!("{name} has ended by itself:\n{log}\n{out}")))
    }
}

/// A client of this member only, which gives up after `limit` when the member does not answer.
///
/// # Errors
/// When the driver can't be set up.
pub async fn client(port: u16, limit: Duration) -> Result<Client, Error> {
    let uri = format!("mongodb://127.0.0.1:{port}/?directConnection=true");
    let mut options = ClientOptions::parse(uri).await?;
    options.server_selection_timeout = Some(limit);
    options.connect_timeout = Some(limit);
    Client::with_options(options)
}

/// Runs a command; the outer error says that there was no answer in time.
async fn command(
    client: &Client,
    command: Document,
    limit: Duration,
) -> Result<Result<Document, Error>, String> {
    let admin = client.database("admin");
    // As a task, because a driver's future must not be dropped midway.
    let asked = tokio::spawn(async move { admin.run_command(command).await });
    match tokio::time::timeout(limit, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(panic)) => Err(panic.to_string()),
        Err(_) => Err(format!("no answer within {limit:?}")),
    }
}

fn is_already_initialized(error: &Error) -> bool {
    matches!(&*error.kind, ErrorKind::Command(refused) if refused.code == ALREADY_INITIALIZED)
}

fn serves(replies: &[Document]) -> bool {
    let count = |field| replies.iter().filter(|one| one.get_bool(field).unwrap_or(false)).count();
    let primaries = count("isWritablePrimary");
    primaries == 1 && primaries + count("secondary") == replies.len()
}

/// A member's name in messages and of its files.
pub(super) fn name(index: usize) -> String {
    format!("mongodb-{index}")
}

/// Where a member's data is; also the mark of its process.
pub(super) fn data(directory: &Directory, index: usize) -> PathBuf {
    directory.data.join(name(index))
}

fn log(directory: &Directory, index: usize) -> PathBuf {
    directory.logs.join(format!("{}.log", name(index)))
}

/// Where what a member prints goes.
pub(super) fn output(directory: &Directory, index: usize) -> PathBuf {
    directory.logs.join(format!("{}.out", name(index)))
}
