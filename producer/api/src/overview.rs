//! The overview: once, or as server-sent events.
//!
//! All viewers are told what one sampler has seen, so ten of them cost the servers as much as one.
//! A viewer that reads slowly skips to the newest, and still gets every point of the charts that is
//! kept. Promises that the number of streams is limited, and that an answer comes also while
//! database or broker is away.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use futures_util::stream;
use overview::types::Overview;
use overview::{Answers, EVERY, Sampler};
use tokio::sync::watch;

use super::Api;
use super::answer::Answer;
use super::call::Call;
use super::listeners::Listening;
use super::problem::{Code, Problem};

/// The most streams of one server: as many people look at once at most.
pub const VIEWERS_MAX: usize = 100;

/// What is told again when there was no look for so long, with the ages of that moment. It also
/// keeps proxies from cutting the connection.
const AGAIN_AFTER: Duration = Duration::from_secs(2 * EVERY.as_secs());

const NEVER: HeaderValue = HeaderValue::from_static("no-store");

/// The sampler, and how many streams it feeds.
pub struct Viewing {
    /// Looks for all of them.
    pub sampler: Sampler,
    streams: AtomicUsize,
}

impl Viewing {
    /// Nobody looks yet.
    pub fn new(sampler: Sampler) -> Viewing {
        Viewing { sampler, streams: AtomicUsize::new(0) }
    }
}

/// `GET /v1/overview`
pub async fn show(call: Call) -> Result<Answer, Problem> {
    let (overview, _) = call.api.viewing.sampler.overview().await;
    Ok(Answer::json(StatusCode::OK, &overview).with(header::CACHE_CONTROL, NEVER))
}

/// `GET /v1/overview/stream`
pub async fn follow(call: Call) -> Result<Answer, Problem> {
    let viewer = Viewer::enter(call.api.clone(), call.access.submitter())?;
    let pieces = stream::unfold(viewer, |mut viewer| async {
        Some((Ok::<_, Infallible>(viewer.next().await?), viewer))
    });
    const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
    let answer = Answer::new(StatusCode::OK, EVENTS, Body::from_stream(pieces));
    Ok(answer.with(header::CACHE_CONTROL, NEVER))
}

/// Somebody who watches; dropped when the connection ends.
struct Viewer {
    api: Arc<Api>,
    answers: watch::Receiver<Answers>,
    /// The number of the next point; none before the first event.
    next: Option<u64>,
    _listening: Listening,
}

impl Viewer {
    fn enter(api: Arc<Api>, caller: Option<&Arc<str>>) -> Result<Viewer, Problem> {
        let listening = api.listeners.enter(caller)?;
        let one_more = |count: usize| (count < VIEWERS_MAX).then_some(count + 1);
        let entered =
            api.viewing.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        let full = |_| Problem::new(Code::RateLimited, format!("{VIEWERS_MAX} watch already"));
        entered.map_err(full)?;
        let answers = api.viewing.sampler.answers();
        Ok(Viewer { api, answers, next: None, _listening: listening })
    }

    /// What comes next, as text; the end when the server stops.
    async fn next(&mut self) -> Option<Bytes> {
        let stop = self.api.stop.clone();
        stop.run_until_cancelled(self.event()).await
    }

    async fn event(&mut self) -> Bytes {
        let sampler = &self.api.viewing.sampler;
        let (name, (overview, next)) = match self.next {
            None => ("overview", sampler.overview().await),
            Some(from) => {
                let seen = self.answers.borrow_and_update().looks;
                let another = self.answers.wait_for(|answers| answers.looks != seen);
                drop(tokio::time::timeout(AGAIN_AFTER, another).await);
                ("sample", sampler.overview_from(from))
            }
        };
        self.next = Some(next);
        event(name, &overview)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.api.viewing.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// JSON has no line breaks within it.
fn event(name: &str, overview: &Overview) -> Bytes {
    let data = serde_json::to_string(overview).expect("keys are texts, and numbers are finite");
    format!("event: {name}\ndata: {data}\n\n").into()
}
