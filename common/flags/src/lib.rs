#![doc = include_str!("../README.md")]

mod logging;

use std::path::PathBuf;

use clap::Args;
use settings::{AmqpSettings, MongoSettings, TimingSettings, TraceSettings};

pub use logging::{LogFlags, LogFormat, init_logging};

/// Where the balances are.
#[derive(Args, Clone, Debug)]
pub struct MongoFlags {
    /// MongoDB connection string; a replica set or sharded cluster. `TANDEM_MONGODB_URI_FILE` names
    /// a file with it. Over TLS with `tls=true`, `tlsCAFile`, `tlsCertificateKeyFile`
    #[arg(
        long,
        env = "TANDEM_MONGODB_URI",
        default_value = "mongodb://127.0.0.1:27017/tandem",
        hide_env_values = true,
        global = true
    )]
    mongodb_uri: String,

    /// Database name; default: the one in the connection string, else `tandem`
    #[arg(long, env = "TANDEM_DATABASE", global = true)]
    database: Option<String>,

    /// Change one document with each statement, by its _id, as on a sharded cluster (where it is
    /// the default); slower
    #[arg(long, env = "TANDEM_ONE_DOCUMENT_STATEMENTS", global = true)]
    one_document_statements: bool,

    /// Accept that this index of yours may refuse what Tandem writes; may be repeated. `producer
    /// init` remembers it in the ledger, for all programs
    #[arg(
        long,
        env = "TANDEM_ACCEPT_INDEX",
        value_name = "NAME",
        value_delimiter = ',',
        global = true
    )]
    accept_index: Vec<String>,
}

impl From<MongoFlags> for MongoSettings {
    fn from(flags: MongoFlags) -> MongoSettings {
        let MongoFlags { mongodb_uri, database, one_document_statements, accept_index } = flags;
        MongoSettings { mongodb_uri, database, one_document_statements, accept_index }
    }
}

/// Where the queue is.
#[derive(Args, Clone, Debug)]
pub struct AmqpFlags {
    /// RabbitMQ connection string. `TANDEM_AMQP_URL_FILE` names a file with it. Over TLS with
    /// `amqps:`, `cacertfile`, `certfile`, `keyfile`
    #[arg(
        long,
        env = "TANDEM_AMQP_URL",
        default_value = "amqp://guest:guest@127.0.0.1:5672/%2f",
        hide_env_values = true,
        global = true
    )]
    amqp_url: String,

    /// Prefix of all queue and exchange names, so that several ledgers share a broker; up to 200
    /// bytes, not beginning with `amq.`
    #[arg(long, env = "TANDEM_QUEUE_PREFIX", default_value = "tandem", global = true)]
    queue_prefix: String,
}

impl From<AmqpFlags> for AmqpSettings {
    fn from(AmqpFlags { amqp_url, queue_prefix }: AmqpFlags) -> AmqpSettings {
        AmqpSettings { amqp_url, queue_prefix }
    }
}

/// The times on which the fence rests. All of them count on the server's clock.
#[derive(Args, Clone, Copy, Debug)]
pub struct TimingFlags {
    /// How long a worker may post for a transaction after claiming it, in milliseconds
    #[arg(long, env = "TANDEM_LEASE_MS", default_value_t = 10_000, global = true)]
    lease_ms: u32,

    /// How long after the lease nobody else may claim, in milliseconds; at least the operation
    /// limit plus the clock skew
    #[arg(long, env = "TANDEM_GRACE_MS", default_value_t = 4_000, global = true)]
    grace_ms: u32,

    /// The server's time limit of one operation (maxTimeMS), in milliseconds
    #[arg(long, env = "TANDEM_OP_LIMIT_MS", default_value_t = 3_000, global = true)]
    op_limit_ms: u32,

    /// How far the clocks of replica-set members and routers may be apart, in milliseconds
    #[arg(long, env = "TANDEM_CLOCK_SKEW_MS", default_value_t = 500, global = true)]
    clock_skew_ms: u32,
}

impl From<TimingFlags> for TimingSettings {
    fn from(flags: TimingFlags) -> TimingSettings {
        let TimingFlags { lease_ms, grace_ms, op_limit_ms, clock_skew_ms } = flags;
        TimingSettings { lease_ms, grace_ms, op_limit_ms, clock_skew_ms }
    }
}

/// The certificate of what a program serves.
#[derive(Args, Clone, Debug)]
pub struct TlsFlags {
    /// Speak TLS with the certificate in this file (PEM, that of the server first); it is read again
    /// when it changes
    #[arg(long, env = "TANDEM_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The key of the certificate (PEM), in a file that not everybody can read
    #[arg(long, env = "TANDEM_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl TlsFlags {
    /// The files of certificate and key, if they are given.
    #[must_use]
    pub fn files(self) -> Option<(PathBuf, PathBuf)> {
        self.tls_cert.zip(self.tls_key)
    }
}

/// Where spans are sent, and of which transactions.
#[derive(Args, Clone, Debug)]
pub struct TraceFlags {
    /// Where spans are sent: the address of an OpenTelemetry collector, as http://127.0.0.1:4318
    /// (OTLP over HTTP). Without it nothing is traced
    #[arg(long, env = "TANDEM_OTLP_ENDPOINT", value_name = "URL", global = true)]
    otlp_endpoint: Option<String>,

    /// The share of submissions that are traced, from 0 to 1. A request that is a part of a trace
    /// is traced when that is
    #[arg(
        long,
        env = "TANDEM_TRACE_SAMPLE",
        value_name = "SHARE",
        default_value_t = 0.01,
        global = true
    )]
    trace_sample: f64,
}

impl From<TraceFlags> for TraceSettings {
    fn from(TraceFlags { otlp_endpoint, trace_sample }: TraceFlags) -> TraceSettings {
        TraceSettings { otlp_endpoint, trace_sample }
    }
}

/// Reads a flag that is `on` or `off`.
///
/// # Errors
/// When it is neither.
pub fn switch(text: &str) -> Result<bool, String> {
    // YAML makes `true` of `on`, and others write it in capitals.
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err("it must be `on` or `off`".to_owned()),
    }
}
