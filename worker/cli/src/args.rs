//! The flags of the program, each with its `TANDEM_*` variable.

use clap::{Args, ValueEnum};
use engine::EngineKind;
use flags::{AmqpFlags, MongoFlags, TimingFlags, TlsFlags, switch};
use worker::{Config, TlsFiles};

/// How the worker reaches its servers, and how it works.
#[derive(Args, Clone, Debug)]
pub struct WorkerFlags {
    /// Where the balances are.
    #[command(flatten)]
    mongo: MongoFlags,
    /// Where the queue is.
    #[command(flatten)]
    amqp: AmqpFlags,
    /// Lease, grace and operation limit.
    #[command(flatten)]
    timing: TimingFlags,

    /// Who claims: shows as `application` in transactions; default: host name and process id
    #[arg(long, env = "TANDEM_NAME")]
    name: Option<String>,

    /// Address of /metrics, /healthz and /readyz; `off` for none
    #[arg(long, env = "TANDEM_HTTP", default_value = "127.0.0.1:9464")]
    http: String,

    /// The certificate of these pages.
    #[command(flatten)]
    tls: TlsFlags,

    /// Where spans are sent: the address of an OpenTelemetry collector, as http://127.0.0.1:4318
    /// (OTLP over HTTP). Without it nothing is traced
    #[arg(long, env = "TANDEM_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<String>,

    /// How a batch is settled; all may run side by side on the same data
    #[arg(long, env = "TANDEM_ENGINE", value_enum, ignore_case = true, default_value_t)]
    engine: EngineFlag,

    /// Whether an event is published for each transaction that ends, `on` or `off`. The ledger's
    /// settings decide; a worker that is told otherwise does not start, and a fresh ledger gets
    /// what is told, or `on`
    #[arg(long, env = "TANDEM_EVENTS", value_name = "on|off", value_parser = switch)]
    events: Option<bool>,

    /// The most ids of a batch; where three workers and more share, twice as many
    #[arg(long, env = "TANDEM_BATCH_SIZE", default_value_t = 2_000)]
    batch_size: u32,

    /// How long a batch waits for more while others are under way, in milliseconds
    #[arg(long, env = "TANDEM_LINGER_MS", default_value_t = 3)]
    linger_ms: u32,

    /// The most batches in flight; three workers and more together have as many as two, at least one
    /// each
    #[arg(long, env = "TANDEM_LANES", default_value_t = 2)]
    lanes: u32,

    /// How long the settlements of a large batch wait for a ride on the next post to their account,
    /// in milliseconds, at most a quarter of the lease, and where three workers and more share twice
    /// as long; 0 settles at once
    #[arg(long, env = "TANDEM_RIDE_MS", default_value_t = 1_000)]
    ride_ms: u32,

    /// Messages delivered ahead; by default as many as hold eight batches of ids and as the
    /// worker ends in about a second, and 16,000 at most
    #[arg(long, env = "TANDEM_PREFETCH")]
    prefetch: Option<u16>,

    /// After so many claims for it alone a transaction that is not committed is rolled back
    #[arg(long, env = "TANDEM_ATTEMPTS_MAX", default_value_t = 10)]
    attempts_max: u32,

    /// The first delay after a failed attempt, in milliseconds; it doubles from there
    #[arg(long, env = "TANDEM_RETRY_FIRST_MS", default_value_t = 500)]
    retry_first_ms: u32,

    /// The longest delay after a failed attempt, in milliseconds
    #[arg(long, env = "TANDEM_RETRY_MAX_MS", default_value_t = 60_000)]
    retry_max_ms: u32,

    /// How often to look for forgotten transactions, in milliseconds
    #[arg(long, env = "TANDEM_SWEEP_MS", default_value_t = 2_000)]
    sweep_ms: u32,

    /// Age after which an `initial` transaction that nobody claims counts as forgotten
    #[arg(long, env = "TANDEM_ORPHAN_MS", default_value_t = 30_000)]
    orphan_ms: u32,

    /// How long to finish what is begun after SIGTERM, in milliseconds
    #[arg(long, env = "TANDEM_DRAIN_MS", default_value_t = 20_000)]
    drain_ms: u32,
}

/// How a batch is settled.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum EngineFlag {
    /// A two-phase commit over account documents; workers don't wait for each other.
    #[default]
    TwoPhase,
    /// One native MongoDB transaction per batch; fewer writes, but workers on the same accounts
    /// conflict.
    Transaction,
    /// Native transactions while they are the faster way, and two phases while other workers settle
    /// on the same accounts, or batches are full and for few accounts, or far from the database.
    Auto,
}

impl From<EngineFlag> for EngineKind {
    fn from(flag: EngineFlag) -> EngineKind {
        match flag {
            EngineFlag::TwoPhase => EngineKind::TwoPhase,
            EngineFlag::Transaction => EngineKind::Transaction,
            EngineFlag::Auto => EngineKind::Auto,
        }
    }
}

impl From<WorkerFlags> for Config {
    fn from(flags: WorkerFlags) -> Config {
        Config {
            mongo: flags.mongo.into(),
            amqp: flags.amqp.into(),
            timing: flags.timing.into(),
            name: flags.name,
            http: flags.http,
            tls: flags.tls.files().map(|(certificate, key)| TlsFiles { certificate, key }),
            otlp_endpoint: flags.otlp_endpoint,
            engine: flags.engine.into(),
            events: flags.events,
            batch_size: flags.batch_size,
            linger_ms: flags.linger_ms,
            lanes: flags.lanes,
            ride_ms: flags.ride_ms,
            prefetch: flags.prefetch,
            attempts_max: flags.attempts_max,
            retry_first_ms: flags.retry_first_ms,
            retry_max_ms: flags.retry_max_ms,
            sweep_ms: flags.sweep_ms,
            orphan_ms: flags.orphan_ms,
            drain_ms: flags.drain_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::Cli;

    #[test]
    fn defaults_are_those_of_the_library() {
        let parsed = Config::from(Cli::parse_from(["worker"]).config);
        let defaults = Config::new(&parsed.mongo.mongodb_uri, &parsed.amqp.amqp_url);
        let Config { mongo, amqp, http, .. } = parsed.clone();
        assert_eq!(parsed, Config { mongo, amqp, http, ..defaults.clone() });
        assert_eq!(parsed.amqp.queue_prefix, defaults.amqp.queue_prefix);
    }
}
