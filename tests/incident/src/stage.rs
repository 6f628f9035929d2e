//! Everything that runs in an incident: the broker that goes away, two workers, two replicas of the
//! API behind one address, and the ledger.
//!
//! Owns the processes, which end with the value. Promises that both replicas have one file of
//! tokens and one of session keys, so that they are one console. Fails by a panic when something
//! does not start, as the harness does.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use harness::api::Api;
use harness::laid_out;
use harness::proxy::RoundRobin;
use harness::servers::OwnBroker;
use harness::worker::Worker;
use harness::world::World;
use ledger::account::Account;
use ledger::amount::Amount;
use ledger::transaction::State;
use mongo::TRANSACTIONS;
use mongodb::bson::{Bson, Document, doc};

use super::clients::{Tokens, account};
use super::judge::{Ledger, Stands};

/// How many accounts there are.
pub const ACCOUNTS: usize = 1_000;
/// What each begins with.
const OPENING: i64 = 1_000_000_000;
/// How long one call of the producer may take: the submission of the backlog, and the audit.
const CALL_LIMIT: Duration = Duration::from_secs(1_800);

/// What runs.
pub struct Stage {
    /// The broker, whose end and return are the incident.
    pub broker: OwnBroker,
    /// The ledger.
    pub world: World,
    /// Two workers; the first one is killed.
    pub workers: Vec<Worker>,
    /// Two replicas of the API; the first one is killed.
    pub replicas: Vec<Api>,
    /// The tokens of clients and operators.
    pub tokens: Tokens,
    balancer: RoundRobin,
}

impl Stage {
    /// Starts everything, on the MongoDB that the environment names and a broker of its own.
    ///
    /// # Panics
    /// When something does not start.
    pub async fn start() -> Stage {
        let name = format!("incident-{}", uuid::Uuid::new_v4().simple());
        let broker = OwnBroker::start(&name).await;
        let mut world = World::on(broker.servers()).await;
        world.call_limit = CALL_LIMIT;
        let accounts: Vec<Account> =
            (0..ACCOUNTS).map(|n| Account::new(&account(n), Amount::Int(OPENING))).collect();
        world.open(&accounts).await;
        let file = world.directory().join("tokens");
        let tokens = Tokens {
            shop: world.token(&file, "shop", "read,submit,hold").await,
            reader: world.token(&file, "reader", "read").await,
            operator: world.token(&file, "operator", "read,hold,operate").await,
        };
        let key = [(); 2].map(|()| uuid::Uuid::new_v4().simple().to_string()).concat();
        let keys = world.write_secret("session-keys", key);
        let tokens_file = file.to_str().expect("a plain path").to_owned();
        let flags = ["--tokens", tokens_file.as_str(), "--session-keys", keys.as_str()];
        // Not the short leases of the tests, but the defaults.
        let worker = |name: &str| world.worker(name).only_flags(BTreeMap::new()).start();
        let (one, two) = tokio::join!(worker("one"), worker("two"));
        let (first, second) = tokio::join!(world.api(&flags), world.api(&flags));
        let (workers, replicas) = (vec![one, two], vec![first, second]);
        let balancer =
            RoundRobin::before(replicas.iter().map(|replica| replica.address).collect()).await;
        Stage { broker, world, workers, replicas, tokens, balancer }
    }

    /// Where clients and browsers go.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.balancer.address()
    }

    /// Writes the file of the backlog: transfers of one unit, in CSV.
    #[must_use]
    pub fn backlog(&self, count: usize) -> String {
        let mut text = "id,source,destination,value\n".to_owned();
        for number in 0..count {
            let (source, destination) =
                (account(number % ACCOUNTS), account((number + 7) % ACCOUNTS));
            text.push_str(&format!("{},{source},{destination},1\n", waiting(number)));
        }
        self.world.write("backlog.csv", text)
    }

    /// How many transactions of the backlog have not ended.
    ///
    /// # Errors
    /// When MongoDB can't be asked.
    pub async fn unsettled(&self) -> Result<u64, String> {
        let states: Vec<Bson> = State::UNFINISHED.into_iter().map(Bson::from).collect();
        let ours = doc! { "_id": { "$regex": "^backlog-" }, "state": { "$in": states } };
        let counted = laid_out::count(&self.world.store, TRANSACTIONS, ours).await;
        counted.map_err(|error| format!("what waits can't be counted: {error}"))
    }

    /// How each transaction stands.
    ///
    /// # Errors
    /// When MongoDB can't be asked.
    pub async fn ledger(&self) -> Result<Ledger, String> {
        let mut ledger = Ledger::new();
        let all = laid_out::each(&self.world.store, TRANSACTIONS, doc! {}, |found| {
            ledger.extend(stands(&found));
        });
        all.await.map_err(|error| format!("the transactions can't be read: {error}"))?;
        Ok(ledger)
    }

    /// What has ended by itself, where so many of each were killed.
    pub fn ended(&mut self, killed: usize) -> Vec<String> {
        let told = |what: &str, number: usize| format!("{what} {} has ended by itself", number + 1);
        let workers = self.workers.iter_mut().enumerate().skip(killed);
        let workers = workers.filter_map(|(n, worker)| Some((n, worker.exited()?)));
        let replicas = self.replicas.iter_mut().enumerate().skip(killed);
        let replicas = replicas.filter_map(|(n, replica)| Some((n, replica.exited()?)));
        let workers = workers.map(|(n, _)| told("worker", n));
        workers.chain(replicas.map(|(n, _)| told("replica", n))).collect()
    }
}

/// The id of a transaction of the backlog.
#[must_use]
pub fn waiting(number: usize) -> String {
    format!("backlog-{number:07}")
}

/// How a transaction stands, by its id; none of what makes no sense.
fn stands(found: &Document) -> Option<(String, Stands)> {
    let id = found.get_str("_id").ok()?.to_owned();
    let state = State::parse(found.get_str("state").ok()?)?;
    let reason = found.get_document("reason").and_then(|reason| reason.get_str("code"));
    let is_hold = found.get_bool("hold").unwrap_or_default();
    Some((id, Stands { state, reason: reason.ok().map(str::to_owned), is_hold }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_read_with_its_state_and_its_reason() {
        let released = doc! {
            "_id": "t", "state": "canceled", "hold": true, "reason": { "code": "released" },
        };
        let reason = Some("released".to_owned());
        let expected = Stands { state: State::Canceled, reason, is_hold: true };
        assert_eq!(stands(&released), Some(("t".to_owned(), expected)));
        assert_eq!(stands(&doc! { "_id": 7, "state": "done" }), None);
    }
}
