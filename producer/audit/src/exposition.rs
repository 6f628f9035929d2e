//! What an audit found, as a page for Prometheus: the format that node_exporter reads from files.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::{Gauge, Registry, TextEncoder};

use super::Report;

/// The page of an audit that ended at this time.
///
/// # Errors
/// When the registry takes no more; that would be a fault of this program.
pub fn page(report: &Report, ended: SystemTime) -> prometheus::Result<String> {
    let since = ended.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let registry = Registry::new();
    for (name, help, value) in [
        (
            "tandem_audit_violations",
            "Violations of the ledger's rules that the last audit found.",
            report.violation_count as f64,
        ),
        (
            "tandem_audit_unexplained_accounts",
            "Accounts whose balance other programs have moved, in collections that they share.",
            report.unexplained.accounts as f64,
        ),
        ("tandem_audit_accounts", "Accounts that it read.", report.accounts as f64),
        ("tandem_audit_transactions", "Transactions that it read.", report.transactions as f64),
        ("tandem_audit_seconds", "Seconds that it took.", report.seconds),
        (
            "tandem_audit_timestamp_seconds",
            "When it ended, in seconds since 1970.",
            since.as_secs_f64().round(),
        ),
    ] {
        let gauge = Gauge::new(name, help)?;
        gauge.set(value);
        registry.register(Box::new(gauge))?;
    }
    TextEncoder::new().encode_to_string(&registry.gather())
}

/// What the page says of an empty ledger, for the document that explains it.
///
/// # Panics
/// When a name is given twice: a mistake in this file.
#[must_use]
pub fn example() -> String {
    page(&Report::default(), SystemTime::UNIX_EPOCH).expect("each name is given once")
}
