//! Everything that changes something: asked for, confirmed with a reason, noted, done, and logged.
//!
//! Promises that each act is the API's own operation with its check of the scope, that a GET
//! changes nothing, and that the list of acts and a line in the log say who did what, why, and what
//! became of it.
//! Whoever lacks the scope is refused before that; the access log has it.

use std::collections::HashMap;

use api::{Answer, Code, Person, Problem, REASON};
use axum::http::StatusCode;
use ledger::limits::echo;
use maud::{Markup, html};
use mongo::ActSubject;
use serde_json::{Value, json};

use super::act::Act;
use super::form::Typed;
use super::html::{link, moment as at, page, text};
use super::visit::{Visit, ask};
use super::{audit, capture, fields, floor, html as answer_with, moment};

/// `GET /console/confirm`: asks before anything is done.
pub async fn confirm(visit: &Visit) -> Result<Markup, Problem> {
    let act = named(visit.param("act").unwrap_or_default())?;
    visit.require(act.operation())?;
    let id = visit.param("id").unwrap_or_default();
    question(visit, act, id, &Typed::default()).await
}

/// The page that asks, at first or again.
async fn question(visit: &Visit, act: Act, id: &str, typed: &Typed) -> Result<Markup, Problem> {
    let told = act.told();
    let shown = match act {
        Act::Audit => Value::Null,
        _ => visit.ask(told.shown_by, id, &[]).await?,
    };
    let content = html! {
        (typed.summary())
        section.confirm {
            p { b { (told.verb) } @if !act.is_of_ledger() { ": " span.id { (id) } } }
            p { (told.effect) }
            (facts(visit, &shown))
            form method="post" action="/console/act" {
                input type="hidden" name="act" value=(told.name);
                input type="hidden" name="id" value=(id);
                (own_field(visit, act, &shown, typed))
                (typed.field(REASON, &html! { "Reason, for the list of acts" }, "", 500))
                p.acts {
                    button { (told.verb) }
                    a href=(link(told.page, &[("id", id)])) { "Go back, do nothing" }
                }
            }
        }
    };
    Ok(page(Some(visit), "Are you sure?", content))
}

/// How an act is asked for and done.
enum Manner {
    /// By its operation, on one thing.
    Plain,
    /// With the moment.
    Reschedules,
    /// With the floor.
    SetsFloor,
    /// With how much is captured.
    Captures,
    /// By its operation, on the ledger or one worker, with the reason.
    SaysSettlement,
    /// As a job of its own.
    Audits,
}

fn manner(act: Act) -> Manner {
    match act {
        Act::Reschedule => Manner::Reschedules,
        Act::SetFloor => Manner::SetsFloor,
        Act::Confirm => Manner::Captures,
        Act::Pause | Act::Resume | Act::Drain | Act::ResumeWorker => Manner::SaysSettlement,
        Act::Audit => Manner::Audits,
        Act::Cancel
        | Act::Release
        | Act::Reverse
        | Act::Unpark
        | Act::GiveUp
        | Act::Freeze
        | Act::Unfreeze
        | Act::Close
        | Act::Replay
        | Act::Discard => Manner::Plain,
    }
}

/// What an act has to know beside its reason.
fn own_field(visit: &Visit, act: Act, shown: &Value, typed: &Typed) -> Markup {
    match manner(act) {
        Manner::Reschedules => moment::input(shown, typed),
        Manner::SetsFloor => floor::input(shown, typed),
        Manner::Captures => {
            let amount = |written: &str| visit.amount(written, text(shown, "currency"));
            capture::input(shown, typed, amount)
        }
        Manner::Plain | Manner::SaysSettlement | Manner::Audits => html! {},
    }
}

/// What it is about, with its money.
fn facts(visit: &Visit, shown: &Value) -> Markup {
    const FACTS: [(&str, &str); 14] = [
        ("since", "Since"),
        ("by", "By"),
        ("reason", "Reason"),
        ("state", "State"),
        ("notBefore", "Not before"),
        ("expiresAt", "Expires"),
        ("status", "Status"),
        ("value", "Amount"),
        ("source", "From"),
        ("destination", "To"),
        ("currency", "Currency"),
        ("balance", "Balance"),
        ("pendingDebits", "Pending out"),
        ("floor", "Floor"),
    ];
    let letters = shown["transactions"].as_array().map(Vec::len);
    html! {
        dl {
            @for (name, label) in FACTS {
                @if let Some(value) = shown[name].as_str() {
                    dt { (label) }
                    dd {
                        @match name {
                            "since" | "notBefore" | "expiresAt" => (at(value)),
                            "value" | "balance" | "pendingDebits" | "floor" => (visit.amount(value, text(shown, "currency"))),
                            _ => (value),
                        }
                    }
                }
            }
            @if let Some(legs) = shown["legs"].as_array() { dt { "Legs" } dd { (legs.len()) } }
            @if let Some(letters) = letters { dt { "Transactions in it" } dd { (letters) } }
        }
    }
}

/// `POST /console/act`
pub async fn act(visit: &Visit, form: &[u8]) -> Result<Answer, Problem> {
    let fields = fields(form);
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    let (act, id, reason) = (named(field("act"))?, field("id"), field(REASON));
    visit.require(act.operation())?;
    let done = match reason.is_empty() {
        true => Err(Problem::field(REASON, "is needed; it goes into the list of acts")),
        false => acted(visit, act, id, &fields).await,
    };
    match done {
        Ok(outcome) => Ok(answer_with(StatusCode::OK, told(visit, act, id, &outcome))),
        Err(problem) => {
            let id = id.to_owned();
            ask_again(visit, act, &id, Typed::refused(fields, problem.clone()), problem).await
        }
    }
}

/// Acts, and logs what became of it; returns how it stands now.
async fn acted(
    visit: &Visit,
    act: Act,
    id: &str,
    fields: &HashMap<String, String>,
) -> Result<String, Problem> {
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    let (reason, value) = (field(REASON), fields.get(capture::FIELD).map(String::as_str));
    let person = visit.acting(reason);
    let plainly = |answer: Value| said(&answer);
    let done = match manner(act) {
        Manner::Audits => begin_audit(visit, &person).await.map(plainly),
        Manner::Captures => {
            let done = capture::confirm(visit, &person, id, value).await;
            done.map(|answer| capture::said(&said(&answer), value))
        }
        Manner::Reschedules => {
            moment::reschedule(visit, &person, id, field(moment::FIELD)).await.map(plainly)
        }
        Manner::SetsFloor => {
            let done = floor::set(visit, &person, id, field(floor::FIELD), reason).await;
            done.map(|account| floor::said(&account))
        }
        Manner::SaysSettlement => {
            let (of, body) = (if act.is_of_ledger() { "" } else { id }, json!({ REASON: reason }));
            visit.ask_with(&person, act.operation(), of, &body).await.map(plainly)
        }
        Manner::Plain => {
            let who = (&*visit.caller, &person);
            ask(&visit.api, who, act.operation(), id, &[]).await.map(plainly)
        }
    };
    let outcome = done.as_ref().unwrap_or_else(|problem| &problem.detail);
    tracing::info!(
        target: "operator",
        who = visit.caller.name,
        person = person.name,
        act = act.name(),
        id = %echo(id),
        reason = %echo(reason),
        request = person.request,
        ok = done.is_ok(),
        outcome,
    );
    if done.is_ok() && matches!(act, Act::Pause | Act::Resume) {
        visit.look_for_pause().await;
    }
    done
}

/// The page after it is done.
fn told(visit: &Visit, act: Act, id: &str, outcome: &str) -> Markup {
    let told = act.told();
    let content = html! {
        p.fine role="status" { b { "Done: " (told.verb) } @if !act.is_of_ledger() { " " span.id { (id) } } "." }
        @if !outcome.is_empty() { p { "It says now: " b { (outcome) } } }
        p {
            @if matches!(act, Act::Replay | Act::Discard) { a href="/console/letters" { "To the dead letters" } }
            @else { a href=(link(told.page, &[("id", id)])) { "See how it stands" } }
        }
    };
    page(Some(visit), "Done", content)
}

/// The form once more, if one of its fields was wrong, so surely without effect; else the problem.
async fn ask_again(
    visit: &Visit,
    act: Act,
    id: &str,
    typed: Typed,
    problem: Problem,
) -> Result<Answer, Problem> {
    if problem.code != Code::Invalid || !typed.has_wrong_field() {
        return Err(problem);
    }
    match question(visit, act, id, &typed).await {
        Ok(page) => Ok(answer_with(problem.code.status(), page)),
        // Who may act and not read is told without the form.
        Err(_) => Err(problem),
    }
}

async fn begin_audit(visit: &Visit, person: &Person) -> Result<Value, Problem> {
    let begin = async { audit::start(&visit.api, &visit.console, &visit.caller.name) };
    let (who, what) = ((&*visit.caller, person), ("audit.begin", ActSubject::ledger()));
    let told = "it was begun; the console shows what it finds";
    visit.api.note_act(who, what, begin, told).await.map(|()| Value::Null)
}

/// What an answer says of how it stands now.
fn said(answer: &Value) -> String {
    if let Some(paused) = answer["paused"].as_bool() {
        return if paused { "paused" } else { "goes on" }.to_owned();
    }
    if let Some(drained) = answer["drained"].as_bool() {
        return if drained { "to be drained" } else { "settles again" }.to_owned();
    }
    let words = ["id", "state", moment::FIELD, "status", "outcome"].map(|name| text(answer, name));
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn named(name: &str) -> Result<Act, Problem> {
    Act::parse(name).ok_or_else(|| Problem::new(Code::Malformed, "there is no such act"))
}
