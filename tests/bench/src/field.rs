//! The surroundings of one run: a fresh database and fresh queues on the servers that all
//! contenders share, and the check of the books afterwards.
//!
//! Promises that every run finds the servers in the same condition: everything that earlier runs
//! have written is on disk before it starts, and nothing of it is left.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use harness::laid_out;
use harness::servers::Servers;
use harness::world::World;
use layout::Layout;
use mongo::{ACCOUNTS, Choice, Store, TRANSACTIONS};
use mongodb::bson::{Bson, Document, doc};
use settings::MongoSettings;

use super::args::{Events, History};
use super::counters::Counters;
use super::names::Names;
use super::usage::{Cpu, ServerPids};
use super::workload::{Books, Load, OPENING, account_id};

/// Enough connections for every concurrency that is tried.
const CONNECTIONS_MAX: u32 = 256;
const OP_LIMIT: Duration = Duration::from_secs(30);

/// How the database of a run is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What becomes of events.
    pub events: Events,
    /// Whether there are indexes for lists and statements.
    pub history: History,
    /// Whether there is no index for exclusive keys.
    pub no_keys: bool,
    /// The layout of its documents, if it is not Tandem's own.
    pub layout: Option<Layout>,
}

/// A fresh database for one run.
pub struct Field {
    /// Its database and queues.
    pub world: World,
    /// The same database, with connections enough for many operations at once.
    pub store: Store,
    /// Its ids.
    pub names: Names,
    /// The servers' processes.
    pub pids: ServerPids,
}

/// Counters and CPU seconds at one moment.
pub struct Reading {
    counters: Counters,
    cpu: Cpu,
}

impl Field {
    /// A fresh one.
    ///
    /// # Panics
    /// When a server is away.
    pub async fn new(servers: &Servers, pids: ServerPids, setup: &Setup) -> Field {
        let Setup { events, history, no_keys, layout } = setup.clone();
        let names = Names::of(layout.as_ref());
        let world = World::of_layout(servers.clone(), layout.clone()).await;
        if events == Events::Heard {
            world.queues.bind_named("heard", "transaction.*").await;
        }
        let events = (events == Events::Off).then_some(false);
        let exclusive_keys = no_keys.then_some(false);
        let history = history.choice();
        let choice = Choice { events, history, exclusive_keys, ..Choice::default() };
        world.choose(choice).await;
        let mongo = MongoSettings {
            one_document_statements: false,
            accept_index: vec![],
            mongodb_uri: with_option(
                &servers.mongodb_uri,
                &format!("maxPoolSize={CONNECTIONS_MAX}"),
            ),
            database: Some(world.name.clone()),
        };
        let store = Store::connect(&mongo, "bench", OP_LIMIT).await.expect("a valid URI");
        let store = match layout {
            Some(layout) => store.with_layout(layout),
            None => store,
        };
        Field { world, store, names, pids }
    }

    /// Writes the file of a load; returns its path.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write(&self, load: &Load) -> Result<PathBuf, String> {
        load.write(&self.world.directory(), self.names).map_err(|error| error.to_string())
    }

    /// Writes everything so far to disk, so that it does not count for the next run.
    ///
    /// # Panics
    /// When the server is away.
    pub async fn settle_down(&self) {
        let admin = self.store.database().client().database("admin");
        admin.run_command(doc! { "fsync": 1 }).await.expect("the server flushes");
    }

    /// Counters and CPU now.
    ///
    /// # Panics
    /// When the server is away.
    pub async fn read(&self, workers: &[u32]) -> Reading {
        let counters = Counters::read(self.store.database()).await.expect("the server counts");
        Reading { counters, cpu: self.pids.cpu(workers) }
    }

    /// What happened since.
    ///
    /// # Panics
    /// When the server is away.
    pub async fn since(&self, earlier: &Reading, workers: &[u32]) -> (Counters, Cpu) {
        let now = self.read(workers).await;
        (now.counters.since(&earlier.counters), now.cpu.since(earlier.cpu))
    }

    /// The errors in the books: the balance of every account, what is left in flight, and how many
    /// transactions came to which end.
    ///
    /// # Panics
    /// When the database can't be read.
    pub async fn problems(&self, books: &Books) -> Vec<String> {
        let mut problems = self.wrong_balances(&books.balances).await;
        let ends = self.ends().await;
        for (state, wanted) in [("done", books.done), ("canceled", books.canceled)] {
            let found = ends.get(state).copied().unwrap_or(0);
            if found != wanted {
                problems.push(format!("{found} transactions are {state}, not {wanted}"));
            }
        }
        let others: usize =
            ends.iter().filter(|(s, _)| *s != "done" && *s != "canceled").map(|(_, n)| n).sum();
        if others > 0 {
            problems.push(format!("{others} transactions are in no final state"));
        }
        problems
    }

    async fn wrong_balances(&self, expected: &[i64]) -> Vec<String> {
        let mut problems = Vec::new();
        let expected = expected.iter().enumerate();
        let mut left: HashMap<String, i64> =
            expected.map(|(number, balance)| (self.names.account(number), *balance)).collect();
        let all = laid_out::each(&self.store, ACCOUNTS, doc! {}, |account| {
            let id = account.get_str("_id").unwrap_or("?");
            let balance = account.get("balance").and_then(Bson::as_i64);
            match left.remove(id) {
                expected if expected.is_some() && expected == balance => {}
                expected => problems.push(format!("{id} has {balance:?}, not {expected:?}")),
            }
            if account.get_array("pendingTransactions").is_ok_and(|marks| !marks.is_empty()) {
                problems.push(format!("{id} still has marks"));
            }
        });
        all.await.expect("accounts can be read");
        problems.extend(left.keys().map(|id| format!("{id} is gone")));
        problems
    }

    async fn ends(&self) -> HashMap<String, usize> {
        let by_state = doc! { "$group": { "_id": "$state", "count": { "$sum": 1_i64 } } };
        let counted = laid_out::compute(&self.store, TRANSACTIONS, &[by_state]).await;
        let counted = counted.expect("it counts");
        let entry = |document: Document| {
            let count = document.get_i64("count").ok()?;
            Some((document.get_str("_id").ok()?.to_owned(), usize::try_from(count).ok()?))
        };
        counted.into_iter().filter_map(entry).collect()
    }

    /// Removes everything.
    ///
    /// # Panics
    /// When a server is away.
    pub async fn finish(self) {
        self.world.queues.delete_named("heard").await;
        self.world.finish().await;
    }
}

/// Accounts as the baselines keep them: no more fields than their protocol needs.
#[must_use]
pub fn plain_accounts(count: usize, marks: bool) -> Vec<Document> {
    let account = |number| {
        let mut account = doc! { "_id": account_id(number), "balance": OPENING };
        if marks {
            account.insert("pendingTransactions", Bson::Array(Vec::new()));
        }
        account
    };
    (0..count).map(account).collect()
}

/// The connection string with one more option.
fn with_option(uri: &str, option: &str) -> String {
    let separator = if uri.contains('?') { '&' } else { '?' };
    let uri = if uri.contains('?') || uri.rsplit_once("://").is_some_and(|(_, r)| r.contains('/')) {
        uri.to_owned()
    } else {
        format!("{uri}/")
    };
    format!("{uri}{separator}{option}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_added_to_any_connection_string() {
        for (uri, expected) in [
            ("mongodb://h:1/db?replicaSet=r", "mongodb://h:1/db?replicaSet=r&o=1"),
            ("mongodb://h:1/db", "mongodb://h:1/db?o=1"),
            ("mongodb://h:1", "mongodb://h:1/?o=1"),
        ] {
            assert_eq!(with_option(uri, "o=1"), expected);
        }
    }
}
