//! Accounts: the list, and one with its statement.

use api::Problem;
use maud::{Markup, html};
use serde_json::Value;

use super::act::{Act, buttons};
use super::acts;
use super::filter;
use super::floor;
use super::html::{account, items, link, moment, page, pages, state, table, text, transaction};
use super::visit::Visit;

/// The address of the page of one account.
const ADDRESS: &str = "/console/account";

/// Of which period a statement is, and how the form says it.
const PERIOD: [(&str, &str); 2] = [("from", "Booked since"), ("to", "Booked before")];

/// The order of a statement that is shown at first.
const NEWEST: &str = "newest";

/// How many marks of an account are shown.
const MARKS_SHOWN_MAX: usize = 100;

/// `GET /console/accounts`
pub async fn list(visit: &Visit) -> Result<Markup, Problem> {
    let mut asked = visit.params(&["cursor"]);
    asked.push(("limit", "100"));
    let answer = visit.ask("listAccounts", "", &asked).await?;
    let heads = [
        "Account",
        "Status",
        "Balance",
        "Available",
        "Pending out",
        "Pending in",
        "Marks",
        "Holds",
    ];
    let content = html! {
        (table("Accounts by name", &heads, html! {
            @for one in items(&answer, "items") {
                tr {
                    th scope="row" {
                        (account(text(one, "id")))
                        @if let Some(invalid) = one["invalid"].as_str() { p.problem { (invalid) } }
                    }
                    td { (state(text(one, "status"))) }
                    @for name in ["balance", "available", "pendingDebits", "pendingCredits"] {
                        td.number { (visit.amount(text(one, name), text(one, "currency"))) }
                    }
                    td.number { (one["marks"]) }
                    td.number { (one["holds"].as_u64().unwrap_or_default()) }
                }
            }
        }))
        (pages("/console/accounts", &[], &answer))
    };
    Ok(page(Some(visit), "Accounts", content))
}

/// `GET /console/account`
pub async fn show(visit: &Visit) -> Result<Markup, Problem> {
    let id = visit.param("id").unwrap_or_default();
    let one = visit.ask("showAccount", id, &[]).await?;
    let allowed: &[Act] = match text(&one, "status") {
        "open" => &[Act::SetFloor, Act::Freeze, Act::Close],
        "frozen" => &[Act::SetFloor, Act::Unfreeze, Act::Close],
        _ => &[],
    };
    let currency = text(&one, "currency");
    let amount = |written: &str| visit.amount(written, currency);
    let available = match one["floor"].is_null() {
        true => html! { "no limit" },
        false => amount(text(&one, "available")),
    };
    let marks = items(&one, "pendingTransactions");
    let on_hold = match one["holds"].as_u64() {
        None => html! { "0" },
        Some(holds) => {
            let held = one["onHold"].as_str();
            html! { (held.map_or(html! { "not known" }, amount)) " (" (holds) " holds)" }
        }
    };
    let content = html! {
        p { span.id { (text(&one, "id")) } " " (state(text(&one, "status"))) " " (text(&one, "currency")) }
        @if let Some(invalid) = one["invalid"].as_str() { p.problem { b { "It can't be read: " } (invalid) } }
        section #figures aria-label="Money" {
            @for (name, amount) in [
                ("Balance", amount(text(&one, "balance"))), ("Available", available),
                ("Pending out", amount(text(&one, "pendingDebits"))), ("Of it on hold", on_hold), ("Pending in", amount(text(&one, "pendingCredits"))),
                ("Floor", one["floor"].as_str().map_or(html! { "none" }, amount)), ("Opened with", amount(text(&one, "openingBalance"))),
            ] { div.figure { span { (name) } b { (amount) } } }
        }
        @if one["floorChange"].is_object() { p { (floor::changed(&one["floorChange"], amount)) } }
        (buttons(visit, id, &one, allowed))
        section {
            h2 { "In flight and on hold" }
            @if marks.is_empty() { p { "Nothing." } }
            ul.ids { @for mark in marks.iter().take(MARKS_SHOWN_MAX) { li { (transaction(mark.as_str().unwrap_or_default())) } } }
            @if marks.len() > MARKS_SHOWN_MAX { p { "The first " (MARKS_SHOWN_MAX) " of " (one["marks"]) "." } }
            p { a href=(link("/console/transactions", &[("account", id)])) { "All transactions of this account" } }
        }
        section { h2 { "Statement" } (statement(visit, id, currency).await) }
        (acts::section(visit, "account", id).await)
    };
    Ok(page(Some(visit), "Account", content))
}

async fn statement(visit: &Visit, id: &str, currency: &str) -> Markup {
    // People look for what has happened last.
    let order = visit.param("order").unwrap_or(NEWEST);
    let mut asked = visit.params(&PERIOD.map(|(name, _)| name));
    asked.extend(visit.params(&["cursor"]));
    asked.extend([("order", order), ("limit", "100")]);
    let kept = [("id", id), ("order", order)];
    let form = filter::form(ADDRESS, &kept, &filter::moments(visit, &PERIOD));
    let answer = match visit.ask("statement", id, &asked).await {
        Ok(answer) => answer,
        Err(problem) => {
            return html! { (form) p.problem { "There is no statement: " (problem.detail) } };
        }
    };
    asked.retain(|(name, _)| *name != "limit");
    asked.push(("id", id));
    let booked = items(&answer, "items");
    html! {
        (form)
        (in_other_order(order, &asked))
        (curve(booked, order == NEWEST))
        p { "Balance before: " b { (visit.amount(text(&answer, "opening"), currency)) }
            ", after: " b { (visit.amount(text(&answer, "closing"), currency)) } }
        (table("Statement", &["Booked", "Transaction", "With", "Amount", "Balance"], html! {
            @for entry in booked {
                tr {
                    td { (moment(text(entry, "bookedAt"))) }
                    @let why = &entry["adjustment"];
                    th scope="row" { @if why.is_object() { (text(entry, "id")) } @else { (transaction(text(entry, "id"))) } }
                    td { @if why.is_object() { "adjusted by " (text(why, "by")) ": " (text(why, "reason")) }
                        @for with in items(entry, "counterparties") { (account(with.as_str().unwrap_or_default())) " " } }
                    td.number { (visit.amount(text(entry, "amount"), currency)) }
                    td.number { (visit.amount(text(entry, "balance"), currency)) }
                }
            }
        }))
        (pages(ADDRESS, &asked, &answer))
    }
}

/// The link to the same statement the other way round.
fn in_other_order(order: &str, asked: &[(&str, &str)]) -> Markup {
    let (other, told) = match order == NEWEST {
        true => ("oldest", "The newest come first. Show the oldest first"),
        false => (NEWEST, "The oldest come first. Show the newest first"),
    };
    let same = asked.iter().copied().filter(|(name, _)| !["cursor", "order"].contains(name));
    let query: Vec<_> = same.chain([("order", other)]).collect();
    html! { p { a href=(link(ADDRESS, &query)) { (told) } } }
}

/// The running balance as a line. Here alone are amounts read as numbers: for the height of a
/// point.
fn curve(booked: &[Value], is_newest_first: bool) -> Markup {
    let mut balances: Vec<f64> =
        booked.iter().filter_map(|entry| text(entry, "balance").parse().ok()).collect();
    // Time goes to the right.
    if is_newest_first {
        balances.reverse();
    }
    if balances.len() < 2 {
        return html! {};
    }
    let least = balances.iter().copied().fold(f64::INFINITY, f64::min);
    let most = balances.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let span = if most > least { most - least } else { 1.0 };
    let step = 600.0 / (balances.len() - 1) as f64;
    let point = |(at, balance): (usize, &f64)| {
        format!("{:.1},{:.1}", at as f64 * step, 58.0 - (balance - least) / span * 56.0)
    };
    let points: Vec<String> = balances.iter().enumerate().map(point).collect();
    html! {
        svg.curve viewBox="0 0 600 60" role="img" aria-label="The balance over the entries of this page" {
            polyline.line0 points=(points.join(" ")) fill="none" {}
        }
    }
}
