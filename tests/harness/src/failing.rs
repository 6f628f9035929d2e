//! A MongoDB of a test's own that fails on demand: the server's own fail point `failCommand`.
//!
//! Owns the form of `configureFailPoint`. The server has one such fail point, so it fails in one way at a
//! time, and tests that run side by side need a server each. It closes a connection, answers an error or
//! waits only *before* a command; a write concern error comes *after* the effect. What is lost after the
//! effect goes through a proxy. The server is always taken down with the value.

use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Bson, Document, doc};

use crate::deployment::Server;
use crate::servers::{Servers, own, required, take_down};

/// What the server does in place of what it was asked for, or after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Answers an error, without effect. With `labels` the answer has exactly these; otherwise those that
    /// the server itself gives to such an error.
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
    deployment: crate::deployment::Deployment,
    uri: String,
    admin: Client,
}

impl FailingMongo {
    /// Starts one.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(name: &str) -> FailingMongo {
        let mut deployment = own(&format!("{name}-failing"), Server::Mongodb).with_test_commands();
        let uri = match deployment.up().await {
            Ok(addresses) => addresses.mongodb_uri,
            Err(failure) => {
                take_down(&deployment);
                panic!("{failure}");
            }
        };
        let admin = Client::with_uri_str(&uri).await.expect("the uri is good");
        FailingMongo { deployment, uri, admin }
    }

    /// Its connection string.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
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
        match reply.get("count") {
            Some(Bson::Int32(count)) => i64::from(*count),
            Some(Bson::Int64(count)) => *count,
            count => panic!("it counts its failures, and says {count:?}"),
        }
    }

    async fn configure(&self, command: Document) -> Document {
        let done = self.admin.database("admin").run_command(command).await;
        done.expect("the server takes test commands")
    }
}

impl Drop for FailingMongo {
    fn drop(&mut self) {
        take_down(&self.deployment);
    }
}
