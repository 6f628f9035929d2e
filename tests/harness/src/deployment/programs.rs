//! Where the servers' programs are: named by the environment, which `deploy/programs` sets.
//!
//! Fails with which variable is missing and what to do.

use std::path::PathBuf;

use crate::console::Failure;

/// The path of `mongod`.
///
/// # Errors
/// When the environment does not name it.
pub fn mongod() -> Result<PathBuf, Failure> {
    named("TANDEM_MONGOD", "TANDEM_MONGODB_URI names a replica set")
}

/// The path of RabbitMQ's own start script.
///
/// # Errors
/// When the environment does not name it.
pub fn rabbitmq_server() -> Result<PathBuf, Failure> {
    named("TANDEM_RABBITMQ_SERVER", "TANDEM_AMQP_URL names a broker")
}

/// The path of Erlang's port mapper.
///
/// # Errors
/// When the environment does not name it.
pub fn epmd() -> Result<PathBuf, Failure> {
    named("TANDEM_EPMD", "TANDEM_AMQP_URL names a broker")
}

fn named(variable: &str, elsewhere: &str) -> Result<PathBuf, Failure> {
    match std::env::var_os(variable) {
        Some(path) if !path.is_empty() => Ok(path.into()),
        Some(_) | None => Err(Failure(format!(
            "{variable} is not set: run this by its script in deploy/, which finds the servers' \
             programs ({elsewhere} that runs elsewhere)"
        ))),
    }
}
