//! Outcomes as server-sent events.
//!
//! An event's id is a position in the buffer of this process. Who comes back with `Last-Event-ID`
//! gets what it has missed; where the buffer does not reach back so far, or the process is another
//! one, an event `gap` says so.

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use futures_util::stream;
use ledger::event::End;
use ledger::limits::echo;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::answer::Answer;
use super::call::Call;
use super::hub::{Hub, Item, Listener, Position};
use super::problem::{Code, Problem};
use super::received::Received;

/// How long to wait for the broker before a listener is told to come again.
const OPEN_LIMIT: Duration = Duration::from_secs(10);
/// How often something is sent where nothing happens, so that no proxy cuts the connection.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// The most events of one piece.
const AT_A_TIME: usize = 100;

/// `GET /v1/events`
pub async fn follow(call: Call) -> Result<Answer, Problem> {
    let (only, last) = (only(&call)?, last(&call));
    let (hub, most) = (&call.api.hub, call.api.settings.listeners_max);
    let listening = tokio::time::timeout(OPEN_LIMIT, hub.listen(most)).await;
    let listening = listening
        .map_err(|_| Problem::new(Code::Unavailable, "RabbitMQ: no events can be heard now"))?;
    let listener = listening
        .ok_or_else(|| Problem::new(Code::RateLimited, format!("{most} listen already")))?;
    let at = last.unwrap_or_else(|| hub.now());
    let follower = Follower {
        hub: hub.clone(),
        news: hub.news(),
        at,
        only,
        stop: call.api.stop.clone(),
        _listener: listener,
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

/// Which ends the caller wants to hear of; none is all.
pub fn only(received: &Received) -> Result<Option<End>, Problem> {
    let Some(name) = received.text("state") else { return Ok(None) };
    End::parse(name).map(Some).ok_or_else(|| {
        Problem::invalid("state", format!("{:?} is neither done nor canceled", echo(name)))
    })
}

/// Where the caller has stopped listening, if it says so.
pub fn last(received: &Received) -> Option<Position> {
    let id = received.headers.get("Last-Event-ID")?;
    id.to_str().ok().map(position)
}

/// Where the text of an id says. What is no id of ours is a position that no buffer has.
fn position(id: &str) -> Position {
    let parsed = id.split_once('-').and_then(|(epoch, number)| {
        let (epoch, number): (u64, u64) = (epoch.parse().ok()?, number.parse().ok()?);
        Some(Position { epoch, next: number.checked_add(1)? })
    });
    parsed.unwrap_or(Position { epoch: 0, next: 0 })
}

struct Follower {
    hub: Arc<Hub>,
    news: watch::Receiver<u64>,
    at: Position,
    only: Option<End>,
    stop: CancellationToken,
    _listener: Listener,
}

impl Follower {
    /// What comes next, as text; the end when the server stops.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            self.news.mark_unchanged();
            let (items, next) = self.hub.after(self.at, AT_A_TIME);
            self.at = next;
            let mut text = String::new();
            for (number, item) in items.iter().filter(|(_, item)| self.wants(item)) {
                write(&mut text, self.at.epoch, *number, item);
            }
            if !text.is_empty() {
                return Some(text.into());
            }
            if !items.is_empty() {
                continue;
            }
            let news = tokio::time::timeout(ALIVE_EVERY, self.news.changed());
            if self.stop.run_until_cancelled(news).await?.is_err() {
                return Some(Bytes::from_static(b": still here\n\n"));
            }
        }
    }

    fn wants(&self, item: &Item) -> bool {
        self.only.is_none_or(|end| item.name == "gap" || item.name.ends_with(end.as_str()))
    }
}

fn write(text: &mut String, epoch: u64, number: u64, item: &Item) {
    let Item { name, data } = item;
    // JSON has no line breaks within it.
    write!(text, "id: {epoch}-{number}\nevent: {name}\ndata: {data}\n\n").expect("memory");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_as_the_position_after_it() {
        assert_eq!(position("7-41"), Position { epoch: 7, next: 42 });
        for foreign in ["", "7", "7-", "-1", "a-b", "7-18446744073709551615"] {
            assert_eq!(position(foreign), Position { epoch: 0, next: 0 }, "{foreign}");
        }
    }
}
