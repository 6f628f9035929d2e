//! Who looks: sessions of browsers.
//!
//! A browser can't send a token with a click. So the token is sent once, in a form, and the browser
//! gets a cookie that names the token by its digest, and the moment. It is sealed: nobody else can
//! read it or make one, and all servers that have the same keys open it. Promises that no script
//! reads it and no other site's page sends it; that a session ends after twelve hours, when its
//! token expires or is gone, or with the key; and that no server keeps anything. Signing out makes
//! the browser forget the cookie: who has copied it before has the session until then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{Answer, Api, Caller, Problem, SessionKeys, Tokens};
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::IntoResponse;
use axum_extra::extract::cookie::{Cookie, Key, PrivateCookieJar, SameSite};
use bson::DateTime;
use ledger::hex::{from_hex, hex};
use maud::html;

use super::{FORM_BYTES_MAX, SIGN_IN, go_to, html as answer_with, wait_before_again};

/// The name of the cookie.
const COOKIE: &str = "tandem_session";
/// How long a session lives.
const LIVES: Duration = Duration::from_secs(12 * 60 * 60);

/// What a cookie says when it is open: which token has signed in, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Session {
    token: [u8; 32],
    begun: DateTime,
}

impl Session {
    fn write(self) -> String {
        format!("{}.{}", hex(&self.token), self.begun.timestamp_millis())
    }

    fn read(text: &str) -> Option<Session> {
        let (token, begun) = text.split_once('.')?;
        Some(Session { token: from_hex(token)?, begun: DateTime::from_millis(begun.parse().ok()?) })
    }

    /// The session whose cookie is among these headers, if one of the keys opens it and it is not over.
    fn of(headers: &HeaderMap, keys: &SessionKeys, now: DateTime) -> Option<Session> {
        let opened = keys
            .all()
            .iter()
            .find_map(|key| PrivateCookieJar::from_headers(headers, Key::from(key)).get(COOKIE));
        let session = Session::read(opened?.value())?;
        let age = now.timestamp_millis().checked_sub(session.begun.timestamp_millis())?;
        (age < LIVES.as_millis() as i64).then_some(session)
    }
}

/// Who sends these headers: by a token, as to the API, or by the cookie. Nobody else.
pub fn caller(
    tokens: &Tokens,
    keys: &SessionKeys,
    headers: &HeaderMap,
    now: DateTime,
) -> Option<Arc<Caller>> {
    let authorization = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    if let Ok(caller) = tokens.caller(authorization, now) {
        return Some(caller.clone());
    }
    // The scopes are those that the token has today, and a token that is gone takes its sessions
    // with it.
    tokens.again(&Session::of(headers, keys, now)?.token, now).cloned()
}

/// The page that asks for a token.
pub fn form(status: StatusCode, problem: Option<&str>) -> Answer {
    let content = html! {
        @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
        p { "Sign in with a token of this API. Reading needs the scope read; pages say what each act needs." }
        form method="post" action=(SIGN_IN) {
            label for="token" { "Token" }
            input #token name="token" type="password" autocomplete="current-password" required;
            button { "Sign in" }
        }
    };
    answer_with(status, super::html::page(None, "Sign in", content))
}

/// The same page, after what was sent could not be looked at.
fn refused(problem: &Problem) -> Answer {
    wait_before_again(form(problem.code.status(), Some(&problem.detail)), problem)
}

/// `GET` and `POST /console/sign-in`. A good token counts in its own rate, another one in that of the
/// address that it comes from.
pub async fn sign_in(api: &Api, parts: Parts, body: Body) -> Answer {
    if parts.method != Method::POST {
        return form(StatusCode::OK, None);
    }
    let read = api.read(body, FORM_BYTES_MAX).await;
    let body = match read {
        Ok(body) => body,
        Err(problem) => return refused(&problem),
    };
    let mut fields = form_urlencoded::parse(&body.bytes);
    let token =
        fields.find(|(name, _)| name == "token").map(|(_, token)| token).unwrap_or_default();
    let authorization = format!("Bearer {}", token.trim());
    let caller = api.tokens().caller(Some(authorization.as_bytes()), DateTime::now()).cloned();
    let counted = match &caller {
        Ok(caller) => caller.count(Instant::now()),
        Err(_) => api.count_stranger(&parts),
    };
    if let Err(problem) = counted {
        return refused(&problem);
    }
    let caller = match caller {
        Ok(caller) => caller,
        Err(problem) => {
            let why = problem.detail;
            tracing::warn!(target: "operator", why, "somebody could not sign in");
            return form(StatusCode::UNAUTHORIZED, Some(&format!("It did not work: {why}.")));
        }
    };
    tracing::info!(target: "operator", who = caller.name, "signed in");
    let session = Session { token: caller.digest(), begun: DateTime::now() };
    // Behind a proxy that speaks TLS, the browser says so by its origin.
    let origin = parts.headers.get(header::ORIGIN).map(HeaderValue::as_bytes).unwrap_or_default();
    with_cookie(&api.session_keys(), Some(session), origin.starts_with(b"https://"))
}

/// `POST /console/sign-out`
pub fn sign_out(api: &Api) -> Answer {
    with_cookie(&api.session_keys(), None, false)
}

/// Sends the browser to the overview, with the cookie of a session, or with one that ends the
/// earlier one.
fn with_cookie(keys: &SessionKeys, session: Option<Session>, secure: bool) -> Answer {
    let age = if session.is_some() { LIVES } else { Duration::ZERO };
    let value = session.map(Session::write).unwrap_or_default();
    let cookie = Cookie::build((COOKIE, value))
        .http_only(true)
        .same_site(SameSite::Strict)
        .secure(secure)
        .path("/")
        .max_age(age.try_into().expect("hours"));
    let sealed = PrivateCookieJar::new(Key::from(keys.newest())).add(cookie).into_response();
    let cookies = sealed.headers().get_all(header::SET_COOKIE).into_iter().cloned();
    cookies.fold(go_to("/"), |answer, cookie| answer.with(header::SET_COOKIE, cookie))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::tokens::{Grant, Scope};

    const NEW: &str = "a new key that is as long as thirty-two bytes in Base64";
    const OLD: &str = "an old key that is as long as thirty-two bytes in Base64";

    const NOW: DateTime = DateTime::from_millis(1_000);

    fn keys(lines: &[&str]) -> SessionKeys {
        SessionKeys::parse(&lines.join("\n")).expect("long enough")
    }

    /// The headers of a browser that got this answer.
    fn headers(answer: &Answer) -> HeaderMap {
        let set = answer.headers.get(header::SET_COOKIE).expect("there is a cookie");
        let pair = set.to_str().expect("plain").split(';').next().expect("a pair");
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::try_from(pair).expect("plain"))])
    }

    #[test]
    fn all_servers_with_a_key_of_the_session_know_whose_it_is_and_nobody_else_does() {
        let (token, line) = Grant::new("olivia", &[Scope::Read]).make([7; 32]);
        let tokens = Tokens::parse(&line, None).expect("a good file");
        let olivia = tokens.caller(Some(format!("Bearer {token}").as_bytes()), NOW);
        let olivia = olivia.expect("known");
        let begun = NOW;
        let session = Session { token: olivia.digest(), begun };
        let signed_in = headers(&with_cookie(&keys(&[OLD]), Some(session), true));
        let sealed = signed_in[header::COOKIE].to_str().expect("plain");
        assert!(!sealed.contains(&hex(&olivia.digest())), "it says nothing of the token: {sealed}");
        let knows = |lines: &[&str], after: Duration| {
            let now = DateTime::from_millis(1_000 + after.as_millis() as i64);
            caller(&tokens, &keys(lines), &signed_in, now).map(|caller| caller.name.clone())
        };
        let olivia = Some("olivia".to_owned());
        let just_before = LIVES - Duration::from_millis(1);
        assert_eq!(knows(&[OLD], just_before), olivia);
        assert_eq!(knows(&[NEW, OLD], Duration::ZERO), olivia, "an old key still opens");
        assert_eq!(knows(&[NEW], Duration::ZERO), None, "a key that is gone ends its sessions");
        assert_eq!(knows(&[OLD], LIVES), None, "it is over");
        let (_, other) = Grant::new("omar", &[Scope::Read]).make([8; 32]);
        let without = Tokens::parse(&other, None).expect("a good file");
        assert!(caller(&without, &keys(&[OLD]), &signed_in, NOW).is_none(), "its token is gone");
        let forged = HeaderMap::from_iter([(
            header::COOKIE,
            HeaderValue::try_from(format!("{COOKIE}={}", session.write())).expect("plain"),
        )]);
        assert!(caller(&tokens, &keys(&[OLD]), &forged, NOW).is_none(), "it is not sealed");
    }

    #[test]
    fn a_session_ends_when_its_token_expires() {
        let expires = Some(DateTime::from_millis(2_000));
        let grant = Grant { expires, ..Grant::new("olivia", &[Scope::Read]) };
        let (token, line) = grant.make([7; 32]);
        let tokens = Tokens::parse(&line, None).expect("a good file");
        let olivia = tokens.caller(Some(format!("Bearer {token}").as_bytes()), NOW).expect("known");
        let session = Session { token: olivia.digest(), begun: NOW };
        let signed_in = headers(&with_cookie(&keys(&[NEW]), Some(session), true));
        for (now, is_known) in [(1_999, true), (2_000, false)] {
            let now = DateTime::from_millis(now);
            assert_eq!(caller(&tokens, &keys(&[NEW]), &signed_in, now).is_some(), is_known);
        }
    }

    #[test]
    fn signing_out_makes_the_browser_forget_the_session() {
        let answer = with_cookie(&keys(&[NEW]), None, false);
        let set = answer.headers[header::SET_COOKIE].to_str().expect("plain");
        assert!(set.contains("Max-Age=0") && set.contains("HttpOnly"), "{set}");
        assert!(
            caller(
                &Tokens::parse(&Grant::new("olivia", &[Scope::Read]).make([7; 32]).1, None)
                    .expect("a good file"),
                &keys(&[NEW]),
                &headers(&answer),
                DateTime::from_millis(0)
            )
            .is_none()
        );
    }
}
