//! A MongoDB of a test's own that fails on demand: the server's own fail point `failCommand`.
//!
//! Owns the form of `configureFailPoint`. The server has one such fail point, so it fails in one
//! way at a time, and tests that run side by side need a server each. It closes a connection,
//! answers an error or waits only *before* a command; a write concern error comes *after* the
//! effect. What is lost after the effect goes through a proxy. The server is always taken down with
//! the value.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Bson, Document, doc};
use tokio::sync::Mutex;

use crate::console;
use crate::deployment::{Deployment, Server};
use crate::servers::{Servers, address_of, own, required, take_down};

/// A command that has not failed after so long never will: the server has no such answer to it.
const STRIKE_LIMIT_MS: i64 = 3_000;

/// What the server does in place of what it was asked for, or after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Answers an error, without effect. With `labels` the answer has exactly these; otherwise
    /// those that the server itself gives to such an error.
    Error {
        /// The server's code.
        code: i32,
        /// The answer's `errorLabels`.
        labels: Option<&'static [&'static str]>,
    },
    /// Does what it was asked for, and answers that it may not last.
    WriteConcern {
        /// The server's code.
        code: i32,
        /// The answer's `errorLabels`; those of the server itself without it.
        labels: Option<&'static [&'static str]>,
    },
    /// Closes the connection, without effect.
    Close,
    /// Waits for so long, and then does what it was asked for.
    Block(Duration),
}

/// How often the server fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// So many times from now on.
    First(u32),
    /// Every time after so many without failure.
    After(u32),
    /// Every time.
    Always,
}

/// One way to fail.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Names of commands, as `insert` and `commitTransaction`.
    pub commands: Vec<String>,
    /// Only for connections of this name. A client named `x` (`Config::name`) has `tandem x`.
    pub app_name: Option<String>,
    /// What happens.
    pub failure: Failure,
    /// How often.
    pub times: Times,
}

impl Plan {
    /// The next command of this name fails in this way, whoever sends it.
    #[must_use]
    pub fn once(command: &str, failure: Failure) -> Plan {
        let commands = vec![command.to_owned()];
        Plan { commands, app_name: None, failure, times: Times::First(1) }
    }

    fn command(&self) -> Document {
        let mut data = doc! { "failCommands": self.commands.clone() };
        if let Some(name) = &self.app_name {
            data.insert("appName", name);
        }
        let mut label = |labels: &Option<&'static [&'static str]>| {
            if let Some(labels) = labels {
                let labels: Vec<Bson> = labels.iter().copied().map(Bson::from).collect();
                data.insert("errorLabels", labels);
            }
        };
        match &self.failure {
            Failure::Error { code, labels } => {
                label(labels);
                data.insert("errorCode", code);
            }
            Failure::WriteConcern { code, labels } => {
                label(labels);
                let told = doc! { "code": code, "codeName": "Planted", "errmsg": "planted" };
                data.insert("writeConcernError", told);
            }
            Failure::Close => {
                data.insert("closeConnection", true);
            }
            Failure::Block(time) => {
                data.insert("blockConnection", true);
                data.insert("blockTimeMS", i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
            }
        }
        let mode = match self.times {
            Times::First(times) => Bson::from(doc! { "times": times }),
            Times::After(times) => Bson::from(doc! { "skip": times }),
            Times::Always => Bson::from("alwaysOn"),
        };
        doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data }
    }
}

/// A MongoDB that fails on demand.
pub struct FailingMongo {
    _deployment: Guarded,
    uri: String,
    admin: Client,
    /// Held while one command is made to fail.
    turn: Mutex<()>,
}

impl FailingMongo {
    /// Starts one.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(name: &str) -> FailingMongo {
        let deployment = own(&format!("{name}-failing"), Server::Mongodb).with_test_commands();
        FailingMongo::run(deployment).await.unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Starts one in this directory.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start_in(directory: &Path) -> Result<FailingMongo, console::Failure> {
        let deployment = Deployment::new(directory).only(Server::Mongodb).private();
        FailingMongo::run(deployment.with_test_commands()).await
    }

    async fn run(deployment: Deployment) -> Result<FailingMongo, console::Failure> {
        // A start that fails halfway is taken down as well.
        let mut guarded = Guarded(deployment);
        let uri = guarded.0.up().await?.mongodb_uri;
        let admin = Client::with_uri_str(&uri).await.expect("the uri is good");
        Ok(FailingMongo { _deployment: guarded, uri, admin, turn: Mutex::default() })
    }

    /// Its connection string.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        address_of(&self.uri)
    }

    /// Itself, beside the broker that the environment names.
    ///
    /// # Panics
    /// When it names none.
    #[must_use]
    pub fn servers(&self) -> Servers {
        Servers { mongodb_uri: self.uri.clone(), amqp_url: required("TANDEM_AMQP_URL") }
    }

    /// From now on it fails in this way, and in no other.
    ///
    /// # Panics
    /// When it refuses.
    pub async fn fail(&self, plan: &Plan) {
        self.configure(plan.command()).await;
    }

    /// It fails no more; returns how often it has failed in all its life.
    ///
    /// # Panics
    /// When it refuses.
    pub async fn heal(&self) -> i64 {
        let off = doc! { "configureFailPoint": "failCommand", "mode": "off" };
        let reply = self.configure(off).await;
        failures(&reply)
    }

    /// Fails the one command that `send` sends; returns whether it did. Others who call this wait
    /// for their turn, and not for the end of a command that is blocked.
    pub async fn strike(&self, plan: &Plan, send: impl Future<Output = io::Result<()>>) -> bool {
        let _turn = self.turn.lock().await;
        let before = failures(&self.configure(plan.command()).await);
        let hit = send.await.is_ok() && self.has_failed(before + 1).await;
        self.heal().await;
        hit
    }

    /// Waits until it has failed so often in its life.
    async fn has_failed(&self, times: i64) -> bool {
        let wait = doc! {
            "waitForFailPoint": "failCommand",
            "timesEntered": times,
            "maxTimeMS": STRIKE_LIMIT_MS,
        };
        self.admin.database("admin").run_command(wait).await.is_ok()
    }

    async fn configure(&self, command: Document) -> Document {
        let done = self.admin.database("admin").run_command(command).await;
        done.expect("the server takes test commands")
    }
}

/// How often the server had failed in its life when it was told something new.
fn failures(reply: &Document) -> i64 {
    match reply.get("count") {
        Some(Bson::Int32(count)) => i64::from(*count),
        Some(Bson::Int64(count)) => *count,
        count => panic!("the server counts its failures, and says {count:?}"),
    }
}

/// A deployment that is taken down with the value.
struct Guarded(Deployment);

impl Drop for Guarded {
    fn drop(&mut self) {
        take_down(&self.0);
    }
}
