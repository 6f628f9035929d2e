//! The floor of a form that sets it, and how an account tells of its last change.
//!
//! Promises that the API's own operation reads the floor, with the reason of the form, so the
//! account keeps both. Fails with the problem of that operation, which names the field.

use api::{Person, Problem};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::form::Typed;
use super::html::{moment, text};
use super::visit::Visit;

/// The field of the form, named as in the API.
pub const FIELD: &str = "floor";

/// How no floor at all is written.
const NONE: &str = "none";

/// The field, with the floor that the account has now.
pub fn input(shown: &Value, typed: &Typed) -> Markup {
    let label = html! { "Lowest balance, as amounts are written here; " (NONE) " for no floor" };
    typed.field(FIELD, &label, of(shown), 40)
}

/// The floor of an account as it is written; that of one without a floor is missing.
fn of(account: &Value) -> &str {
    account[FIELD].as_str().unwrap_or(NONE)
}

/// Sets the floor that the field names.
pub async fn set(
    visit: &Visit,
    person: &Person,
    id: &str,
    floor: &str,
    reason: &str,
) -> Result<Value, Problem> {
    if floor.is_empty() {
        return Err(Problem::field(FIELD, format!("is needed; write {NONE} for no floor")));
    }
    visit.ask_with(person, "setFloor", id, &json!({ FIELD: floor, "reason": reason })).await
}

/// What an answer says of how it stands now.
pub fn said(account: &Value) -> String {
    format!("{} floor {}", text(account, "id"), of(account))
}

/// When, from what and why the floor was changed last.
pub fn changed(change: &Value, amount: impl Fn(&str) -> Markup) -> Markup {
    html! {
        "The floor was changed at " (moment(text(change, "at"))) ", from "
        @match change["from"].as_str() { Some(from) => (amount(from)), None => (NONE) }
        @if let Some(by) = change["by"].as_str() { ", by " (by) }
        @if let Some(reason) = change["reason"].as_str() { ": " (reason) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_without_a_floor_says_none_and_a_change_says_what_is_known_of_it() {
        assert_eq!(said(&json!({ "id": "a", "floor": "-5" })), "a floor -5");
        assert_eq!(said(&json!({ "id": "a" })), "a floor none");
        let told = |change: Value| changed(&change, |text| html! { (text) }).into_string();
        let at = "2026-11-01T00:00:00Z";
        let all = told(json!({ "at": at, "from": "7", "reason": "<b>", "by": "ada" }));
        assert!(all.ends_with(", from 7, by ada: &lt;b&gt;"), "{all}");
        assert!(told(json!({})).ends_with(", from none"));
    }
}
