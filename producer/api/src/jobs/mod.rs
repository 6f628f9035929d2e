//! Jobs: bulk jobs and audits, which go on after whoever has begun them was answered.
//!
//! Owns beginning, steering and showing them. Each server looks every few seconds for a job that
//! nobody has, takes it by a guarded update, and goes on where the one before it has come to
//! (`runner`). So a job is of the ledger and not of a server: every one shows it, pauses it and
//! stops it; it outlives restarts; and when the server that has it is lost, another one goes on
//! when the lease has run out ([`mongo::JOB_LEASE`]). What is done twice then does no harm: each
//! item is guarded by its own state, and is found gone.
//!
//! Promises that a job is durable when it is told as begun, that one bulk job and one audit are
//! alive at a time, and that a server that stops gives its jobs back. Fails with a [`Problem`]
//! where a job can't be begun or steered; a job that can't go on pauses, and says why.

mod actor;
mod audit;
mod bulk;
mod decide;
mod holding;
mod runner;

use std::sync::Arc;

use client::ActSubject;
use ledger::limits::echo;
use mongo::{JobKind, JobProgress, JobWish, NewJob, SeenJob};
use tokio::sync::Notify;

use super::Api;
use super::acting::Person;
use super::dispatch::{changing, within_limit};
use super::problem::{Code, Problem};
use super::routes;
use super::tokens::Caller;

pub use self::decide::FAILURES_MAX;
pub use self::runner::watch;

/// The most jobs that a list has.
pub const LISTED_MAX: u32 = 50;

/// Wakes whoever looks for jobs.
#[derive(Default)]
pub struct Jobs(Notify);

/// What a job is to do.
pub struct JobOrder {
    /// What it is.
    pub kind: JobKind,
    /// The operation that it does with each item, or that of the audit.
    pub operation: &'static str,
    /// What it is about, in words.
    pub words: String,
    /// The same, as an act names it.
    pub on: ActSubject,
    /// The ids of its items; none of an audit.
    pub ids: Vec<String>,
}

/// The names of the acts by which somebody begins and steers a job, and what becomes of it.
fn named(kind: JobKind, wish: Option<JobWish>) -> (&'static str, &'static str) {
    match (kind, wish) {
        (JobKind::Bulk, None) => ("job.begin", "it was begun; each item is an act of its own"),
        (JobKind::Bulk, Some(JobWish::GoOn)) => ("job.resume", "it goes on"),
        (JobKind::Bulk, Some(JobWish::Pause)) => {
            ("job.pause", "it is paused after the items that are under way")
        }
        (JobKind::Bulk, Some(JobWish::Stop)) => {
            ("job.stop", "it is stopped after the items that are under way")
        }
        (JobKind::Audit, None) => ("audit.begin", "it was begun; the console shows what it finds"),
        (JobKind::Audit, Some(JobWish::GoOn)) => ("audit.resume", "it begins again"),
        (JobKind::Audit, Some(JobWish::Pause)) => ("audit.pause", "it is broken off, and waits"),
        (JobKind::Audit, Some(JobWish::Stop)) => ("audit.stop", "it is stopped"),
    }
}

impl Api {
    /// Begins a job for somebody in the console, and notes that as an act; returns its id.
    ///
    /// # Errors
    /// While another one of its kind is alive; where the caller may not do it; when it can't be
    /// stored.
    pub async fn begin_job(
        self: &Arc<Api>,
        (caller, person): (Arc<Caller>, Person),
        order: JobOrder,
    ) -> Result<String, Problem> {
        let api = self.clone();
        let begin = async move {
            let (what, told) = named(order.kind, None);
            let on = order.on.clone();
            let who = (&*caller, &person);
            api.note_act(who, (what, on), api.begun(who, order), told).await
        };
        changing(self, "beginJob", begin).await
    }

    async fn begun(
        &self,
        (caller, person): (&Caller, &Person),
        order: JobOrder,
    ) -> Result<String, Problem> {
        routes::named(order.operation).admit(caller)?;
        let JobOrder { kind, operation, words, on, ids } = order;
        let another = || {
            let what = match kind {
                JobKind::Bulk => "another job is under way: let it end, or stop it",
                JobKind::Audit => "an audit is running: let it end, or stop it",
            };
            Problem::new(Code::RateLimited, what)
        };
        let id = uuid::Uuid::now_v7().to_string();
        let job = NewJob {
            kind,
            operation: operation.to_owned(),
            words,
            on,
            reason: person.reason.as_deref().map(|reason| echo(reason).into_owned()),
            actor: actor::of(self, &id, (caller, person)),
            total: ids.len() as u64,
            id,
        };
        let store = self.client.store();
        let alive = self.client.insist(|| store.alive_jobs()).await.map_err(of_a_look)?;
        if alive.iter().any(|alive| alive.kind == kind) {
            return Err(another());
        }
        // Items without their job are never looked at.
        if !ids.is_empty() {
            let items = self.client.insist(|| store.insert_job_items(&job.id, &ids)).await;
            items.map_err(of_a_look)?;
        }
        if !self.client.insist(|| store.begin_job(&job)).await? {
            return Err(another());
        }
        let what = (&*job.id, operation, &*job.words, job.total);
        log(what, (&caller.name, &person.request), "started", &JobProgress::default());
        self.jobs.0.notify_one();
        Ok(job.id)
    }

    /// Lets a job go on, pause or stop, as somebody in the console wants, and notes that as an act.
    /// Who lets it go on is the one in whose name it acts from then on.
    ///
    /// # Errors
    /// When there is none that goes on; where the caller may not do it; when it can't be stored.
    pub async fn steer_job(
        self: &Arc<Api>,
        (caller, person): (Arc<Caller>, Person),
        job: Option<SeenJob>,
        wish: JobWish,
    ) -> Result<(), Problem> {
        let api = self.clone();
        let steer = async move {
            let kind = job.as_ref().map_or(JobKind::Bulk, |job| job.kind);
            let on = job.as_ref().map_or_else(ActSubject::ledger, |job| job.on.clone());
            let (what, told) = named(kind, Some(wish));
            let who = (&*caller, &person);
            api.note_act(who, (what, on), api.steered(who, job, wish), told).await
        };
        changing(self, "steerJob", steer).await
    }

    async fn steered(
        &self,
        (caller, person): (&Caller, &Person),
        job: Option<SeenJob>,
        wish: JobWish,
    ) -> Result<(), Problem> {
        let none = || Problem::new(Code::WrongState, "there is no job that goes on");
        let job = job.ok_or_else(none)?;
        let actor = match wish {
            JobWish::GoOn => {
                if let Some(operation) = bulk::operation(&job) {
                    operation.admit(caller)?;
                }
                Some(actor::of(self, &job.id, (caller, person)))
            }
            JobWish::Pause | JobWish::Stop => None,
        };
        let store = self.client.store();
        let write = || store.wish_for_job(&job.id, wish, actor.as_ref());
        if !self.client.insist(write).await? {
            return Err(none());
        }
        let event = match wish {
            JobWish::GoOn => "goes on",
            JobWish::Pause => "is paused",
            JobWish::Stop => "is stopped",
        };
        let what = (&*job.id, &*job.operation, &*job.words, job.total);
        log(what, (&caller.name, &person.request), event, &job.progress);
        self.jobs.0.notify_one();
        Ok(())
    }

    /// A job, if there is one of this id.
    ///
    /// # Errors
    /// When the database stays away.
    pub async fn job(self: &Arc<Api>, id: &str) -> Result<Option<SeenJob>, Problem> {
        let (api, id) = (self.clone(), id.to_owned());
        let look = async move { Ok(api.client.insist(|| api.client.store().job(&id)).await?) };
        within_limit(self, "job", look).await
    }

    /// The last job of a kind, if there was one.
    ///
    /// # Errors
    /// When the database stays away.
    pub async fn last_job(self: &Arc<Api>, kind: JobKind) -> Result<Option<SeenJob>, Problem> {
        let api = self.clone();
        let look =
            async move { Ok(api.client.insist(|| api.client.store().last_job(kind)).await?) };
        within_limit(self, "lastJob", look).await
    }

    /// The last jobs, at most [`LISTED_MAX`], the newest first.
    ///
    /// # Errors
    /// When the database stays away.
    pub async fn last_jobs(self: &Arc<Api>) -> Result<Vec<SeenJob>, Problem> {
        let api = self.clone();
        let look = async move {
            Ok(api.client.insist(|| api.client.store().last_jobs(LISTED_MAX)).await?)
        };
        within_limit(self, "lastJobs", look).await
    }
}

fn of_a_look(error: client::Error) -> Problem {
    Problem::from(error).of_a_look()
}

/// A line in the log for people, about a job: its id, what it does with what, and how many.
fn log(
    (id, operation, of, items): (&str, &str, &str, u64),
    (who, request): (&str, &str),
    event: &str,
    progress: &JobProgress,
) {
    let act = routes::all().find(|one| one.name == operation).and_then(|one| one.act.as_ref());
    let act = act.map_or(operation, |act| act.what);
    let JobProgress { done, gone, failed, .. } = progress;
    tracing::info!(
        target: "operator",
        who,
        job = act,
        id,
        event,
        of,
        items,
        done,
        gone,
        failed,
        request,
    );
}
