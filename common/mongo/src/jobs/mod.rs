//! Jobs: what goes on for some time after somebody has asked for it, at whichever server.
//!
//! Owns the collection `tandem.jobs`. A job has a document, and a bulk job has its items beside it,
//! 500 a document, which never change:
//!
//! ```text
//! { _id, kind, alive, task, at, operation, words, on, who, reason, actor: { who, sealed }, total,
//!   state, wish, why, lease, leaseUntil, holder, losses, begun,
//!   position, again, done, gone, failed, failures, read, reading, endedAt, found }
//! { _id: "ID.items.N", kind, job: ID, ids }
//! ```
//!
//! Promises that one job of each kind is alive (`alive` is unique, and null of one that is over);
//! that a server changes a job only while it has the lease: it takes it with a new number, by an
//! update that compares the number before and the server's clock, and each later write of it
//! compares its own. So when the server that has it
//!
//! - dies: its lease runs out, and another one goes on from what was noted last;
//! - stalls for an hour and goes on: its writes change nothing, and it learns that the job is not
//!   its own any more;
//! - stops: it gives the lease back, and the next one need not wait.
//!
//! What people wish is written without a lease. Where no server has the job, the same update pauses
//! or stops it. All moments are of the server's clock. Jobs are kept for ever, like acts. Fails
//! with an error of the command.

mod documents;
mod letters;
mod steps;

use ledger::LedgerError;
use mongodb::Collection;
use mongodb::bson::{
    Bson, DateTime, Document, RawArrayBuf, RawDocument, RawDocumentBuf, doc, rawdoc,
};
use mongodb::options::ReturnDocument;

use self::documents::texts;
use super::Store;
use super::index::Index;
use super::names::{ALIVE, BY_TIME, JOBS};
use super::own::JOB;
use super::read::Fields;
use super::statements::raw;
use super::write::none_refused;

pub use self::documents::{
    JobActor, JobEnd, JobKind, JobProgress, JobState, JobWish, NewJob, SeenJob,
};
pub use self::letters::LETTER_LEASE;
pub use self::steps::{JOB_LEASE, JobBeat, JobRest};

const OPERATION: &str = "jobs";

/// How many items stand in one document.
const ITEMS_A_DOCUMENT: usize = 500;

/// Fields that only the page of one job shows.
const LONG: [&str; 3] = ["again", "failures", "found"];

/// By what is alive, and by their moments. Items are in neither.
pub(super) fn indexes() -> Vec<Index> {
    let alive = || doc! { "alive": { "$type": "string" } };
    vec![
        Index { unique: true, ..Index::new(ALIVE, doc! { "alive": 1 }, alive()) },
        Index::new(BY_TIME, doc! { "at": 1, "_id": 1 }, doc! { "at": { "$type": "date" } }),
    ]
}

fn name_of_items(job: &str, number: usize) -> String {
    format!("{job}.items.{number}")
}

fn parse(document: &RawDocument) -> Option<SeenJob> {
    SeenJob::parse(&Document::try_from(document).ok()?)
}

impl Store {
    /// Stores the items of a job that is to be begun. Doing it again changes nothing.
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away or refuses.
    pub async fn insert_job_items(&self, job: &str, ids: &[String]) -> Result<(), LedgerError> {
        let documents = ids.chunks(ITEMS_A_DOCUMENT).enumerate().map(|(number, ids)| {
            let id = name_of_items(job, number);
            raw(&doc! { "_id": id, "kind": JOB.kind, "job": job, "ids": ids.to_vec() })
        });
        let left = self.insert_as("job items", JOBS, documents).await?;
        none_refused(OPERATION, left.refused.into_iter().chain(left.taken))
    }

    /// The items of a job from this position on, as many as stand in one document; none where they
    /// are not there.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn job_items(
        &self,
        job: &str,
        position: usize,
    ) -> Result<Option<Vec<String>>, LedgerError> {
        let id = name_of_items(job, position / ITEMS_A_DOCUMENT);
        let parse = |found: &Document| {
            found.get_str("kind").ok().filter(|kind| *kind == JOB.kind)?;
            texts(found.get_array("ids").ok()?)
        };
        let items = self.own_document(OPERATION, JOB, &id, parse).await?;
        Ok(items.map(|items| items.into_iter().skip(position % ITEMS_A_DOCUMENT).collect()))
    }

    /// Begins a job, which no server holds yet. Returns whether it is begun: not while another one
    /// of its kind is alive. Doing it again changes nothing.
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away or refuses.
    pub async fn begin_job(&self, job: &NewJob) -> Result<bool, LedgerError> {
        let at = DateTime::from_millis(self.server_now().await?);
        let left = self.insert_as("begin job", JOBS, [raw(&job.to_document(at))]).await?;
        none_refused("begin job", left.refused)?;
        if left.taken.is_empty() {
            return Ok(true);
        }
        // The server names one of two unique indexes. So the job in the way may be this one, which
        // an earlier attempt has inserted.
        let found = self.documents("begin job", JOBS, &[&job.id], Fields::Only(&["at"])).await?;
        Ok(!found.is_empty())
    }

    /// A job, if there is one of this id.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn job(&self, id: &str) -> Result<Option<SeenJob>, LedgerError> {
        let one = rawdoc! { "$match": raw(&JOB.named(id)) };
        Ok(self.jobs_of(OPERATION, vec![one], 1).await?.pop())
    }

    /// The jobs that are alive, at most one of each kind.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn alive_jobs(&self) -> Result<Vec<SeenJob>, LedgerError> {
        let kinds = JobKind::ALL.map(JobKind::as_str);
        let alive = doc! { "$type": "string", "$in": kinds.to_vec() };
        let found = doc! { "alive": alive, "kind": JOB.condition() };
        self.jobs_of("alive jobs", vec![rawdoc! { "$match": raw(&found) }], kinds.len()).await
    }

    /// The last jobs, the newest first, without what only the page of one shows.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn last_jobs(&self, limit: u32) -> Result<Vec<SeenJob>, LedgerError> {
        let mut pipeline = newest(None, limit.into());
        pipeline.push(rawdoc! { "$unset": LONG.into_iter().collect::<RawArrayBuf>() });
        self.jobs_of(OPERATION, pipeline, limit as usize).await
    }

    /// The last job of a kind, if there was one.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn last_job(&self, kind: JobKind) -> Result<Option<SeenJob>, LedgerError> {
        Ok(self.jobs_of(OPERATION, newest(Some(kind), 1), 1).await?.pop())
    }

    async fn jobs_of(
        &self,
        operation: &'static str,
        pipeline: Vec<RawDocumentBuf>,
        most: usize,
    ) -> Result<Vec<SeenJob>, LedgerError> {
        let clock = rawdoc! { "$set": { "now": "$$NOW" } };
        let pipeline: RawArrayBuf = pipeline.into_iter().chain([clock]).collect();
        // A document that makes no sense is none.
        self.aggregate(operation, JOBS, pipeline, most, parse).await
    }

    /// Changes the job that the filter finds, by expressions. Returns the fields that were asked
    /// for, as they are then, or all if none were; nothing if the filter finds no job.
    async fn change_job(
        &self,
        operation: &'static str,
        filter: Document,
        set: Document,
        fields: Document,
    ) -> Result<Option<Document>, LedgerError> {
        let collection: Collection<Document> = self.database.collection(JOBS);
        let update = vec![doc! { "$set": set }];
        let change = async move {
            let change = collection.find_one_and_update(filter, update).projection(fields);
            change.return_document(ReturnDocument::After).comment(tagged(operation)).await
        };
        self.limited(operation, change).await
    }
}

/// What the server's profiler shows of a command.
fn tagged(operation: &str) -> Bson {
    Bson::from(format!("tandem {operation}"))
}

fn newest(kind: Option<JobKind>, limit: i64) -> Vec<RawDocumentBuf> {
    let mut found = doc! { "at": { "$type": "date" }, "kind": JOB.condition() };
    found.extend(kind.map(|kind| ("task".to_owned(), kind.as_str().into())));
    vec![
        rawdoc! { "$match": raw(&found) },
        rawdoc! { "$sort": { "at": -1, "_id": -1 } },
        rawdoc! { "$limit": limit },
    ]
}
