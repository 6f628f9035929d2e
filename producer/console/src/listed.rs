//! The list of transactions: its filter, its pages, and the same as a file.
//!
//! The filter stands in the address, so a link shows the same list again. Promises that the links to
//! files carry the filter of the list that they stand at.

use api::{Answer, Problem};
use ledger::transaction::{ReasonCode, State};
use maud::{Markup, html};
use serde_json::Value;

use super::filter;
use super::guarded;
use super::html::{account, items, link, moment, page, pages, state, table, text, transaction};
use super::visit::Visit;

const ADDRESS: &str = "/console/transactions";

/// The parameters of the filter, as the API has them.
const FILTER: [&str; 7] =
    ["state", "account", "reason", "since", "until", "endedSince", "endedUntil"];

/// The parameters of moments, and what they ask for.
const MOMENTS: [(&str, &str); 4] = [
    ("since", "Created since"),
    ("until", "Created before"),
    ("endedSince", "Ended since"),
    ("endedUntil", "Ended before"),
];

/// `GET /console/transactions`
pub async fn list(visit: &Visit) -> Result<Markup, Problem> {
    if let (Some(own), None) = (visit.bound_to(), visit.param("account")) {
        let content = html! {
            (form(visit))
            p { "Name the account: your token is bound to those that begin with: " b { (own) } "." }
        };
        return Ok(page(Some(visit), "Transactions", content));
    }
    let filter = visit.params(&FILTER);
    let cursor = visit.param("cursor");
    let mut asked = filter.clone();
    asked.push(("limit", "100"));
    asked.extend(cursor.map(|cursor| ("cursor", cursor)));
    let answer = visit.ask("listTransactions", "", &asked).await?;
    let content = html! {
        (form(visit))
        (rows(visit, &answer))
        (pager(&filter, cursor.is_some(), &answer))
        p {
            "All of these as a file: "
            a href=(link("/console/export.csv", &filter)) { "CSV" } " "
            a href=(link("/console/export.jsonl", &filter)) { "JSON lines" }
        }
    };
    Ok(page(Some(visit), "Transactions", content))
}

/// `GET /console/export.csv` and `GET /console/export.jsonl`: the answer of the operation that makes
/// the file.
pub async fn export(visit: &Visit, operation: &str) -> Result<Answer, Problem> {
    Ok(guarded(visit.answer(operation, "", &visit.params(&FILTER)).await?))
}

fn form(visit: &Visit) -> Markup {
    let fields = html! {
        (filter::choice(visit, "state", "State", &State::ALL.map(State::as_str)))
        (filter::choice(visit, "reason", "Reason", &ReasonCode::ALL.map(ReasonCode::as_str)))
        (filter::field(visit, "account", "Account"))
        (filter::moments(visit, &MOMENTS))
    };
    filter::form(ADDRESS, &[], &fields)
}

fn rows(visit: &Visit, answer: &Value) -> Markup {
    let transactions = items(answer, "items");
    let heads = ["Id", "State", "From", "To", "Amount", "Created", "Ended", "Reason"];
    let is_final = |one: &Value| State::parse(text(one, "state")).is_some_and(State::is_final);
    html! {
        @if transactions.is_empty() {
            @if answer["next"].is_null() { p { "There are none." } } @else { p { "There are none so far." } }
        } @else {
            (table("Transactions, newest first", &heads, html! {
                @for one in transactions {
                    tr {
                        th scope="row" { (transaction(text(one, "id"))) }
                        td { (state(text(one, "state"))) @if one["parked"].is_object() { " parked" } }
                        @if one["legs"].is_array() {
                            td colspan="3" { (items(one, "legs").len()) " legs" }
                        } @else {
                            td { (account(text(one, "source"))) }
                            td { (account(text(one, "destination"))) }
                            td.number { (visit.amount(text(one, "value"), text(one, "currency"))) }
                        }
                        td { (moment(text(one, "createdAt"))) }
                        td { @if is_final(one) { (moment(text(one, "lastModified"))) } }
                        td { (text(&one["reason"], "code")) }
                    }
                }
            }))
        }
    }
}

/// The ways to the pages around this one.
fn pager(filter: &[(&str, &str)], is_later: bool, answer: &Value) -> Markup {
    html! {
        @if let Some(until) = answer["lookedUntil"].as_str() { p { "Looked as far as " (moment(until)) "." } }
        @if is_later { p { a.button href=(link(ADDRESS, filter)) rel="first" { "First page" } } }
        (pages(ADDRESS, filter, answer))
    }
}
