//! A bulk job: one act on many items, one job at a time, in this process.
//!
//! Promises that each item goes through the API's own operation, with the scopes that the token has
//! at that moment, and is noted as an act of its own, with the job's reason; that a pause takes
//! effect after a few items; and that a server that is away pauses the job, so that what is left is
//! not lost as failed. A job may be started again: what is done already counts as gone. A restarted
//! server knows nothing of an earlier job, and the page says so. A job whose task breaks down is
//! shown as broken.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use api::{Answer, Api, Caller, Code, Person, Problem};
use bson::DateTime;
use futures_util::{StreamExt, stream};
use maud::{Markup, html};
use mongo::ActSubject;
use tokio::sync::watch;

use super::act::Act;
use super::html::{grouped, page as framed, table};
use super::visit::{Visit, ask};
use super::{Console, fields, go_to};

/// How many items are under way at once.
const AT_ONCE: usize = 4;
/// After so many items the job looks whether it shall pause.
const CHUNK: usize = 16;
/// How many failures are told one by one.
const FAILURES_MAX: usize = 100;

/// What a job is for.
pub struct JobRequest {
    /// What is done with each item.
    pub act: Act,
    /// The items, in words.
    pub what: String,
    /// The items, as an act names them.
    pub subject: ActSubject,
    /// Why it is done.
    pub reason: String,
    /// The items.
    pub ids: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    GoOn,
    Pause,
    Stop,
}

#[derive(Clone, PartialEq, Eq)]
enum Stand {
    Running,
    Paused,
    Ended,
    Stopped,
    Broken,
}

#[derive(Clone)]
struct Job {
    act: Act,
    what: String,
    subject: ActSubject,
    reason: String,
    by: Arc<Caller>,
    begun: Instant,
    wishes: watch::Sender<Wish>,
    stand: Stand,
    /// Why it has paused or stopped by itself.
    why: Option<String>,
    total: usize,
    done: u64,
    gone: u64,
    failed: u64,
    failures: Vec<(String, String)>,
}

impl Job {
    fn is_alive(&self) -> bool {
        matches!(self.stand, Stand::Running | Stand::Paused)
    }

    fn past(&self) -> u64 {
        self.done + self.gone + self.failed
    }

    fn note(&mut self, id: &str, problem: Option<&Problem>) {
        match problem {
            None => self.done += 1,
            Some(problem) if problem.code == Code::NotFound => self.gone += 1,
            Some(problem) => {
                self.failed += 1;
                if self.failures.len() < FAILURES_MAX {
                    self.failures.push((id.to_owned(), problem.detail.clone()));
                }
            }
        }
    }
}

/// The last job of this server, if there was one.
#[derive(Default)]
pub struct Jobs(Mutex<Option<Job>>);

impl Jobs {
    fn slot(&self) -> MutexGuard<'_, Option<Job>> {
        // Each change of a job is complete at every line.
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }

    fn last(&self) -> Option<Job> {
        self.slot().clone()
    }

    fn change(&self, change: impl FnOnce(&mut Job)) {
        self.slot().as_mut().map(change);
    }

    fn begin(&self, job: Job) -> Result<(), Problem> {
        let mut slot = self.slot();
        if slot.as_ref().is_some_and(Job::is_alive) {
            return Err(Problem::new(
                Code::RateLimited,
                "another job is under way: let it end, or stop it",
            ));
        }
        *slot = Some(job);
        Ok(())
    }
}

/// Begins a job; it goes on by itself.
pub async fn start(visit: &Visit, order: JobRequest) -> Result<(), Problem> {
    let person = visit.acting(&order.reason);
    let (who, what) = ((&*visit.caller, &person), ("job.begin", order.subject.clone()));
    let begin = async { begin(visit, &person, order) };
    visit.api.note_act(who, what, begin, "it was begun; each item is an act of its own").await
}

fn begin(visit: &Visit, person: &Person, order: JobRequest) -> Result<(), Problem> {
    let (wishes, wished) = watch::channel(Wish::GoOn);
    let job = Job {
        act: order.act,
        what: order.what,
        subject: order.subject,
        reason: order.reason,
        by: visit.caller.clone(),
        begun: Instant::now(),
        wishes,
        stand: Stand::Running,
        why: None,
        total: order.ids.len(),
        done: 0,
        gone: 0,
        failed: 0,
        failures: Vec::new(),
    };
    log(&job, &visit.caller, &person.request, "started");
    let (act, by) = (job.act, (job.by.clone(), person.clone()));
    let (api, console) = (visit.api.clone(), visit.console.clone());
    console.jobs.begin(job)?;
    tokio::spawn(async move {
        let running = tokio::spawn(run(api, console.clone(), act, by, order.ids.into(), wished));
        let stand = running.await.unwrap_or(Stand::Broken);
        console.jobs.change(|job| {
            job.stand = stand;
            log(job, &job.by.clone(), "", "ended");
        });
    });
    Ok(())
}

/// Works through the items; returns how it ends.
async fn run(
    api: Arc<Api>,
    console: Arc<Console>,
    act: Act,
    by: (Arc<Caller>, Person),
    mut left: VecDeque<String>,
    mut wished: watch::Receiver<Wish>,
) -> Stand {
    let jobs = &console.jobs;
    loop {
        let wish = *wished.borrow_and_update();
        match wish {
            Wish::GoOn => jobs.change(|job| job.stand = Stand::Running),
            Wish::Stop => return Stand::Stopped,
            Wish::Pause => {
                jobs.change(|job| job.stand = Stand::Paused);
                if wished.changed().await.is_err() {
                    return Stand::Broken;
                }
                continue;
            }
        }
        if left.is_empty() {
            return Stand::Ended;
        }
        let chunk: Vec<String> = left.drain(..left.len().min(CHUNK)).collect();
        let tried: Vec<(String, Result<(), Problem>)> = stream::iter(chunk)
            .map(|id| one(&api, act, &by, id))
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        for (id, result) in tried {
            match result {
                Err(problem) if is_for_all(problem.code) => {
                    left.push_front(id);
                    jobs.change(|job| {
                        job.why = Some(problem.detail);
                        // Whoever wants it stopped at this moment gets that.
                        job.wishes.send_if_modified(|wish| {
                            let goes_on = *wish == Wish::GoOn;
                            if goes_on {
                                *wish = Wish::Pause;
                            }
                            goes_on
                        });
                    });
                }
                result => jobs.change(|job| job.note(&id, result.err().as_ref())),
            }
        }
    }
}

/// Whether the next item would fail for the same cause.
fn is_for_all(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Unknown | Code::Forbidden | Code::Unauthorized)
}

async fn one(
    api: &Arc<Api>,
    act: Act,
    (by, person): &(Arc<Caller>, Person),
    id: String,
) -> (String, Result<(), Problem>) {
    let gone = || {
        Problem::new(Code::Unauthorized, "the token of whoever started it is gone, or has expired")
    };
    let caller = api.tokens().again(&by.digest(), DateTime::now()).cloned();
    let done = match caller {
        None => Err(gone()),
        Some(caller) => ask(api, (&caller, person), act.operation(), &id, &[]).await.map(drop),
    };
    (id, done)
}

/// `POST /console/job`: pauses, goes on with or stops the job.
pub async fn steer(visit: &Visit, form: &[u8]) -> Result<Answer, Problem> {
    visit.require("listParked")?;
    let fields = fields(form);
    let wish = match fields.get("do").map(String::as_str) {
        Some("pause") => Wish::Pause,
        Some("resume") => Wish::GoOn,
        Some("stop") => Wish::Stop,
        _ => return Err(Problem::new(Code::Malformed, "a job can pause, resume or stop")),
    };
    let subject = visit.console.jobs.last().map_or_else(ActSubject::ledger, |job| job.subject);
    let (what, told) = match wish {
        Wish::GoOn => ("job.resume", "it goes on"),
        Wish::Pause => ("job.pause", "it is paused after the items that are under way"),
        Wish::Stop => ("job.stop", "it is stopped after the items that are under way"),
    };
    let who = (&*visit.caller, &visit.person);
    visit.api.note_act(who, (what, subject), async { steered(visit, wish) }, told).await?;
    Ok(go_to("/console/job"))
}

fn steered(visit: &Visit, wish: Wish) -> Result<(), Problem> {
    let mut slot = visit.console.jobs.slot();
    let Some(job) = slot.as_mut().filter(|job| job.is_alive()) else {
        return Err(Problem::new(Code::WrongState, "there is no job that goes on"));
    };
    job.why = None;
    job.wishes.send_replace(wish);
    let word = match wish {
        Wish::GoOn => "goes on",
        Wish::Pause => "is paused",
        Wish::Stop => "is stopped",
    };
    log(job, &visit.caller, &visit.person.request, word);
    Ok(())
}

fn log(job: &Job, who: &Caller, request: &str, event: &str) {
    tracing::info!(
        target: "operator",
        who = who.name,
        job = job.act.name(),
        event,
        of = job.what,
        items = job.total,
        done = job.done,
        gone = job.gone,
        failed = job.failed,
        reason = job.reason,
        request,
    );
}

/// `GET /console/job`
pub fn page(visit: &Visit) -> Result<Markup, Problem> {
    visit.require("listParked")?;
    let job = visit.console.jobs.last();
    let again = job.as_ref().is_some_and(Job::is_alive).then_some("1000");
    let content = html! {
        section #job data-again=[again] aria-live="polite" {
            @match &job {
                None => p { "No job was started here since this server began. To start one, go to the "
                    a href="/console/letters" { "dead letters and parked transactions" } "." },
                Some(job) => (shown(job)),
            }
        }
    };
    Ok(framed(Some(visit), "Bulk job", content))
}

fn shown(job: &Job) -> Markup {
    let stand = match job.stand {
        Stand::Running => "running",
        Stand::Paused => "paused",
        Stand::Ended => "ended",
        Stand::Stopped => "stopped",
        Stand::Broken => "broken: it broke down, and the log says why",
    };
    let total = u64::try_from(job.total).unwrap_or(u64::MAX);
    html! {
        p { b { (job.act.verb()) } ": " (job.what) "." }
        p { "Started by " b { (job.by.name) } " " (job.begun.elapsed().as_secs()) " s ago: " (job.reason) }
        p { "It is " b { (stand) } @if let Some(why) = &job.why { ": " (why) } }
        p { label for="progress" { (grouped(job.past())) " of " (grouped(total)) } " "
            progress #progress max=(total) value=(job.past()) { } }
        p { (grouped(job.done)) " done, " (grouped(job.gone)) " were not there any more, "
            (grouped(job.failed)) " failed." }
        @if job.is_alive() {
            form.acts method="post" action="/console/job" {
                @if job.stand == Stand::Paused { button name="do" value="resume" { "Go on" } }
                @else { button name="do" value="pause" { "Pause" } }
                " " button name="do" value="stop" { "Stop" }
                " " a href="/console/job" { "Look again" }
            }
        }
        @if !job.failures.is_empty() {
            (table("What failed, at most 100", &["Id", "Why"], html! {
                @for (id, why) in &job.failures {
                    tr { th.id scope="row" { (id) } td { (why) } }
                }
            }))
        }
    }
}
