//! The guarded updates of a job: taking it, noting how far it has come, giving it back, ending it,
//! and what people wish.
//!
//! Promises that each of them may be sent twice, and that one that finds the job changed says so
//! (`None` or `false`) and changes nothing. All texts go in as literals, so that none of them is
//! taken for an expression.

use std::time::Duration;

use ledger::LedgerError;
use mongodb::bson::{Bson, Document, doc};

use super::{JobActor, JobEnd, JobProgress, JobState, JobWish, SeenJob};
use crate::Store;
use crate::own::JOB;

/// How long a server has a job without saying again that it goes on with it.
pub const JOB_LEASE: Duration = Duration::from_secs(10);

/// What a server learns when it says that it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobBeat {
    /// What is wanted of the job.
    pub wish: JobWish,
    /// In whose name it acts.
    pub actor: JobActor,
}

/// How a server gives a job back that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRest {
    /// Because somebody wants it to pause.
    Paused,
    /// Because it can't go on before somebody has put that right.
    PausedItself(String),
    /// Because the server stops: another one goes on.
    Released,
}

/// The moment at which a lease ends that is written now.
fn lease_end() -> Document {
    let lease_ms = i64::try_from(JOB_LEASE.as_millis()).expect("seconds");
    doc! { "$add": ["$$NOW", lease_ms] }
}

/// Each field as a literal.
fn literal(fields: Document) -> Document {
    let fields = fields.into_iter();
    fields.map(|(name, value)| (name, Bson::from(doc! { "$literal": value }))).collect()
}

/// A job that is alive, with this number of its lease.
fn held(id: &str, lease: i64) -> Document {
    let mut filter = alive(id);
    filter.insert("lease", lease);
    filter
}

fn alive(id: &str) -> Document {
    let mut filter = JOB.named(id);
    filter.insert("alive", doc! { "$type": "string" });
    filter
}

/// The fields that a server's giving back changes, and what it compares beside the lease.
fn resting(rest: &JobRest) -> (Document, Document) {
    let mut set = doc! { "leaseUntil": Bson::Null };
    let compared = match rest {
        JobRest::Paused => {
            set.insert("state", JobState::Paused.as_str());
            doc! { "wish": JobWish::Pause.as_str() }
        }
        JobRest::PausedItself(why) => {
            set.extend(doc! {
                "state": JobState::Paused.as_str(), "wish": JobWish::Pause.as_str(), "why": why,
            });
            // Whoever wants it stopped at this moment gets that.
            doc! { "wish": JobWish::GoOn.as_str() }
        }
        JobRest::Released => doc! {},
    };
    (set, compared)
}

/// The fields that a wish changes. Where no server has the job, nobody else would carry it out.
fn wished(wish: JobWish, actor: Option<&JobActor>) -> Document {
    let is_held = doc! { "$gt": ["$leaseUntil", "$$NOW"] };
    let unless_held = |field: &str, value: Bson| {
        doc! { "$cond": [&is_held, format!("${field}"), value] }
    };
    let mut set = literal(doc! { "wish": wish.as_str(), "why": Bson::Null });
    match wish {
        JobWish::GoOn => {
            set.extend(literal(doc! { "losses": 0_i64 }));
            set.extend(actor.map(|actor| {
                ("actor".to_owned(), doc! { "$literal": actor.to_document() }.into())
            }));
        }
        JobWish::Pause => {
            set.insert("state", unless_held("state", JobState::Paused.as_str().into()));
        }
        JobWish::Stop => {
            set.insert("state", unless_held("state", JobState::Stopped.as_str().into()));
            set.insert("alive", unless_held("alive", Bson::Null));
            set.insert("endedAt", unless_held("endedAt", "$$NOW".into()));
        }
    }
    set
}

impl Store {
    /// Takes a job that was seen to be free. Returns it as it is then; none if another server was
    /// first, or somebody wants it to rest.
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away or refuses. One that was taken
    /// unknowingly is free again when its lease has run out.
    pub async fn take_job(
        &self,
        seen: &SeenJob,
        holder: &str,
    ) -> Result<Option<SeenJob>, LedgerError> {
        let mut filter = held(&seen.id, seen.lease);
        filter.insert("wish", doc! { "$ne": JobWish::Pause.as_str() });
        filter.insert("$expr", doc! { "$not": [{ "$gt": ["$leaseUntil", "$$NOW"] }] });
        let was_lost = doc! { "$eq": [{ "$type": "$leaseUntil" }, "date"] };
        let set = doc! {
            "lease": { "$add": ["$lease", 1_i64] },
            "leaseUntil": lease_end(),
            "holder": { "$literal": holder },
            "state": JobState::Running.as_str(),
            "losses": { "$add": ["$losses", { "$cond": [was_lost, 1_i64, 0_i64] }] },
            "begun": { "$add": ["$begun", 1_i64] },
        };
        let taken = self.change_job("take job", filter, set, doc! {}).await?;
        Ok(taken.as_ref().and_then(SeenJob::parse))
    }

    /// Notes how far a job has come, and that its server goes on with it. None if the job is not
    /// its own any more, or over.
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away or refuses.
    pub async fn beat_job(
        &self,
        id: &str,
        lease: i64,
        progress: &JobProgress,
        with_failures: bool,
    ) -> Result<Option<JobBeat>, LedgerError> {
        let mut set = literal(progress.to_document(with_failures));
        set.insert("leaseUntil", lease_end());
        let fields = doc! { "wish": 1, "actor": 1 };
        let found = self.change_job("beat job", held(id, lease), set, fields).await?;
        let read = |found: Document| {
            let wish = found.get_str("wish").ok()?;
            Some(JobBeat {
                wish: JobWish::ALL.into_iter().find(|one| one.as_str() == wish)?,
                actor: JobActor::parse(found.get_document("actor").ok()?)?,
            })
        };
        Ok(found.and_then(read))
    }

    /// Gives a job back. Returns whether that is so: not if the job is not this server's any more,
    /// or somebody wishes something else by now.
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away or refuses.
    pub async fn rest_job(
        &self,
        id: &str,
        lease: i64,
        progress: &JobProgress,
        rest: &JobRest,
    ) -> Result<bool, LedgerError> {
        let (rests, compared) = resting(rest);
        let mut filter = held(id, lease);
        filter.extend(compared);
        let mut set = literal(progress.to_document(true));
        set.extend(literal(rests));
        let changed = self.change_job("rest job", filter, set, doc! { "_id": 1 }).await?;
        Ok(changed.is_some())
    }

    /// Ends a job. Returns whether that is so: not if the job is not this server's any more.
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away or refuses.
    pub async fn end_job(
        &self,
        id: &str,
        lease: i64,
        progress: &JobProgress,
        end: &JobEnd,
    ) -> Result<bool, LedgerError> {
        let mut set = literal(progress.to_document(true));
        set.extend(literal(doc! {
            "alive": Bson::Null,
            "state": end.state.as_str(),
            "why": end.why.as_deref(),
            "found": end.found.as_deref(),
            "leaseUntil": Bson::Null,
        }));
        set.insert("endedAt", "$$NOW");
        let changed = self.change_job("end job", held(id, lease), set, doc! { "_id": 1 }).await?;
        Ok(changed.is_some())
    }

    /// Writes what somebody wants of a job; who lets it go on is the one in whose name it acts from
    /// then on. Returns whether the job is alive, or was wished the same before.
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away or refuses.
    pub async fn wish_for_job(
        &self,
        id: &str,
        wish: JobWish,
        actor: Option<&JobActor>,
    ) -> Result<bool, LedgerError> {
        let set = wished(wish, actor);
        if self.change_job("wish", alive(id), set, doc! { "_id": 1 }).await?.is_some() {
            return Ok(true);
        }
        // An attempt whose answer was lost may have stopped it.
        let seen = self.job(id).await?;
        Ok(seen.is_some_and(|job| wish == JobWish::Stop && job.state == JobState::Stopped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acts::{ActVia, ActWho};

    #[test]
    fn a_wish_is_carried_out_at_once_only_where_no_server_has_the_job() {
        let is_held = doc! { "$gt": ["$leaseUntil", "$$NOW"] };
        let stop = wished(JobWish::Stop, None);
        let alive = doc! { "$cond": [&is_held, "$alive", Bson::Null] };
        assert_eq!(stop.get_document("alive").ok(), Some(&alive));
        let pause = wished(JobWish::Pause, None);
        let paused = doc! { "$cond": [&is_held, "$state", "paused"] };
        assert_eq!(pause.get_document("state").ok(), Some(&paused));
        assert!(!pause.contains_key("alive"), "a paused job is not over");
        assert!(!wished(JobWish::GoOn, None).contains_key("state"), "who takes it says so");
    }

    #[test]
    fn who_lets_a_job_go_on_is_its_actor_and_no_name_is_an_expression() {
        let who = ActWho {
            name: "$$ROOT".to_owned(),
            person: None,
            via: ActVia::Console,
            from: None,
            claimed: false,
            request: None,
        };
        let actor = JobActor { who, sealed: "$x".to_owned() };
        let set = wished(JobWish::GoOn, Some(&actor));
        let literal = doc! { "$literal": actor.to_document() };
        assert_eq!(set.get_document("actor").ok(), Some(&literal));
        assert!(!wished(JobWish::Stop, None).contains_key("actor"));
    }

    #[test]
    fn a_job_pauses_by_itself_only_while_nobody_wants_something_else() {
        let (set, compared) = resting(&JobRest::PausedItself("away".to_owned()));
        assert_eq!(compared, doc! { "wish": "go-on" });
        let text = |name| set.get_str(name).ok();
        assert_eq!((text("wish"), text("why")), (Some("pause"), Some("away")));
        let (set, compared) = resting(&JobRest::Released);
        assert_eq!((set, compared), (doc! { "leaseUntil": Bson::Null }, doc! {}));
        assert_eq!(resting(&JobRest::Paused).1, doc! { "wish": "pause" });
    }
}
