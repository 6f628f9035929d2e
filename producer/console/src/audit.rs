//! The audit: one at a time, in this process, with its progress.
//!
//! Fails with a sentence on the page when a server goes away. A restarted server knows nothing of
//! an earlier one, and the page says so.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use api::{Api, Code, Problem};
use ledger::remedy::Remedy;
use maud::{Markup, html};
use serde_json::Value;

use super::Console;
use super::act::{Act, buttons};
use super::handbook::reference;
use super::html::{account, grouped, items, page as framed, table, text, transaction};
use super::visit::Visit;

/// The last audit of this server, if there was one.
#[derive(Default)]
pub struct Audits(Mutex<Option<Job>>);

#[derive(Clone)]
struct Job {
    by: String,
    begun: Instant,
    read: u64,
    what: String,
    ended: Option<Result<Value, String>>,
}

impl Audits {
    fn last(&self) -> Option<Job> {
        self.0.lock().expect("no holder panics").clone()
    }

    fn change(&self, change: impl FnOnce(&mut Job)) {
        self.0.lock().expect("no holder panics").as_mut().map(change);
    }

    /// Notes a new one, unless one is running.
    fn begin(&self, by: &str) -> Result<(), Problem> {
        let mut last = self.0.lock().expect("no holder panics");
        if last.as_ref().is_some_and(|job| job.ended.is_none()) {
            return Err(Problem::new(Code::RateLimited, "an audit is running"));
        }
        *last = Some(Job {
            by: by.to_owned(),
            begun: Instant::now(),
            read: 0,
            what: String::new(),
            ended: None,
        });
        Ok(())
    }
}

/// Begins an audit; it goes on by itself.
pub fn start(api: &Arc<Api>, console: &Arc<Console>, by: &str) -> Result<(), Problem> {
    console.audits.begin(by)?;
    let (api, console) = (api.clone(), console.clone());
    tokio::spawn(async move {
        let ended = tokio::spawn(audited(api, console.clone())).await;
        let broken = |_| Err("it broke down, and the log says why".to_owned());
        let ended = ended.unwrap_or_else(broken);
        console.audits.change(|job| job.ended = Some(ended));
    });
    Ok(())
}

async fn audited(api: Arc<Api>, console: Arc<Console>) -> Result<Value, String> {
    let progress = |read: u64, what: &str| {
        console.audits.change(|job| (job.read, job.what) = (read, what.to_owned()));
    };
    let found = api.audit(progress).await.map_err(|problem| problem.detail)?;
    Ok(serde_json::to_value(&found).unwrap_or_default())
}

/// `GET /console/audit`
pub fn page(visit: &Visit) -> Result<Markup, Problem> {
    let job = visit.console.audits.last();
    let running = job.as_ref().is_some_and(|job| job.ended.is_none());
    let content = html! {
        p { "An audit reads every account and every transaction and checks every rule of the ledger as of one moment." }
        @if !running { (buttons(visit, "ledger", &Value::Null, &[Act::Audit])) }
        section #audit data-again=[running.then_some("1000")] aria-live="polite" {
            @match &job {
                None => p { "No audit was started here since this server began." },
                Some(job) => (shown(job)),
            }
        }
    };
    Ok(framed(Some(visit), "Audit", content))
}

fn shown(job: &Job) -> Markup {
    match &job.ended {
        None => html! {
            p { "Running for " (job.begun.elapsed().as_secs()) " s, started by " b { (job.by) } ": "
                (grouped(job.read)) " documents read, " (job.what) "." }
            p { a href="/console/audit" { "Look again" } }
        },
        Some(Err(problem)) => {
            html! { p.problem role="alert" { "It did not come to its end: " (problem) } }
        }
        Some(Ok(found)) => found_by(job, found),
    }
}

fn found_by(job: &Job, found: &Value) -> Markup {
    let number = |name: &str| grouped(found[name].as_u64().unwrap_or_default());
    html! {
        @if found["ok"] == true { p.fine { "Every rule holds." } }
        @else if found["violationCount"] == 0 { p.fine { "No rule is broken." } }
        @else { p.problem role="alert" { b { (number("violationCount")) " violations. " } "Money may be wrong: change nothing before you have read this. " (reference("operating.md#the-books-do-not-balance")) } }
        p { (number("accounts")) " accounts and " (number("transactions")) " transactions, "
            (number("inFlight")) " of them in flight, " (number("resting")) " scheduled or on hold and " (number("parked")) " parked, in "
            (found["seconds"]) " s. Started by " b { (job.by) } "." }
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
