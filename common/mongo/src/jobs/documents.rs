//! The documents of jobs: how they are written and read. Pure.
//!
//! Promises that foreign text in them is cut, and that a document that makes no sense is none: it
//! is not run and not shown.

use ledger::limits::echo;
use mongodb::bson::{Array, Bson, DateTime, Document, doc};

use crate::acts::{ActSubject, ActWho};
use crate::own::JOB;

/// What a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// One act on many items.
    Bulk,
    /// An audit of the ledger.
    Audit,
}

impl JobKind {
    /// All of them.
    pub const ALL: [JobKind; 2] = [JobKind::Bulk, JobKind::Audit];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            JobKind::Bulk => "bulk",
            JobKind::Audit => "audit",
        }
    }
}

/// What somebody wants of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobWish {
    /// That it goes on.
    GoOn,
    /// That it pauses.
    Pause,
    /// That it stops for good.
    Stop,
}

impl JobWish {
    /// All of them.
    pub const ALL: [JobWish; 3] = [JobWish::GoOn, JobWish::Pause, JobWish::Stop];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            JobWish::GoOn => "go-on",
            JobWish::Pause => "pause",
            JobWish::Stop => "stop",
        }
    }
}

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It goes on, or waits for a server that goes on with it.
    Running,
    /// It waits for somebody who lets it go on.
    Paused,
    /// Somebody has stopped it.
    Stopped,
    /// It has come to its end.
    Ended,
    /// It can't be brought to its end.
    Broken,
}

impl JobState {
    /// All of them.
    pub const ALL: [JobState; 5] =
        [JobState::Running, JobState::Paused, JobState::Stopped, JobState::Ended, JobState::Broken];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Running => "running",
            JobState::Paused => "paused",
            JobState::Stopped => "stopped",
            JobState::Ended => "ended",
            JobState::Broken => "broken",
        }
    }

    /// Whether it is not over.
    #[must_use]
    pub fn is_alive(self) -> bool {
        match self {
            JobState::Running | JobState::Paused => true,
            JobState::Stopped | JobState::Ended | JobState::Broken => false,
        }
    }
}

/// In whose name a job acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobActor {
    /// As acts name them.
    pub who: ActWho,
    /// Which token that is, sealed by whoever runs jobs: nobody who reads the database learns it.
    pub sealed: String,
}

impl JobActor {
    pub(super) fn to_document(&self) -> Document {
        doc! { "who": self.who.to_document(), "sealed": &self.sealed }
    }

    pub(super) fn parse(actor: &Document) -> Option<JobActor> {
        let who = ActWho::parse(actor.get_document("who").ok()?)?;
        Some(JobActor { who, sealed: actor.get_str("sealed").ok()?.to_owned() })
    }
}

/// A job that somebody begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Of this job alone.
    pub id: String,
    /// What it is.
    pub kind: JobKind,
    /// The name of the operation that it does with each item, or of the audit.
    pub operation: String,
    /// What it is about, in words.
    pub words: String,
    /// The same, as an act names it.
    pub on: ActSubject,
    /// Why.
    pub reason: Option<String>,
    /// Who begins it, in whose name it acts.
    pub actor: JobActor,
    /// How many items it has.
    pub total: u64,
}

impl NewJob {
    /// The document, which no server holds yet.
    pub(super) fn to_document(&self, at: DateTime) -> Document {
        let mut document = doc! {
            "_id": &self.id,
            "kind": JOB.kind,
            "alive": self.kind.as_str(),
            "task": self.kind.as_str(),
            "at": at,
            "operation": &self.operation,
            "words": &*echo(&self.words),
            "on": self.on.to_document(),
            "who": self.actor.who.to_document(),
            "actor": self.actor.to_document(),
            "total": number(self.total),
            "state": JobState::Running.as_str(),
            "wish": JobWish::GoOn.as_str(),
            "why": Bson::Null,
            "lease": 0_i64,
            "leaseUntil": Bson::Null,
            "holder": "",
            "losses": 0_i64,
            "begun": 0_i64,
        };
        document.extend(JobProgress::default().to_document(true));
        document.insert("reason", self.reason.as_deref());
        document
    }
}

/// How far a job has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobProgress {
    /// The items before this position were tried.
    pub position: u64,
    /// Those of them that have to be tried again.
    pub again: Vec<String>,
    /// Items that are done.
    pub done: u64,
    /// Items that were not there any more.
    pub gone: u64,
    /// Items that failed.
    pub failed: u64,
    /// The first of these, each with the reason.
    pub failures: Vec<(String, String)>,
    /// Documents that an audit has read.
    pub read: u64,
    /// What these are.
    pub reading: String,
}

impl JobProgress {
    /// The fields. The failures are many bytes, and seldom more than before.
    pub(super) fn to_document(&self, with_failures: bool) -> Document {
        let mut fields = doc! {
            "position": number(self.position),
            "again": &self.again,
            "done": number(self.done),
            "gone": number(self.gone),
            "failed": number(self.failed),
            "read": number(self.read),
            "reading": &self.reading,
        };
        if with_failures {
            let failure =
                |(id, why): &(String, String)| Bson::from(doc! { "id": id, "why": &*echo(why) });
            fields.insert("failures", self.failures.iter().map(failure).collect::<Array>());
        }
        fields
    }

    fn parse(document: &Document) -> Option<JobProgress> {
        // A list of jobs is read without these.
        let list = |name| document.get_array(name).map_or(&[][..], Vec::as_slice);
        let failure = |one: &Bson| {
            let one = one.as_document()?;
            Some((one.get_str("id").ok()?.to_owned(), one.get_str("why").ok()?.to_owned()))
        };
        Some(JobProgress {
            position: count(document, "position")?,
            again: texts(list("again"))?,
            done: count(document, "done")?,
            gone: count(document, "gone")?,
            failed: count(document, "failed")?,
            failures: list("failures").iter().map(failure).collect::<Option<_>>()?,
            read: count(document, "read")?,
            reading: document.get_str("reading").ok()?.to_owned(),
        })
    }
}

/// A job as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenJob {
    /// Its id.
    pub id: String,
    /// What it is.
    pub kind: JobKind,
    /// When it was begun.
    pub at: DateTime,
    /// The name of the operation that it does with each item.
    pub operation: String,
    /// What it is about, in words.
    pub words: String,
    /// The same, as an act names it.
    pub on: ActSubject,
    /// Who has begun it.
    pub who: ActWho,
    /// In whose name it acts now.
    pub actor: JobActor,
    /// Why it was begun.
    pub reason: Option<String>,
    /// How many items it has.
    pub total: u64,
    /// How it stands.
    pub state: JobState,
    /// What somebody wants of it.
    pub wish: JobWish,
    /// Why it has paused by itself, or is broken.
    pub why: Option<String>,
    /// The number of the lease: each server that takes the job counts one on.
    pub lease: i64,
    /// Until when a server has it; none where no server has.
    pub lease_until: Option<DateTime>,
    /// The server that has it, or had it last.
    pub holder: String,
    /// How many servers were lost with it since somebody has let it go on.
    pub losses: u64,
    /// How often a server has begun with it, or gone on.
    pub begun: u64,
    /// How far it has come.
    pub progress: JobProgress,
    /// When it ended.
    pub ended_at: Option<DateTime>,
    /// What an audit has found, as JSON.
    pub found: Option<String>,
    /// The server's clock when this was read; of a job that was just taken, no later than that.
    pub now: DateTime,
}

impl SeenJob {
    pub(super) fn parse(document: &Document) -> Option<SeenJob> {
        document.get_str("kind").ok().filter(|kind| *kind == JOB.kind)?;
        let text = |name| document.get_str(name).ok().map(str::to_owned);
        let date = |name| document.get_datetime(name).ok().copied();
        let (kind, state, wish) = (text("task")?, text("state")?, text("wish")?);
        Some(SeenJob {
            id: text("_id")?,
            kind: JobKind::ALL.into_iter().find(|one| one.as_str() == kind)?,
            at: date("at")?,
            operation: text("operation")?,
            words: text("words")?,
            on: ActSubject::parse(document.get_document("on").ok()?)?,
            who: ActWho::parse(document.get_document("who").ok()?)?,
            actor: JobActor::parse(document.get_document("actor").ok()?)?,
            reason: text("reason"),
            total: count(document, "total")?,
            state: JobState::ALL.into_iter().find(|one| one.as_str() == state)?,
            wish: JobWish::ALL.into_iter().find(|one| one.as_str() == wish)?,
            why: text("why"),
            lease: document.get_i64("lease").ok()?,
            lease_until: date("leaseUntil"),
            holder: text("holder")?,
            losses: count(document, "losses")?,
            begun: count(document, "begun")?,
            progress: JobProgress::parse(document)?,
            ended_at: date("endedAt"),
            found: text("found"),
            now: date("now").or_else(|| date("at"))?,
        })
    }

    /// Whether some server has it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.lease_until.is_some_and(|until| until > self.now)
    }

    /// Whether a server may take it: nobody has it, and somebody wants it to go on or to stop.
    #[must_use]
    pub fn is_free(&self) -> bool {
        let is_wanted = match self.wish {
            JobWish::GoOn | JobWish::Stop => true,
            JobWish::Pause => false,
        };
        self.state.is_alive() && is_wanted && !self.is_held()
    }
}

/// How a job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// `Stopped`, `Ended` or `Broken`.
    pub state: JobState,
    /// Why, where it is broken.
    pub why: Option<String>,
    /// What an audit has found, as JSON.
    pub found: Option<String>,
}

/// The texts of a list; none where it has something else.
pub(super) fn texts(list: &[Bson]) -> Option<Vec<String>> {
    list.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn count(document: &Document, name: &str) -> Option<u64> {
    document.get_i64(name).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acts::{ActVia, SubjectKind};

    fn job() -> NewJob {
        let who = ActWho {
            name: "olivia".to_owned(),
            person: None,
            via: ActVia::Console,
            from: None,
            claimed: false,
            request: None,
        };
        NewJob {
            id: "j".to_owned(),
            kind: JobKind::Bulk,
            operation: "replayParked".to_owned(),
            words: "parked transactions".to_owned(),
            on: ActSubject::unnamed(SubjectKind::Transaction, Some(400)),
            reason: Some("mended".to_owned()),
            actor: JobActor { who, sealed: "sealed".to_owned() },
            total: 400,
        }
    }

    fn seen(change: impl FnOnce(&mut Document)) -> Option<SeenJob> {
        let mut document = job().to_document(DateTime::from_millis(1));
        document.insert("now", DateTime::from_millis(100));
        change(&mut document);
        SeenJob::parse(&document)
    }

    #[test]
    fn a_job_is_read_as_it_was_begun_and_what_makes_no_sense_is_none() {
        let read = seen(|_| {}).expect("it is one");
        let NewJob { id, operation, words, on, reason, actor, total, .. } = job();
        assert_eq!((read.id, read.operation, read.words), (id, operation, words));
        assert_eq!((read.on, read.reason, read.total), (on, reason, total));
        assert_eq!((read.actor, read.progress), (actor, JobProgress::default()));
        for (field, value) in [
            ("kind", Bson::from("party")),
            ("task", "dance".into()),
            ("state", 7.into()),
            ("wish", "forever".into()),
            ("position", (-1_i64).into()),
            ("again", vec![Bson::from(7)].into()),
            ("actor", "olivia".into()),
        ] {
            assert_eq!(seen(|it| drop(it.insert(field, value))), None, "{field}");
        }
    }

    #[test]
    fn progress_is_read_as_it_was_noted() {
        let progress = JobProgress {
            position: 16,
            again: vec!["t7".to_owned()],
            done: 13,
            gone: 1,
            failed: 1,
            failures: vec![("t3".to_owned(), "no".to_owned())],
            read: 5,
            reading: "accounts".to_owned(),
        };
        assert_eq!(JobProgress::parse(&progress.to_document(true)), Some(progress.clone()));
        let without = JobProgress { failures: vec![], ..progress.clone() };
        assert_eq!(JobProgress::parse(&progress.to_document(false)), Some(without));
    }

    #[test]
    fn a_job_is_taken_by_whoever_comes_only_when_nobody_has_it_and_nobody_wants_it_to_rest() {
        let at = |ms| Bson::from(DateTime::from_millis(ms));
        for (until, wish, state, is_free) in [
            (Bson::Null, "go-on", "running", true),
            (at(100), "go-on", "running", true),
            (at(101), "go-on", "running", false),
            (Bson::Null, "go-on", "paused", true),
            (Bson::Null, "pause", "paused", false),
            (at(99), "pause", "running", false),
            (at(99), "stop", "running", true),
            (Bson::Null, "stop", "stopped", false),
            (Bson::Null, "go-on", "ended", false),
            (Bson::Null, "go-on", "broken", false),
        ] {
            let read = seen(|it| {
                it.insert("leaseUntil", until.clone());
                it.insert("wish", wish);
                it.insert("state", state);
            });
            let told = format!("{until} {wish} {state}");
            assert_eq!(read.expect("it is one").is_free(), is_free, "{told}");
        }
    }
}
