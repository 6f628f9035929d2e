//! Where the servers are, and how patient a client is with them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use layout::Layout;
use observe::Tracing;
use settings::{AmqpSettings, MongoSettings};

/// How a [`Client`](crate::Client) reaches its servers. A plain value: fill in what differs from
/// the defaults.
///
/// ```
/// use std::time::Duration;
/// use client::Config;
///
/// let config = Config::new("mongodb://127.0.0.1:27017/shop", "amqp://127.0.0.1:5672/%2f")
///     .queue_prefix("shop")
///     .give_up_after(Duration::from_secs(10));
/// assert_eq!(config.queue_prefix, "shop");
/// ```
#[derive(Clone)]
pub struct Config {
    /// MongoDB connection string of a replica set or a sharded cluster. The database is the one in
    /// it, else `tandem`, unless [`Config::database`] says otherwise.
    pub mongodb_uri: String,
    /// The database, whatever the connection string says.
    pub database: Option<String>,
    /// RabbitMQ connection string.
    pub amqp_url: String,
    /// Prefix of all queues and exchanges; `tandem` by default, and the same as the workers'.
    pub queue_prefix: String,
    /// The name that the servers show for this client's connections.
    pub name: String,
    /// How long a server may be away before a call fails; 60 s by default.
    pub give_up_after: Duration,
    /// How long a submission whose transactions are durable tries to publish them, from the first
    /// failure on; 2 s by default. A broker that does not answer at all is given 5 s more. What is
    /// not published by then is published by the sweepers of the workers.
    pub publish_within: Duration,
    /// The most ids of one message; 100 by default.
    pub ids_per_message: usize,
    /// Change one document with each statement, as on a sharded cluster, where it is the default.
    pub one_document_statements: bool,
    /// Indexes of your own that may refuse what Tandem writes, by their names; none by default.
    /// With another one that may, no client connects.
    pub accept_indexes: Vec<String>,
    /// Where accounts and transactions stand, to set a ledger up; the settings of one that is set up
    /// say it themselves.
    pub schema: Option<Layout>,
    /// Makes spans of submissions; off by default.
    pub tracing: Tracing,
    /// Is called with a sentence when a server is away and is tried again. By default that is a
    /// warning of `tracing`.
    pub notes: Notes,
}

/// The function that is called with such a sentence.
pub type Notes = Arc<dyn Fn(&str) + Send + Sync>;

impl Config {
    /// A configuration with these servers, and defaults for the rest.
    #[must_use]
    pub fn new(mongodb_uri: impl Into<String>, amqp_url: impl Into<String>) -> Config {
        Config {
            mongodb_uri: mongodb_uri.into(),
            database: None,
            amqp_url: amqp_url.into(),
            queue_prefix: "tandem".to_owned(),
            name: "tandem-producer".to_owned(),
            give_up_after: Duration::from_secs(60),
            publish_within: Duration::from_secs(2),
            ids_per_message: 100,
            one_document_statements: false,
            accept_indexes: Vec::new(),
            schema: None,
            tracing: Tracing::default(),
            notes: Arc::new(|note| tracing::warn!("{note}")),
        }
    }

    /// Sets [`Config::schema`].
    #[must_use]
    pub fn schema(mut self, schema: Layout) -> Config {
        self.schema = Some(schema);
        self
    }

    /// Sets [`Config::database`].
    #[must_use]
    pub fn database(mut self, database: impl Into<String>) -> Config {
        self.database = Some(database.into());
        self
    }

    /// Sets [`Config::queue_prefix`].
    #[must_use]
    pub fn queue_prefix(mut self, prefix: impl Into<String>) -> Config {
        self.queue_prefix = prefix.into();
        self
    }

    /// Sets [`Config::name`].
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Config {
        self.name = name.into();
        self
    }

    /// Sets [`Config::give_up_after`].
    #[must_use]
    pub fn give_up_after(mut self, limit: Duration) -> Config {
        self.give_up_after = limit;
        self
    }

    /// Sets [`Config::publish_within`].
    #[must_use]
    pub fn publish_within(mut self, limit: Duration) -> Config {
        self.publish_within = limit;
        self
    }

    /// Sets [`Config::ids_per_message`].
    #[must_use]
    pub fn ids_per_message(mut self, ids: usize) -> Config {
        self.ids_per_message = ids;
        self
    }

    /// Sets [`Config::one_document_statements`].
    #[must_use]
    pub fn one_document_statements(mut self, yes: bool) -> Config {
        self.one_document_statements = yes;
        self
    }

    /// Sets [`Config::accept_indexes`].
    #[must_use]
    pub fn accept_indexes(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Config {
        self.accept_indexes = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets [`Config::tracing`].
    #[must_use]
    pub fn tracing(mut self, tracing: Tracing) -> Config {
        self.tracing = tracing;
        self
    }

    /// Sets [`Config::notes`].
    #[must_use]
    pub fn notes(mut self, notes: impl Fn(&str) + Send + Sync + 'static) -> Config {
        self.notes = Arc::new(notes);
        self
    }

    pub(crate) fn mongo(&self) -> MongoSettings {
        MongoSettings {
            mongodb_uri: self.mongodb_uri.clone(),
            database: self.database.clone(),
            one_document_statements: self.one_document_statements,
            accept_index: self.accept_indexes.clone(),
        }
    }

    /// The broker, as the parts that talk to it take it.
    #[must_use]
    pub fn amqp(&self) -> AmqpSettings {
        AmqpSettings { amqp_url: self.amqp_url.clone(), queue_prefix: self.queue_prefix.clone() }
    }
}

impl fmt::Debug for Config {
    /// Without passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("mongodb_uri", &settings::redacted(&self.mongodb_uri))
            .field("database", &self.database)
            .field("amqp_url", &settings::redacted(&self.amqp_url))
            .field("queue_prefix", &self.queue_prefix)
            .field("name", &self.name)
            .field("give_up_after", &self.give_up_after)
            .finish_non_exhaustive()
    }
}
