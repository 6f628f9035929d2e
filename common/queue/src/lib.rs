#![doc = include_str!("../README.md")]

mod address;
mod dead;
mod deliveries;
mod gate;
mod outgoing;
mod permissions;
mod publisher;
mod subscription;
mod tls;
mod topology;
mod traces;

use std::sync::Arc;
use std::time::Duration;

use async_rs::traits::RuntimeKit;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Channel, Connection, ConnectionProperties, ErrorKind};
use ledger::remedy::Remedy;

pub use dead::{DeadLetter, DeadLetters, HeldLetter};
pub use deliveries::deliveries_before;
pub use gate::Gate;
pub use outgoing::Outgoing;
pub use permissions::{Permissions, permissions};
pub use publisher::{Publisher, Taken};
pub use subscription::Subscription;
pub use topology::{Level, Topology};
pub use traces::traces;

use address::Address;
use gate::GatedReactor;

/// The delays that a retry queue exists for, in milliseconds. Messages expire only at a queue's
/// head, so every queue has one delay. Halving steps let a wait be composed of a few of them.
pub const DELAYS_MS: [u32; 10] =
    [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000];

/// How long to wait for the broker's answer before the connection counts as lost.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Seconds between heartbeats, unless the URL says otherwise. The broker gives up on a silent
/// consumer, and delivers what it had to others, after about two of them.
const HEARTBEAT_S: u16 = 8;

/// The routing key of ordinary messages.
pub const WORK: &str = "work";
/// The routing key of messages that say whose turn it is.
pub const TURN: &str = "turn";
/// The routing key of messages that are processed alone.
pub const SOLO: &str = "solo";
/// The routing keys of outcome events begin with this word; the final state follows.
pub const EVENT_KEY: &str = "transaction";
/// The routing key of dead letters.
pub const DEAD: &str = "dead";

const ACCESS_REFUSED: u16 = 403;
const NOT_FOUND: u16 = 404;
const PRECONDITION_FAILED: u16 = 406;
const NOT_ALLOWED: u16 = 530;
const INTERNAL_ERROR: u16 = 541;

/// A failed broker operation; the connection is given up and made anew.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The broker or the network failed.
    #[error("RabbitMQ: {0}")]
    Broker(lapin::Error),
    /// The broker knows the user, the password or the virtual host otherwise, or the user lacks a
    /// right.
    #[error(
        "RabbitMQ: {0}; check user, password and virtual host in TANDEM_AMQP_URL, and the user's \
         rights"
    )]
    Refused(lapin::Error),
    /// A queue or an exchange was declared by somebody else, in another way.
    #[error(
        "RabbitMQ: `{name}` exists with other arguments ({said}); delete it when it is empty, or \
         set another TANDEM_QUEUE_PREFIX"
    )]
    Differs {
        /// The queue or exchange.
        name: String,
        /// What the broker says.
        said: lapin::Error,
    },
    /// A queue or an exchange is missing, and the user may not create it.
    #[error(
        "RabbitMQ: `{name}` is not there ({said}), and this user may not create it; run {} as a \
         user who may configure",
        Remedy::Init
    )]
    Missing {
        /// The queue or exchange.
        name: String,
        /// What the broker says.
        said: lapin::Error,
    },
    /// Settings of TLS are wrong, or the broker or its certificate is not to be trusted, or the
    /// broker does not trust ours.
    #[error("RabbitMQ over TLS: {0}")]
    Tls(String),
    /// `TANDEM_AMQP_URL` has no single meaning.
    #[error("TANDEM_AMQP_URL: {0}; write it like amqp://user:password@host:5672/%2f")]
    Url(String),
    /// Nothing came back in time: a half-open connection, or a blocked one.
    #[error("RabbitMQ: no answer within {0:?} to {1}")]
    Silent(Duration, &'static str),
    /// A message was not confirmed, or no queue took it.
    #[error("RabbitMQ: a message was not taken: {0}")]
    NotTaken(String),
}

impl QueueError {
    /// Whether only somebody's hand can put it right: waiting does not.
    #[must_use]
    pub fn lasts(&self) -> bool {
        match self {
            QueueError::Refused(_)
            | QueueError::Differs { .. }
            | QueueError::Missing { .. }
            | QueueError::Tls(_)
            | QueueError::Url(_) => true,
            QueueError::Broker(_) | QueueError::Silent(..) | QueueError::NotTaken(_) => false,
        }
    }

    /// Whether the broker says that it has failed itself, as it does of a queue that it has lost.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        matches!(self, QueueError::Broker(error) if code(error) == Some(INTERNAL_ERROR))
    }
}

impl From<lapin::Error> for QueueError {
    fn from(error: lapin::Error) -> QueueError {
        match code(&error) {
            Some(ACCESS_REFUSED | NOT_ALLOWED) => QueueError::Refused(error),
            Some(_) | None => QueueError::Broker(error),
        }
    }
}

/// The number by which the broker says what is wrong; none when the broker has not said anything.
fn code(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        ErrorKind::ProtocolError(said) => Some(said.get_id()),
        _ => None,
    }
}

/// Waits for the broker's answer, but not for ever.
///
/// # Errors
/// The broker's own, or [`QueueError::Silent`].
pub async fn answered<T, E: Into<QueueError>>(
    what: &'static str,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, QueueError> {
    match tokio::time::timeout(ANSWER_LIMIT, answer).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => Err(QueueError::Silent(ANSWER_LIMIT, what)),
    }
}

/// Opens a connection. `name` shows in the broker's management.
///
/// # Errors
/// When the broker is away, silent, or refuses the user, the URL does not parse, or one of the two
/// does not trust the other's certificate.
pub async fn connect(url: &str, name: &str) -> Result<Connection, QueueError> {
    let runtime = lapin::runtime::default_runtime().map_err(QueueError::Broker)?;
    connect_on(runtime, Address::parse(url)?, name).await
}

/// The same with a heartbeat of so many seconds at most, so that a broker notices soon when this
/// end hangs: between two and three times that.
///
/// # Errors
/// As [`connect`].
pub async fn connect_with_heartbeat(
    url: &str,
    name: &str,
    most_s: u16,
) -> Result<Connection, QueueError> {
    let runtime = lapin::runtime::default_runtime().map_err(QueueError::Broker)?;
    connect_on(runtime, with_heartbeat(url, Some(most_s))?, name).await
}

/// As [`connect`], and what is read goes through a gate. The heartbeat may have a bound.
///
/// # Errors
/// As [`connect`].
pub async fn connect_through(
    gate: &Arc<Gate>,
    url: &str,
    name: &str,
    heartbeat_s: Option<u16>,
) -> Result<Connection, QueueError> {
    let (tokio, gate) = (Tokio::current(), gate.clone());
    let reactor = GatedReactor { tokio: tokio.clone(), gate };
    let runtime = Runtime::new(RuntimeParts::new(tokio, reactor));
    connect_on(runtime, with_heartbeat(url, heartbeat_s)?, name).await
}

/// The address with a heartbeat of so many seconds at most, if there is a bound.
fn with_heartbeat(url: &str, most_s: Option<u16>) -> Result<Address, QueueError> {
    let mut address = Address::parse(url)?;
    if let Some(most_s) = most_s {
        let heartbeat = &mut address.uri.query.heartbeat;
        // Zero is none.
        let given = heartbeat.filter(|given| *given > 0);
        *heartbeat = Some(given.map_or(most_s, |given| given.min(most_s)));
    }
    Ok(address)
}

async fn connect_on<R: RuntimeKit + Clone + Send + Sync + 'static>(
    runtime: Runtime<R>,
    address: Address,
    name: &str,
) -> Result<Connection, QueueError> {
    let tls = tls::configuration(&address)?;
    let uri = address.uri;
    let (host, is_tls) = (uri.authority.host.clone(), uri.scheme == AMQPScheme::AMQPS);
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let connecting = Connection::connect_uri_with_config(uri, properties, tls, runtime);
    answered("connecting", connecting).await.map_err(|error| match &error {
        QueueError::Broker(cause) if is_tls && is_of_certificates(cause) => QueueError::Tls(
            format!("{host}: {cause}; see cacertfile, certfile and keyfile in TANDEM_AMQP_URL"),
        ),
        _ => error,
    })
}

/// Whether a handshake failed: rustls says so with this kind of error.
fn is_of_certificates(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::IOError(cause) if cause.kind() == std::io::ErrorKind::InvalidData)
}

/// Says goodbye to the broker, if it is still there. Ends all calls on the connection.
pub async fn close(connection: &Connection) {
    if let Err(error) = answered("closing", connection.close(200, "done".into())).await {
        tracing::debug!(%error, "the connection was already gone");
    }
}

/// Closes a channel, if it is still open. A channel that is only dropped closes some time later; if
/// its connection is closed before, the client gives up the connection as a broken one.
async fn close_channel(channel: &Channel) {
    if let Err(error) = answered("closing a channel", channel.close(200, "done".into())).await {
        tracing::debug!(%error, "the channel was already gone");
    }
}

/// Opens a channel. Every error of a channel closes it.
///
/// # Errors
/// When the connection is gone or silent.
pub async fn channel(connection: &Connection) -> Result<Channel, QueueError> {
    answered("opening a channel", connection.create_channel()).await
}

/// Reads a connection string; call it early, so that a typing error is no endless wait.
///
/// # Errors
/// When it has no single meaning.
pub fn parse_url(url: &str) -> Result<AMQPUri, QueueError> {
    Ok(Address::parse(url)?.uri)
}

/// The longest delay class that is not longer than the wish, so that a wait is composed of ever
/// shorter ones and ends within the shortest of the wished time.
#[must_use]
pub fn delay_class(wish: Duration) -> u32 {
    let fits = |delay: &&u32| Duration::from_millis((**delay).into()) <= wish;
    DELAYS_MS.iter().rev().find(fits).copied().unwrap_or(DELAYS_MS[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_heartbeat_is_the_operators_if_that_is_shorter() {
        for (given, wanted) in
            [("", 3), ("?heartbeat=0", 3), ("?heartbeat=2", 2), ("?heartbeat=60", 3)]
        {
            let address = with_heartbeat(&format!("amqp://127.0.0.1:5672/%2f{given}"), Some(3));
            let address = address.expect("a good address");
            assert_eq!(address.uri.query.heartbeat, Some(wanted), "{given:?}");
        }
    }

    #[test]
    fn a_refused_user_lasts_and_a_broker_that_shuts_down_passes() {
        let said = |id| {
            let error = lapin::protocol::AMQPError::from_id(id, "said".into());
            QueueError::from(lapin::Error::from(ErrorKind::ProtocolError(error.expect("known"))))
        };
        for (id, lasts) in [(403, true), (530, true), (320, false), (541, false), (405, false)] {
            assert_eq!(said(id).lasts(), lasts, "{id}");
        }
    }

    #[test]
    fn a_delay_is_never_longer_than_wished_but_for_the_shortest() {
        for (wish, expected) in [
            (0, 500),
            (499, 500),
            (500, 500),
            (1_999, 1_000),
            (14_000, 8_000),
            (9_999_999, 256_000),
        ] {
            assert_eq!(delay_class(Duration::from_millis(wish)), expected, "{wish} ms");
        }
    }
}
