//! Where the servers are, and servers of a test's own.
//!
//! Owns the environment that `deploy/test` sets. [`OwnBroker`] is a private RabbitMQ that a test
//! may kill and start again, [`GuardedMongo`] a private MongoDB with users; they are always taken
//! down with the value.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Document, doc};

use crate::certificates::{Authority, Identity};
use crate::deployment::identity::stop;
use crate::deployment::{self, Deployment, Keep, STOP_LIMIT, Server, programs};
use crate::process::Process;
use crate::wait::{s, wait_until};

/// The servers that all tests share.
#[derive(Clone, Debug)]
pub struct Servers {
    /// MongoDB's connection string.
    pub mongodb_uri: String,
    /// RabbitMQ's.
    pub amqp_url: String,
}

impl Servers {
    /// The servers that the environment names.
    ///
    /// # Panics
    /// When it names none.
    #[must_use]
    pub fn from_env() -> Servers {
        Servers {
            mongodb_uri: required("TANDEM_MONGODB_URI"),
            amqp_url: required("TANDEM_AMQP_URL"),
        }
    }
}

pub(crate) fn required(variable: &str) -> String {
    match std::env::var(variable) {
        Ok(value) if !value.is_empty() => value,
        _ => panic!("{variable} is not set: run the tests by deploy/test, which starts servers"),
    }
}

/// A directory for one test: below the run's own where there is one, so that nothing outlives it.
#[must_use]
pub fn directory(name: &str) -> PathBuf {
    let base = std::env::var_os("TANDEM_TEST_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    base.join(name)
}

/// The same connection string with another address in it.
///
/// # Panics
/// When it has no `://`.
#[must_use]
pub fn with_address(uri: &str, address: SocketAddr) -> String {
    let (scheme, rest) = uri.split_once("://").expect("a connection string has a scheme");
    let (authority, path) = rest.find(['/', '?']).map_or((rest, ""), |end| rest.split_at(end));
    let user = authority.rsplit_once('@').map_or(String::new(), |(user, _)| format!("{user}@"));
    format!("{scheme}://{user}{address}{path}")
}

/// The address in a connection string that names one host.
///
/// # Panics
/// When it does not name an address with a port.
#[must_use]
pub fn address_of(uri: &str) -> SocketAddr {
    let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.replace("localhost", "127.0.0.1")
        .parse()
        .unwrap_or_else(|_| panic!("{host:?} is not an address with a port; proxies need one"))
}

/// A RabbitMQ of a test's own.
pub struct OwnBroker {
    deployment: Deployment,
    /// Its connection string, the same after a restart.
    pub amqp_url: String,
}

impl OwnBroker {
    /// Itself, beside the MongoDB that the environment names.
    ///
    /// # Panics
    /// When it names none.
    #[must_use]
    pub fn servers(&self) -> Servers {
        Servers { mongodb_uri: required("TANDEM_MONGODB_URI"), amqp_url: self.amqp_url.clone() }
    }

    /// Starts one, and waits until it serves.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(name: &str) -> OwnBroker {
        // Before anything runs, so that a start that fails halfway is taken down as well.
        let mut broker = OwnBroker {
            deployment: own(&format!("{name}-broker"), Server::Rabbitmq),
            amqp_url: String::new(),
        };
        broker.up().await;
        broker
    }

    /// Blocks it for publishers, as when its memory is used up, or lets it go on.
    ///
    /// # Panics
    /// When it does not run.
    pub async fn alarm(&self, on: bool) {
        let watermark = if on { "0.00001" } else { "0.4" };
        self.control(&["set_vm_memory_high_watermark", watermark]).await;
    }

    /// Blocks it for publishers, as when its disk is full, or lets it go on.
    ///
    /// # Panics
    /// When it does not run.
    pub async fn disk_alarm(&self, on: bool) {
        let limit = if on { "1000000GB" } else { "1MB" };
        self.control(&["set_disk_free_limit", limit]).await;
    }

    /// Kills it, as a machine that loses its power, and waits until it is gone.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&self) {
        let node = self.deployment.rabbitmq().and_then(|node| node.process.as_ref());
        let killed = stop(std::slice::from_ref(node.expect("it was started")), Duration::ZERO);
        let killed = killed.expect("it is ours");
        assert!(!killed.is_empty(), "the broker should have been running");
    }

    /// Starts it again on its port with its data, and waits until it serves.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn up(&mut self) {
        let addresses = self.deployment.up().await;
        self.amqp_url = addresses.unwrap_or_else(|failure| panic!("{failure}")).amqp_url;
    }

    /// Listens on one more port, with TLS and this certificate, for clients with a certificate of
    /// this authority, and returns the port.
    ///
    /// # Panics
    /// When it does not listen.
    pub async fn listen_with_tls(&self, ours: &Identity, authority: &Authority) -> u16 {
        let port = crate::worker::free_address().port();
        let listen = format!(
            "rabbit_networking:start_ssl_listener({port}, [{{cacertfile, {:?}}}, {{certfile, {:?}}}, \
             {{keyfile, {:?}}}, {{verify, verify_peer}}, {{fail_if_no_peer_cert, true}}], 1).",
            authority.file, ours.certificate, ours.key
        );
        self.control(&["eval", &listen]).await;
        wait_until("it listens with TLS", s(30), async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()
        })
        .await;
        port
    }

    /// Runs the administrator's program.
    ///
    /// # Panics
    /// When it fails.
    pub async fn control(&self, arguments: &[&str]) {
        let ran = self.deployment.rabbitmqctl(arguments).await;
        ran.unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// Makes a user who may configure, write and read what these patterns name, and returns the
    /// connection string with it.
    ///
    /// # Panics
    /// When the administrator's program fails.
    pub async fn user(&self, name: &str, [configure, write, read]: [&str; 3]) -> String {
        self.control(&["add_user", name, "secret"]).await;
        self.control(&["set_permissions", name, configure, write, read]).await;
        self.amqp_url.replace("guest:guest@", &format!("{name}:secret@"))
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        take_down(&self.deployment);
    }
}

/// A MongoDB of a test's own that asks for users and their rights.
pub struct GuardedMongo {
    deployment: Deployment,
    address: SocketAddr,
    process: Option<Process>,
}

impl GuardedMongo {
    /// Starts one, runs the commands on its database `admin`, which nobody guards yet, then starts
    /// it again with its guard up.
    ///
    /// # Panics
    /// When it does not start, or refuses a command.
    pub async fn start(name: &str, commands: &[Document]) -> GuardedMongo {
        GuardedMongo::start_with(name, commands, &[]).await
    }

    /// The same with more flags for the guarded server.
    ///
    /// # Panics
    /// As [`GuardedMongo::start`].
    pub async fn start_with(name: &str, commands: &[Document], flags: &[&str]) -> GuardedMongo {
        let deployment = own(&format!("{name}-mongod"), Server::Mongodb);
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut mongo = GuardedMongo { deployment, address, process: None };
        let addresses = mongo.deployment.up().await;
        let uri = addresses.unwrap_or_else(|failure| panic!("{failure}")).mongodb_uri;
        mongo.address = address_of(&uri);
        let client = Client::with_uri_str(uri).await.expect("the uri is good");
        for command in commands {
            client.database("admin").run_command(command.clone()).await.expect("it is run");
        }
        mongo.deployment.down(STOP_LIMIT, Keep::Everything).await.expect("it ends");
        wait_until("nobody listens on its port", s(30), async || {
            TcpStream::connect(mongo.address).is_err()
        })
        .await;
        mongo.guard(flags);
        let login = mongo.uri("root", "admin");
        let client = Client::with_uri_str(login).await.expect("the uri is good");
        wait_until("it has a primary again", s(60), async || {
            let hello = client.database("admin").run_command(doc! { "hello": 1 }).await;
            hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false))
        })
        .await;
        mongo
    }

    fn guard(&mut self, flags: &[&str]) {
        let directory = self.deployment.directory();
        let key = directory.path.join("key");
        std::fs::write(&key, "only for this test").expect("it can be written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&key, mode).expect("the file is ours");
        let mongod = programs::mongod().expect("it was started before");
        let set = self.deployment.mongodb().expect("it was started before");
        let mut command = set.command(directory, 0, &mongod);
        let log = directory.logs.join("guarded.out");
        self.process = Some(Process::start(command.args(flags).arg("--keyFile").arg(key), log));
    }

    /// The connection string of a user whose password is `secret`.
    #[must_use]
    pub fn uri(&self, user: &str, database: &str) -> String {
        let address = self.address;
        format!("mongodb://{user}:secret@{address}/{database}?replicaSet=tandem&authSource=admin")
    }
}

impl Drop for GuardedMongo {
    fn drop(&mut self) {
        self.process = None;
        take_down(&self.deployment);
        // The key, which is no server's.
        let _ = std::fs::remove_dir_all(&self.deployment.directory().path);
    }
}

/// A server of a test's own, in a directory of its own.
pub(crate) fn own(name: &str, server: Server) -> Deployment {
    Deployment::new(&directory(name)).only(server).private()
}

pub(crate) fn take_down(deployment: &Deployment) {
    let directory = &deployment.directory().path;
    if let Err(failure) = deployment::down(directory, Duration::ZERO, Keep::Nothing) {
        eprintln!("the server in {} is still there: {failure}", directory.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_and_replaced() {
        let address: SocketAddr = "127.0.0.1:9".parse().expect("an address");
        for (uri, replaced) in [
            ("amqp://g:g@127.0.0.1:5672/%2f", "amqp://g:g@127.0.0.1:9/%2f"),
            ("mongodb://localhost:5672/?replicaSet=r", "mongodb://127.0.0.1:9/?replicaSet=r"),
            ("mongodb://127.0.0.1:5672", "mongodb://127.0.0.1:9"),
        ] {
            assert_eq!(with_address(uri, address), replaced);
            assert_eq!(address_of(uri).port(), 5672);
        }
    }
}
