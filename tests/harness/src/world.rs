//! One test's world: a database and queues of its own on the shared servers.
//!
//! Owns what a test submits and looks at. Ends with [`World::finish`], which removes everything; a
//! failed test leaves its database behind, so that one can look at it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use client::{Client, Config};
use layout::Layout;
use ledger::account::Account;
use ledger::amount::Amount;
use ledger::message::Message;
use ledger::transaction::{Body, Leg, State, TransactionId};
use mongo::{ACCOUNTS, Choice, Store, TRANSACTIONS, Unneeded};
use mongodb::bson::{Bson, DateTime, Document, doc};
use queue::{Outgoing, Publisher};
use settings::{AmqpSettings, MongoSettings};

use crate::laid_out;
use crate::process::Process;
use crate::producer::{self, Answer};
use crate::proxy::{ByteProxy, CountingProxy, MongoProxy};
use crate::queues::Queues;
use crate::rest;
use crate::servers::{self, Servers, address_of, with_address};
use crate::wait::{s, wait_until};
use crate::worker::Plan;

/// The database and the queues of one test.
pub struct World {
    /// The database and the prefix of the queues.
    pub name: String,
    /// Where the servers are, for this test.
    pub servers: Servers,
    /// The database, past all proxies.
    pub store: Store,
    /// The queues, past all proxies.
    pub queues: Queues,
    /// How long a call of the producer may take.
    pub call_limit: Duration,
    publisher: Publisher,
    directory: PathBuf,
}

impl World {
    /// A fresh world on the shared servers, with schema and queues.
    ///
    /// # Panics
    /// When the environment names no servers, or they are away.
    pub async fn new() -> World {
        World::on(Servers::from_env()).await
    }

    /// A fresh world on these servers.
    ///
    /// # Panics
    /// When they are away.
    pub async fn on(servers: Servers) -> World {
        World::of_layout(servers, None).await
    }

    /// A fresh world on these servers whose ledger has this layout, if it is to have one.
    ///
    /// # Panics
    /// When they are away.
    pub async fn of_layout(servers: Servers, layout: Option<Layout>) -> World {
        World::named(unique_name(), servers, layout).await
    }

    /// The same world, with connections of its own to a broker that was restarted.
    ///
    /// # Panics
    /// When a server is away.
    pub async fn with_fresh_publisher(&self) -> World {
        World::named(self.name.clone(), self.servers.clone(), self.store.layout().cloned()).await
    }

    async fn named(name: String, servers: Servers, layout: Option<Layout>) -> World {
        let mongo = MongoSettings {
            mongodb_uri: servers.mongodb_uri.clone(),
            database: Some(name.clone()),
            one_document_statements: false,
            accept_index: vec![],
        };
        let store = Store::connect(&mongo, "tests", Duration::from_secs(20)).await;
        let store = store.expect("the connection string is valid");
        let store = match layout {
            Some(layout) => store.with_layout(layout),
            None => store,
        };
        store.ensure_schema().await.expect("MongoDB is there");
        let amqp = AmqpSettings { amqp_url: servers.amqp_url.clone(), queue_prefix: name.clone() };
        let publisher = Publisher::new(&amqp, "tests");
        // A broker that declares the queues of several tests at once may take its time.
        wait_until("RabbitMQ has the queues", s(60), async || publisher.ensure().await.is_ok())
            .await;
        let queues = Queues::new(&servers.amqp_url, &name);
        let directory = servers::directory(&name);
        let call_limit = producer::CALL_LIMIT;
        World { name, servers, store, queues, call_limit, publisher, directory }
    }

    /// Sets the database up as its owner chooses, and drops the indexes that are then not needed.
    ///
    /// # Panics
    /// When the server is away.
    pub async fn choose(&self, choice: Choice) {
        self.store.apply_schema(choice).await.expect("MongoDB is there");
        let seen = self.store.inspect(Choice::default()).await.expect("MongoDB is there");
        for Unneeded { collection, index } in seen.unneeded {
            let collection = self.store.database().collection::<Document>(&collection);
            collection.drop_index(index).await.expect("it is there");
        }
    }

    /// Removes the database, the queues and the logs.
    ///
    /// # Panics
    /// When a server is away.
    pub async fn finish(self) {
        self.publisher.close().await;
        self.queues.delete_all().await;
        self.store.database().drop().await.expect("the database can be dropped");
        let _ = std::fs::remove_dir_all(&self.directory);
    }

    /// A directory for files of this test.
    ///
    /// # Panics
    /// When it can't be made.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        std::fs::create_dir_all(&self.directory).expect("the directory can be made");
        self.directory.clone()
    }

    /// Writes a file into this directory; returns its path.
    ///
    /// # Panics
    /// When it can't be written.
    #[must_use]
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("the file can be written");
        path
    }

    /// Writes a file into this directory that only its owner can read; returns its path.
    ///
    /// # Panics
    /// When it can't be written.
    #[must_use]
    pub fn write_secret(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.write(name, text);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("the file is ours");
        path
    }

    /// Where a file of this name is in this directory.
    ///
    /// # Panics
    /// When the path is no UTF-8.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.directory().join(name).to_str().expect("a plain path").to_owned()
    }

    /// The environment variables of the programs. A server of the API has no address for probes:
    /// tests run side by side, and its default is one for all.
    #[must_use]
    pub fn env(&self) -> BTreeMap<String, String> {
        let env = [
            ("TANDEM_MONGODB_URI", &self.servers.mongodb_uri),
            ("TANDEM_DATABASE", &self.name),
            ("TANDEM_AMQP_URL", &self.servers.amqp_url),
            ("TANDEM_QUEUE_PREFIX", &self.name),
            ("TANDEM_HTTP", &"off".to_owned()),
        ];
        env.map(|(name, value)| (name.to_owned(), value.clone())).into()
    }

    /// A worker of this world.
    #[must_use]
    pub fn worker(&self, name: &str) -> Plan {
        Plan::new(name, self.directory.join("logs"), self.env())
    }

    /// Runs a producer command of this world to its end.
    pub async fn producer(&self, arguments: &[&str]) -> Answer {
        producer::run_within(self.call_limit, &self.env(), arguments).await
    }

    /// Starts a producer command with more environment, and does not wait for it.
    #[must_use]
    pub fn spawn_producer(&self, arguments: &[&str], env: &[(&str, &str)]) -> Process {
        let mut command = producer::command(&self.env(), arguments);
        command.envs(env.iter().copied());
        let log = format!("producer-{}.log", uuid::Uuid::new_v4().simple());
        Process::start(&mut command, self.directory.join("logs").join(log))
    }

    /// What a client of this world is made of; it says nothing when a server is away.
    #[must_use]
    pub fn client_config(&self) -> Config {
        Config::new(&self.servers.mongodb_uri, &self.servers.amqp_url)
            .database(&self.name)
            .queue_prefix(&self.name)
            .notes(|_| {})
    }

    /// A client of this world.
    ///
    /// # Panics
    /// When a server is away.
    pub async fn client(&self) -> Client {
        Client::connect(&self.client_config()).await.expect("the servers are there")
    }

    /// A proxy in front of MongoDB, and the connection string that leads through it.
    ///
    /// # Panics
    /// When the primary can't be found.
    pub async fn mongodb_proxy(&self) -> (MongoProxy, String) {
        let hello = self.store.database().run_command(doc! { "hello": 1 }).await;
        let hello = hello.expect("MongoDB is there");
        let primary = hello.get_str("primary").expect("it is a replica set with a primary");
        let proxy = MongoProxy::start(address_of(primary)).await;
        // With the name of the replica set the driver would connect past the proxy.
        let uri = format!("mongodb://{}/?directConnection=true", proxy.address());
        (proxy, uri)
    }

    /// A proxy in front of RabbitMQ, and the connection string that leads through it.
    pub async fn amqp_proxy(&self) -> (ByteProxy, String) {
        let proxy = ByteProxy::start(address_of(&self.servers.amqp_url)).await;
        let url = with_address(&self.servers.amqp_url, proxy.address());
        (proxy, url)
    }

    /// A proxy in front of RabbitMQ that counts what is asked of it, and the connection string that
    /// leads through it.
    pub async fn counting_proxy(&self) -> (CountingProxy, String) {
        let proxy = CountingProxy::start(address_of(&self.servers.amqp_url)).await;
        let url = with_address(&self.servers.amqp_url, proxy.address());
        (proxy, url)
    }

    /// Opens accounts with balances in minor units and floor 0.
    pub async fn accounts(&self, accounts: &[(&str, i64)]) {
        let accounts: Vec<_> =
            accounts.iter().map(|(id, balance)| Account::new(id, Amount::Int(*balance))).collect();
        self.open(&accounts).await;
    }

    /// Opens accounts.
    ///
    /// # Panics
    /// When the database refuses.
    pub async fn open(&self, accounts: &[Account]) {
        let document = |account: &Account| {
            laid_out::stored(&self.store, ACCOUNTS, account.to_document(DateTime::now()))
        };
        let documents: Vec<_> = accounts.iter().map(document).collect();
        let inserted = self.store.accounts().insert_many(documents).await;
        inserted.expect("accounts can be inserted");
    }

    /// Inserts transactions without publishing them, as a producer that died would.
    ///
    /// # Panics
    /// When the database refuses.
    pub async fn insert(&self, transactions: &[(TransactionId, Body)]) {
        let now = DateTime::now();
        let document = |(id, body): &(TransactionId, Body)| {
            laid_out::stored(&self.store, TRANSACTIONS, body.to_document(id, now))
        };
        let documents: Vec<_> = transactions.iter().map(document).collect();
        let inserted = self.store.transactions().insert_many(documents).await;
        inserted.expect("transactions can be inserted");
    }

    /// Publishes ids, so many in a message.
    ///
    /// # Panics
    /// When the broker does not take them.
    pub async fn publish(&self, ids: &[TransactionId], per_message: usize) {
        let messages: Vec<_> =
            Message::chunked(ids, per_message).map(|message| Outgoing::work(&message)).collect();
        self.publisher.publish(&messages).await.expect("the broker takes them");
    }

    /// Inserts and publishes, so many in a message.
    pub async fn submit(&self, transactions: &[(TransactionId, Body)], per_message: usize) {
        self.insert(transactions).await;
        let ids: Vec<_> = transactions.iter().map(|(id, _)| id.clone()).collect();
        self.publish(&ids, per_message).await;
    }

    /// One field of a transaction.
    ///
    /// # Panics
    /// When there is no such transaction.
    pub async fn transaction(&self, id: &str) -> Document {
        let found = laid_out::one(&self.store, TRANSACTIONS, id).await;
        found.expect("MongoDB is there").expect("the transaction is there")
    }

    /// The state of a transaction.
    ///
    /// # Panics
    /// When there is no such transaction, or it has no state.
    pub async fn state(&self, id: &str) -> State {
        let transaction = self.transaction(id).await;
        State::parse(transaction.get_str("state").expect("a state")).expect("a known state")
    }

    /// Why a transaction was canceled.
    pub async fn reason(&self, id: &str) -> Option<String> {
        let transaction = self.transaction(id).await;
        let code = transaction.get_document("reason").and_then(|reason| reason.get_str("code"));
        code.ok().map(str::to_owned)
    }

    /// The spendable balance of an account.
    ///
    /// # Panics
    /// When there is no such account.
    pub async fn balance(&self, id: &str) -> Amount {
        let found = laid_out::one(&self.store, ACCOUNTS, id).await;
        let account = found.expect("MongoDB is there").expect("the account is there");
        Amount::from_bson(account.get("balance").expect("a balance")).expect("an amount")
    }

    /// How many transactions are in one of these states.
    ///
    /// # Panics
    /// When MongoDB is away.
    pub async fn count(&self, states: &[State]) -> u64 {
        let states: Vec<Bson> = states.iter().copied().map(Bson::from).collect();
        let filter = doc! { "state": { "$in": states } };
        laid_out::count(&self.store, TRANSACTIONS, filter).await.expect("MongoDB is there")
    }

    /// Waits until a transaction is in a state; returns how long that took.
    pub async fn wait_state(&self, id: &str, state: State, limit: Duration) -> Duration {
        let what = format!("{id} is {state}");
        wait_until(&what, limit, async || self.state(id).await == state).await
    }

    /// Waits until every transaction is final; returns how long that took.
    pub async fn wait_final(&self, limit: Duration) -> Duration {
        wait_until("every transaction is final", limit, async || {
            self.count(&State::UNFINISHED).await == 0
        })
        .await
    }

    /// The violations that the harness's own check finds.
    pub async fn problems(&self) -> Vec<String> {
        rest::problems(&self.store).await
    }

    /// Asserts that rules 1–5 hold, by the producer's audit and by the harness's own check.
    ///
    /// # Panics
    /// When one of them finds something.
    pub async fn assert_at_rest(&self) {
        let own = self.problems().await;
        assert!(own.is_empty(), "rules are broken:\n{}", own.join("\n"));
        let audit = self.audit().await;
        assert_eq!(audit.code, Some(0), "the audit:\n{}\n{}", audit.stdout, audit.stderr);
    }

    /// Asserts that rules 1–5 are broken, and that both checks see it.
    ///
    /// # Panics
    /// When one of them finds nothing.
    pub async fn assert_money_is_wrong(&self) {
        let own = self.problems().await;
        assert!(!own.is_empty(), "the harness's check has found nothing");
        let audit = self.audit().await;
        let said = format!("{}\n{}", audit.stdout, audit.stderr);
        assert_eq!(audit.code, Some(1), "the audit has not found {own:?}:\n{said}");
    }

    /// The producer's audit, which must have read every document: a program that reads nothing
    /// would also exit with 0.
    ///
    /// # Panics
    /// When it has not.
    pub async fn audit(&self) -> Answer {
        let answer = self.producer(&["audit", "--at-rest", "--json"]).await;
        let report = answer.json();
        for (field, collection) in
            [("accounts", self.store.accounts()), ("transactions", self.store.transactions())]
        {
            let there = collection.count_documents(doc! {}).await.expect("MongoDB is there");
            assert_eq!(report[field].as_u64(), Some(there), "{field} in the audit: {report}");
        }
        answer
    }
}

/// The test's own name, as far as a database's name has room, and something unique.
fn unique_name() -> String {
    const LENGTH_MAX: usize = 30;
    let thread = std::thread::current();
    let test = thread.name().and_then(|name| name.rsplit("::").next()).unwrap_or("test");
    let short: String = test.chars().take(LENGTH_MAX).collect();
    let unique = uuid::Uuid::new_v4().simple().to_string();
    format!("t_{}_{short}", &unique[..10])
}

/// A transfer to submit.
///
/// # Panics
/// When it is not valid.
#[must_use]
pub fn transfer(id: &str, source: &str, destination: &str, value: i64) -> (TransactionId, Body) {
    let body = Body::transfer(source, destination, Amount::Int(value));
    (id.into(), body.expect("a valid transfer"))
}

/// A transaction of many legs to submit.
///
/// # Panics
/// When it is not valid.
#[must_use]
pub fn legs(id: &str, legs: &[(&str, i64)]) -> (TransactionId, Body) {
    let legs = legs
        .iter()
        .map(|(account, amount)| Leg { account: (*account).into(), amount: Amount::Int(*amount) });
    (id.into(), Body::new(legs.collect()).expect("valid legs"))
}
