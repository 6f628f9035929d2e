//! One act on many: what it would be about, asked for, and started as a [`job`](super::job).
//!
//! Promises that a job touches only what its preview has counted: what is parked or given up later
//! is not part of it, because the preview's newest moment goes with the form. Amounts are exact.
//! Fails with a page that says why nothing was started.

use std::collections::BTreeMap;

use api::{Answer, Code, JobOrder, Problem, REASON};
use bson::{Bson, DateTime};
use ledger::limits::echo;
use ledger::transaction::format_nanos;
use maud::{Markup, html};
use mongo::{ActSubject, JobKind, ParkedFilter, ParkedTransaction, SubjectKind};

use super::act::Act;
use super::form::Typed;
use super::html::{grouped, items, moment, page as framed, table, text};
use super::job;
use super::visit::Visit;
use super::{fields, go_to, html as answer_with};

/// The most parked transactions of one job.
pub const PARKED_MAX: u32 = 10_000;
/// The most letters of one job: as many as one list has.
pub const LETTERS_MAX: usize = 1_000;
/// From so many on, their number has to be typed.
const TYPED_FROM: usize = 100;
const SAMPLES: usize = 10;

/// The field in which their number is typed.
const NUMBER: &str = "number";

/// An act, and what it is about.
struct Target {
    act: Act,
    /// The code or reason for which the items were set apart.
    code: Option<String>,
    /// Only transactions with a leg on this account.
    account: Option<String>,
}

/// One item of many.
struct Item {
    id: String,
    /// Since when it is set apart, in milliseconds.
    at: i64,
    why: String,
}

/// What there is of a target.
#[derive(Default)]
struct Matching {
    items: Vec<Item>,
    /// Whether there is more than one job takes.
    is_capped: bool,
    sums: Sums,
}

/// Sums by currency, in billionths, and how many transactions could not be read.
#[derive(Default)]
pub struct Sums {
    by_currency: BTreeMap<Option<String>, i128>,
    unreadable: u64,
}

impl Sums {
    /// Adds what a transaction would move.
    pub fn add(&mut self, transaction: &ParkedTransaction) {
        match &transaction.volume {
            None => self.unreadable += 1,
            Some(volume) => {
                *self.by_currency.entry(volume.currency.clone()).or_default() += volume.nanos;
            }
        }
    }

    /// In words, like `12.50 EUR, 7`.
    pub fn shown(&self) -> String {
        let sum = |(currency, nanos): (&Option<String>, &i128)| match currency {
            None => format_nanos(*nanos),
            Some(currency) => format!("{} {}", format_nanos(*nanos), echo(currency)),
        };
        let mut words: Vec<String> = self.by_currency.iter().map(sum).collect();
        if self.unreadable > 0 {
            words.push(format!("{} that can't be read", self.unreadable));
        }
        words.join(", ")
    }
}

impl Target {
    fn of(field: impl Fn(&str) -> Option<String>) -> Result<Target, Problem> {
        const ACTS: [Act; 4] = [Act::Unpark, Act::GiveUp, Act::Replay, Act::Discard];
        let name = field("act").unwrap_or_default();
        let act = ACTS.into_iter().find(|act| act.name() == name);
        let act = act.ok_or_else(|| Problem::new(Code::Malformed, "this can't be done in bulk"))?;
        let target = Target { act, code: field("code"), account: field("account") };
        if !target.is_about_parked() && (target.account.is_some() || target.code.is_none()) {
            return Err(Problem::new(
                Code::Invalid,
                "letters are chosen by their reason, and by nothing else",
            ));
        }
        Ok(target)
    }

    fn is_about_parked(&self) -> bool {
        matches!(self.act, Act::Unpark | Act::GiveUp)
    }

    /// So many of them, as an act names them.
    fn subject(&self, count: usize) -> ActSubject {
        let kind = match self.is_about_parked() {
            true => SubjectKind::Transaction,
            false => SubjectKind::Letter,
        };
        ActSubject::unnamed(kind, u64::try_from(count).ok())
    }

    fn filter(&self, until: Option<i64>) -> ParkedFilter {
        ParkedFilter { code: self.code.clone(), account: self.account.clone(), until }
    }

    /// In words, with the frozen bound.
    fn words(&self, until: i64) -> String {
        let mut words =
            if self.is_about_parked() { "parked transactions" } else { "dead letters" }.to_owned();
        if let Some(code) = &self.code {
            words += &format!(" with the reason {}", echo(code));
        }
        if let Some(account) = &self.account {
            words += &format!(" with a leg on {}", echo(account));
        }
        words + &format!(", set apart until {}", rfc3339(until))
    }

    async fn find(&self, visit: &Visit, until: Option<i64>) -> Result<Matching, Problem> {
        if self.is_about_parked() {
            self.parked(visit, until).await
        } else {
            self.letters(visit, until).await
        }
    }

    async fn parked(&self, visit: &Visit, until: Option<i64>) -> Result<Matching, Problem> {
        let parked = visit.api.parked_transactions(&visit.caller, self.filter(until), PARKED_MAX);
        let parked = parked.await?;
        let mut found =
            Matching { is_capped: parked.len() >= PARKED_MAX as usize, ..Matching::default() };
        for transaction in parked {
            // Without a text as its id, or a moment, it can only be brought back by itself.
            if let (Bson::String(id), Some(at)) = (&transaction.entry.id, transaction.entry.at) {
                found.sums.add(&transaction);
                let why = transaction.entry.message.clone();
                found.items.push(Item { id: id.clone(), at, why });
            }
        }
        Ok(found)
    }

    async fn letters(&self, visit: &Visit, until: Option<i64>) -> Result<Matching, Problem> {
        let reason = self.code.as_deref().unwrap_or_default();
        let limit = LETTERS_MAX.to_string();
        let all =
            visit.ask("listDeadLetters", "", &[("reason", reason), ("limit", &limit)]).await?;
        let letters = items(&all, "items");
        let item = |letter| {
            let at = DateTime::parse_rfc3339_str(text(letter, "diedAt")).ok()?.timestamp_millis();
            let (id, why) = (text(letter, "id").to_owned(), text(letter, "detail").to_owned());
            until.is_none_or(|until| at <= until).then_some(Item { id, at, why })
        };
        let is_capped = letters.len() >= LETTERS_MAX || all["complete"] == false;
        Ok(Matching {
            items: letters.iter().filter_map(item).collect(),
            is_capped,
            ..Matching::default()
        })
    }
}

fn rfc3339(ms: i64) -> String {
    DateTime::from_millis(ms).try_to_rfc3339_string().unwrap_or_default()
}

/// `GET /console/bulk`: what it would be about.
pub async fn preview(visit: &Visit) -> Result<Markup, Problem> {
    let target = Target::of(|name| visit.param(name).map(str::to_owned))?;
    visit.require(target.act.operation())?;
    let found = target.find(visit, None).await?;
    let content = match found.items.iter().map(|item| item.at).max() {
        None => {
            html! { p { "There is nothing of this kind." } p { a href="/console/letters" { "Go back" } } }
        }
        Some(until) => asked(&target, &found, until, &Typed::default()),
    };
    Ok(framed(Some(visit), "Are you sure?", content))
}

fn asked(target: &Target, found: &Matching, until: i64, typed: &Typed) -> Markup {
    let count = found.items.len();
    let shown = grouped(count.try_into().unwrap_or(u64::MAX));
    let verb = target.act.verb();
    html! {
        (typed.summary())
        section.confirm {
            p { b { (verb) } ": " b { (shown) } " " (target.words(until)) "." }
            p { (target.act.effect()) }
            dl {
                dt { "How many" } dd { (shown) @if found.is_capped { ": as many as one job takes. There are more; start another one for the rest." } }
                @if target.is_about_parked() { dt { "Sum" } dd { (found.sums.shown()) } }
                dt { "Not part of it" } dd { "what is set apart after " (moment(&rfc3339(until))) ", and what has no text as its id or no moment" }
            }
            (samples(found))
            form method="post" action="/console/bulk" {
                @for (name, value) in [("act", Some(target.act.name())), ("code", target.code.as_deref()), ("account", target.account.as_deref())] {
                    @if let Some(value) = value { input type="hidden" name=(name) value=(value); }
                }
                input type="hidden" name="until" value=(until);
                input type="hidden" name="count" value=(count);
                (typed.field(REASON, &html! { "Reason, for the list of acts" }, "", 500))
                @if count >= TYPED_FROM {
                    (typed.field(NUMBER, &html! { "Type their number, " (count) ", to go on" }, "", 40))
                }
                p.acts {
                    button { (verb) ", " (shown) " times" }
                    a href="/console/letters" { "Go back, do nothing" }
                }
            }
        }
    }
}

fn samples(found: &Matching) -> Markup {
    html! {
        (table("Some of them", &["Id", "Since", "In words"], html! {
            @for item in found.items.iter().take(SAMPLES) {
                tr { th.id scope="row" { (item.id) } td { (moment(&rfc3339(item.at))) } td { (item.why) } }
            }
        }))
    }
}

/// `POST /console/bulk`: starts the job.
pub async fn start(visit: &Visit, form: &[u8]) -> Result<Answer, Problem> {
    let fields = fields(form);
    let field = |name: &str| fields.get(name).filter(|value| !value.is_empty()).cloned();
    let target = Target::of(field)?;
    visit.require(target.act.operation())?;
    let number = |name: &str| field(name).and_then(|text| text.parse::<i64>().ok());
    let (Some(until), Some(count)) = (number("until"), number("count")) else {
        return Err(Problem::new(
            Code::Malformed,
            "until and count: come from the preview; begin there",
        ));
    };
    let found = target.find(visit, Some(until)).await?;
    let there = i64::try_from(found.items.len()).unwrap_or(i64::MAX);
    if there == 0 {
        return Err(Problem::new(Code::NotFound, "nothing of it is left"));
    }
    if there > count {
        let why = format!("there are {there} now, and {count} were shown: look again");
        return Err(Problem::new(Code::Conflict, why));
    }
    let is_many = found.items.len().max(count.try_into().unwrap_or(0)) >= TYPED_FROM;
    let reason = field(REASON).unwrap_or_default();
    let wrong = if reason.is_empty() {
        Some(Problem::field(REASON, "is needed; it goes into the list of acts"))
    } else if is_many && number(NUMBER) != Some(count) {
        Some(Problem::field(NUMBER, format!("is not {count}; type it, so that it is no slip")))
    } else {
        None
    };
    if let Some(problem) = wrong {
        let status = problem.code.status();
        let again = asked(&target, &found, until, &Typed::refused(fields, problem));
        return Ok(answer_with(status, framed(Some(visit), "Are you sure?", again)));
    }
    let order = JobOrder {
        kind: JobKind::Bulk,
        operation: target.act.operation(),
        words: target.words(until),
        on: target.subject(found.items.len()),
        ids: found.items.into_iter().map(|item| item.id).collect(),
    };
    let who = (visit.caller.clone(), visit.acting(&echo(&reason)));
    visit.api.begin_job(who, order).await?;
    Ok(go_to(job::PAGE))
}
