//! The HTTP API: `producer serve`.
//!
//! - `routes`: the operations, as a list. Router, OpenAPI document and page are made of it.
//! - `operation`, `problem`, `view`: what an entry of the list says; what can be wrong; the schemas.
//! - `received`, `items`: what came, and reading it.
//! - `dispatch`, `origin`, `tokens`, `room`, `server`, `stream`: what happens to every request before and after its
//!   operation.
//! - `keys`, `requests`: what an idempotency key stands for; an array under a key that is known.
//! - `submissions`, `bulk`, `transactions`, `holds`, `accounts`, `events`, `overview`, `ledger`, `letters`, `parked`:
//!   the operations.
//! - `gate`, `hub`: whether submissions are taken; the events of the last while.
//! - `openapi`, `page`: the documents. `console`: the pages for operators, over the same operations.
//!
//! Everything that is written goes through [`Client`], so the API promises what the library promises:
//! an id lives for ever, and whatever was answered with 200, 201 or 202 is durable.

mod accounts;
mod answer;
mod bulk;
mod call;
mod console;
mod dispatch;
mod events;
mod gate;
mod holds;
mod hub;
mod items;
mod keys;
mod ledger;
mod letters;
mod metrics;
mod openapi;
mod operation;
mod origin;
mod overview;
mod page;
mod parked;
mod problem;
mod received;
mod requests;
mod room;
mod routes;
mod server;
mod stream;
mod submissions;
pub mod tokens;
mod transactions;
mod view;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::console::Console;
use self::gate::Gate;
use self::hub::Hub;
use self::ledger::Asked;
use self::metrics::Metrics;
use self::overview::Viewing;
use self::room::Room;
use self::tokens::Tokens;
use crate::client::Client;
use crate::error::Error;
use crate::overview::Sampler;

/// How the API is served.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file of the tokens; none when everybody who reaches it may do everything.
    pub tokens: Option<PathBuf>,
    /// The most requests a second of one token.
    pub rate: Option<NonZeroU32>,
    /// The most connections.
    pub connections_max: usize,
    /// The most listeners to events.
    pub listeners_max: usize,
    /// The largest body, in bytes.
    pub body_bytes_max: usize,
    /// The most transactions of one array.
    pub items_max: usize,
    /// With so many messages in the queue, submissions are refused.
    pub backlog_max: u32,
    /// How long headers, or a body, may take to come, nothing of an answer may be read, and a
    /// connection may be idle.
    pub read_limit: Duration,
    /// How long a server may be away before a request fails.
    pub give_up_after: Duration,
}

impl Settings {
    fn load_tokens(&self) -> Result<Tokens, String> {
        match &self.tokens {
            Some(path) => Tokens::load(path, self.rate),
            None => Ok(Tokens::everybody(self.rate)),
        }
    }
}

/// The page of metrics of a server that has answered nothing yet, for the page that explains them.
#[must_use]
pub fn metrics_at_start() -> String {
    Metrics::new().page(true)
}

/// Limits that no flag sets.
pub mod limits {
    pub use super::console::{
        LETTERS_MAX as BULK_LETTERS_MAX, PARKED_MAX as BULK_PARKED_MAX, SESSIONS_MAX,
    };
    pub use super::hub::BYTES_MAX as EVENTS_BYTES_MAX;
    pub use super::overview::VIEWERS_MAX;
    pub use super::received::WAIT_MAX_S;
    pub use super::requests::IDS_BYTES_MAX as KEYED_IDS_BYTES_MAX;
    pub use super::room::BYTES_MAX as BODIES_BYTES_MAX;
    pub use super::server::HEAD_BYTES_MAX;
    pub use super::view::MARKS_MAX;
}

/// How requests are read, without a server: what the tests of odd requests look at.
pub mod reading {
    pub use axum::http::{HeaderMap, HeaderName, HeaderValue};

    pub use super::accounts::{account, period};
    pub use super::bulk::many;
    pub use super::events::{last, only};
    pub use super::holds::capture;
    pub use super::problem::{Code, Problem};
    pub use super::received::Received;
    pub use super::submissions::one;
    pub use super::transactions::filter;

    /// What is submitted, if every rule holds.
    pub fn order(submission: crate::Submission) -> Result<crate::submission::Order, crate::Error> {
        submission.into_order()
    }

    /// Refuses parameters that the operation of this name does not have.
    pub fn check_parameters(operation: &str, received: &Received) -> Result<(), Problem> {
        let mut all = super::routes::all();
        let found = all.find(|found| found.name == operation);
        received.only(&found.expect("an operation of the API").params)
    }
}

/// What all requests share.
pub struct Api {
    client: Client,
    settings: Settings,
    tokens: RwLock<Arc<Tokens>>,
    gate: Arc<Gate>,
    hub: Arc<Hub>,
    metrics: Metrics,
    asked: Asked,
    console: Console,
    viewing: Viewing,
    room: Room,
    /// One look at the dead letters at a time: another one would not see what this one holds.
    looking: tokio::sync::Mutex<()>,
    /// Whether it is about to end.
    stop: CancellationToken,
}

impl Api {
    /// An API over a ledger.
    ///
    /// # Errors
    /// When the file of tokens can't be read; the sentence names file and line.
    pub fn new(client: Client, settings: Settings, stop: CancellationToken) -> Result<Api, String> {
        let tokens = settings.load_tokens()?;
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        // Lives of the subscription are counted in steps of one from here on.
        let epoch = since_1970.unwrap_or_default().as_nanos() as u64;
        let room = Room::new(settings.body_bytes_max.max(room::BYTES_MAX));
        Ok(Api {
            viewing: Viewing::new(Sampler::new(client.clone())),
            client,
            room,
            settings,
            tokens: RwLock::new(Arc::new(tokens)),
            gate: Arc::default(),
            hub: Arc::new(Hub::new(epoch)),
            metrics: Metrics::new(),
            asked: Asked::default(),
            console: Console::default(),
            looking: tokio::sync::Mutex::default(),
            stop,
        })
    }

    /// Serves until it is told to stop, and until what was accepted then is answered.
    pub async fn serve(self, listener: TcpListener) {
        let (api, stop) = (Arc::new(self), CancellationToken::new());
        let beside = TaskTracker::new();
        let (client, most) = (api.client.clone(), api.settings.backlog_max);
        beside.spawn(gate::watch(api.gate.clone(), client.clone(), most, stop.clone()));
        beside.spawn(hub::run(api.hub.clone(), client, stop.clone()));
        beside.spawn(reload(api.clone(), stop.clone()));
        let (looking, until) = (api.clone(), stop.clone());
        beside.spawn(async move { looking.viewing.sampler.run(until).await });
        server::serve(api.clone(), listener, api.stop.clone()).await;
        stop.cancel();
        beside.close();
        beside.wait().await;
    }

    /// If the broker was not told of what is done, new submissions would wait for it.
    fn note_unpublished(&self, unpublished: Option<&Error>) {
        if let Some(error) = unpublished {
            self.gate.close(error.to_string());
        }
    }

    fn tokens(&self) -> Arc<Tokens> {
        self.tokens.read().expect("no holder panics").clone()
    }
}

/// Reads the tokens again at each SIGHUP. A file that can't be read leaves them as they are.
async fn reload(api: Arc<Api>, stop: CancellationToken) {
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => return tracing::error!(%error, "tokens can't be read again"),
    };
    while stop.run_until_cancelled(hangups.recv()).await.is_some() {
        match api.settings.load_tokens() {
            Ok(tokens) => {
                *api.tokens.write().expect("no holder panics") = Arc::new(tokens);
                tracing::info!("the tokens were read again");
            }
            Err(problem) => tracing::error!(problem, "the tokens stay as they were"),
        }
    }
}
