//! Where the servers are, and servers of a test's own.
//!
//! Owns the environment that `deploy/test` sets. [`OwnBroker`] is a private RabbitMQ that a test
//! may kill and start again, [`GuardedMongo`] a private MongoDB with users; they are always taken
//! down with the value.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use mongodb::Client;
use mongodb::bson::{Document, doc};
use tokio::process::Command;

use crate::process::{self, Process};
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

fn required(variable: &str) -> String {
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
    directory: PathBuf,
    /// Its connection string, the same after a restart.
    pub amqp_url: String,
    pid: u32,
    control: PathBuf,
    control_env: Vec<(String, String)>,
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
        let directory = directory(&format!("{name}-broker"));
        // Before anything runs, so that a start that fails halfway is taken down as well.
        let mut broker = OwnBroker {
            directory,
            amqp_url: String::new(),
            pid: 0,
            control: PathBuf::new(),
            control_env: vec![],
        };
        broker.up().await;
        broker
    }

    /// Kills it, as a machine that loses its power.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&self) {
        assert!(process::signal(self.pid, "KILL"), "the broker should have been running");
    }

    /// Starts it again on its port with its data, and waits until it serves.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn up(&mut self) {
        let told = bring_up("rabbitmq", &self.directory).await;
        self.amqp_url = told["uri"].as_str().expect("a uri").to_owned();
        self.pid = pid_of(&told);
        self.control = told["control"]["program"].as_str().expect("a program").into();
        let env = told["control"]["env"].as_object().into_iter().flatten();
        let env = env.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        self.control_env = env.collect();
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

    async fn control(&self, arguments: &[&str]) {
        let mut command = Command::new(&self.control);
        command.args(arguments).envs(self.control_env.iter().cloned()).kill_on_drop(true);
        let output = command.output().await.expect("rabbitmqctl can be run");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success(), "rabbitmqctl {arguments:?}: {said}");
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        take_down(&self.directory);
    }
}

/// A MongoDB of a test's own that asks for users and their rights.
pub struct GuardedMongo {
    directory: PathBuf,
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
        let directory = directory(&format!("{name}-mongod"));
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut mongo = GuardedMongo { directory, address, process: None };
        let told = bring_up("mongodb", &mongo.directory).await;
        let uri = told["uri"].as_str().expect("a uri");
        mongo.address = address_of(uri);
        let client = Client::with_uri_str(uri).await.expect("the uri is good");
        for command in commands {
            client.database("admin").run_command(command.clone()).await.expect("it is run");
        }
        let pid = pid_of(&told);
        let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
        assert!(process::signal(pid, "TERM"), "the server should have been running");
        wait_until("its port is free", s(30), async || TcpListener::bind(mongo.address).is_ok())
            .await;
        mongo.guard(&String::from_utf8_lossy(&command_line));
        let login = mongo.uri("root", "admin");
        let client = Client::with_uri_str(login).await.expect("the uri is good");
        wait_until("it has a primary again", s(60), async || {
            let hello = client.database("admin").run_command(doc! { "hello": 1 }).await;
            hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false))
        })
        .await;
        mongo
    }

    fn guard(&mut self, command_line: &str) {
        let key = self.directory.join("key");
        std::fs::write(&key, "only for this test").expect("it can be written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&key, mode).expect("the file is ours");
        let mut words = command_line.split_terminator('\0');
        let mut command = std::process::Command::new(words.next().expect("a program"));
        command.args(words).arg("--keyFile").arg(key);
        let log = self.directory.join("logs").join("guarded.out");
        self.process = Some(Process::start(&mut command, log));
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
        take_down(&self.directory);
    }
}

/// Starts a private server; what `deploy/up` says about it.
async fn bring_up(server: &str, directory: &Path) -> serde_json::Value {
    let output = Command::new(required("TANDEM_DEPLOY_UP"))
        .args(["--private", "--only", server, "--json", "--dir"])
        .arg(directory)
        .kill_on_drop(true)
        .output()
        .await
        .expect("deploy/up can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "deploy/up failed:\n{said}");
    let told: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("deploy/up --json prints JSON");
    told[server].clone()
}

fn pid_of(told: &serde_json::Value) -> u32 {
    u32::try_from(told["pid"].as_u64().expect("a pid")).expect("a pid is small")
}

fn take_down(directory: &Path) {
    let down = PathBuf::from(required("TANDEM_DEPLOY_UP")).with_file_name("down");
    let stopped = std::process::Command::new(down)
        .args(["--wipe", "--limit-s", "0", "--dir"])
        .arg(directory)
        .stdout(std::process::Stdio::null())
        .status();
    if !stopped.is_ok_and(|status| status.success()) {
        eprintln!("the server in {} is still there", directory.display());
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
