//! The moment of a form that reschedules.
//!
//! Promises that an operator names a moment that is still to come, on the database's clock: one
//! that has passed would make the transaction due at once, which nobody means who types a date.
//! Fails with a problem that names the field.

use api::{Person, Problem};
use bson::DateTime;
use ledger::limits::echo;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::html::text;
use super::visit::Visit;

/// The field of the form, named as in the API.
pub const FIELD: &str = "notBefore";

const EXAMPLE: &str = "2026-11-01T00:00:00Z";

/// The field, with the moment at which it is due now.
pub fn input(shown: &Value) -> Markup {
    html! {
        label for=(FIELD) { "Not before, like " (EXAMPLE) }
        input id=(FIELD) name=(FIELD) required maxlength="40" autocomplete="off" value=(text(shown, FIELD));
    }
}

/// Reschedules as the field says.
pub async fn reschedule(
    visit: &Visit,
    person: &Person,
    id: &str,
    moment: &str,
) -> Result<Value, Problem> {
    let now = visit.api.database_now(&visit.caller).await?;
    check(moment, DateTime::from_millis(now))?;
    visit.ask_with(person, "reschedule", id, &json!({ FIELD: moment })).await
}

fn check(moment: &str, now: DateTime) -> Result<(), Problem> {
    let Ok(at) = DateTime::parse_rfc3339_str(moment) else {
        let problem = format!("{:?} is not a moment; write one like {EXAMPLE}", echo(moment));
        return Err(Problem::field(FIELD, problem));
    };
    match at > now {
        true => Ok(()),
        false => {
            let (moment, now) = (echo(moment), ledger::json::timestamp(now));
            let problem = format!("{moment} has passed: it is {now}. Write a later moment");
            Err(Problem::field(FIELD, problem))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_moment_that_is_to_come_is_taken() {
        let now = DateTime::from_millis(1_793_491_200_000);
        let problem = |moment| check(moment, now).map_err(|problem| problem.detail);
        assert_eq!(problem("2026-11-01T00:00:00.001Z"), Ok(()));
        assert_eq!(problem("2026-11-01T02:00:00+01:00"), Ok(()));
        for (moment, expected) in [
            ("2026-11-01T00:00:00Z", "has passed: it is 2026-11-01T00:00:00"),
            ("2025-11-01T00:00:00Z", "has passed"),
            ("", "is not a moment; write one like 2026"),
            ("tomorrow", "\"tomorrow\" is not a moment"),
            ("2026-11-02", "is not a moment"),
        ] {
            let refused = problem(moment).expect_err(moment);
            assert!(refused.starts_with("notBefore") && refused.contains(expected), "{refused}");
        }
    }
}
