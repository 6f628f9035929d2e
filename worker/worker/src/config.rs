//! The worker's settings: a plain struct, checked against each other at start.
//!
//! In the program `worker` each of them is a flag and a `TANDEM_*` variable. Errors name the
//! variable, also where the setting came from a program.

use std::time::Duration;

use engine::{EngineKind, EngineSettings};
use ledger::limits::APPLICATION_BYTES_MAX;
use ledger::message::MESSAGE_IDS_MAX;
use ledger::retry::Policy;
use observe::tls::TlsFiles;
use settings::{AmqpSettings, MongoSettings, TimingSettings, name_is_good};

use crate::batches::BatchSettings;
use crate::prefetch::Prefetch;
use crate::sweeper::SweeperSettings;

/// How many batches of ids are to be here, those under way included. What is committed and waits
/// for a ride (a second's worth) or for its acknowledgement counts, too.
pub const BATCHES_AHEAD: usize = 8;

/// So many times as many batches of messages that were delivered before may be in flight.
const SUSPECT_LANES: usize = 2;

/// Of fewer transactions than these, a second native transaction costs more than all their
/// documents: half to one account at 2,000/s, p50 is 16 ms in place of 27
/// (`tests/bench/results/2026-11-25.md`).
const SPLIT_FROM: usize = 128;

/// How a worker reaches its servers, and how it works. A plain value: fill in what differs from the
/// defaults.
///
/// ```
/// let mut config = worker::Config::new("mongodb://127.0.0.1:27017/shop", "amqp://127.0.0.1:5672/%2f");
/// config.lanes = 4;
/// assert_eq!(config.validate(), Ok(()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where the balances are.
    pub mongo: MongoSettings,
    /// Where the queue is.
    pub amqp: AmqpSettings,
    /// Lease, grace and operation limit.
    pub timing: TimingSettings,

    /// Who claims: shows as `application` in transactions; default: host name and process id
    pub name: Option<String>,

    /// Address of /metrics, /healthz and /readyz; `off` for none
    pub http: String,
    /// The certificate of these pages; none to serve them without TLS.
    pub tls: Option<TlsFiles>,

    /// Where spans are sent: the address of an OpenTelemetry collector, as http://127.0.0.1:4318
    /// (OTLP over HTTP). Without it nothing is traced
    pub otlp_endpoint: Option<String>,

    /// How a batch is settled; all may run side by side on the same data
    pub engine: EngineKind,

    /// Whether an event is published for each transaction that ends, `on` or `off`. The ledger's
    /// settings decide; a worker that is told otherwise does not start, and a fresh ledger gets
    /// what is told, or `on`
    pub events: Option<bool>,

    /// The most ids of a batch
    pub batch_size: u32,

    /// How long a batch waits for more while others are under way, in milliseconds
    pub linger_ms: u32,

    /// The most batches in flight
    pub lanes: u32,

    /// How long the settlements of a large batch wait for a ride on the next post to their account,
    /// in milliseconds, at most a quarter of the lease; 0 settles at once
    pub ride_ms: u32,

    /// Messages delivered ahead; by default as many as hold eight batches of ids and as the
    /// worker ends in about a second, and 16,000 at most
    pub prefetch: Option<u16>,

    /// After so many claims for it alone a transaction that is not committed is rolled back
    pub attempts_max: u32,

    /// The first delay after a failed attempt, in milliseconds; it doubles from there
    pub retry_first_ms: u32,

    /// The longest delay after a failed attempt, in milliseconds
    pub retry_max_ms: u32,

    /// How often to look for forgotten transactions, in milliseconds
    pub sweep_ms: u32,

    /// Age after which an `initial` transaction that nobody claims counts as forgotten
    pub orphan_ms: u32,

    /// How long to finish what is begun after SIGTERM, in milliseconds
    pub drain_ms: u32,
}

impl Config {
    /// A configuration with these servers, without pages, and with defaults for the rest.
    #[must_use]
    pub fn new(mongodb_uri: impl Into<String>, amqp_url: impl Into<String>) -> Config {
        Config {
            mongo: MongoSettings {
                mongodb_uri: mongodb_uri.into(),
                database: None,
                one_document_statements: false,
                accept_index: vec![],
            },
            amqp: AmqpSettings { amqp_url: amqp_url.into(), queue_prefix: "tandem".to_owned() },
            timing: TimingSettings::default(),
            name: None,
            http: "off".to_owned(),
            tls: None,
            otlp_endpoint: None,
            engine: EngineKind::default(),
            events: None,
            batch_size: 2_000,
            linger_ms: 3,
            lanes: 2,
            ride_ms: 1_000,
            prefetch: None,
            attempts_max: 10,
            retry_first_ms: 500,
            retry_max_ms: 60_000,
            sweep_ms: 2_000,
            orphan_ms: 30_000,
            drain_ms: 20_000,
        }
    }

    /// Checks every setting and their relations.
    ///
    /// # Errors
    /// Names the variable and the fix.
    pub fn validate(&self) -> Result<(), String> {
        self.timing.validate()?;
        self.amqp.validate()?;
        if let Some(name) = &self.name {
            name_is_good("TANDEM_NAME", name, APPLICATION_BYTES_MAX)?;
        }
        let in_range = |name: &str, value: u32, least: u32, most: u32| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(format!("{name} is {value}; it must be between {least} and {most}"))
            }
        };
        let ids_max = u32::try_from(MESSAGE_IDS_MAX).unwrap_or(u32::MAX);
        in_range("TANDEM_BATCH_SIZE", self.batch_size, 1, 10 * ids_max)?;
        in_range("TANDEM_LINGER_MS", self.linger_ms, 0, 1_000)?;
        in_range("TANDEM_RIDE_MS", self.ride_ms, 0, 60_000)?;
        in_range("TANDEM_LANES", self.lanes, 1, 256)?;
        in_range("TANDEM_PREFETCH", self.prefetch.unwrap_or(1).into(), 1, 65_535)?;
        in_range("TANDEM_ATTEMPTS_MAX", self.attempts_max, 1, 1_000_000)?;
        in_range("TANDEM_RETRY_FIRST_MS", self.retry_first_ms, 1, 3_600_000)?;
        in_range("TANDEM_RETRY_MAX_MS", self.retry_max_ms, self.retry_first_ms, 86_400_000)?;
        in_range("TANDEM_SWEEP_MS", self.sweep_ms, 50, 3_600_000)?;
        in_range("TANDEM_ORPHAN_MS", self.orphan_ms, 100, 86_400_000)?;
        in_range("TANDEM_DRAIN_MS", self.drain_ms, 0, 3_600_000)
    }

    /// The name under which this process claims.
    #[must_use]
    pub fn application(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
            let host = host.as_deref().map_or("worker", str::trim);
            format!("{host}-{}", std::process::id())
        })
    }

    /// What the engine is told.
    #[must_use]
    pub fn engine_settings(&self) -> EngineSettings {
        EngineSettings {
            kind: self.engine,
            application: self.application(),
            post_window_ms: self.timing.op_limit_ms.into(),
            grace_ms: self.timing.grace_ms.into(),
            attempts_max: self.attempts_max,
            retry: Policy {
                first: Duration::from_millis(self.retry_first_ms.into()),
                max: Duration::from_millis(self.retry_max_ms.into()),
            },
            tries_in_place: 4,
            // Beyond the lease others would take over what only waits.
            ride_wait: Duration::from_millis(self.ride_ms.min(self.timing.lease_ms / 4).into()),
            // A batch closes early when the queue has run dry.
            rides_from: if self.ride_ms == 0 {
                usize::MAX
            } else {
                (self.batch_size as usize / 4).max(2)
            },
            full_from: (self.batch_size as usize / 2).max(2),
            split_from: SPLIT_FROM,
        }
    }

    /// How many messages the broker delivers ahead.
    pub(crate) fn ahead(&self) -> Prefetch {
        Prefetch::new(self.prefetch, BATCHES_AHEAD * self.batch_size as usize)
    }

    /// How batches are collected.
    #[must_use]
    pub fn batches(&self) -> BatchSettings {
        BatchSettings {
            ids_max: self.batch_size as usize,
            linger: Duration::from_millis(self.linger_ms.into()),
            lanes: self.lanes as usize,
        }
    }

    /// How batches of messages are collected that were delivered before. They are small, so more of
    /// them are in flight.
    #[must_use]
    pub(crate) fn suspect_batches(&self) -> BatchSettings {
        BatchSettings { lanes: SUSPECT_LANES * self.lanes as usize, ..self.batches() }
    }

    /// What the sweeper is told.
    #[must_use]
    pub fn sweeper(&self) -> SweeperSettings {
        SweeperSettings {
            every: Duration::from_millis(self.sweep_ms.into()),
            orphan_ms: self.orphan_ms.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::new("mongodb://127.0.0.1:27017", "amqp://guest:guest@127.0.0.1:5672/%2f")
    }

    #[test]
    fn defaults_are_valid_and_a_bad_value_is_named() {
        assert_eq!(config().validate(), Ok(()));
        let long = "n".repeat(APPLICATION_BYTES_MAX + 1);
        type Edit<'a> = &'a dyn Fn(&mut Config);
        let edits: [(&str, Edit); 7] = [
            ("TANDEM_LANES", &|config| config.lanes = 0),
            ("TANDEM_BATCH_SIZE", &|config| config.batch_size = 0),
            ("TANDEM_RETRY_MAX_MS", &|config| config.retry_max_ms = 1),
            ("TANDEM_GRACE_MS", &|config| config.timing.grace_ms = 100),
            ("TANDEM_QUEUE_PREFIX", &|config| config.amqp.queue_prefix = "amq.x".to_owned()),
            ("TANDEM_NAME", &|config| config.name = Some(String::new())),
            ("TANDEM_NAME", &|config| config.name = Some(long.clone())),
        ];
        for (name, edit) in edits {
            let mut config = config();
            edit(&mut config);
            let error = config.validate().expect_err(name);
            assert!(error.starts_with(name), "{error}");
        }
    }
}
