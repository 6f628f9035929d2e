//! The frame of a page, and how things are shown. Everything that is put in is escaped.

use std::sync::LazyLock;

use bson::DateTime;
use ledger::hex::hex;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::audit;
use super::visit::Visit;
use super::{SCRIPT, STYLE, asks_for_tokens};

/// The part of an address that changes with the files.
static VERSION: LazyLock<String> =
    LazyLock::new(|| hex(&Sha256::digest([STYLE, SCRIPT].concat()))[..16].to_owned());

/// The pages of the menu, each with an operation that only those may ask for who may see the page.
const MENU: [(&str, &str, &str); 6] = [
    ("/", "Overview", "overview"),
    ("/console/transactions", "Transactions", "listTransactions"),
    ("/console/accounts", "Accounts", "listAccounts"),
    ("/console/letters", "Dead letters", "listDeadLetters"),
    ("/console/audit", "Audit", audit::SEEN_BY),
    ("/console/acts", "Acts", "listActs"),
];

/// The zone in which moments are shown and read. The script writes that of the viewer in its place.
pub const ZONE: PreEscaped<&str> = PreEscaped("<span data-zone>UTC</span>");

/// A page with its frame.
pub fn page(visit: Option<&Visit>, title: &str, content: Markup) -> Markup {
    let version = VERSION.as_str();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " – Tandem" }
                link rel="stylesheet" href={ "/console/console.css?v=" (version) };
                link rel="icon" href={ "/console/icon.svg?v=" (version) };
                script src={ "/console/console.js?v=" (version) } defer {}
            }
            body data-now=(DateTime::now().timestamp_millis()) {
                a.skip href="#main" { "Skip to the content" }
                header {
                    span.brand { "Tandem" }
                    @if let Some(visit) = visit { (menu(visit)) }
                }
                main #main {
                    @if let Some(visit) = visit { (band(visit)) }
                    h1 { (title) }
                    (content)
                }
                @if visit.is_some() { (foot()) }
            }
        }
    }
}

/// What everybody has to know on every page. The section is there without a pause, too, so that the
/// script can put one in its place. Whoever comes from a form that was not carried out is told so.
fn band(visit: &Visit) -> Markup {
    html! {
        section #pause {
            @if let Some(pause) = visit.pause() {
                p.problem.warning role="status" {
                    b { "Settlement is paused" } " " (pause.told())
                }
            }
        }
        @if visit.is_unsent {
            p.problem.warning role="alert" {
                b { "Nothing was done." } " You were not signed in any more when you sent the form. \
                Look at it again, and send it again if it is still wanted."
            }
        }
    }
}

/// In which zone the times of the page are: in UTC, until the script makes them those of the
/// viewer.
fn foot() -> Markup {
    html! {
        footer { p.note { "Times are in " (ZONE) ". " a href="/console/handbook" { "Handbook" } } }
    }
}

/// The pages of the menu that the visitor may see; all of them, if nobody is known.
fn menu_of(visit: Option<&Visit>) -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_for = move |operation| visit.is_none_or(|visit| visit.may(operation));
    let may_see = MENU.into_iter().filter(move |(_, _, operation)| is_for(operation));
    may_see.map(|(address, name, _)| (address, name))
}

/// What there is for the visitor, for whoever has found nothing.
pub fn places(visit: Option<&Visit>) -> Markup {
    html! {
        nav.places aria-label="What there is" {
            ul {
                @for (address, name) in menu_of(visit) { li { a href=(address) { (name) } } }
                li { a href="/console/handbook" { "Handbook for operators" } }
                li { a href="/v1" { "The HTTP API, for programs" } }
            }
        }
    }
}

fn menu(visit: &Visit) -> Markup {
    let here = |address: &str| (visit.path == address).then_some("page");
    html! {
        nav aria-label="Pages" {
            @for (address, name) in menu_of(Some(visit)) {
                a href=(address) aria-current=[here(address)] { (name) }
            }
        }
        form.search role="search" action="/console/search" {
            label.unseen for="q" { "Search an id of a transaction or account" }
            input #q name="q" type="search" placeholder="id of a transaction or account" required maxlength="1000";
            button { "Search" }
        }
        @if asks_for_tokens(&visit.api) {
            form.who method="post" action="/console/sign-out" {
                span { @if let Some(person) = &visit.person.name { (person) ", " } (visit.caller.name) }
                button { "Sign out" }
            }
        }
    }
}

/// An address of the console with parameters.
pub fn link(path: &str, params: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(params);
    format!("{path}?{}", query.finish())
}

/// A link to a transaction.
pub fn transaction(id: &str) -> Markup {
    html! { a.id href=(link("/console/transaction", &[("id", id)])) { (id) } }
}

/// A link to an account.
pub fn account(id: &str) -> Markup {
    html! { a.id href=(link("/console/account", &[("id", id)])) { (id) } }
}

/// A link to a section of the handbook.
pub fn link_to_section(section: &str, name: &Markup) -> Markup {
    html! { a href={ "/console/handbook#" (section) } { (name) } }
}

/// A text of a JSON object; empty where there is none.
pub fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

/// The items of an answer.
pub fn items<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

/// A moment, in UTC. The script makes it one of the viewer's zone, and says how long ago it is.
pub fn moment(text: &str) -> Markup {
    let shown = exact(text);
    html! { @if text.is_empty() { "not kept" } @else { time datetime=(text) { (shown) } } }
}

/// A moment of RFC 3339 in UTC as it is read, always with milliseconds, so that those of a list stand
/// one below the other.
fn exact(text: &str) -> String {
    let text = text.trim_end_matches('Z').replacen('T', " ", 1);
    let (seconds, fraction) = text.split_once('.').unwrap_or((&text, ""));
    format!("{seconds}.{fraction:0<3} UTC")
}

/// A state, by its name and a color.
pub fn state(name: &str) -> Markup {
    let class = match name {
        "done" | "open" | "working" | "ok" => "good",
        "canceled" | "silent" | "closed" | "refused" | "failed" => "bad",
        "canceling" | "frozen" | "draining" | "paused" | "drained" | "unknown" => "warn",
        _ => "calm",
    };
    html! { span.badge.(class) { (name) } }
}

/// An amount whose thousands stand a little apart, if it has five whole digits or more. Whoever copies
/// it gets the digits alone, as forms and commands take them.
pub fn spaced(amount: &str) -> Markup {
    let from = amount.find(|it: char| it.is_ascii_digit()).unwrap_or(amount.len());
    let (before, rest) = amount.split_at(from);
    let (whole, after) =
        rest.split_at(rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len()));
    if whole.len() < 5 {
        return html! { (amount) };
    }
    let mut thousands = thousands(whole);
    html! {
        (before) @if let Some(first) = thousands.next() { (first) }
        @for digits in thousands { span.apart { (digits) } }
        (after)
    }
}

/// A number with its thousands set apart, like 12,345.
pub fn grouped(number: u64) -> String {
    thousands(&number.to_string()).collect::<Vec<_>>().join(",")
}

/// The digits of a whole number, three at a time; the first ones may be fewer.
fn thousands(digits: &str) -> impl Iterator<Item = &str> {
    let (first, rest) = digits.split_at(digits.len() % 3);
    let rest = (0..rest.len()).step_by(3).map(|at| &rest[at..at + 3]);
    Some(first).filter(|first| !first.is_empty()).into_iter().chain(rest)
}

/// A number that was measured, rounded; a dash where there is none.
pub fn rounded(value: &Value) -> String {
    match value.as_f64() {
        // Nothing that is measured is negative, and `as` ends at the largest number.
        Some(value) => grouped(value.round() as u64),
        None => "–".to_owned(),
    }
}

/// A sentence in which `this` is a command.
pub fn sentence(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// A count that may be capped. What is not known is no zero.
pub fn count(of: &Value) -> String {
    match of["count"].as_u64() {
        Some(number) if of["capped"] == true => format!("{}+", grouped(number)),
        Some(number) => grouped(number),
        None => "not known".to_owned(),
    }
}

/// The links to the page before and the next page of a list, where there are such.
pub fn pages(path: &str, params: &[(&str, &str)], answer: &Value) -> Markup {
    let to = |cursor: &str| {
        let others = params.iter().copied().filter(|(name, _)| *name != "cursor");
        link(path, &others.chain([("cursor", cursor)]).collect::<Vec<_>>())
    };
    let [prev, next] = ["prev", "next"].map(|name| answer[name].as_str().map(to));
    html! {
        @if prev.is_some() || next.is_some() {
            p.pages {
                @if let Some(prev) = prev { a.button href=(prev) rel="prev" { "Previous page" } }
                @if let Some(next) = next { a.button href=(next) rel="next" { "Next page" } }
            }
        }
    }
}

/// A table with a name, rows below heads.
pub fn table(about: &str, heads: &[&str], rows: Markup) -> Markup {
    let table = html! {
        table {
            caption.unseen { (about) }
            thead { tr { @for head in heads { th scope="col" { (head) } } } }
            tbody { (rows) }
        }
    };
    wide(about, &table)
}

/// Something wide that a narrow screen can scroll.
pub fn wide(about: &str, content: &Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(about) { (content) } }
}
