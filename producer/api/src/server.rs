//! Connections: how many, how long they may be idle, and how they end.
//!
//! Promises that a client that is slow to send its headers, reads nothing of its answers, or keeps
//! an idle connection, is cut off after a while, each with a limit of its own (`stream`); that no
//! more connections are open than allowed; and that a stop answers what was accepted before it ends.
//! Where there is a certificate, agreeing on TLS is a part of the connection: it has a limit of time,
//! and nobody else waits for it.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderValue, Response, header};
use axum::routing::{MethodFilter, MethodRouter};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::accept::prefers_html;
use super::answer::Answer;
use super::dispatch::{answer_nowhere, dispatch};
use super::operation::Operation;
use super::problem::{Code, Problem};
use super::rates::Peer;
use super::received::WAIT_MAX_S;
use super::stream::{Patience, Stream, Turns};
use super::{Api, routes};

/// The largest head of a request, in bytes: its first line and all headers.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// The most bytes that a connection reads ahead, or keeps to be written.
const BUFFER_BYTES_MAX: usize = 128 << 10;
/// How long a stop waits for what was accepted: longer than a request may wait for its outcome.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(WAIT_MAX_S as u64 + 10);
/// How long to wait when the system has no more descriptors.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// What is for people, beside the operations.
pub struct Site {
    /// Its pages.
    pub pages: Router<Arc<Api>>,
    /// The page that says what is wrong with an address or its method.
    pub missing: fn(&Problem) -> Answer,
}

/// Accepts and serves connections until `stop`.
pub async fn serve(api: Arc<Api>, site: Site, listener: TcpListener, stop: CancellationToken) {
    let router = router(api.clone(), site);
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(api.settings.connections_max));
    loop {
        let accepting = async {
            let permit = room.clone().acquire_owned().await.expect("it is never closed");
            (listener.accept().await, permit)
        };
        let Some((accepted, permit)) = stop.run_until_cancelled(accepting).await else { break };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection can't be accepted");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                continue;
            }
        };
        // Answers are small: waiting for more to send with them would only delay them.
        drop(stream.set_nodelay(true));
        let (api, router, watcher) = (api.clone(), router.clone(), graceful.watcher());
        tokio::spawn(async move {
            api.metrics.connections.inc();
            if let Err(error) = converse(&api, stream, Peer(peer.ip()), router, watcher).await {
                tracing::debug!(error, "a connection broke");
            }
            api.metrics.connections.dec();
            drop(permit);
        });
    }
    // Nobody new gets in; who is in gets an answer.
    drop(listener);
    if timeout(DRAIN_LIMIT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests were not answered within {DRAIN_LIMIT:?}");
    }
}

/// Serves a connection to its end, by TLS where there is a certificate.
async fn converse(
    api: &Api,
    stream: TcpStream,
    peer: Peer,
    router: Router,
    watcher: Watcher,
) -> Result<(), String> {
    let patience = api.settings.patience;
    let Some(tls) = &api.tls else {
        let served = watcher.watch(connection(stream, peer, router, patience)).await;
        return served.map_err(|error| error.to_string());
    };
    // As long as the head of a request, because nothing is known of whoever connects.
    let agreed = timeout(patience.head, tls.acceptor().accept(stream)).await;
    let stream = agreed.map_err(|_| "TLS was not agreed on in time".to_owned())?;
    let stream = stream.map_err(|error| format!("TLS: {error}"))?;
    let served = watcher.watch(connection(stream, peer, router, patience)).await;
    served.map_err(|error| error.to_string())
}

/// The requests of a connection.
fn connection<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    peer: Peer,
    router: Router,
    patience: Patience,
) -> impl GracefulConnection<Error = hyper::Error> {
    let mut http = http1::Builder::new();
    // The stream has limits of its own, which end sooner. With this one, hyper looks for the next
    // request as soon as an answer is sent, and so the stream hears of it.
    http.timer(TokioTimer::new()).header_read_timeout(patience.idle + patience.head);
    http.max_header_size(HEAD_BYTES_MAX).max_buf_size(BUFFER_BYTES_MAX);
    let (router, turns) = (TowerToHyperService::new(router), Turns::default());
    let stream = Stream::new(TokioIo::new(stream), patience, turns.clone());
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let (answering, answer) = (turns.answer(), router.call(request));
        async move { answer.await.map(|response| response.map(|body| answering.through(body))) }
    });
    http.serve_connection(stream, service)
}

fn router(api: Arc<Api>, Site { pages, missing }: Site) -> Router {
    let no_route = async move |State(api): State<Arc<Api>>, request: Request| {
        let problem = Problem::new(Code::NotFound, "there is no such address; see /v1");
        astray(&api, missing, problem, request)
    };
    let no_method = async move |State(api): State<Arc<Api>>, request: Request| {
        let problem = "there is no such method here; see the header Allow";
        astray(&api, missing, Problem::new(Code::MethodNotAllowed, problem), request)
    };
    let mut router = Router::new();
    for operation in routes::all() {
        router = router.route(operation.path, method_router(operation));
    }
    router.merge(pages).fallback(no_route).method_not_allowed_fallback(no_method).with_state(api)
}

/// Answers what leads nowhere: a person has mistyped an address, or a program, which reads JSON.
fn astray(
    api: &Api,
    missing: fn(&Problem) -> Answer,
    problem: Problem,
    request: Request,
) -> Response<Body> {
    let accept = request.headers().get(header::ACCEPT).map(HeaderValue::as_bytes);
    let answer = if prefers_html(accept) { Ok(missing(&problem)) } else { Err(problem) };
    answer_nowhere(api, answer, request)
}

/// Answers requests for an operation.
fn method_router(operation: &'static Operation) -> MethodRouter<Arc<Api>> {
    let filter = MethodFilter::try_from(operation.method.clone()).expect("one of the common ones");
    let run = async move |State(api): State<Arc<Api>>, params: RawPathParams, request: Request| {
        let name = params.iter().next().map(|(_, value)| value);
        dispatch(api, operation, name.unwrap_or_default().to_owned(), request).await
    };
    MethodRouter::new().on(filter, run)
}
