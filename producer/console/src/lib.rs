#![doc = include_str!("../README.md")]

mod accounts;
mod act;
mod acting;
mod acts;
mod audit;
mod back;
mod bulk;
mod capture;
mod chart;
mod filter;
mod floor;
mod form;
mod handbook;
mod html;
mod job;
mod letters;
mod listed;
mod markdown;
mod moment;
mod overview;
mod session;
mod transactions;
mod visit;
mod way;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use api::{Answer, Api, Code, Problem, Scope, Shown, Site, Tokens, check_origin, show_page};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::routing::get;
use bson::DateTime;
use maud::{Markup, html};

pub use self::bulk::{LETTERS_MAX, PARKED_MAX};
use self::visit::Visit;

/// The addresses of the console.
const PATHS: [&str; 2] = ["/", "/console/{*page}"];

/// The address of the form that asks for a token, and to which that is sent.
const SIGN_IN: &str = "/console/sign-in";

/// The most bytes of a form: an id and a reason, percent-encoded.
const FORM_BYTES_MAX: usize = 16 << 10;

const STYLE: &str = include_str!("console.css");
const SCRIPT: &str = include_str!("console.js");
const ICON: &str = include_str!("icon.svg");

/// The console, to be served beside the operations of an API.
pub fn site() -> Site {
    Site { pages: router(), missing: |problem| failed(None, problem) }
}

fn router() -> Router<Arc<Api>> {
    let page = async move |State(api): State<Arc<Api>>, request: Request| {
        let show = |id: String, parts, body| {
            let api = api.clone();
            async move { answer(&api, &id, parts, body).await }
        };
        show_page(&api, "console", request, show).await
    };
    let pages = |router: Router<Arc<Api>>, path| router.route(path, get(page).post(page));
    PATHS.into_iter().fold(Router::new(), pages)
}

/// Answers a request for a page. `request` is the request's id.
async fn answer(api: &Arc<Api>, request: &str, parts: Parts, body: Body) -> Shown {
    let (tokens, keys) = (api.tokens(), api.session_keys());
    if let Err(problem) = check_origin(&tokens, &parts.method, &parts.headers) {
        return nobody(failed(None, &problem));
    }
    let caller = session::caller(&tokens, &keys, &parts.headers, DateTime::now());
    // A sign-in counts by itself, when it is known whether its token is good.
    let signs_in = parts.method == Method::POST && parts.uri.path() == SIGN_IN;
    if caller.is_none()
        && !signs_in
        && let Err(problem) = api.count_stranger(&parts)
    {
        return nobody(failed(None, &problem));
    }
    match (&parts.method, parts.uri.path()) {
        (&Method::GET, "/console/console.css") => return nobody(file("text/css", STYLE)),
        (&Method::GET, "/console/console.js") => return nobody(file("text/javascript", SCRIPT)),
        (&Method::GET, "/console/icon.svg") => return nobody(file("image/svg+xml", ICON)),
        (_, SIGN_IN) => {
            return nobody(session::sign_in(api, parts, body).await);
        }
        _ => {}
    }
    let Some(caller) = caller else {
        return nobody(session::ask(api, parts, body).await);
    };
    let person = match api.person(&parts) {
        Ok(person) => person,
        Err(problem) => return nobody(failed(None, &problem)),
    };
    let mut shown = Shown { caller: caller.name.clone(), answer: nothing() };
    let visit = Visit::new(api.clone(), caller, (person, request), &parts);
    visit.look_for_pause().await;
    shown.answer = match page(&visit, parts, body).await {
        Ok(answer) => answer,
        Err(problem) => failed(Some(&visit), &problem),
    };
    if visit.is_unsent {
        shown.answer = session::told_of_unsent(shown.answer, api);
    }
    shown
}

async fn page(visit: &Visit, parts: Parts, body: Body) -> Result<Answer, Problem> {
    visit.caller.count(Instant::now())?;
    let most = if parts.method == Method::POST { FORM_BYTES_MAX } else { 0 };
    let form = visit.api.read(body, most).await?;
    let path = parts.uri.path().trim_start_matches("/console").trim_start_matches('/');
    if parts.method == Method::POST {
        return match path {
            "act" => acting::act(visit, &form.bytes).await,
            "bulk" => bulk::start(visit, &form.bytes).await,
            "job" => job::steer(visit, &form.bytes).await,
            "sign-out" => Ok(session::sign_out(&visit.api)),
            _ => Err(no_page()),
        };
    }
    visit.caller.require(Scope::Read)?;
    let page = match path {
        "" => overview::page(visit).await?,
        "stream" => return overview::stream(visit).await,
        "search" => return transactions::search(visit).await,
        "transactions" => listed::list(visit).await?,
        "export.csv" => return listed::export(visit, "exportCsv").await,
        "export.jsonl" => return listed::export(visit, "exportJsonLines").await,
        "transaction" => transactions::show(visit).await?,
        "accounts" => accounts::list(visit).await?,
        "account" => accounts::show(visit).await?,
        "letters" => letters::list(visit).await?,
        "letter" => letters::show(visit).await?,
        "audit" => audit::page(visit).await?,
        "acts" => acts::list(visit).await?,
        "handbook" => handbook::page(visit),
        "confirm" => acting::confirm(visit).await?,
        "bulk" => bulk::preview(visit).await?,
        "job" => job::page(visit).await?,
        _ => return Err(no_page()),
    };
    Ok(html(StatusCode::OK, page))
}

/// The fields of a form, without the spaces around them. Of a repeated one, the last counts.
fn fields(form: &[u8]) -> HashMap<String, String> {
    let pairs = form_urlencoded::parse(form).into_owned();
    pairs.map(|(name, value)| (name, value.trim().to_owned())).collect()
}

fn no_page() -> Problem {
    Problem::new(Code::NotFound, "the console has no such page")
}

fn nobody(answer: Answer) -> Shown {
    Shown { caller: String::new(), answer }
}

fn nothing() -> Answer {
    Answer::text("text/plain", "")
}

/// A page that says what is wrong; if nothing is at the address, with what there is.
fn failed(visit: Option<&Visit>, problem: &Problem) -> Answer {
    let is_nowhere = matches!(problem.code, Code::NotFound | Code::MethodNotAllowed);
    let title = if is_nowhere { "There is nothing here" } else { "It did not work" };
    let content = html! {
        section.problem role="alert" {
            h2 { (problem.code.title()) }
            p { (problem.detail) }
        }
        @if is_nowhere { h2 { "What there is" } (html::places(visit)) }
        @else { p { a href="/" { "To the overview" } } }
    };
    let answer = html(problem.code.status(), html::page(visit, title, content));
    wait_before_again(answer, problem)
}

/// The same answer, which says when to try again, if the problem says it.
fn wait_before_again(answer: Answer, problem: &Problem) -> Answer {
    match problem.seconds_to_wait() {
        Some(seconds) => answer.with(header::RETRY_AFTER, seconds),
        None => answer,
    }
}

/// A page with the headers that all pages have.
fn html(status: StatusCode, page: Markup) -> Answer {
    const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
    guarded(Answer::new(status, HTML, Body::from(page.into_string())))
        .with(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))
}

/// A file of the console. Its address ends in its digest, so a browser may keep it.
fn file(content_type: &'static str, content: &'static str) -> Answer {
    guarded(Answer::text(content_type, content))
        .with(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400"))
}

fn guarded(answer: Answer) -> Answer {
    const POLICY: HeaderValue = HeaderValue::from_static(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    );
    const NAMES: [(HeaderName, HeaderValue); 2] = [
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        // Not `no-referrer`: with that, browsers send `Origin: null` with the console's own forms,
        // and the check of the origin would refuse them. Other sites are told nothing all the same.
        (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    ];
    let answer = answer.with(header::CONTENT_SECURITY_POLICY, POLICY);
    NAMES.into_iter().fold(answer, |answer, (name, value)| answer.with(name, value))
}

/// Sends the browser to another page.
fn go_to(address: &str) -> Answer {
    let address = HeaderValue::try_from(address).expect("addresses are percent-encoded");
    let mut answer = guarded(nothing()).with(header::LOCATION, address);
    answer.status = StatusCode::SEE_OTHER;
    answer
}

/// Whether whoever comes has to sign in.
fn asks_for_tokens(api: &Api) -> bool {
    matches!(*api.tokens(), Tokens::Known(_))
}
