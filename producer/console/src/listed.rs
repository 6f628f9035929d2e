//! The list of transactions: its filter, its pages, and the same as a file.
//!
//! The filter stands in the address, so a link shows the same list again. Of the pages before this
//! one, the address has the cursors (`trail`), so that there is a way back without a second order of
//! reading. Promises that the links to files carry the filter of the list that they stand at.

use api::{Answer, Problem};
use ledger::transaction::{ReasonCode, State};
use maud::{Markup, html};
use serde_json::Value;

use super::guarded;
use super::html::{account, items, link, moment, page, state, table, text, transaction};
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

/// What stands between the cursors of a trail. No cursor has it.
const BETWEEN: char = '.';

/// Of so many pages before, the address has the cursors: it must not become too long.
const TRAIL_MAX: usize = 20;

/// `GET /console/transactions`
pub async fn list(visit: &Visit) -> Result<Markup, Problem> {
    let filter = visit.params(&FILTER);
    let (cursor, trail) = (visit.param("cursor"), visit.param("trail").unwrap_or_default());
    let mut asked = filter.clone();
    asked.push(("limit", "100"));
    asked.extend(cursor.map(|cursor| ("cursor", cursor)));
    let answer = visit.ask("listTransactions", "", &asked).await?;
    let pages = Pages::new(cursor, trail, answer["next"].as_str());
    let content = html! {
        (form(visit))
        (rows(visit, &answer))
        (pager(&filter, &pages, answer["lookedUntil"].as_str()))
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
    let choice = |name: &str, label: &str, words: &[&str]| {
        let chosen = visit.param(name);
        html! {
            label for=(name) { (label) }
            select id=(name) name=(name) {
                option value="" { "any" }
                @for word in words { option value=(word) selected[chosen == Some(*word)] { (word) } }
            }
        }
    };
    html! {
        form.filter action=(ADDRESS) {
            (choice("state", "State", &State::ALL.map(State::as_str)))
            (choice("reason", "Reason", &ReasonCode::ALL.map(ReasonCode::as_str)))
            label for="account" { "Account" }
            input #account name="account" value=[visit.param("account")];
            @for (name, label) in MOMENTS {
                label for=(name) { (label) }
                input id=(name) name=(name) value=[visit.param(name)] maxlength="40" placeholder="2026-11-01T00:00:00Z";
            }
            button { "Show" }
        }
    }
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

/// The pages around this one.
#[derive(Debug, PartialEq)]
struct Pages<'a> {
    /// Whether this is not the first one.
    is_later: bool,
    /// The cursor of the page before and the trail to that, where the trail has it.
    previous: Option<(&'a str, String)>,
    /// The cursor of the page that follows and the trail to that, if there is one.
    next: Option<(&'a str, String)>,
}

impl<'a> Pages<'a> {
    /// `trail` has the cursors of the pages between the first one and the one at `cursor`; of more
    /// than [`TRAIL_MAX`], the last ones.
    fn new(cursor: Option<&'a str>, trail: &'a str, next: Option<&'a str>) -> Pages<'a> {
        let behind: Vec<&str> = trail.split(BETWEEN).filter(|one| !one.is_empty()).collect();
        let joined = |cursors: &[&str]| cursors.join(&BETWEEN.to_string());
        let previous = behind.split_last().map(|(last, earlier)| (*last, joined(earlier)));
        let so_far: Vec<&str> = behind.iter().copied().chain(cursor).collect();
        let kept = &so_far[so_far.len().saturating_sub(TRAIL_MAX)..];
        Pages {
            is_later: cursor.is_some(),
            previous: previous.filter(|_| cursor.is_some()),
            next: next.map(|next| (next, joined(kept))),
        }
    }
}

fn pager(filter: &[(&str, &str)], pages: &Pages<'_>, looked_until: Option<&str>) -> Markup {
    let at = |(cursor, trail): &(&str, String)| {
        let place = [("cursor", *cursor), ("trail", trail.as_str())];
        link(ADDRESS, &[filter, &place[..]].concat())
    };
    let go_on = if looked_until.is_some() { "Go on" } else { "Next page" };
    html! {
        @if let Some(until) = looked_until { p { "Looked back to " (moment(until)) "." } }
        p {
            @if pages.is_later { a.button href=(link(ADDRESS, filter)) rel="first" { "First page" } " " }
            @if let Some(previous) = &pages.previous { a.button href=(at(previous)) rel="prev" { "Previous page" } " " }
            @if let Some(next) = &pages.next { a.button href=(at(next)) rel="next" { (go_on) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_has_the_pages_that_were_gone_through_and_ends_at_the_first() {
        let goes = |to: &'static str, trail: &str| Some((to, trail.to_owned()));
        let first = Pages::new(None, "", Some("b"));
        assert_eq!(first, Pages { is_later: false, previous: None, next: goes("b", "") });
        let second = Pages::new(Some("b"), "", Some("c"));
        assert_eq!(second, Pages { is_later: true, previous: None, next: goes("c", "b") });
        let third = Pages::new(Some("c"), "b", Some("d"));
        assert_eq!(
            third,
            Pages { is_later: true, previous: goes("b", ""), next: goes("d", "b.c") }
        );
        let last = Pages::new(Some("d"), "b.c", None);
        assert_eq!(last, Pages { is_later: true, previous: goes("c", "b"), next: None });
        assert_eq!(Pages::new(None, "b", None).previous, None, "somebody has cut the address");
    }

    #[test]
    fn a_trail_does_not_grow_without_an_end() {
        let cursors: Vec<String> = (0..TRAIL_MAX).map(|n| format!("c{n}")).collect();
        let trail = cursors.join(".");
        let page = Pages::new(Some("here"), &trail, Some("next"));
        let (_, trail) = page.next.expect("it goes on");
        assert_eq!(trail.split(BETWEEN).count(), TRAIL_MAX);
        assert!(trail.starts_with("c1.") && trail.ends_with(".here"), "{trail}");
    }
}
