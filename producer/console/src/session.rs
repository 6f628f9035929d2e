//! Who looks: sessions of browsers.
//!
//! A browser can't send a token with a click. So the token is sent once, in a form, and the browser
//! gets a cookie that names the token by its digest, and the moment. It is sealed: nobody else can
//! read it or make one, and all servers that have the same keys open it. Promises that no script
//! reads it and no other site's page sends it; that a session ends after twelve hours, when its
//! token expires or is gone, or with the key; and that no server keeps anything. Signing out makes
//! the browser forget the cookie: who has copied it before has the session until then.
//!
//! Whoever comes without a session gets the form in place of the page, and the page after it. What
//! they have sent is not carried out, and that page says so once: a second cookie, sealed as well,
//! names it for a minute.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{Answer, Api, Caller, Problem, SessionKeys, Tokens};
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum_extra::extract::cookie::{Cookie, SameSite};
use bson::DateTime;
use ledger::hex::{from_hex, hex};
use maud::html;
use sha2::{Digest, Sha256};

use super::back::Back;
use super::{FORM_BYTES_MAX, SIGN_IN, fields, go_to, html as answer_with, wait_before_again};

/// The name of the cookie.
const COOKIE: &str = "tandem_session";
/// The name of the cookie that says which page tells of a form that was not carried out.
const UNSENT: &str = "tandem_unsent";
/// How long the way to that page may take.
const UNSENT_LIVES: Duration = Duration::from_secs(60);
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
        let session = Session::read(&keys.cookie(headers, COOKIE)?)?;
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

/// Asks whoever comes without a session for a token, and keeps where they want to go. A form that
/// they have sent is not carried out.
pub async fn ask(api: &Api, parts: Parts, body: Body) -> Answer {
    if parts.method != Method::POST {
        let back = Back::to_asked(&parts.uri);
        let site = parts.headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        let is_from_elsewhere = matches!(site, Some(b"cross-site" | b"same-site"));
        return form(StatusCode::UNAUTHORIZED, None, &back, is_from_elsewhere);
    }
    match api.read(body, FORM_BYTES_MAX).await {
        Ok(body) => {
            let back = Back::to_form(parts.uri.path(), &fields(&body.bytes));
            let problem =
                "Nothing was done: you are not signed in any more. Sign in to look at it again.";
            form(StatusCode::UNAUTHORIZED, Some(problem), &back, false)
        }
        Err(problem) => refused(&problem, &Back::to("/")),
    }
}

/// The page that asks for a token. Browsers don't send the cookie with a link of another site, so
/// whoever comes by one may be signed in, and then a link of this page is enough.
fn form(status: StatusCode, problem: Option<&str>, back: &Back, is_from_elsewhere: bool) -> Answer {
    let content = html! {
        @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
        @if is_from_elsewhere {
            p { "If you are signed in already, " a href=(back.address) { "go on to the page" } "." }
        }
        p { "Sign in with a token of this API. Reading needs the scope read; pages say what each act needs." }
        form method="post" action=(SIGN_IN) {
            (back.inputs())
            label for="token" { "Token" }
            input #token name="token" type="password" autocomplete="current-password" required;
            button { "Sign in" }
        }
    };
    answer_with(status, super::html::page(None, "Sign in", content))
}

/// The same page, after what was sent could not be looked at.
fn refused(problem: &Problem, back: &Back) -> Answer {
    let form = form(problem.code.status(), Some(&problem.detail), back, false);
    wait_before_again(form, problem)
}

/// `GET` and `POST /console/sign-in`. A good token counts in its own rate, another one in that of the
/// address that it comes from.
pub async fn sign_in(api: &Api, parts: Parts, body: Body) -> Answer {
    if parts.method != Method::POST {
        return form(StatusCode::OK, None, &Back::to("/"), false);
    }
    let read = api.read(body, FORM_BYTES_MAX).await;
    let body = match read {
        Ok(body) => body,
        Err(problem) => return refused(&problem, &Back::to("/")),
    };
    let fields = fields(&body.bytes);
    let back = Back::read(&fields);
    let token = fields.get("token").map_or("", String::as_str);
    let authorization = format!("Bearer {token}");
    let caller = api.tokens().caller(Some(authorization.as_bytes()), DateTime::now()).cloned();
    let counted = match &caller {
        Ok(caller) => caller.count(Instant::now()),
        Err(_) => api.count_stranger(&parts),
    };
    if let Err(problem) = counted {
        return refused(&problem, &back);
    }
    let caller = match caller {
        Ok(caller) => caller,
        Err(problem) => {
            let why = problem.detail;
            tracing::warn!(target: "operator", why, "somebody could not sign in");
            let told = format!("It did not work: {why}.");
            return form(StatusCode::UNAUTHORIZED, Some(&told), &back, false);
        }
    };
    tracing::info!(target: "operator", who = caller.name, "signed in");
    let session = Session { token: caller.digest(), begun: DateTime::now() };
    // Behind a proxy that speaks TLS, the browser says so by its origin.
    let origin = parts.headers.get(header::ORIGIN).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_secure = origin.starts_with(b"https://");
    let keys = api.session_keys();
    let answer =
        with_cookie(go_to(&back.address), &keys, COOKIE, session.write(), LIVES, is_secure);
    match back.is_unsent {
        true => {
            let page = digest(&back.address);
            with_cookie(answer, &keys, UNSENT, page, UNSENT_LIVES, is_secure)
        }
        false => answer,
    }
}

/// `POST /console/sign-out`: makes the browser forget the session.
pub fn sign_out(api: &Api) -> Answer {
    forget(go_to("/"), &api.session_keys(), COOKIE)
}

/// Whether this is the page to which a form that came without a session has led.
pub fn is_unsent(keys: &SessionKeys, parts: &Parts) -> bool {
    let named = keys.cookie(&parts.headers, UNSENT);
    let asked = parts.uri.path_and_query().map_or("/", |asked| asked.as_str());
    parts.method == Method::GET && named.is_some_and(|named| named == digest(asked))
}

/// The answer that has told of the form, which is told once.
pub fn told_of_unsent(answer: Answer, api: &Api) -> Answer {
    forget(answer, &api.session_keys(), UNSENT)
}

fn digest(address: &str) -> String {
    hex(&Sha256::digest(address))
}

/// The answer with a cookie that ends the one of this name.
fn forget(answer: Answer, keys: &SessionKeys, name: &'static str) -> Answer {
    with_cookie(answer, keys, name, String::new(), Duration::ZERO, false)
}

/// The answer with a sealed cookie that lives for so long.
fn with_cookie(
    mut answer: Answer,
    keys: &SessionKeys,
    name: &'static str,
    value: String,
    lives: Duration,
    is_secure: bool,
) -> Answer {
    let cookie = Cookie::build((name, value))
        .http_only(true)
        .same_site(SameSite::Strict)
        .secure(is_secure)
        .path("/")
        .max_age(lives.try_into().expect("hours"));
    answer.headers.append(header::SET_COOKIE, keys.set_cookie(cookie.build()));
    answer
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

    fn signed_in(keys: &SessionKeys, session: Session) -> Answer {
        with_cookie(go_to("/"), keys, COOKIE, session.write(), LIVES, true)
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
        let signed_in = headers(&signed_in(&keys(&[OLD]), session));
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
        let signed_in = headers(&signed_in(&keys(&[NEW]), session));
        for (now, is_known) in [(1_999, true), (2_000, false)] {
            let now = DateTime::from_millis(now);
            assert_eq!(caller(&tokens, &keys(&[NEW]), &signed_in, now).is_some(), is_known);
        }
    }

    #[test]
    fn signing_out_makes_the_browser_forget_the_session() {
        let answer = forget(go_to("/"), &keys(&[NEW]), COOKIE);
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

    #[test]
    fn only_the_page_to_which_the_form_led_says_that_nothing_was_done() {
        let (page, keys) = ("/console/confirm?act=freeze&id=a", keys(&[NEW]));
        let answer = with_cookie(go_to(page), &keys, UNSENT, digest(page), UNSENT_LIVES, false);
        let cookie = headers(&answer);
        let told = |method: Method, address: &str, cookie: &HeaderMap| {
            let request = axum::http::Request::builder().method(method).uri(address);
            let (mut parts, ()) = request.body(()).expect("a request").into_parts();
            parts.headers.clone_from(cookie);
            is_unsent(&keys, &parts)
        };
        assert!(told(Method::GET, page, &cookie));
        assert!(!told(Method::POST, page, &cookie), "an act was carried out");
        assert!(!told(Method::GET, "/console/confirm?act=freeze&id=b", &cookie));
        assert!(!told(Method::GET, page, &HeaderMap::new()));
        let forged = HeaderValue::try_from(format!("{UNSENT}={}", digest(page))).expect("plain");
        assert!(!told(Method::GET, page, &HeaderMap::from_iter([(header::COOKIE, forged)])));
    }
}
