//! Everything that changes something: asked for, confirmed with a reason, done, and logged.
//!
//! Promises that each act is the API's own operation with its check of the scope, that a GET changes nothing, and
//! that a line in the log says who did what, why, and what became of it. Whoever lacks the scope is refused before
//! that; the access log has it.

use api::{Answer, Code, Problem, Scope};
use axum::http::StatusCode;
use ledger::limits::echo;
use maud::{Markup, html};
use serde_json::Value;

use super::html::{link, page, text};
use super::visit::Visit;
use super::{audit, fields, html as answer_with, moment};

/// What an operator can do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Takes a transaction back before it is applied.
    Cancel,
    /// Changes when a scheduled transaction is due.
    Reschedule,
    /// Captures all of a hold.
    Confirm,
    /// Releases a hold.
    Release,
    /// Takes an applied transaction back.
    Reverse,
    /// Brings a parked transaction back.
    Unpark,
    /// Gives a parked transaction up.
    GiveUp,
    /// Freezes an account.
    Freeze,
    /// Opens a frozen account.
    Unfreeze,
    /// Closes an account.
    Close,
    /// Replays a dead letter.
    Replay,
    /// Takes a dead letter away.
    Discard,
    /// Audits the ledger.
    Audit,
}

/// How an act is told.
struct Wording {
    name: &'static str,
    operation: &'static str,
    verb: &'static str,
    effect: &'static str,
    /// The page of what it is about.
    page: &'static str,
    /// The operation that shows what it is about.
    shown_by: &'static str,
}

impl Act {
    /// All of them.
    pub const ALL: [Act; 13] = [
        Act::Cancel,
        Act::Reschedule,
        Act::Confirm,
        Act::Release,
        Act::Reverse,
        Act::Unpark,
        Act::GiveUp,
        Act::Freeze,
        Act::Unfreeze,
        Act::Close,
        Act::Replay,
        Act::Discard,
        Act::Audit,
    ];

    /// Its name in addresses and in the log.
    pub fn name(self) -> &'static str {
        self.told().name
    }

    /// The operation of the API that it is.
    pub fn operation(self) -> &'static str {
        self.told().operation
    }

    /// What is done, in words.
    pub fn verb(self) -> &'static str {
        self.told().verb
    }

    /// What follows from it.
    pub fn effect(self) -> &'static str {
        self.told().effect
    }

    fn parse(name: &str) -> Option<Act> {
        Act::ALL.into_iter().find(|act| act.name() == name)
    }

    fn told(self) -> Wording {
        let told = |name, operation, verb, effect, page, shown_by| Wording {
            name,
            operation,
            verb,
            effect,
            page,
            shown_by,
        };
        let transaction = |name, operation, verb, effect| {
            told(name, operation, verb, effect, "/console/transaction", "showTransaction")
        };
        let account = |name, operation, verb, effect| {
            told(name, operation, verb, effect, "/console/account", "showAccount")
        };
        let letter = |name, operation, verb, effect| {
            told(name, operation, verb, effect, "/console/letter", "showDeadLetter")
        };
        match self {
            Act::Cancel => transaction(
                "cancel",
                "cancel",
                "Cancel the transaction",
                "A worker undoes what it has posted. No money moves by it.",
            ),
            Act::Reschedule => transaction(
                "reschedule",
                "reschedule",
                "Reschedule the transaction",
                "Nobody settles it before the new moment. It has to be before the moment at which it expires.",
            ),
            Act::Confirm => transaction(
                "confirm",
                "confirm",
                "Confirm the hold",
                "All that is held is captured, and a worker pays it. To capture a part, use producer confirm or the API.",
            ),
            Act::Release => transaction(
                "release",
                "release",
                "Release the hold",
                "All that is held goes home. It can't be confirmed any more.",
            ),
            Act::Reverse => transaction(
                "reverse",
                "reverse",
                "Reverse the transaction",
                "A new transaction moves the same money back. It may be refused, for example when the money is spent.",
            ),
            Act::Unpark => transaction(
                "unpark",
                "replayParked",
                "Bring the parked transaction back",
                "It is published again, and a worker goes on with it. Do it when what was wrong is mended.",
            ),
            Act::GiveUp => transaction(
                "give-up",
                "discardParked",
                "Give the parked transaction up",
                "It is canceled for good, and a worker undoes what it has posted.",
            ),
            Act::Freeze => account(
                "freeze",
                "freeze",
                "Freeze the account",
                "New postings are refused until it is unfrozen. What is posted already comes to its end.",
            ),
            Act::Unfreeze => {
                account("unfreeze", "unfreeze", "Unfreeze the account", "It takes postings again.")
            }
            Act::Close => account(
                "close",
                "close",
                "Close the account",
                "It takes no postings any more, for good. It has to be empty.",
            ),
            Act::Replay => letter(
                "replay",
                "replayDeadLetter",
                "Replay the letter",
                "What waits is published, what is parked is unparked. The letter goes when nothing of it is left.",
            ),
            Act::Discard => letter(
                "discard",
                "discardDeadLetter",
                "Discard the letter",
                "It leaves the queue for good. Its transactions stay as they are.",
            ),
            Act::Audit => told(
                "audit",
                "audit",
                "Start an audit",
                "It reads everything that is stored, which takes the database a while. It changes nothing.",
                "/console/audit",
                "",
            ),
        }
    }
}

/// Links to the confirmations of these acts; for a visitor who may not act, why there are none.
pub fn buttons(visit: &Visit, id: &str, acts: &[Act]) -> Markup {
    html! {
        @if acts.is_empty() {}
        @else if visit.operates() {
            p.acts {
                @for act in acts {
                    a.button href=(link("/console/confirm", &[("act", act.name()), ("id", id)])) { (act.told().verb) }
                }
            }
        } @else {
            p.note { "To act, sign in with a token that has the scope operate." }
        }
    }
}

/// `GET /console/confirm`: asks before anything is done.
pub async fn confirm(visit: &Visit) -> Result<Markup, Problem> {
    visit.caller.require(Scope::Operate)?;
    let act = named(visit.param("act").unwrap_or_default())?;
    let id = visit.param("id").unwrap_or_default();
    let told = act.told();
    let shown = match act {
        Act::Audit => Value::Null,
        _ => visit.ask(told.shown_by, id, &[]).await?,
    };
    let content = html! {
        section.confirm {
            p { b { (told.verb) } @if act != Act::Audit { ": " span.id { (id) } } }
            p { (told.effect) }
            (facts(&shown))
            form method="post" action="/console/act" {
                input type="hidden" name="act" value=(told.name);
                input type="hidden" name="id" value=(id);
                @if act == Act::Reschedule { (moment::input(&shown)) }
                label for="reason" { "Reason, for the log" }
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
    const FACTS: [(&str, &str); 9] = [
        ("state", "State"),
        ("notBefore", "Not before"),
        ("expiresAt", "Expires"),
        ("status", "Status"),
        ("value", "Amount"),
        ("source", "From"),
        ("destination", "To"),
        ("currency", "Currency"),
        ("balance", "Balance"),
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
    visit.caller.require(Scope::Operate)?;
    let fields = fields(form);
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    let (act, id, reason) = (named(field("act"))?, field("id"), field("reason"));
    if reason.is_empty() {
        return Err(Problem::new(Code::Invalid, "a reason is needed; it goes into the log"));
    }
    let told = act.told();
    let done = match act {
        Act::Audit => {
            audit::start(&visit.api, &visit.console, &visit.caller.name).map(|()| Value::Null)
        }
        Act::Reschedule => moment::reschedule(visit, id, field(moment::FIELD)).await,
        _ => visit.ask(act.operation(), id, &[]).await,
    };
    let outcome = match &done {
        Ok(answer) => said(answer),
        Err(problem) => problem.detail.clone(),
    };
    tracing::info!(
        target: "operator",
        who = visit.caller.name,
        act = told.name,
        id = %echo(id),
        reason = %echo(reason),
        request = visit.request,
        ok = done.is_ok(),
        outcome,
    );
    done?;
    let content = html! {
        p.fine role="status" { b { "Done: " (told.verb) } @if act != Act::Audit { " " span.id { (id) } } "." }
        @if !outcome.is_empty() { p { "It says now: " b { (outcome) } } }
        @match act {
            Act::Replay | Act::Discard => p { a href="/console/letters" { "To the dead letters" } },
            _ => p { a href=(link(told.page, &[("id", id)])) { "See how it stands" } },
        }
    };
    Ok(answer_with(StatusCode::OK, page(Some(visit), "Done", content)))
}

/// What an answer says of how it stands now.
fn said(answer: &Value) -> String {
    let words = ["id", "state", moment::FIELD, "status", "outcome"].map(|name| text(answer, name));
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn named(name: &str) -> Result<Act, Problem> {
    Act::parse(name).ok_or_else(|| Problem::new(Code::Malformed, "there is no such act"))
}
