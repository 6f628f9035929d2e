//! From a request to its response.
//!
//! Owns what happens to every request: who sends it, how many, how large, for how long, and what is
//! logged and counted of it. An operation runs in a task of its own, so that a caller that goes
//! away interrupts nothing midway.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, Uri, header};
use bson::DateTime;
use client::NewAct;
use futures_util::StreamExt;
use ledger::limits::echo;
use observe::{Context, FutureExt, Span, SpanKind, TRACEPARENT, TraceParent};

use super::access::Access;
use super::acting::{self, Person};
use super::answer::Answer;
use super::call::Call;
use super::export::Form;
use super::operation::Operation;
use super::problem::{Code, Problem};
use super::rates::{Peer, Rate};
use super::received::{Received, WAIT_MAX_S};
use super::tokens::Caller;
use super::{Api, origin};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// How many requests a token has left.
pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// How many requests a token may send.
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The longest id of a request that is taken over from its sender.
const REQUEST_ID_BYTES_MAX: usize = 100;

/// How often to look whether the token of an open stream is still good.
const LOOK_AT_TOKEN_EVERY: Duration = Duration::from_secs(5);

/// Answers a request for an operation. `id` is the name in its address.
pub async fn dispatch(
    api: Arc<Api>,
    operation: &'static Operation,
    id: String,
    request: Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let mut exchange = Exchange::begin(&parts, operation.path);
    let answer = run(&api, operation, id, parts, body, &mut exchange).await;
    exchange.end(&api, answer)
}

/// Answers a request for which there is no operation.
pub fn answer_nowhere(
    api: &Api,
    answer: Result<Answer, Problem>,
    request: Request,
) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let counted = api.count_if_stranger(&parts);
    Exchange::begin(&parts, "none").end(api, counted.and(answer))
}

/// The answer to a request for a page that is no operation, and who asked for it.
pub struct Shown {
    /// The name of the token, or nothing.
    pub caller: String,
    /// The page.
    pub answer: Answer,
}

/// Answers a request for a page of this kind, which `show` makes. It is told the id of the request,
/// for the log.
pub async fn show_page<F>(
    api: &Api,
    kind: &'static str,
    request: Request,
    show: impl FnOnce(String, Parts, Body) -> F,
) -> Response<Body>
where
    F: Future<Output = Shown>,
{
    let (parts, body) = request.into_parts();
    let mut exchange = Exchange::begin(&parts, kind);
    let shown = show(exchange.id.clone(), parts, body).await;
    exchange.caller = shown.caller;
    exchange.end(api, Ok(shown.answer))
}

/// Carries out what somebody in the console asks for, as if it had come by the operation's address.
///
/// # Errors
/// As the operation, and where the caller may not do it.
pub async fn ask(
    api: &Arc<Api>,
    (caller, person): (&Caller, &Person),
    operation: &'static Operation,
    received: Received,
) -> Result<Answer, Problem> {
    let access = operation.admit(caller)?;
    received.only(&operation.params)?;
    let act = acting::of_person(operation, &received, caller, person)?;
    let call = Call { api: api.clone(), access, rate: caller.rate(), received };
    let answer = carry_out(operation, call, act, ()).await?;
    Ok(while_good(answer, api, caller.digest()))
}

async fn run(
    api: &Arc<Api>,
    operation: &'static Operation,
    id: String,
    parts: Parts,
    body: Body,
    exchange: &mut Exchange,
) -> Result<Answer, Problem> {
    let (access, token) = admit(api, operation, &parts, exchange)?;
    // Whoever sends a body where none has a meaning, maybe without a token, takes no memory.
    let most = operation.takes.as_ref().map_or(0, |_| api.settings.body_bytes_max);
    let body = api.read(body, most).await?;
    let query = parts.uri.query().unwrap_or_default();
    let received = Received::new(id, query, parts.headers, body.bytes.clone());
    let call = Call { api: api.clone(), access, rate: exchange.rate.clone(), received };
    call.only(&operation.params)?;
    let Exchange { caller, from, id: request, .. } = &*exchange;
    let act = acting::of_request(operation, &call, caller, *from, request)?;
    let context = exchange.trace(api, operation, &call);
    let answer = carry_out(operation, call, act, body).with_context(context).await?;
    Ok(match token {
        Some(digest) => while_good(answer, api, digest),
        None => answer,
    })
}

/// The answer; if it is a stream that would go on, it ends soon after the token is none any more. A
/// file then ends with an error, because who reads it would take a part for the whole.
fn while_good(mut answer: Answer, api: &Arc<Api>, digest: [u8; 32]) -> Answer {
    const EVENTS: &str = "text/event-stream";
    let Some(content_type) = answer.headers.get(header::CONTENT_TYPE) else { return answer };
    let (is_events, is_file) = (content_type == EVENTS, Form::is_of(content_type));
    if !is_events && !is_file {
        return answer;
    }
    let api = api.clone();
    let is_good = move || api.tokens().again(&digest, DateTime::now()).is_some();
    let content = answer.body.into_data_stream();
    answer.body = match is_file {
        true => Body::from_stream(content.map(move |piece| match is_good() {
            true => piece,
            false => Err(axum::Error::new("the token is none any more")),
        })),
        false => {
            let end = async move {
                while is_good() {
                    tokio::time::sleep(LOOK_AT_TOKEN_EVERY).await;
                }
            };
            Body::from_stream(content.take_until(Box::pin(end)))
        }
    };
    answer
}

/// Carries an operation out, in a task of its own and within its time, and notes it if it is an
/// act. `keep` is dropped when it has ended, also if the caller has gone away before.
async fn carry_out(
    operation: &'static Operation,
    call: Call,
    act: Option<NewAct>,
    keep: impl Send + 'static,
) -> Result<Answer, Problem> {
    let limit = if operation.is_long { Duration::MAX } else { limit(&call.api) };
    let notes = notes(&call.api);
    let limit = if act.is_some() { limit.saturating_add(notes) } else { limit };
    let running = async move {
        let answer = acting::noted(operation, call, act).await;
        drop(keep);
        answer
    };
    let answer = in_time(limit, operation.name, running).await;
    // What was begun may have changed something.
    let answer = match operation.method == Method::POST {
        true => answer,
        false => answer.map_err(Problem::of_a_look),
    };
    if operation.names(&answer) {
        return answer;
    }
    let status = answer.map_or_else(|problem| problem.code.status(), |answer| answer.status);
    tracing::error!(%status, operation = operation.name, "an answer that its entry does not name");
    Err(Problem::new(Code::Internal, "an answer that is not documented"))
}

/// How long an operation may take: two calls of servers, one after the other, each of which may
/// give up only at its limit.
fn limit(api: &Api) -> Duration {
    2 * api.settings.give_up_after + Duration::from_secs(u64::from(WAIT_MAX_S) + 10)
}

/// How much longer an act may take: each of its two notes as long as a call of a server.
fn notes(api: &Api) -> Duration {
    2 * api.settings.give_up_after
}

/// Carries out what only reads, within the time of an operation. `name` is for the log.
pub async fn within_limit<T: Send + 'static>(
    api: &Api,
    name: &'static str,
    look: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    in_time(limit(api), name, look).await.map_err(Problem::of_a_look)
}

/// Carries out what changes something and is no operation, within the time of an act. `name` is for
/// the log.
pub async fn changing<T: Send + 'static>(
    api: &Api,
    name: &'static str,
    work: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    in_time(limit(api) + notes(api), name, work).await
}

/// Does something in a task of its own, so that a caller that goes away interrupts nothing midway,
/// and waits for it for so long.
async fn in_time<T: Send + 'static>(
    limit: Duration,
    name: &'static str,
    work: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    let running = tokio::spawn(work.with_current_context());
    match tokio::time::timeout(limit, running).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(panicked)) => {
            tracing::error!(%panicked, operation = name, "an operation broke down");
            Err(Problem::new(Code::Unknown, "the operation broke down"))
        }
        Err(_) => Err(Problem::new(Code::Unknown, "a server takes too long to answer")),
    }
}

/// Refuses whom it must, before anything of the body is read. Returns what the sender may see and
/// touch, and the digest of the token.
fn admit(
    api: &Api,
    operation: &Operation,
    parts: &Parts,
    exchange: &mut Exchange,
) -> Result<(Access, Option<[u8; 32]>), Problem> {
    let tokens = api.tokens();
    origin::check(&tokens, &parts.method, &parts.headers)?;
    if operation.scope.is_none() {
        // What strangers send through a proxy must not make its probes fail.
        if !operation.is_probe {
            api.count_if_stranger(parts)?;
        }
        return Ok((Access::full(), None));
    }
    let authorization = parts.headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let known = tokens.caller(authorization, DateTime::now());
    let caller = known.or_else(|refused| api.count_stranger(parts).and(Err(refused)))?;
    exchange.caller.clone_from(&caller.name);
    exchange.rate = caller.rate();
    caller.count(Instant::now())?;
    Ok((operation.admit(caller)?, Some(caller.digest())))
}

/// What is known of a request and goes into its response, the log and the metrics.
struct Exchange {
    id: String,
    route: &'static str,
    method: Method,
    uri: Uri,
    caller: String,
    /// The address of whoever sends it.
    from: Option<IpAddr>,
    /// The rate of who sends it, if there is a limit.
    rate: Option<Arc<Rate>>,
    headers: HeaderMap,
    begun: Instant,
    span: Option<Span>,
}

impl Exchange {
    fn begin(parts: &Parts, route: &'static str) -> Exchange {
        let given = parts.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
        let is_plain = |id: &&str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte);
            (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(plain)
        };
        let own = || uuid::Uuid::now_v7().to_string();
        Exchange {
            id: given.filter(is_plain).map_or_else(own, str::to_owned),
            route,
            method: parts.method.clone(),
            uri: parts.uri.clone(),
            caller: String::new(),
            from: Peer::of(parts),
            rate: None,
            headers: HeaderMap::new(),
            begun: Instant::now(),
            span: None,
        }
    }

    /// Begins the span of the request, if it is sampled; returns where the operation runs.
    fn trace(&mut self, api: &Api, operation: &Operation, call: &Call) -> Context {
        let tracing = &api.client.config().tracing;
        if !tracing.is_on() {
            return Context::new();
        }
        let parent = call.headers.get(TRACEPARENT).and_then(|text| text.to_str().ok());
        let parent = parent.and_then(TraceParent::parse);
        // As OpenTelemetry's conventions for HTTP name it.
        let name = format!("{} {}", self.method, operation.path);
        self.span = tracing.begin(name, SpanKind::Server, parent.as_ref());
        if let Some(span) = &self.span {
            span.set("http.request.method", self.method.to_string());
            span.set("http.route", operation.path);
        }
        tracing.context(self.span.as_ref())
    }

    fn head(&mut self, name: HeaderName, value: String) {
        // All of them are made of plain characters.
        self.headers.extend(HeaderValue::try_from(value).ok().map(|value| (name, value)));
    }

    fn end(mut self, api: &Api, answer: Result<Answer, Problem>) -> Response<Body> {
        let problem = answer.as_ref().err().map(|problem| problem.detail.clone());
        let answer = answer.unwrap_or_else(|problem| problem.answer());
        self.head(REQUEST_ID, self.id.clone());
        if let Some(rate) = self.rate.take() {
            // Of the moment of the answer: the items of an array have been counted by now.
            let (left, until_all) = rate.left(Instant::now());
            let seconds = (until_all.as_secs_f64().ceil() as u64).max(1);
            self.head(RATE_LIMIT_POLICY, format!("\"default\";q={};w=1", rate.per_second));
            self.head(RATE_LIMIT, format!("\"default\";r={left};t={seconds}"));
        }
        let took = self.begun.elapsed();
        let status = answer.status.as_u16();
        if let Some(span) = &self.span {
            span.set("http.response.status_code", i64::from(status));
            if answer.status.is_server_error() {
                span.fail(problem.clone().unwrap_or_default());
            }
        }
        api.metrics.answered(self.route, &self.method, answer.status, took);
        tracing::info!(
            target: "access",
            request = self.id,
            caller = self.caller,
            method = %self.method,
            // Without the parameters, which may be many, and cut, since anybody may send anything.
            path = &*echo(self.uri.path()),
            status,
            trace = self.span.as_ref().map(|span| span.parent().trace_id()),
            ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            problem,
        );
        let mut response = answer.into_response();
        response.headers_mut().extend(self.headers);
        response
    }
}
