//! What people have done: the list, and the part of it that a page of one account or transaction
//! shows.
//!
//! Promises that an act whose end nobody has noted is told as such, and as nothing else.

use api::Problem;
use maud::{Markup, html};
use serde_json::Value;

use super::filter;
use super::html::{
    account, grouped, items, link, moment, page, pages, state, table, text, transaction,
};
use super::visit::Visit;

const ADDRESS: &str = "/console/acts";

/// The acts of one account or transaction that its page shows.
const SHOWN: &str = "20";

/// What a list can be asked for, and how the form names it.
const FILTERS: [(&str, &str); 4] = [
    ("account", "Account"),
    ("transaction", "Transaction"),
    ("who", "Who"),
    ("what", "What, like transaction.cancel"),
];

/// The moments between which the acts are.
const MOMENTS: [(&str, &str); 2] = [("since", "Since"), ("until", "Until")];

/// `GET /console/acts`
pub async fn list(visit: &Visit) -> Result<Markup, Problem> {
    let mut asked = visit.params(&FILTERS.map(|(name, _)| name));
    asked.extend(visit.params(&MOMENTS.map(|(name, _)| name)));
    let cursor = visit.params(&["cursor"]);
    asked.extend(&cursor);
    asked.push(("limit", "100"));
    let answer = visit.ask("listActs", "", &asked).await?;
    asked.retain(|(name, _)| *name != "limit");
    let content = html! {
        p { "What people have done by the API, the console and the command line. It is noted before it is done, and kept for ever." }
        (filter::form(ADDRESS, &[], &html! {
            @for (name, label) in FILTERS { (filter::field(visit, name, label)) }
            (filter::moments(visit, &MOMENTS))
        }))
        (rows(items(&answer, "items")))
        (pages(ADDRESS, &asked, &answer))
    };
    Ok(page(Some(visit), "Acts", content))
}

/// The newest acts on an account or a transaction; `kind` is the parameter that names it.
pub async fn section(visit: &Visit, kind: &'static str, id: &str) -> Markup {
    let content = match visit.require("listActs") {
        Err(problem) => html! { p.note { "Who did what is not shown: " (problem.detail) "." } },
        Ok(()) => match visit.ask("listActs", "", &[(kind, id), ("limit", SHOWN)]).await {
            Err(problem) => html! { p.problem { "Who did what is not known: " (problem.detail) } },
            Ok(answer) => html! {
                (rows(items(&answer, "items")))
                @if answer["next"].is_string() { p { a href=(link(ADDRESS, &[(kind, id)])) { "All of them" } } }
            },
        },
    };
    html! { section { h2 { "Acts" } (content) } }
}

fn rows(acts: &[Value]) -> Markup {
    if acts.is_empty() {
        return html! { p { "There are none." } };
    }
    table(
        "Acts, newest first",
        &["When", "What", "On", "Who", "Why", "What became of it"],
        html! {
            @for act in acts {
                tr {
                    td { (moment(text(act, "at"))) }
                    th.what scope="row" { (text(act, "what")) }
                    td { (subject(&act["on"])) }
                    td { (who(&act["who"])) }
                    td { (text(act, "reason")) }
                    td { (end(&act["ended"])) }
                }
            }
        },
    )
}

fn subject(on: &Value) -> Markup {
    let kind = text(on, "kind");
    let ids = items(on, "ids");
    html! {
        @if ids.is_empty() && on["count"].is_null() { (kind) }
        @for id in ids {
            @let id = id.as_str().unwrap_or_default();
            @match kind {
                "account" => (account(id)),
                "transaction" => (transaction(id)),
                _ => span.id { (id) },
            }
            " "
        }
        @if let Some(count) = on["count"].as_u64() { (grouped(count)) " " (kind) "s" @if !ids.is_empty() { " in all" } }
    }
}

fn who(who: &Value) -> Markup {
    let from = text(who, "from");
    let person = text(who, "person");
    html! {
        @if !person.is_empty() { b { (person) } " by the token " }
        b { (text(who, "name")) } @if who["claimed"] == true { " (as claimed)" }
        ", " (text(who, "via")) @if !from.is_empty() { ", from " (from) }
    }
}

fn end(ended: &Value) -> Markup {
    if !ended.is_object() {
        return html! { "begun; its end is not known" };
    }
    let code = text(ended, "code");
    html! {
        (state(text(ended, "result"))) @if !code.is_empty() { " " (code) }
        " " (text(ended, "message")) ", " (moment(text(ended, "at")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_act_without_an_end_says_that_it_is_not_known_and_a_claimed_name_that_it_is_claimed() {
        let act = json!({
            "at": "2026-11-29T09:10:00Z", "what": "account.freeze",
            "on": { "kind": "account", "ids": ["<alice>"] },
            "who": { "name": "ada", "via": "command-line", "from": "host", "claimed": true },
        });
        let page = rows(&[act]).into_string();
        assert!(page.contains("its end is not known") && page.contains("(as claimed)"), "{page}");
        assert!(page.contains("&lt;alice&gt;") && !page.contains("<alice>"), "{page}");
        let many = subject(&json!({ "kind": "letter", "ids": [], "count": 1_200 })).into_string();
        assert_eq!(many, "1,200 letters");
        assert_eq!(subject(&json!({ "kind": "ledger", "ids": [] })).into_string(), "ledger");
    }
}
