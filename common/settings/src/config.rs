//! Settings that producer and worker share: plain values. The crate `flags` makes them of flags and
//! `TANDEM_*` variables.
//!
//! Owns names, defaults and the checks between them. Promises that no secret leaves it in a log or
//! an error ([`redacted`]). Fails with a sentence that names the variable and the fix.

use std::fmt;
use std::time::Duration;

use ledger::{LeaseMs, limits};

/// Where the balances are.
#[derive(Clone, PartialEq, Eq)]
pub struct MongoSettings {
    /// MongoDB connection string; a replica set or sharded cluster. `TANDEM_MONGODB_URI_FILE` names
    /// a file with it. Over TLS with `tls=true`, `tlsCAFile`, `tlsCertificateKeyFile`
    pub mongodb_uri: String,

    /// Database name; default: the one in the connection string, else `tandem`
    pub database: Option<String>,

    /// Change one document with each statement, by its _id, as on a sharded cluster (where it is
    /// the default); slower
    pub one_document_statements: bool,

    /// Accept that this index of yours may refuse what Tandem writes; may be repeated. `producer
    /// init` remembers it in the ledger, for all programs
    pub accept_index: Vec<String>,
}

impl fmt::Debug for MongoSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoSettings")
            .field("mongodb_uri", &redacted(&self.mongodb_uri))
            .field("database", &self.database)
            .field("one_document_statements", &self.one_document_statements)
            .field("accept_index", &self.accept_index)
            .finish()
    }
}

impl MongoSettings {
    /// The database's name: of the flag, else of the connection string, else `tandem`.
    ///
    /// # Errors
    /// When no database can have it; names the variable.
    pub fn database_name(&self, in_uri: Option<&str>) -> Result<String, String> {
        let (variable, name) = match (&self.database, in_uri) {
            (Some(name), _) => ("TANDEM_DATABASE", name.as_str()),
            (None, Some(name)) => ("TANDEM_MONGODB_URI: the database", name),
            (None, None) => return Ok("tandem".to_owned()),
        };
        name_is_good(variable, name, limits::DATABASE_BYTES_MAX)?;
        if let Some(bad) = name.chars().find(|c| "/\\. \"$".contains(*c)) {
            return Err(format!(
                "{variable} is {name:?}; no database's name may hold {bad:?}, choose another"
            ));
        }
        if ["admin", "config", "local"].contains(&name) {
            return Err(format!(
                "{variable} is {name:?}, which is MongoDB's own; choose another, for example `tandem`"
            ));
        }
        Ok(name.to_owned())
    }
}

/// Where spans are sent, and of which transactions.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSettings {
    /// Where spans are sent: the address of an OpenTelemetry collector, as http://127.0.0.1:4318
    /// (OTLP over HTTP). Without it nothing is traced
    pub otlp_endpoint: Option<String>,

    /// The share of submissions that are traced, from 0 to 1. A request that is a part of a trace
    /// is traced when that is
    pub trace_sample: f64,
}

/// Where the queue is.
#[derive(Clone, PartialEq, Eq)]
pub struct AmqpSettings {
    /// RabbitMQ connection string. `TANDEM_AMQP_URL_FILE` names a file with it. Over TLS with
    /// `amqps:`, `cacertfile`, `certfile`, `keyfile`
    pub amqp_url: String,

    /// Prefix of all queue and exchange names, so that several ledgers share a broker; up to 200
    /// bytes, not beginning with `amq.`
    pub queue_prefix: String,
}

impl fmt::Debug for AmqpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmqpSettings")
            .field("amqp_url", &redacted(&self.amqp_url))
            .field("queue_prefix", &self.queue_prefix)
            .finish()
    }
}

impl AmqpSettings {
    /// Checks the prefix: the broker, or its client, would fail later and not say why.
    ///
    /// # Errors
    /// Names the variable and the fix.
    pub fn validate(&self) -> Result<(), String> {
        const VARIABLE: &str = "TANDEM_QUEUE_PREFIX";
        let prefix = &self.queue_prefix;
        name_is_good(VARIABLE, prefix, limits::QUEUE_PREFIX_BYTES_MAX)?;
        if format!("{prefix}.").starts_with("amq.") {
            return Err(format!(
                "{VARIABLE} is {:?}; names that begin with `amq.` are the broker's own, choose \
                 another",
                limits::echo(prefix)
            ));
        }
        for end in [".retry", ".events"] {
            if prefix.ends_with(end) {
                return Err(format!(
                    "{VARIABLE} is {:?}; an exchange of another ledger may have this name, choose \
                     one that does not end in `{end}`",
                    limits::echo(prefix)
                ));
            }
        }
        Ok(())
    }
}

/// Checks a name that is sent to a server.
///
/// # Errors
/// Names the variable and the fix.
pub fn name_is_good(variable: &str, name: &str, bytes_max: usize) -> Result<(), String> {
    let problem = if name.is_empty() {
        "is empty".to_owned()
    } else if name.len() > bytes_max {
        format!("is {} bytes long", name.len())
    } else if name.contains(char::is_control) {
        "has control characters in it".to_owned()
    } else {
        return Ok(());
    };
    Err(format!(
        "{variable} {problem}; it must be 1 to {bytes_max} bytes without control characters"
    ))
}

/// The times on which the fence rests. All of them count on the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimingSettings {
    /// How long a worker may post for a transaction after claiming it, in milliseconds
    pub lease_ms: u32,

    /// How long after the lease nobody else may claim, in milliseconds; at least the operation
    /// limit plus the clock skew
    pub grace_ms: u32,

    /// The server's time limit of one operation (maxTimeMS), in milliseconds
    pub op_limit_ms: u32,

    /// How far the clocks of replica-set members and routers may be apart, in milliseconds
    pub clock_skew_ms: u32,
}

impl TimingSettings {
    /// Checks the settings against each other.
    ///
    /// # Errors
    /// Names the variable to change and its least value.
    pub fn validate(&self) -> Result<(), String> {
        if self.op_limit_ms < 100 {
            return Err(format!(
                "TANDEM_OP_LIMIT_MS is {}; it must be at least 100",
                self.op_limit_ms
            ));
        }
        let least_grace = u64::from(self.op_limit_ms) + u64::from(self.clock_skew_ms);
        if u64::from(self.grace_ms) < least_grace {
            return Err(format!(
                "TANDEM_GRACE_MS is {}; it must be at least {least_grace} (TANDEM_OP_LIMIT_MS + \
                 TANDEM_CLOCK_SKEW_MS), or a stalled worker's posting could still be running when \
                 its successor starts",
                self.grace_ms
            ));
        }
        let least_lease = 2 * u64::from(self.op_limit_ms);
        if u64::from(self.lease_ms) < least_lease {
            return Err(format!(
                "TANDEM_LEASE_MS is {}; it must be at least {least_lease} (twice \
                 TANDEM_OP_LIMIT_MS), or one slow operation uses it up",
                self.lease_ms
            ));
        }
        if self.lease_ms > 3_600_000 {
            return Err(format!(
                "TANDEM_LEASE_MS is {}; it must be at most 3600000: a dead worker's transactions \
                 wait for so long",
                self.lease_ms
            ));
        }
        Ok(())
    }

    /// The server's limit of one operation.
    #[must_use]
    pub fn op_limit(&self) -> Duration {
        Duration::from_millis(self.op_limit_ms.into())
    }

    /// Lease and grace as the ledger takes them.
    #[must_use]
    pub fn lease(&self) -> LeaseMs {
        LeaseMs { lease: self.lease_ms.into(), grace: self.grace_ms.into() }
    }
}

impl Default for TimingSettings {
    /// The defaults of the flags.
    fn default() -> TimingSettings {
        TimingSettings { lease_ms: 10_000, grace_ms: 4_000, op_limit_ms: 3_000, clock_skew_ms: 500 }
    }
}

/// A connection string without its password, for logs and errors.
#[must_use]
pub fn redacted(uri: &str) -> String {
    let Some((scheme, rest)) = uri.split_once("://") else {
        return "…".to_owned();
    };
    let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    // What follows a `:` may be a password whose `@` was forgotten.
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = |host: &str| {
        host.starts_with('[') || host.rsplit_once(':').is_none_or(|(_, port)| is_port(port))
    };
    // A password may hold an unescaped `/` or `@`; hide up to the last `@` of the whole text.
    match rest.rfind('@') {
        Some(at) => format!("{scheme}://…@{}", &rest[at + 1..].split('?').next().unwrap_or("")),
        None if authority.split(',').all(is_host) => format!("{scheme}://{authority}"),
        None => format!("{scheme}://…"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_never_show() {
        for (uri, expected) in [
            ("amqp://guest:secret@host:5672/%2f", "amqp://…@host:5672/%2f"),
            ("mongodb://u:s/e@cret@a,b/db?authSource=secret", "mongodb://…@a,b/db"),
            ("mongodb://host/db?tlsCertificateKeyFilePassword=secret", "mongodb://host"),
            ("amqp://u:secret/%2f", "amqp://…"),
            (
                "mongodb://[fd00::ab]:27017,h,10.0.0.1:1/db",
                "mongodb://[fd00::ab]:27017,h,10.0.0.1:1",
            ),
            ("secret", "…"),
        ] {
            assert_eq!(redacted(uri), expected);
            assert!(!redacted(uri).contains("secret"));
            let amqp = AmqpSettings { amqp_url: uri.to_owned(), queue_prefix: "tandem".to_owned() };
            let (mongodb_uri, database) = (uri.to_owned(), None);
            let mongo = MongoSettings {
                mongodb_uri,
                database,
                one_document_statements: false,
                accept_index: vec![],
            };
            assert!(!format!("{amqp:?} {mongo:?}").contains("secret"));
        }
    }

    #[test]
    fn a_prefix_that_can_name_no_queue_is_refused_by_name() {
        let validate = |prefix: &str| {
            let args = AmqpSettings { amqp_url: String::new(), queue_prefix: prefix.to_owned() };
            args.validate()
        };
        let longest = "q".repeat(limits::QUEUE_PREFIX_BYTES_MAX);
        for good in ["tandem", "t-1.b_ä c", "amqp", &longest] {
            assert_eq!(validate(good), Ok(()));
        }
        for bad in
            ["", "amq", "amq.x", "a.retry", "a.events", "a\nb", "a\u{0}", &format!("{longest}q")]
        {
            let error = validate(bad).expect_err(bad);
            assert!(error.starts_with("TANDEM_QUEUE_PREFIX"), "{error}");
        }
    }

    #[test]
    fn a_name_that_no_database_can_have_is_refused_by_the_variable_that_holds_it() {
        let named = |flag: Option<&str>, in_uri: Option<&str>| {
            let database = flag.map(str::to_owned);
            let (mongodb_uri, one_document_statements) = (String::new(), false);
            let args = MongoSettings {
                mongodb_uri,
                database,
                one_document_statements,
                accept_index: vec![],
            };
            args.database_name(in_uri)
        };
        assert_eq!(named(None, None).as_deref(), Ok("tandem"));
        assert_eq!(named(None, Some("bank")).as_deref(), Ok("bank"));
        assert_eq!(named(Some("t_1-b"), Some("bank")).as_deref(), Ok("t_1-b"));
        let long = "d".repeat(limits::DATABASE_BYTES_MAX + 1);
        for bad in ["", "a.b", "a b", "a/b", "a\\b", "a\"b", "a$b", "a\u{0}b", "local", &long] {
            let error = named(Some(bad), None).expect_err(bad);
            assert!(error.starts_with("TANDEM_DATABASE"), "{error}");
            let error = named(None, Some(bad)).expect_err(bad);
            assert!(error.starts_with("TANDEM_MONGODB_URI"), "{error}");
        }
    }

    #[test]
    fn timing_that_breaks_the_fence_is_refused_by_name() {
        let good = TimingSettings::default();
        assert_eq!(good.validate(), Ok(()));
        for (bad, name) in [
            (TimingSettings { grace_ms: 3_499, ..good }, "TANDEM_GRACE_MS"),
            (TimingSettings { clock_skew_ms: 1_001, ..good }, "TANDEM_GRACE_MS"),
            (TimingSettings { lease_ms: 5_999, ..good }, "TANDEM_LEASE_MS"),
            (TimingSettings { lease_ms: 3_600_001, ..good }, "TANDEM_LEASE_MS"),
            (TimingSettings { op_limit_ms: 99, ..good }, "TANDEM_OP_LIMIT_MS"),
        ] {
            let error = bad.validate().expect_err(name);
            assert!(error.starts_with(name), "{error}");
        }
    }
}
