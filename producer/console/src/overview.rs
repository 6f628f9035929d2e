//! The overview: what is wrong on top, then how it goes.
//!
//! The script asks for this page again at each event of the stream and puts its sections in place
//! of the old ones, so there is one way to draw it.

use api::{Answer, Problem};
use maud::{Markup, html};
use overview::duration;
use serde_json::Value;

use super::act::{Act, buttons};
use super::chart::chart;
use super::handbook::reference;
use super::html::{
    count, grouped, items, link, moment, page as framed, places, rounded, sentence, state, table,
    text, transaction,
};
use super::visit::Visit;

/// `GET /`
pub async fn page(visit: &Visit) -> Result<Markup, Problem> {
    if let Some(own) = visit.bound_to() {
        let content = html! {
            p { "An overview is about all accounts, and your token is bound to those that begin with: " b { (own) } ". This is there for you:" }
            (places(Some(visit)))
        };
        return Ok(framed(Some(visit), "Overview", content));
    }
    let seen = visit.ask("overview", "", &[]).await?;
    let points = items(&seen, "points");
    let content = html! {
        p.fresh #fresh { "Not live: reload the page for newer data" }
        div #live data-stream="/console/stream" {
            section.fresh #moment { "As of " (moment(text(&seen, "at"))) }
            section #problems { (problems(&seen)) }
            section #figures aria-label="Figures" { (figures(&seen)) }
            section #charts aria-label="Charts" {
                (chart("Settled", "a second", points, &[("settled", "all workers")]))
                (chart("Submission to final state", "ms", points, &[("p50", "p50"), ("p99", "p99")]))
            }
            section #workers { h2 { "Workers" } (workers(visit, &seen)) }
            div.two {
                section #queues { h2 { "Queues" } (queues(&seen)) }
                section #refusals { h2 { "Refused in the last 15 minutes" } (refusals(&seen)) }
            }
            section #settlement { h2 { "Settlement" } (settlement(visit, &seen)) }
            section #connections { h2 { "Connections" } (connections(&seen["connections"])) }
        }
    };
    Ok(framed(Some(visit), "Overview", content))
}

/// `GET /console/stream`: the stream of the API, for browsers that are signed in.
pub async fn stream(visit: &Visit) -> Result<Answer, Problem> {
    visit.answer("watchOverview", "", &[]).await
}

fn problems(seen: &Value) -> Markup {
    let problems = items(seen, "problems");
    html! {
        @if problems.is_empty() { p.fine { "Nothing is wrong." } }
        @for problem in problems {
            article.problem.(text(problem, "severity")) {
                h2 { (text(problem, "severity")) ": " (text(problem, "title")) }
                p { (sentence(text(problem, "cause"))) }
                @if let Some((address, name)) = place(text(problem, "code")) {
                    p { a href=(address) { (name) } }
                }
                p { b { "What to do: " } (sentence(text(problem, "remedy"))) " (" (reference(text(problem, "link"))) ")" }
            }
        }
    }
}

/// The page of the console where more is to be seen of a problem.
fn place(code: &str) -> Option<(&'static str, &'static str)> {
    match code {
        "parked" => Some(("/console/letters#parked", "See the parked transactions")),
        "dead_letters" => Some(("/console/letters", "See the dead letters")),
        "due_not_moved" => Some(("/console/transactions?state=scheduled", "See what is scheduled")),
        "oldest_is_old" => Some(("/console/transactions?state=pending", "See what is pending")),
        "backlog_is_long" => Some(("/console/transactions?state=initial", "See what waits")),
        "many_refusals" => Some(("/console/transactions?state=canceled", "See what was canceled")),
        _ => None,
    }
}

fn figure(name: &str, value: &str, more: Markup) -> Markup {
    html! { div.figure { span { (name) } b { (value) } small { (more) } } }
}

fn figures(seen: &Value) -> Markup {
    let ms = |name: &str| rounded(&seen["latencyMs"][name]) + " ms";
    let backlog = &seen["backlog"];
    let waits = backlog["transactions"].as_u64().map_or_else(|| "not known".to_owned(), grouped);
    let waits = if backlog["capped"] == true { format!("{waits}+") } else { waits };
    let clears = backlog["clearsInS"].as_u64().map(|s| duration(s * 1_000));
    let oldest = &seen["oldest"];
    let age = oldest["ageMs"].as_u64().map_or_else(|| "none".to_owned(), duration);
    let due = &seen["due"];
    let due_count = if due.is_null() { "none".to_owned() } else { count(due) };
    let dead = seen["dead"]["messages"].as_u64().map_or_else(|| "not known".to_owned(), grouped);
    html! {
        (figure("Settled a second", &rounded(&seen["rate"]["settled"]), html! { "over 6 s" }))
        (figure("Latency p50", &ms("p50"), html! { "p99 " (ms("p99")) ", 1 min" }))
        (figure("Backlog", &waits, html! {
            @if let Some(clears) = clears { "clear in " (clears) " at this rate" }
        }))
        (figure("Oldest unfinished", &age, html! {
            @if oldest.is_object() { (transaction(text(oldest, "id"))) " " (text(oldest, "state")) }
        }))
        @for name in ["scheduled", "initial", "pending", "held", "applied", "canceling"] {
            (figure(name, &count(&seen["states"][name]), html! {
                a href={ "/console/transactions?state=" (name) } { "List " (name) }
            }))
        }
        (figure("Due", &due_count, html! {
            @if due.is_object() { "the first for " (duration(due["lateMs"].as_u64().unwrap_or_default())) }
        }))
        (figure("Parked", &count(&seen["parked"]), html! { a href="/console/letters#parked" { "List parked" } }))
        (figure("Dead letters", &dead, html! { a href="/console/letters" { "List dead letters" } }))
        (figure("Events due", &count(&seen["eventsDue"]), html! {}))
    }
}

fn workers(visit: &Visit, seen: &Value) -> Markup {
    let workers = items(seen, "workers");
    let heads = [
        "Name",
        "Does",
        "Version",
        "Engine",
        "Lanes",
        "Holds",
        "Settles a second",
        "Done",
        "Canceled",
        "Seen",
    ];
    let number = |worker: &Value, name: &str| grouped(worker[name].as_u64().unwrap_or_default());
    let rows = html! {
        @for worker in workers {
            tr {
                th scope="row" { (text(worker, "name")) }
                td { (state(text(worker, "activity"))) (drain(visit, worker)) }
                td { (text(worker, "version")) }
                td { (text(worker, "engine")) @if worker["engine"] != worker["engineNow"] { " (" (text(worker, "engineNow")) ")" } }
                td.number { (number(worker, "lanes")) }
                td.number { (number(worker, "holds")) }
                td.number { (rounded(&worker["settled"])) }
                td.number { (number(worker, "done")) }
                td.number { (number(worker, "canceled")) }
                td { (duration(worker["seenMsAgo"].as_u64().unwrap_or_default())) " ago" }
            }
        }
    };
    let more = seen["workersLeftOut"].as_u64().unwrap_or_default();
    html! {
        @if workers.is_empty() { p { "No worker was seen within the last quarter of an hour." } }
        @else { (table("Workers", &heads, rows)) }
        @if more > 0 { p { "and " (grouped(more)) " more" } }
    }
}

/// Who has drained a worker, if somebody has; and for whoever may do it, the way to the opposite.
fn drain(visit: &Visit, worker: &Value) -> Markup {
    let drain = &worker["drain"];
    let act = if drain.is_object() { Act::ResumeWorker } else { Act::Drain };
    let is_there = !matches!(text(worker, "activity"), "stopped" | "silent");
    let query = [("act", act.name()), ("id", text(worker, "name"))];
    html! {
        @if drain.is_object() {
            " drained since " (moment(text(drain, "since"))) " by " b { (text(drain, "by")) } ": "
            (text(drain, "reason"))
        }
        @if (is_there || drain.is_object()) && visit.may(act.operation()) {
            " " a href=(link("/console/confirm", &query)) { (act.verb()) }
        }
    }
}

fn queues(seen: &Value) -> Markup {
    let number = |queue: &Value, name: &str| grouped(queue[name].as_u64().unwrap_or_default());
    html! {
        @if seen["queues"].is_null() { p { "Not known: the broker has not answered yet." } }
        @else {
            (table("Queues", &["Queue", "Messages", "Consumers"], html! {
                @for queue in items(seen, "queues") {
                    tr {
                        th scope="row" { (text(queue, "key")) }
                        td.number { (number(queue, "messages")) }
                        td.number { (number(queue, "consumers")) }
                    }
                }
            }))
        }
    }
}

fn refusals(seen: &Value) -> Markup {
    let refusals = seen["refusals"].as_object().filter(|refusals| !refusals.is_empty());
    html! {
        @if let Some(refusals) = refusals {
            (table("Refusals by reason", &["Reason", "Transactions"], html! {
                @for (code, number) in refusals {
                    tr { th scope="row" { (code) } td.number { (grouped(number.as_u64().unwrap_or_default())) } }
                }
            }))
        } @else { p { "None." } }
    }
}

fn settlement(visit: &Visit, seen: &Value) -> Markup {
    let pause = &seen["pause"];
    let act = if pause.is_object() { Act::Resume } else { Act::Pause };
    html! {
        @if pause.is_object() {
            p {
                "Paused since " (moment(text(pause, "since"))) " by " b { (text(pause, "by")) } ": "
                (text(pause, "reason"))
            }
        } @else { p { "Workers settle what comes." } }
        (buttons(visit, "ledger", &Value::Null, &[act]))
    }
}

fn connections(connections: &Value) -> Markup {
    html! {
        ul {
            @for (key, name) in [("mongodb", "MongoDB"), ("amqp", "RabbitMQ")] {
                @let connection = &connections[key];
                li {
                    b { (name) } ": " @if connection["up"] == true { "there" } @else { "away" }
                    " since " (moment(text(connection, "since")))
                    @if let Some(problem) = connection["problem"].as_str() { " – " (problem) }
                }
            }
        }
    }
}
