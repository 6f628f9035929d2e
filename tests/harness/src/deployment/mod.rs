//! The servers of one directory as one deployment: a MongoDB replica set and a RabbitMQ node.
//!
//! [`Deployment::up`] starts what does not run, leaves alone what does, and waits until all serve.
//! When it fails or is dropped, what it has started is killed. A killed server comes back on its
//! port with its data. A server that the environment names (`TANDEM_MONGODB_URI`,
//! `TANDEM_AMQP_URL`) is used as it is: never started, never stopped.
//!
//! - [`identity`], [`daemon`], [`mark`]: processes, recognised, started, found by their mark.
//! - [`ports`], [`directory`], [`programs`]: what a server needs on this machine.
//! - [`mongodb`], [`rabbitmq`]: how each server is started, and when it serves.
//! - [`cluster`]: several nodes as one broker.
//! - [`health`]: whether they still serve.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::console::{Failure, say};

pub mod cluster;
pub mod daemon;
pub mod directory;
pub mod health;
pub mod identity;
pub mod mark;
pub mod mongodb;
pub mod ports;
pub mod programs;
pub mod rabbitmq;
mod start;
mod stop;

pub use mark::{MARK, sweep};
pub use stop::{Keep, STOP_LIMIT, down};

use directory::{Directory, Lock, State};
use mongodb::ReplicaSet;
use rabbitmq::Node;
use start::Starting;

/// How long the administrator's program may take; joining a cluster takes longest.
const CONTROL_LIMIT: Duration = Duration::from_secs(120);
/// How long a listening port may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// The project's directory for everything that its programs write while they are developed.
#[must_use]
pub fn local() -> PathBuf {
    root().join(".local")
}

/// The project's root, where this program was built.
#[must_use]
pub fn root() -> PathBuf {
    let harness = Path::new(env!("CARGO_MANIFEST_DIR"));
    harness.ancestors().nth(2).unwrap_or(harness).to_owned()
}

/// One of the two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The replica set.
    Mongodb,
    /// The broker.
    Rabbitmq,
}

impl Server {
    /// Both.
    pub const ALL: [Server; 2] = [Server::Mongodb, Server::Rabbitmq];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Server::Mongodb => "mongodb",
            Server::Rabbitmq => "rabbitmq",
        }
    }

    /// The environment variable that says where it is.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Server::Mongodb => "TANDEM_MONGODB_URI",
            Server::Rabbitmq => "TANDEM_AMQP_URL",
        }
    }
}

/// Where the servers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// MongoDB's connection string; empty when only the other server is wanted.
    pub mongodb_uri: String,
    /// RabbitMQ's; empty when only the other server is wanted.
    pub amqp_url: String,
}

/// The servers of one directory, or those that the environment names.
#[derive(Debug)]
pub struct Deployment {
    directory: Directory,
    wanted: Vec<Server>,
    members: Option<usize>,
    private: bool,
    frugal: bool,
    test_commands: bool,
    state: State,
}

impl Deployment {
    /// Both servers of a directory, which need not exist.
    #[must_use]
    pub fn new(directory: &Path) -> Deployment {
        Deployment {
            directory: Directory::new(directory),
            wanted: Server::ALL.to_vec(),
            members: None,
            private: false,
            frugal: true,
            test_commands: false,
            state: State::default(),
        }
    }

    /// Just one of the servers.
    #[must_use]
    pub fn only(self, server: Server) -> Deployment {
        Deployment { wanted: vec![server], ..self }
    }

    /// With a replica set of so many members; without this, it has as many as it was made with, or
    /// one.
    #[must_use]
    pub fn members(self, members: usize) -> Deployment {
        Deployment { members: Some(members), ..self }
    }

    /// With servers of its own, even where the environment names others.
    #[must_use]
    pub fn private(self) -> Deployment {
        Deployment { private: true, ..self }
    }

    /// With the memory that MongoDB takes by its own settings.
    #[must_use]
    pub fn with_full_memory(self) -> Deployment {
        Deployment { frugal: false, ..self }
    }

    /// With a MongoDB that fails on demand, if it has never run here.
    #[must_use]
    pub fn with_test_commands(self) -> Deployment {
        Deployment { test_commands: true, ..self }
    }

    /// Starts what does not run, and waits until all serve.
    ///
    /// # Errors
    /// When a server does not start. What this call has started is killed then, and also when its
    /// future is dropped.
    pub async fn up(&mut self) -> Result<Addresses, Failure> {
        if !self.own().is_empty() {
            let _lock = Lock::wait(&self.directory.lock_file()).await?;
            let begun = Instant::now();
            let mut starting = Starting::default();
            let reports = self.start(&mut starting).await?;
            if let Some(set) = self.set_to_wait_for() {
                set.wait(&self.directory).await?;
            }
            if let Some(node) = self.node_to_wait_for() {
                node.wait(&self.directory, reports).await?;
            }
            if starting.succeeded() {
                say(format!("the servers serve after {:.1} s", begun.elapsed().as_secs_f64()));
            }
        }
        let uri = |server| self.uri(server).unwrap_or_default();
        Ok(Addresses { mongodb_uri: uri(Server::Mongodb), amqp_url: uri(Server::Rabbitmq) })
    }

    /// Stops what runs in the directory; returns the names of what ran.
    ///
    /// # Errors
    /// When something can't be stopped.
    ///
    /// # Panics
    /// When the runtime ends meanwhile.
    pub async fn down(&self, limit: Duration, keep: Keep) -> Result<Vec<String>, Failure> {
        let path = self.directory.path.clone();
        // On a thread of its own, so that a signal ends the wait for servers that do not end.
        let stopping = tokio::task::spawn_blocking(move || down(&path, limit, keep));
        stopping.await.expect("stopping does not panic")
    }

    /// Where a server is; `None` when it is not wanted, or was never started.
    #[must_use]
    pub fn uri(&self, server: Server) -> Option<String> {
        self.external(server).or_else(|| match server {
            Server::Mongodb => self.mongodb().map(ReplicaSet::uri),
            Server::Rabbitmq => self.rabbitmq().map(Node::url),
        })
    }

    /// The environment variables that name the wanted servers.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let named = |server: &Server| Some((server.variable(), self.uri(*server)?));
        self.wanted.iter().filter_map(named).collect()
    }

    /// The replica set of this directory, if it is wanted and was started.
    #[must_use]
    pub fn mongodb(&self) -> Option<&ReplicaSet> {
        self.state.mongodb.as_ref().filter(|_| self.wanted.contains(&Server::Mongodb))
    }

    /// The broker of this directory, if it is wanted and was started.
    #[must_use]
    pub fn rabbitmq(&self) -> Option<&Node> {
        self.state.rabbitmq.as_ref().filter(|_| self.wanted.contains(&Server::Rabbitmq))
    }

    /// Runs the administrator's program for the broker of this directory.
    ///
    /// # Errors
    /// When there is no broker of this directory, or the program fails or does not end.
    pub async fn rabbitmqctl(&self, arguments: &[&str]) -> Result<(), Failure> {
        let node = self.rabbitmq().ok_or_else(|| Failure("no broker was started".to_owned()))?;
        let control = node.control(&self.directory, &programs::rabbitmq_server()?);
        let mut control = tokio::process::Command::from(control);
        control.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let said = arguments.join(" ");
        let output = match tokio::time::timeout(CONTROL_LIMIT, control.output()).await {
            Ok(output) => output.map_err(|error| Failure(format!("rabbitmqctl: {error}")))?,
            Err(_) => {
                return Err(Failure(format!(
                    "rabbitmqctl {said}: no end within {CONTROL_LIMIT:?}"
                )));
            }
        };
        if output.status.success() {
            return Ok(());
        }
        let text = [output.stdout, output.stderr].concat();
        Err(Failure(format!("rabbitmqctl {said} failed:\n{}", String::from_utf8_lossy(&text))))
    }

    /// Everything a program may want to know about the servers.
    ///
    /// # Errors
    /// When the program of a server that runs here is not known.
    pub fn describe(&self) -> Result<Value, Failure> {
        let mut told = json!({ "dir": self.directory.path });
        for server in &self.wanted {
            told[server.name()] = match (self.external(*server), server) {
                (Some(uri), _) => json!({ "uri": uri, "external": true }),
                (None, Server::Mongodb) => {
                    self.mongodb().map(|set| set.describe(&self.directory)).into()
                }
                (None, Server::Rabbitmq) => {
                    let program = programs::rabbitmq_server()?;
                    self.rabbitmq().map(|node| node.describe(&self.directory, &program)).into()
                }
            };
        }
        Ok(told)
    }

    /// Where this deployment is on disk.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    fn external(&self, server: Server) -> Option<String> {
        if self.private || !self.wanted.contains(&server) {
            return None;
        }
        std::env::var(server.variable()).ok().filter(|uri| !uri.is_empty())
    }

    /// The servers that are wanted and not named by the environment.
    fn own(&self) -> Vec<Server> {
        let own = |server: &Server| self.external(*server).is_none();
        self.wanted.iter().copied().filter(own).collect()
    }

    fn set_to_wait_for(&self) -> Option<&ReplicaSet> {
        self.mongodb().filter(|_| self.external(Server::Mongodb).is_none())
    }

    fn node_to_wait_for(&self) -> Option<&Node> {
        self.rabbitmq().filter(|_| self.external(Server::Rabbitmq).is_none())
    }
}

/// Whether something listens on a port of 127.0.0.1.
pub async fn answers(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let connecting = tokio::net::TcpStream::connect(address);
    matches!(tokio::time::timeout(CONNECT_LIMIT, connecting).await, Ok(Ok(_)))
}
