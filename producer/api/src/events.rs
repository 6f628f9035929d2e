//! What ended, as a list in the order of its numbers and as server-sent events.
//!
//! Both have the same cursor, the number of an end: on any server of the API, for as long as the
//! ledger is there. Promises that who follows the numbers misses nothing, and that whoever is bound to
//! accounts is told only of the transactions that it may read. Of others it learns that there are
//! numbers that it is not told. A follower that is told nothing gets its position now and then, so
//! that it does not begin far back when it comes again.

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use client::{EndFilter, EndPage, Error, NumberedEnd};
use futures_util::stream;
use ledger::event::End;
use ledger::limits::echo;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::Api;
use super::answer::Answer;
use super::call::Call;
use super::hub::{Following, Item};
use super::listeners::Listening;
use super::param::named;
use super::problem::{Code, Problem};
use super::received::Received;
use super::submissions::applied;
use super::view::Outcome;

/// How the parameters begin that filter by a field of the metadata.
pub const METADATA: &str = "metadata";
/// How long to wait for the database before a follower is told to come again.
const OPEN_LIMIT: Duration = Duration::from_secs(10);
/// How often something is sent where nothing happens, so that no proxy cuts the connection.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// The most events of one piece.
const AT_A_TIME: u32 = 100;

/// A page of what ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct Events {
    /// What ended, in the order of the numbers.
    items: Vec<NumberedEvent>,
    /// The `after` of the next page: the number of the last end that was looked at.
    next: u64,
    /// Whether nothing had ended after `next` when the page was read.
    last: bool,
}

/// What ended, with its number.
#[derive(Debug, Serialize, ToSchema)]
pub struct NumberedEvent {
    /// From 1 on, without a gap. It never changes.
    number: u64,
    /// When it ended.
    #[schema(value_type = String, format = DateTime)]
    at: String,
    /// What the event says: `common/schemas/outcome.json`.
    #[schema(value_type = Outcome)]
    event: Value,
}

impl NumberedEvent {
    fn of(NumberedEnd { number, at, ended }: NumberedEnd) -> NumberedEvent {
        NumberedEvent { number, at: ledger::json::timestamp(at), event: ended.event }
    }
}

/// `GET /v1/events`
pub async fn list(call: Call) -> Result<Answer, Problem> {
    let (filter, limit, wait) = (readable(&call)?, call.limit()?, call.wait()?);
    let after = match after(&call)? {
        From::Number(number) => number,
        From::Last => call.api.client.last_end().await?,
    };
    let (api, submitter) = (call.api.clone(), call.access.submitter().cloned());
    let reading = Reading { api, submitter, filter, limit };
    let page = reading.after(after).await;
    let mut page = page.map_err(|error| Problem::from(error).of_parameters())?;
    let until = wait.map(|wait| Instant::now() + wait.limit);
    if let Some(until) = until.filter(|_| page.items.is_empty()) {
        // Who hears of nothing for so long gets the empty page.
        let waiting = reading.wait_for_more(&mut page);
        timeout_at(until, waiting).await.unwrap_or(Ok(()))?;
    }
    let EndPage { items, next, is_last } = page;
    let items = items.into_iter().map(NumberedEvent::of).collect();
    let answer = Answer::json(StatusCode::OK, &Events { items, next, last: is_last });
    Ok(applied(answer, wait))
}

/// What a list is read with.
struct Reading {
    api: Arc<Api>,
    submitter: Option<Arc<str>>,
    filter: EndFilter,
    limit: u32,
}

impl Reading {
    async fn after(&self, after: u64) -> Result<EndPage, Error> {
        self.api.client.ended_after(after, self.limit, &self.filter).await
    }

    /// Reads on until something passes, or the server stops.
    async fn wait_for_more(&self, page: &mut EndPage) -> Result<(), Problem> {
        let Api { hub, stop, .. } = &*self.api;
        let _following = follow_hub(&self.api, self.submitter.as_ref()).await?;
        let mut news = hub.news();
        while page.items.is_empty() && !stop.is_cancelled() {
            news.mark_unchanged();
            *page = self.after(page.next).await?;
            if page.items.is_empty() && page.is_last {
                // Never an error: the sender is in the hub.
                let _ = stop.run_until_cancelled(news.changed()).await;
            }
        }
        Ok(())
    }
}

/// `GET /v1/events/stream`
pub async fn follow(call: Call) -> Result<Answer, Problem> {
    let filter = readable(&call)?;
    let client = &call.api.client;
    let last = match last(&call)? {
        None => client.last_end().await?,
        Some(last) => {
            let known = client.ended_after(last, 1, &EndFilter::default()).await;
            known.map(|_| last).map_err(|error| match error {
                Error::Invalid { problem, .. } => Problem::invalid(LAST_EVENT_ID, problem),
                other => other.into(),
            })?
        }
    };
    let following = follow_hub(&call.api, call.access.submitter()).await?;
    let follower = Follower {
        at: last,
        news: call.api.hub.news(),
        stop: call.api.stop.clone(),
        api: call.api.clone(),
        filter,
        silent_since: Instant::now(),
        _following: following,
    };
    let begin = Bytes::from_static(b": listening\nretry: 2000\n\n");
    let pieces = stream::unfold((follower, Some(begin)), |(mut follower, first)| async {
        let piece = match first {
            Some(first) => first,
            None => follower.next().await?,
        };
        Some((Ok::<_, Infallible>(piece), (follower, None)))
    });
    const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
    const NEVER: HeaderValue = HeaderValue::from_static("no-store");
    let answer = Answer::new(StatusCode::OK, EVENTS, Body::from_stream(pieces));
    Ok(answer.with(header::CACHE_CONTROL, NEVER))
}

/// Lets a caller follow, who has a limit of its own beside that of all.
async fn follow_hub(
    api: &Arc<Api>,
    caller: Option<&Arc<str>>,
) -> Result<(Following, Listening), Problem> {
    let listening = api.listeners.enter(caller)?;
    let most = api.settings.listeners_max;
    let following = timeout(OPEN_LIMIT, api.hub.follow(most)).await;
    let following = following
        .map_err(|_| Problem::new(Code::Unavailable, "MongoDB: no events can be read now"))?;
    let full = || Problem::new(Code::RateLimited, format!("{most} follow already"));
    Ok((following.ok_or_else(full)?, listening))
}

/// Which ends the caller wants to hear of, of those that it may read.
fn readable(call: &Call) -> Result<EndFilter, Problem> {
    Ok(EndFilter { prefixes: call.access.accounts().to_vec(), ..filter(call)? })
}

/// Which ends the caller wants to hear of.
pub fn filter(received: &Received) -> Result<EndFilter, Problem> {
    let metadata = received
        .query
        .iter()
        .filter_map(|(name, value)| Some((named(METADATA, name)?.to_owned(), value.clone())));
    Ok(EndFilter {
        end: end(received)?,
        account: received.named("account")?.map(Into::into),
        currency: received.named("currency")?,
        metadata: metadata.collect(),
        prefixes: Vec::new(),
    })
}

fn end(received: &Received) -> Result<Option<End>, Problem> {
    let Some(name) = received.text("state") else { return Ok(None) };
    End::parse(name).map(Some).ok_or_else(|| {
        Problem::invalid("state", format!("{:?} is neither done nor canceled", echo(name)))
    })
}

/// Where a list begins.
pub enum From {
    /// After this number.
    Number(u64),
    /// After all that has ended.
    Last,
}

/// After which end the caller wants to read on; at the first one if it does not say.
pub fn after(received: &Received) -> Result<From, Problem> {
    match received.text("after") {
        None => Ok(From::Number(0)),
        Some("last") => Ok(From::Last),
        Some(text) => text.parse().map(From::Number).map_err(|_| {
            let problem = format!("{:?} is neither the number of an end nor \"last\"", echo(text));
            Problem::invalid("after", problem)
        }),
    }
}

const LAST_EVENT_ID: &str = "Last-Event-ID";

/// The number of the last event that the caller has received, if it says so.
pub fn last(received: &Received) -> Result<Option<u64>, Problem> {
    let Some(id) = received.headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let number = id.to_str().ok().and_then(|id| id.trim().parse().ok());
    let problem = "is not the id of an event of this API; leave it out to begin with what comes";
    number.map(Some).ok_or_else(|| Problem::invalid(LAST_EVENT_ID, problem))
}

struct Follower {
    api: Arc<Api>,
    news: watch::Receiver<u64>,
    at: u64,
    filter: EndFilter,
    stop: CancellationToken,
    /// When something was sent last.
    silent_since: Instant,
    _following: (Following, Listening),
}

impl Follower {
    /// What comes next, as text; the end when the server stops, or what is asked for is not there.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            self.news.mark_unchanged();
            let mut text = String::new();
            let more = match self.api.hub.after(self.at, AT_A_TIME as usize) {
                Some(items) => self.take(&items, &mut text),
                None => self.read(&mut text).await?,
            };
            if !text.is_empty() {
                self.silent_since = Instant::now();
                return Some(text.into());
            }
            let alive_at = self.silent_since + ALIVE_EVERY;
            let is_silent = match more {
                true => Instant::now() >= alive_at,
                false => {
                    let news = timeout_at(alive_at, self.news.changed());
                    self.stop.run_until_cancelled(news).await?.is_err()
                }
            };
            if is_silent {
                self.silent_since = Instant::now();
                return Some(still_here(self.at).into());
            }
        }
    }

    /// Writes what the buffer has; whether it had anything.
    fn take(&mut self, items: &[Arc<Item>], text: &mut String) -> bool {
        items.iter().filter(|item| self.wants(item)).for_each(|item| write(text, item));
        self.at = items.last().map_or(self.at, |item| item.number);
        !items.is_empty()
    }

    /// Writes what the database has; whether there is more. None where it can't be read.
    async fn read(&mut self, text: &mut String) -> Option<bool> {
        let reading = self.api.client.ended_after(self.at, AT_A_TIME, &self.filter);
        match self.stop.run_until_cancelled(reading).await? {
            Ok(page) => {
                page.items.iter().for_each(|ended| write(text, &Item::of(ended)));
                self.at = page.next;
                Some(!page.is_last)
            }
            // The caller comes again with the id of the last event that it has.
            Err(error) => {
                tracing::warn!(%error, "a stream of events is ended");
                None
            }
        }
    }

    fn wants(&self, item: &Item) -> bool {
        let end = self.filter.end;
        let needs_content = self.filter != EndFilter { end, ..EndFilter::default() };
        match needs_content {
            true => serde_json::from_str(&item.data).is_ok_and(|event| self.filter.passes(&event)),
            false => end.is_none_or(|end| item.name.ends_with(end.as_str())),
        }
    }
}

/// Says that nothing was told for a while, and up to which number. By the rules of server-sent events,
/// an id without data is no event, and yet what a client sends as `Last-Event-ID` when it comes again.
fn still_here(at: u64) -> String {
    format!(": still here\nid: {at}\n\n")
}

fn write(text: &mut String, Item { number, name, data }: &Item) {
    // JSON has no line breaks within it.
    write!(text, "id: {number}\nevent: {name}\ndata: {data}\n\n").expect("memory");
}
