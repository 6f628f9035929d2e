//! The amount of a form that confirms a hold.
//!
//! Promises that nobody captures all by leaving the field empty: all that is held stands in it at
//! first, and what stands in it is captured. A hold with many legs has no such field, and is
//! captured as a whole. Fails with a problem that names the field.

use api::{Code, Person, Problem};
use ledger::limits::echo;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::form::Typed;
use super::visit::{Visit, ask};

/// The field of the form, named as in the API.
pub const FIELD: &str = "value";

/// The field, with all that is held; `amount` shows an amount as a person reads it.
pub fn input(shown: &Value, typed: &Typed, amount: impl Fn(&str) -> Markup) -> Markup {
    let Some(held) = shown[FIELD].as_str() else {
        return html! {
            p.note { "All that is held is captured. To capture a part of several legs, use the command line or the API." }
        };
    };
    let read = amount(held);
    let label = html! {
        "How much to capture: " (held) " is all that is held"
        @if read.0 != held { ", " (read) }
    };
    typed.field(FIELD, &label, held, 40)
}

/// Confirms the hold, with what the field says, if the form has one.
pub async fn confirm(
    visit: &Visit,
    person: &Person,
    id: &str,
    value: Option<&str>,
) -> Result<Value, Problem> {
    let Some(value) = value else {
        return ask(&visit.api, (&visit.caller, person), "confirm", id, &[]).await;
    };
    if value.is_empty() {
        return Err(Problem::field(FIELD, "is empty; write how much to capture"));
    }
    let answer = visit.ask_with(person, "confirm", id, &json!({ FIELD: value })).await;
    answer.map_err(|problem| of_the_form(problem, value))
}

/// The problem, as one of the field. What is more than is held is told of the legs that it would
/// make.
fn of_the_form(problem: Problem, value: &str) -> Problem {
    let is_of_legs = problem.errors.iter().any(|error| error.pointer == "#/captured");
    match problem.code == Code::Invalid && is_of_legs {
        true => Problem::field(FIELD, format!("{} is more than is held", echo(value))),
        false => problem,
    }
}

/// What an answer says of how it stands now.
pub fn said(how_it_stands: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("{how_it_stands}, captured {}", echo(value)),
        None => format!("{how_it_stands}, captured as a whole"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_held_stands_in_the_field_at_first_and_many_legs_have_none() {
        let amount = |text: &str| html! { "EUR " (text) };
        let one = json!({ "value": "1250", "source": "a", "destination": "b" });
        let shown = input(&one, &Typed::default(), amount).into_string();
        assert!(shown.contains("name=\"value\" required"), "{shown}");
        assert!(shown.contains("value=\"1250\"") && shown.contains("EUR 1250"), "{shown}");
        let many = input(&json!({ "legs": [] }), &Typed::default(), amount).into_string();
        assert!(!many.contains("<input") && many.contains("All that is held"), "{many}");
    }

    #[test]
    fn too_much_is_told_of_the_field_and_what_is_no_matter_of_it_stays_as_it_is() {
        let too_much = Problem::field("captured", "has -6 for account \"a\"");
        let told = of_the_form(too_much, "6");
        assert_eq!(told.detail, "value: 6 is more than is held");
        assert_eq!(told.errors[0].pointer, "#/value");
        let gone = Problem::new(Code::WrongState, "t: not held yet");
        assert_eq!(of_the_form(gone.clone(), "6"), gone);
        assert_eq!(said("t pending", Some("6")), "t pending, captured 6");
    }
}
