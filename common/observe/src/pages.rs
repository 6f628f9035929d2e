//! The pages that probes and Prometheus read, on an address of their own.
//!
//! Promises that whoever fills the address of the work (`producer serve --listen`) does not reach
//! these pages, and that whoever fills these takes few descriptors from the work: further
//! connections than [`CONNECTIONS_MAX`] wait, and each is cut off after [`CONNECTION_LIMIT`],
//! agreeing on TLS included, where there is a certificate. A connection that breaks is nobody's
//! trouble.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

pub use hyper::StatusCode;

use crate::tls::Tls;

/// The most connections to the pages.
pub const CONNECTIONS_MAX: usize = 64;

/// How long a connection to the pages may last, from its first byte to its last.
pub const CONNECTION_LIMIT: Duration = Duration::from_secs(10);

/// The largest head of a request for a page, in bytes.
pub const HEAD_BYTES_MAX: usize = 8 << 10;

/// How long to wait when the system has no more descriptors.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// As Prometheus's text format is called; every other page is plain text, too.
const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the pages say at this moment.
pub trait Pages: Send + Sync + 'static {
    /// `/readyz`: whether the program can do its work, and why not.
    fn ready(&self) -> (StatusCode, String);

    /// `/metrics`: what Prometheus reads.
    fn metrics(&self) -> String;
}

/// Listens on this address; `off` is none.
///
/// # Errors
/// When the address is taken or makes no sense.
pub async fn listen(address: &str) -> std::io::Result<Option<TcpListener>> {
    match address {
        "off" => Ok(None),
        address => TcpListener::bind(address).await.map(Some),
    }
}

/// Serves the pages until it is aborted, by TLS where there is a certificate.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    pages: Arc<impl Pages>,
) -> Infallible {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(CONNECTION_LIMIT).keep_alive(false);
    http.max_header_size(HEAD_BYTES_MAX).max_buf_size(2 * HEAD_BYTES_MAX);
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = room.clone().acquire_owned().await.expect("it is never closed");
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection can't be accepted");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                continue;
            }
        };
        let connection = converse(http.clone(), stream, tls.clone(), pages.clone());
        tokio::spawn(async move {
            // Whether it was served, broke, or took too long: it is over.
            drop(tokio::time::timeout(CONNECTION_LIMIT, connection).await);
            drop(permit);
        });
    }
}

/// Serves a connection to its end. Whoever does not agree on TLS is told nothing.
async fn converse(
    http: http1::Builder,
    stream: TcpStream,
    tls: Option<Arc<Tls>>,
    pages: Arc<impl Pages>,
) {
    match tls {
        None => requests(&http, stream, pages).await,
        Some(tls) => {
            if let Ok(stream) = tls.acceptor().accept(stream).await {
                requests(&http, stream, pages).await;
            }
        }
    }
}

/// The requests of a connection.
async fn requests(
    http: &http1::Builder,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    pages: Arc<impl Pages>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&*pages, request.method(), request.uri().path());
        async move { Ok::<_, Infallible>(answer) }
    });
    drop(http.serve_connection(TokioIo::new(stream), service).await);
}

fn answer(pages: &impl Pages, method: &Method, path: &str) -> Response<Full<Bytes>> {
    let (status, text) = match path {
        _ if ![Method::GET, Method::HEAD].contains(method) => {
            (StatusCode::METHOD_NOT_ALLOWED, "the pages are only read\n".to_owned())
        }
        "/healthz" => (StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => pages.ready(),
        "/metrics" => (StatusCode::OK, pages.metrics()),
        _ => {
            let pages = "there are /healthz, /readyz and /metrics\n";
            (StatusCode::NOT_FOUND, pages.to_owned())
        }
    };
    let answer = Response::builder().status(status).header(CONTENT_TYPE, CONTENT);
    answer.body(Full::new(text.into())).expect("status and header are valid")
}
