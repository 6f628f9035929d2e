//! Bulk jobs as pages: the one under way or the last one, each by its id, and the list of the last
//! jobs and audits.
//!
//! Owns nothing but the pages: jobs are of the ledger, and the API's servers run them
//! (`api::JobOrder`). Promises that each server shows the same, and that whoever steers a job
//! steers the one that the page shows. Fails with a page that says why.

use api::{Answer, Code, Problem};
use bson::DateTime;
use ledger::json::timestamp;
use maud::{Markup, html};
use mongo::{ActWho, JobKind, JobState, JobWish, SeenJob};

use super::act::Act;
use super::html::{grouped, link, moment, page as framed, table};
use super::visit::Visit;
use super::{audit, fields, go_to};

/// The address of the page.
pub const PAGE: &str = "/console/job";

/// `POST /console/job`: lets a job or an audit go on, pauses or stops it. Without an id, it is the
/// bulk job that was begun last.
pub async fn steer(visit: &Visit, form: &[u8]) -> Result<Answer, Problem> {
    visit.require("listParked")?;
    let fields = fields(form);
    let wish = match fields.get("do").map(String::as_str) {
        Some("pause") => JobWish::Pause,
        Some("resume") => JobWish::GoOn,
        Some("stop") => JobWish::Stop,
        _ => return Err(Problem::new(Code::Malformed, "a job can pause, resume or stop")),
    };
    let job = match fields.get("id").filter(|id| !id.is_empty()) {
        Some(id) => visit.api.job(id).await?,
        None => visit.api.last_job(JobKind::Bulk).await?,
    };
    let back = match job.as_ref().map(|job| job.kind) {
        Some(JobKind::Audit) => audit::PAGE,
        Some(JobKind::Bulk) | None => PAGE,
    };
    visit.api.steer_job((visit.caller.clone(), visit.person.clone()), job, wish).await?;
    Ok(go_to(back))
}

/// `GET /console/job`: the job of the id that is given, or the bulk job that was begun last; and
/// the last jobs.
pub async fn page(visit: &Visit) -> Result<Markup, Problem> {
    visit.require("listParked")?;
    let id = visit.param("id");
    let job = match id {
        Some(id) => {
            let none = || Problem::new(Code::NotFound, "there is no such job");
            Some(visit.api.job(id).await?.ok_or_else(none)?)
        }
        None => visit.api.last_job(JobKind::Bulk).await?,
    };
    let last = visit.api.last_jobs().await?;
    let again = job.as_ref().is_some_and(|job| job.state.is_alive()).then_some("1000");
    let content = html! {
        section #job data-again=[again] aria-live="polite" {
            @match &job {
                None => p { "No job was started in this ledger yet. To start one, go to the "
                    a href="/console/letters" { "dead letters and parked transactions" } "." },
                Some(job) => (shown(job)),
            }
        }
        @if !last.is_empty() { section { h2 { "The last jobs and audits" } (listed(&last)) } }
    };
    let title = match job.map(|job| job.kind) {
        Some(JobKind::Audit) => "Audit",
        Some(JobKind::Bulk) | None => "Bulk job",
    };
    Ok(framed(Some(visit), title, content))
}

fn shown(job: &SeenJob) -> Markup {
    match job.kind {
        JobKind::Audit => audit::shown(job, true),
        JobKind::Bulk => shown_bulk(job),
    }
}

fn shown_bulk(job: &SeenJob) -> Markup {
    let progress = &job.progress;
    let past = progress.done + progress.gone + progress.failed;
    html! {
        p { b { (verb(job)) } ": " (job.words) "." }
        (begun(job))
        @if job.actor.who != job.who {
            p { "It acts for " (named(&job.actor.who)) ", who has let it go on." }
        }
        p { (stand(job)) }
        p { label for="progress" { (grouped(past)) " of " (grouped(job.total)) } " "
            progress #progress max=(job.total) value=(past) { } }
        p { (grouped(progress.done)) " done, " (grouped(progress.gone)) " were not there any more, "
            (grouped(progress.failed)) " failed." }
        @if job.begun > 1 {
            p.note { "Servers have taken it up " (grouped(job.begun)) " times. What one that was lost has done and \
                could not note any more counts as not there any more." }
        }
        (buttons(job))
        @if !progress.failures.is_empty() {
            (table("What failed, at most 100", &["Id", "Why"], html! {
                @for (id, why) in &progress.failures {
                    tr { th.id scope="row" { (id) } td { (why) } }
                }
            }))
        }
    }
}

/// Who has begun it, when and why.
pub fn begun(job: &SeenJob) -> Markup {
    html! {
        p { "Started by " (named(&job.who)) " at " (moment(&timestamp(job.at)))
            @if let Some(reason) = &job.reason { ": " (reason) } }
        @if let Some(at) = job.ended_at { p { "Over since " (moment(&timestamp(at))) "." } }
    }
}

/// How it stands, and where it goes on.
pub fn stand(job: &SeenJob) -> Markup {
    let why = job.why.as_deref();
    let wish = match (job.state, job.wish) {
        (JobState::Running, JobWish::Pause) => Some("it is about to pause"),
        (JobState::Running, JobWish::Stop) => Some("it is about to stop"),
        (JobState::Running, JobWish::GoOn) if !job.is_held() => {
            Some("a server goes on with it within seconds")
        }
        (JobState::Paused, JobWish::GoOn) => Some("a server goes on with it within seconds"),
        (JobState::Running | JobState::Paused, _)
        | (JobState::Stopped | JobState::Ended | JobState::Broken, _) => None,
    };
    html! {
        "It is " b { (job.state.as_str()) }
        @if let Some(why) = why { ": " (why) }
        @if let Some(wish) = wish { "; " (wish) }
        @if job.state == JobState::Running && job.is_held() { ", at " (job.holder) }
        "."
    }
}

/// The buttons of a job that is not over. Where a server has it, a wish is heard within a second.
pub fn buttons(job: &SeenJob) -> Markup {
    let (goes_on, pauses) = match (job.kind, job.wish) {
        (_, JobWish::Pause) => (true, false),
        (JobKind::Bulk, JobWish::GoOn) => (false, true),
        (JobKind::Audit, JobWish::GoOn) | (_, JobWish::Stop) => (false, false),
    };
    html! {
        @if job.state.is_alive() {
            form.acts method="post" action=(PAGE) {
                input type="hidden" name="id" value=(job.id);
                @if goes_on { button name="do" value="resume" { "Go on" } " " }
                @if pauses { button name="do" value="pause" { "Pause" } " " }
                button name="do" value="stop" { "Stop" }
                " " a href=(link(PAGE, &[("id", &job.id)])) { "Look again" }
            }
        }
    }
}

fn listed(jobs: &[SeenJob]) -> Markup {
    const HEADS: [&str; 6] = ["Begun", "What", "About", "Who", "Why", "What became of it"];
    table(
        "The last jobs and audits, at most 50, newest first",
        &HEADS,
        html! {
            @for job in jobs {
                tr {
                    th scope="row" { a href=(link(PAGE, &[("id", &job.id)])) { (moment(&timestamp(job.at))) } }
                    td { (verb(job)) }
                    td { (job.words) }
                    td { (named(&job.who)) }
                    td { (job.reason.as_deref().unwrap_or_default()) }
                    td { (outcome(job)) }
                }
            }
        },
    )
}

/// What has become of it so far, in a few words.
fn outcome(job: &SeenJob) -> String {
    let progress = &job.progress;
    let counts = match job.kind {
        JobKind::Audit => format!("{} documents read", grouped(progress.read)),
        JobKind::Bulk => format!(
            "{} done, {} gone, {} failed",
            grouped(progress.done),
            grouped(progress.gone),
            grouped(progress.failed)
        ),
    };
    format!("{}: {counts}", job.state.as_str())
}

fn verb(job: &SeenJob) -> &str {
    let act = Act::ALL.into_iter().find(|act| act.operation() == job.operation);
    act.map_or(&*job.operation, |act| act.verb())
}

/// Somebody, by the token and the person beside it.
fn named(who: &ActWho) -> Markup {
    html! {
        @if let Some(person) = &who.person { b { (person) } " by the token " }
        b { (who.name) }
    }
}

/// How long it goes on, or went on, in seconds.
pub fn seconds(job: &SeenJob) -> i64 {
    let until: DateTime = job.ended_at.unwrap_or(job.now);
    (until.timestamp_millis() - job.at.timestamp_millis()).max(0) / 1_000
}
