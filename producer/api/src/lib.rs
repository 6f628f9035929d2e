#![doc = include_str!("../README.md")]

mod accept;
pub mod access;
pub mod accounts;
mod acting;
pub mod acts;
pub mod answer;
mod bodies;
pub mod bulk;
mod call;
mod csv;
pub mod decisions;
mod dispatch;
pub mod events;
mod export;
mod gate;
mod grant;
pub mod holds;
mod hub;
mod items;
mod keys;
mod ledger;
mod letters;
mod listeners;
mod looks;
mod metrics;
pub mod openapi;
pub mod operation;
mod origin;
mod overview;
mod page;
mod param;
mod parked;
pub mod problem;
mod rates;
pub mod received;
mod requests;
pub mod routes;
mod scope;
mod server;
pub mod session_keys;
mod settlement;
mod stream;
pub mod submissions;
pub mod tokens;
pub mod transactions;
mod user;
mod view;
mod words;
mod workers;

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use bson::DateTime;
use client::{Client, Error};
use observe::pages::{self, Pages, StatusCode};
use observe::tls::{self, Tls};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::bodies::{BodyLimits, BodyMemory, HeldBody};
use self::gate::{Gate, Taken};
use self::hub::Hub;
use self::ledger::Asked;
use self::listeners::Listeners;
use self::metrics::Metrics;
use self::overview::Viewing;
use self::rates::Strangers;

pub use self::acting::{Person, REASON};
pub use self::answer::Answer;
pub use self::dispatch::{Shown, ask, show_page};
pub use self::origin::check as check_origin;
pub use self::problem::{Code, Problem};
pub use self::rates::Peer;
pub use self::received::Received;
pub use self::server::Site;
pub use self::session_keys::SessionKeys;
pub use self::stream::Patience;
pub use self::tokens::{Caller, Scope, Tokens};
pub use self::user::UserHeader;
use ::overview::Sampler;
pub use observe::tls::TlsFiles;

/// How many pages of lists are read at the same time.
const LISTS_AT_ONCE: usize = 16;

/// How the API is served.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file of the tokens; none when everybody who reaches it may do everything.
    pub tokens: Option<PathBuf>,
    /// The file of the keys that sign-ins of the console are sealed with; none for a key that ends
    /// with this server.
    pub session_keys: Option<PathBuf>,
    /// The certificate; none to speak without TLS.
    pub tls: Option<TlsFiles>,
    /// The most requests a second of one token; an array counts as many as it has items.
    pub rate: Option<NonZeroU32>,
    /// The most requests a second without a good token from one address.
    pub rate_of_address: Option<NonZeroU32>,
    /// Proxies that are believed when they say from whom a request comes.
    pub proxies: Vec<IpAddr>,
    /// Where a proxy says who somebody in the console is, if one does.
    pub user_header: Option<UserHeader>,
    /// The most connections.
    pub connections_max: usize,
    /// The most listeners to events.
    pub listeners_max: usize,
    /// The most streams of one token, of events and of the overview.
    pub streams_of_token_max: usize,
    /// The largest body, in bytes.
    pub body_bytes_max: usize,
    /// The most transactions of one array.
    pub items_max: usize,
    /// With so many messages in the queue, submissions are refused.
    pub backlog_max: u32,
    /// How long a connection may wait for its other end.
    pub patience: Patience,
    /// How long all of a body may take to come.
    pub body_limit: Duration,
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

    fn load_session_keys(&self) -> Result<SessionKeys, String> {
        self.session_keys.as_deref().map_or_else(|| Ok(SessionKeys::random()), SessionKeys::load)
    }
}

/// The page of metrics of a server that has answered nothing yet, for the page that explains them.
#[must_use]
pub fn metrics_at_start() -> String {
    Metrics::new().page(true)
}

/// Limits that no flag sets.
pub mod limits {
    pub use super::bodies::BYTES_MAX as BODIES_BYTES_MAX;
    pub use super::export::AT_ONCE as EXPORTS_AT_ONCE;
    pub use super::hub::BYTES_MAX as EVENTS_BYTES_MAX;
    pub use super::ledger::STATS_COUNTED_MAX;
    pub use super::letters::LOOKED_AT_MAX as LETTERS_LOOKED_AT_MAX;
    pub use super::overview::VIEWERS_MAX;
    pub use super::rates::ADDRESSES_MAX;
    pub use super::received::WAIT_MAX_S;
    pub use super::requests::IDS_BYTES_MAX as KEYED_IDS_BYTES_MAX;
    pub use super::server::{DRAIN_LIMIT, HEAD_BYTES_MAX};
    pub use super::view::MARKS_MAX;
}

/// What all requests share.
pub struct Api {
    client: Client,
    settings: Settings,
    tokens: RwLock<Arc<Tokens>>,
    session_keys: RwLock<Arc<SessionKeys>>,
    tls: Option<Arc<Tls>>,
    gate: Arc<Gate>,
    hub: Arc<Hub>,
    listeners: Arc<Listeners>,
    strangers: Strangers,
    metrics: Metrics,
    asked: Asked,
    /// What was said of settlement when it was last looked at.
    seen: settlement::Seen,
    viewing: Viewing,
    bodies: BodyMemory,
    /// So many pages of lists are read at a time, because each may have megabytes.
    lists: Semaphore,
    /// So many files are exported at a time, because each holds a page for its reader.
    exports: Arc<Semaphore>,
    /// One look at the dead letters at a time: another one would not see what this one holds.
    looking: tokio::sync::Mutex<()>,
    /// Whether it is about to end.
    stop: CancellationToken,
}

impl Api {
    /// An API over a ledger.
    ///
    /// # Errors
    /// When the file of tokens, that of session keys, or one of TLS can't be read; the sentence names
    /// file and line.
    pub fn new(client: Client, settings: Settings, stop: CancellationToken) -> Result<Api, String> {
        let tokens = settings.load_tokens()?;
        let session_keys = settings.load_session_keys()?;
        let tls = settings.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
        let bodies = BodyMemory::new(settings.body_bytes_max.max(bodies::BYTES_MAX));
        Ok(Api {
            viewing: Viewing::new(Sampler::new(client.clone())),
            client,
            bodies,
            tokens: RwLock::new(Arc::new(tokens)),
            session_keys: RwLock::new(Arc::new(session_keys)),
            tls,
            gate: Arc::new(Gate::new(settings.backlog_max.into())),
            hub: Arc::new(Hub::new()),
            listeners: Arc::new(Listeners::new(settings.streams_of_token_max)),
            strangers: Strangers::new(settings.rate_of_address, &settings.proxies),
            metrics: Metrics::new(),
            asked: Asked::default(),
            seen: settlement::Seen::default(),
            lists: Semaphore::new(LISTS_AT_ONCE),
            exports: Arc::new(Semaphore::new(export::AT_ONCE)),
            looking: tokio::sync::Mutex::default(),
            settings,
            stop,
        })
    }

    /// Serves the operations, and this site for people beside them, until it is told to stop, and
    /// until what was accepted then is answered. Probes and Prometheus have a listener of their own.
    pub async fn serve(
        self: Arc<Self>,
        site: Site,
        listener: TcpListener,
        probes: Option<TcpListener>,
    ) {
        let (api, stop) = (self, CancellationToken::new());
        let beside = TaskTracker::new();
        let client = api.client.clone();
        beside.spawn(gate::watch(api.gate.clone(), client.clone(), stop.clone()));
        beside.spawn(hub::run(api.hub.clone(), client, stop.clone()));
        beside.spawn(reload(api.clone(), stop.clone()));
        if let Some(tls) = &api.tls {
            beside.spawn(tls::watch(tls.clone(), stop.clone()));
        }
        let (looking, until) = (api.clone(), stop.clone());
        beside.spawn(async move { looking.viewing.sampler.run(until).await });
        if let Some(probes) = probes {
            let probed = pages::serve(probes, None, api.clone());
            beside.spawn(stop.clone().run_until_cancelled_owned(probed));
        }
        server::serve(api.clone(), site, listener, api.stop.clone()).await;
        stop.cancel();
        beside.close();
        beside.wait().await;
    }

    /// Reads a body of at most so many bytes.
    ///
    /// # Errors
    /// When it is longer, comes too slowly, or there is no memory for it.
    pub async fn read(&self, body: Body, bytes_max: usize) -> Result<HeldBody, Problem> {
        let Settings { patience, body_limit: total, .. } = self.settings;
        self.bodies.read(body, BodyLimits { bytes: bytes_max, stall: patience.stall, total }).await
    }

    /// Counts a request that came with no good token.
    ///
    /// # Errors
    /// When its address has sent too many of them.
    pub fn count_stranger(&self, parts: &Parts) -> Result<(), Problem> {
        self.strangers.count(parts, Instant::now())
    }

    /// The same for a request that needs no token; with a good one it does not count.
    ///
    /// # Errors
    /// As [`Api::count_stranger`].
    pub fn count_if_stranger(&self, parts: &Parts) -> Result<(), Problem> {
        let authorization = parts.headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        let known = self.tokens().caller(authorization, DateTime::now()).map(|_| ());
        known.or_else(|_| self.count_stranger(parts))
    }

    /// Waits until a page of a list may be read.
    async fn room_for_a_list(&self) -> SemaphorePermit<'_> {
        self.lists.acquire().await.expect("it is never closed")
    }

    /// If the broker was not told of what is done, new submissions would wait for it.
    fn note_unpublished(&self, unpublished: Option<&Error>) {
        self.gate.published(unpublished.map(ToString::to_string), Instant::now());
    }

    /// Takes so many submissions, which don't wait for a broker that is away.
    ///
    /// # Errors
    /// While too many wait.
    fn take(&self, count: usize) -> Result<(), Problem> {
        let taken = self.gate.take(count, Instant::now())?;
        self.client.leave_publications(taken == Taken::InsertedOnly);
        Ok(())
    }

    /// The keys that sessions of the console are sealed with.
    pub fn session_keys(&self) -> Arc<SessionKeys> {
        self.session_keys.read().expect("no holder panics").clone()
    }

    /// The name of the person that a request of the console comes from, where a proxy says it.
    ///
    /// # Errors
    /// When the proxy that is believed has sent what is not one good name.
    pub fn person(&self, request: &Parts) -> Result<Option<String>, Problem> {
        self.settings.user_header.as_ref().map_or(Ok(None), |header| header.person(request))
    }

    /// Whom it knows.
    pub fn tokens(&self) -> Arc<Tokens> {
        self.tokens.read().expect("no holder panics").clone()
    }
}

/// The readiness is that of this process alone: while a server is away, all replicas are as far from
/// it, and an answer that says so helps more than none.
impl Pages for Api {
    fn ready(&self) -> (StatusCode, String) {
        match self.stop.is_cancelled() {
            true => (StatusCode::SERVICE_UNAVAILABLE, "this server is about to end\n".to_owned()),
            false => (StatusCode::OK, "ok\n".to_owned()),
        }
    }

    fn metrics(&self) -> String {
        self.metrics.page(self.gate.takes(Instant::now()))
    }
}

/// Reads the tokens, the keys of sessions and the certificate again at each SIGHUP. A file that can't
/// be read leaves what it held as it is.
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
        if let Some(tls) = &api.tls {
            tls.reload();
        }
        if api.settings.session_keys.is_none() {
            continue;
        }
        match api.settings.load_session_keys() {
            Ok(keys) => *api.session_keys.write().expect("no holder panics") = Arc::new(keys),
            Err(problem) => tracing::error!(problem, "the keys of sessions stay as they were"),
        }
    }
}
