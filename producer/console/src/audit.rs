//! The audit: one at a time in the ledger, with its progress, whichever server runs it.
//!
//! Owns nothing but the page: an audit is a job of the ledger, so each server shows it and stops
//! it, and it outlives restarts. Promises to say when another server had to begin it again. Says in
//! a sentence why one did not come to its end.

use api::{JobOrder, Person, Problem};
use ledger::remedy::Remedy;
use maud::{Markup, html};
use mongo::{ActSubject, JobKind, JobState, SeenJob};
use serde_json::Value;

use super::act::{Act, buttons};
use super::handbook::reference;
use super::html::{account, grouped, items, page as framed, table, text, transaction};
use super::job;
use super::visit::Visit;

/// The address of the page.
pub const PAGE: &str = "/console/audit";

/// Whoever may ask for this operation may see the page, which is about all accounts.
pub const SEEN_BY: &str = "overview";

/// Begins an audit; a server goes on with it.
pub async fn start(visit: &Visit, person: &Person) -> Result<(), Problem> {
    let order = JobOrder {
        kind: JobKind::Audit,
        operation: Act::Audit.operation(),
        words: "the whole ledger".to_owned(),
        on: ActSubject::ledger(),
        ids: Vec::new(),
    };
    visit.api.begin_job((visit.caller.clone(), person.clone()), order).await.map(drop)
}

/// `GET /console/audit`
pub async fn page(visit: &Visit) -> Result<Markup, Problem> {
    visit.require(SEEN_BY)?;
    let job = visit.api.last_job(JobKind::Audit).await?;
    let may_steer = visit.may("listParked");
    let running = job.as_ref().is_some_and(|job| job.state.is_alive());
    let content = html! {
        p { "An audit reads every account and every transaction and checks every rule of the ledger as of one moment." }
        @if !running { (buttons(visit, "ledger", &Value::Null, &[Act::Audit])) }
        section #audit data-again=[running.then_some("1000")] aria-live="polite" {
            @match &job {
                None => p { "No audit was started in this ledger yet by the console." },
                Some(job) => (shown(job, may_steer)),
            }
        }
        @if may_steer { p { a href=(job::PAGE) { "The last jobs and audits" } } }
    };
    Ok(framed(Some(visit), "Audit", content))
}

/// How an audit stands, and what it has found; with the button that stops it, for who may do that.
pub fn shown(job: &SeenJob, may_steer: bool) -> Markup {
    html! {
        (job::begun(job))
        @if job.state.is_alive() {
            p { (job::stand(job)) }
            p { "For " (job::seconds(job)) " s: " (grouped(job.progress.read)) " documents read"
                @if !job.progress.reading.is_empty() { ", " (job.progress.reading) } "." }
        }
        @if job.begun > 1 {
            p { "It was begun " (grouped(job.begun)) " times, each time from the start: a server that ran it has ended, or was lost." }
        }
        @if may_steer { (job::buttons(job)) }
        (ended(job))
    }
}

fn ended(job: &SeenJob) -> Markup {
    let found = job.found.as_deref().and_then(|found| serde_json::from_str(found).ok());
    match (job.state, found) {
        (JobState::Running | JobState::Paused, _) => html! {},
        (JobState::Stopped, _) => {
            html! { p { "It was stopped before its end, and says nothing." } }
        }
        (JobState::Ended, Some(found)) => found_by(&found),
        (JobState::Ended | JobState::Broken, _) => {
            let problem = job.why.as_deref().unwrap_or("what it has found can't be read");
            html! { p.problem role="alert" { "It did not come to its end: " (problem) } }
        }
    }
}

fn found_by(found: &Value) -> Markup {
    let number = |name: &str| grouped(found[name].as_u64().unwrap_or_default());
    html! {
        @if found["ok"] == true { p.fine { "Every rule holds." } }
        @else if found["violationCount"] == 0 { p.fine { "No rule is broken." } }
        @else { p.problem role="alert" { b { (number("violationCount")) " violations. " } "Money may be wrong: change nothing before you have read this. " (reference("operating.md#the-books-do-not-balance")) } }
        p { (number("accounts")) " accounts and " (number("transactions")) " transactions, "
            (number("inFlight")) " of them in flight, " (number("resting")) " scheduled or on hold and " (number("parked")) " parked, in "
            (found["seconds"]) " s." }
        @if found["unexplainedAccounts"].as_u64().is_some_and(|accounts| accounts > 0) {
            p.problem { b { "Unexplained by Tandem: " } "other programs have moved "
                @for (at, sum) in items(found, "unexplained").iter().enumerate() {
                    @if at > 0 { ", " }
                    (text(sum, "amount")) " " (text(sum, "currency")) " on " (grouped(sum["accounts"].as_u64().unwrap_or_default())) " accounts"
                }
                "."
                @if found["violationCount"] == 0 { " To book that, run " code { (Remedy::Absorb.command()) } "." } }
        }
        @if found["snapshot"] != true { p { "The reads saw different moments: look again when the ledger is at rest." } }
        @if !items(found, "violations").is_empty() {
            (table("Violations, at most 100", &["Rule", "Document", "What is wrong"], html! {
                @for violation in items(found, "violations") {
                    tr { td { (violation["rule"]) } td { (document(text(violation, "document"))) } td { (text(violation, "message")) } }
                }
            }))
        }
    }
}

/// A link to what a violation names.
fn document(name: &str) -> Markup {
    match name.split_once('/') {
        Some(("accounts", id)) => account(id),
        Some(("transactions", id)) => transaction(id),
        Some(_) | None => html! { (name) },
    }
}
