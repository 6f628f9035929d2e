//! Transactions: the search, and the story of one.

use api::{Answer, Code, Problem};
use maud::{Markup, html};
use serde_json::Value;

use super::act::{Act, buttons};
use super::acts;
use super::html::{account, grouped, items, link, moment, page, state, table, text, transaction};
use super::visit::Visit;
use super::{go_to, html as answer_with, way};

/// How many legs are looked up at their accounts.
const LEGS_LOOKED_UP_MAX: usize = 20;

/// `GET /console/search`: goes to the transaction or account of this name; says so if there is
/// neither.
pub async fn search(visit: &Visit) -> Result<Answer, Problem> {
    let id = visit.param("q").unwrap_or_default().trim();
    for (operation, path) in
        [("showTransaction", "/console/transaction"), ("showAccount", "/console/account")]
    {
        match visit.ask(operation, id, &[]).await {
            Ok(_) => return Ok(go_to(&link(path, &[("id", id)]))),
            Err(problem) if problem.code == Code::NotFound => {}
            Err(problem) => return Err(problem),
        }
    }
    let content = html! {
        p { "There is no transaction and no account with exactly this id: " b.id { (id) } "." }
        p { "Ids are compared as a whole, with upper and lower case." }
    };
    Ok(answer_with(axum::http::StatusCode::NOT_FOUND, page(Some(visit), "Nothing found", content)))
}

/// `GET /console/transaction`: all that is kept of one.
pub async fn show(visit: &Visit) -> Result<Markup, Problem> {
    let id = visit.param("id").unwrap_or_default();
    let one = visit.ask("showTransaction", id, &[]).await?;
    let legs = legs(visit, &one).await;
    let (event, letter) = (event(visit, &one).await, letter(visit, &one).await);
    let content = html! {
        (way::headline(&one, |written| visit.amount(written, text(&one, "currency"))))
        p { span.id { (text(&one, "id")) } " " (state(text(&one, "state"))) @if one["parked"].is_object() { " parked" } }
        (way::picture(&one))
        (troubles(&one))
        @if let Some(key) = one["exclusiveKey"].as_str() { p { "Exclusive key: " b.id { (key) } } }
        @if let Some(name) = one["submittedBy"].as_str() { p { "Submitted by: " b.id { (name) } } }
        @for (name, label) in [("notBefore", "Not before"), ("expiresAt", "Expires")] {
            @if let Some(at) = one[name].as_str() { p { (label) ": " b { (moment(at)) } } }
        }
        (buttons(visit, id, &one, &allowed(&one)))
        section {
            h2 { "What has happened" }
            (table("What has happened", &["What", "When", "By and why"], history(&one)))
            p.note {
                "Not kept: the times of later claims, the earlier workers, and when its event was sent. What is settled at once, in a native transaction, has no states between."
            }
        }
        section {
            h2 { "Legs" }
            (table("Legs", &["Account", "Amount", "Captured", "Mark"], html! {
                @for (name, amount, mark) in &legs {
                    tr {
                        th scope="row" { (account(name)) }
                        td.number { (visit.amount(amount, text(&one, "currency"))) }
                        td.number { (visit.amount(captured(&one, name), text(&one, "currency"))) }
                        td { (mark) }
                    }
                }
            }))
        }
        @if !one["metadata"].is_null() {
            section { h2 { "Metadata" } pre { (pretty(&one["metadata"])) } }
        }
        section { h2 { "Event and message" } p { (event) } (letter) }
        (acts::section(visit, "transaction", id).await)
    };
    Ok(page(Some(visit), "Transaction", content))
}

/// What was captured of a leg; a dash for what is no hold, or not confirmed.
fn captured<'a>(one: &'a Value, account: &str) -> &'a str {
    let own = items(one, "captured").iter().find(|leg| text(leg, "account") == account);
    own.map_or("–", |leg| text(leg, "amount"))
}

/// What is known of its event.
async fn event(visit: &Visit, one: &Value) -> &'static str {
    if !matches!(text(one, "state"), "done" | "canceled") {
        return "Its event comes with its end.";
    }
    match visit.api.event_is_due(&visit.caller, text(one, "id")).await {
        Ok(true) => {
            "Its event waits for a confirm of the broker; workers send it again until then."
        }
        Ok(false) => {
            "Its event is not due: the broker has confirmed it, or the ledger is set up without events."
        }
        Err(_) => "Whether its event is due is not known: the database did not say it.",
    }
}

/// The dead letter that names it. Only what is parked is asked about: looking through the letters
/// costs the broker something.
async fn letter(visit: &Visit, one: &Value) -> Markup {
    if !one["parked"].is_object() || !visit.may("listDeadLetters") {
        return html! {};
    }
    let Ok(letters) = visit.ask("listDeadLetters", "", &[("limit", "1000")]).await else {
        return html! { p { "Whether its message is a dead letter is not known: the broker did not say it." } };
    };
    let named = Value::from(text(one, "id")).to_string();
    let names = |letter: &&Value| text(letter, "body").contains(&named);
    match items(&letters, "items").iter().find(names) {
        None => html! {
            p { "Among the oldest " (grouped(items(&letters, "items").len() as u64)) " dead letters, none names it." }
        },
        Some(found) => html! {
            p { "Its message is a " a href=(link("/console/letter", &[("id", text(found, "id"))])) { "dead letter" } "." }
        },
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn troubles(one: &Value) -> Markup {
    html! {
        @for (what, problem) in [("Canceled", &one["reason"]), ("Parked", &one["parked"])] {
            @if problem.is_object() {
                p.problem { b { (what) ": " (text(problem, "code")) } " – " (text(problem, "message")) }
            }
        }
        @if let Some(invalid) = one["invalid"].as_str() { p.problem { b { "It can't be read: " } (invalid) } }
    }
}

/// What has happened, one row for each state that is known to have been.
fn history(one: &Value) -> Markup {
    let attempts = one["attempts"].as_i64().unwrap_or_default();
    let (worker, why) = (text(one, "application"), text(&one["reason"], "message"));
    let by_worker = html! { @if !worker.is_empty() { "by " (worker) } };
    let is_final = matches!(text(one, "state"), "done" | "canceled");
    html! {
        (happened("created", text(one, "createdAt"), html! {
            @if let Some(reversed) = one["reverses"].as_str() { "takes back " (transaction(reversed)) }
        }))
        @if let Some(claimed) = one["claimedAt"].as_str() {
            (happened("pending", claimed, html! {
                @if attempts > 1 { "claimed " (attempts) " times, at last " } @else { "claimed " } (by_worker)
            }))
        }
        @if let Some(confirmed) = one["confirmedAt"].as_str() {
            (happened("confirmed", confirmed, html! { "what was on hold goes on, with what was captured" }))
        }
        @if let Some(decided) = one["decidedAt"].as_str() {
            @if one["reason"].is_object() { (happened("canceling", decided, html! { (why) })) }
            @else { (happened("applied", decided, html! { "every leg was posted" })) }
        }
        @if one["parked"].is_object() {
            (happened("parked", text(&one["parked"], "at"), html! { (text(&one["parked"], "message")) }))
        }
        @if text(one, "state") == "held" {
            (happened("held", text(one, "lastModified"), html! {
                "what it debits is reserved until it is confirmed or released"
                @if let Some(end) = one["holdExpiresAt"].as_str() { ", or expires at " (moment(end)) }
            }))
        } @else if is_final {
            (happened(text(one, "state"), text(one, "lastModified"), html! {
                (by_worker) @if one["decidedAt"].is_null() && !why.is_empty() { ": " (why) }
            }))
        } @else {
            (happened("changed last", text(one, "lastModified"), html! {}))
        }
    }
}

fn happened(what: &str, at: &str, why: Markup) -> Markup {
    html! { tr { th scope="row" { (what) } td { (moment(at)) } td { (why) } } }
}

/// Each leg with its account's mark.
async fn legs(visit: &Visit, one: &Value) -> Vec<(String, String, &'static str)> {
    let id = text(one, "id");
    let value = text(one, "value");
    let mut legs: Vec<(String, String)> = match one["legs"].as_array() {
        Some(legs) => legs
            .iter()
            .map(|leg| (text(leg, "account").to_owned(), text(leg, "amount").to_owned()))
            .collect(),
        None if value.is_empty() => Vec::new(),
        None => vec![
            (text(one, "source").to_owned(), format!("-{}", value.trim_start_matches('-'))),
            (text(one, "destination").to_owned(), value.trim_start_matches('-').to_owned()),
        ],
    };
    let rest = legs.split_off(legs.len().min(LEGS_LOOKED_UP_MAX));
    let mut shown = Vec::new();
    for (account, amount) in legs {
        let mark = match visit.ask("showAccount", &account, &[]).await {
            Ok(found) => mark(&found, id),
            Err(problem) if problem.code == Code::NotFound => "the account does not exist",
            Err(_) => "not known: the account could not be read",
        };
        shown.push((account, amount, mark));
    }
    shown.extend(rest.into_iter().map(|(account, amount)| (account, amount, "not looked up")));
    shown
}

fn mark(account: &Value, id: &str) -> &'static str {
    let marks = items(account, "pendingTransactions");
    if marks.iter().any(|mark| mark == id) {
        return "posted, not settled or undone yet";
    }
    match account["marks"].as_u64() == Some(marks.len() as u64) {
        true => "none",
        false => "not known: too many marks to look at",
    }
}

/// What its state allows.
fn allowed(one: &Value) -> Vec<Act> {
    if one["parked"].is_object() {
        return vec![Act::Unpark, Act::GiveUp];
    }
    match text(one, "state") {
        "scheduled" => vec![Act::Reschedule, Act::Cancel],
        "initial" | "pending" => vec![Act::Cancel],
        "held" => vec![Act::Confirm, Act::Release],
        "applied" | "done" => vec![Act::Reverse],
        _ => Vec::new(),
    }
}
