//! Who looks: sessions of browsers.
//!
//! A browser can't send a token with a click. So the token is sent once, in a form, and the browser
//! gets a cookie with a random id. Promises that the cookie says nothing of the token, that no
//! script reads it and no other site's page sends it; that a session ends after twelve hours, with
//! the server, or with its token; and that the number of sessions is limited: the oldest goes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use api::{Answer, Api, Caller, Tokens};
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use ledger::hex::hex;
use maud::html;
use sha2::{Digest, Sha256};

use super::{Console, FORM_BYTES_MAX, go_to, html as answer_with};

/// The name of the cookie.
const COOKIE: &str = "tandem_session";
/// How long a session lives.
const LIVES: Duration = Duration::from_secs(12 * 60 * 60);
/// The most sessions.
pub const SESSIONS_MAX: usize = 1_000;

struct Session {
    caller: Arc<Caller>,
    begun: Instant,
}

/// The sessions of a server, by the digest of their ids.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<String, Session>>);

impl Sessions {
    /// Who sends these headers: by a token, as to the API, or by the cookie. Nobody else.
    pub fn caller(&self, tokens: &Tokens, headers: &HeaderMap) -> Option<Arc<Caller>> {
        let authorization = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        if let Ok(caller) = tokens.caller(authorization) {
            return Some(caller.clone());
        }
        let sessions = self.0.lock().expect("no holder panics");
        let session = sessions.get(&key(&cookie(headers)?))?;
        // The scopes are those that the token has today, and a token that is gone takes its
        // sessions with it.
        let caller = || tokens.again(&session.caller).cloned();
        (session.begun.elapsed() < LIVES).then(caller).flatten()
    }

    /// Begins a session; returns its id.
    fn begin(&self, caller: Arc<Caller>) -> String {
        // Two random UUIDs: 244 bits from the system's source.
        let id = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        let mut sessions = self.0.lock().expect("no holder panics");
        sessions.retain(|_, session| session.begun.elapsed() < LIVES);
        if sessions.len() >= SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.begun);
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.and_then(|key| sessions.remove(&key));
        }
        sessions.insert(key(&id), Session { caller, begun: Instant::now() });
        id
    }

    fn end(&self, headers: &HeaderMap) {
        if let Some(id) = cookie(headers) {
            self.0.lock().expect("no holder panics").remove(&key(&id));
        }
    }
}

/// Looked up by digest, so that the time of the look tells nothing about ids that exist.
fn key(id: &str) -> String {
    hex(&Sha256::digest(id))
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, id)| id.to_owned())
}

/// The page that asks for a token.
pub fn form(status: StatusCode, problem: Option<&str>) -> Answer {
    let content = html! {
        @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
        p { "Sign in with a token of this API. Reading needs the scope read, acting needs operate." }
        form method="post" action="/console/sign-in" {
            label for="token" { "Token" }
            input #token name="token" type="password" autocomplete="current-password" required;
            button { "Sign in" }
        }
    };
    answer_with(status, super::html::page(None, "Sign in", content))
}

/// `GET` and `POST /console/sign-in`
pub async fn sign_in(api: &Api, console: &Console, parts: Parts, body: Body) -> Answer {
    if parts.method != Method::POST {
        return form(StatusCode::OK, None);
    }
    let read = api.read(body, FORM_BYTES_MAX).await;
    let body = match read {
        Ok(body) => body,
        Err(problem) => return form(problem.code.status(), Some(&problem.detail)),
    };
    let mut fields = form_urlencoded::parse(&body.bytes);
    let token =
        fields.find(|(name, _)| name == "token").map(|(_, token)| token).unwrap_or_default();
    let authorization = format!("Bearer {}", token.trim());
    let caller = api.tokens().caller(Some(authorization.as_bytes())).cloned();
    let Ok(caller) = caller else {
        tracing::warn!(target: "operator", "somebody tried to sign in with an unknown token");
        return form(StatusCode::UNAUTHORIZED, Some("This token is not known."));
    };
    tracing::info!(target: "operator", who = caller.name, "signed in");
    let id = console.sessions.begin(caller);
    // Behind a proxy that speaks TLS, the browser says so by its origin.
    let origin = parts.headers.get(header::ORIGIN).map(HeaderValue::as_bytes).unwrap_or_default();
    let secure = if origin.starts_with(b"https://") { "; Secure" } else { "" };
    let age = LIVES.as_secs();
    with_cookie(&format!("{COOKIE}={id}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}{secure}"))
}

/// `POST /console/sign-out`
pub fn sign_out(console: &Console, headers: &HeaderMap) -> Answer {
    console.sessions.end(headers);
    with_cookie(&format!("{COOKIE}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"))
}

fn with_cookie(cookie: &str) -> Answer {
    let cookie = HeaderValue::try_from(cookie).expect("plain characters");
    go_to("/").with(header::SET_COOKIE, cookie)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::tokens::{Scope, make};

    #[test]
    fn the_oldest_session_ends_where_there_are_too_many() {
        let (token, line) = make("olivia", &[Scope::Read], [7; 32]);
        let tokens = Tokens::parse(&line, None).expect("a good file");
        let caller = tokens.caller(Some(format!("Bearer {token}").as_bytes()));
        let caller = caller.expect("it is known").clone();
        let sessions = Sessions::default();
        let lives = |id: &str| {
            let mut headers = HeaderMap::new();
            let cookie = HeaderValue::try_from(format!("{COOKIE}={id}")).expect("plain");
            headers.insert(header::COOKIE, cookie);
            sessions.caller(&tokens, &headers).is_some()
        };
        let (first, second) = (sessions.begin(caller.clone()), sessions.begin(caller.clone()));
        assert!(lives(&first) && lives(&second) && !lives("0"));
        for _ in 0..SESSIONS_MAX - 1 {
            sessions.begin(caller.clone());
        }
        assert!(!lives(&first) && lives(&second));
        assert_eq!(sessions.0.lock().expect("no holder panics").len(), SESSIONS_MAX);
    }
}
