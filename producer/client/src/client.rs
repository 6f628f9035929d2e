//! A client of the ledger: its servers, and how long it tries when one of them is away.
//!
//! Promises that an operation is tried again until
//! [`Config::give_up_after`](crate::Config::give_up_after) if waiting may help (a fail-over, a
//! restart of the broker), and then fails with an error that names the server. Every operation can
//! be repeated after a failure without a second effect. An attempt whose outcome is unknown may
//! take effect at any later time, so after one, nothing that is said later may mean that there was
//! no effect.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ledger::transaction::TransactionId;
use mongo::{Fields, LedgerSettings, Store, TRANSACTIONS};
use mongodb::bson::Document;
use observe::Traces;
use queue::Publisher;
use tokio::sync::OnceCell;

use crate::config::Config;
use crate::error::{AttemptError, Effect, Error};
use crate::group::Groups;
use crate::listening::Listening;
use crate::readable::readable;
use crate::servers::Servers;
use crate::watch::Watch;

/// The server's time limit of one operation. Nothing here holds a lease, so there is no hurry.
const OP_LIMIT: Duration = Duration::from_secs(5);

/// Submits, awaits, cancels and reverses transactions, and reads accounts. Clones share connections
/// and cost nothing; use one client for the whole program.
#[derive(Clone)]
pub struct Client {
    servers: Arc<Servers>,
    groups: Groups,
    watch: Watch,
}

impl Client {
    /// Connects. A fresh database is set up; one that has collections already is checked.
    ///
    /// # Errors
    /// When a connection string is wrong, the database is not as this version needs it, or MongoDB
    /// stays away. The broker is needed only when something is published.
    pub async fn connect(config: &Config) -> Result<Client, Error> {
        let client = Client::open(config).await?;
        client.ensure_schema().await?;
        Ok(client)
    }

    /// A client that connects when it is first used, and leaves the database as it is.
    ///
    /// # Errors
    /// When a connection string is wrong.
    pub async fn open(config: &Config) -> Result<Client, Error> {
        let store = Store::connect(&config.mongo(), &config.name, OP_LIMIT)
            .await
            .map_err(|problem| Error::setting(&problem))?;
        let store = match &config.schema {
            Some(layout) => store.with_layout(layout.clone()),
            None => store,
        };
        config.amqp().validate().map_err(|problem| Error::setting(&problem))?;
        queue::parse_url(&config.amqp_url).map_err(|error| Error::setting(&error.to_string()))?;
        Ok(Client::over(store, config))
    }

    /// A client over a store that is there already.
    #[must_use]
    pub fn over(store: Store, config: &Config) -> Client {
        let publisher = Publisher::new(&config.amqp(), &config.name);
        let servers = Arc::new(Servers {
            store,
            publisher,
            config: config.clone(),
            history: OnceCell::new(),
            numbers: OnceCell::new(),
            leaves: AtomicBool::new(false),
        });
        Client { groups: Groups::new(servers.clone()), watch: Watch::new(servers.clone()), servers }
    }

    /// The database, for what a client has no method for.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.servers.store
    }

    /// Reads one transaction, whatever its document holds.
    ///
    /// # Errors
    /// When the server stays away.
    pub async fn transaction(&self, id: &str) -> Result<Option<Document>, Error> {
        let ids = [id];
        let find = || self.store().documents("find", TRANSACTIONS, &ids, Fields::All);
        Ok(self.insist(find).await?.pop().map(|found| readable(&found)))
    }

    /// Reads transactions, whatever their documents hold; those that there are, by their ids.
    pub(crate) async fn transactions_named(
        &self,
        ids: &[&str],
    ) -> Result<HashMap<String, Document>, Error> {
        let find = || self.store().documents("find", TRANSACTIONS, ids, Fields::All);
        let found = self.insist(find).await?;
        let by_id = |document: Document| Some((document.get_str("_id").ok()?.to_owned(), document));
        Ok(found.iter().map(|found| readable(found)).filter_map(by_id).collect())
    }

    /// Whether the event of a transaction still waits for a confirm of the broker.
    ///
    /// # Errors
    /// When the server stays away.
    pub async fn event_is_due(&self, id: &str) -> Result<bool, Error> {
        self.insist(|| self.store().event_is_due(id)).await
    }

    /// The database's clock, in milliseconds since 1970.
    ///
    /// # Errors
    /// When the server stays away.
    pub async fn database_now(&self) -> Result<i64, Error> {
        self.insist(|| self.store().server_now()).await
    }

    /// Publishes ids until the broker has them. A message only tells workers where to look: a
    /// transaction that is published twice is settled once.
    ///
    /// # Errors
    /// When the broker stays away.
    pub async fn publish(&self, ids: &[TransactionId]) -> Result<(), Error> {
        let limit = self.servers.config.give_up_after;
        self.servers.publish(ids, &Traces::default(), limit).await
    }

    /// Publishes ids of durable transactions, within a short limit; if that fails, the workers'
    /// sweepers publish them.
    pub(crate) async fn publish_or_leave(&self, ids: &[TransactionId]) -> Result<(), Error> {
        match ids {
            [] => Ok(()),
            ids => self.servers.publish_or_leave(ids, &Traces::default()).await,
        }
    }

    /// Whether publications of what is durable are left to the workers' sweepers for now, for who
    /// knows that the broker is away: then nothing waits for it.
    pub fn leave_publications(&self, leave: bool) {
        self.servers.leaves.store(leave, Ordering::Relaxed);
    }

    /// Closes the connection to the broker. Later calls connect again.
    pub async fn close(&self) {
        self.servers.publisher.close().await;
    }

    /// Passes on a message that is no error.
    pub fn note(&self, note: &str) {
        (self.servers.config.notes)(note);
    }

    /// Hears of outcomes while somebody waits for them.
    #[doc(hidden)]
    #[must_use]
    pub fn listening(&self) -> Listening {
        Listening::new(self.servers.clone())
    }

    pub(crate) fn servers(&self) -> &Arc<Servers> {
        &self.servers
    }

    /// What this client was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.servers.config
    }

    /// The connection to the broker, for what a client has no method for.
    #[must_use]
    pub fn publisher(&self) -> &Publisher {
        &self.servers.publisher
    }

    /// Submits and awaits through these.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Tries until it succeeds, fails for good, or the time limit of this client is over.
    ///
    /// # Errors
    /// The last one.
    pub async fn insist<T, E, F>(&self, attempt: impl FnMut() -> F) -> Result<T, Error>
    where
        E: AttemptError,
        F: Future<Output = Result<T, E>>,
    {
        self.servers.insist(self.servers.config.give_up_after, attempt).await
    }

    /// Makes sure that the ledger has what its settings say to `has`. It is not asked again once it
    /// was `seen`.
    pub(crate) async fn needs(
        &self,
        seen: &OnceCell<()>,
        has: impl Fn(Option<LedgerSettings>) -> bool,
        lacking: Error,
    ) -> Result<(), Error> {
        let look = async || {
            let settings = self.insist(|| self.store().check_settings()).await?;
            if has(settings) { Ok(()) } else { Err(lacking) }
        };
        seen.get_or_try_init(look).await.copied()
    }

    /// The same with a write, which is told what is known of the attempts before it. Returns also
    /// whether one of these is open: then it may still arrive, and what is there now is no reason
    /// for a refusal.
    pub(crate) async fn insist_write<T, E, F>(
        &self,
        attempt: impl FnMut(Effect) -> F,
    ) -> Result<(T, Effect), Error>
    where
        E: AttemptError,
        F: Future<Output = Result<T, E>>,
    {
        self.servers.insist_write(self.servers.config.give_up_after, attempt).await
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ledger::LedgerError;

    use super::*;
    use crate::error::Server;

    async fn client(give_up_after: Duration) -> Client {
        let config = Config::new("mongodb://127.0.0.1:1/t", "amqp://127.0.0.1:1")
            .give_up_after(give_up_after)
            .notes(|_| {});
        Client::open(&config).await.expect("two URLs")
    }

    fn failure(passes: bool) -> LedgerError {
        match passes {
            true => LedgerError::passing("test", "away"),
            false => LedgerError::lasting("test", "no"),
        }
    }

    #[tokio::test]
    async fn what_passes_is_tried_again_and_what_lasts_is_not() {
        let client = client(Duration::from_secs(30)).await;
        let tries = Cell::new(0);
        let attempt = |passes| {
            tries.set(tries.get() + 1);
            let done = tries.get() == 2;
            async move { if done { Ok(()) } else { Err(failure(passes)) } }
        };
        assert!(client.insist(|| attempt(true)).await.is_ok());
        assert_eq!(tries.get(), 2);
        tries.set(0);
        let denied = client.insist(|| attempt(false)).await;
        assert!(matches!(denied, Err(Error::Denied { server: Server::MongoDb, .. })));
        assert_eq!(tries.get(), 1);
    }

    #[tokio::test]
    async fn a_refusal_after_an_attempt_that_may_have_worked_is_told_as_open() {
        let client = client(Duration::from_secs(30)).await;
        for (first, is_open) in [(failure(true), true), (failure(true).without_effect(), false)] {
            let tries = Cell::new(0);
            let attempt = || {
                tries.set(tries.get() + 1);
                let error = if tries.get() == 1 { first.clone() } else { failure(false) };
                async move { Err::<(), _>(error) }
            };
            let error = client.insist(attempt).await.expect_err("refused");
            let told = matches!(error, Error::Unavailable { effect: Effect::Unknown, .. });
            assert_eq!(told, is_open, "{error:?}");
            assert_eq!(matches!(error, Error::Denied { .. }), !is_open, "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_server_that_stays_away_is_named() {
        let client = client(Duration::from_millis(1)).await;
        let error = client.insist(|| async { Err::<(), _>(failure(true)) }).await;
        let error = error.expect_err("given up");
        assert!(matches!(error, Error::Unavailable { server: Server::MongoDb, .. }), "{error:?}");
        assert!(error.to_string().contains("given up after 0 s; perhaps"), "{error}");
    }

    #[tokio::test]
    async fn a_wrong_connection_string_is_named_at_once() {
        for (mongodb, amqp) in [("http://a", "amqp://b"), ("mongodb://a", "http://b")] {
            let opened = Client::open(&Config::new(mongodb, amqp)).await;
            assert!(matches!(opened, Err(Error::Invalid { .. })), "{mongodb} {amqp}");
        }
    }
}
