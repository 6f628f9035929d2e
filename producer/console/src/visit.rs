//! A visit of a page, and asking the API's own operations on behalf of the visitor.
//!
//! Promises that an operation is asked with the checks that it has by HTTP: the token's scope, its
//! known parameters, its time limit.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::{Answer, Api, Caller, Code, Peer, Person, Problem, Received, ask as ask_api, routes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use http_body_util::{BodyExt, Limited};
use maud::{Markup, html};
use mongo::Settlement;
use serde_json::Value;

use super::filter::MOMENTS;
use super::html::spaced;
use super::moment::written;
use super::session;

/// The longest answer that a page is made of.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A page does not wait longer to learn whether settlement is paused: while the database is away, it
/// says so itself.
const PAUSE_LIMIT: Duration = Duration::from_millis(500);

/// Somebody looks at a page.
pub struct Visit {
    /// What all requests share.
    pub api: Arc<Api>,
    /// Who looks.
    pub caller: Arc<Caller>,
    /// The person beside the token, with the id of the request.
    pub person: Person,
    /// The address without parameters.
    pub path: String,
    /// Whether a form that came without a session has led here, after a sign-in.
    pub is_unsent: bool,
    query: Vec<(String, String)>,
    /// The pause, as it was last looked for.
    pause: Mutex<Option<Settlement>>,
}

impl Visit {
    /// A visit of the page that the request names, of a person whose name a proxy may have said.
    pub fn new(
        api: Arc<Api>,
        caller: Arc<Caller>,
        (name, request): (Option<String>, &str),
        parts: &Parts,
    ) -> Visit {
        let query = parts.uri.query().unwrap_or_default();
        let query = form_urlencoded::parse(query.as_bytes()).into_owned().map(in_utc).collect();
        Visit {
            caller,
            person: Person {
                name,
                from: Peer::of(parts),
                request: request.to_owned(),
                reason: None,
            },
            path: parts.uri.path().to_owned(),
            is_unsent: session::is_unsent(&api.session_keys(), parts),
            api,
            query,
            pause: Mutex::default(),
        }
    }

    /// Looks whether settlement is paused, for the top of the page.
    pub async fn look_for_pause(&self) {
        let looked = tokio::time::timeout(PAUSE_LIMIT, self.api.settlement()).await;
        let said = looked.ok().flatten().filter(|said| said.paused);
        *self.pause.lock().expect("no holder panics") = said;
    }

    /// The pause, while settlement is paused, as far as is known.
    pub fn pause(&self) -> Option<Settlement> {
        self.pause.lock().expect("no holder panics").clone()
    }

    /// An amount as a person reads it; as it is written, it stands in the title.
    pub fn amount(&self, written: &str, currency: &str) -> Markup {
        let shown = self.api.amount(written, currency);
        let digits = spaced(&shown);
        html! { @if shown == written { (digits) } @else { span title=(written) { (digits) } } }
    }

    /// How the names of the accounts begin that the visitor's token is bound to, if it is.
    pub fn bound_to(&self) -> Option<String> {
        let access = self.caller.access(false);
        access.is_bound().then(|| access.accounts().join(", "))
    }

    /// A parameter. An empty one, as forms send them, is none.
    pub fn param(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(of, _)| of == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The parameters of these names that are given.
    pub fn params<'a>(&'a self, names: &[&'a str]) -> Vec<(&'a str, &'a str)> {
        names.iter().filter_map(|name| Some((*name, self.param(name)?))).collect()
    }

    /// The person, who acts for this reason.
    pub fn acting(&self, reason: &str) -> Person {
        Person { reason: Some(reason.to_owned()), ..self.person.clone() }
    }

    /// Refuses what the visitor's token is not for: the operation of this name.
    ///
    /// # Errors
    /// As the operation does.
    pub fn require(&self, operation: &str) -> Result<(), Problem> {
        routes::named(operation).admit(&self.caller).map(drop)
    }

    /// Whether the visitor's token is for the operation of this name.
    pub fn may(&self, operation: &str) -> bool {
        self.require(operation).is_ok()
    }

    /// What an operation answers.
    pub async fn ask(
        &self,
        name: &str,
        id: &str,
        query: &[(&str, &str)],
    ) -> Result<Value, Problem> {
        ask(&self.api, (&self.caller, &self.person), name, id, query).await
    }

    /// What an operation answers to a body of JSON, of somebody who acts.
    pub async fn ask_with(
        &self,
        person: &Person,
        name: &str,
        id: &str,
        body: &Value,
    ) -> Result<Value, Problem> {
        const JSON: HeaderValue = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, JSON)]);
        let body = body.to_string().into();
        let received = Received { id: id.to_owned(), headers, body, ..Received::default() };
        read(answer_to(&self.api, (&self.caller, person), name, received).await?).await
    }

    /// The answer of an operation as it is.
    pub async fn answer(
        &self,
        name: &str,
        id: &str,
        query: &[(&str, &str)],
    ) -> Result<Answer, Problem> {
        answer(&self.api, (&self.caller, &self.person), name, id, query).await
    }
}

/// What an operation answers to somebody.
pub async fn ask(
    api: &Arc<Api>,
    who: (&Caller, &Person),
    name: &str,
    id: &str,
    query: &[(&str, &str)],
) -> Result<Value, Problem> {
    read(answer(api, who, name, id, query).await?).await
}

async fn read(answer: Answer) -> Result<Value, Problem> {
    let body = Limited::new(answer.body, ANSWER_BYTES_MAX).collect().await;
    let bytes = body.map_err(|_| Problem::new(Code::Internal, "an answer is too long"))?.to_bytes();
    let broken = |_| Problem::new(Code::Internal, "an answer that can't be read");
    serde_json::from_slice(&bytes).map_err(broken)
}

async fn answer(
    api: &Arc<Api>,
    who: (&Caller, &Person),
    name: &str,
    id: &str,
    query: &[(&str, &str)],
) -> Result<Answer, Problem> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let query = query.iter().map(owned).collect();
    let received = Received { id: id.to_owned(), query, ..Received::default() };
    answer_to(api, who, name, received).await
}

async fn answer_to(
    api: &Arc<Api>,
    who: (&Caller, &Person),
    name: &str,
    received: Received,
) -> Result<Answer, Problem> {
    ask_api(api, who, routes::named(name), received).await
}

/// A parameter of an address. Moments come as people type them, if no script has written them in UTC.
fn in_utc((name, value): (String, String)) -> (String, String) {
    let value = if MOMENTS.contains(&name.as_str()) { written(&value) } else { value };
    (name, value)
}
