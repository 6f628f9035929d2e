//! What a transaction moves, in a sentence, and its way through the states.
//!
//! Promises that only what its document says is told as reached: a state that it may have passed,
//! and of which nothing is kept, is left out. Says each thing in words, so that nobody depends on a
//! color or a sign. Fails by showing less, where a state is not known. Pure.

use bson::DateTime;
use ledger::transaction::{ReasonCode, State};
use maud::{Markup, html};
use serde_json::Value;

use super::html::{account, items, moment, table, text, transaction};

/// How many legs stand on top of the page; all of them are in the section below.
const LEGS_SHOWN_MAX: usize = 10;

/// What a hold is called that was confirmed: its state is `pending` once more.
const CONFIRMED: &str = "pending, confirmed";

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Passed,
    Now,
    Ahead,
}

/// A state on the way. `at` is empty where its moment is not kept, or not come.
#[derive(Debug, PartialEq, Eq)]
struct Step<'a> {
    name: &'static str,
    stand: Stand,
    at: &'a str,
}

/// Who pays whom how much, as far as it has come.
pub fn headline(one: &Value, amount: impl Fn(&str) -> Markup) -> Markup {
    let state = State::parse(text(one, "state"));
    let held = html! { " of " (amount(text(one, "value"))) " that was on hold" };
    html! {
        @if one["legs"].is_array() { (moved(one, state, &amount)) }
        @else if one["value"].is_string() {
            p.headline {
                (account(text(one, "source"))) " " (verb(state)) " " (account(text(one, "destination")))
                " " b { (amount(taken(one))) } @if is_part(one) { (held) } "."
            }
        }
        @if let Some(reversed) = one["reverses"].as_str() { p { "It takes back " (transaction(reversed)) "." } }
    }
}

/// What the payer does for the payee.
fn verb(state: Option<State>) -> &'static str {
    match state {
        Some(State::Scheduled | State::Initial | State::Pending) => "is to pay",
        Some(State::Held) => "has reserved for",
        Some(State::Applied) => "pays for certain",
        Some(State::Done) => "paid",
        Some(State::Canceling) => "will not pay",
        Some(State::Canceled) => "did not pay",
        None => "and",
    }
}

/// What the payee of a transfer gets: what was captured, or all.
fn taken(one: &Value) -> &str {
    let payee = text(one, "destination");
    let captured = items(one, "captured").iter().find(|leg| text(leg, "account") == payee);
    captured.map_or(text(one, "value"), |leg| text(leg, "amount"))
}

fn is_part(one: &Value) -> bool {
    taken(one) != text(one, "value")
}

/// The legs of many, by what was captured of them, if that is known.
fn moved(one: &Value, state: Option<State>, amount: &impl Fn(&str) -> Markup) -> Markup {
    let captured = items(one, "captured");
    let legs = if captured.is_empty() { items(one, "legs") } else { captured };
    let what = match state {
        Some(State::Scheduled | State::Initial | State::Pending) => "It is to move",
        Some(State::Held) => "It has reserved, to move",
        Some(State::Applied) => "It moves for certain",
        Some(State::Done) => "It moved",
        Some(State::Canceling) => "It will not move",
        Some(State::Canceled) => "It did not move",
        None => "It names",
    };
    html! {
        p.headline { (what) " money between " b { (legs.len()) } " accounts:" }
        (table("Who pays and who gets", &["Account", "Pays", "Gets"], html! {
            @for leg in legs.iter().take(LEGS_SHOWN_MAX) {
                @let pays = text(leg, "amount").strip_prefix('-');
                tr {
                    th scope="row" { (account(text(leg, "account"))) }
                    td.number { @if let Some(pays) = pays { (amount(pays)) } }
                    td.number { @if pays.is_none() { (amount(text(leg, "amount"))) } }
                }
            }
        }))
        @if legs.len() > LEGS_SHOWN_MAX { p { "and " (legs.len() - LEGS_SHOWN_MAX) " more, see below" } }
    }
}

/// The way as a list that looks like a line.
pub fn picture(one: &Value) -> Markup {
    html! {
        ol.way role="list" aria-label="Its way through the states" {
            @for step in way(one) {
                @let (class, sign) = match step.stand {
                    Stand::Passed => ("passed", "✓"),
                    Stand::Now => ("now", "●"),
                    Stand::Ahead => ("ahead", "○"),
                };
                li.(class) aria-current=[(step.stand == Stand::Now).then_some("step")] {
                    b { span aria-hidden="true" { (sign) " " } (step.name) } " "
                    small {
                        @match step.stand {
                            Stand::Ahead => "to come",
                            Stand::Now => { "now" @if !step.at.is_empty() { ", since " (moment(step.at)) } },
                            Stand::Passed if step.at.is_empty() => "passed; its moment is not kept",
                            Stand::Passed => { "passed " (moment(step.at)) },
                        }
                    }
                }
            }
        }
    }
}

/// Its steps: those that are known to be reached, where it is now, and what comes if nothing is in
/// its way.
fn way(one: &Value) -> Vec<Step<'_>> {
    let Some(state) = State::parse(text(one, "state")) else { return Vec::new() };
    let mut reached = reached(one, state);
    let is_there = |(name, _): &&(&str, &str)| {
        *name == state.as_str() || (*name == CONFIRMED && state == State::Pending)
    };
    if reached.last().filter(is_there).is_none() {
        reached.push((state.as_str(), text(one, "lastModified")));
    }
    if one["parked"].is_object() {
        reached.push(("parked", text(&one["parked"], "at")));
    }
    let last = reached.len() - 1;
    let stand = |at| if at == last { Stand::Now } else { Stand::Passed };
    let reached = reached.into_iter().enumerate();
    let reached = reached.map(|(at, (name, since))| Step { name, stand: stand(at), at: since });
    let ahead = ahead(one, state).iter().map(|&name| Step { name, stand: Stand::Ahead, at: "" });
    reached.chain(ahead).collect()
}

/// The states that it has been in, with the moments that are kept.
fn reached(one: &Value, state: State) -> Vec<(&'static str, &str)> {
    let created = text(one, "createdAt");
    let was_scheduled = state == State::Scheduled || was_scheduled(one);
    let mut reached = Vec::new();
    if was_scheduled {
        reached.push((State::Scheduled.as_str(), created));
    }
    // What was final before Tandem came was never claimed. What was canceled while it was scheduled
    // was never initial.
    let was_claimed = one["attempts"].as_i64().is_some_and(|attempts| attempts > 0);
    if state == State::Initial || was_claimed || !(was_scheduled || state.is_final()) {
        let at = if was_scheduled { "" } else { created };
        reached.push((State::Initial.as_str(), at));
    }
    if one["claimedAt"].is_string() {
        reached.push((State::Pending.as_str(), text(one, "claimedAt")));
    }
    if one["confirmedAt"].is_string() {
        reached.push((State::Held.as_str(), ""));
        reached.push((CONFIRMED, text(one, "confirmedAt")));
    } else if was_let_go(one) {
        reached.push((State::Held.as_str(), ""));
    }
    if one["decidedAt"].is_string() {
        let decided = if one["reason"].is_object() { State::Canceling } else { State::Applied };
        reached.push((decided.as_str(), text(one, "decidedAt")));
    }
    reached
}

/// Whether it was submitted for later: what is due already at its submission is never scheduled.
fn was_scheduled(one: &Value) -> bool {
    let named = ["submittedNotBefore", "notBefore"].into_iter().find_map(|name| one[name].as_str());
    let read = |moment| DateTime::parse_rfc3339_str(moment).ok();
    let (not_before, created) = (named.and_then(read), read(text(one, "createdAt")));
    not_before.zip(created).is_some_and(|(not_before, created)| not_before > created)
}

/// Whether its reason says that it was on hold and nobody confirmed it.
fn was_let_go(one: &Value) -> bool {
    let code = text(&one["reason"], "code");
    [ReasonCode::Released, ReasonCode::HoldExpired].iter().any(|known| known.as_str() == code)
}

/// What comes after this state.
fn ahead(one: &Value, state: State) -> &'static [&'static str] {
    static NAMES: [&str; 4] = ["initial", "pending", "applied", "done"];
    static OF_A_HOLD: [&str; 6] = ["initial", "pending", "held", CONFIRMED, "applied", "done"];
    let is_on_hold = one["hold"] == true && one["confirmedAt"].is_null();
    match (state, is_on_hold) {
        (State::Scheduled, true) => &OF_A_HOLD,
        (State::Initial, true) => &OF_A_HOLD[1..],
        (State::Pending, true) => &OF_A_HOLD[2..],
        (State::Held, true | false) => &OF_A_HOLD[3..],
        (State::Scheduled, false) => &NAMES,
        (State::Initial, false) => &NAMES[1..],
        (State::Pending, false) => &NAMES[2..],
        (State::Applied, true | false) => &NAMES[3..],
        (State::Canceling, true | false) => &["canceled"],
        (State::Done | State::Canceled, true | false) => &[],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The way in a line: `+` passed, `!` now, `-` to come.
    fn told(one: &Value) -> String {
        let word = |step: Step<'_>| {
            let sign = match step.stand {
                Stand::Passed => '+',
                Stand::Now => '!',
                Stand::Ahead => '-',
            };
            format!("{sign}{}", step.name)
        };
        way(one).into_iter().map(word).collect::<Vec<_>>().join(" ")
    }

    fn at(second: u32) -> String {
        format!("2026-11-30T12:00:{second:02}Z")
    }

    #[test]
    fn the_way_of_a_transfer_shows_what_was_reached_and_where_it_is() {
        let made = json!({ "state": "initial", "createdAt": at(0), "lastModified": at(0) });
        assert_eq!(told(&made), "!initial -pending -applied -done");
        let mut one = json!({
            "state": "pending", "createdAt": at(0), "claimedAt": at(1), "attempts": 1,
        });
        assert_eq!(told(&one), "+initial !pending -applied -done");
        one["parked"] = json!({ "code": "kills_worker", "at": at(2) });
        assert_eq!(told(&one), "+initial +pending !parked -applied -done");
        one["parked"] = Value::Null;
        (one["state"], one["decidedAt"], one["lastModified"]) =
            ("done".into(), at(2).into(), at(3).into());
        assert_eq!(told(&one), "+initial +pending +applied !done");
        let moments: Vec<String> = way(&one).iter().map(|step| step.at.to_owned()).collect();
        assert_eq!(moments, [at(0), at(1), at(2), at(3)]);
        one["reason"] = json!({ "code": "insufficient_funds" });
        one["state"] = "canceling".into();
        assert_eq!(told(&one), "+initial +pending !canceling -canceled");
        one["state"] = "canceled".into();
        assert_eq!(told(&one), "+initial +pending +canceling !canceled");
    }

    #[test]
    fn the_way_of_a_hold_goes_by_its_confirmation_or_its_release() {
        let mut one = json!({
            "state": "held", "hold": true, "createdAt": at(0), "claimedAt": at(1), "attempts": 1,
            "lastModified": at(2),
        });
        assert_eq!(told(&one), "+initial +pending !held -pending, confirmed -applied -done");
        one["reason"] = json!({ "code": "released" });
        one["state"] = "canceled".into();
        assert_eq!(told(&one), "+initial +pending +held !canceled");
        one["reason"] = Value::Null;
        (one["state"], one["confirmedAt"]) = ("pending".into(), at(3).into());
        assert_eq!(told(&one), "+initial +pending +held !pending, confirmed -applied -done");
    }

    #[test]
    fn no_state_is_told_of_which_nothing_is_known() {
        // Settled at once, canceled while it was scheduled, final before Tandem came, and unknown.
        let done = json!({ "state": "done", "createdAt": at(0), "attempts": 1 });
        assert_eq!(told(&done), "+initial !done");
        let mut later = json!({ "state": "scheduled", "createdAt": at(0), "notBefore": "2999-01-01T00:00:00Z" });
        assert_eq!(told(&later), "!scheduled -initial -pending -applied -done");
        later["state"] = "canceled".into();
        assert_eq!(told(&later), "+scheduled !canceled");
        assert_eq!(told(&json!({ "state": "done" })), "!done");
        assert_eq!(told(&json!({ "state": "unknown" })), "");
    }

    #[test]
    fn each_step_says_in_words_how_it_stands_and_only_one_is_the_current_one() {
        let one = json!({
            "state": "pending", "createdAt": at(0), "claimedAt": at(1), "attempts": 1,
        });
        let page = picture(&one).into_string();
        assert_eq!(page.matches("aria-current=\"step\"").count(), 1, "{page}");
        for word in ["passed <time", "now, since <time", "to come"] {
            assert!(page.contains(word), "{word}: {page}");
        }
    }

    #[test]
    fn the_sentence_says_who_paid_whom_what_was_captured_and_never_that_a_canceled_one_paid() {
        let written = |text: &str| html! { (text) };
        let plain = |one: &Value| {
            let page = headline(one, written).into_string();
            let mut is_text = true;
            let mut keep = |c| {
                is_text = (is_text || c == '>') && c != '<';
                is_text && c != '>'
            };
            page.chars().filter(|c| keep(*c)).collect::<String>()
        };
        let mut one =
            json!({ "state": "done", "source": "<a>", "destination": "b", "value": "50" });
        assert_eq!(plain(&one), "&lt;a&gt; paid b 50.");
        one["captured"] = json!([
            { "account": "<a>", "amount": "-20" }, { "account": "b", "amount": "20" },
        ]);
        assert_eq!(plain(&one), "&lt;a&gt; paid b 20 of 50 that was on hold.");
        one["state"] = "canceled".into();
        assert!(plain(&one).contains("did not pay"));
        one["reverses"] = "t".into();
        assert!(plain(&one).ends_with("It takes back t."));
        let legs = json!({ "state": "done", "legs": [
            { "account": "a", "amount": "-7" }, { "account": "b", "amount": "3" },
            { "account": "c", "amount": "4" },
        ] });
        let page = headline(&legs, written).into_string();
        assert!(page.contains("It moved money between <b>3</b> accounts"), "{page}");
        assert!(page.contains("<td class=\"number\">7</td><td class=\"number\"></td>"), "{page}");
    }
}
