//! Moments in forms: when a scheduled transaction is due, and from when and until when a list goes.
//!
//! Promises that a moment without a zone is read in the zone that the form names: UTC, or the
//! viewer's, which the script writes as UTC before the form is sent. An operator who reschedules
//! names a moment that is still to come, on the database's clock: one that has passed would make
//! the transaction due at once, which nobody means who types a date. Fails with a problem that
//! names the field.

use api::{Person, Problem};
use bson::DateTime;
use ledger::limits::echo;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::form::Typed;
use super::html::{ZONE, text};
use super::visit::Visit;

/// The field of the form that reschedules, named as in the API.
pub const FIELD: &str = "notBefore";

/// How a moment is typed.
pub const EXAMPLE: &str = "2026-11-01 08:00";

/// The field, with the moment at which it is due now.
pub fn input(shown: &Value, typed: &Typed) -> Markup {
    let label = html! { "Not before, in " (ZONE) ", like " (EXAMPLE) };
    typed.moment(FIELD, &label, text(shown, FIELD))
}

/// What was typed, as operations take it; as it is, if it is no moment.
pub fn written(typed: &str) -> String {
    let read = read(typed).and_then(|at| at.try_to_rfc3339_string().ok());
    read.unwrap_or_else(|| typed.to_owned())
}

/// Reads a moment with a zone, or one of UTC without, which may lack seconds, or all of its time.
fn read(typed: &str) -> Option<DateTime> {
    let (date, time) = typed.split_at_checked(10)?;
    let time = match time.strip_prefix(['T', ' ']) {
        None if time.is_empty() => "00:00:00Z".to_owned(),
        None => return None,
        Some(time) if time.len() == 5 => format!("{time}:00Z"),
        // An address has a blank in place of a plus sign that was not escaped.
        Some(time) if time.ends_with('Z') || time.contains(['+', '-', ' ']) => {
            time.replace(' ', "+")
        }
        Some(time) => format!("{time}Z"),
    };
    DateTime::parse_rfc3339_str(format!("{date}T{time}")).ok()
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
    visit.ask_with(person, "reschedule", id, &json!({ FIELD: written(moment) })).await
}

fn check(moment: &str, now: DateTime) -> Result<(), Problem> {
    let Some(at) = read(moment) else {
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
        for good in ["2026-11-01T00:00:00.001Z", "2026-11-01T02:00:00+01:00", "2026-11-02"] {
            assert_eq!(problem(good), Ok(()));
        }
        for (moment, expected) in [
            ("2026-11-01T00:00:00Z", "has passed: it is 2026-11-01T00:00:00"),
            ("2026-11-01 00:00", "has passed: it is 2026-11-01T00:00:00"),
            ("2025-11-01T00:00:00Z", "has passed"),
            ("", "is not a moment; write one like 2026"),
            ("tomorrow", "\"tomorrow\" is not a moment"),
            ("tomorrow-morning", "is not a moment"),
            ("2026-11-02 8", "is not a moment"),
            ("2026-11-02é", "is not a moment"),
            ("2026-13-02", "is not a moment"),
        ] {
            let refused = problem(moment).expect_err(moment);
            assert!(refused.starts_with("notBefore") && refused.contains(expected), "{refused}");
        }
    }

    #[test]
    fn a_moment_without_a_zone_is_one_of_utc_as_the_form_says() {
        for (typed, expected) in [
            ("2026-11-01", "2026-11-01T00:00:00Z"),
            ("2026-11-01 08:00", "2026-11-01T08:00:00Z"),
            ("2026-11-01T08:00:30", "2026-11-01T08:00:30Z"),
            ("2026-11-01 08:00:30.5", "2026-11-01T08:00:30.5Z"),
            ("2026-11-01T08:00:30Z", "2026-11-01T08:00:30Z"),
            ("2026-11-01T08:00:00+01:00", "2026-11-01T07:00:00Z"),
            ("2026-11-01T08:00:00 01:00", "2026-11-01T07:00:00Z"),
            ("2026-11-01T08:00:00-01:00", "2026-11-01T09:00:00Z"),
            ("yesterday", "yesterday"),
            ("", ""),
        ] {
            assert_eq!(written(typed), expected, "{typed}");
        }
        let page = input(&json!({}), &Typed::default()).into_string();
        assert!(page.contains("in <span data-zone>UTC</span>, like"), "{page}");
    }
}
