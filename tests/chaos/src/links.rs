//! The network of one process: proxies of its own before every server, so that a fault of its links
//! does not affect other processes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::schedule::Side;
use super::servers::Servers;
use harness::proxy::{ByteProxy, ReplicaProxy};
use harness::servers::with_address;

/// The proxies between one program and its servers.
pub struct Link {
    database: ReplicaProxy,
    database_uri: String,
    broker: ByteProxy,
    broker_url: String,
}

impl Link {
    /// The link of the `number`th process. With several brokers each process prefers a different
    /// one, and is connected to the next when that one is away.
    pub async fn start(servers: &Servers, number: usize) -> Link {
        let database = ReplicaProxy::start(&servers.database.addresses()).await;
        let count = servers.brokers.len();
        let preferred: Vec<SocketAddr> =
            (0..count).map(|at| servers.brokers[(number + at) % count].address()).collect();
        let broker = ByteProxy::before_any_of(preferred).await;
        let database_uri = database.uri(&servers.database.replica_set);
        let broker_url = with_address(&servers.brokers[0].url, broker.address());
        Link { database, database_uri, broker, broker_url }
    }

    /// What the process is told by its environment.
    #[must_use]
    pub fn env(&self, name: &str) -> BTreeMap<String, String> {
        let env = [
            ("TANDEM_MONGODB_URI", self.database_uri.as_str()),
            ("TANDEM_DATABASE", name),
            ("TANDEM_AMQP_URL", self.broker_url.as_str()),
            ("TANDEM_QUEUE_PREFIX", name),
        ];
        env.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    fn on(&self, side: Side, database: impl Fn(&ReplicaProxy), broker: impl Fn(&ByteProxy)) {
        if matches!(side, Side::Database | Side::Both) {
            database(&self.database);
        }
        if matches!(side, Side::Broker | Side::Both) {
            broker(&self.broker);
        }
    }

    /// Closes every connection; new ones work.
    pub fn cut(&self, side: Side) {
        self.on(side, ReplicaProxy::cut, ByteProxy::cut);
    }

    /// Closes every connection, and every new one at once.
    pub fn refuse(&self, side: Side) {
        self.on(side, ReplicaProxy::refuse, ByteProxy::refuse);
    }

    /// Lets nothing through, and closes no connection.
    pub fn silence(&self, side: Side) {
        self.on(side, ReplicaProxy::silence, ByteProxy::silence);
    }

    /// Holds every piece up for so long.
    pub fn slow(&self, side: Side, wait: Duration) {
        self.on(side, |database| database.slow(wait), |broker| broker.slow(wait));
    }

    /// Works again.
    pub fn restore(&self, side: Side) {
        self.on(side, ReplicaProxy::restore, ByteProxy::restore);
    }
}
