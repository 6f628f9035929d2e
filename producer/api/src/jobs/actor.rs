//! In whose name a job acts: a token, which the job names so that only servers can read it.
//!
//! Owns the sealing: the digest of the token, sealed with the key of the console's sessions under
//! the id of the job, so it opens neither a session nor another job. Promises that a job has the
//! scopes that its token has at that moment, and nothing without it. Fails with a sentence that
//! says what to do.

use std::sync::Arc;

use bson::DateTime;
use ledger::hex::{from_hex, hex};
use mongo::{JobActor, SeenJob};

use crate::Api;
use crate::acting::Person;
use crate::problem::{Code, Problem};
use crate::tokens::{Caller, Tokens};

/// What can be done where a job has nobody in whose name it acts.
const REMEDY: &str = "whoever lets it go on is the one in whose name it acts from then on";

/// Under which name the token of a job is sealed.
fn name(job: &str) -> String {
    format!("tandem_job.{job}")
}

/// Somebody in whose name a job acts from now on.
pub fn of(api: &Api, job: &str, (caller, person): (&Caller, &Person)) -> JobActor {
    let sealed = api.session_keys().seal(&name(job), &hex(&caller.digest()));
    JobActor { who: person.who(caller), sealed }
}

/// Who that is, with the scopes of now.
///
/// # Errors
/// When the key, or the token, is gone.
pub fn again(api: &Api, job: &SeenJob, actor: &JobActor) -> Result<(Arc<Caller>, Person), Problem> {
    let refused = |why: &str| Problem::new(Code::Unauthorized, format!("{why}: {REMEDY}"));
    let who = &actor.who;
    let caller = match &*api.tokens() {
        Tokens::Everybody(anybody) => anybody.clone(),
        known @ Tokens::Known(_) => {
            let opened = api.session_keys().open(&name(&job.id), &actor.sealed);
            let digest = opened.and_then(|digest| from_hex(&digest)).ok_or_else(|| {
                refused("this server has not the key by which it would know whose job it is")
            })?;
            let caller = known.again(&digest, DateTime::now()).cloned();
            caller.ok_or_else(|| {
                let name = &who.name;
                refused(&format!("the token {name:?} is gone, or has expired"))
            })?
        }
    };
    let person = Person {
        name: who.person.clone(),
        from: who.from.as_deref().and_then(|from| from.parse().ok()),
        request: who.request.clone().unwrap_or_default(),
        reason: job.reason.clone(),
    };
    Ok((caller, person))
}
