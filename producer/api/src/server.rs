//! Connections: how many, how long they may be idle, and how they end.
//!
//! Promises that a client that is slow to send its headers, reads nothing of its answers, or keeps
//! an idle connection, is cut off after a while; that no more connections are open than allowed;
//! and that a stop answers what was accepted before it ends.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderValue, header};
use axum::routing::{MethodFilter, MethodRouter};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::acting::Peer;
use super::answer::Answer;
use super::dispatch::{answer_nowhere, dispatch};
use super::operation::Operation;
use super::problem::{Code, Problem};
use super::received::WAIT_MAX_S;
use super::stream::Stream;
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
    /// The page that says what is wrong with an address.
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
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(api.settings.read_limit);
        http.max_header_size(HEAD_BYTES_MAX).max_buf_size(BUFFER_BYTES_MAX);
        let routed = TowerToHyperService::new(router.clone());
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            routed.call(request)
        });
        let stream = Stream::new(TokioIo::new(stream), api.settings.read_limit);
        let connection = graceful.watch(http.serve_connection(stream, service));
        let metrics = api.metrics.clone();
        tokio::spawn(async move {
            metrics.connections.inc();
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection broke");
            }
            metrics.connections.dec();
            drop(permit);
        });
    }
    // Nobody new gets in; who is in gets an answer.
    drop(listener);
    if tokio::time::timeout(DRAIN_LIMIT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests were not answered within {DRAIN_LIMIT:?}");
    }
}

fn router(api: Arc<Api>, Site { pages, missing }: Site) -> Router {
    let no_route = async move |State(api): State<Arc<Api>>, request: Request| {
        let problem = Problem::new(Code::NotFound, "there is no such address; see /v1");
        // A person has mistyped it, or a program, which reads JSON.
        let accepts = request.headers().get(header::ACCEPT).map(HeaderValue::as_bytes);
        let is_person = accepts.is_some_and(|it| it.windows(9).any(|part| part == b"text/html"));
        let answer = if is_person { Ok(missing(&problem)) } else { Err(problem) };
        answer_nowhere(&api, answer, request)
    };
    let no_method = async |State(api): State<Arc<Api>>, request: Request| {
        let problem = "there is no such method here; see the header Allow";
        answer_nowhere(&api, Err(Problem::new(Code::MethodNotAllowed, problem)), request)
    };
    let mut router = Router::new();
    for operation in routes::all() {
        router = router.route(operation.path, method_router(operation));
    }
    router.merge(pages).fallback(no_route).method_not_allowed_fallback(no_method).with_state(api)
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
