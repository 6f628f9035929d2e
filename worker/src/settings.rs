//! The worker's settings: flags and `TANDEM_*` variables, checked against each other at start.

use std::time::Duration;

use clap::Parser;
use common::config::{AmqpArgs, LogArgs, MongoArgs, TimingArgs, name_is_good};
use common::limits::APPLICATION_BYTES_MAX;
use common::message::IDS_MAX;
use common::retry::Policy;

use crate::engine::{EngineKind, EngineSettings};
use crate::lanes::BatchSettings;
use crate::sweeper::SweeperSettings;

/// Settles transactions: consumes their ids and runs the two-phase commit, or native transactions.
#[derive(Clone, Debug, Parser)]
#[command(name = "worker", version, after_help = EXAMPLES)]
pub struct Settings {
    /// Where the balances are.
    #[command(flatten)]
    pub mongo: MongoArgs,
    /// Where the queue is.
    #[command(flatten)]
    pub amqp: AmqpArgs,
    /// Lease, grace and operation limit.
    #[command(flatten)]
    pub timing: TimingArgs,
    /// How to log.
    #[command(flatten)]
    pub logging: LogArgs,

    /// Who claims: shows as `application` in transactions; default: host name and process id
    #[arg(long, env = "TANDEM_NAME")]
    pub name: Option<String>,

    /// Address of /metrics, /healthz and /readyz; `off` for none
    #[arg(long, env = "TANDEM_HTTP", default_value = "127.0.0.1:9464")]
    pub http: String,

    /// How a batch is settled; both may run side by side on the same data
    #[arg(long, env = "TANDEM_ENGINE", value_enum, default_value_t)]
    pub engine: EngineKind,

    /// The most ids of a batch
    #[arg(long, env = "TANDEM_BATCH_SIZE", default_value_t = 2_000)]
    pub batch_size: u32,

    /// How long a batch waits for more while others are under way, in milliseconds
    #[arg(long, env = "TANDEM_LINGER_MS", default_value_t = 3)]
    pub linger_ms: u32,

    /// The most batches in flight
    #[arg(long, env = "TANDEM_LANES", default_value_t = 2)]
    pub lanes: u32,

    /// How long the settlements of a large batch wait for a ride on the next post to their account,
    /// in milliseconds, at most a quarter of the lease; 0 settles at once
    #[arg(long, env = "TANDEM_RIDE_MS", default_value_t = 1_000)]
    pub ride_ms: u32,

    /// Messages delivered ahead; each may hold many ids
    #[arg(long, env = "TANDEM_PREFETCH", default_value_t = 200)]
    pub prefetch: u16,

    /// After so many claims a transaction that is not committed is rolled back
    #[arg(long, env = "TANDEM_ATTEMPTS_MAX", default_value_t = 10)]
    pub attempts_max: u32,

    /// The first delay after a failed attempt, in milliseconds; it doubles from there
    #[arg(long, env = "TANDEM_RETRY_FIRST_MS", default_value_t = 500)]
    pub retry_first_ms: u32,

    /// The longest delay after a failed attempt, in milliseconds
    #[arg(long, env = "TANDEM_RETRY_MAX_MS", default_value_t = 60_000)]
    pub retry_max_ms: u32,

    /// How often to look for forgotten transactions, in milliseconds
    #[arg(long, env = "TANDEM_SWEEP_MS", default_value_t = 2_000)]
    pub sweep_ms: u32,

    /// Age after which an `initial` transaction that nobody claims counts as forgotten
    #[arg(long, env = "TANDEM_ORPHAN_MS", default_value_t = 30_000)]
    pub orphan_ms: u32,

    /// How long to finish what is begun after SIGTERM, in milliseconds
    #[arg(long, env = "TANDEM_DRAIN_MS", default_value_t = 20_000)]
    pub drain_ms: u32,
}

const EXAMPLES: &str = "\
Examples:
  worker
  TANDEM_MONGODB_URI='mongodb://db1,db2,db3/bank?replicaSet=rs0' worker --name settle-1
  worker --http 0.0.0.0:9464 --log-format json --log debug,lapin=off
  worker --engine transaction --batch-size 4000
  worker --batch-size 1 --lanes 32        one transaction at a time, for comparison

Every flag has an environment variable, shown beside it.

Exit codes:
  0    stopped as told; nothing of it is left in flight
  1    the database or the broker refuses it for good (rights, password, another setup or version),
       a part of it ended by itself, or it was not finished within --drain-ms; what is in flight is
       taken over by others when its lease ends
  2    bad settings
A server that is away is waited for: see /readyz.";

impl Settings {
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
        let ids_max = u32::try_from(IDS_MAX).unwrap_or(u32::MAX);
        in_range("TANDEM_BATCH_SIZE", self.batch_size, 1, 10 * ids_max)?;
        in_range("TANDEM_LINGER_MS", self.linger_ms, 0, 1_000)?;
        in_range("TANDEM_RIDE_MS", self.ride_ms, 0, 60_000)?;
        in_range("TANDEM_LANES", self.lanes, 1, 256)?;
        in_range("TANDEM_PREFETCH", self.prefetch.into(), 1, 65_535)?;
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
        }
    }

    /// What the lanes are told.
    #[must_use]
    pub fn batches(&self) -> BatchSettings {
        BatchSettings {
            ids_max: self.batch_size as usize,
            linger: Duration::from_millis(self.linger_ms.into()),
            lanes: self.lanes as usize,
        }
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

    #[test]
    fn defaults_are_valid_and_a_bad_value_is_named() {
        let defaults = Settings::parse_from(["worker"]);
        assert_eq!(defaults.validate(), Ok(()));
        for (flag, value, name) in [
            ("--lanes", "0", "TANDEM_LANES"),
            ("--batch-size", "0", "TANDEM_BATCH_SIZE"),
            ("--retry-max-ms", "1", "TANDEM_RETRY_MAX_MS"),
            ("--grace-ms", "100", "TANDEM_GRACE_MS"),
            ("--queue-prefix", "amq.x", "TANDEM_QUEUE_PREFIX"),
            ("--name", "", "TANDEM_NAME"),
            ("--name", &"n".repeat(APPLICATION_BYTES_MAX + 1), "TANDEM_NAME"),
        ] {
            let settings = Settings::parse_from(["worker", flag, value]);
            let error = settings.validate().expect_err(flag);
            assert!(error.starts_with(name), "{error}");
        }
    }

    #[test]
    fn defaults_of_the_timing_are_those_of_its_flags() {
        let (parsed, default) = (Settings::parse_from(["worker"]).timing, TimingArgs::default());
        assert_eq!(format!("{parsed:?}"), format!("{default:?}"));
    }
}
