//! Everything that changes something: asked for, confirmed with a reason, noted, done, and logged.
//!
//! Promises that each act is the API's own operation with its check of the scope, that a GET
//! changes nothing, and that the list of acts and a line in the log say who did what, why, and what
//! became of it.
//! Whoever lacks the scope is refused before that; the access log has it.

use api::{Answer, Code, Person, Problem};
use axum::http::StatusCode;
use ledger::limits::echo;
use maud::{Markup, html};
use mongo::ActSubject;
use serde_json::{Value, json};

use super::act::Act;
use super::html::{link, page, text};
use super::visit::{Visit, ask};
use super::{audit, fields, floor, html as answer_with, moment};

/// `GET /console/confirm`: asks before anything is done.
pub async fn confirm(visit: &Visit) -> Result<Markup, Problem> {
    let act = named(visit.param("act").unwrap_or_default())?;
    visit.require(act.operation())?;
    let id = visit.param("id").unwrap_or_default();
    let told = act.told();
    let shown = match act {
        Act::Audit => Value::Null,
        _ => visit.ask(told.shown_by, id, &[]).await?,
    };
    let content = html! {
        section.confirm {
            p { b { (told.verb) } @if !act.is_of_ledger() { ": " span.id { (id) } } }
            p { (told.effect) }
            (facts(&shown))
            form method="post" action="/console/act" {
                input type="hidden" name="act" value=(told.name);
                input type="hidden" name="id" value=(id);
                @if act == Act::Reschedule { (moment::input(&shown)) }
                @if act == Act::SetFloor { (floor::input(&shown)) }
                label for="reason" { "Reason, for the list of acts" }
                input #reason name="reason" required maxlength="500" autocomplete="off";
                p.acts {
                    button { (told.verb) }
                    a href=(link(told.page, &[("id", id)])) { "Go back, do nothing" }
                }
            }
        }
    };
    Ok(page(Some(visit), "Are you sure?", content))
}

/// What it is about, with its money.
fn facts(shown: &Value) -> Markup {
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
                @if let Some(value) = shown[name].as_str() { dt { (label) } dd { (value) } }
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
    let (act, id, reason) = (named(field("act"))?, field("id"), field("reason"));
    visit.require(act.operation())?;
    if reason.is_empty() {
        return Err(Problem::new(
            Code::Invalid,
            "a reason is needed; it goes into the list of acts",
        ));
    }
    let (told, person) = (act.told(), visit.acting(reason));
    let done = match act {
        Act::Audit => begin_audit(visit, &person).await,
        Act::Reschedule => moment::reschedule(visit, &person, id, field(moment::FIELD)).await,
        Act::SetFloor => floor::set(visit, &person, id, field(floor::FIELD), reason).await,
        Act::Pause | Act::Resume => {
            let body = json!({ "reason": reason });
            visit.ask_with(&person, act.operation(), "", &body).await
        }
        _ => ask(&visit.api, (&visit.caller, &person), act.operation(), id, &[]).await,
    };
    let outcome = match &done {
        Ok(answer) if act == Act::SetFloor => floor::said(answer),
        Ok(answer) => said(answer),
        Err(problem) => problem.detail.clone(),
    };
    tracing::info!(
        target: "operator",
        who = visit.caller.name,
        person = person.name,
        act = told.name,
        id = %echo(id),
        reason = %echo(reason),
        request = person.request,
        ok = done.is_ok(),
        outcome,
    );
    done?;
    if matches!(act, Act::Pause | Act::Resume) {
        visit.look_for_pause().await;
    }
    let content = html! {
        p.fine role="status" { b { "Done: " (told.verb) } @if !act.is_of_ledger() { " " span.id { (id) } } "." }
        @if !outcome.is_empty() { p { "It says now: " b { (outcome) } } }
        @match act {
            Act::Replay | Act::Discard => p { a href="/console/letters" { "To the dead letters" } },
            _ => p { a href=(link(told.page, &[("id", id)])) { "See how it stands" } },
        }
    };
    Ok(answer_with(StatusCode::OK, page(Some(visit), "Done", content)))
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
    let words = ["id", "state", moment::FIELD, "status", "outcome"].map(|name| text(answer, name));
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn named(name: &str) -> Result<Act, Problem> {
    Act::parse(name).ok_or_else(|| Problem::new(Code::Malformed, "there is no such act"))
}
