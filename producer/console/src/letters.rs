//! What was set apart: dead letters by reason, and parked transactions.

use std::collections::BTreeMap;

use api::Problem;
use maud::{Markup, html};
use mongo::{ParkedFilter, ParkedTransaction};
use serde_json::Value;

use super::act::{Act, buttons};
use super::bulk::{PARKED_MAX, Sums};
use super::html::{grouped, items, link, moment, page, state, table, text, transaction};
use super::visit::Visit;

/// `GET /console/letters`
pub async fn list(visit: &Visit) -> Result<Markup, Problem> {
    visit.require("listDeadLetters")?;
    let mut asked = visit.params(&["reason"]);
    asked.push(("limit", "100"));
    let letters = visit.ask("listDeadLetters", "", &asked).await;
    let parked = visit.ask("listParked", "", &[("limit", "100")]).await;
    let all = visit.api.parked_transactions(&visit.caller, ParkedFilter::default(), PARKED_MAX);
    let all = all.await;
    let failed = |problem: Problem| html! { p.problem { (problem.detail) } };
    let content = html! {
        p { a href="/console/job" { "Bulk jobs: the one under way, and the last ones" } }
        section {
            h2 { "Messages that workers have given up" }
            (letters.map_or_else(failed, |letters| dead(&letters)))
        }
        section #parked {
            h2 { "Parked transactions" }
            (all.map_or_else(failed, |all| groups(&all)))
            (parked.map_or_else(failed, |parked| set_apart(items(&parked, "items"))))
        }
    };
    Ok(page(Some(visit), "Dead letters and parked", content))
}

/// What is done with all of a group.
fn in_bulk(acts: [Act; 2], code: &str) -> Markup {
    html! {
        @for act in acts {
            a href=(link("/console/bulk", &[("act", act.name()), ("code", code)])) { (act.verb()) ": all" } " "
        }
    }
}

/// Parked transactions by reason, with what they would move.
fn groups(parked: &[ParkedTransaction]) -> Markup {
    let mut groups = BTreeMap::<&str, (u64, Sums)>::new();
    for transaction in parked {
        let (count, sums) = groups.entry(&transaction.entry.code).or_default();
        *count += 1;
        sums.add(transaction);
    }
    let more = if parked.len() >= PARKED_MAX as usize { "+" } else { "" };
    html! {
        @if !groups.is_empty() {
            (table("Parked transactions by reason", &["Reason", "Transactions", "Sum", "All of them"], html! {
                @for (code, (count, sums)) in &groups {
                    tr {
                        th scope="row" { (code) }
                        td.number { (grouped(*count)) (more) }
                        td.number { (sums.shown()) }
                        td { (in_bulk([Act::Unpark, Act::GiveUp], code)) }
                    }
                }
            }))
            form.filter action="/console/bulk" {
                label for="account" { "All with a leg on the account" }
                input #account name="account" required maxlength="1000";
                select name="act" aria-label="What to do with them" {
                    @for act in [Act::Unpark, Act::GiveUp] { option value=(act.name()) { (act.verb()) } }
                }
                button { "Preview" }
            }
        }
    }
}

fn dead(letters: &Value) -> Markup {
    html! {
        @if letters["count"] == 0 && letters["complete"] == true { p { "There are none." } }
        @if letters["complete"] == false {
            p { "Of the oldest " (grouped(letters["count"].as_u64().unwrap_or_default())) " letters; there are more." }
        }
        ul.groups {
            @for group in items(letters, "groups") {
                @let reason = text(group, "reason");
                li {
                    a href=(link("/console/letters", &[("reason", reason)])) { (reason) } " "
                    b { (grouped(group["count"].as_u64().unwrap_or_default())) } " "
                    (in_bulk([Act::Replay, Act::Discard], reason))
                }
            }
        }
        @if !items(letters, "items").is_empty() {
            (table("Dead letters, at most 100", &["Letter", "Reason", "Since", "In words"], html! {
                @for letter in items(letters, "items") {
                    tr {
                        th scope="row" { a.id href=(link("/console/letter", &[("id", text(letter, "id"))])) { (text(letter, "id")) } }
                        td { (text(letter, "reason")) }
                        td { (moment(text(letter, "diedAt"))) }
                        td { (text(letter, "detail")) }
                    }
                }
            }))
        }
    }
}

fn set_apart(parked: &[Value]) -> Markup {
    html! {
        @if parked.is_empty() { p { "There are none." } }
        @else {
            (table("Parked transactions, at most 100", &["Id", "State", "Since", "Why", "In words"], html! {
                @for one in parked {
                    tr {
                        th scope="row" { (transaction(text(one, "id"))) }
                        td { (state(text(one, "state"))) }
                        td { (moment(text(one, "at"))) }
                        td { (text(one, "code")) }
                        td { (text(one, "message")) }
                    }
                }
            }))
        }
    }
}

/// `GET /console/letter`
pub async fn show(visit: &Visit) -> Result<Markup, Problem> {
    let id = visit.param("id").unwrap_or_default();
    let seen = visit.ask("showDeadLetter", id, &[]).await?;
    let letter = &seen["letter"];
    let content = html! {
        p { span.id { (text(letter, "id")) } " since " (moment(text(letter, "diedAt"))) }
        p.problem { b { (text(letter, "reason")) } " – " (text(letter, "detail")) }
        @if let Some(problem) = seen["problem"].as_str() { p.problem { "It can't be replayed: " (problem) } }
        (buttons(visit, id, &seen, &[Act::Replay, Act::Discard]))
        section {
            h2 { "Its transactions" }
            (table("Its transactions", &["Id", "Is", "Problem"], html! {
                @for one in items(&seen, "transactions") {
                    tr {
                        th scope="row" { (transaction(text(one, "id"))) }
                        td { (text(one, "is")) " " (text(one, "state")) }
                        td { (text(one, "problem")) }
                    }
                }
            }))
        }
        section { h2 { "Message" } pre { (text(letter, "body")) } }
    };
    Ok(page(Some(visit), "Dead letter", content))
}
