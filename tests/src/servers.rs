//! Where the servers are, and a broker of a test's own.
//!
//! Owns the environment that `deploy/test` sets. [`OwnBroker`] is a private RabbitMQ that a test
//! may kill and start again; it is always taken down with the value.

use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::process::Command;

use crate::process;

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
        let mut broker = OwnBroker { directory, amqp_url: String::new(), pid: 0 };
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
        let output = Command::new(required("TANDEM_DEPLOY_UP"))
            .args(["--private", "--only", "rabbitmq", "--json", "--dir"])
            .arg(&self.directory)
            .kill_on_drop(true)
            .output()
            .await
            .expect("deploy/up can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "deploy/up failed:\n{said}");
        let told: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("deploy/up --json prints JSON");
        let rabbitmq = &told["rabbitmq"];
        self.amqp_url = rabbitmq["uri"].as_str().expect("a uri").to_owned();
        let pid = rabbitmq["pid"].as_u64().expect("a pid");
        self.pid = u32::try_from(pid).expect("a pid is small");
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        let down = PathBuf::from(required("TANDEM_DEPLOY_UP")).with_file_name("down");
        let stopped = std::process::Command::new(down)
            .args(["--wipe", "--limit-s", "0", "--dir"])
            .arg(&self.directory)
            .stdout(std::process::Stdio::null())
            .status();
        if !stopped.is_ok_and(|status| status.success()) {
            eprintln!("the broker in {} is still there", self.directory.display());
        }
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
