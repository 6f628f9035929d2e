//! The HTTP API, as its callers see it: on real servers, with real workers.

mod access;
mod broker;
mod browser;
pub(crate) mod console;
mod console_bulk;
mod console_lists;
mod console_replicas;
mod events;
mod fairness;
mod generated;
mod idempotency;
mod letters;
mod limits;
mod listener;
mod overview;
mod pausing;
mod person;
mod rates;
mod reading;
mod readme;
mod schemathesis;
mod submitting;
pub(crate) mod tls;
mod tokens;

use serde_json::{Value, json};

/// A transfer as a caller writes it.
fn transfer(id: &str, source: &str, destination: &str, value: i64) -> Value {
    json!({ "id": id, "source": source, "destination": destination, "value": value })
}
